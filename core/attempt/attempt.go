// Package attempt carries out one plan on this machine: it writes edited copies of the recipe, runs the program, observes it,
// and decides how it ended and what it left.
package attempt

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/launch-ml/launch/core/confine"
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
	"github.com/launch-ml/launch/core/witness"
)

// Options are the user's settings that an attempt depends on.
type Options struct {
	Inside bool // the program's Python processes report their memory by a hook
	TTY    bool // a pseudo-terminal even where the output is no terminal
	Quiet  bool // a success is not reported
	// Grace is how long a program that was asked to stop may take; 0: as long as it takes.
	Grace  time.Duration
	Sample time.Duration // how often to look at the card
	State  string        // the state folder
}

// A Reporter tells the user what happens around an attempt.
type Reporter interface {
	Warn(format string, args ...any)
	Line(format string, args ...any)
	// Starting reports what an attempt changes. first: it is the first of the run.
	Starting(plan *run.Plan, first bool)
}

// Signals collects the signals that arrive while no program is running.
type Signals interface {
	// Pending returns the signal that arrived, as an [*Interrupted]; nil for none.
	Pending() error
	// Forget drops it: it was the program's.
	Forget()
}

// Interrupted is the error of an attempt that was not started, because launch was interrupted before.
type Interrupted struct{ Signal os.Signal }

func (e *Interrupted) Error() string {
	return fmt.Sprintf("interrupted (%v) while no program ran", e.Signal)
}

// Past is what a run has before its first attempt here.
type Past struct {
	Began time.Time     // when an earlier launch of the same run started its first attempt; zero: none did
	Made  []string      // files of its attempts that a next one would overwrite or stumble over
	Spans []states.Span // of those attempts
}

// Setup is what an [Executor] is made of. Only Room, Report and Options are needed for a command that no plugin recognised.
type Setup struct {
	Options
	Job     *job.Job // nil where no plugin recognised the command
	Priced  *ladder.Set
	Room    room.Room
	Report  Reporter
	Record  *record.Record // nil where none can be kept
	Name    string         // of the run, on the marks that it leaves on folders
	Held    []string       // folders of which the run holds the lock
	Past    Past
	Signals Signals // nil: nobody collects them
	// Differs says why what a program reports is another training than its plan's, or "".
	Differs func(*run.Plan, *run.Outcome) string
	// Settle does what may overlap the program but must end before launch does. May be nil.
	Settle func()
	// Replaced is called before the program runs in place of launch, which lacks what it needs to watch it.
	Replaced func(why string)
}

// An Executor carries out plans on this machine. It implements [run.Executor].
type Executor struct {
	Setup
	// Exit is how the last attempt's program ended.
	Exit proc.Exit
	// Trouble is launch's own, for which it ends with another code than the program's: output that could not be written, a
	// keeper that was killed.
	Trouble error

	roots   *confine.Roots // of the job's paths, as they were before the first attempt; nil where nothing is recognised
	midLine bool           // the program's last line has no end yet, where launch's own would follow it
	began   time.Time      // when the run's first attempt began that was no trial
	marks   []mark         // on folders that other runs may write into as well
	made    []string       // what the run's attempts have left that a next one would overwrite or stumble over
	spans   []states.Span
	blocked []string // those of them at which an attempt has stopped
}

// New returns an executor for the attempts of one run. Close ends it.
func New(s Setup) *Executor {
	x := &Executor{Setup: s, began: s.Past.Began, made: s.Past.Made, spans: s.Past.Spans}
	if s.Job != nil {
		x.roots = confine.New(s.Job)
		x.enter()
	}
	return x
}

// Close takes back the run's marks on folders.
func (x *Executor) Close() { x.leave() }

func (x *Executor) store() record.Store { return record.In(x.State) }

// BreakLine ends the program's last line, if it did not, before launch prints something.
func (x *Executor) BreakLine() {
	if x.midLine {
		x.midLine = false
		fmt.Fprintln(os.Stderr)
	}
}

// attempt is what one attempt starts.
type attempt struct {
	command job.Command
	roots   *confine.Roots // where its signs may find files
	signs   job.Signs
	dir     string // takes what it prints; "" keeps nothing
	trial   run.Trial
	priced  map[string]unit.Bytes // the estimate of each phase; 0 where unknown
	steps   int64                 // of a trial: after how many iterations launch ends it; 0 where it ends by itself
	batch   job.Batch             // as planned
	overlay *overlay.Overlay      // nil where nothing is wanted of the program's Python
	witness *witness.Witness      // nil where the program is not asked about its memory
	unheard string                // why it could not be
	hookDir string                // the folder of its hook, if not dir: to be removed after it
	// differs says why what the program reports is another training than the plan's, or ""; nil where that does not matter.
	differs func(oom.State) string
}

// AsTyped runs a command that no plugin recognised: one attempt, nothing edited, nothing set. output is the file that keeps what it
// printed; "" where none does.
func (x *Executor) AsTyped(ctx context.Context, c job.Command) (out run.Outcome, output string, err error) {
	a := attempt{command: c}
	if x.Record != nil {
		a.dir, _ = x.Record.Attempt(1)
	}
	kept := a.dir
	if x.Inside && a.dir == "" { // nothing is recorded, so nothing is left
		a.dir, _ = x.folder(1)
	}
	x.hook(&a, nil) // which fails over copies only
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
	if x.Job != nil {
		x.Setup.Room.Again(ctx, x.Job.Command.Env)
	}
	return x.Setup.Room.Size(), nil
}

// Rooms implements [run.Executor].
func (x *Executor) Rooms(context.Context) ladder.HostRooms { return x.Setup.Room.Host() }
