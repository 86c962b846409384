package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

	claims []claim // one for each value of the row
}

// A claim is one value of a row, and how the command is given it.
type claim struct {
	key, value string
	by         by
	texts      []string // of byPlace: the arguments that hold it
	names      []string // of byPlace: the variables that a shell's text sets to it
	shell      bool     // of byPlace: it stands in the text of a shell's -c
}

type by int

const (
	byOption by = iota // --lr 0.1
	byPlace            // {lr} in the command
	byEnv              // env:LR
	bySet              // --set
)

// MarkFlag is the flag by which a launch knows that it is a row's, and which variables carry the row's values.
func (i Invocation) MarkFlag(mark string) string {
	words := []string{mark}
	for _, c := range i.claims {
		if c.by == byEnv {
			words = append(words, strings.TrimPrefix(c.key, "env:"))
		}
		words = append(words, c.names...)
	}
	return "--sweep-row=" + strings.Join(words, ",")
}

// Name is a trial's name: the sweep's and the trial's number.
func (t Template) Name(trial int) string { return t.Sweep + "-" + strconv.Itoa(trial) }

// own are the placeholders that are the trial's own, each followed by its text.
func (t Template) own(trial Trial) []string {
	return []string{"{trial}", strconv.Itoa(trial.Number), "{name}", t.Name(trial.Number),
		"{first}", strconv.Itoa(cmp.Or(trial.First, trial.Number))}
}

// Number gives assignments their numbers, from first on, and puts the trial's own number and name into their values.
func (t Template) Number(first int, all []Assignment) []Trial {
	trials := make([]Trial, len(all))
	for i, a := range all {
		trials[i] = Trial{Number: first + i, Assignment: slices.Clone(a)}
		own := strings.NewReplacer(t.own(trials[i])...)
		for k := range trials[i].Assignment {
			trials[i].Assignment[k].Value = own.Replace(trials[i].Assignment[k].Value)
		}
	}
	return trials
}

// Render puts a trial's values into the command. A key whose placeholder {KEY} stands in the command or in another
// value is put there. Of the others, an option replaces the option's values where it stands or is added, and env:NAME
// becomes a variable. Any other key is left to --set. {trial} and {name} are put in everywhere.
func (t Template) Render(trial Trial) (Invocation, error) {
	args := t.Command
	if len(trial.Command) > 0 {
		args = trial.Command
	}
	if len(args) == 0 {
		return Invocation{}, fmt.Errorf("trial %d has no command", trial.Number)
	}
	values := slices.Concat(trial.Assignment, t.Shared)
	within := slices.Clone(values) // each value's own text: which other keys it names
	if err := settle(values, t.own(trial)); err != nil {
		return Invocation{}, fmt.Errorf("trial %d: %w", trial.Number, err)
	}
	all := replacer(values, t.own(trial))
	placed := func(key string) bool {
		holds := func(text string) bool { return strings.Contains(text, "{"+key+"}") }
		return !slices.Contains(reserved, key) && (slices.ContainsFunc(args, holds) ||
			slices.ContainsFunc(within, func(s Setting) bool { return holds(s.Value) }))
	}
	inv := Invocation{Args: make([]string, len(args))}
	for i, a := range args {
		inv.Args[i] = all.Replace(a)
	}
	for i, s := range values {
		value := s.Value
		name, env := strings.CutPrefix(s.Key, "env:")
		c := claim{key: s.Key, value: value}
		switch {
		case placed(s.Key):
			c.place(args, inv.Args)
		case env:
			c.by = byEnv
			inv.Env = append(inv.Env, name+"="+value)
		case strings.HasPrefix(s.Key, "-"):
			args, err := withOption(t.Dir, inv.Args, s.Key, value)
			if err != nil {
				return Invocation{}, fmt.Errorf("trial %d: %s: %w", trial.Number, s.Key, err)
			}
			inv.Args = args
		default:
			c.by = bySet
			inv.Set = append(inv.Set, s.Key+"="+value)
		}
		if i < len(trial.Assignment) { // the others are no values of the row
			inv.claims = append(inv.claims, c)
		}
	}
	return inv, nil
}

// replacer puts values, and a trial's own texts, in the place of their placeholders.
func replacer(values Assignment, own []string) *strings.Replacer {
	pairs := slices.Clone(own)
	for _, s := range values {
		if !slices.Contains(reserved, s.Key) {
			pairs = append(pairs, "{"+s.Key+"}", s.Value)
		}
	}
	return strings.NewReplacer(pairs...)
}

// longest is how long a value may become, in bytes: no argument can be longer.
const longest = 128 << 10

// settle puts values into the values that name their keys. Where a value names itself, perhaps by way of others, there
// is no end: that is an error, since the program would get none of them.
func settle(values Assignment, own []string) error {
	key := ""
	for range len(values) + 2 {
		all := replacer(values, own)
		key = ""
		for i, s := range values {
			values[i].Value = all.Replace(s.Value)
			itself := !slices.Contains(reserved, s.Key) && strings.Contains(s.Value, "{"+s.Key+"}")
			if itself || values[i].Value != s.Value {
				key = s.Key
			}
			if len(values[i].Value) > longest {
				return fmt.Errorf("%s: with the values that it names, it has more than %d bytes", s.Key, longest)
			}
		}
		if key == "" {
			return nil
		}
	}
	return fmt.Errorf("the value of %s names itself, or others that name it", key)
}

// place notes where a placeholder stands in a command, and what was made of it.
func (c *claim) place(args, rendered []string) {
	c.by = byPlace
	placeholder := "{" + c.key + "}"
	text := shellText(args)
	for i, a := range args {
		parts := strings.Split(a, placeholder)
		if len(parts) == 1 {
			continue
		}
		c.texts = append(c.texts, rendered[i])
		c.shell = c.shell || i == text
		for _, before := range parts[:len(parts)-1] {
			if m := setsName.FindStringSubmatch(before); m != nil {
				c.names = append(c.names, m[1])
			}
		}
	}
}

// reserved are the placeholders that are always the trial's own. A key of the same name, such as the name of an
// experiment in a recipe, has no placeholder.
var reserved = []string{"trial", "name", "first"}
