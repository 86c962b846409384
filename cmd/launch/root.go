package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/ui"
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

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "launch [flags] -- COMMAND [ARG ...]",
		Short:   "run a training command so that it fits its GPU, and resume it after an out-of-memory",
		Long:    fmt.Sprintf(longHelp, exitTable(runExits)),
		Example: examples,
		Args:    cobra.ArbitraryArgs,
		// even with --quiet: a mistyped variable may leave a restriction unset
		PersistentPreRun: func(*cobra.Command, []string) {
			say := ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr)}
			for _, note := range mistyped(os.Environ()) {
				say.Warn("%s", note)
			}
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, args []string) error {
			if asked, _ := c.Flags().GetBool(versionFlag); asked {
				return printVersion(args)
			}
			if off() && c.ArgsLenAtDash() == 0 && len(args) > 0 {
				return started(proc.Replace(proc.Spec{Args: args}))
			}
			s, args, err := commandLine(c, args)
			if err != nil {
				if s.JSONFile == "" { // a settings file that cannot be read
					s.JSONFile, _ = c.Flags().GetString("json-file")
				}
				return withResult(s, err)
			}
			if len(args) == 0 {
				return c.Help()
			}
			return withResult(s, wrap(c.Context(), s, args))
		},
	}
	root.Flags().SetInterspersed(false)
	addFlags(root.PersistentFlags())
	addSet(root.Flags())
	addAccept(root.Flags())
	root.Flags().Bool(versionFlag, false, "print the version, as launch version does")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
			return wrongValue("--"+wrong.GetFlag().Name, wrong.GetFlag().Value.Type(), wrong.GetValue())
		}
		if strings.Contains(c.Use, "COMMAND") {
			return fmt.Errorf("%w; run `%s --help` for the flags. The command to run comes after --", err,
				c.CommandPath())
		}
		return fmt.Errorf("%w; run `%s --help` for the flags", err, c.CommandPath())
	})
	root.AddCommand(newPlan(), newCheck(), newEstimate(), newResume(), newSweep(), newSbatchLine(), newInit())
	for _, c := range []*cobra.Command{newExplain(), newTop(), newStop(), newRuns(), newShow(), newReport(),
		newDiff(), newDoctor(), newReceipts(), newGPUs(), newPlugins(), newTrust(), newVersion()} {
		c.SetUsageTemplate(withoutGlobals(c.UsageTemplate())) // the flags of a run have no effect on these commands
		root.AddCommand(c)
	}
	addHelp(root)
	addCompletion(root)
	return root
}

// off is whether the user has switched launch off: it becomes the command.
func off() bool { return os.Getenv("LAUNCH") == "0" }

// takes checks the number of arguments. Its error names what the command takes, which cobra's own does not.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

// globalsBegin is where the list of inherited flags begins in cobra's usage template.
const globalsBegin = "{{if .HasAvailableInheritedFlags}}"

// withoutGlobals removes the list of inherited flags from a usage template.
func withoutGlobals(template string) string {
	before, rest, found := strings.Cut(template, globalsBegin)
	_, after, ended := strings.Cut(rest, "{{end}}")
	if !found || !ended {
		return template
	}
	return before + after
}

// commandLine reads the settings, and the command after "--".
func commandLine(c *cobra.Command, args []string) (settings, []string, error) {
	dir, _ := os.Getwd() // "" if it was removed: then no project's settings are read
	s, err := readSettings(c.Flags(), dir)
	if err != nil {
		return s, nil, err
	}
	s.Set, _ = c.Flags().GetStringArray(setFlag) // nil where the command has no such flag
	s.Accept, _ = c.Flags().GetBool(acceptFlag)
	s.ofRow(c.Flags())
	dash := c.ArgsLenAtDash()
	if len(args) > 0 && dash != 0 {
		// launch's flags end at the first argument
		if err := valueApart(c.Flags(), os.Args[:max(0, len(os.Args)-len(args))], args); err != nil {
			return s, nil, err
		}
		return s, nil, fmt.Errorf("put -- before the command to run: %s -- %s …", c.CommandPath(), args[0])
	}
	return s, args, nil
}

// valueWords are values of flags that take one only after "=", and their flags.
var valueWords = map[string]string{"fast": "fill", "most": "fill", "line": "status", "title": "status",
	"taskbar": "status"}

// valueApart returns an error if the first argument is probably the value of the flag before it: --fill fast. Such a
// flag takes a value only after "=".
func valueApart(f *pflag.FlagSet, before, args []string) error {
	if len(before) == 0 {
		return nil
	}
	var flag *pflag.Flag
	last := before[len(before)-1]
	if word, ok := strings.CutPrefix(last, "--"); ok {
		flag = f.Lookup(word)
	} else if short, ok := strings.CutPrefix(last, "-"); ok && len(short) == 1 {
		flag = f.ShorthandLookup(short)
	}
	if flag == nil || !(valueWords[strings.Split(args[0], ",")[0]] == flag.Name || len(args) > 1 && args[1] == "--") {
		return nil
	}
	return fmt.Errorf("write the value of --%s after =: --%s=%s", flag.Name, flag.Name, args[0])
}
