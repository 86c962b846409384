package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/ui"
)

const longHelp = `launch runs a training command so that it fits its GPU, and goes on when it does not.

It reads the command and its recipe, foresees the memory of every phase from the architecture, changes in a copy of
the recipe what has to change and says so, runs the command as if it were typed bare, and after an out-of-memory takes
the next rung of the ladder and goes on from the last saved state. It never writes a file of yours. What it does not
recognise it runs as typed.

How far it may go is --allow: none, speed, numerics, metrics (the default), recipe, model.

Exit code: the program's own. launch's are 75 (not enough free memory now; retry later or on another machine), 78 (cannot fit at the allowed cost;
nothing was started), 125 (its own trouble), 126 and 127 (the command cannot be run, or is not there).

Settings: a flag outranks LAUNCH_<FLAG> in the environment, which outranks the project's .launch.yaml, which outranks
config.yaml in the user's launch folder. The project's is the nearest one up to the repository's root or the home folder. Only
files that you or root own and nobody else can write are taken; what names paths or lowers limits, after "launch trust".`

const examples = `  launch -- python train.py -opt x.yml               run it
  launch plan -- python train.py -opt x.yml          only say what would be done
  launch plan --vram 12GiB -- python train.py …      for a card that is not here
  launch --allow speed -- python train.py …          change nothing but time
  launch --device cpu --memory 8GiB -- python …      on this machine's memory, with a limit
  for f in *.yml; do launch -q -- python train.py -opt "$f"; done`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "launch [flags] -- COMMAND [ARG ...]",
		Short:   "run a training command so that it fits its GPU, and go on when it does not",
		Long:    longHelp,
		Example: examples,
		Args:    cobra.ArbitraryArgs,
		PersistentPreRun: func(*cobra.Command, []string) { // quiet or not: something may be allowed that was not to be
			say := ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr)}
			for _, note := range mistyped(os.Environ()) {
				say.Warn("%s", note)
			}
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, args []string) error {
			s, args, err := commandLine(c, args)
			if err != nil {
				if s.JSONFile == "" { // a settings file that cannot be read
					s.JSONFile, _ = c.Flags().GetString("json-file")
				}
				return told(s, err)
			}
			if len(args) == 0 {
				return c.Help()
			}
			return told(s, wrap(c.Context(), s, args))
		},
	}
	root.Flags().SetInterspersed(false)
	addFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
			return wrongValue("--"+wrong.GetFlag().Name, wrong.GetFlag().Value.Type(), wrong.GetValue())
		}
		if strings.Contains(c.Use, "COMMAND") {
			return fmt.Errorf("%w; `%s --help` lists the flags, and the command to run stands behind --", err, c.CommandPath())
		}
		return fmt.Errorf("%w; `%s --help` lists the flags", err, c.CommandPath())
	})
	root.AddCommand(newPlan(), newEstimate(), newResume())
	for _, c := range []*cobra.Command{newExplain(), newRuns(), newShow(), newReceipts(), newGPUs(), newPlugins(), newTrust(), newVersion()} {
		c.SetUsageTemplate(withoutGlobals(c.UsageTemplate())) // the flags of a run mean nothing to them
		root.AddCommand(c)
	}
	return root
}

// takes is cobra's check of how many arguments there are, with what the command takes instead of cobra's words.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

// withoutGlobals takes the list of inherited flags out of a usage template.
func withoutGlobals(template string) string {
	before, rest, found := strings.Cut(template, "{{if .HasAvailableInheritedFlags}}")
	_, after, ended := strings.Cut(rest, "{{end}}")
	if !found || !ended {
		return template
	}
	return before + after
}

// commandLine reads the settings, and the command behind "--".
func commandLine(c *cobra.Command, args []string) (settings, []string, error) {
	dir, _ := os.Getwd() // "" where it is gone: then no settings are looked for there
	s, err := readSettings(c.Flags(), dir)
	if err != nil {
		return s, nil, err
	}
	dash := c.ArgsLenAtDash()
	if len(args) > 0 && dash != 0 {
		if err := apart(c.Flags(), os.Args[:max(0, len(os.Args)-len(args))], args); err != nil { // nothing behind the first word is a flag of launch's
			return s, nil, err
		}
		return s, nil, fmt.Errorf("put -- before the command to run: %s -- %s …", c.CommandPath(), args[0])
	}
	return s, args, nil
}

// apart says that a word before "--" may be the value of the flag before it, which can stand alone and so takes one behind "=" only;
// nil where it is not.
func apart(f *pflag.FlagSet, before, args []string) error {
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
	if flag == nil || !(args[0] == "fast" || len(args) > 1 && args[1] == "--") {
		return nil
	}
	return fmt.Errorf("the value of --%s stands behind =: --%s=%s", flag.Name, flag.Name, args[0])
}
