// Package observe watches the processes of a job while an attempt runs: the memory that they hold, whose peaks it
// assigns to the job's phases, and the ranks among them that wait for one that has ended.
package observe

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/unit"
)

// Subject describes what to watch.
type Subject struct {
	Device *gpu.Device // nil if none is known
	// Benchmark: the program sets cudnn.benchmark, whose trials are in the peaks that torch counts.
	Benchmark bool
	Limited   bool // the kernel limits the data of each process in host memory
	Every     time.Duration
	// Uses receives the most that the job has held of the card, at each look that tells it from what others hold, and
	// whether the job has been through all its phases. May be nil.
	Uses func(uuid string, used unit.Bytes, settled bool)
	// Phases are those of the job.
	Phases []string
	// Host reads the free host memory.
	Host func() ladder.HostRooms
	// Hook returns the peaks that a hook in the program has reported, in bytes, and whether they are the last. May be
	// nil.
	Hook func() (allocated, reserved unit.Bytes, last bool)
}

// A Watch observes one attempt. Its methods may be called from several goroutines.
type Watch struct {
	*observations
	timeline *timeline
	recorder *recorder
	hook     func() (allocated, reserved unit.Bytes, last bool)
	pid      atomic.Int64
	uses     func(uuid string, used unit.Bytes, settled bool)
	phases   []string
	most     unit.Bytes   // that the job has held of the card
	held     atomic.Int64 // by the last reading; 0 before the first
	stop     sync.Once
	end      func()
	done     []chan struct{}
}

// Start starts to watch: host memory, and the card if the driver reports it, or the processes if their memory is
// limited.
func Start(ctx context.Context, of Subject) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{timeline: newTimeline(), observations: newObservations(of.Every), hook: of.Hook, end: cancel,
		recorder: newRecorder(time.Now())}
	w.uses, w.phases = of.Uses, of.Phases
	start := func(look func(context.Context)) {
		done := make(chan struct{})
		w.done = append(w.done, done)
		go func() {
			defer close(done)
			look(ctx)
		}()
	}
	start(func(ctx context.Context) {
		watchHost(ctx, of.Host, func(r ladder.HostRooms) {
			w.addHost(r)
			w.recorder.enter(time.Now(), w.timeline.running())
		})
	})
	start(func(ctx context.Context) { watchAnon(ctx, w.PID, w.recorder.addHost) })
	w.timeline.benchmark = of.Benchmark
	w.timeline.pooled = of.Device == nil || of.Device.OnCard()
	switch d := of.Device; {
	case d == nil || d.Planned:
	case d.Kind == gpu.CPU && of.Limited:
		w.timeline.is, w.timeline.from = mem.Data, "VmData in /proc/PID/status"
		start(func(ctx context.Context) { watchData(ctx, w.PID, w.see) })
	case d.OnCard() && d.UUID != "":
		w.timeline.is, w.timeline.from = mem.Used, d.Reporter()
		uuid, before, alone := d.UUID, d.Used, len(d.Processes) == 0 && !d.Shared && !d.Unlisted
		start(func(ctx context.Context) {
			err := drivers.Watch(ctx, of.Every, func(_ time.Time, devices []gpu.Device) {
				for _, dev := range devices {
					if dev.UUID != uuid {
						continue
					}
					if w.answered(dev); dev.Fault == "" {
						w.lookAt(dev, before, alone)
					}
				}
			})
			for _, fault := range faults { // without one, only the figures are lost
				if err != nil && strings.Contains(err.Error(), fault) {
					w.answered(gpu.Device{Index: d.Index, Fault: fault})
				}
			}
		})
	}
	return w
}

// faults are what nvidia-smi says of a card that is gone. It lists none then.
var faults = []string{"GPU is lost", "GPU requires reset", "Unknown Error"}

// Started sets the first process of the job.
func (w *Watch) Started(pid int) { w.pid.Store(int64(pid)) }

// PID is the first process of the job; 0 before it starts.
func (w *Watch) PID() int { return int(w.pid.Load()) }

// Event adds a sign that the program printed.
func (w *Watch) Event(e oom.Event) {
	if w.timeline.turns(e) {
		w.askHook()
	}
	w.timeline.event(e)
	if e.Kind == job.PhaseEnd { // of some phases a program prints the end only
		w.recorder.pass(e.Phase)
	}
	w.recorder.enter(time.Now(), w.timeline.running())
}

// see takes one reading of what the job holds.
func (w *Watch) see(held unit.Bytes, counted bool) {
	w.held.Store(int64(held))
	w.timeline.see(held, counted)
	now := time.Now()
	w.recorder.enter(now, w.timeline.running())
	w.recorder.add(now, held)
}

// Now is what is observed of the job at this moment.
type Now struct {
	Phase      string     // that runs; "" before the first
	Held, Peak unit.Bytes // 0 if nothing was read
	Is         string     // the quantity, as [mem.Measurement.Is] names it
	Doubted    bool       // part of it may belong to other processes
}

// Now returns what is observed of the job at this moment.
func (w *Watch) Now() Now {
	is, _, doubted := w.timeline.source()
	peak, _ := w.timeline.peaks()
	return Now{Phase: w.timeline.running(), Held: unit.Bytes(w.held.Load()), Peak: peak, Is: is, Doubted: doubted}
}

// Anonymous is the memory of all processes of the job that no file backs; 0 if it is unknown. It reads a file of each
// process and thread, so it is not for each second.
func (w *Watch) Anonymous() unit.Bytes { return anonOf(w.PID()) }

// Curve returns what the job has held so far, over time; nil if nothing was read.
func (w *Watch) Curve() *Curve {
	c := w.recorder.curve()
	if c != nil {
		c.Is, c.From, c.Doubted = w.timeline.source()
	}
	return c
}

// Course returns what advice is taken from, as observed so far.
func (w *Watch) Course() Course { return w.recorder.course() }

// Retried adds a line of the allocator about a request that it tries again.
func (w *Watch) Retried(r oom.Retry) { w.timeline.retried(r) }

// Retries returns how often the allocator tried again, by phase, "" where that is unknown; nil if it did not. priced
// is as for Measured.
func (w *Watch) Retries(priced map[string]unit.Bytes) map[string]oom.Retries {
	return w.timeline.retriesOf(priced)
}

func (w *Watch) askHook() {
	if w.hook != nil {
		w.timeline.hooked(w.hook())
	}
}

// lookAt takes one reading of a card. The job's share is that of its own processes. If the driver does not list them
// (in a container, its pids are those outside), the share is the growth since the start, and part of it may belong to
// other processes.
func (w *Watch) lookAt(d gpu.Device, before unit.Bytes, alone bool) {
	used, known := unit.Bytes(0), false
	var who []oom.Holder
	for _, p := range d.Processes {
		switch {
		case p.Used < 0, p.Relays():
		case w.PID() > 0 && proc.Descends(p.PID, w.PID()):
			used, known = used+p.Used, true
		default:
			who = append(who, oom.Holder{PID: int64(p.PID), Bytes: p.Used, Name: p.Name, User: p.User})
		}
	}
	if !known {
		used = max(0, d.Used-before)
		w.timeline.doubt(!alone)
	}
	w.see(used, false)
	w.recorder.addBusy(time.Now(), d.Busy)
	if known {
		w.most = max(w.most, used)
		if w.uses != nil {
			w.uses(d.UUID, w.most, w.timeline.settled(w.phases))
		}
		w.addCard(d, used, d.Used-used, who)
	} else {
		w.addCard(d, used, before, nil)
	}
}

// Stop ends the watch, after the program has ended. The hook is asked for the last time. A second call does nothing.
func (w *Watch) Stop() {
	w.stop.Do(func() {
		w.askHook()
		w.end()
		for _, done := range w.done {
			<-done
		}
		w.timeline.finish()
	})
}

// Peaks returns the largest observed peak, in all and by phase, in bytes, and the quantity that it is, as
// [mem.Measurement.Is] names it. The peak is 0 if nothing was observed.
func (w *Watch) Peaks() (peak unit.Bytes, is string, by map[string]unit.Bytes) {
	peak, by = w.timeline.peaks()
	return peak, w.timeline.is, by
}

// Allocated is the peak of allocated memory that the hook reported; 0 if there was no report.
func (w *Watch) Allocated() unit.Bytes { return w.timeline.allocated.peak }

// Measured returns the measurements of each phase, and the phases that were completed, once the watch has stopped. priced is
// the estimate of each phase of the job, 0 where unknown. succeeded: the attempt did.
func (w *Watch) Measured(priced map[string]unit.Bytes, succeeded bool) (by map[string][]mem.Measurement, completed []string) {
	return w.timeline.measured(priced, succeeded)
}
