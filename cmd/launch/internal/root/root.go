// Package root is the command launch itself: it makes the command that was asked for, and all of them for the help.
package root

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/cmd/launch/internal/check"
	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/draft"
	"github.com/launch-ml/launch/cmd/launch/internal/machine"
	"github.com/launch-ml/launch/cmd/launch/internal/plan"
	"github.com/launch-ml/launch/cmd/launch/internal/plugins"
	"github.com/launch-ml/launch/cmd/launch/internal/receipts"
	"github.com/launch-ml/launch/cmd/launch/internal/report"
	"github.com/launch-ml/launch/cmd/launch/internal/run"
	"github.com/launch-ml/launch/cmd/launch/internal/runs"
	"github.com/launch-ml/launch/cmd/launch/internal/sbatch"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/cmd/launch/internal/sweep"
	"github.com/launch-ml/launch/cmd/launch/internal/trust"
	"github.com/launch-ml/launch/core/proc"

	own "github.com/launch-ml/launch/core/run"
)

const longHelp = `launch runs a training command so that it fits its GPU, and resumes it after an out-of-memory.

It reads the command and its recipe, and estimates the memory of every phase from the network's
architecture. Where a phase would not fit, it changes a copy of the recipe and prints each change. Then
it runs the command as if it had been typed alone. After an out-of-memory it takes the next rung of the
ladder and resumes from the last saved state. It never writes a file of yours. A command that it does
not recognise runs as typed.

--allow sets the highest cost of a change: none, speed, numerics, metrics (the default), recipe, model.

Exit code: the program's own. launch's own codes are
%s

Settings: a flag outranks LAUNCH_<FLAG> in the environment, which outranks the project's .launch.yaml,
which outranks config.yaml in your launch folder. The project's file is the nearest one, from this
folder up to the repository's root or your home folder. launch reads only files that you or root own
and nobody else can write. What names paths or weakens limits it takes after "launch trust".

With LAUNCH=0 in the environment launch becomes the command at once, as if launch had not been typed.`

const examples = `  launch -- python train.py -opt x.yml               run it
  launch plan -- python train.py -opt x.yml          print what launch would do, and start nothing
  launch plan --vram 12GiB -- python train.py …      plan for a card of this size
  launch --allow speed -- python train.py …          change only what costs time
  launch --set train.optim_g.lr=1e-4 -- python …     run it with another value than the recipe's
  launch --device cpu --memory 8GiB -- python …      use host memory, with a limit
  launch --device any --wait -- python train.py …    on a card with room, as soon as there is one
  for f in *.yml; do launch -q -- python train.py -opt "$f"; done`

// A maker makes a command, which is not made unless it is asked for: to make all of them takes longer than many a
// command itself.
type maker struct {
	name string
	make func(*cli.Factory) *cobra.Command
}

// makers are the commands of launch.
var makers = []maker{
	{"check", check.NewCheck}, {"diff", alone(runs.NewDiff)}, {"doctor", alone(check.NewDoctor)},
	{"estimate", plan.NewEstimate}, {"explain", alone(runs.NewExplain)}, {"gpus", alone(machine.NewGPUs)},
	{"init", draft.New}, {"plan", plan.NewPlan}, {"plugins", plugins.New}, {"receipts", alone(receipts.New)},
	{"report", report.New}, {"resume", run.NewResume}, {"runs", alone(runs.NewRuns)}, {"sbatch-line", sbatch.New},
	{"show", alone(runs.NewShow)}, {"stop", alone(runs.NewStop)}, {"sweep", alone(sweep.New)},
	{"top", alone(machine.NewTop)}, {"trust", alone(trust.New)}, {"version", newVersion},
}

// alone is the maker of a command that needs nothing of the main program.
func alone(make func() *cobra.Command) func(*cli.Factory) *cobra.Command {
	return func(*cli.Factory) *cobra.Command { return make() }
}

// Main runs the command line of this process, and returns launch's exit code.
func Main(f *cli.Factory) int {
	err := newTree(f, asked(os.Args[1:])).ExecuteContext(context.Background())
	var code cli.ExitCode
	var with *cli.OwnExit
	say := cli.Notes()
	say.Colour = false
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &with):
		say.Line("%v", with)
		return with.Code
	}
	say.Line("%v", err)
	return own.OwnTrouble
}

// asked returns which commands an argument list may ask for; nil: all of them.
func asked(args []string) func(name string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		args = args[:1] // else it is the first that is neither a flag nor the value of one: which, cobra decides
	}
	for _, all := range []string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd} {
		if slices.Contains(args, all) {
			return nil
		}
	}
	return func(name string) bool { return slices.Contains(args, name) }
}

// Tree is launch with all its commands.
func Tree(f *cli.Factory) *cobra.Command { return newTree(f, nil) }

// newTree makes launch with the commands that are wanted; nil: with all, and with those for help and completion.
func newTree(f *cli.Factory, wanted func(name string) bool) *cobra.Command {
	root := newRoot(f)
	if wanted == nil {
		addRest(f, root)
		return root
	}
	for _, m := range makers {
		if wanted(m.name) {
			root.AddCommand(m.make(f))
		}
	}
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

// addRest adds the commands that launch does not have yet.
func addRest(f *cli.Factory, root *cobra.Command) {
	root.CompletionOptions.DisableDefaultCmd = false
	for _, m := range makers {
		if !slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == m.name }) {
			root.AddCommand(m.make(f))
		}
	}
	addHelp(root)
	addCompletion(root)
}

func newRoot(f *cli.Factory) *cobra.Command {
	root := &cobra.Command{
		Use:     "launch [flags] -- COMMAND [ARG ...]",
		Short:   "run a training command so that it fits its GPU, and resume it after an out-of-memory",
		Long:    fmt.Sprintf(longHelp, cli.ExitTable(cli.RunExits)),
		Example: examples,
		Args:    cobra.ArbitraryArgs,
		// even with --quiet: a mistyped variable may leave a restriction unset
		PersistentPreRun: func(*cobra.Command, []string) {
			for _, note := range settings.Mistyped(os.Environ()) {
				cli.Notes().Warn("%s", note)
			}
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, args []string) error {
			if version, _ := c.Flags().GetBool(versionFlag); version {
				return printVersion(f, args)
			}
			if cli.Off() && c.ArgsLenAtDash() == 0 && len(args) > 0 {
				return cli.Started(proc.Replace(proc.Spec{Args: args}))
			}
			return run.Launch(f, c, args)
		},
	}
	root.Annotations = map[string]string{settings.CommandsKey: "help completion"}
	for _, m := range makers {
		root.Annotations[settings.CommandsKey] += " " + m.name
	}
	root.Flags().SetInterspersed(false)
	settings.AddFlags(root.PersistentFlags())
	run.Declare(root)
	root.Flags().Bool(versionFlag, false, "print the version, as launch version does")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
			return settings.WrongValue("--"+wrong.GetFlag().Name, wrong.GetFlag().Value.Type(), wrong.GetValue())
		}
		if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
			return settings.UnknownFlag(c, unknown)
		}
		return fmt.Errorf("%w; run `%s --help` for the flags", err, c.CommandPath())
	})
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		onTerminal(os.Stdout).help(c)
	})
	return root
}
