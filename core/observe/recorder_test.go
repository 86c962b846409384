package observe

import (
	"os"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// The time between two looks belongs to the phase of the first. Validation is not in what advice sees of the memory,
// though it is on the curve, and how busy the card is counts in training only.
func TestCourse(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000, 0).Add(time.Duration(s) * time.Second) }
	busy := func(n int) *int { return &n }
	r := newRecorder(at(0))
	for i, look := range []struct {
		s     int
		phase string
		held  unit.Bytes
		busy  *int
	}{{0, "", 1, nil}, {2, "training", 2, busy(90)}, {5, "training", 3, busy(30)}, {9, "validation", 9, busy(5)},
		{10, "training", 4, nil}, {12, "training", 5, busy(60)}} {
		r.enter(at(look.s), look.phase)
		r.add(at(look.s), look.held)
		r.addBusy(at(look.s), look.busy)
		r.addHost(at(look.s), unit.Bytes(i))
	}
	got := r.course()
	for phase, want := range map[string]time.Duration{"": 2 * time.Second, "training": 9 * time.Second,
		"validation": time.Second} {
		if got.Spent[phase] != want {
			t.Errorf("%v in %q, want %v", got.Spent[phase], phase, want)
		}
	}
	if len(got.Held) != 5 || got.Held[3] != (Reading{10 * time.Second, 4}) || len(got.Host) != 6 {
		t.Errorf("the course is %+v", got)
	}
	if got.Busy != 60 || got.BusyLooks != 3 || got.BusyFor != 10*time.Second {
		t.Errorf("busy %v %% in %d looks over %v", got.Busy, got.BusyLooks, got.BusyFor)
	}
	if c := r.curve(); len(c.Spans) != 6 || c.Spans[3].Most != 9 {
		t.Errorf("the curve is %+v", c)
	}
}

// In a training of days each span of the curve has a validation in it. What advice sees of training is still training
// alone, bounded, in order, and from all of the time.
func TestCourseOfALongRun(t *testing.T) {
	began := time.Unix(1000, 0)
	r := newRecorder(began)
	const looks = 200_000
	for i := range looks {
		now := began.Add(time.Duration(i) * time.Second)
		phase, held := "training", unit.Bytes(1000+i+looks*(i%3)) // a cache swings
		if i%10 == 0 {
			phase, held = "validation", 1
		}
		r.enter(now, phase)
		r.add(now, held)
	}
	got := r.course().Held
	if len(got) > CurveSpans || len(got) < CurveSpans/3 {
		t.Fatalf("%d readings", len(got))
	}
	for i, p := range got {
		if p.Held < 1000 || p.Held >= 1000+looks || i > 0 && (p.After <= got[i-1].After || p.Held <= got[i-1].Held) {
			t.Fatalf("reading %d is %v after %v", i, p.Held, p.After)
		}
	}
	if last := got[len(got)-1].After; last < looks*9/10*time.Second {
		t.Errorf("the last is from %v", last)
	}
}

// A look at the card goes to both readers, and this process has anonymous memory.
func TestLooksAreRecorded(t *testing.T) {
	w := &Watch{timeline: newTimeline(), observations: newObservations(time.Second), recorder: newRecorder(time.Now())}
	w.Started(os.Getpid())
	w.Event(oom.Event{Kind: job.Started})
	percent := 40
	w.lookAt(gpu.Device{Total: 24 * unit.GiB, Used: unit.GiB, Busy: &percent}, 0, false)
	if got := w.Course(); len(got.Held) != 1 || got.Held[0].Held != unit.GiB || got.BusyLooks != 1 || got.Busy != 40 {
		t.Errorf("%+v", got)
	}
	if c := w.Curve(); c == nil || len(c.Spans) != 1 || c.Spans[0].Most != unit.GiB || !c.Doubted {
		t.Errorf("%+v", c)
	}
	if held := anonOf(os.Getpid()); held < unit.MiB {
		t.Errorf("this process has %v of anonymous memory", held)
	}
	if held := anonOf(0); held != 0 {
		t.Errorf("no process has %v", held)
	}
}
