package observe

import (
	"os"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// The job's share of a card is that of its own processes. Where the driver does not list them it is what came on top,
// and with others on the card only an upper bound.
func TestLookAtACard(t *testing.T) {
	me, gib := os.Getpid(), unit.GiB
	for name, tt := range map[string]struct {
		processes    []gpu.Process
		alone        bool
		held, others unit.Bytes
		bound        mem.Bound
	}{
		"its own processes are listed": {[]gpu.Process{{PID: me, Used: 5 * gib}, {PID: 1, Used: 3 * gib}}, false,
			5 * gib, 5 * gib, mem.Sampled},
		"a container, and others": {[]gpu.Process{{PID: 1, Used: 8 * gib}}, false, 8 * gib, 2 * gib, mem.AtMost},
		"a container, alone":      {nil, true, 8 * gib, 2 * gib, mem.Sampled},
	} {
		w := &Watch{timeline: newTimeline(), observations: newObservations(time.Second), recorder: newRecorder(time.Now())}
		w.timeline.is, w.timeline.pooled = mem.Used, true
		w.Started(me)
		w.Event(oom.Event{Kind: job.Started})
		w.lookAt(gpu.Device{Total: 24 * gib, Used: 10 * gib, Processes: tt.processes}, 2*gib, tt.alone)
		w.Event(oom.Event{Kind: job.Progress, Iteration: 1})
		w.Event(oom.Event{Kind: job.Progress, Iteration: 2})
		by, completed := w.Measured(nil, true)
		if ms := by[ladder.Training]; len(ms) != 1 || ms[0].Bytes != tt.held || ms[0].Bound != tt.bound {
			t.Errorf("%s: measured %+v, want %v %q", name, by, tt.held, tt.bound)
		}
		if c := w.Card(); c == nil || c.Others != tt.others || c.Peak != tt.held {
			t.Errorf("%s: of the card %+v", name, c)
		}
		if c := w.Curve(); c == nil || len(c.Spans) != 1 || c.Spans[0].Most != tt.held || c.Is != mem.Used ||
			c.Doubted != (tt.bound == mem.AtMost) {
			t.Errorf("%s: over time %+v", name, c)
		}
		if len(completed) != 1 {
			t.Errorf("%s: completed %q", name, completed)
		}
	}
}
