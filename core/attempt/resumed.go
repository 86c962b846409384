package attempt

import (
	"sync"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
)

// A resumed watches whether an attempt resumes from its state, by the steps that the program prints.
type resumed struct {
	from    *run.State
	scale   float64
	decided bool
	seen    chan run.Resumption // the restart, once it is certain
}

// resumes returns nil for an attempt that begins from the beginning.
func resumes(a attempt) *resumed {
	if a.resume == nil {
		return nil
	}
	return &resumed{from: a.resume, scale: a.scale, seen: make(chan run.Resumption, 1)}
}

// see takes an event, which all already has.
func (r *resumed) see(e oom.Event, all *run.Courses) {
	if r == nil || r.decided || e.Kind != job.Progress {
		return
	}
	switch out := r.from.FollowedBy(all.All(), r.scale); out.State {
	case run.Restarted:
		r.seen <- out
		r.decided = true
	case run.Resumed:
		r.decided = true
	}
}

// tell prints a restart as soon as it is seen. stop returns when it was printed, if it was seen.
func (r *resumed) tell(to Reporter) (stop func()) {
	if r == nil {
		return func() {}
	}
	over, done := make(chan struct{}), make(chan struct{})
	say := func(out run.Resumption) { to.Warn("%s", &out) }
	go func() {
		defer close(done)
		select {
		case out := <-r.seen:
			say(out)
		case <-over:
			select {
			case out := <-r.seen:
				say(out)
			default:
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-done
	})
}
