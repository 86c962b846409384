package attempt

import (
	"sync"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// anonymousEvery is the time between two looks at host memory where nothing else is measured. A look reads a file of
// each process and thread of the job.
const anonymousEvery = 10 * time.Second

// publish writes the status of an attempt into the run's folder, about once a second, and passes it to x.Live. stop
// ends that and removes the file. The program never waits for it. Where it cannot be written, only the status is lost.
func (x *Executor) publish(a attempt, l *listener, watch *observe.Watch, began time.Time) (stop func()) {
	var file *record.StatusFile
	if x.Record != nil {
		file, _ = record.CreateStatus(x.Record.Dir)
	}
	if file == nil && x.Live == nil {
		return func() {}
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		host := anonymous{watch: watch}
		tick := time.NewTicker(record.StatusEvery)
		defer tick.Stop()
		for {
			seen := watch.Now()
			s := l.status(a, seen, began, time.Now())
			if s.PID = watch.PID(); seen.Is == "" { // nothing else is measured, now or later
				s.Memory = host.memory(s.Time)
			}
			if file != nil {
				_ = file.Write(s) // only `launch top` misses it
			}
			if x.Live != nil {
				x.Live(s)
			}
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-done
		if file != nil {
			file.Close()
		}
	})
}

// status is what is known of an attempt.
func (l *listener) status(a attempt, seen observe.Now, began, now time.Time) record.Status {
	s := a.status
	s.Time, s.Began, s.Phase = now, began, seen.Phase
	if s.Progress = l.steps.progress(); s.Progress != nil {
		p := s.Progress
		if p.Total == 0 && !p.Epoch {
			p.Total = a.total
		}
		per := a.batch.Global()
		if a.signs.CountsMicro {
			per = a.batch.Micro * max(1, a.batch.Ranks)
		}
		p.Rate *= float64(per)
	}
	if seen.Peak > 0 {
		s.Memory = &record.StatusMemory{Now: seen.Held, Peak: max(seen.Peak, seen.Held), Is: seen.Is, Doubted: seen.Doubted}
	}
	return s
}

// planned is what a plan has of the status.
func (x *Executor) planned(p *run.Plan) record.Status {
	s := record.Status{Attempt: p.Attempt, Trial: string(p.Trial), Room: p.Room, Predicted: map[string]unit.Bytes{}}
	for _, c := range p.Choices {
		if c.Estimate.Known() {
			s.Predicted[c.Phase] = c.Estimate.Total()
		}
	}
	if d := x.Setup.Room.Device; d != nil && !d.Planned {
		s.Card = d.UUID
	}
	return s
}

// totalOf is how many iterations a job reports in all; 0 if that is not known.
func totalOf(j *job.Job) int64 {
	if j.Signs.CountsMicro { // its steps are optimizer steps
		return 0
	}
	return j.Steps
}

// anonymous reads host memory from time to time.
type anonymous struct {
	watch     *observe.Watch
	at        time.Time
	now, peak unit.Bytes
}

// memory returns the last reading; nil if there is none.
func (h *anonymous) memory(now time.Time) *record.StatusMemory {
	if h.watch.PID() > 0 && now.Sub(h.at) >= anonymousEvery {
		if held := h.watch.Anonymous(); held > 0 {
			h.at, h.now, h.peak = now, held, max(h.peak, held)
		}
	}
	if h.peak == 0 {
		return nil
	}
	return &record.StatusMemory{Now: h.now, Peak: h.peak, Is: record.Anonymous}
}

const (
	// rateOver is the time over which the present speed is measured.
	rateOver = time.Minute
	// rateMark is the least time between two reports that are kept for that.
	rateMark = time.Second
)

// steps keeps what a program reports of its progress. The same may be on several streams, counted in another way: a bar
// counts an epoch's steps, and a log those of the training.
type steps struct {
	mu      sync.Mutex
	streams map[string]*counted
}

// counted is the progress that one stream reports.
type counted struct {
	first, last report
	total       int64
	epoch       bool     // the count is that of an epoch
	marks       []report // of the last minute
}

// inEpoch finds lines whose total may be that of an epoch: "Epoch: [3][ 10/5004]". The count shows it only when it
// starts again.
var inEpoch = lazy.MustCompile(`(?i)epoch`)

// see adds a report.
func (s *steps) see(e oom.Event, now time.Time) {
	if e.Iteration < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams == nil {
		s.streams = map[string]*counted{}
	}
	c := s.streams[e.Line.Stream]
	if c == nil {
		c = &counted{}
		s.streams[e.Line.Stream] = c
	}
	if e.Total > 0 {
		c.total = e.Total
		c.epoch = c.epoch || inEpoch.MatchString(e.Line.Text)
	}
	c.see(report{e.Iteration, now})
}

func (c *counted) see(r report) {
	if r.iteration < c.last.iteration {
		c.epoch = true
		c.first, c.marks = report{}, c.marks[:0]
	}
	c.last = r
	if r.iteration < 1 { // the first iteration is slow: it loads kernels, and cuDNN tries its algorithms
		return
	}
	if c.first.when.IsZero() {
		c.first = r
	}
	n := len(c.marks)
	if n == 0 || r.iteration > c.marks[n-1].iteration && r.when.Sub(c.marks[n-1].when) >= rateMark {
		c.marks = append(c.marks, r)
	}
	old := 0 // two marks at least are kept, for a program whose steps take minutes
	for old < len(c.marks)-2 && r.when.Sub(c.marks[old].when) > rateOver {
		old++
	}
	c.marks = append(c.marks[:0], c.marks[old:]...)
}

// better reports whether c is more worth than another stream's.
func (c *counted) better(o *counted) bool {
	switch {
	case c.epoch != o.epoch:
		return o.epoch
	case (c.total > 0) != (o.total > 0):
		return c.total > 0
	}
	return c.last.when.After(o.last.when)
}

// progress returns how far the program has come; nil if it has reported no step. Its rate is in iterations per second.
func (s *steps) progress() *record.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best *counted
	for _, c := range s.streams {
		if best == nil || c.better(best) {
			best = c
		}
	}
	if best == nil {
		return nil
	}
	p := &record.Progress{Iteration: best.last.iteration, Total: best.total, At: best.last.when, Epoch: best.epoch}
	if n := best.last.iteration - best.first.iteration; !best.first.when.IsZero() && n > 0 {
		p.Step = best.last.when.Sub(best.first.when) / time.Duration(n)
	}
	if n := len(best.marks); n > 1 {
		from, to := best.marks[0], best.marks[n-1]
		p.Rate = float64(to.iteration-from.iteration) / to.when.Sub(from.when).Seconds()
	}
	return p
}
