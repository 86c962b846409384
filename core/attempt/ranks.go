package attempt

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/oom"
)

// A crew watches the ranks of an attempt. It ends those that wait for one that ran out of memory: without that, they
// hold
// the card until their collective times out, which takes 10 or 30 minutes by default.
type crew struct {
	job      job.Job
	listener *listener
	dying    func() []int // processes that an out-of-memory ends, by the hook; nil without it
	pid      func() int
	cancel   context.CancelFunc

	stopped chan struct{}
	once    sync.Once
	done    chan struct{}
	ended   int   // ranks that launch has ended; read once done is closed
	readAt  int64 // the output that certain was read from, by its time
	certain bool
}

// rankLook is the time between two looks at the ranks.
const rankLook = 250 * time.Millisecond

// afterwards is how long a launcher may be silent after launch has ended the ranks that waited: it has to print why
// they
// failed, on a machine that may be busy, and holds no card meanwhile.
const afterwards = 10 * time.Second

// watchRanks starts to watch. The context that it returns is done when the whole program is to be ended.
func (x *Executor) watchRanks(ctx context.Context, a attempt, l *listener, pid func() int) (*crew, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	c := &crew{listener: l, pid: pid, cancel: cancel, stopped: make(chan struct{}), done: make(chan struct{})}
	if x.Job == nil { // it runs as typed
		close(c.done)
		return c, ctx
	}
	c.job = *x.Job
	if a.witness != nil {
		c.dying = a.witness.Dying
	}
	go c.watch(ctx)
	return c, ctx
}

// stop ends the watch and returns how many ranks it has ended.
func (c *crew) stop() int {
	c.once.Do(func() { close(c.stopped) })
	<-c.done
	c.cancel()
	return c.ended
}

func (c *crew) watch(ctx context.Context) {
	defer close(c.done)
	tick := time.NewTicker(rankLook)
	defer tick.Stop()
	var w *observe.Ranks
	var last time.Time // when launch has ended ranks
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.stopped:
			return
		case <-tick.C:
		}
		if pid := c.pid(); w == nil && pid > 0 {
			w = observe.FollowRanks(pid, localRanks(c.job))
		}
		if w == nil {
			continue
		}
		w.Look()
		if !last.IsZero() {
			if t := c.listener.tap.lastTime(); t.After(last) {
				last = t
			}
			if time.Since(last) > afterwards && len(w.Waiting()) == 0 && !w.Fresh() {
				c.cancel() // its launcher waits for something else
				return
			}
			continue
		}
		if f := c.facts(w); f.Hang() {
			for _, r := range w.Waiting() {
				r.Kill()
				c.ended++
			}
			last = time.Now()
		}
	}
}

// facts collects what the decision needs. While all ranks are there it reads next to nothing.
func (c *crew) facts(w *observe.Ranks) observe.RankFacts {
	dying := false
	if c.dying != nil && w.Number() > 0 {
		for _, pid := range c.dying() {
			dying = w.End(pid) || dying
		}
	}
	f := observe.RankFacts{Now: time.Now(), Ended: w.Ended(), Left: w.Left(), Fresh: w.Fresh(),
		Steps: c.job.Signs.Has(job.Progress)}
	if f.Ended.IsZero() {
		return f
	}
	waiting := w.Waiting()
	f.Waiting, f.Writing = len(waiting), w.Writing(waiting)
	f.Printed, f.Stepped = c.listener.tap.lastTime(), unixNano(c.listener.stepped.Load())
	f.Certain = dying || c.printed(f.Printed)
	return f
}

// printed reports whether the output, which last grew then, ends with an out-of-memory.
func (c *crew) printed(at time.Time) bool {
	if at.UnixNano() != c.readAt {
		c.readAt = at.UnixNano()
		r := c.listener.detector.Report(oom.Exit{})
		c.certain = r.OOM && r.Fatal && r.Confidence == oom.Certain
	}
	return c.certain
}

// localRanks is how many ranks a job has on this machine; 0 if unknown.
func localRanks(j job.Job) int {
	if j.Batch.Replicas {
		return 0
	}
	n := int(j.Batch.Ranks)
	if prog, err := j.Command.Prog(); err == nil {
		for _, l := range prog.Launchers {
			if per, _ := l.PerNode(j.Command.Devices); per > 0 {
				n = per
			}
		}
	}
	return n
}

// endedRanks is the line about ranks that launch has ended.
func endedRanks(n int) string {
	if n == 1 {
		return "ended 1 rank that waited for the one that ran out of memory"
	}
	return fmt.Sprintf("ended %d ranks that waited for the one that ran out of memory", n)
}

func unixNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
