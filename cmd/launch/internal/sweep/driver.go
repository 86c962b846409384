package sweep

import (
	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/ui"
)

// sweepExits are the codes of a sweep.
var sweepExits = []cli.ExitMeaning{cli.Exit("0", "every row succeeded"), cli.Exit("1", "one failed, or is doubtful"),
	cli.Exit("75", "rows did not run because there was no room, or launch gave way"),
	cli.Exit("78", "rows did not run because they cannot fit"), cli.Exit("125", "launch itself failed"),
	cli.Exit("128+N", "signal N stopped the sweep")}

// A driver drives sweeps as the user has set.
type driver struct {
	state   string // the state folder
	say     ui.Printer
	result  settings.ResultFile // --json-file
	notices settings.Notices
	placing placing  // of the trials, by the settings of the sweep itself
	accept  bool     // go on with a sweep that is no longer what it began as
	pricing []string // flags of the plans of its rows
}

func newDriver(s settings.Values, accept bool) *driver {
	return &driver{state: s.State, say: cli.Reporter(s.Output.Quiet, s.Output.Verbose), result: s.Result,
		notices: s.Notices, placing: placingOf(s), accept: accept}
}

// executor runs and prices the trials of a sweep on this machine.
func (d *driver) executor(spec sweep.Spec, dir string) *local.Executor {
	sweeps := local.In(d.state)
	o := local.Options{Dir: dir, Flags: append(withoutNotices(d.notices, spec.Flags), "--state-dir="+d.state),
		Folder: func(n int) string { return sweeps.Trial(spec.Name, n) }, Runs: record.In(d.state)}
	if spec.ID != "" {
		o.Mark = spec.Mark
	}
	if spec.Pack {
		d.ofTrials(spec.Flags).onCards(&o)
	}
	o.Pricing = append(o.Pricing, d.pricing...)
	return local.New(o)
}

// ofTrials is how trials with the flags that each of them gets are placed: those of a sweep's file, and those with
// which a sweep that is resumed began.
func (d *driver) ofTrials(flags []string) placing {
	s, ok := settings.OfTrials(flags)
	if !ok {
		return d.placing
	}
	return placingOf(s)
}
