package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// ended is a run with these attempts, of a job that reports its iterations.
func ended(attempts ...run.Attempt) *run.Run {
	j := &job.Job{Name: "demo", Batch: job.Batch{Micro: 32, Accumulation: 1, Ranks: 1},
		Signs: job.Signs{Lines: []job.Sign{{Kind: job.Progress, Pattern: "x"}}}}
	return &run.Run{Job: j, Attempts: attempts}
}

// trained is an attempt that reported steps 1 to last of 6, at a micro-batch.
func trained(number int, ending run.Ending, micro, last int64) run.Attempt {
	a := run.Attempt{Plan: run.Plan{Attempt: number, Room: 8 * unit.GiB, Why: "why", Shared: run.Choice{Name: run.AsAsked},
		Batch: job.Batch{Micro: micro, Accumulation: 32 / micro, Ranks: 1}},
		Outcome: run.Outcome{Ending: ending, Took: 2 * time.Second, Iteration: last}}
	if last > 0 {
		a.Outcome.Courses = []run.Course{{Total: 6, First: run.Place{Iteration: 1}, Last: run.Place{Iteration: last}, Gap: 1}}
	}
	if micro < 32 {
		to := map[int64]string{8: "8", 16: "16"}[micro]
		a.Plan.Cost = ladder.Speed
		a.Plan.Choices = []run.Choice{{Phase: "training", Name: "micro-batch " + to}}
		a.Plan.Edits = []config.Edit{{Knob: job.MicroBatch, From: "32", To: to, At: config.Address{Doc: config.EnvDoc}}}
	}
	if ending == run.OutOfMemory {
		asked := 2 * unit.GiB
		a.Outcome.Phase = "training"
		a.Outcome.Cause = "out of GPU memory: asked for 2.00 GiB"
		a.Outcome.Report = oom.Report{OOM: true, Numbers: oom.Numbers{Requested: &asked}}
	}
	return a
}

// resumed makes an attempt one that was to resume from step 2, with what became of it.
func resumed(a run.Attempt, after run.Resumption) run.Attempt {
	a.Plan.Resume = &run.State{Path: "out/0002.pt", At: []run.Course{{First: run.Place{Iteration: 1},
		Last: run.Place{Iteration: 2}}}, Exact: true}
	a.Outcome.Resumption = &after
	return a
}

// A success is one line, and one after a recovery three: what died, what was changed, and from where it went on. No
// line is empty, and the last one has the ending and the exit code.
func TestSummary(t *testing.T) {
	const end = " · exit code 0 is the program's own · launch show x\n"
	const died = "launch: what died: attempt 1 in training at iteration 3: out of GPU memory: asked for 2.00 GiB with a " +
		"room of 8.00 GiB\n"
	const changed = "launch: changed: micro-batch 32 → 16 (cost: speed), global batch stays 32 = 16 × 2\n"
	short := trained(1, run.OutOfMemory, 32, 3)
	measured := trained(1, run.Succeeded, 16, 6)
	measured.Plan.Choices[0].Estimate = mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, Bytes: 3 * unit.GiB}}}
	measured.Outcome.Peak, measured.Outcome.PeakIs = 2*unit.GiB, run.Used
	guessed := measured
	guessed.Plan.Choices = []run.Choice{{Phase: "training", Name: "micro-batch 16",
		Estimate: mem.Estimate{Items: []mem.Item{
			{Kind: mem.Correction, Bytes: 3 * unit.GiB, Guess: true}}}}}
	second := measured
	second.Plan.Attempt = 2
	takenUp := ended(second)
	takenUp.Gone = []run.Attempt{trained(1, run.Interrupted, 16, 3)}
	again := trained(1, run.OutOfMemory, 32, 0)
	doubtful := resumed(trained(2, run.Succeeded, 16, 6), run.Resumption{State: run.Restarted, First: 1, Saved: 2})
	doubtful.Outcome.Doubtful = "it did not resume"
	byItself := trained(2, run.Succeeded, 16, 6)
	byItself.Outcome.Resumption = &run.Resumption{State: run.Resumed, First: 3, Saved: 2, Why: "by itself"}
	for name, tt := range map[string]struct {
		r    *run.Run
		want string
	}{
		"a success": {ended(trained(1, run.Succeeded, 32, 6)), `launch: succeeded in 2s: "demo"` + end},
		"a foreseen one": {ended(measured), `launch: succeeded in 2s: "demo", micro-batch 16 · measured peak 2.00 GiB used ` +
			`(estimate 3.00 GiB)` + end},
		"taken up again": {takenUp, `launch: succeeded in 4s, 2 attempts: "demo", micro-batch 16 · measured peak 2.00 GiB ` +
			`used in attempt 2 (estimate 3.00 GiB)` + end},
		"by a guess alone": {ended(guessed), `launch: succeeded in 2s: "demo", micro-batch 16 · measured peak 2.00 GiB ` +
			`used (rough estimate 3.00 GiB)` + end},
		"resumed": {ended(short, resumed(trained(2, run.Succeeded, 16, 6),
			run.Resumption{State: run.Resumed, First: 3, Saved: 2})),
			died + changed + `launch: succeeded in 4s, 2 attempts: "demo" · went on from 0002.pt, 1 iteration ` +
				`trained twice` + end},
		"not checked": {ended(short, resumed(trained(2, run.Succeeded, 16, 6), run.Resumption{State: run.NotChecked})),
			died + changed + `launch: succeeded in 4s, 2 attempts: "demo" · went on from 0002.pt, 1 iteration trained twice, ` +
				`whether it resumed is not checked` + end},
		"began again": {ended(short, trained(2, run.Succeeded, 16, 6)),
			died + changed + `launch: succeeded in 4s, 2 attempts: "demo" · began again, 3 iterations trained twice` + end},
		"restarted": {ended(short, doubtful), "launch: note: it did not resume\n" + died + changed +
			`launch: doubtful in 4s, 2 attempts: "demo" · began again, though it was to resume from 0002.pt, 3 iterations ` +
			`trained twice` + end},
		"by itself": {ended(short, byItself), died + changed +
			`launch: succeeded in 4s, 2 attempts: "demo" · went on from a state that the program found by itself` + end},
		"three": {ended(again, trained(2, run.OutOfMemory, 16, 3), trained(3, run.Succeeded, 8, 6)),
			"launch: what died: attempt 1 in training: out of GPU memory: asked for 2.00 GiB with a room of 8.00 GiB; " +
				"attempt 2 in training at iteration 3: out of GPU memory: asked for 2.00 GiB with a room of 8.00 GiB\n" +
				"launch: changed: micro-batch 32 → 8 (cost: speed), global batch stays 32 = 8 × 4\n" +
				`launch: succeeded in 6s, 3 attempts: "demo" · attempt 2 began again, no iteration had been reported; ` +
				`attempt 3 began again, 3 iterations trained twice` + end},
	} {
		var out strings.Builder
		Printer{W: &out, Prefix: "launch: "}.Summary(tt.r, nil, "x", 0, "the program's own")
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// A flag that is set has no value, and is a change; one that was set before, and still is, is none.
func TestSummaryOfAFlag(t *testing.T) {
	flag := config.Edit{Knob: "activation checkpointing", At: config.Address{Path: "--grad-checkpointing"}, Add: true}
	short, a := trained(1, run.OutOfMemory, 32, 3), trained(2, run.Succeeded, 32, 6)
	short.Plan.Edits, a.Plan.Edits = nil, []config.Edit{flag}
	both := trained(1, run.OutOfMemory, 32, 3)
	both.Plan.Edits = []config.Edit{flag}
	for want, r := range map[string]*run.Run{
		"changed: activation checkpointing not set → set (": ended(short, a),
		"changed: nothing": ended(both, a),
	} {
		var out strings.Builder
		Printer{W: &out}.Summary(r, nil, "x", 0, "the program's own")
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q does not stand in\n%s", want, out.String())
		}
	}
}

// A change that turned out to cost more than was planned has that cost where the change is printed.
func TestSummaryOfADearerChange(t *testing.T) {
	a := trained(2, run.Succeeded, 16, 6)
	a.Outcome.Changed = []string{"the learning rate is 0.05, and was 0.1 in attempt 1"}
	for want, r := range map[string]*run.Run{
		"changed: micro-batch 32 → 16 (its cost was recipe, not speed), global": ended(trained(1, run.OutOfMemory, 32, 3), a),
		`: "demo", micro-batch 16 (its cost was recipe, not speed)`:             ended(a),
	} {
		var out strings.Builder
		Printer{W: &out}.Summary(r, nil, "x", 0, "the program's own")
		if !strings.Contains(out.String(), want) || strings.Count(out.String(), "not speed") != 1 ||
			!strings.Contains(out.String(), "note: another training than the run began: the learning rate is 0.05") {
			t.Errorf("%q is not once in\n%s", want, out.String())
		}
	}
}

// What is amiss with a result is printed in lines of its own; what is slow is not, unless with --verbose.
func TestSummaryOfWhatIsAmiss(t *testing.T) {
	a := trained(1, run.Succeeded, 16, 6)
	a.Plan.Batch.Accumulation = 1
	a.Plan.Edits[0].At.Doc = "x.yml"
	a.Outcome.Advice = []job.Advice{{Name: "a", Weight: job.Slow, What: "slow", Change: "faster"},
		{Name: "b", Weight: job.Fails, What: "no number", Change: "smaller"}}
	a.Outcome.Retries = map[string]oom.Retries{"training": {Count: 3}}
	r := ended(a)
	r.Mixed = []run.Mix{{What: []string{"train.py has changed"}}}
	var out, verbose strings.Builder
	Printer{W: &out}.Summary(r, nil, "x", 0, "the program's own")
	Printer{W: &verbose, Verbose: true}.Summary(r, nil, "x", 0, "the program's own")
	for text, brief := range map[string]bool{
		"note: the result is mixed: train.py has changed":              true,
		"note: global batch 16 = 16 × 1 instead of 32 = 32 × 1":        true,
		"note: not checked: whether the program used micro-batch = 16": true,
		"advice: no number. smaller":                                   true,
		"succeeded, mixed in 2s":                                       true,
		"advice: slow. faster":                                         false,
		"note: the card was full: the allocator retried":               false,
		"checklist:": false,
	} {
		if strings.Contains(out.String(), text) != brief || !strings.Contains(verbose.String(), text) {
			t.Errorf("%q: want %v in\n%s\nand in\n%s", text, brief, out.String(), verbose.String())
		}
	}
}

// Where a program's lines are, launch has no empty one.
func TestNoBareLine(t *testing.T) {
	var out strings.Builder
	Printer{W: &out, Prefix: "launch: ", Verbose: true}.Brief(sample(t))
	for line := range strings.Lines(out.String()) {
		if strings.TrimSpace(line) == "launch:" || strings.TrimSpace(line) == "" {
			t.Fatalf("a line is empty:\n%s", out.String())
		}
	}
}
