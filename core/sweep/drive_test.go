package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/launch-ml/launch/core/run"
)

// world is what outlives the process that drives a sweep: its journal, the results on disk, the trials that run.
type world struct {
	t       *rapid.T
	journal []Event
	results map[[2]int]Result
	done    map[int]int // how many times a trial has succeeded
	killAt  int         // the process is killed at this write
	after   bool        // after it, else before it
	endings []string
}

var errKilled = errors.New("killed")

// Write implements [Journal]. Events pass through JSON, as on disk.
func (w *world) Write(e Event) error {
	w.killAt--
	if w.killAt == 0 && !w.after {
		panic(errKilled)
	}
	text, err := json.Marshal(e)
	if err != nil {
		w.t.Fatal(err)
	}
	var back Event
	if err := json.Unmarshal(text, &back); err != nil {
		w.t.Fatal(err)
	}
	w.journal = append(w.journal, back)
	if w.killAt == 0 {
		panic(errKilled)
	}
	return nil
}

// machine is the executor of one process.
type machine struct {
	*world
	ends chan End
}

func (m *machine) Ends() <-chan End { return m.ends }
func (m *machine) Stop(int, bool)   {}

func (m *machine) Start(s Start) error {
	id := [2]int{s.Trial, s.Number}
	r, there := m.results[id]
	switch {
	case s.Begun && !there:
		r = Result{Ending: Lost}
	case s.Begun:
	case there:
		m.t.Fatalf("trial %d, start %d: started twice", s.Trial, s.Number)
	case m.done[s.Trial] > 0:
		m.t.Fatalf("trial %d runs again after it succeeded", s.Trial)
	default:
		ending := rapid.SampledFrom(m.endings).Draw(m.t, "ending")
		r = Result{Ending: run.Ending(ending)}
		switch ending {
		case string(run.Succeeded):
			m.done[s.Trial]++
		case "cannot start":
			return errors.New("cannot start")
		case "no room":
			r = Result{Ending: NotRun, Code: run.TryLater}
		case string(Lost):
			m.ends <- End{s.Trial, s.Number, r}
			return nil // nothing on disk
		default:
			r.Code = 1
		}
		m.results[id] = r
	}
	m.ends <- End{s.Trial, s.Number, r}
	return nil
}

// life drives the sweep until it ends, or its process is killed.
func (w *world) life(n, jobs int, first bool) (h *History, killed bool) {
	h, err := Replay(w.journal)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != nil {
			if r != errKilled {
				panic(r)
			}
			killed = true
		}
	}()
	taken := Event{Kind: Taken}
	if !first {
		w.Write(taken)
		h.Apply(taken)
	}
	trials := make(Rows, n)
	for i := range trials {
		trials[i] = Trial{Number: i + 1}
	}
	s := &Sweep{History: h, Searcher: trials, Template: Template{Sweep: "s", Command: []string{"true"}},
		Executor: &machine{w, make(chan End, 1000)}, Admission: Jobs(jobs), Journal: w}
	if _, err := s.Drive(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	return h, false
}

// However often the driving process is killed, each trial ends, and none succeeds twice.
func TestKilledAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, results: map[[2]int]Result{}, done: map[int]int{}, endings: []string{"succeeded", "succeeded",
			"failed",
			"lost", "no room", "cannot start", "out of memory"}}
		n, jobs := rapid.IntRange(1, 8).Draw(t, "trials"), rapid.IntRange(1, 4).Draw(t, "jobs")
		for i := range rapid.IntRange(0, 5).Draw(t, "kills") {
			w.killAt, w.after = rapid.IntRange(1, 12).Draw(t, "at"), rapid.Bool().Draw(t, "after")
			w.life(n, jobs, i == 0)
		}
		w.killAt = 0
		h, _ := w.life(n, jobs, len(w.journal) == 0)
		if len(h.Rows) != n || !h.Done {
			t.Fatalf("%d rows of %d", len(h.Rows), n)
		}
		for _, r := range h.Rows {
			if (r.State == Succeeded) != (w.done[r.Number] == 1) {
				t.Errorf("trial %d is %s, and succeeded %d times", r.Number, r.State, w.done[r.Number])
			}
			if r.State == Running || r.State == Waiting || r.State == Died {
				t.Errorf("trial %d is left %s", r.Number, r.State)
			}
		}
		// a resume runs what has not succeeded, and that alone
		w.endings = []string{"succeeded"}
		again := Event{Kind: Taken, Again: true}
		w.Write(again)
		if h, _ := w.life(n, jobs, true); h.Code() != 0 {
			t.Errorf("exit code %d after all rows could succeed: %v", h.Code(), h.Count())
		}
	})
}

// script is an executor that plays what a test wrote, one result for each start of each trial.
type script struct {
	results map[int][]Result
	starts  []Start
	stopped []int
	ends    chan End
	held    map[int]Start // runs until it is stopped
}

func (x *script) Ends() <-chan End { return x.ends }

func (x *script) Start(s Start) error {
	x.starts = append(x.starts, s)
	left := x.results[s.Trial]
	if len(left) == 0 {
		x.held[s.Trial] = s
		return nil
	}
	x.results[s.Trial] = left[1:]
	x.ends <- End{s.Trial, s.Number, left[0]}
	return nil
}

func (x *script) Stop(trial int, now bool) {
	if s, ok := x.held[trial]; ok {
		x.stopped = append(x.stopped, trial)
		delete(x.held, trial)
		r := Result{Ending: run.Interrupted, Run: "R", Known: true, Code: 130}
		if now {
			r = Result{Ending: Lost}
		}
		x.ends <- End{trial, s.Number, r}
	}
}

type memory []Event

func (m *memory) Write(e Event) error { *m = append(*m, e); return nil }

func drive(t *testing.T, n int, results map[int][]Result, change func(*Sweep, *script)) (*History, *script, string) {
	t.Helper()
	x := &script{results: results, ends: make(chan End, 100), held: map[int]Start{}}
	trials := make(Rows, n)
	for i := range trials {
		trials[i] = Trial{Number: i + 1}
	}
	s := &Sweep{History: &History{}, Searcher: trials, Template: Template{Sweep: "s", Command: []string{"true"}},
		Executor:  x,
		Admission: Jobs(2), Journal: &memory{}}
	if change != nil {
		change(s, x)
	}
	why, err := s.Drive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.History, x, why
}

func states(h *History) string {
	var all []string
	for _, r := range h.Rows {
		all = append(all, string(r.State))
	}
	return strings.Join(all, ", ")
}

func TestDrive(t *testing.T) {
	ok, failed := Result{Ending: run.Succeeded}, Result{Ending: run.Failed, Code: 3}
	noRoom, cannot := Result{Ending: NotRun, Code: run.TryLater}, Result{Ending: Refused, Code: run.CannotFit}
	lost := Result{Ending: Lost}
	for name, tt := range map[string]struct {
		results map[int][]Result
		want    string
		code    int
		starts  int
	}{
		"all succeed": {map[int][]Result{1: {ok}, 2: {ok}}, "succeeded, succeeded", 0, 2},
		"one fails":   {map[int][]Result{1: {ok}, 2: {failed}}, "succeeded, failed", 1, 2},
		"exit 0 that failed": {map[int][]Result{1: {ok}, 2: {{Ending: run.Succeeded, Code: 1}}},
			"succeeded, failed", 1, 2},
		"one cannot fit":           {map[int][]Result{1: {ok}, 2: {cannot}}, "succeeded, cannot fit", 78, 2},
		"no room beside the other": {map[int][]Result{1: {noRoom, ok}, 2: {ok}}, "succeeded, succeeded", 0, 3},
		"no room at all":           {map[int][]Result{1: {noRoom}, 2: {noRoom}}, "no room, no room", 75, 2},
		"no room and cannot fit":   {map[int][]Result{1: {noRoom, noRoom}, 2: {cannot}}, "no room, cannot fit", 75, 3},
		"no room and failed":       {map[int][]Result{1: {failed}, 2: {noRoom}}, "failed, no room", 1, 2},
		"lost once":                {map[int][]Result{1: {lost, ok}, 2: {ok}}, "succeeded, succeeded", 0, 3},
		"lost again and again":     {map[int][]Result{1: {lost, lost, lost, ok}, 2: {ok}}, "failed, succeeded", 1, 4},
		"out of memory to the bottom": {map[int][]Result{1: {{Ending: run.OutOfMemory, Code: 1}}, 2: {ok}},
			"out of memory, succeeded", 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			h, x, _ := drive(t, 2, tt.results, nil)
			if got := states(h); got != tt.want || h.Code() != tt.code || len(x.starts) != tt.starts {
				t.Errorf("%s, exit code %d after %d starts; want %s, %d, %d", got, h.Code(), len(x.starts), tt.want, tt.code,
					tt.starts)
			}
		})
	}
}

// What was interrupted resumes its run; if that run cannot be resumed, the trial starts over, by itself.
func TestResumesTheRun(t *testing.T) {
	h, x, _ := drive(t, 1, map[int][]Result{1: {{Ending: NotRun, Code: run.OwnTrouble}, {Ending: run.Succeeded,
		Run: "R2"}}},
		func(s *Sweep, _ *script) {
			for _, e := range []Event{
				{Kind: Listed, Trials: []Trial{{Number: 1}}, Done: true}, {Kind: Started, Trial: 1, Start: 1},
				{Kind: Ended, Trial: 1, Start: 1, Result: &Result{Ending: run.Interrupted, Run: "R1", Known: true}}, {Kind: Taken,
					Again: true},
			} {
				s.History.Apply(e)
			}
		})
	if len(x.starts) != 2 || x.starts[0].Resume != "R1" || x.starts[1].Resume != "" || x.starts[1].Number != 3 {
		t.Errorf("starts: %+v", x.starts)
	}
	if got := states(h); got != "succeeded" {
		t.Error(got)
	}
}

func TestStops(t *testing.T) {
	for times, want := range map[int]string{1: "interrupted, interrupted, waiting",
		2: "interrupted, interrupted, waiting"} {
		stops := make(chan string, 2)
		for range times {
			stops <- "Ctrl-C"
		}
		h, x, why := drive(t, 3, nil, func(s *Sweep, _ *script) { s.Stops = stops })
		if got := states(h); got != want || why != "Ctrl-C" || len(x.starts) != 2 {
			t.Errorf("%d: %s (%s), %d starts", times, got, why, len(x.starts))
		}
	}
}

// putBack is an admission that stops the second trial once, when the third waits.
type putBack struct{ done bool }

func (p *putBack) Admit(waiting, running []*Row) []Move {
	if len(running) == 2 && !p.done {
		p.done = true
		return []Move{{Trial: 2, Stop: true}}
	}
	return Jobs(2).Admit(waiting, running)
}

func TestPutBack(t *testing.T) {
	ok := Result{Ending: run.Succeeded}
	h, x, _ := drive(t, 2, map[int][]Result{}, func(s *Sweep, x *script) {
		tick := make(chan time.Time, 1)
		tick <- time.Now()
		s.Admission, s.Ticks = &putBack{}, tick
		s.Changed = func(r *Row) {
			if r.Number == 2 && r.State == Waiting { // now both can end
				x.results = map[int][]Result{2: {ok}}
				x.ends <- End{1, 1, ok}
			}
		}
	})
	if got := states(h); got != "succeeded, succeeded" || len(x.starts) != 3 || x.starts[2].Resume != "R" {
		t.Errorf("%s: %+v", got, x.starts)
	}
}

// A journal that cannot be written ends the sweep: nothing more starts, and what runs is not stopped.
type full struct {
	memory
	left int
}

func (f *full) Write(e Event) error {
	if f.left--; f.left < 0 {
		return errors.New("no space left")
	}
	return f.memory.Write(e)
}

func TestJournalFull(t *testing.T) {
	for left := range 6 {
		x := &script{ends: make(chan End, 100), held: map[int]Start{}}
		s := &Sweep{History: &History{}, Searcher: Rows{{Number: 1}, {Number: 2}, {Number: 3}}, Executor: x,
			Template: Template{Command: []string{"true"}}, Admission: Jobs(3), Journal: &full{left: left}}
		stops := make(chan string, 1)
		s.Stops = stops
		ran := 0
		time.AfterFunc(50*time.Millisecond, func() {
			ran = len(x.held)
			stops <- "stop"
		})
		if _, err := s.Drive(t.Context()); err == nil || len(x.held) > 0 || len(x.starts) > 3 {
			t.Errorf("%d: %v, %d still run, %d starts", left, err, len(x.held), len(x.starts))
		}
		if want := []int{0, 0, 1, 2, 3, 3}[left]; len(x.starts) == want && ran != want && left > 1 {
			t.Errorf("%d: %d of %d trials were stopped because the journal was full", left, want-ran, want)
		}
	}
}

func TestReadResult(t *testing.T) {
	doc := `{"version":1,"run":"R","ending":"succeeded","exit_code":0,
 "job":{"batch":{"micro":8,"accumulation":1,"ranks":1},"steps":40},
 "stop":{"why":"done"},"attempts":[
 {"plan":{"attempt":1,"trial":"rehearsal","cost":"none"},"outcome":{"ending":"succeeded","took_ns":1}},
 {"plan":{"attempt":2,"cost":"none","batch":{"micro":8,"accumulation":1,"ranks":1}},
  "outcome":{"ending":"out of memory","took_ns":5,"cause":"x"}},
 {"plan":{"attempt":3,"cost":"metrics","edits":[{"knob":"micro-batch","from":"8","to":"4","why":""}],
  "choices":[{"phase":"training","name":"half"}],
  "batch":{"micro":4,"accumulation":2,"ranks":1}},
  "outcome":{"ending":"succeeded","took_ns":7,"peak_bytes":100,"peak_is":"used","total":40}}]}`
	r, err := ReadResult([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if r.Attempts != 2 || r.Short != 1 || r.Took != 12 || !r.Beyond() || !r.Down() || r.Batch.Global() != 8 ||
		r.Batch.Micro != 4 ||
		r.Asked.Micro != 8 || r.Peak != 100 || r.Length != 40 || r.Why != "" || r.state() != Succeeded {
		t.Errorf("%+v", r)
	}
	resumed := `{"version":1,"ending":"succeeded","exit_code":0,"attempts":[{"plan":{"attempt":1,
 "shared":{"name":"as asked"},
 "edits":[{"knob":"resume","from":null,"to":"x","why":""}]},"outcome":{"ending":"succeeded"}}]}`
	if r, err := ReadResult([]byte(resumed)); err != nil || r.Down() {
		t.Errorf("a trial that was resumed counts as changed: %+v, %v", r, err)
	}
	for stop, want := range map[string]string{"failed": "AssertionError", "no rung is left": "no rung is left"} {
		failed := `{"version":1,"ending":"failed","exit_code":1,"stop":{"why":"` + stop + `"},"attempts":[
 {"plan":{"attempt":1,"cost":"none"},"outcome":{"ending":"failed","cause":"AssertionError"}}]}`
		if r, err := ReadResult([]byte(failed)); err != nil || r.Why != want { // the ending's name says nothing
			t.Errorf("it failed because of %q, want %q: %v", r.Why, want, err)
		}
	}
	for _, bad := range []string{"", "{}", `{"version":2,"ending":"succeeded"}`, `{"version":1`} {
		if _, err := ReadResult([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a result", bad)
		}
	}
}
