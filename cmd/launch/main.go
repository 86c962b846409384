// Command launch runs a training command so that it fits its GPU, and resumes it after an out-of-memory.
//
//	launch -- python train.py -opt x.yml
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"golang.org/x/term"

	"github.com/launch-ml/launch/core/gpu/nvml"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/declared"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/trace"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/plugins/dualattn"
	"github.com/launch-ml/launch/plugins/lm"
	"github.com/launch-ml/launch/plugins/moco"
	"github.com/launch-ml/launch/plugins/sisr"
	"github.com/launch-ml/launch/plugins/stablesr"
)

// builtins are the plugins linked into this program. To run a command, launch serves them from a second process of
// itself. plan and estimate start no program, so they ask them in this process.
var builtins = []func() plugin.Plugin{
	sisr.New,
	moco.New,
	stablesr.New,
	dualattn.New,
	lm.New,
	declared.New, // last: a project's own plugin knows more about it
}

func main() {
	// Each of these returns at once unless this process was started as the keeper, as a plugin, or to ask the driver.
	host.ServeMain(builtins...)
	nvml.ChildMain()
	trace.ChildMain()

	debug.SetGCPercent(400) // costs some MiB at most, and the program starts sooner
	if i := slices.Index(os.Args, "--"); i > 0 && os.Args[1] != "plan" && os.Args[1] != "sweep" && !off() {
		proc.Prepare() // the program's keeper starts while launch reads the command
	}
	root := newRoot()
	err := root.ExecuteContext(context.Background())
	var code exitCode
	var own *ownExit
	say := ui.Printer{W: os.Stderr, Prefix: "launch: "}
	switch {
	case err == nil:
	case errors.As(err, &code):
		os.Exit(int(code))
	case errors.As(err, &own):
		say.Line("%v", own.error)
		os.Exit(own.code)
	default:
		say.Line("%v", err)
		os.Exit(run.OwnTrouble)
	}
}

// exitCode is an error whose message was printed already. main only exits with the code.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
