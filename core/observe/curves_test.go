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

// A curve keeps a bounded number of readings, from all of the time, in order.
func TestCurveIsBounded(t *testing.T) {
	var c curve
	const n = 100 * mostReadings
	for i := range n {
		c.add(Reading{time.Duration(i), unit.Bytes(i)})
	}
	got := c.readings
	if len(got) < mostReadings/2 || len(got) > mostReadings {
		t.Fatalf("%d readings are kept", len(got))
	}
	if got[0].After > n/mostReadings*2 || got[len(got)-1].After < n-n/mostReadings*4 {
		t.Errorf("from %v to %v of %d", got[0].After, got[len(got)-1].After, n)
	}
	for i := 1; i < len(got); i++ {
		if step := got[i].After - got[i-1].After; step <= 0 || step > 4*n/mostReadings {
			t.Fatalf("a step of %d between two readings", step)
		}
	}
}

// The time between two looks belongs to the phase of the first. Validation is in no curve of the card, and how busy the
// card is counts in training only.
func TestCourse(t *testing.T) {
	var c course
	at := func(s int) time.Time { return time.Unix(1000, 0).Add(time.Duration(s) * time.Second) }
	busy := func(n int) *int { return &n }
	for i, look := range []struct {
		s     int
		phase string
		held  unit.Bytes
		busy  *int
	}{{0, "", 1, nil}, {2, "training", 2, busy(90)}, {5, "training", 3, busy(30)}, {9, "validation", 9, busy(5)},
		{10, "training", 4, nil}, {12, "training", 5, busy(60)}} {
		c.in(at(look.s), look.phase)
		c.onCard(at(look.s), look.phase, look.held, look.busy)
		c.onHost(at(look.s), unit.Bytes(i))
	}
	w := &Watch{}
	w.course.spent, w.course.card, w.course.host = c.spent, c.card, c.host
	w.course.busy, w.course.looks, w.course.busyFor = c.busy, c.looks, c.busyFor
	got := w.Curves()
	for phase, want := range map[string]time.Duration{"": 2 * time.Second, "training": 9 * time.Second,
		"validation": time.Second} {
		if got.Spent[phase] != want {
			t.Errorf("%v in %q, want %v", got.Spent[phase], phase, want)
		}
	}
	if len(got.Card) != 5 || got.Card[3] != (Reading{10 * time.Second, 4}) || len(got.Host) != 6 {
		t.Errorf("the curves are %+v", got)
	}
	if got.Busy != 60 || got.BusyLooks != 3 || got.BusyFor != 10*time.Second {
		t.Errorf("busy %v %% in %d looks over %v", got.Busy, got.BusyLooks, got.BusyFor)
	}
}

// A look at the card goes into the curve, and this process has anonymous memory.
func TestLooksAreCurves(t *testing.T) {
	w := &Watch{timeline: newTimeline(), observations: newObservations(time.Second), curve: newRecorder(time.Now())}
	w.Started(os.Getpid())
	w.Event(oom.Event{Kind: job.Started})
	percent := 40
	w.lookAt(gpu.Device{Total: 24 * unit.GiB, Used: unit.GiB, Busy: &percent}, 0, true)
	if got := w.Curves(); len(got.Card) != 1 || got.Card[0].Held != unit.GiB || got.BusyLooks != 1 || got.Busy != 40 {
		t.Errorf("%+v", got)
	}
	if held := anonOf(os.Getpid()); held < unit.MiB {
		t.Errorf("this process has %v of anonymous memory", held)
	}
	if held := anonOf(0); held != 0 {
		t.Errorf("no process has %v", held)
	}
}
