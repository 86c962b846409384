package run

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

const g = unit.GiB

// sure is an estimate of fixed model states and counted lines that grow; guess is workspace nobody vouches for.
func sure(fixed, grows, guess unit.Bytes) mem.Estimate {
	var e mem.Estimate
	e.Add(mem.Item{Kind: mem.Parameters, What: "net", Bytes: fixed}, mem.Item{Kind: mem.Saved, What: "net", Bytes: grows},
		mem.Item{Kind: mem.Workspace, What: "net", Bytes: guess, Guess: true})
	return e
}

func unknown() mem.Estimate { return mem.Estimate{Unknown: "no formula"} }

func rung(name string, cost ladder.Cost, knob, to string, e mem.Estimate) ladder.Rung {
	r := ladder.Rung{Name: name, Cost: cost, Estimates: []mem.Estimate{e}}
	if to != "" {
		r.Edits = []config.Edit{{Knob: knob, At: config.Address{Doc: "x.yml", Path: knob}, To: to, Cost: cost.String()}}
	}
	return r
}

// sr is a job of the sisr kind: training halves by micro-batch, validation by tiles.
func sr(training, validation []ladder.Rung) *Run {
	return &Run{
		Job: &job.Job{Plugin: "sisr", Batch: job.Batch{Micro: 16, Accumulation: 1, Ranks: 1},
			Resume: job.Resume{Edits: []config.Edit{{Knob: "resume", At: config.Address{Doc: "argv", Path: "--auto_resume"}, Add: true}}}},
		Ladders: &ladder.Set{
			Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
			Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: training}, {Phase: ladder.Validation, Rungs: validation}},
		},
		Limits: Limits{Allow: ladder.Metrics},
		Room:   12 * g,
	}
}

func training(at func(batch unit.Bytes) mem.Estimate) []ladder.Rung {
	return []ladder.Rung{
		rung("as asked", ladder.None, "", "", at(16)),
		rung("8 × 2", ladder.Speed, "micro-batch", "8", at(8)),
		rung("4 × 4", ladder.Speed, "micro-batch", "4", at(4)),
		rung("2 × 8", ladder.Speed, "micro-batch", "2", at(2)),
		rung("crop 64", ladder.Recipe, "crop", "64", at(1)),
	}
}

func validation(at func(pixels unit.Bytes) mem.Estimate) []ladder.Rung {
	return []ladder.Rung{
		rung("as asked", ladder.None, "", "", at(512)),
		rung("tiles of 256", ladder.Metrics, "tile", "256", at(256)),
		rung("tiles of 128", ladder.Metrics, "tile", "128", at(128)),
		rung("tiles of 64", ladder.Metrics, "tile", "64", at(64)),
	}
}

func names(p *Plan) string {
	var out []string
	for _, c := range p.Choices {
		out = append(out, c.Name)
	}
	return strings.Join(out, ", ")
}

func oomIn(phase string, allocated, requested unit.Bytes) Outcome {
	o := Outcome{Ending: OutOfMemory, Code: 1, Phase: phase, Report: oom.Report{OOM: true, Fatal: true, Kind: oom.GPUCapacity, Cause: "out of memory"}}
	if requested > 0 {
		o.Report.Allocated, o.Report.Requested = &allocated, &requested
	}
	return o
}

func TestFirstPlan(t *testing.T) {
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	for _, tt := range []struct {
		name    string
		run     *Run
		want    string
		verdict ladder.Verdict
	}{
		{"fits as asked", sr(training(small), validation(small)), "as asked, as asked", ladder.Fits},
		{"each phase descends its own ladder",
			sr(training(func(b unit.Bytes) mem.Estimate { return sure(g, b*g, 0) }), validation(func(p unit.Bytes) mem.Estimate { return sure(g, p*p/4096*g, 0) })),
			"8 × 2, tiles of 128", ladder.Fits},
		{"a guess does not cost anybody's results",
			sr(training(small), validation(func(p unit.Bytes) mem.Estimate { return sure(g, 10*g, p*g/64) })), "as asked, as asked", ladder.May},
		{"a guess may cost time",
			sr(training(func(b unit.Bytes) mem.Estimate { return sure(g, g, b*g) }), validation(small)), "8 × 2, as asked", ladder.Fits},
		{"unknown is never zero and never adjusted",
			sr(training(func(unit.Bytes) mem.Estimate { return unknown() }), validation(small)), "as asked, as asked", ladder.Unknown},
	} {
		p, stop := tt.run.Next()
		if stop != nil {
			t.Errorf("%s: stopped: %s", tt.name, stop.Why)
			continue
		}
		if names(p) != tt.want || p.Verdict() != tt.verdict {
			t.Errorf("%s: plan is %q (%v), want %q (%v)", tt.name, names(p), p.Verdict(), tt.want, tt.verdict)
		}
	}
}

func TestRefusesOnlyWhatIsCounted(t *testing.T) {
	huge := func(b unit.Bytes) mem.Estimate { return sure(5*g+min(b-1, 1)*15*g, b*g, 0) } // only the crop of 64 fits
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	r := sr(training(huge), validation(small))
	p, stop := r.Next()
	if p != nil || stop.Code != CannotFit || stop.Refused == nil {
		t.Fatalf("plan %v, stop %+v; want a refusal with %d", p, stop, CannotFit)
	}
	if stop.Beyond == nil || stop.Beyond.Name != "crop 64" || stop.Beyond.Flag != "--allow recipe" {
		t.Errorf("next rung named is %+v, want crop 64 by --allow recipe", stop.Beyond)
	}
	r.Limits.Anyway = true
	if p, stop := r.Next(); stop != nil || names(p) != "2 × 8, as asked" {
		t.Errorf("--anyway: %v, %+v; want the smallest allowed rung", p, stop)
	}
	guess := func(b unit.Bytes) mem.Estimate { return sure(g, g, 20*g+b) }
	if p, stop := sr(training(guess), validation(small)).Next(); stop != nil || p.Verdict() != ladder.May {
		t.Errorf("refused on a guess: %+v", stop)
	}
}

// The whole story of a night, as a table: what is known of each attempt, and what is planned after it.
func TestStory(t *testing.T) {
	none := func(unit.Bytes) mem.Estimate { return unknown() }
	r := sr(training(none), validation(none))
	r.Limits.AsAsked = true
	saved := func(o Outcome, it int64) Outcome { o.Saved = &State{Path: "s", Iteration: it}; return o }
	for i, step := range []struct {
		want   string
		resume bool
		then   Outcome
	}{
		{"as asked, as asked", false, oomIn(ladder.Training, 0, 0)},
		{"8 × 2, as asked", false, oomIn(ladder.Training, 0, 0)},
		{"4 × 4, as asked", false, saved(oomIn(ladder.Validation, 0, 0), 999)},
		{"4 × 4, tiles of 256", true, oomIn(ladder.Validation, 0, 0)}, // its own state is gone; the run's is not
		{"4 × 4, tiles of 128", true, Outcome{Ending: Succeeded}},
	} {
		p, stop := r.Next()
		if stop != nil {
			t.Fatalf("attempt %d: stopped: %s", i+1, stop.Why)
		}
		if names(p) != step.want {
			t.Fatalf("attempt %d is %q, want %q", i+1, names(p), step.want)
		}
		resumes := p.Resume != nil && p.Edits[len(p.Edits)-1].Knob == "resume"
		if resumes != step.resume {
			t.Errorf("attempt %d resumes: %v, want %v", i+1, resumes, step.resume)
		}
		r.Attempts = append(r.Attempts, Attempt{*p, step.then})
	}
	if p, stop := r.Next(); p != nil || stop.Why != string(Succeeded) {
		t.Errorf("after success: %v, %+v", p, stop)
	}
}

// An out-of-memory is a measurement: rungs that it proves too large are passed over.
func TestMeasurementSkipsRungs(t *testing.T) {
	low := func(b unit.Bytes) mem.Estimate { return sure(g, b*g/8, 0) } // says 3 GiB at 16
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	r := sr(training(low), validation(small))
	p, _ := r.Next()
	r.Attempts = append(r.Attempts, Attempt{*p, oomIn(ladder.Training, 11*g, 38*g)}) // it was 49: 24 times the growing 2
	p, stop := r.Next()
	if stop != nil || names(p) != "2 × 8, as asked" {
		t.Fatalf("plan %v, stop %+v; want 2 × 8: 8 × 2 would need 25 GiB and 4 × 4 13", p, stop)
	}
	items := p.Choice(ladder.Training).Estimate.Items
	if last := items[len(items)-1]; last.Kind != mem.Correction || last.Bytes <= 0 {
		t.Errorf("the correction is no line of the ledger: %+v", items)
	}
	if c := p.Choice(ladder.Validation); len(c.Estimate.Items) != 2 {
		t.Errorf("training's measurement corrected validation: %+v", c.Estimate.Items)
	}
}

func TestNoRungMendsIt(t *testing.T) {
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	for _, kind := range []oom.Kind{oom.HostOOM, oom.SharedMemory, oom.CPUAlloc} {
		r := sr(training(small), validation(small))
		p, _ := r.Next()
		o := oomIn(ladder.Training, 0, 0)
		o.Report.Kind = kind
		r.Attempts = append(r.Attempts, Attempt{*p, o})
		if p, stop := r.Next(); p != nil || stop == nil {
			t.Errorf("%s on a card: planned %v; a smaller micro-batch frees no host memory", kind, p)
		}
		r.Host = true
		if p, _ := r.Next(); p == nil && kind != oom.SharedMemory {
			t.Errorf("%s on the host: not planned", kind)
		}
	}
}

func TestContentionLowersTheRoom(t *testing.T) {
	at := func(b unit.Bytes) mem.Estimate { return sure(g, b*g/2, 0) } // 9 at 16, 5 at 8
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	r := sr(training(at), validation(small))
	p, _ := r.Next()
	o := oomIn(ladder.Training, 5*g, g)
	o.Report.Kind = oom.GPUContention
	r.Attempts = append(r.Attempts, Attempt{*p, o})
	r.Room = 6 * g
	if p, stop := r.Next(); stop != nil || names(p) != "8 × 2, as asked" {
		t.Errorf("plan %v, stop %+v; want the rung that fits beside the others", p, stop)
	}
	r.Room = g / 2
	if p, stop := r.Next(); p != nil || stop.Code != TryLater {
		t.Errorf("plan %v, stop %+v; want %d", p, stop, TryLater)
	}
	r.Attempts[0].Outcome.Report.Phase = oom.Build // no room for the model itself: somebody else's fault all the same
	if p, stop := r.Next(); p != nil || stop.Code != TryLater {
		t.Errorf("while the model is built: plan %v, stop %+v; want %d", p, stop, TryLater)
	}
}

// What a scheduler has preempted runs elsewhere or later, and what the user has stopped is the user's.
func TestPreempted(t *testing.T) {
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	for name, code := range map[string]int{"preempted": TryLater, "time_limit": 0, "interrupted": 0} {
		r := sr(training(small), validation(small))
		p, _ := r.Next()
		r.Attempts = append(r.Attempts, Attempt{*p, Outcome{Ending: Interrupted, Signal: 15, Cause: "as it was", Report: oom.Report{NotMemory: name}}})
		if p, stop := r.Next(); p != nil || stop.Code != code {
			t.Errorf("%s: plan %v, stop %+v; want %d", name, p, stop, code)
		}
	}
}

func TestUsedUpNamesTheNextRung(t *testing.T) {
	none := func(unit.Bytes) mem.Estimate { return unknown() }
	r := sr(training(none), validation(none))
	for range 4 {
		p, stop := r.Next()
		if stop != nil {
			t.Fatal(stop.Why)
		}
		r.Attempts = append(r.Attempts, Attempt{*p, oomIn(ladder.Training, 0, 0)})
	}
	p, stop := r.Next()
	if p != nil || stop.Code != 0 || stop.Beyond == nil || stop.Beyond.Name != "crop 64" {
		t.Errorf("plan %v, stop %+v; want the end of the allowed rungs, with crop 64 named", p, stop)
	}
}

// Whatever the estimates and whatever fails, a run comes to an end, and no plan is made twice.
func TestEveryRunEnds(t *testing.T) {
	at := func(b unit.Bytes) mem.Estimate { return sure(g, b*g/8, g) }
	r := sr(training(at), validation(at))
	r.Limits.Allow = ladder.Model
	seen := map[string]bool{}
	for i := range 100 {
		p, stop := r.Next()
		if stop != nil {
			return
		}
		if seen[names(p)] {
			t.Fatalf("%q is planned again", names(p))
		}
		seen[names(p)] = true
		phase := []string{ladder.Training, ladder.Validation, ladder.Validation}[i%3]
		r.Attempts = append(r.Attempts, Attempt{*p, oomIn(phase, 0, 0)})
	}
	t.Error("100 attempts, and no end")
}

type script struct {
	outcomes []Outcome
	plans    []*Plan
	fail     error
}

func (s *script) Room(context.Context) (unit.Bytes, error) { return 12 * g, nil }
func (s *script) Rooms(context.Context) ladder.HostRooms   { return ladder.HostRooms{} }
func (s *script) Execute(_ context.Context, p *Plan) (Outcome, error) {
	if s.fail != nil {
		return Outcome{}, s.fail
	}
	s.plans = append(s.plans, p)
	return s.outcomes[len(s.plans)-1], nil
}
func (s *script) Planned(*Plan) error  { return nil }
func (s *script) Ended(*Attempt) error { return nil }

func TestCarry(t *testing.T) {
	none := func(unit.Bytes) mem.Estimate { return unknown() }
	r := sr(training(none), validation(none))
	s := &script{outcomes: []Outcome{oomIn(ladder.Training, 0, 0), {Ending: Failed, Code: 7}}}
	stop, err := r.Carry(t.Context(), s, s)
	if err != nil || stop.Why != string(Failed) || len(r.Attempts) != 2 || r.Last().Outcome.Code != 7 {
		t.Errorf("stop %+v, %v after %d attempts", stop, err, len(r.Attempts))
	}
	r = sr(training(none), validation(none))
	s = &script{fail: errors.New("no pty")}
	if _, err := r.Carry(t.Context(), s, s); err == nil || !strings.Contains(err.Error(), "no pty") {
		t.Errorf("launch's own trouble came back as %v", err)
	}
}

// As asked means that nothing is changed on an estimate: a phase is adjusted after it failed, and no other with it.
func TestAsAskedChangesOnlyWhatFailed(t *testing.T) {
	at := func(n unit.Bytes) mem.Estimate { return sure(g, n*g, 0) }
	r := sr(training(at), validation(at)) // both far too large
	r.Limits.AsAsked = true
	for i, want := range []string{"as asked, as asked", "8 × 2, as asked", "8 × 2, tiles of 64"} {
		p, stop := r.Next()
		if stop != nil || names(p) != want {
			t.Fatalf("attempt %d is %v (%+v), want %q", i+1, p, stop, want)
		}
		r.Attempts = append(r.Attempts, Attempt{*p, oomIn([]string{ladder.Training, ladder.Validation, ladder.Validation}[i], 0, 0)})
	}
}

// Filling starts from the top of the same ladder, and takes what fits for certain; after a failure it goes down.
func TestFill(t *testing.T) {
	at := func(b unit.Bytes) mem.Estimate { return sure(g, b*g/2, 0) }
	rungs := append([]ladder.Rung{
		rung("64", ladder.None, "micro-batch", "64", at(64)), // 33 GiB
		rung("20", ladder.None, "micro-batch", "20", at(20)), // 11 GiB
	}, training(at)...)
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	r := sr(rungs, validation(small))
	r.Ladders.Phases[0].Asked = 2
	if p, _ := r.Next(); names(p) != "as asked, as asked" {
		t.Errorf("without --fill the plan is %q", names(p))
	}
	r.Limits.Fill = true
	p, _ := r.Next()
	if names(p) != "20, as asked" {
		t.Fatalf("with --fill the plan is %q, want the largest rung that fits", names(p))
	}
	r.Attempts = append(r.Attempts, Attempt{*p, oomIn(ladder.Training, 11*g, 3*g)})
	if p, stop := r.Next(); stop != nil || names(p) != "as asked, as asked" {
		t.Errorf("after it failed: %v, %+v; want the next rung that is then expected to fit", p, stop)
	}
}

// A card that is full of others' work is no card that is too small.
func TestNoRoomNow(t *testing.T) {
	at := func(b unit.Bytes) mem.Estimate { return sure(2*g, b*g/4, 0) }
	r := sr(training(at), validation(func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }))
	r.Room, r.Empty = g, 12*g
	if p, stop := r.Next(); p != nil || stop.Code != TryLater || !strings.Contains(stop.Why, "others hold 11.0 GiB") {
		t.Errorf("plan %v, stop %+v; want %d", p, stop, TryLater)
	}
}

// coupled is a job that validates at the training micro-batch, so that the knob is on the shared ladder: 16 × 1, 8 × 2 and
// as asked 4 × 4, then 2 × 8, at a gigabyte a sample in training and half of that in validation.
func coupled(guess unit.Bytes) *Run {
	r := sr(nil, nil)
	set := r.Ladders
	set.Shared = ladder.Ladder{Phase: ladder.Shared, Asked: 2}
	for i, micro := range []string{"16", "8", "4", "2"} {
		n := unit.Bytes(16 >> i)
		cost := []ladder.Cost{ladder.Numerics, ladder.Speed, ladder.None, ladder.Numerics}[i]
		rg := rung("micro-batch "+micro, cost, "micro-batch", micro, mem.Estimate{})
		rg.Estimates = nil
		if i == 2 {
			rg = ladder.Rung{Name: "as asked"}
		}
		set.Shared.Rungs = append(set.Shared.Rungs, rg)
		for k, phase := range []unit.Bytes{n * g, n * g / 2} {
			if i == 0 {
				set.Phases[k].Rungs = []ladder.Rung{{Name: "as asked"}}
			}
			set.Phases[k].Rungs[0].Estimates = append(set.Phases[k].Rungs[0].Estimates, sure(g, phase, guess))
		}
	}
	return r
}

func TestCoupledPhases(t *testing.T) {
	for _, tt := range []struct {
		name    string
		room    unit.Bytes
		guess   unit.Bytes
		limits  Limits
		want    string
		verdict ladder.Verdict
	}{
		{"as asked", 12 * g, 0, Limits{Allow: ladder.Metrics}, "as asked", ladder.Fits},
		{"down for both", 4 * g, 0, Limits{Allow: ladder.Metrics}, "micro-batch 2", ladder.Fits},
		{"a guess costs nobody's results", 6 * g, 2 * g, Limits{Allow: ladder.Metrics}, "as asked", ladder.May},
		{"up takes the largest that fits", 12 * g, 0, Limits{Allow: ladder.Metrics, Fill: true}, "micro-batch 8", ladder.Fits},
		{"up to the top", 20 * g, 0, Limits{Allow: ladder.Metrics, Fill: true}, "micro-batch 16", ladder.Fits},
		{"up as far as allowed", 20 * g, 0, Limits{Allow: ladder.Speed, Fill: true}, "micro-batch 8", ladder.Fits},
		{"nothing above fits", 6 * g, 0, Limits{Allow: ladder.Metrics, Fill: true}, "as asked", ladder.Fits},
	} {
		r := coupled(tt.guess)
		r.Room, r.Limits = tt.room, tt.limits
		p, stop := r.Next()
		if stop != nil {
			t.Errorf("%s: stopped: %s", tt.name, stop.Why)
		} else if p.Shared.Name != tt.want || p.Verdict() != tt.verdict {
			t.Errorf("%s: %q (%v), want %q (%v)", tt.name, p.Shared.Name, p.Verdict(), tt.want, tt.verdict)
		}
	}
	// What was seen to grow late is no guess, though it is not counted from shapes.
	r := coupled(0)
	r.Room = 6 * g
	for i, e := range r.Ladders.Phases[0].Rungs[0].Estimates {
		e.Add(mem.Item{Kind: mem.Late, What: "after the first validation", Bytes: 2 * g, From: "a log"})
		r.Ladders.Phases[0].Rungs[0].Estimates[i] = e
	}
	if p, stop := r.Next(); stop != nil || p.Shared.Name != "micro-batch 2" {
		t.Errorf("with late growth: %+v, %+v", p, stop)
	}
	r = coupled(0)
	p, _ := r.Next()
	r.Attempts = append(r.Attempts, Attempt{*p, oomIn(ladder.Validation, 0, 0)})
	if p, stop := r.Next(); stop != nil || p.Shared.Name != "micro-batch 2" {
		t.Errorf("after an out-of-memory in validation: %+v, %+v", p, stop)
	}
}

func TestUntakenSettingsEndTheRun(t *testing.T) {
	r := coupled(0)
	p, _ := r.Next()
	r.Attempts = append(r.Attempts, Attempt{*p, Outcome{Ending: Failed, Untaken: "python runs with -E"}})
	if _, stop := r.Next(); stop == nil || stop.Code != OwnTrouble || !strings.Contains(stop.Why, "-E") {
		t.Errorf("stop %+v", stop)
	}
}

func TestResumePath(t *testing.T) {
	r := coupled(0)
	r.Job.Resume.Edits = []config.Edit{{Knob: "resume", At: config.Address{Doc: "argv", Path: "--resume"}, To: job.SavedPath, Add: true}}
	p, _ := r.Next()
	out := oomIn(ladder.Training, 0, 0)
	out.Saved = &State{Path: "logs/last.ckpt", Iteration: 3}
	r.Attempts = append(r.Attempts, Attempt{*p, out})
	p, stop := r.Next()
	if stop != nil || p.Edits[len(p.Edits)-1].To != "logs/last.ckpt" {
		t.Errorf("plan %+v, stop %+v", p, stop)
	}
}

// A state that a later attempt has replaced, by an incomplete one or perhaps by another run's, is not there any more.
func TestReplacedState(t *testing.T) {
	for _, replace := range []func(*Outcome, []string){
		func(*Outcome, []string) {},
		func(o *Outcome, at []string) { o.Torn = at },
		func(o *Outcome, at []string) { o.Strange = at },
	} {
		r := coupled(0)
		r.Job.Resume.Edits = []config.Edit{{Knob: "resume", At: config.Address{Doc: "argv", Path: "--resume"},
			To: job.SavedPath, Add: true}}
		first, second := oomIn(ladder.Training, 0, 0), oomIn(ladder.Training, 0, 0)
		first.Saved = &State{Path: "last.pt"}
		replace(&second, []string{"last.pt"})
		at := &Plan{Resume: first.Saved}
		r.Attempts = []Attempt{{Plan{}, first}, {*at, second}}
		var p Plan
		r.goOn(&p)
		if gone := second.Torn != nil || second.Strange != nil; (p.Resume == nil) != gone || (r.Saved() == nil) != gone {
			t.Errorf("torn %v, strange %v: it resumes from %v", second.Torn, second.Strange, p.Resume)
		}
	}
}

// What a retry needs beside the rung: a port that is free, and room for the state that stays on the card.
func TestRetryEdits(t *testing.T) {
	r := coupled(0)
	r.Room = 6 * g
	r.Job.Resume = job.Resume{OnCard: true, Edits: []config.Edit{{Knob: "resume", At: config.Address{Doc: "argv", Path: "--resume"}, To: job.SavedPath, Add: true}},
		Always: []config.Edit{{Knob: "port", At: config.Address{Doc: "argv", Path: "--dist-url"}, From: "tcp://localhost:10001", To: "tcp://localhost:" + job.FreePort}}}
	has := func(p *Plan) bool {
		for _, e := range p.Edits {
			if e.Knob == "port" {
				return true
			}
		}
		return false
	}
	p, _ := r.Next()
	if has(p) {
		t.Error("the first attempt is changed as only a retry should be")
	}
	out := oomIn(ladder.Training, 5*g, g)
	out.Saved = &State{Path: "c.pth", Bytes: g}
	r.Attempts = append(r.Attempts, Attempt{*p, out})
	p, stop := r.Next()
	if stop != nil || !has(p) {
		t.Fatalf("plan %+v, stop %+v", p, stop)
	}
	var kept unit.Bytes
	for _, it := range p.Choices[0].Estimate.Items {
		if it.What == "resumed state" {
			kept += it.Bytes
		}
	}
	if kept != g {
		t.Errorf("%v of the state are counted, want 1 GiB", kept)
	}
}
