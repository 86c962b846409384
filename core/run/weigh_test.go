package run

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

func edit(knob, from, to string) config.Edit {
	return config.Edit{Knob: knob, At: config.Address{Doc: "x.py", Path: knob}, From: from, To: to}
}

var counted = job.Signs{Lines: []job.Sign{{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)`}}}

// A success is one only where the program's own reports do not contradict it.
func TestWeigh(t *testing.T) {
	at := &State{Path: "0008.pt", Iteration: 8}
	ok := Outcome{Ending: Succeeded}
	with := func(o Outcome, f func(*Outcome)) Outcome { f(&o); return o }
	smaller := []config.Edit{edit(job.MicroBatch, "32", "8"), edit(job.Accumulation, "1", "4")}
	for name, tt := range map[string]struct {
		job     job.Job
		before  []Attempt
		plan    Plan
		out     Outcome
		want    Ending
		cause   string
		untaken bool
	}{
		"a step after a resume":       {job.Job{Signs: counted}, nil, Plan{Resume: at}, with(ok, func(o *Outcome) { o.Stepped, o.Iteration = true, 9 }), Succeeded, "", false},
		"no step after a resume":      {job.Job{Signs: counted}, nil, Plan{Resume: at}, ok, Failed, "it resumed from iteration 8 and ended without a step", false},
		"only what it goes on from":   {job.Job{Signs: counted}, nil, Plan{Resume: &State{Path: "/r/0008.pt"}}, with(ok, func(o *Outcome) { o.Stepped, o.Iteration = true, 8 }), Failed, "ended without a step", false},
		"and a step more":             {job.Job{Signs: counted}, nil, Plan{Resume: at}, with(ok, func(o *Outcome) { o.Stepped, o.Varied, o.Iteration = true, true, 8 }), Succeeded, "", false},
		"a step of that number":       {job.Job{Signs: counted}, nil, Plan{Resume: at}, with(ok, func(o *Outcome) { o.Stepped, o.Figures, o.Iteration = true, true, 8 }), Succeeded, "", false},
		"the first attempt said so":   {job.Job{Signs: counted}, []Attempt{{Outcome: Outcome{Total: 8, Iteration: 8}}}, Plan{Resume: at}, ok, Succeeded, "", false},
		"nothing was left to train":   {job.Job{Signs: counted, Steps: 8}, nil, Plan{Resume: at}, ok, Succeeded, "", false},
		"it says that itself":         {job.Job{Signs: counted}, nil, Plan{Resume: at}, with(ok, func(o *Outcome) { o.Total = 8 }), Succeeded, "", false},
		"it had come to its end":      {job.Job{Signs: counted, Steps: 10}, []Attempt{{Outcome: Outcome{Iteration: 10}}}, Plan{Resume: at}, ok, Succeeded, "", false},
		"something was left":          {job.Job{Signs: counted, Steps: 9}, nil, Plan{Resume: at}, ok, Failed, "ended without a step", false},
		"less than is reported":       {job.Job{Signs: job.Signs{Lines: counted.Lines, Every: 100}, Steps: 100}, nil, Plan{Resume: at}, ok, Succeeded, "", false},
		"it would be reported":        {job.Job{Signs: job.Signs{Lines: counted.Lines, Every: 92}, Steps: 100}, nil, Plan{Resume: at}, ok, Failed, "", false},
		"no resume, and no step":      {job.Job{Signs: counted}, nil, Plan{}, ok, Succeeded, "", false},
		"steps are not reported":      {job.Job{}, nil, Plan{Resume: at}, ok, Succeeded, "", false},
		"it runs with the old batch":  {job.Job{Signs: counted}, nil, Plan{Edits: smaller}, with(ok, func(o *Outcome) { o.Settings = map[string]string{job.MicroBatch: "32"} }), Failed, "the program reports micro-batch 32", true},
		"the same, out of memory":     {job.Job{Signs: counted}, nil, Plan{Edits: smaller}, with(ok, func(o *Outcome) { o.Ending, o.Settings = OutOfMemory, map[string]string{job.MicroBatch: "32"} }), Failed, "", true},
		"it runs with the new batch":  {job.Job{Signs: counted}, nil, Plan{Edits: smaller}, with(ok, func(o *Outcome) { o.Settings = map[string]string{job.MicroBatch: "8", job.Accumulation: "4"} }), Succeeded, "", false},
		"interrupted, with the old":   {job.Job{Signs: counted}, nil, Plan{Edits: smaller}, with(ok, func(o *Outcome) { o.Ending, o.Settings = Interrupted, map[string]string{job.MicroBatch: "32"} }), Interrupted, "", false},
		"four times as long":          {job.Job{Signs: counted}, []Attempt{{Outcome: Outcome{Total: 8}}}, Plan{Edits: smaller}, with(ok, func(o *Outcome) { o.Total, o.Stepped = 32, true }), Failed, "trains for 32 steps now, but trained for 8 in attempt", true},
		"as long as before":           {job.Job{Signs: counted}, []Attempt{{Outcome: Outcome{Total: 1000}}}, Plan{Edits: smaller}, with(ok, func(o *Outcome) { o.Total, o.Stepped = 1001, true }), Succeeded, "", false},
		"it counts forward passes":    {job.Job{Signs: job.Signs{Lines: counted.Lines, CountsMicro: true}}, []Attempt{{Plan: Plan{Batch: job.Batch{Accumulation: 1}}, Outcome: Outcome{Total: 100}}}, Plan{Edits: smaller, Batch: job.Batch{Accumulation: 4}}, with(ok, func(o *Outcome) { o.Total, o.Stepped = 400, true }), Succeeded, "", false},
		"and trains for longer":       {job.Job{Signs: job.Signs{Lines: counted.Lines, CountsMicro: true}}, []Attempt{{Plan: Plan{Batch: job.Batch{Accumulation: 1}}, Outcome: Outcome{Total: 100}}}, Plan{Edits: smaller, Batch: job.Batch{Accumulation: 4}}, with(ok, func(o *Outcome) { o.Total, o.Stepped = 1600, true }), Failed, "trains for 400 steps now, but trained for 100", true},
		"a trial is not weighed":      {job.Job{Signs: counted}, nil, Plan{Trial: Rehearsal, Resume: at}, ok, Succeeded, "", false},
		"the length may be different": {job.Job{Signs: counted}, []Attempt{{Outcome: Outcome{Total: 8}}}, Plan{Cost: 4}, with(ok, func(o *Outcome) { o.Total, o.Stepped = 32, true }), Succeeded, "", false},

		"it counts what is left": {job.Job{Signs: counted}, []Attempt{{Outcome: Outcome{Total: 30}}},
			Plan{Edits: smaller, Resume: at},
			with(ok, func(o *Outcome) { o.Total, o.Stepped, o.Iteration, o.Varied = 22, true, 22, true }),
			Succeeded, "", false},
		"it goes on with another count": {job.Job{Signs: counted}, []Attempt{{Outcome: Outcome{Total: 30}}},
			Plan{Edits: smaller, Resume: at},
			with(ok, func(o *Outcome) {
				o.Total, o.Stepped, o.Iteration, o.Varied = 22, true, 22, true
				o.Courses = []Course{{Total: 22, First: Place{Iteration: 9}, Last: Place{Iteration: 22}}}
			}), Failed, "trains for 22 steps now", true},
		"it counts to something else": {job.Job{Signs: counted}, []Attempt{{Outcome: Outcome{Total: 30}}},
			Plan{Edits: smaller, Resume: at},
			with(ok, func(o *Outcome) { o.Total, o.Stepped = 15, true }), Failed, "trains for 15 steps now", true},
		"its patterns match nothing": {job.Job{Signs: counted}, []Attempt{{Outcome: Outcome{Ending: OutOfMemory}}},
			Plan{Resume: at}, ok, Succeeded, "", false},
		"fewer than it reports may be left": {job.Job{Signs: counted}, []Attempt{{Outcome: Outcome{Iteration: 100}}},
			Plan{Resume: &State{Path: "120.pt",
				At: []Course{{First: Place{Iteration: 50}, Last: Place{Iteration: 100}, Gap: 50}}}},
			ok, Succeeded, "", false},

		"step 0 of an epoch, with its loss": {job.Job{Signs: counted}, nil, Plan{Resume: at},
			with(ok, func(o *Outcome) { o.Figures = true }), Succeeded, "", false},
	} {
		r := &Run{Job: &tt.job, Attempts: tt.before}
		out := tt.out
		r.weigh(&tt.plan, &out)
		if out.Ending != tt.want || !strings.Contains(out.Cause, tt.cause) || (out.Untaken != "") != tt.untaken {
			t.Errorf("%s: %s (%s), untaken %q; want %s (%s)", name, out.Ending, out.Cause, out.Untaken, tt.want, tt.cause)
		}
		if out.Ending == Failed && out.Untaken == "" && !out.Lied {
			t.Errorf("%s: the program's exit of 0 would stand", name)
		}
	}
	for cut, want := range map[Progress]Ending{{Iteration: 8, Total: 8}: Succeeded, {Iteration: 8, Total: 9}: Failed, {Iteration: 8}: Failed, {Iteration: 8, Succeeded: true}: Succeeded} {
		out := ok
		(&Run{Job: &job.Job{Signs: counted}, Cut: &cut}).weigh(&Plan{Resume: at}, &out)
		if out.Ending != want {
			t.Errorf("after an attempt that was cut off at %+v: %s, want %s", cut, out.Ending, want)
		}
	}
	swallowed := with(ok, func(o *Outcome) { o.Iteration, o.Stepped, o.Doubt = 300, true, "out of GPU memory" })
	(&Run{Job: &job.Job{Signs: counted, Steps: 1000}}).weigh(&Plan{}, &swallowed)
	if swallowed.Ending != OutOfMemory || !swallowed.Lied || swallowed.Cause != "out of GPU memory" {
		t.Errorf("an out-of-memory swallowed after 300 of 1000 steps: %s (%s), lied %v", swallowed.Ending, swallowed.Cause, swallowed.Lied)
	}
	short := with(ok, func(o *Outcome) { o.Iteration, o.Stepped = 300, true })
	(&Run{Job: &job.Job{Signs: counted, Steps: 1000}}).weigh(&Plan{}, &short)
	if short.Ending != Succeeded || short.Short != "the last step that it reported was 300 of 1000" {
		t.Errorf("a short training: %s, %q", short.Ending, short.Short)
	}
}

// What the program reports of its micro-batch and accumulation shows whether it kept the global batch, also where an
// accumulation that nobody typed is another one than launch takes it for.
func TestDividesOtherwise(t *testing.T) {
	reports := func(micro, accumulation string) Outcome {
		o := Outcome{Ending: Succeeded, Settings: map[string]string{}}
		for knob, value := range map[string]string{job.MicroBatch: micro, job.Accumulation: accumulation} {
			if value != "" {
				o.Settings[knob] = value
			}
		}
		return o
	}
	plan := func(micro, accumulation int64, cost ladder.Cost) Plan {
		return Plan{Batch: job.Batch{Micro: micro, Accumulation: accumulation}, Cost: cost}
	}
	asked, split := plan(1600, 1, ladder.None), plan(800, 2, ladder.Speed)
	for name, tt := range map[string]struct {
		was    Outcome
		before Plan
		now    Outcome
		plan   Plan
		same   bool
	}{
		"as planned":                   {reports("1,600", "1"), asked, reports("800", "2"), split, true},
		"for two ranks":                {reports("3200", "2"), asked, reports("1600", "4"), split, true},
		"multiplied by the program":    {reports("", "4"), asked, reports("", "8"), split, true},
		"the option has no effect":     {reports("", "4"), asked, reports("", "4"), split, false},
		"another default":              {reports("1600", "4"), asked, reports("800", "2"), split, false},
		"one reported, then the other": {reports("1600", ""), asked, reports("", "2"), split, true},
		"no number":                    {reports("", "auto"), asked, reports("", "2"), split, true},
		"another batch is allowed":     {reports("", "4"), asked, reports("", "4"), plan(800, 2, ladder.Recipe), true},
		"after a trial": {reports("", "4"), Plan{Batch: asked.Batch, Trial: Rehearsal}, reports("", "4"), split,
			true},
	} {
		r := &Run{Job: &job.Job{}, Attempts: []Attempt{{Plan: tt.before, Outcome: tt.was}}}
		r.weigh(&tt.plan, &tt.now)
		if (tt.now.Untaken == "") != tt.same {
			t.Errorf("%s: %q", name, tt.now.Untaken)
		}
	}
}

// What launch hands over itself is confirmed, and what the program printed or kept; a free port is nothing to confirm.
func TestUnconfirmed(t *testing.T) {
	port := config.Edit{Knob: "rendezvous", At: config.Address{Doc: config.ArgvDoc, Path: "--dist-url"}, To: "tcp://localhost:" + job.FreePort}
	argv := config.Edit{Knob: "workers", At: config.Address{Doc: config.ArgvDoc, Path: "--workers"}, To: "2"}
	env := config.Edit{Knob: "allocator", At: config.Address{Doc: config.EnvDoc, Path: "A"}, To: "x"}
	a := Attempt{Plan: Plan{Edits: []config.Edit{port, argv, env, edit(job.MicroBatch, "16", "8"), edit("lr", "1", "1e-1")}}}
	list := func(j job.Job) (out []string) {
		for _, u := range a.Unconfirmed(&j) {
			out = append(out, u.String())
		}
		return out
	}
	if got := strings.Join(list(job.Job{}), "; "); got != "workers = 2; micro-batch = 8; lr = 1e-1" {
		t.Errorf("nothing confirms: %q", got)
	}
	asked := config.Edit{Knob: "--lr", At: config.Address{Doc: config.ArgvDoc, Path: "--lr"}, To: "2"}
	kind := config.Edit{Knob: "kind", At: config.Address{Doc: "x.py", Path: "C.kind"}, To: `"adamw"`}
	j := job.Job{Asked: []config.Edit{asked, kind, edit("lr", "2", "1")}}
	if got := strings.Join(list(j), "; "); got != `kind = "adamw"; workers = 2; micro-batch = 8; lr = 1e-1` {
		t.Errorf("of what the user asked for: %q", got)
	}
	a.Outcome.Settings = map[string]string{"kind": "'adamw'", "--lr": "3"}
	if got := strings.Join(list(j), "; "); got != "--lr = 2 (it reports 3); workers = 2; micro-batch = 8; lr = 1e-1" {
		t.Errorf("of what the user asked for, with reports: %q", got)
	}
	a.Outcome.Settings = map[string]string{job.MicroBatch: "1,6", "lr": "0.1"}
	if got := strings.Join(list(job.Job{Signs: job.Signs{TakesArgv: true}}), "; "); got != "micro-batch = 8 (it reports 1,6)" {
		t.Errorf("one is contradicted: %q", got)
	}
	a.Outcome.Settings, a.Outcome.Confirmed = nil, []string{"x.py"}
	if got := list(job.Job{Signs: job.Signs{TakesArgv: true}}); len(got) != 0 {
		t.Errorf("all is confirmed: %q", got)
	}
}

// A part of the batch that the program reports otherwise was read wrongly, unless launch changed it or ranks share it.
func TestMisread(t *testing.T) {
	for name, tt := range map[string]struct {
		batch    job.Batch
		settings map[string]string
		edits    []config.Edit
		want     string
	}{
		"as read": {job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, map[string]string{job.Accumulation: "2"}, nil, ""},
		"otherwise": {job.Batch{Micro: 16, Accumulation: 256, Ranks: 1}, map[string]string{job.Accumulation: "1"}, nil,
			"accumulation = 256 (it reports 1)"},
		"micro-batch": {job.Batch{Micro: 1600, Accumulation: 1, Ranks: 1}, map[string]string{job.MicroBatch: "1,601"}, nil,
			"micro-batch = 1600 (it reports 1,601)"},
		"not known": {job.Batch{Micro: 8, Ranks: 1}, map[string]string{job.Accumulation: "4"}, nil, ""},
		"no number": {job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, map[string]string{job.Accumulation: "auto"}, nil, ""},
		"two ranks": {job.Batch{Micro: 8, Accumulation: 2, Ranks: 2}, map[string]string{job.Accumulation: "4"}, nil, ""},
		"changed": {job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, map[string]string{job.Accumulation: "4"},
			[]config.Edit{edit(job.Accumulation, "1", "2")}, ""},
	} {
		a := Attempt{Plan: Plan{Batch: tt.batch, Edits: tt.edits}, Outcome: Outcome{Settings: tt.settings}}
		var got []string
		for _, o := range a.Misread() {
			got = append(got, o.String())
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Settings that do not arrive are known by what is asked for, where nothing confirms them.
func TestUnmoved(t *testing.T) {
	b := func(n int64) *unit.Bytes { v := unit.Bytes(n); return &v }
	ran := func(micro, requested, allocated int64, edits ...config.Edit) Attempt {
		return Attempt{Plan: Plan{Batch: job.Batch{Micro: micro}, Edits: edits},
			Outcome: Outcome{Ending: OutOfMemory, Phase: "training", Report: oom.Report{Numbers: oom.Numbers{Requested: b(requested), Allocated: b(allocated)}}}}
	}
	smaller := edit(job.MicroBatch, "32", "16")
	confirmed := ran(16, 1_648_361_472, 5_000_000_000, smaller)
	confirmed.Outcome.Settings = map[string]string{job.MicroBatch: "16"}
	unsized := ran(16, 1_648_361_472, 0, smaller)
	unsized.Outcome.Report.Allocated = nil
	for name, tt := range map[string]struct {
		second Attempt
		stops  bool
	}{
		"the same figures":            {ran(16, 1_648_361_472, 5_000_000_000, smaller), true},
		"nearly the same":             {ran(16, 1_650_000_000, 4_990_000_000, smaller), true},
		"half of it":                  {ran(16, 824_180_736, 5_000_000_000, smaller), false},
		"the same request, less held": {ran(16, 1_648_361_472, 4_000_000_000, smaller), false},
		"confirmed":                   {confirmed, false},
		"what is held is not known":   {unsized, false},
		"the same micro-batch":        {ran(32, 1_648_361_472, 5_000_000_000, edit("workers", "4", "2")), false},
	} {
		r := &Run{Job: &job.Job{}, Ladders: sr(training(func(unit.Bytes) mem.Estimate { return unknown() }), nil).Ladders, Attempts: []Attempt{ran(32, 1_648_361_472, 5_000_000_000), tt.second}}
		if why := r.Unmoved(r.Last()); (why != "") != tt.stops {
			t.Errorf("%s: %q", name, why)
		}
	}
	r := &Run{Job: &job.Job{}, Ladders: sr(training(func(unit.Bytes) mem.Estimate { return unknown() }), nil).Ladders, Limits: Limits{Allow: 3}, Attempts: []Attempt{ran(32, 1_648_361_472, 5_000_000_000), ran(16, 1_648_361_472, 5_000_000_000, smaller)}}
	if p, stop := r.Next(); p != nil || stop.Code != OwnTrouble || !strings.Contains(stop.Why, "does not use the settings") {
		t.Errorf("the next: %+v, %+v", p, stop)
	}
}

// What an earlier attempt left in the way is put aside, and the same plan made again: once.
func TestBlocked(t *testing.T) {
	none := mem.Estimate{Unknown: "no formula"}
	r := sr(training(func(unit.Bytes) mem.Estimate { return none }), []ladder.Rung{rung("as asked", ladder.None, "", "", none)})
	p, _ := r.Next()
	r.Attempts = append(r.Attempts, Attempt{*p, Outcome{Ending: OutOfMemory, Phase: "training"}})
	p, stop := r.Next()
	if p == nil {
		t.Fatalf("after an out-of-memory: %+v", stop)
	}
	blocked := Outcome{Ending: Failed, Blocked: "/w/logs/config.yaml"}
	r.Attempts = append(r.Attempts, Attempt{*p, blocked})
	again, stop := r.Next()
	if again == nil || !again.stands(p) || again.Attempt != 3 {
		t.Fatalf("a file was in the way: %+v, %+v", again, stop)
	}
	r.Attempts = append(r.Attempts, Attempt{*again, blocked})
	if p, stop := r.Next(); p != nil || stop.Why != string(Failed) {
		t.Errorf("it was in the way again: %+v, %+v", p, stop)
	}
	r.Attempts[3-1].Outcome.Blocked = ""
	if p, _ := r.Next(); p != nil {
		t.Errorf("it failed by itself, and is tried again: %+v", p)
	}
}
