package sweep

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/run"
)

// A row is what its values say only if they reached the process that trains. So each value is looked for in the
// arguments and the environment that this process really got, and then in what it printed.

// Prove notes in a row's result the keys whose values the training is not known to have got. printed reports whether
// the program printed that a key has a value. Of a start that did not succeed nothing is asked.
func (i Invocation) Prove(r *Result, printed func(key, value string) bool) {
	r.NotProven, r.Printed = nil, nil
	if r.Ending != run.Succeeded {
		return
	}
	for _, c := range i.claims {
		switch {
		case c.proven(r):
		case printed(strings.TrimPrefix(c.key, "env:"), c.value):
			r.Printed = append(r.Printed, c.key)
		case !slices.Contains(r.NotProven, c.key):
			r.NotProven = append(r.NotProven, c.key)
		}
	}
}

// proven reports whether the process that trained got a value.
func (c claim) proven(r *Result) bool {
	p := r.Program
	switch {
	case c.by == bySet: // launch itself puts it into the recipe's copy or the arguments, and refuses what it cannot
		return r.Known
	case c.by == byPlace && len(c.texts) == 0: // it stands in another value, which is looked for itself
		return true
	case c.shell && (p == nil || !pythonName.MatchString(base(p.Args))): // the shell's text is the program
		return true
	case p == nil:
		return false
	case c.by == byEnv:
		return slices.Contains(p.Env, strings.TrimPrefix(c.key, "env:")+"="+c.value)
	case p.Shell:
		return false
	}
	own := p.Args[min(p.Own, len(p.Args)):]
	if c.by == byPlace {
		return c.placed(p, own)
	}
	if given, ok := valueOf(own, c.key); ok {
		return same(given, c.value) || changed(r.edits, c.value, given)
	}
	return slices.ContainsFunc(own, func(arg string) bool { return carries(arg, c.value) }) // by another name
}

// placed reports whether the value of a placeholder is part of what the program got.
func (c claim) placed(p *run.Program, own []string) bool {
	for _, name := range c.names {
		if slices.Contains(p.Env, name+"="+c.value) {
			return true
		}
	}
	all := slices.Concat(p.Args[:len(p.Args)-len(own)], own, []string{p.Dir})
	return slices.ContainsFunc(all, func(arg string) bool {
		return slices.Contains(c.texts, arg) || carries(arg, c.value) || contains(arg, c.value)
	})
}

// valueOf is the last value of an option in a program's arguments. What stands behind "--" is none.
func valueOf(args []string, key string) (value string, ok bool) {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	for i := len(args) - 1; i >= 0; i-- {
		name, after, joined := strings.Cut(args[i], "=")
		if underscores(name) != underscores(key) {
			continue
		}
		if joined {
			return after, true
		}
		if i+1 < len(args) {
			return args[i+1], true
		}
		return "", true
	}
	return "", false
}

func underscores(name string) string {
	trimmed := strings.TrimLeft(name, "-")
	return name[:len(name)-len(trimmed)] + strings.ReplaceAll(trimmed, "-", "_")
}

// changed reports whether launch itself gave the program another value for this one, on a lower rung.
func changed(edits []config.Edit, from, to string) bool {
	return slices.ContainsFunc(edits, func(e config.Edit) bool { return same(e.From, from) && same(e.To, to) })
}

// carries reports whether an argument is the value, or NAME=value.
func carries(arg, value string) bool {
	_, after, joined := strings.Cut(arg, "=")
	return same(arg, value) || joined && same(after, value)
}

// same compares two values, two numbers as numbers.
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y && (strings.ContainsAny(a+b, ".eE") || len(a)+len(b) < 30)
}

// contains reports whether a text has the value as a word of its own.
func contains(text, value string) bool {
	if value == "" {
		return true
	}
	word := func(i int) bool { // the byte belongs to a word
		return i >= 0 && i < len(text) && (text[i] == '_' || text[i] >= 0x80 || '0' <= text[i] && text[i] <= '9' ||
			'a' <= text[i]|0x20 && text[i]|0x20 <= 'z')
	}
	for from := 0; ; {
		i := strings.Index(text[from:], value)
		if i < 0 {
			return false
		}
		i += from
		if !word(i-1) && !word(i+len(value)) || !word(i) {
			return true
		}
		from = i + 1
	}
}

// Printed reports whether a program's output has a key with a value, such as "lr: 0.1", "lr=0.1" or \"lr\": 0.1, as
// trainings print their settings. launch's own lines do not count, nor does an option as it is typed.
func Printed(output, key, value string) bool {
	name := strings.TrimLeft(key, "-")
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		name = name[i+1:]
	}
	name = strings.NewReplacer("-", "[-_]", "_", "[-_]").Replace(regexp.QuoteMeta(name))
	re, err := regexp.Compile(`(?:^|[^-\w])` + name + `["']?[ \t]*[=:][ \t]*["']?(` + regexp.QuoteMeta(value) +
		`|[-+.\w]+)(?:$|[^-+.\w])`)
	if err != nil {
		return false
	}
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "launch: ") {
			continue
		}
		for _, m := range re.FindAllStringSubmatch(line, -1) {
			if same(m[1], value) {
				return true
			}
		}
	}
	return false
}

// Twins returns, for each row that trained with the same arguments and variables as an earlier one, that earlier trial.
func (h *History) Twins() map[int]int {
	first, twins := map[string]int{}, map[int]int{}
	for _, r := range h.Rows {
		res := r.Result
		if r.State != Succeeded || res == nil || res.Program == nil || res.Program.Shell || len(res.Printed) > 0 {
			continue
		}
		inv, err := h.Spec.Template().Render(r.Trial)
		if err != nil || slices.ContainsFunc(inv.claims, func(c claim) bool { return c.shell }) {
			continue // a shell's text may make a difference that no argument shows
		}
		p := res.Program
		id := strings.Join(slices.Concat(p.Args, []string{"", p.Dir, ""}, p.Env, []string{""}, inv.Set), "\x00")
		if at, ok := first[id]; ok {
			twins[r.Number] = at
			continue
		}
		first[id] = r.Number
	}
	return twins
}
