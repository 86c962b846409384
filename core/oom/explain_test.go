package oom

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		fixture string
		want    []string // each must be in one of the lines
		not     string   // must be in none
	}{
		{"written/torch26", []string{"out of GPU memory in the training's forward pass", "] 23.7 GiB", "asked for 512 MiB more",
			"short of it by at least 300 MiB", "unet.py:77 in forward", "micro-batch of half"}, "expandable"},
		{"written/fragmented", []string{"in pieces too small", "1. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}, ""},
		{"written/limit", []string{"the limit of 4.00 GiB", "a higher memory fraction", "tiles"}, "micro-batch"},
		{"written/torch112", []string{"other processes hold about", "CUDA_VISIBLE_DEVICES"}, ""},
		{"written/shm_enospc", []string{"/dev/shm", "--shm-size"}, "micro-batch"},
		{"written/slurm_oom", []string{"killed for want of host memory", "--mem"}, "micro-batch"},
		{"written/torchrun_killed", []string{"nothing here says so", "weak:"}, ""},
		{"written/slurm_time", []string{"time limit", "--time"}, "memory"},
		{"written/open_files", []string{"not memory", "ulimit -n"}, ""},
		{"written/goes_on_after_traceback", []string{"the program went on"}, ""},
		{"written/help_text", []string{"nothing in this text"}, ""},
		{"real/optimizer", []string{"foreach=False"}, ""},
		{"real/rich_piped", []string{"more than the whole card", "once and went on"}, ""},
	} {
		t.Run(tt.fixture, func(t *testing.T) {
			lines := readIn(t, fixtureNamed(t, tt.fixture).log, whole).Explain()
			text := strings.Join(lines, "\n")
			for _, w := range tt.want {
				if !strings.Contains(text, w) {
					t.Errorf("it does not say %q:\n%s", w, text)
				}
			}
			if tt.not != "" && strings.Contains(text, tt.not) {
				t.Errorf("it says %q:\n%s", tt.not, text)
			}
			for _, l := range lines {
				if strings.ContainsAny(l, "\n\x1b") {
					t.Errorf("not a line of plain text: %q", l)
				}
			}
		})
	}
}

func fixtureNamed(t testing.TB, name string) fixture {
	t.Helper()
	for _, f := range fixtures(t) {
		if f.name == name {
			return f
		}
	}
	t.Fatalf("no fixture %s", name)
	return fixture{}
}

func TestExplainNothing(t *testing.T) {
	if got := newDetector(t, job.Signs{}).Report(Exit{}).Explain(); len(got) != 1 {
		t.Errorf("an empty text is explained as %q", got)
	}
}
