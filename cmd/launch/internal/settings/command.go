package settings

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
)

// Here reads the settings for a subcommand that runs no program, and prints the warnings about their files.
func Here(c *cobra.Command) (Values, error) {
	s, err := Read(c.Flags(), ".")
	s.Row = rowOf(c.Flags())
	say := cli.Notes()
	for _, note := range s.Reading.Notes {
		say.Warn("%s", note)
	}
	return s, err
}

// With makes a command's RunE of what it does with the settings, read as by [Here].
func With(run func(c *cobra.Command, s Values, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		s, err := Here(c)
		if err != nil {
			return err
		}
		return run(c, s, args)
	}
}

// WithCommand is [With] for a subcommand that is about a command, read as by [CommandLine]: none is an error.
func WithCommand(run func(c *cobra.Command, s Values, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		s, args, err := CommandLine(c, args)
		if err == nil && len(args) == 0 {
			err = fmt.Errorf("%[1]s needs a command: launch %[1]s -- python train.py …", c.Name())
		}
		if err != nil {
			return err
		}
		return run(c, s, args)
	}
}

// CommandLine reads the settings, and the command after "--".
func CommandLine(c *cobra.Command, args []string) (Values, []string, error) {
	dir, _ := os.Getwd() // "" if it was removed: then no project's settings are read
	s, err := Read(c.Flags(), dir)
	if err != nil {
		return s, nil, err
	}
	s.Reading.Set, _ = c.Flags().GetStringArray(SetFlag) // nil where the command has no such flag
	s.Row = rowOf(c.Flags())
	dash := c.ArgsLenAtDash()
	if len(args) > 0 && dash != 0 {
		// launch's flags end at the first argument
		if err := valueApart(c.Flags(), os.Args[:max(0, len(os.Args)-len(args))], args); err != nil {
			return s, nil, err
		}
		return s, nil, Misplaced(c, args, CommandsOf(c))
	}
	return s, args, nil
}

// CommandsKey is the annotation with the names of launch's commands, of which only those are made that may be asked for
// at all.
const CommandsKey = "commands"

// CommandsOf lists the commands below one.
func CommandsOf(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	return append(names, strings.Fields(c.Annotations[CommandsKey])...)
}

// Accepted reports whether --accept was given.
func Accepted(c *cobra.Command) bool {
	on, _ := c.Flags().GetBool(AcceptFlag)
	return on
}

// rowOf reads the mark of a sweep's row. Like --set it is part of one job: no environment and no settings file has
// it.
func rowOf(f *pflag.FlagSet) (r Row) {
	text, err := f.GetString(rowFlag)
	if err != nil || text == "" {
		return Row{}
	}
	mark, names, _ := strings.Cut(text, ",")
	r.Mark, r.Env = mark, strings.FieldsFunc(names, func(r rune) bool { return r == ',' })
	// The sweep has started this launch as /proc/self/exe. Other launches know it by the name of its program.
	_ = os.WriteFile("/proc/self/comm", []byte("launch"), 0)
	return r
}

// valueWords are values of flags that take one only after "=", and their flags.
var valueWords = map[string]string{"fast": "fill", "most": "fill", "line": "status", "title": "status",
	"taskbar": "status", "never": "trace", "always": "trace"}

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

// Given lists those flags on the command line that take accepts.
func Given(f *pflag.FlagSet, take func(name string) bool) (flags []string) {
	f.Visit(func(g *pflag.Flag) {
		values := []string{g.Value.String()}
		if list, ok := g.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if take(g.Name) {
				flags = append(flags, "--"+g.Name+"="+value)
			}
		}
	})
	return flags
}

// IsSetting reports whether a flag is a setting of launch.
func IsSetting(name string) bool { return Known().Lookup(name) != nil }

// OfTrials reads the settings with flags that every trial of a sweep gets; ok is false if they cannot be read.
func OfTrials(flags []string) (s Values, ok bool) {
	f := ownFlags()
	AddSet(f)
	if f.Parse(flags) != nil {
		return s, false
	}
	dir, _ := os.Getwd()
	s, err := Read(f, dir)
	return s, err == nil
}

// IsSet reports whether a flag is one of those that [AddSet] declares.
func IsSet(name string) bool { return name == SetFlag || name == rowFlag }
