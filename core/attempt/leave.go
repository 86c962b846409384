package attempt

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
)

// A Notice is a signal by which a scheduler announces that it will end the run: [Options.Leave].
type Notice struct {
	Name   string // "SIGUSR2"
	Signal syscall.Signal
	Within time.Duration // how long the program may take to save its state
}

// NoticeTime is how long a program may take to save its state if the user does not say: less than the 30 s after which
// Slurm kills what it preempts (KillWait, slurm.conf(5)).
const NoticeTime = 20 * time.Second

// A leaver ends an attempt that a scheduler will end: it lets the program save its state first.
type leaver struct {
	notices []Notice
	came    chan Notice
	cancel  context.CancelFunc
	done    chan struct{}
	over    chan struct{}
	once    sync.Once
	because atomic.Pointer[string] // why it ended the attempt; nil if it did not
}

// look for a new state this often. It costs a glob.
const lookForState = 250 * time.Millisecond

// A saver lets the program save its state.
type saver struct {
	// ask sends the program its own signal to save. asked is false if the program has none, or no handler yet.
	ask   func() (asked, stops bool)
	saved func() string // identifies the newest saved state
}

// leaving returns the context of an attempt that the leaver may cancel.
func leaving(ctx context.Context, notices []Notice, say func(string, ...any), s saver) (*leaver, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	l := &leaver{
		notices: notices, came: make(chan Notice, 1), cancel: cancel, done: make(chan struct{}), over: make(chan struct{}),
	}
	go func() {
		defer close(l.done)
		var n Notice
		select {
		case <-l.over:
			select {
			case n = <-l.came: // the program ended by the same signal
				why := n.Name + " ended the program"
				l.because.Store(&why)
			default:
			}
			return
		case <-ctx.Done():
			return
		case n = <-l.came:
		}
		before := s.saved()
		asked, stops := s.ask()
		what := "it has no way of its own to save on request, so launch waits for its next saved state"
		if asked {
			what = "launch asks it to save its state"
		}
		say("%s: the program is to stop within %v; %s", n.Name, n.Within, what)
		why := n.Name + ": the program was stopped"
		l.because.Store(&why)
		l.wait(ctx, n, before, s.saved, asked && stops)
		cancel()
	}()
	return l, ctx
}

// wait returns when a new state was saved, when the program has ended, or when the time is over. A program that stops
// by itself may do more after it has saved.
func (l *leaver) wait(ctx context.Context, n Notice, before string, saved func() string, stops bool) {
	end := time.NewTimer(n.Within)
	defer end.Stop()
	tick := time.NewTicker(lookForState)
	defer tick.Stop()
	for {
		select {
		case <-l.over:
			return
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-tick.C:
			if !stops && saved() != before {
				return
			}
		}
	}
}

// divert takes a signal that announces the end. It implements proc.Spec's Divert.
func (l *leaver) divert(sig syscall.Signal) bool {
	for _, n := range l.notices {
		if n.Signal == sig {
			select {
			case l.came <- n:
			default: // a second notice changes nothing
			}
			return true
		}
	}
	return false
}

// stop ends the leaver. It returns why it has ended the attempt, "" if it has not.
func (l *leaver) stop() string {
	l.once.Do(func() { close(l.over) })
	<-l.done
	l.cancel()
	if why := l.because.Load(); why != nil {
		return *why
	}
	return ""
}

// leaver starts the leaver of an attempt. pid is the program's process.
func (x *Executor) leaver(
	ctx context.Context, a attempt, l *listener, t *trail, pid func() int,
) (*leaver, context.Context) {
	s := saver{
		ask:   func() (bool, bool) { return x.askToSave(a, l.detector.State(), pid()) },
		saved: func() string { return newestState(l, t, a.signs) },
	}
	if a.trial != "" { // it has no state to save
		now := 0
		s.ask, s.saved = func() (bool, bool) { return true, false }, func() string { now++; return strconv.Itoa(now) }
	}
	return leaving(ctx, x.Leave, x.Report.Line, s)
}

// askToSave sends the program its own signal to save its state.
func (x *Executor) askToSave(a attempt, state oom.State, pid int) (asked, stops bool) {
	if x.Job == nil || x.Job.Save.Signal == "" || pid <= 0 || state.Iteration < 0 {
		return false, false
	}
	prog, err := a.command.Prog()
	if err != nil || !prog.Direct() { // a launcher or a shell would end at the signal
		return false, false
	}
	return syscall.Kill(pid, x.Job.Save.Number()) == nil, x.Job.Save.Stops
}

// newestState identifies the newest state that the attempt has saved, "" before the first one.
func newestState(l *listener, t *trail, signs job.Signs) string {
	if t != nil && len(signs.States) > 0 {
		stepped := time.Unix(0, l.stepped.Load())
		f := states.Newest(t.roots, signs, t.before, t.evidence(true, stepped))
		if f.State == nil {
			return ""
		}
		return fmt.Sprintf("%s %d %d %s", f.State.Path, f.State.Iteration, f.State.Bytes, modified(f.State.Path))
	}
	if s := l.detector.State().Saved; s != nil {
		return fmt.Sprintf("%d %s", s.Iteration, s.Line.Text)
	}
	return ""
}

func modified(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return info.ModTime().String()
}

// left marks the outcome of an attempt that a notice has ended.
func left(out *run.Outcome, why string) {
	if why == "" {
		return
	}
	out.Left = why
	// A program that was asked to stop may exit 0, so only its own success line proves that it was done already.
	if out.Ending == run.Failed || out.Ending == run.Interrupted || out.Ending == run.Succeeded && !out.Claimed {
		out.Ending, out.Lied, out.Silent = run.Interrupted, false, false
		out.Cause = why
	}
}
