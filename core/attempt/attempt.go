// Package attempt carries out one plan on this machine: it writes edited copies of the recipe, runs the program, observes it,
// and decides how it ended and what it left.
package attempt

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
	"github.com/launch-ml/launch/core/unit"
)

// Options are the user's settings that an attempt depends on.
type Options struct {
	Inside bool // the program's Python processes report their memory by a hook
	// LastWords is how long a process may take to save its state when an out-of-memory ends it; 0: it does not save.
	LastWords time.Duration
	// OnPressure is what launch does when memory runs short while the program trains: "", [Save] or [StepDown].
	OnPressure string
	TTY        bool // a pseudo-terminal even if the output is not a terminal
	Quiet      bool // do not report a success
	// Grace is how long a program may take to stop after a signal; 0: no limit.
	Grace  time.Duration
	Sample time.Duration // how often to look at the card
	State  string        // the state folder
	Leave  []Notice      // signals on which the program is to save its state and to stop
	Yield  bool          // an out-of-memory beside another launch ends the run
	Prove  bool          // see which arguments the process that trains really gets
	Env    []string      // with Prove: names of variables to see there
	// Wait is how long the run may wait for the room that it has claimed; 0: not at all; negative: without a limit.
	Wait time.Duration
}

// A Reporter prints what happens before and after an attempt.
type Reporter interface {
	Warn(format string, args ...any)
	Line(format string, args ...any)
	// Starting prints what an attempt changes. first: it is the first of the run.
	Starting(plan *run.Plan, first bool)
}

// Signals collects the signals that arrive while no program is running.
type Signals interface {
	// Pending returns the signal that arrived, as an [*Interrupted]; nil for none.
	Pending() error
	// Forget drops it: the program has received it too.
	Forget()
}

// Interrupted is the error of an attempt that did not start because launch was interrupted before.
type Interrupted struct{ Signal os.Signal }

func (e *Interrupted) Error() string {
	return fmt.Sprintf("interrupted (%v) while no program was running", e.Signal)
}

// Past is what earlier launches of the same run have left.
type Past struct {
	Began time.Time     // when the first attempt started; zero: there was none
	Made  []string      // files of those attempts that the next one would overwrite or stop at
	Spans []states.Span // when those attempts ran
}

// Setup configures an [Executor]. A command that no plugin recognised needs only Room, Report and Options.
type Setup struct {
	Options
	Job     *job.Job // nil if no plugin recognised the command
	Priced  *ladder.Set
	Room    room.Room
	Hold    *room.Hold // what the run has claimed of its cards; may be nil
	Report  Reporter
	Record  *record.Record // nil if none can be kept
	Name    string         // of the run; marks on folders carry it
	Held    []string       // folders that the run has locked
	Past    Past
	Signals Signals // may be nil
	// Differs returns why the program, by its own reports, does not make the training of the plan; "" if it does.
	Differs func(*run.Plan, *run.Outcome) string
	// Below returns the plan of the run if the program of this one were stopped after it has saved its state, because
	// memory runs short; nil if none is below it. May be nil.
	Below func(*run.Plan) *run.Plan
	// Deviates returns how the program's training differs, by its own reports, from that of an earlier attempt. It may
	// be nil.
	Deviates func(*run.Plan, *run.Outcome) []string
	// StopIn is how long the program may take to stop when launch itself ends it; 0: Grace.
	StopIn time.Duration
	// Settle waits for work that may overlap the program but must end before launch exits. May be nil.
	Settle func()
	// Live receives the status of an attempt about once a second. It must return soon. May be nil.
	Live func(record.Status)
	// Screen shares the place with the program to which launch prints. May be nil.
	Screen *proc.Shared
	// Own is where launch prints its own lines while no program runs; nil: the standard error.
	Own *proc.Patient
	// Tell prints advice that would come too late at the end of an attempt. May be nil.
	Tell func(job.Advice)
	// Foresee prices the ladders of a run that has run out of memory, and tells what it does. It reports whether they
	// have changed. May be nil.
	Foresee func(ctx context.Context, r *run.Run, seen room.Room, tell func(format string, args ...any)) bool
	// Replaced is called before the program takes the place of launch, when launch cannot watch it. May be nil.
	Replaced func(why string)
}

// An Executor carries out plans on this machine. It implements [run.Executor].
type Executor struct {
	Setup
	// Exit is how the last attempt's program ended.
	Exit proc.Exit
	// Trouble is a failure of launch itself that changes the exit code: it could not write output, or the keeper was
	// killed.
	Trouble error

	gone     int      // how often in a row a plan's room was taken by another launch
	attempts int      // that have started
	told     []string // names of the advice that was printed while a program ran

	roots   *states.Roots // of the job's paths, as they were before the first attempt; nil without a job
	midLine bool          // the program's last line has no end, and launch prints to the same place
	began   time.Time     // when the run's first attempt began, trials aside
	marks   []mark        // on folders that other runs may write into as well
	made    []string      // files of the run's attempts that the next one would overwrite or stop at
	spans   []states.Span
	blocked []string // those at which an attempt has stopped
}

// New returns an executor for the attempts of one run. Close ends it.
func New(s Setup) *Executor {
	if s.Own == nil {
		s.Own = proc.NewPatient(os.Stderr)
	}
	x := &Executor{Setup: s, began: s.Past.Began, made: s.Past.Made, spans: s.Past.Spans}
	if s.Job != nil {
		x.roots = states.NewRoots(s.Job)
		x.enter(slices.Concat(s.Job.Signs.States, s.Job.Resume.Aside, s.Job.Resume.InTheWay))
	}
	return x
}

// Close removes the run's marks on folders.
func (x *Executor) Close() { x.leave() }

func (x *Executor) store() record.Store { return record.In(x.State) }

// BreakLine ends the program's last line if the program did not, before launch prints something.
func (x *Executor) BreakLine() {
	if x.midLine {
		x.midLine = false
		fmt.Fprintln(x.Own)
	}
}

// attempt describes what one attempt starts.
type attempt struct {
	command job.Command
	roots   *states.Roots // the folders in which its signs may find files
	signs   job.Signs
	dir     string // the folder for its output; "": the output is not kept
	trial   run.Trial
	priced  map[string]unit.Bytes // the estimate of each phase; 0 where unknown
	steps   int64                 // launch ends a trial after this many iterations; 0: it ends by itself
	batch   job.Batch             // as planned
	total   int64                 // iterations of the whole training, as the plugin counts them; 0: not known
	status  record.Status         // what its status always has
	overlay *overlay.Overlay      // nil if the program's Python needs no hook
	witness *overlay.Witness      // nil if the program does not report its memory
	words   bool                  // its processes save their state when an out-of-memory ends them
	// wholeEpochs: its processes do not, because a state is of whole epochs
	wholeEpochs bool
	unheard     string // why the program cannot report its memory
	unasked     bool   // nobody asked for that report: it is kept only if a request was refused
	hookDir     string // the folder of its hook, if not dir; removed after the attempt
	masked      string // what hides the exit code of the program; "": nothing
	over        string // the file that allows a shielded program to end; "": it is not shielded
	// resume is the state that it resumes from; nil: it begins from the beginning. scale is run.Plan.Scale.
	resume *run.State
	scale  float64
	// differs is Setup.Differs for this plan; nil if that does not matter.
	differs func(oom.State) string
	// below is Setup.Below for this plan, with [StepDown].
	below *run.Plan
	// changed is Setup.Deviates for this plan; nil if that does not matter.
	changed func(oom.State) []string
}

// AsTyped runs a command that no plugin recognised: one attempt, without edits or settings. output is the file with the
// program's output; "" if it was not kept.
func (x *Executor) AsTyped(ctx context.Context, c job.Command) (out run.Outcome, output string, err error) {
	a := attempt{command: c, status: record.Status{Attempt: 1}}
	if x.Record != nil {
		a.dir, _ = x.Record.Attempt(1)
	}
	kept := a.dir
	if x.Inside && a.dir == "" { // without a record, the folder is removed at the end
		a.dir, _ = x.folder(1)
	}
	_ = x.hook(&a, nil) // it returns an error only for copies, and there are none
	out, err = x.run(ctx, a)
	if a.dir != kept {
		os.RemoveAll(a.dir)
	}
	os.RemoveAll(a.hookDir)
	if kept != "" {
		output = outputIn(kept)
	}
	return out, output, err
}

// Room implements [run.Executor].
func (x *Executor) Room(ctx context.Context) (unit.Bytes, error) {
	if x.Job == nil {
		return x.Setup.Room.Size(), nil
	}
	x.Setup.Room.Again(ctx, x.Job.Command.Env)
	err := x.awaitRoom(ctx)
	return x.Setup.Room.Size(), err
}

// Rooms implements [run.Executor].
func (x *Executor) Rooms(context.Context) ladder.HostRooms { return x.Setup.Room.Host() }
