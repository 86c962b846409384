package ui

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// Ranks are processes. The cards that DataParallel drives from one process are none.
func TestTitleCountsWhatShares(t *testing.T) {
	for _, tt := range []struct {
		batch job.Batch
		want  string
	}{
		{job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, "r · global batch 16 = 8 × 2 (plugin p)"},
		{job.Batch{Micro: 8, Accumulation: 2, Ranks: 4}, "r · global batch 64 = 8 × 2 × 4 ranks (plugin p)"},
		{job.Batch{Micro: 8, Accumulation: 2, Ranks: 4, Replicas: true}, "r · global batch 64 = 8 × 2 × 4 cards (plugin p)"},
		{job.Batch{Micro: 8, Accumulation: 2, Ranks: 1, Replicas: true}, "r · global batch 16 = 8 × 2 (plugin p)"},
	} {
		if got := Title(&job.Job{Dialect: "r", Plugin: "p", Batch: tt.batch}); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// Activation checkpointing may stand before the smaller of two micro-batches: by its expected slowdown, which is said.
func TestPlanSaysWhatIsSlower(t *testing.T) {
	priced := func(gib, shared unit.Bytes) []mem.Estimate {
		of := func(b unit.Bytes) mem.Estimate {
			return mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: b}}}
		}
		return []mem.Estimate{of(gib * unit.GiB), of(shared * unit.GiB)}
	}
	r := &run.Run{
		Job: &job.Job{Dialect: "r", Plugin: "p"}, Limits: run.Limits{Allow: ladder.Numerics},
		Ladders: &ladder.Set{
			Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}, {Name: "half", Cost: ladder.Numerics, Slowdown: 0.8}}},
			Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{
				{Name: "as asked", Slowdown: 1, Estimates: priced(64, 32)},
				{Name: "two pieces", Cost: ladder.Speed, Slowdown: 1.02, Estimates: priced(32, 16)},
				{Name: "checkpointing", Cost: ladder.Speed, Slowdown: 1.3566, Estimates: priced(8, 4)},
			}}},
		},
	}
	const said = "time: training 1.36 times as long as asked (a rule of thumb, not measured)"
	for _, tt := range []struct {
		room     unit.Bytes
		slowdown float64
		says     bool
	}{{100, 1, false}, {40, 1.02, false}, {10, 1.3566, true}, {5, 1.3566 * 0.8, false}} {
		r.Room = tt.room * unit.GiB
		plan, stop := r.Next()
		if stop != nil {
			t.Fatalf("in %v: %+v", r.Room, stop)
		}
		v := View{Run: r, Plan: plan, Device: &gpu.Device{Kind: gpu.CUDA, Total: r.Room}}
		var out strings.Builder
		Printer{W: &out}.Plan(v)
		if got := strings.Contains(out.String(), said); got != tt.says {
			t.Errorf("in %v: said is %v:\n%s", r.Room, got, out.String())
		}
		if got := v.Document(nil, nil).Phases[0].Slowdown; math.Abs(got-tt.slowdown) > 1e-9 {
			t.Errorf("in %v: a slowdown of %v, want %v", r.Room, got, tt.slowdown)
		}
	}
}

// Where training may not fit, the plan says what would save its state in time, if the program can be asked to.
func TestPlanSaysWhatSavesInTime(t *testing.T) {
	const said = "--on-pressure=save would then save its state"
	for _, tt := range []struct {
		room  unit.Bytes
		saves bool
		says  bool
	}{{7, true, true}, {7, false, false}, {100, true, false}} {
		rough := mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: 6 * unit.GiB},
			{Kind: mem.Buffers, What: "library", Bytes: 2 * unit.GiB, Guess: true}}}
		r := &run.Run{Job: &job.Job{Dialect: "r", Plugin: "p"}, Room: tt.room * unit.GiB,
			Ladders: &ladder.Set{Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
				Phases: []ladder.Ladder{{Phase: ladder.Training,
					Rungs: []ladder.Rung{{Name: "as asked", Slowdown: 1, Estimates: []mem.Estimate{rough}}}}}}}
		plan, stop := r.Next()
		if stop != nil {
			t.Fatalf("%+v", stop)
		}
		var out strings.Builder
		Printer{W: &out}.Plan(View{Run: r, Plan: plan, Saves: tt.saves, Device: &gpu.Device{Kind: gpu.CUDA, Total: r.Room}})
		if got := strings.Contains(out.String(), said); got != tt.says {
			t.Errorf("in %v GiB: said is %v:\n%s", int64(tt.room), got, out.String())
		}
	}
}

// The host's memory as asked is that of the batch as asked, whatever batch is planned.
func TestHostAsAsked(t *testing.T) {
	line := mem.HostLine{Item: mem.Item{Kind: mem.Buffers, What: "batches", From: "a test"}, PerSample: unit.GiB, Shm: true}
	v := View{
		Run: &run.Run{
			Job:     &job.Job{Batch: job.Batch{Micro: 8}},
			Ladders: &ladder.Set{Host: &ladder.HostLadder{Rungs: []ladder.HostRung{{Name: "2 loader workers", Lines: []mem.HostLine{line}}}}},
		},
		Plan: &run.Plan{Batch: job.Batch{Micro: 2}},
	}
	planned := v.Run.Ladders.Host.At(0, ladder.SharedMemory, 2)
	v.Plan.Host = &run.HostChoice{Name: "2 loader workers", Needs: []run.HostNeed{{Name: ladder.SharedMemory, Estimate: planned, Verdict: ladder.Unknown}}}
	docs := v.hostDocs()
	if len(docs) != 1 || docs[0].Asked.TotalBytes == nil || *docs[0].Asked.TotalBytes != 8*unit.GiB || *docs[0].Planned.TotalBytes != 2*unit.GiB {
		t.Errorf("%+v", docs)
	}
	var b strings.Builder
	Printer{W: &b}.host(v)
	if !strings.Contains(b.String(), "/dev/shm  2.00 GiB, ") || strings.Contains(b.String(), "8.00 GiB") {
		t.Errorf("in one line what is planned:\n%s", b.String())
	}
	v.Plan.Host.Needs[0].Verdict = ladder.Not
	v.Plan.Host.Needs[0].Room = &ladder.HostRoom{Free: unit.GiB, By: "a test"}
	b.Reset()
	Printer{W: &b}.host(v)
	if got := b.String(); !strings.Contains(got, "8.00 GiB     2.00 GiB") || !strings.Contains(got, "planned") {
		t.Errorf("both, where they matter:\n%s", got)
	}
}

// What cannot fit runs by the flag that was given.
func TestCannotFit(t *testing.T) {
	for want, limits := range map[string]run.Limits{"(--anyway)": {Anyway: true}, "(--as-asked)": {AsAsked: true}} {
		v := View{Run: &run.Run{Room: unit.GiB, Limits: limits},
			Plan: &run.Plan{Choices: []run.Choice{{Verdict: ladder.Not}}}}
		if got := (Printer{}).answer(v); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", want, got)
		}
	}
}

// A --fill that changes nothing has a reason, and the plan prints it.
func TestUnfilled(t *testing.T) {
	rung := func(name string, cost ladder.Cost, gib unit.Bytes) ladder.Rung {
		return ladder.Rung{Name: name, Cost: cost, Estimates: []mem.Estimate{{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: gib * unit.GiB}}}}}
	}
	asked := rung("as asked", ladder.None, 2)
	for _, tt := range []struct {
		above []ladder.Rung
		want  string // "" where a rung above is taken
	}{
		{nil, "the global batch is in one piece already"},
		{[]ladder.Rung{rung("four", ladder.Recipe, 8), rung("two", ladder.Recipe, 4)}, "every larger setting costs more than --allow metrics; the mildest is two, --allow recipe"},
		{[]ladder.Rung{rung("wider", ladder.Recipe, 5), rung("two", ladder.Speed, 40)}, "no larger setting fits; two needs 40.0 GiB of 10.0 GiB in training"},
		{[]ladder.Rung{{Name: "two", Cost: ladder.Speed, Estimates: []mem.Estimate{{Unknown: "no formula"}}}},
			"nothing measured yet shows that two fits"},
		{[]ladder.Rung{rung("two", ladder.Speed, 4)}, ""},
	} {
		r := &run.Run{
			Job: &job.Job{Dialect: "r", Plugin: "p"}, Room: 10 * unit.GiB, Limits: run.Limits{Allow: ladder.Metrics, Fill: true},
			Ladders: &ladder.Set{
				Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
				Phases: []ladder.Ladder{{Phase: ladder.Training, Asked: len(tt.above), Rungs: append(tt.above, asked)}},
			},
		}
		plan, stop := r.Next()
		if stop != nil {
			t.Fatalf("%+v", stop)
		}
		v := View{Run: r, Plan: plan}
		if got := v.unfilled(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
		var out strings.Builder
		Printer{W: &out}.Plan(v)
		if got := strings.Contains(out.String(), "--fill changes nothing: "+tt.want); got != (tt.want != "") {
			t.Errorf("it prints\n%s", out.String())
		}
		if got := (View{Run: r, Plan: plan, Stop: &run.Stop{}}).unfilled(); got != "" {
			t.Errorf("of a job that is refused: %q", got)
		}
		r.Limits.Fill = false
		if got := v.unfilled(); got != "" {
			t.Errorf("without --fill: %q", got)
		}
	}
}

// The costs of a plan are those of all its changes: the highest one does not imply that the milder ones are not paid.
func TestPaid(t *testing.T) {
	edits := func(costs ...string) (out []config.Edit) {
		for _, c := range costs {
			out = append(out, config.Edit{Cost: c})
		}
		return out
	}
	for _, tt := range []struct {
		edits []config.Edit
		cost  ladder.Cost
		want  string
	}{
		{edits("none"), ladder.None, "[none]"},
		{edits("none", "speed", "speed"), ladder.Speed, "[speed]"},
		{edits("metrics", "numerics", "none"), ladder.Metrics, "[numerics metrics]"},
		{edits("speed", ""), ladder.Numerics, "[speed numerics]"},
	} {
		v := View{Plan: &run.Plan{Edits: tt.edits, Cost: tt.cost}}
		if got := fmt.Sprint(v.paid()); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.edits, got, tt.want)
		}
	}
}
