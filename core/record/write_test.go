package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

func asPriced(micro int64) mem.Estimate {
	return mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: unit.Bytes(micro) * 10 * mib}, {Kind: mem.Runtime, What: "Python and torch", Bytes: 200 * mib, Guess: true}}}
}

// aSet is a training at micro-batch 16 that can be split, and a validation in one piece.
func aSet() *ladder.Set {
	training := ladder.Ladder{Phase: ladder.Training}
	for _, n := range []int64{16, 8, 4} {
		r := ladder.Rung{Name: fmt.Sprintf("micro-batch %d", n), Slowdown: 1, Estimates: []mem.Estimate{asPriced(n)}}
		if n < 16 {
			r.Cost = ladder.Speed
			r.Values = map[string]int64{job.MicroBatch: n, job.Accumulation: 16 / n}
			r.Edits = []config.Edit{{Knob: job.MicroBatch, To: fmt.Sprint(n)}}
		}
		training.Rungs = append(training.Rungs, r)
	}
	return &ladder.Set{
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
		Phases: []ladder.Ladder{training, {Phase: ladder.Validation, Rungs: []ladder.Rung{{Name: "as asked", Slowdown: 1, Estimates: []mem.Estimate{asPriced(2)}}}}},
		Values: map[string]int64{job.MicroBatch: 16, job.Accumulation: 1},
	}
}

func someSubject() Subject {
	return Subject{
		job:     &job.Job{Plugin: "sisr", Arch: "net", Knobs: []job.Knob{{Name: "crop", Value: "64"}, {Name: "dead", Value: "1", Dead: "nobody reads it"}}},
		machine: Machine{Kind: "cpu", Torch: "2.9"}, program: "x",
	}
}

func attemptOn(rung int, o run.Outcome) *run.Attempt {
	set := aSet()
	o.Began = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	return &run.Attempt{Plan: run.Plan{Attempt: 1, Room: 300 * mib, Choices: []run.Choice{
		{Phase: ladder.Training, Rung: rung, Estimate: set.Phases[0].Rungs[rung].At(0)},
		{Phase: ladder.Validation, Estimate: set.Phases[1].Rungs[0].At(0)},
	}}, Outcome: o}
}

func looked(b unit.Bytes) []mem.Measurement {
	return []mem.Measurement{{Is: mem.Data, Bytes: b * mib, Bound: mem.Sampled}}
}

func TestWrite(t *testing.T) {
	both := map[string][]mem.Measurement{ladder.Training: looked(250), ladder.Validation: looked(210)}
	full := oom.Report{Kind: oom.CPUAlloc, OOM: true}
	for name, tt := range map[string]struct {
		out  run.Outcome
		want string
	}{
		"both phases": {run.Outcome{Ending: run.Succeeded, Measured: both, Passed: []string{"training", "validation"}},
			"training 8: 250 MiB data sampled; validation 8: 210 MiB data sampled"},
		"it failed in validation, of something else": {run.Outcome{Ending: run.Failed, Phase: "validation", Measured: both, Passed: []string{"training"}},
			"training 8: 250 MiB data sampled"},
		"it ran out of memory in validation": {run.Outcome{Ending: run.OutOfMemory, Phase: "validation", Report: full, Measured: both, Passed: []string{"training"}},
			"training 8: 250 MiB data sampled; validation 8: 300 MiB data at least"},
		"it ran out of memory, and does not say where": {run.Outcome{Ending: run.OutOfMemory, Phase: "unknown", Report: full},
			"training 8: 300 MiB data at least"},
		"the kernel killed it, for want of its own": {run.Outcome{Ending: run.OutOfMemory, Phase: "training", Report: oom.Report{Kind: oom.HostOOM}}, ""},
		"validation was not seen and is too small to be the peak": {run.Outcome{Ending: run.Succeeded,
			Measured: map[string][]mem.Measurement{ladder.Training: looked(250)}, Passed: []string{"training"}},
			"training 8: 250 MiB data sampled"},
		"it ran with other settings": {run.Outcome{Ending: run.Succeeded, Measured: both, Passed: []string{"training", "validation"},
			Settings: map[string]string{job.MicroBatch: "16"}}, "validation 16: 210 MiB data sampled"},
		"it ran with other settings in both": {run.Outcome{Ending: run.Succeeded, Measured: both, Passed: []string{"training", "validation"},
			Settings: map[string]string{job.MicroBatch: "2"}}, ""},
		"it prints the settings of training": {run.Outcome{Ending: run.Succeeded, Measured: both, Passed: []string{"training", "validation"},
			Settings: map[string]string{job.MicroBatch: "8"}}, "training 8: 250 MiB data sampled; validation 8: 210 MiB data sampled"},
		"it took none":         {run.Outcome{Ending: run.Failed, Untaken: "why", Measured: both, Passed: []string{"training"}}, ""},
		"nothing was measured": {run.Outcome{Ending: run.Succeeded, Passed: []string{"training"}}, ""},
		"resident": {run.Outcome{Ending: run.Succeeded, Passed: []string{"training"}, Peak: 500 * mib, PeakIs: run.Resident},
			"training 8: 500 MiB resident at most"},
	} {
		a := attemptOn(1, tt.out)
		var got []string
		for _, r := range someSubject().Receipts("a-run", &run.Run{Ladders: aSet()}, a) {
			for _, m := range r.Measured {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s: %v %s %s", r.Job.Phase, r.Job.Settings[job.MicroBatch], m.Bytes, m.Is, m.Bound)))
			}
		}
		want := strings.ReplaceAll(tt.want, "validation 8", "validation 16") // which the split does not touch
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%s: %s, want %s", name, s, want)
		}
	}
}

// A peak that another phase may have caused is only an upper bound of training's.
func TestHidden(t *testing.T) {
	out := run.Outcome{Ending: run.Succeeded, Measured: map[string][]mem.Measurement{ladder.Training: looked(250)}, Passed: []string{"training"}}
	a := attemptOn(1, out)
	a.Plan.Choices[1].Estimate = mem.Estimate{Unknown: "no images"}
	rs := someSubject().Receipts("a-run", &run.Run{Ladders: aSet()}, a)
	if len(rs) != 1 || rs[0].Measured[0].Bound != mem.AtMost {
		t.Errorf("%+v", rs)
	}
}

// A receipt has the plugin's own price without corrections, plus a line for the saved state that stays in memory.
func TestWritesWhatWasPriced(t *testing.T) {
	a := attemptOn(1, run.Outcome{Ending: run.Succeeded, Measured: map[string][]mem.Measurement{ladder.Training: looked(250)}, Passed: []string{"training", "validation"}})
	a.Plan.Choices[0].Estimate = mem.Estimate{Learned: []string{"x"}, Items: []mem.Item{{Kind: mem.Correction, Bytes: -5 * mib}, {Kind: mem.Buffers, What: run.ResumedState, Bytes: 7 * mib}}}
	learned := aSet()
	learned.Phases[0].Rungs[1].Estimates = []mem.Estimate{{Items: []mem.Item{{Kind: mem.Saved, Bytes: 1}}}}
	rs := someSubject().Receipts("a-run", &run.Run{Ladders: learned, Priced: aSet()}, a)
	if len(rs) != 1 || rs[0].Predicted.Total() != 287*mib || rs[0].Planned != 2*mib || rs[0].Job.Settings[run.ResumedState] == "" || rs[0].Job.Settings["dead"] != "" || rs[0].Job.Settings["crop"] != "64" {
		t.Errorf("%+v", rs)
	}
}

// The message of an out-of-memory on a card contains the allocated memory and the context.
func TestRefused(t *testing.T) {
	b := func(n unit.Bytes) *unit.Bytes { n *= mib; return &n }
	a := attemptOn(0, run.Outcome{Ending: run.OutOfMemory})
	a.Outcome.Report = oom.Report{Kind: oom.GPUCapacity, Numbers: oom.Numbers{Allocated: b(100), Requested: b(50), Reserved: b(110), ProcessInUse: b(500)}}
	var got []string
	for _, m := range refused(a, "cuda", true) {
		got = append(got, fmt.Sprintf("%v %s %s", m.Bytes, m.Is, m.Bound))
	}
	if want := []string{"150 MiB allocated at least", "110 MiB reserved at least", "500 MiB used at least"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, k := range []oom.Kind{oom.GPUContention, oom.GPUFragmentation} {
		if a.Outcome.Report.Kind = k; refused(a, "cuda", true) != nil {
			t.Errorf("%s is no measurement of need", k)
		}
	}
}

// Without a formula a phase needs more than the room that it ran out of, whatever its message has.
func TestRefusedWithoutFormula(t *testing.T) {
	b := func(n unit.Bytes) *unit.Bytes { n *= mib; return &n }
	for _, tt := range []struct {
		kind string
		rep  oom.Report
		want string
	}{
		{"cuda", oom.Report{Kind: oom.GPUCapacity, Numbers: oom.Numbers{Allocated: b(100), Requested: b(50),
			Reserved: b(110), ProcessInUse: b(280)}},
			"150 MiB allocated, 300 MiB used"},
		{"cuda", oom.Report{Kind: oom.GPUUnspecified}, "300 MiB used"},
		{"cuda", oom.Report{Kind: oom.GPUFragmentation, Numbers: oom.Numbers{Allocated: b(100), Requested: b(50)}},
			"300 MiB used"},
		{"cuda", oom.Report{Kind: oom.GPUContention}, ""},
		{"cuda", oom.Report{Kind: oom.HostOOM}, ""},
		{"cpu", oom.Report{Kind: oom.HostOOM}, "300 MiB data"},
		{"cpu", oom.Report{Kind: oom.CPUAlloc}, "300 MiB data"},
		{"cpu", oom.Report{Kind: oom.SharedMemory}, ""},
	} {
		a := attemptOn(0, run.Outcome{Ending: run.OutOfMemory, Report: tt.rep})
		var got []string
		for _, m := range refused(a, tt.kind, false) {
			got = append(got, fmt.Sprintf("%v %s", m.Bytes, m.Is))
			if m.Bound != mem.AtLeast {
				t.Errorf("%s: %+v", tt.rep.Kind, m)
			}
		}
		if s := strings.Join(got, ", "); s != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.kind, tt.rep.Kind, s, tt.want)
		}
	}
}

// A setting that the program does not confirm teaches nothing of a formula. Without a formula it does, unless the
// program
// reports another value, or fails at other settings with the same figures.
func TestUnconfirmed(t *testing.T) {
	b := func(n unit.Bytes) *unit.Bytes { n *= mib; return &n }
	plain := aSet()
	plain.Phases = plain.Phases[:1]
	for i := range plain.Phases[0].Rungs {
		plain.Phases[0].Rungs[i].Estimates = []mem.Estimate{{Unknown: "no formula"}}
	}
	passed := run.Outcome{
		Ending:   run.Succeeded,
		Passed:   []string{"training"},
		Measured: map[string][]mem.Measurement{ladder.Training: looked(250)},
	}
	failed := run.Outcome{
		Ending: run.OutOfMemory,
		Phase:  "training",
		Report: oom.Report{Kind: oom.CPUAlloc, Numbers: oom.Numbers{Allocated: b(90), Requested: b(50)}},
	}
	other := passed
	other.Settings = map[string]string{job.MicroBatch: "16"}
	for name, tt := range map[string]struct {
		set    *ladder.Set
		before run.Outcome // at micro-batch 16
		out    run.Outcome // at micro-batch 8
		want   int
	}{
		"a formula":                      {aSet(), failed, passed, 0},
		"no formula":                     {plain, run.Outcome{}, passed, 1},
		"it reports another value":       {plain, run.Outcome{}, other, 0},
		"it ran out of memory":           {plain, run.Outcome{}, failed, 1},
		"it fails with the same figures": {plain, failed, failed, 0},
	} {
		a := attemptOn(1, tt.out)
		a.Plan.Choices, a.Plan.Edits, a.Plan.Batch.Micro = a.Plan.Choices[:1], []config.Edit{
			{Knob: job.MicroBatch, To: "8"},
		}, 8
		was := attemptOn(0, tt.before)
		was.Plan.Batch.Micro = 16
		r := &run.Run{Job: someSubject().job, Ladders: tt.set, Attempts: []run.Attempt{*was, *a}}
		if rs := someSubject().Receipts("a-run", r, a); len(rs) != tt.want {
			t.Errorf("%s: %d receipts, want %d: %+v", name, len(rs), tt.want, rs)
		}
	}
}

// A phase that completed once and ran out of memory later needs what it was refused, not what it took before.
func TestFailsAfterItPassed(t *testing.T) {
	a := attemptOn(1, run.Outcome{Ending: run.OutOfMemory, Phase: ladder.Training, Report: oom.Report{Kind: oom.CPUAlloc},
		Measured: map[string][]mem.Measurement{ladder.Training: looked(250)}, Passed: []string{"training", "validation"}})
	a.Plan.Room = 390 * mib
	for _, r := range someSubject().Receipts("a-run", &run.Run{Ladders: aSet()}, a) {
		if m := r.Measured[0]; r.Job.Phase == ladder.Training && (m.Bound != mem.AtLeast || m.Bytes <= 390*mib) {
			t.Errorf("training's receipt says %+v", m)
		}
	}
}

// The loader settings of an attempt are settings of its receipts.
func TestWritesHowItWasFed(t *testing.T) {
	r := &run.Run{Ladders: aSet()}
	r.Ladders.Host = &ladder.HostLadder{Rungs: []ladder.HostRung{{}, {Edits: []config.Edit{{Knob: "workers", To: "2"}}}}}
	a := attemptOn(1, run.Outcome{Ending: run.Succeeded, Measured: map[string][]mem.Measurement{ladder.Training: looked(250)}, Passed: []string{"training", "validation"}})
	a.Plan.Host = &run.HostChoice{Rung: 1}
	if rs := someSubject().Receipts("a-run", r, a); len(rs) != 1 || rs[0].Job.Settings["workers"] != "2" {
		t.Errorf("%+v", rs)
	}
}

// What the allocator had to ask for again is kept with the phase, and changes nothing that is learned.
func TestKeepsRetries(t *testing.T) {
	both := map[string][]mem.Measurement{ladder.Training: looked(250), ladder.Validation: looked(210)}
	a := attemptOn(1, run.Outcome{Ending: run.Succeeded, Measured: both, Passed: []string{"training", "validation"},
		Retries: map[string]oom.Retries{"validation": {Count: 41, Short: 380 * mib}}})
	rs := someSubject().Receipts("a-run", &run.Run{Ladders: aSet()}, a)
	if len(rs) != 2 || rs[0].Retries.Count != 0 || rs[1].Retries != (oom.Retries{Count: 41, Short: 380 * mib}) ||
		len(rs[1].Measured) != 1 {
		t.Fatalf("%+v", rs)
	}
	rs[1].Retries.Count = -1
	if rs[1].check() == nil {
		t.Error("a negative count is taken")
	}
	for i, want := range []bool{false, true} {
		rs[1].Retries.Count = 41
		if b, err := json.Marshal(rs[i]); err != nil || strings.Contains(string(b), `"retries":{"count":41`) != want {
			t.Errorf("%s: %v", b, err)
		}
	}
}
