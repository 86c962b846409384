// Package carry carries a run to its end, on one machine or on several, and only as what it began as.
package carry

import (
	"errors"

	"github.com/launch-ml/launch/cmd/launch/internal/claims"
	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/ui"
)

// A Carrier carries runs: it makes their attempts, and ends launch as the last of them ended.
type Carrier struct {
	Say     ui.Printer
	Options attempt.Options
	Shows   proc.Shows // what the terminal shows of the progress
	Nodes   settings.Nodes
	Results result.Writer
	Claims  *claims.Claims
	Prune   bool   // remove old records afterwards
	Accept  bool   // go on with a run that is no longer what it began as
	Version string // of launch, which is the same on all nodes
}

// Settings are what a [Carrier] takes of the user's.
type Settings struct {
	State   string // the state folder
	Room    settings.Room
	Anyway  bool // run even if it is certain not to fit
	Program settings.Program
	Output  settings.Output
	Notices settings.Notices
	Nodes   settings.Nodes
	Result  settings.ResultFile
	Row     settings.Row
	Prune   bool
	Accept  bool
}

// New returns what carries runs as the user has set.
func New(linked cli.Build, s Settings) *Carrier {
	say, p := cli.Reporter(s.Output.Quiet, s.Output.Verbose), s.Program
	results := result.Writer{To: s.Result, Notices: s.Notices, Nodes: s.Nodes}
	return &Carrier{Say: say, Shows: s.Output.Shows, Nodes: s.Nodes, Results: results, Prune: s.Prune, Accept: s.Accept,
		Version: linked.Version + linked.Commit,
		Claims:  &claims.Claims{Room: s.Room, Anyway: s.Anyway, Leave: p.Leave, Results: results, Say: say},
		Options: attempt.Options{
			Inside: p.Inside, LastWords: p.LastWords, OnPressure: p.OnPressure,
			TTY: p.TTY, Quiet: s.Output.Quiet, Grace: p.Grace, Sample: p.Sample,
			State: s.State,
			Leave: p.Leave, Yield: p.Yield, Wait: s.Room.Wait, Prove: s.Row.Mark != "", Env: s.Row.Env,
		}}
}

// Share has a run share the terminal with launch: what launch prints goes between the program's own lines. It returns
// the printer for that.
func (c *Carrier) Share(say ui.Printer, setup *attempt.Setup) ui.Printer {
	scr := proc.Share(say.W, c.Shows)
	say.W, setup.Screen = scr.Voice(), scr
	if !c.Options.Quiet {
		setup.Tell = say.Advise
	}
	if c.Shows.Any() {
		setup.Live = func(now record.Status) { scr.Show(proc.Status(ui.Status(now))) }
	}
	return say
}

// Trouble is what went wrong in launch while a program ran. Of a sweep's row the sweep keeps the output, which is no
// part of its result: what a full disk has cut off does not make it fail.
func (c *Carrier) Trouble(x *attempt.Executor) error {
	var lost *proc.OutputError
	if c.Options.Prove && errors.As(x.Trouble, &lost) {
		return nil
	}
	return x.Trouble
}

// Tidy runs after a program has ended, before launch exits: it releases the claims and removes old records.
func (c *Carrier) Tidy() {
	c.Claims.Release()
	if c.Prune {
		records.Prune(c.Options.State)
	}
}
