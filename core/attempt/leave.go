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
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
)

// A Notice is a signal by which a scheduler announces that it will end the run: [Options.Leave]. A request by launch
// stop is one, too, without a signal.
type Notice struct {
	Name   string // "SIGUSR2", "launch stop"
	Signal syscall.Signal
	Within time.Duration // how long the program may take to save its state; 0, of a request: as long as it takes
	now    bool          // it is stopped without saving its state
	next   bool          // it is not asked: its next saved state is waited for
}

// look for a request this often. It costs a system call.
const lookForRequest = time.Second

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
	alone   atomic.Bool            // the program ended by itself: no signal had come to it
	presser *presser
}

// look for a new state this often. It costs a glob.
const lookForState = 250 * time.Millisecond

// A saver lets the program save its state.
type saver struct {
	// ask sends the program its own signal to save; if not end, only one after which it goes on. asked is false if the
	// program has none, or no handler yet.
	ask   func(end bool) (asked, stops bool)
	saved func() string // identifies the newest saved state
	// hook asks launch's hook in the program to save between two steps. answer returns what became of that, nil before; it
	// is nil itself if no process has the hook yet. hook is nil where none can save.
	hook func() (answer func() *overlay.LastWords)
}

// request asks the program to save its state: in its own way, or else by the hook. end: it may end after that.
func (s saver) request(end bool) (w wish) {
	if w.signalled, w.stops = s.ask(end); !w.signalled && s.hook != nil {
		w.answer = s.hook()
	}
	w.stops = w.signalled && w.stops
	return w
}

// leaving returns the context of an attempt that the leaver may cancel.
func leaving(
	ctx context.Context, notices []Notice, request func() (Notice, bool), say func(string, ...any), s saver,
) (*leaver, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	l := &leaver{
		notices: notices, came: make(chan Notice, 1), cancel: cancel, done: make(chan struct{}), over: make(chan struct{}),
	}
	go func() {
		defer close(l.done)
		var n Notice
		asked := make(chan Notice, 1)
		if request != nil {
			go l.lookFor(ctx, request, asked)
		}
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
		case n = <-asked:
		}
		why, saved := n.Name+": the program was stopped", n.Name+": the program saved its state and was stopped"
		if n.now {
			say("%s: launch stops the program", n.Name)
			l.because.Store(&why)
			cancel()
			return
		}
		before := s.saved()
		w := l.begin(n, s, say)
		l.because.Store(&why)
		ended := l.wait(ctx, n, before, s.saved, &w, say)
		if w.kept || s.saved() != before {
			l.because.Store(&saved)
		}
		l.alone.Store(ended && !w.signalled && n.Signal == 0) // a scheduler's signal may have come to the program as well
		cancel()
	}()
	return l, ctx
}

// lookFor sends the first request to stop the program, if one comes while the attempt runs.
func (l *leaver) lookFor(ctx context.Context, request func() (Notice, bool), asked chan<- Notice) {
	tick := time.NewTicker(lookForRequest)
	defer tick.Stop()
	for {
		select {
		case <-l.over:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
			if n, ok := request(); ok {
				asked <- n
				return
			}
		}
	}
}

// A wish is how a program was asked to save.
type wish struct {
	signalled bool                      // by its own signal
	stops     bool                      // after which it stops by itself
	answer    func() *overlay.LastWords // of the hook; nil if that was not asked, or has refused
	kept      bool                      // the hook answered that a state of the last step is there
}

// begin asks the program to save its state, and prints what happens.
func (l *leaver) begin(n Notice, s saver, say func(string, ...any)) (w wish) {
	if !n.next {
		w = s.request(true)
	}
	what := "it has no way of its own to save on request, so launch waits for its next saved state"
	switch {
	case w.signalled:
		what = "launch asks it to save its state"
	case w.answer != nil:
		what = "launch has it save its state before its next step"
	case n.next:
		what = "launch waits for its next saved state"
	}
	if n.Within > 0 {
		say("%s: the program is to stop within %v; %s", n.Name, n.Within, what)
	} else {
		say("%s: the program is to stop; %s", n.Name, what)
	}
	return w
}

// answered looks for the hook's answer, and calls refused with a refusal.
func (w *wish) answered(refused func(why string)) (saved bool) {
	if w.answer == nil {
		return false
	}
	switch a := w.answer(); {
	case a == nil: // it still saves, or has begun no step
	case a.Path != "":
		w.kept = true
	default:
		w.answer = nil
		refused(a.Why)
	}
	return w.kept
}

// wait returns when a new state was saved, when the program has ended, or when the time is over. A program that stops
// by itself may do more after it has saved. ended reports whether launch has nothing to stop any more.
func (l *leaver) wait(
	ctx context.Context, n Notice, before string, saved func() string, w *wish, say func(string, ...any),
) (ended bool) {
	var end <-chan time.Time // never, without a limit
	if n.Within > 0 || n.Signal != 0 {
		end = time.After(n.Within)
	}
	refused := func(why string) {
		say("launch could not have it save its state (%s), so launch waits for its next saved state", why)
	}
	tick := time.NewTicker(lookForState)
	defer tick.Stop()
	for {
		select {
		case <-l.over:
			return true
		case <-ctx.Done():
			return true
		case <-end:
			return false
		case <-tick.C:
			if w.answered(refused) || !w.stops && saved() != before {
				return false
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
	l.presser.stop()
	l.cancel()
	if why := l.because.Load(); why != nil {
		return *why
	}
	return ""
}

// leaver starts the leaver of an attempt, and its presser. pid is the program's process.
func (x *Executor) leaver(
	ctx context.Context, a attempt, l *listener, t *trail, pid func() int,
) (*leaver, context.Context) {
	s := x.saver(a, l, t, pid)
	presser, ctx := x.presser(ctx, a, l, s)
	leaver, ctx := leaving(ctx, x.Leave, x.stopAsked, x.Report.Line, s)
	leaver.presser = presser
	return leaver, ctx
}

// mark adds to the outcome of an attempt, once both have ended, why launch stopped it. gone is what stop has
// returned, by the signal that asked the program to stop.
func (l *leaver) mark(out *run.Outcome, gone string, by syscall.Signal) {
	left(out, gone, by, l.alone.Load())
	underPressure(out, l.presser.stop())
}

// saver is how the program of an attempt saves its state. pid is its process.
func (x *Executor) saver(a attempt, l *listener, t *trail, pid func() int) saver {
	s := saver{
		ask:   func(end bool) (bool, bool) { return x.askToSave(a, l.detector.State(), pid(), end) },
		saved: func() string { return newestState(l, t, a.signs) },
	}
	if x.hookSaves(&a) {
		s.hook = a.askHook
	}
	if a.trial != "" { // it has no state to save
		now := 0
		s.ask, s.saved = func(bool) (bool, bool) { return true, false }, func() string { now++; return strconv.Itoa(now) }
	}
	return s
}

// stopAsked takes a request of launch stop to stop this run.
func (x *Executor) stopAsked() (n Notice, ok bool) {
	if x.Record == nil {
		return n, false
	}
	r, ok, err := x.Record.StopAsked()
	if err != nil {
		x.Report.Warn("launch stop: the request to stop this run cannot be read, and the run goes on: %v", err)
	}
	return Notice{Name: "launch stop", Within: r.Within, now: !r.Save, next: r.Next}, ok
}

// askToSave sends the program its own signal to save its state; if not end, only one after which it goes on.
func (x *Executor) askToSave(a attempt, state oom.State, pid int, end bool) (asked, stops bool) {
	if x.Job == nil || x.Job.Save.Signal == "" || x.Job.Save.Stops && !end || pid <= 0 || state.Iteration < 0 {
		return false, false
	}
	prog, err := a.command.Prog()
	if err != nil || !prog.Direct() { // a launcher or a shell would end at the signal
		return false, false
	}
	return syscall.Kill(pid, x.Job.Save.Number()) == nil, x.Job.Save.Stops
}

// hookSaves reports whether the hook can save on request: it sees the steps of this program begin.
func (x *Executor) hookSaves(a *attempt) bool {
	return a.words && overlay.SavesOnRequest(x.Job.LastWords)
}

// askHook asks the hook to save, where a process of the program has one.
func (a attempt) askHook() (answer func() *overlay.LastWords) {
	if a.overlay.Report().Booted == 0 {
		return nil
	}
	answer, err := a.overlay.AskToSave()
	if err != nil {
		return nil
	}
	return answer
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

// left marks the outcome of an attempt that was asked to stop, by a signal to launch or by a notice. alone: launch has
// sent it no signal for the notice.
func left(out *run.Outcome, why string, by syscall.Signal, alone bool) {
	if by != 0 {
		out.Asked = oom.AskedBy(int(by))
	}
	if why == "" || alone && by == 0 && out.Ending == run.Succeeded {
		return // it came to its end while launch waited for a saved state
	}
	out.Left, out.Asked = why, why
	// A program that was asked to stop may exit 0, so only its own success line proves that it was done already.
	if out.Ending == run.Failed || out.Ending == run.Interrupted || out.Ending == run.Succeeded && !out.Claimed {
		out.Ending, out.Lied, out.Silent = run.Interrupted, false, false
		out.Cause = why
	}
}
