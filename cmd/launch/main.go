// Command launch runs a training command so that it fits its GPU, and goes on when it does not.
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
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/plugins/dualattn"
	"github.com/launch-ml/launch/plugins/moco"
	"github.com/launch-ml/launch/plugins/sisr"
	"github.com/launch-ml/launch/plugins/stablesr"
)

// builtins are the plugins linked into this program. Where it runs a command it serves them by starting itself again; plan and
// estimate, which run nothing, ask them as they are (client.go).
var builtins = []func() plugin.Plugin{
	sisr.New,
	moco.New,
	stablesr.New,
	dualattn.New,
	declared.New, // last: a plugin of its own knows more of a project
}

func main() {
	// This program is also its own keeper, its own plugins and its own view of the driver.
	proc.KeeperMain()
	host.ServeMain(builtins...)
	nvml.ChildMain()

	debug.SetGCPercent(400) // some MiB at most: what is saved is time before the program starts
	if i := slices.Index(os.Args, "--"); i > 0 && os.Args[1] != "plan" {
		proc.Prepare() // a program will be run: its keeper starts while the command is being read
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

// exitCode is an error that was said already: only the code is left to hand on.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
