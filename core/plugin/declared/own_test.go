package declared

import (
	"strings"
	"testing"
)

func TestOwnFolder(t *testing.T) {
	for _, tt := range []struct{ glob, args, want, folder string }{
		{"runs/*/*.pt", "--out runs/b", "runs/b/*.pt", "/w/runs/b"},
		{"runs/*/*.pt", "--out=runs/b/", "runs/b/*.pt", "/w/runs/b"},
		{"runs/*/*.pt", "--out ./runs/b", "runs/b/*.pt", "/w/runs/b"},
		{"runs/*/*.pt", "--out /w/runs/b", "runs/b/*.pt", "/w/runs/b"},
		{"/data/*/*.pt", "--output_dir /data/b", "/data/b/*.pt", "/data/b"},
		{"runs/*/*.pt", "out_dir=runs/b", "runs/b/*.pt", "/w/runs/b"},
		{"runs/*/ckpt/checkpoint-*", "--work-dir runs/b", "runs/b/ckpt/checkpoint-*", "/w/runs/b"},
		{"runs/*/*.pt", "--out runs/[b]", `runs/\[b]/*.pt`, "/w/runs/[b]"},
		// What does not tell it: an option that names what is read, a folder elsewhere, two of them, a glob without a pattern.
		{"runs/*/*.pt", "--init runs/b", "runs/*/*.pt", ""},
		{"runs/*/*.pt", "--checkpoint runs/b --resume-from runs/c", "runs/*/*.pt", ""},
		{"runs/*/*.pt", "--out /other/runs/b", "runs/*/*.pt", ""},
		{"runs/*/*.pt", "--out runs/b --log-dir runs/c", "runs/*/*.pt", ""},
		{"runs/*/*.pt", "--out runs", "runs/*/*.pt", ""},
		{"ckpt/*.pt", "--out ckpt", "ckpt/*.pt", ""},
		{"runs/*/*.pt", "--out runs/b --log-dir runs/b", "runs/b/*.pt", "/w/runs/b"},
		// As the author of the declaration says it.
		{"runs/{--name}/*.pt", "--name b", "runs/b/*.pt", "/w/runs/b"},
		{"{--where}/*.pt", "--where /big/b", "/big/b/*.pt", "/big/b"},
		{"{--where}/*.pt", "--where runs/", "runs/*.pt", "/w/runs"},
		{"{--where}/*.pt", "--where runs//b/./", "runs/b/*.pt", "/w/runs/b"},
		{"{--where}/*.pt", "--where /big//b/", "/big/b/*.pt", "/big/b"},
		{"runs/{--where}/*.pt", "--where /big//b", "/big/b/*.pt", "/big/b"},
		{"runs/{--name}/*.pt", "--name b*", `runs/b\*/*.pt`, "/w/runs/b*"},
		{"runs/{--name}/*.pt", "", "runs/*/*.pt", ""},
		{"runs/{--name}/*/x.pt", "--name b", "runs/b/*/x.pt", ""},
	} {
		args := strings.Fields(tt.args)
		value := func(option string) (string, bool) {
			for i, a := range args {
				if a == option && i+1 < len(args) {
					return args[i+1], true
				}
			}
			return "", false
		}
		got, folder := own([]string{tt.glob}, args, "/w", value)
		if got[0] != tt.want || folder != tt.folder {
			t.Errorf("%s, %s: %q in %q, want %q in %q", tt.glob, tt.args, got[0], folder, tt.want, tt.folder)
		}
	}
}
