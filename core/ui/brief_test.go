package ui

import (
	"bytes"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

func TestBrief(t *testing.T) {
	j := &job.Job{Dialect: "d", Name: "n", Plugin: "p", Batch: job.Batch{Micro: 8, Accumulation: 1, Ranks: 1}}
	half := job.Batch{Micro: 4, Accumulation: 2, Ranks: 1}
	choice := run.Choice{Phase: "training", Verdict: ladder.Fits,
		Estimate: mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: unit.GiB}}}}
	edit := config.Edit{Knob: "micro-batch", From: "8", To: "4", Cost: "speed"}
	for name, tt := range map[string]struct {
		v    View
		want []string
	}{
		"as asked": {View{Run: &run.Run{Job: j, Room: 4 * unit.GiB, Ladders: &ladder.Set{}},
			Plan: &run.Plan{Choices: []run.Choice{choice}, Batch: j.Batch}},
			[]string{`d · "n" · global batch 8 = 8 × 1 (plugin p)`,
				"it runs as asked and fits (training 1.00 GiB of 4.00 GiB)"}},
		"changed": {View{Run: &run.Run{Job: j, Room: 4 * unit.GiB, Ladders: &ladder.Set{}},
			Plan: &run.Plan{Choices: []run.Choice{choice}, Batch: half, Edits: []config.Edit{edit}, Cost: ladder.Speed}},
			[]string{`d · "n" · global batch 8 = 8 × 1 (plugin p)`,
				"it runs with 1 change and fits; its cost is speed (training 1.00 GiB of 4.00 GiB)",
				"changed, in a copy: micro-batch 8 → 4; global batch stays 8 = 4 × 2",
				"every figure and reason: launch plan with the same command"}},
		"one phase is not known": {View{Run: &run.Run{Job: j, Room: 4 * unit.GiB, Ladders: &ladder.Set{}},
			Plan: &run.Plan{Choices: []run.Choice{choice, {Phase: "validation", Verdict: ladder.Unknown,
				Estimate: mem.Estimate{Unknown: "its images are absent"}}}, Batch: j.Batch}},
			[]string{"", "it runs as asked; whether it fits is not known " +
				"(training 1.00 GiB of 4.00 GiB, validation not known)"}},
		"another batch": {View{Run: &run.Run{Job: j, Room: 4 * unit.GiB, Ladders: &ladder.Set{}},
			Plan: &run.Plan{Choices: []run.Choice{choice}, Batch: job.Batch{Micro: 4, Accumulation: 1, Ranks: 1},
				Edits: []config.Edit{edit}, Cost: ladder.Recipe}, Warnings: []string{"it would stop"}},
			[]string{"", "", "changed, in a copy: micro-batch 8 → 4; global batch 4 = 4 × 1 instead of 8 = 8 × 1", "",
				"note: it would stop"}},
	} {
		var out bytes.Buffer
		Printer{W: &out}.Brief(tt.v)
		got := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		if len(got) != len(tt.want) {
			t.Errorf("%s: %d lines, want %d:\n%s", name, len(got), len(tt.want), out.String())
			continue
		}
		for i, want := range tt.want {
			if want != "" && got[i] != want {
				t.Errorf("%s: %q, want %q", name, got[i], want)
			}
		}
	}
	ladders := &ladder.Set{Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}},
		Phases: []ladder.Ladder{{Phase: "training", Rungs: []ladder.Rung{ladder.AsAsked(choice.Estimate)}}}}
	var whole bytes.Buffer
	Printer{W: &whole, Verbose: true}.Brief(View{Run: &run.Run{Job: j, Room: 4 * unit.GiB, Ladders: ladders},
		Plan: &run.Plan{Choices: []run.Choice{choice}, Batch: j.Batch}})
	if !strings.Contains(whole.String(), "training") || !strings.Contains(whole.String(), "how certain") {
		t.Errorf("with --verbose it is not the whole plan:\n%s", whole.String())
	}
}
