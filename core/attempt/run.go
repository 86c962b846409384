package attempt

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// run starts the command, waits for its end, and decides how it ended.
func (x *Executor) run(ctx context.Context, a attempt) (out run.Outcome, err error) {
	watch := x.watch(ctx, a)
	defer keepCurve(a.dir, watch)()
	l, err := listen(a, watch)
	if err != nil {
		return run.Outcome{}, err
	}
	defer l.tap.close()
	began := x.begin(a)
	defer x.accompany(a, l, watch, began)()
	trail := x.trailOf(a, l, watch)
	defer trail.stop()
	guard, ctx := guarded(ctx, a, l.detector, l.tap)
	crew, ctx := x.watchRanks(ctx, a, l, watch.PID)
	defer crew.stop()
	leaver, ctx := x.leaver(ctx, a, l, trail, watch.PID)
	x.waitForPort(ctx, a.command)
	x.attempts++
	spec, clear, err := x.spec(a, l.tap, watch)
	defer clear()
	seen := x.prove(a, &spec)
	if spec.Divert = leaver.divert; err == nil && x.Signals != nil {
		err = x.Signals.Pending()
	}
	if err != nil {
		guard.stop()
		leaver.stop()
		return run.Outcome{}, err
	}
	exit, err := proc.Run(unshielded(ctx, a.over), spec)
	if means := (*proc.MeansError)(nil); errors.As(err, &means) && a.trial == "" {
		err = x.handOver(spec, means)
	}
	if x.Signals != nil {
		x.Signals.Forget()
	}
	defer func() { settleRemains(exit.Remains, out) }()
	if x.Settle != nil {
		x.Settle()
	}
	e := ended{exit: exit, at: time.Now(), began: began, limit: spec.Limit, onHost: x.Setup.Room.OnHost(),
		why: guard.stop(), peers: crew.stop()}
	gone := leaver.stop()
	watch.Stop()
	if err != nil && !errors.Is(err, proc.ErrKeeper) {
		return run.Outcome{}, err
	}
	e.keeper = err
	x.Exit = exit
	x.report(a, l, e)
	out = x.judge(a, l, watch, e)
	leaver.mark(&out, gone, asked(exit))
	out.Program = seen.end()
	if trail != nil {
		l.tap.close() // then the file is complete
		trail.words = a.said(out.Ending)
		trail.found(&out, time.Unix(0, l.stepped.Load()))
		l.courses.Placed(out.Saved)
		a.lastWords(&out, l.courses.All())
	}
	return out, nil
}

// trailOf follows the saved states of an attempt; nil where it has none to follow.
func (x *Executor) trailOf(a attempt, l *listener, watch *observe.Watch) *trail {
	if x.Job == nil || a.trial != "" {
		return nil
	}
	t := x.follow(a.roots, a.command.Dir, a.dir, watch.PID)
	l.saved = t.said
	return t
}

// ends reports whether a signal asks a program to end.
func ends(s syscall.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP
}

// begin returns the time at which an attempt begins, which may be that of the run.
func (x *Executor) begin(a attempt) time.Time {
	began := time.Now()
	if a.trial == "" && x.began.IsZero() {
		x.began = began
	}
	return began
}

// accompany starts what goes on beside the program until stop is called: its status is published, and advice that
// cannot wait is printed.
func (x *Executor) accompany(a attempt, l *listener, watch *observe.Watch, began time.Time) (stop func()) {
	unpublish := x.publish(a, l, watch, began)
	l.hush = x.tellInTime(a, l, watch, began)
	hear := l.watcher.tell(x.Report)
	return func() {
		hear()
		l.hush()
		unpublish()
	}
}

// watch starts to observe the memory of the attempt.
func (x *Executor) watch(ctx context.Context, a attempt) *observe.Watch {
	of := observe.Subject{Device: x.Setup.Room.Device, Limited: x.Setup.Room.Limit() > 0, Every: x.Sample,
		Host: room.Host, Benchmark: a.signs.Benchmark, Uses: x.Hold.Uses,
		Phases: slices.Collect(maps.Keys(a.priced))}
	if a.witness != nil {
		of.Hook = a.witness.Peaks
	}
	return observe.Start(ctx, of)
}

// A listener reads what the program prints.
type listener struct {
	detector *oom.Detector
	tap      *tap
	text     *advice.Text // nil for a short run
	told     []job.Advice // printed while the program ran
	hush     func()       // ends that; then told is complete
	retried  atomic.Int64 // requests that the card refused and the allocator tried again
	short    atomic.Int64 // by how many bytes the largest of them was short
	pressed  atomic.Int64 // those after the first reported step
	leaking  atomic.Pointer[leak]
	courses  run.Courses
	watcher  *resumed // nil if it does not resume
	paces    paces
	steps    steps
	stepped  atomic.Int64           // when it last reported a step, in Unix nanoseconds
	failure  atomic.Pointer[string] // the first line that reports a failure
	saved    func(oom.Event)        // called for each line about a saved state; may be nil. Set before the program starts
}

// mostSource bounds the source file that is read to tell where in it an out-of-memory was.
const mostSource = 2 << 20

func listen(a attempt, watch *observe.Watch) (*listener, error) {
	detector, err := oom.NewDetector(a.signs)
	if err != nil {
		return nil, &signsError{err}
	}
	l := &listener{detector: detector, watcher: resumes(a)}
	if a.trial == "" {
		l.text = advice.NewText()
	}
	l.tap = newTap(detector, a.dir, l.text)
	detector.Source = func(path string) []byte {
		if !filepath.IsAbs(path) {
			path = filepath.Join(a.command.Dir, path)
		}
		text, _ := file.Read(path, mostSource)
		return text
	}
	detector.OnRetry = func(r oom.Retry) {
		watch.Retried(r)
		if l.stepped.Load() != 0 { // before, a search for fast kernels asks for what there is
			l.pressed.Add(1)
		}
		l.retried.Add(1)
		l.short.Store(max(l.short.Load(), int64(r.Requested-r.Free)))
	}
	detector.OnEvent = func(e oom.Event) {
		watch.Event(e)
		now := time.Now()
		l.courses.See(e, now)
		l.watcher.see(e, &l.courses)
		switch e.Kind {
		case job.Failed:
			line := strings.TrimSpace(e.Line.Text)
			l.failure.CompareAndSwap(nil, &line)
		case job.SavedState:
			if l.saved != nil {
				l.saved(e)
			}
		case job.Progress:
			l.paces.see(e.Line.Stream, e.Iteration, now)
			l.steps.see(e, now)
			l.stepped.Store(now.UnixNano())
		}
	}
	return l, nil
}

type signsError struct{ error }

func (e *signsError) Error() string { return "plugin's signs: " + e.error.Error() }
func (e *signsError) Unwrap() error { return e.error }

// spec describes what to start. clear is called after the program's end.
func (x *Executor) spec(a attempt, t *tap, watch *observe.Watch) (spec proc.Spec, clear func(), err error) {
	c := a.command
	spec = proc.Spec{
		Args: c.Args, Dir: folderFor(c.Dir), Env: c.Env, Tap: t.take, Grace: x.Grace, Stop: cmp.Or(x.StopIn, x.Grace),
		Started: watch.Started, Hold: x.Job != nil,
		Bare: x.Job == nil, Warn: func(what string) { x.Report.Warn("%s", what) }, Limit: x.Setup.Room.Limit(),
	}
	if x.TTY {
		spec.TTY = proc.Always
	}
	if spec.Limit > 0 && x.Job != nil {
		spec.Env = append(slices.Clone(c.Env), python.SteadyHeap(c.Env)...)
	}
	if a.trial == "" {
		if x.Screen != nil {
			spec.Screen, spec.Undo = x.Screen, x.Screen.Undo()
		}
		return spec, func() {}, nil
	}
	// a trial's output is not shown: standard output belongs to the run
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return spec, func() {}, err
	}
	spec.Stdin, spec.Stdout, spec.Stderr, spec.TTY = null, null, null, proc.Never
	return spec, func() { null.Close() }, nil
}

// report sets x.Trouble, warns about lost output, and prints that launch ended ranks.
func (x *Executor) report(a attempt, l *listener, e ended) {
	if e.exit.Interrupted || slices.ContainsFunc(e.exit.Signals, ends) {
		x.Own.Leave()
	}
	if e.keeper != nil {
		x.Trouble = e.keeper
	}
	if slow := l.detector.Slow(); len(slow) > 0 {
		x.Report.Warn("plugin %s has patterns that take too long on what the program prints; launch did not match them "+
			"on every line: %s", x.Job.Plugin, strings.Join(slow[:min(len(slow), 3)], ", "))
	}
	x.midLine = a.trial == "" && l.tap.midLine() && (x.Screen == nil || !x.Screen.Ended())
	if e.exit.Output != nil && x.Trouble == nil {
		x.Trouble = e.exit.Output
		x.BreakLine()
		x.Report.Warn("%v", e.exit.Output)
	}
	if e.peers > 0 {
		x.BreakLine()
		x.Report.Line("%s", endedRanks(e.peers))
	}
}

// settleRemains ends what an attempt left running, or lets it run on. Ranks in their own sessions outlive a launcher
// that the kernel killed, and hold memory that the next attempt needs.
func settleRemains(left *proc.Remains, out run.Outcome) {
	if out.Ending == run.OutOfMemory || out.Down() {
		left.End()
	} else {
		left.Leave()
	}
}

// judge decides how an attempt ended, from everything that was observed.
func (x *Executor) judge(a attempt, l *listener, watch *observe.Watch, e ended) run.Outcome {
	l.detector.End()
	for _, path := range newest(a.roots, a.signs.Log, e.began) {
		if f, err := file.Open(path); err == nil {
			_, _ = io.Copy(l.detector.Stream(oom.Log), f) // what can be read of it counts
			f.Close()
		}
	}
	seen := oom.Seen{Card: watch.Card(), Host: watch.Host(), Inside: a.inside(e.at), Limit: e.limit,
		Resident: e.exit.MaxRSS, Exit: e.forVerdict()}
	if e.peak, e.is, e.peaks = watch.Peaks(); e.is == run.Data {
		seen.Data = e.peak
	}
	hidden := a.masked != "" && seen.Exit.Code == 0 && seen.Exit.Signal == 0
	seen.Exit.Known = seen.Exit.Known && !hidden
	e.inside = seen.Inside
	e.verdict, e.state = l.detector.Judge(seen, a.signs), l.detector.State()
	e.hookPeak = watch.Allocated()
	if said := l.failure.Load(); said != nil {
		e.failure = *said
	}
	out := outcome(e, a.signs)
	out.Courses, out.Early = l.courses.All(), l.courses.Early()
	out.Lied = out.Lied || hidden && (out.Ending == run.Failed || out.Ending == run.OutOfMemory)
	if a.unasked && out.Inside != nil && len(out.Inside.Refused) == 0 {
		out.Inside = nil
	}
	out.Rate = l.paces.rate(a.batch, a.signs.CountsMicro)
	out.Measured, out.Passed = watch.Measured(a.priced, out.Ending == run.Succeeded)
	out.Retries = watch.Retries(a.priced)
	out.PeakWith = beside(out)
	out.Beside = x.Yield && out.Ending == run.OutOfMemory && (out.Report.Kind == oom.GPUContention || x.Hold.Shared() ||
		a.batch.Ranks <= 1 && namesOthers(out.Report.Numbers))
	if why := out.DoubtedBy(); why != "" && a.trial == "" {
		out.Doubtful = why
		x.BreakLine()
		x.Report.Warn("the program exited 0, but %s. A pipe (| tee), \"|| true\" or the program itself hides a failure",
			why)
	}
	if a.trial == "" {
		out.Advice = x.advise(a, l, watch, out)
	}
	return out
}

// namesOthers reports whether the words of a failure themselves account for the whole card: with what this process
// holds, and with processes that are others of weight. Where the driver does not tell whose memory is whose, launch
// cannot see those that came after its own.
func namesOthers(n oom.Numbers) bool {
	if n.Capacity == nil || n.Free == nil || n.ProcessInUse == nil {
		return false
	}
	sum := unit.Bytes(0)
	for _, p := range n.Others {
		sum += p.Bytes
	}
	rest := *n.Capacity - *n.Free - *n.ProcessInUse - sum
	return sum > max(*n.Capacity/10, unit.GiB) && max(rest, -rest) < *n.Capacity/20
}

// handOver runs the program in place of launch, when launch cannot watch it. It returns only if that fails too.
func (x *Executor) handOver(spec proc.Spec, why error) error {
	const what = "the program runs in place of launch: launch neither watches it nor retries after an out-of-memory"
	text := why.Error() + ": " + what
	x.Report.Warn("%s", text)
	if x.Record != nil {
		x.Record.Write(record.Event{Kind: record.Stopped, Stop: &run.Stop{Why: text}})
	}
	if x.Replaced != nil {
		x.Replaced(text)
	}
	if x.Settle != nil {
		x.Settle()
	}
	return proc.Replace(spec)
}

// startedIn is the folder that launch was started in.
var startedIn, _ = os.Getwd()

// folderFor returns the folder in which to start a program. It is "" for launch's own folder, which launch may be
// unable to enter again (removed, no permission).
func folderFor(dir string) string {
	if now, err := os.Getwd(); err == nil && now == dir && now == startedIn {
		return ""
	}
	return dir
}

// asked returns the signal that asked the program to stop, or 0. Signals that suspend or continue a job, or make it
// write a state (SIGUSR1, SIGUSR2), do not count. SIGQUIT counts where the program died of it: one that takes it prints
// where it is, and goes on.
func asked(exit proc.Exit) syscall.Signal {
	if exit.Interrupted {
		return syscall.SIGINT
	}
	for _, s := range exit.Signals {
		if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP ||
			s == syscall.SIGQUIT && exit.Signal == syscall.SIGQUIT {
			return s
		}
	}
	if exit.Cancelled {
		return syscall.SIGTERM
	}
	return 0
}
