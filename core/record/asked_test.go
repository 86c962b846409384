package record

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
)

// A secret that the user asks for is not recorded. A run takes it, and its other secrets, from the command that is
// typed again as it was typed: without what --set changed.
func TestMaskAsked(t *testing.T) {
	arg := func(path, from, to string) config.Edit {
		return config.Edit{At: config.Address{Doc: config.ArgvDoc, Path: path}, From: from, To: to}
	}
	r := &run.Run{Job: &job.Job{
		Command: job.Command{Args: []string{"python", "train.py", "--lr", "2", "--token", "hush"}, Dir: t.TempDir()},
		Options: []config.Option{{Names: []string{"--lr"}}, {Names: []string{"--token"}}},
		Asked: []config.Edit{
			arg("--lr", "1", "2"), arg("logger.api_key", "old-secret", "new-secret"), arg("--wandb-token", "", "third-secret"),
			{At: config.Address{Doc: "x.yml", Path: "a"}, To: "1"},
		},
	}}
	masked := MaskRun(r)
	text, _ := json.Marshal(masked)
	if strings.Contains(string(text), "secret\"") || strings.Contains(string(text), "hush") ||
		masked.Job.Asked[0].To != "2" || masked.Job.Asked[3].To != "1" {
		t.Errorf("recorded: %s", text)
	}
	if r.Job.Asked[1].To != "new-secret" {
		t.Error("the run itself has lost its secret")
	}
	masked.Job.Asked = masked.Job.Asked[:1]
	if err := Restore(masked, []string{"python", "train.py", "--lr", "1", "--token", "hush"}); err != nil ||
		!slices.Equal(masked.Job.Command.Args, r.Job.Command.Args) {
		t.Errorf("%q, %v", masked.Job.Command.Args, err)
	}
	masked.Job.Asked = append(masked.Job.Asked, arg("--token", "", Masked))
	masked.Job.Command.Args[5] = Masked
	err := Restore(masked, []string{"python", "train.py", "--lr", "1", "--token", "typed"})
	if err != nil || masked.Job.Command.Args[5] != "typed" {
		t.Errorf("a secret that was set: %q, %v", masked.Job.Command.Args, err)
	}
	if err := Restore(masked, []string{"python", "other.py", "--lr", "1", "--token", "hush"}); err == nil {
		t.Error("another command is taken for the run's")
	}
}
