package ui

import (
	"fmt"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/unit"
)

// Below 100 columns tables are lists: no line is wider than the terminal, and no name, path or amount is cut or broken.
func TestNarrowTables(t *testing.T) {
	const id = "20261129-112704.659-66bb"
	cost := ladder.Speed
	h := &sweep.History{Spec: sweep.Spec{Name: "grid"}, Rows: []*sweep.Row{{
		Trial: sweep.Trial{Number: 12, Assignment: sweep.Assignment{{Key: "train.optim_g.lr", Value: "0.00012345"},
			{Key: "network_g.num_feat", Value: "64"}}},
		State: sweep.Failed,
		Result: &sweep.Result{Run: id, Why: "it exited 1", Changes: "micro-batch 16 × accumulation 2", Attempts: 2, Short: 1,
			Peak: 3 * unit.GiB, Batch: job.Batch{Micro: 16, Accumulation: 2, Ranks: 1}, Cost: &cost}}}}
	card := gpu.Device{Index: 3, Name: "NVIDIA RTX PRO 6000 Blackwell Server Edition", Total: 96 * unit.GiB,
		UUID:      "GPU-9d1a5b42-7d5e-2b1c-9a4f-3f0f3f6f8a11",
		Processes: []gpu.Process{{PID: 4711, Used: unit.GiB, Name: "python"}}}
	a, b := 3*unit.GiB, 2*unit.GiB
	for name, tt := range map[string]struct {
		print func(Printer)
		whole []string
		head  string
	}{
		"status": {func(p Printer) { p.Sweep(h, 0) }, []string{id, "train.optim_g.lr=0.00012345", "network_g.num_feat=64",
			"16 × 2 = 32", "cost speed", "peak 3.00 GiB", "attempts 2 (1 oom)"}, "trial "},
		"runs": {func(p Printer) {
			p.Runs([]RunRow{{ID: id, State: "succeeded", Attempts: 2, Peak: a, Changes: "micro-batch 16 × accumulation 2",
				Command: []string{"python", "train.py", "--config", "configs/experiments/a-long-name-of-a-file.yml"}}})
		}, []string{id, "configs/experiments/a-long-name-of-a-file.yml", "2 attempts", "peak 3.00 GiB"}, ""},
		"gpus": {func(p Printer) { p.GPUs([]Card{{Device: card}}) },
			[]string{card.Name, card.UUID, "96.0 GiB free of 96.0 GiB", "process 4711"}, ""},
		"diff": {func(p Printer) {
			p.Diff(record.Diff{A: record.ComparedRun{ID: "a"}, B: record.ComparedRun{ID: "b"}, Phases: []record.PhasePair{
				{Phase: "training", Total: record.Pair{A: &a, B: &b}}}})
		}, []string{"estimate: A 3.00 GiB", "B 2.00 GiB", "B − A −1.00 GiB"}, "memory, training   "},
		"receipts": {func(p Printer) {
			p.Receipts([]record.Receipt{{Job: record.ReceiptKey{Arch: "a-network-with-a-long-name", Phase: "training"},
				Planned: a, Measured: []mem.Measurement{{Bytes: b, Is: mem.Used, Bound: mem.AtMost},
					{Bytes: b, Is: mem.Allocated}}}})
		}, []string{"a-network-with-a-long-name", "planned 3.00 GiB", "measured ≤ 2.00 GiB used",
			"measured 2.00 GiB allocated"},
			"priced      planned"},
	} {
		for _, width := range []int{60, 80, 99, 100, 200, 0} {
			var out strings.Builder
			tt.print(Printer{W: &out, Width: width})
			for line := range strings.Lines(out.String()) {
				if w := lipgloss.Width(strings.TrimRight(line, "\n")); width > 0 && w > width {
					t.Errorf("%s at %d columns: a line has %d: %s", name, width, w, line)
				}
			}
			for _, part := range tt.whole {
				if width > 0 && width < 100 && !strings.Contains(out.String(), part) {
					t.Errorf("%s at %d columns lacks %q:\n%s", name, width, part, out.String())
				}
			}
			table := width == 0 || width == 200
			if tt.head != "" && width != 100 && strings.Contains(out.String(), tt.head) != table {
				t.Errorf("%s at %d columns: want a table: %v\n%s", name, width, table, out.String())
			}
		}
	}
}

// A path that is longer than a line is not broken.
func TestWrapKeepsPaths(t *testing.T) {
	path := "/home/somebody/experiments/" + strings.Repeat("very-long-name/", 8) + "train.yml"
	if got := wrap("the file "+path+" is missing", 60); !strings.Contains(got, path) {
		t.Error(got)
	}
	for width := 40; width < 90; width++ {
		got := wrap("succeeded in 2s: a name · exit code 0 is the program's own · launch show 20261129-112704.659-66bb",
			width)
		if !strings.Contains(got, "launch show 20261129-112704.659-66bb") {
			t.Errorf("at %d columns the command is broken: %q", width, got)
		}
	}
}

// On a terminal that is shorter than the plan its last line is what happens, as one of its first is.
func TestPlanOnAShortTerminal(t *testing.T) {
	v := sample(t)
	for _, height := range []int{0, 10, 24, 200} {
		var text, end strings.Builder
		p := Printer{W: &text, Width: 80, Height: height}
		p.Plan(v)
		p.W = &end
		p.Again(v, text.String())
		want := ""
		if lines := strings.Count(text.String(), "\n"); height > 0 && lines >= height {
			want = wrap(fmt.Sprintf("plan: %s", Clean(p.answer(v))), 80) + "\n"
		} else if height == 10 {
			t.Fatalf("the plan has %d lines", lines)
		}
		if end.String() != want {
			t.Errorf("%d rows: %q, want %q", height, end.String(), want)
		}
	}
}
