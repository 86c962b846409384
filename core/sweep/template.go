package sweep

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
)

// A Template makes each trial's command.
type Template struct {
	Sweep   string   // the sweep's name
	Command []string // as typed after --; empty if every trial has its own
	Dir     string   // where the command runs
	// Shared are settings that every trial gets in addition, of the one plan of --same-plan.
	Shared Assignment
}

// An Invocation is a trial's command, ready to be started.
type Invocation struct {
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"` // NAME=value, in addition to the present environment
	Set  []string `json:"set,omitempty"` // KEY=VALUE, each for --set
}

// Name is a trial's name: the sweep's and the trial's number.
func (t Template) Name(trial int) string { return t.Sweep + "-" + strconv.Itoa(trial) }

// own are the placeholders that are the trial's own, each followed by its text.
func (t Template) own(trial Trial) []string {
	return []string{"{trial}", strconv.Itoa(trial.Number), "{name}", t.Name(trial.Number),
		"{first}", strconv.Itoa(cmp.Or(trial.First, trial.Number))}
}

// Render puts a trial's values into the command. A key whose placeholder {KEY} stands in the command or in another
// value is put there. Of the others, an option replaces the option's value where it stands or is added at the end, and
// env:NAME becomes a variable. Any other key is left to --set. {trial} and {name} are put in everywhere.
func (t Template) Render(trial Trial) (Invocation, error) {
	args := t.Command
	if len(trial.Command) > 0 {
		args = trial.Command
	}
	if len(args) == 0 {
		return Invocation{}, fmt.Errorf("trial %d has no command", trial.Number)
	}
	small := strings.NewReplacer(t.own(trial)...)
	asked := slices.Concat(trial.Assignment, t.Shared)
	values := make(Assignment, len(asked))
	pairs := t.own(trial)
	for i, s := range asked {
		values[i] = Setting{s.Key, small.Replace(s.Value)}
		if !slices.Contains(reserved, s.Key) {
			pairs = append(pairs, "{"+s.Key+"}", values[i].Value)
		}
	}
	all := strings.NewReplacer(pairs...)
	placed := func(key string) bool {
		holds := func(text string) bool { return strings.Contains(text, "{"+key+"}") }
		return !slices.Contains(reserved, key) && (slices.ContainsFunc(args, holds) ||
			slices.ContainsFunc(values, func(s Setting) bool { return holds(s.Value) }))
	}
	inv := Invocation{Args: make([]string, len(args))}
	for i, a := range args {
		inv.Args[i] = all.Replace(a)
	}
	for _, s := range values {
		value := all.Replace(s.Value)
		name, env := strings.CutPrefix(s.Key, "env:")
		switch {
		case placed(s.Key):
		case env:
			inv.Env = append(inv.Env, name+"="+value)
		case strings.HasPrefix(s.Key, "-"):
			args, err := t.withOption(inv.Args, s.Key, value)
			if err != nil {
				return Invocation{}, fmt.Errorf("trial %d: %s: %w", trial.Number, s.Key, err)
			}
			inv.Args = args
		default:
			inv.Set = append(inv.Set, s.Key+"="+value)
		}
	}
	return inv, nil
}

// reserved are the placeholders that are always the trial's own. A key of the same name, such as the name of an
// experiment in a recipe, has no placeholder.
var reserved = []string{"trial", "name", "first"}

// withOption gives an option of the program a value. What stands before the script, such as Python's own options or a
// launcher's, is not the program's.
func (t Template) withOption(args []string, key, value string) ([]string, error) {
	prog, err := command.Program(args, os.Environ(), t.Dir)
	if err != nil && shellScript(args) {
		return nil, fmt.Errorf("put {%s} into the shell's command: launch does not know where the program's arguments end",
			key)
	}
	if err != nil || prog.First > len(args) { // no Python: everything after the program's name is its arguments
		return slices.Concat(args[:1], option(args[1:], key, value)), nil
	}
	return prog.WithArgs(option(prog.Args, key, value))
}

// shellScript reports whether a command is a shell with a script in an argument.
func shellScript(args []string) bool {
	shell := slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh"}, filepath.Base(args[0]))
	return shell && len(args) > 2 && strings.HasPrefix(args[1], "-") && strings.HasSuffix(args[1], "c")
}

// option sets an option in a program's arguments. If it occurs several times, the last one counts, as it does for
// argparse.
func option(args []string, key, value string) []string {
	out := slices.Clone(args)
	for i := len(out) - 1; i >= 0; i-- {
		if strings.HasPrefix(out[i], key+"=") {
			out[i] = key + "=" + value
			return out
		}
		if out[i] != key {
			continue
		}
		if strings.HasPrefix(value, "-") && strings.HasPrefix(key, "--") { // "--lr -1" may be read as two options
			if i+1 < len(out) && isValue(out[i+1]) {
				out = slices.Delete(out, i+1, i+2)
			}
			out[i] = key + "=" + value
			return out
		}
		if i+1 < len(out) && isValue(out[i+1]) {
			out[i+1] = value
			return out
		}
		return slices.Insert(out, i+1, value)
	}
	if strings.HasPrefix(value, "-") && strings.HasPrefix(key, "--") {
		return append(out, key+"="+value)
	}
	return append(out, key, value)
}

// isValue reports whether an argument can be an option's value rather than the next option.
func isValue(arg string) bool {
	_, err := strconv.ParseFloat(arg, 64)
	return !strings.HasPrefix(arg, "-") || arg == "-" || err == nil
}
