package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
)

// Mistyped returns a note for each variable of an environment whose name is almost that of a setting. Unlike in a
// settings file this is not an error: the variable may belong to another program named launch. A name that is close to
// no setting gets no note.
func Mistyped(environ []string) (notes []string) {
	settings := Known()
	for _, kv := range environ {
		env, value, _ := strings.Cut(kv, "=")
		prefix, key, ok := strings.Cut(env, "_")
		if !ok || value == "" || !strings.EqualFold(prefix, "launch") {
			continue
		}
		if env == Variable(SetFlag) {
			notes = append(notes, env+" has no effect: --set belongs to one command")
			continue
		}
		if near := nearest(key, settings); near != "" && Variable(near) != env {
			notes = append(notes, fmt.Sprintf("%s is not a setting and has no effect: did you mean %s?", env,
				Variable(near)))
		}
	}
	slices.Sort(notes)
	return notes
}

// nearest returns the setting that a mistyped name may mean, "" for none.
func nearest(name string, settings *pflag.FlagSet) string {
	return config.Near(name, flagNames(settings))
}

// flagNames lists the names of flags that are shown.
func flagNames(f *pflag.FlagSet) (names []string) {
	f.VisitAll(func(g *pflag.Flag) {
		if !g.Hidden {
			names = append(names, g.Name)
		}
	})
	return names
}

// UnknownFlag tells what to type for a flag that launch does not have: another flag of launch, or the same of the
// program, behind "--".
func UnknownFlag(c *cobra.Command, err *pflag.NotExistError) error {
	name, short := err.GetSpecifiedName(), err.GetSpecifiedShortnames()
	if short != "" {
		name = short
	}
	if near := config.Near(name, flagNames(c.Flags())); near != "" && len(name) > 1 {
		return fmt.Errorf("there is no flag %s (did you mean --%s?); `%s` lists the flags", dashed(name, short), near,
			listing(c))
	}
	if strings.Contains(c.Use, "COMMAND") {
		return fmt.Errorf("there is no flag %s; if it belongs to the program, put it after --: %s -- COMMAND %[1]s …",
			dashed(name, short), c.CommandPath())
	}
	return fmt.Errorf("there is no flag %s; `%s` lists the flags", dashed(name, short), listing(c))
}

// listing is what a person types for the flags of a command.
func listing(c *cobra.Command) string {
	if !c.HasParent() {
		return "launch help settings"
	}
	return c.CommandPath() + " --help"
}

func dashed(name, short string) string {
	if short != "" {
		return "-" + name
	}
	return "--" + name
}

// Misplaced tells what to type where something stands before "--": the command of launch that was mistyped, or else
// that the program has to stand behind it.
func Misplaced(c *cobra.Command, args, commands []string) error {
	path, _ := os.LookupEnv("PATH")
	switch first := args[0]; {
	case slices.Contains([]string{"run", "exec", "start"}, first) && !c.HasParent():
		return fmt.Errorf("launch needs no word for it: launch -- COMMAND runs the command")
	case command.Lookup(first, nil, path) == "" && config.Near(first, commands) != "":
		return fmt.Errorf("there is no command %s: did you mean %s %s? A program of that name is run by %[2]s -- %[1]s …",
			first, c.CommandPath(), config.Near(first, commands))
	}
	return fmt.Errorf("put -- before the command to run: %s -- %s …", c.CommandPath(), args[0])
}
