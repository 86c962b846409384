// Command launch runs a training command so that it fits its GPU, and resumes it after an out-of-memory.
//
//	launch -- python train.py -opt x.yml
//
// Below these few lines the folder internal has, from the ground up:
//
//	cli       what every command shares: exit codes, printers, signals, this build
//	settings  reads flags, environment and files as groups of a few values, of which a command takes those it uses
//	records   opens records and receipts
//	sameness  compares what goes on with what began; reading reads and prices a command; engine asks for jobs of Slurm
//	result    writes --json-file and sends notices
//	claims    claims memory for a run, and waits for it
//	carry     carries a run to its end, on one machine or several
//
// then a folder for each command or group of commands (run, plan, check, draft, sbatch, sweep, runs, receipts, report,
// machine, plugins, trust), none of which imports another, and root, which makes the one that was asked for.
package main

import (
	"os"
	"runtime/debug"
	"slices"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/root"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/declared"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/trace"
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

// The linker sets these: version for a release, the others in `make build`. Go itself records the commit only with
// -buildvcs (`go help build`).
var version, commit, date, modified string

// factory has what only this package knows.
func factory() *cli.Factory {
	return &cli.Factory{Builtins: builtins,
		Linked: cli.Build{Version: version, Commit: commit, Date: date, Modified: modified == "true"}}
}

func main() {
	// Each of these returns at once unless this process was started as the keeper, as a plugin, or to ask the driver.
	host.ServeMain(builtins...)
	drivers.ChildMain()
	trace.ChildMain()

	debug.SetGCPercent(400) // costs some MiB at most, and the program starts sooner
	if i := slices.Index(os.Args, "--"); i > 0 && os.Args[1] != "plan" && os.Args[1] != "sweep" && !cli.Off() {
		proc.Prepare() // the program's keeper starts while launch reads the command
	}
	if code := root.Main(factory()); code != 0 {
		os.Exit(code)
	}
}
