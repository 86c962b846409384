package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/confine"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/core/witness"
)

// executor carries out plans on this machine. It implements [run.Executor].
type executor struct {
	settings settings
	early    early
	job      *job.Job
	roots    *confine.Roots // of its paths, as they were before the first attempt; nil where nothing is recognised
	priced   *ladder.Set    // its ladders as the plugin priced them; nil where nothing is recognised
	device   *gpu.Device
	record   *record.Record // nil where none can be kept
	say      ui.Printer
	exit     proc.Exit // of the last attempt: what launch itself ends as
	trouble  error     // for which launch itself ends with another code: output that could not be written, a keeper that was killed
	midLine  bool      // what the program printed last was no whole line, where launch's own words would follow it
	// firstBegan is when the run's first attempt began that was no trial.
	firstBegan time.Time
	held       []string // folders of which this run holds the lock
	who        string   // this run, on its marks
	marks      []mark   // on folders that other runs may write into as well
	made       []string // what the run's attempts have left that a next one would overwrite or stumble over
	spans      []states.Span
	blocked    []string // those of them at which an attempt has stopped
	differs    func(*run.Plan, *run.Outcome) string
	settle     func() // what has to have happened before launch ends, and need not before the program starts; may be nil
}

// Room implements [run.Executor].
func (x *executor) Room(ctx context.Context) (unit.Bytes, error) {
	if x.device == nil || x.device.Planned || x.device.Kind == gpu.CPU {
		return room(x.device, x.settings), nil
	}
	f := findDevice(ctx, x.settings, x.job.Command.Env)
	if f.device != nil {
		x.device = f.device
	}
	return room(x.device, x.settings), nil // a driver that stopped answering leaves what was last known
}

// Rooms implements [run.Executor].
func (x *executor) Rooms(context.Context) ladder.HostRooms { return rooms(x.device) }

// Execute implements [run.Executor].
func (x *executor) Execute(ctx context.Context, p *run.Plan) (out run.Outcome, err error) {
	defer func() { out, err = trialFailed(p, out, err) }()
	dir, err := x.folder(p.Attempt)
	if err != nil && (p.Trial != "" || slices.ContainsFunc(p.Edits, func(e config.Edit) bool { return e.At.Doc != config.ArgvDoc })) {
		return run.Outcome{}, err
	}
	if err != nil { // nothing has to be written: the training runs, and what it prints is not kept
		x.say.Warn("%v: what the program prints is not kept", err)
	}
	edits := slices.Clone(p.Edits)
	for i := range edits {
		if strings.Contains(edits[i].To, job.FreePort) {
			port, err := freePort()
			if err != nil {
				return run.Outcome{}, err
			}
			edits[i].To = strings.ReplaceAll(edits[i].To, job.FreePort, port)
		}
	}
	started := x.job
	if p.Trial != "" {
		scratch := filepath.Join(dir, record.Scratch)
		name := fmt.Sprintf("%s%d-%d", record.TrialPrefix, os.Getpid(), time.Now().UnixNano())
		forget, err := x.note(dir, scratch, name)
		if err != nil {
			return run.Outcome{}, err
		}
		defer forget() // after all of it is removed
		if err := os.MkdirAll(scratch, 0o700); err != nil {
			return run.Outcome{}, fmt.Errorf("making a folder for the trial: %w", err)
		}
		defer os.RemoveAll(scratch)
		for i := range edits {
			edits[i].To = strings.NewReplacer(job.Scratch, scratch, job.ScratchName, name).Replace(edits[i].To)
		}
		defer x.roots.Leaves(name)()
		if err := confine.Stage(scratch, x.job.Rehearsal.Puts); err != nil {
			return run.Outcome{}, err
		}
		started = x.job.Away(scratch)
	} else if len(x.made) > 0 {
		x.putAside(p)
	}
	made, err := started.Rewrite(edits, dir)
	if err != nil {
		return run.Outcome{}, err
	}
	a := attempt{command: made.Command, roots: x.roots.In(started.Command.Dir), signs: x.job.Signs, dir: dir, trial: p.Trial, batch: p.Batch, steps: x.job.Rehearsal.Steps}
	if p.Trial == "" {
		a.differs = func(s oom.State) string {
			return x.differs(p, &run.Outcome{Settings: s.Settings, Total: s.Total})
		}
	}
	if x.priced != nil {
		a.priced = map[string]unit.Bytes{}
		for _, c := range p.Choices {
			if e := x.priced.Ladder(c.Phase).Rungs[c.Rung].At(p.Shared.Rung); e.Known() {
				a.priced[c.Phase] = e.Total()
			} else {
				a.priced[c.Phase] = 0
			}
		}
	}
	var sources []overlay.File
	for _, f := range made.Files {
		if f.Format == job.Python {
			sources = append(sources, overlay.File{Path: f.Path, SHA256: f.Source.SHA256, Text: f.Text, Names: edited(edits, f.Path)})
		} else if f.Format == job.Binary {
			if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
				return run.Outcome{}, fmt.Errorf("copying %s: %w", f.From, err)
			}
			if err := confine.Copy(absolute(x.job.Command.Dir, f.From), f.Path, f.Patches); err != nil {
				return run.Outcome{}, fmt.Errorf("copying %s: %w", f.From, err)
			}
			defer os.Remove(f.Path) // it may be large, and is the user's own but for some bytes
		} else if err := writeCopy(f); err != nil {
			return run.Outcome{}, fmt.Errorf("writing the edited copy of %s: %w", f.From, err)
		}
	}
	if err := x.hook(&a, sources); err != nil {
		return run.Outcome{}, fmt.Errorf("preparing the edited copies of Python source: %w", err)
	}
	if p.Attempt > 1 || len(p.Edits) > 0 {
		x.say.Starting(p, x.firstBegan.IsZero())
	}
	out, err = x.attempt(ctx, a)
	if x.passing(dir) { // nothing of it is recorded, so nothing is left
		defer os.RemoveAll(dir)
	}
	defer os.RemoveAll(a.hookDir)
	if err != nil {
		return out, err
	}
	out.Confirmed = confirmed(x.roots, x.job, made, out.Began)
	asSaved(&out, x.roots, x.job, edits)
	if len(sources) > 0 {
		asBuilt(&out, a.overlay.Report(), edits)
		untaken(&out, a.overlay)
	}
	return out, nil
}

// writeCopy writes an edited copy, into a folder of its own where another has its name.
func writeCopy(f job.File) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	return private.WriteFile(f.Path, f.Text, 0o600)
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// freePort finds a port of this machine that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// folder makes the folder of an attempt: in its run's record, or, where none can be kept, among the temporary files.
func (x *executor) folder(attempt int) (string, error) {
	if x.record != nil {
		if dir, err := x.record.Attempt(attempt); err == nil && private.HasRoom(dir) {
			return dir, nil
		}
	}
	dir, err := private.Temp(record.AttemptPrefix, x.settings.State)
	if err != nil {
		return "", fmt.Errorf("making a folder for the attempt: %w", err)
	}
	return dir, nil
}

// attempt is what one attempt runs.
type attempt struct {
	command job.Command
	roots   *confine.Roots // where its signs may find files
	signs   job.Signs
	dir     string // takes what it prints; "" keeps nothing
	trial   run.Trial
	priced  map[string]unit.Bytes // what its phases were expected to need; 0 where that is unknown
	steps   int64                 // of a trial: after how many iterations launch ends it; 0 where it ends by itself
	batch   job.Batch             // as planned
	overlay *overlay.Overlay      // nil where nothing is wanted of the program's Python
	witness *witness.Witness      // nil where it is not asked what it knows of its memory
	unheard string                // why it could not be
	// differs says why what the program reports is another training than the plan's, or ""; nil where that is no matter.
	differs func(oom.State) string
	hookDir string // where its hook lies, if not in dir: to be removed after it
}

// attempt runs the command to its end and weighs how it ended.
func (x *executor) attempt(ctx context.Context, a attempt) (run.Outcome, error) {
	c, signs := a.command, a.signs
	detector, err := oom.NewDetector(signs)
	if err != nil {
		return run.Outcome{}, fmt.Errorf("plugin's signs: %w", err)
	}
	var stepped atomic.Int64 // when it last reported a step, in Unix nanoseconds
	var failure sync.Map     // job.Failed: the first line by which the program said that it failed
	pace := pace{}
	watch := x.watch(ctx)
	detector.OnEvent = func(e oom.Event) {
		if a.witness != nil && watch.turns(e) {
			watch.told(a.witness.Peaks())
		}
		watch.hear(e)
		switch e.Kind {
		case job.Failed:
			failure.LoadOrStore(job.Failed, strings.TrimSpace(e.Line.Text))
		case job.Progress:
			pace.see(e.Iteration)
			stepped.Store(time.Now().UnixNano())
		}
	}
	tap := newTap(detector, a.dir)
	defer tap.close()
	began := time.Now()
	if a.trial == "" && x.firstBegan.IsZero() {
		x.firstBegan = began
	}
	var trail *trail
	if x.job != nil && a.trial == "" {
		trail = x.follow(a.roots, c.Dir, a.dir, func() int { return int(watch.pid.Load()) })
		defer trail.stop()
	}
	guard, ctx := guarded(ctx, a, detector, tap)
	spec := proc.Spec{
		Args: c.Args, Dir: folderFor(c.Dir), Env: c.Env, Tap: tap.take, Grace: x.settings.Grace, Stop: x.settings.Grace, Started: watch.started, Hold: x.job != nil,
		Bare: x.job == nil, Warn: func(what string) { x.say.Warn("%s", what) },
	}
	if x.settings.TTY {
		spec.TTY = proc.Always
	}
	if a.trial != "" { // its output is nobody's: standard output is the run's own
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return run.Outcome{}, err
		}
		defer null.Close()
		spec.Stdin, spec.Stdout, spec.Stderr, spec.TTY = null, null, null, proc.Never
	}
	if x.device != nil && x.device.Kind == gpu.CPU && x.settings.Memory > 0 {
		spec.Limit = x.settings.Memory
		if x.job != nil {
			spec.Env = append(slices.Clone(c.Env), python.SteadyHeap(c.Env)...)
		}
	}
	var out run.Outcome
	if err := x.early.came(); err != nil {
		return run.Outcome{}, err
	}
	exit, err := proc.Run(ctx, spec)
	if means := (*proc.MeansError)(nil); errors.As(err, &means) && a.trial == "" {
		err = x.handOver(spec, means)
	}
	killed := errors.Is(err, proc.ErrKeeper)
	x.early.forget()
	defer func() {
		// Ranks in sessions of their own outlive a launcher that the kernel killed, and hold what the next attempt needs.
		if out.Ending == run.OutOfMemory {
			exit.Remains.End()
		} else {
			exit.Remains.Leave()
		}
	}()
	if x.settle != nil {
		x.settle()
	}
	ended := time.Now()
	why := guard.stop()
	if a.witness != nil {
		watch.told(a.witness.Peaks())
	}
	watch.stop()
	if err != nil && !killed {
		return run.Outcome{}, err
	}
	x.exit = exit
	if killed {
		x.trouble = err
	}
	x.midLine = a.trial == "" && tap.midLine()
	if exit.Output != nil && x.trouble == nil {
		x.trouble = exit.Output
		x.breakLine()
		x.say.Warn("%v", exit.Output)
	}
	for _, path := range newest(a.roots, signs.Log, began) {
		if f, err := file.Open(path); err == nil {
			io.Copy(detector.Stream(oom.Log), f)
			f.Close()
		}
	}
	seen := oom.Seen{Card: watch.onCard(), Host: watch.onHost(), Inside: a.inside(ended), Limit: spec.Limit, Resident: exit.MaxRSS, Exit: oom.Exit{
		Known: true, Code: exit.Code, Signal: int(exit.Signal), Asked: asked(exit) != 0 && why == "", AskedBy: int(asked(exit)),
		OOMKills: max(0, exit.OOMKills), Counted: exit.OOMKills >= 0, Local: exit.Family,
	}}
	v := detector.Judge(seen, signs)
	state := detector.State()
	peak, peaks := watch.peaks()
	out = run.Outcome{
		Ending: v.Ending, Code: exit.Code, Signal: int(exit.Signal), Report: v.Report, Phase: v.Report.Stage,
		Peak: peak, Peaks: peaks, Iteration: max(0, state.Iteration), Settings: state.Settings, Began: began, Took: exit.Took,
		Cause: v.Cause, Lied: v.Lied, Silent: v.Silent, Doubt: v.Doubt, Rate: pace.rate(a.batch, signs.CountsMicro), Inside: seen.Inside,
	}
	out.PeakIs = watch.is
	switch host := x.device != nil && x.device.Kind == gpu.CPU; {
	case out.Peak > 0:
	case host:
		out.Peak, out.PeakIs = exit.MaxRSS, run.Resident
	default:
		out.Peak, out.PeakIs = max(state.Peak, watch.allocated.peak), run.Allocated
	}
	if out.Peak == 0 {
		out.PeakIs = "" // nothing was measured
	}
	if said, ok := failure.Load(job.Failed); ok && out.Ending == run.Failed && v.Report.Cause == "" {
		out.Cause = said.(string)
	}
	switch {
	case killed:
		out.Ending, out.Cause, out.Lied = run.Failed, err.Error(), false
	case why == enough && out.Ending != run.OutOfMemory:
		out.Ending, out.Cause, out.Lied = run.Succeeded, "", false
	case why != "" && why != enough:
		out.Ending, out.Cause, out.Untaken, out.Lied = run.Failed, "it ran without the settings that it was to have: "+why, why, false
	}
	if out.Doubt != "" && a.trial == "" {
		x.breakLine()
		x.say.Warn("it exited 0, and what it printed ends with an out-of-memory: %s. A pipe (| tee), \"|| true\" or the program itself swallows a failure", out.Doubt)
	}
	if out.Ending == run.Failed { // the report says what the outcome does
		out.Report.Fatal = true
		out.Report.Cause = cmp.Or(out.Report.Cause, out.Cause)
	}
	out.Measured, out.Passed = watch.measured(a.priced, out.Ending == run.Succeeded)
	out.Stepped, out.Varied, out.Figures, out.Total = state.Stepped(signs), state.Varied, state.Figures, state.Total
	out.Claimed = out.Stepped && state.Succeeded
	if trail != nil {
		tap.close() // what it printed is read
		trail.found(&out, time.Unix(0, stepped.Load()))
	}
	return out, nil
}

// asked is the signal by which somebody asked the program to stop, or 0. A job that was suspended and continued, or told to
// write a state (SIGUSR1, SIGUSR2), was not asked to.
func asked(exit proc.Exit) syscall.Signal {
	if exit.Interrupted {
		return syscall.SIGINT
	}
	for _, s := range exit.Signals {
		if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT {
			return s
		}
	}
	if exit.Cancelled {
		return syscall.SIGTERM
	}
	return 0
}

// breakLine ends the program's last line, if it did not, before launch says something.
func (x *executor) breakLine() {
	if x.midLine {
		x.midLine = false
		fmt.Fprintln(os.Stderr)
	}
}

// startCode is launch's exit code for a command that could not be started, and whether err is about that.
func startCode(err error) (int, bool) {
	var start *proc.StartError
	if errors.As(err, &start) {
		return start.ExitCode(), true
	}
	return 0, false
}
