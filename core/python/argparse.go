package python

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

func (r *reader) add(o Option) {
	if len(r.out) >= maxOptions {
		r.cut = true
		return
	}
	r.out = append(r.out, o)
}

// leftOut notes a place where options are declared that are not read.
func (r *reader) leftOut(m *module, token int, format string, args ...any) {
	what := m.Place(m.LineOf(token)) + ": " + fmt.Sprintf(format, args...)
	if len(r.unread) < 50 && !slices.Contains(r.unread, what) {
		r.unread = append(r.unread, what)
	}
}

// each calls f with each call of a module's live code.
func (r *reader) each(m *module, f func(c Call, statement int)) {
	for i, s := range m.Statements {
		if m.live[i] {
			for _, c := range m.Calls(s.Range) {
				f(c, i)
			}
		}
	}
}

// argparse reads add_argument and set_defaults of a module.
func (r *reader) argparse(m *module) {
	aliases := map[string]bool{}
	for i, s := range m.Statements {
		if a, ok := m.Assigns(s); ok && m.live[i] && strings.HasSuffix(m.Of(a.Value), ".add_argument") {
			aliases[a.Name] = true
		}
	}
	configargparse := strings.Contains(m.Code, "configargparse") || strings.Contains(m.Code, "ConfigArgumentParser")
	first := len(r.out)
	type defaults struct {
		call Call
		at   int
	}
	var set []defaults
	r.each(m, func(c Call, at int) {
		_, method := cutLast(c.Name)
		switch {
		case method == "add_argument" || aliases[c.Name] || configargparse && (method == "add" || method == "add_arg"):
			r.argument(m, c, at)
		case method == "set_defaults":
			set = append(set, defaults{c, at})
		case strings.HasSuffix(method, "add_config_arguments") || strings.HasSuffix(method, "add_argparse_args"):
			if in, _, ext := r.find(m, c.Name, 0); in == nil {
				r.leftOut(m, c.First, "options that %s adds", cond(ext == "", c.Name, ext))
			}
		}
	})
	for _, d := range set {
		r.setDefaults(m, d.call, d.at, r.out[:len(r.out):len(r.out)], first)
	}
}

func cutLast(name string) (before, last string) {
	i := strings.LastIndexByte(name, '.')
	return name[:max(0, i)], name[i+1:]
}

// argument reads one add_argument.
func (r *reader) argument(m *module, c Call, at int) {
	o := Option{Path: m.Path, Line: m.LineOf(c.First), How: Argparse}
	args := m.Args(c.Open)
	positional, starred := "", false
	for _, a := range args {
		if a.Name != "" || a.Stars > 0 {
			starred = starred || a.Stars > 0
			continue
		}
		s, ok := m.Str(a.Range)
		if !ok {
			if v, known := r.value(m, a.Range, at); known {
				s, ok = v, true
			}
		}
		switch {
		case !ok:
			r.leftOut(m, c.First, "an option with a computed name")
			return
		case strings.HasPrefix(s, "-"):
			o.Names = append(o.Names, s)
		default:
			positional = s
		}
	}
	if len(o.Names) == 0 && positional == "" {
		return // add_argument(*args, **kwargs), or not argparse's
	}
	if o.Dest = positional; len(o.Names) > 0 {
		o.Dest = destOf(o.Names)
	}
	if a, ok := Keyword(args, "dest"); ok {
		o.Dest, _ = m.Str(a.Range)
	}
	r.details(m, &o, args, at)
	r.defaultOf(m, &o, args, at)
	if starred {
		o.Default, o.Known = "", false
	}
	r.add(o)
}

// destOf is the attribute of an option: its first long name, or its first.
func destOf(names []string) string {
	i := max(0, slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "--") }))
	return strings.ReplaceAll(strings.TrimLeft(names[i], "-"), "-", "_")
}

// details reads what an option takes, its type, choices and help.
func (r *reader) details(m *module, o *Option, args []Arg, at int) {
	if a, ok := Keyword(args, "type"); ok {
		o.Type = m.Of(a.Range)
	}
	if a, ok := Keyword(args, "help"); ok {
		o.Help, _ = m.Str(a.Range)
		o.Help = strings.Join(strings.Fields(o.Help), " ")
	}
	if a, ok := Keyword(args, "choices"); ok && a.End > a.First && m.Tokens[a.First].Pair == a.End-1 {
		for _, c := range m.Split(m.Inside(a.First), ",") {
			if v, ok := r.value(m, c, at); ok {
				o.Choices = append(o.Choices, v)
			}
		}
	}
	if a, ok := Keyword(args, "nargs"); ok {
		v, _ := r.value(m, a.Range, at)
		switch {
		case v == "*" || v == "..." || strings.HasSuffix(m.Of(a.Range), "REMAINDER"):
			o.Takes = config.Any
		case v == "?":
			o.Takes = config.Maybe
		case v == "+", len(v) == 1 && v > "1" && v <= "9":
			o.Takes = config.Some
		}
	}
	if slices.Contains(flagActions, actionOf(m, args)) {
		o.Takes = config.None
	}
}

// flagActions take no argument. Others, and classes of a program's own, take one.
var flagActions = []string{"store_true", "store_false", "store_const", "append_const", "count", "help",
	"version", "BooleanOptionalAction"}

// actionOf is an option's action; of a class the last part of its name.
func actionOf(m *module, args []Arg) string {
	a, ok := Keyword(args, "action")
	if !ok {
		return "store"
	}
	if s, ok := m.Str(a.Range); ok {
		return s
	}
	_, name := cutLast(m.Of(a.Range))
	return name
}

func (r *reader) defaultOf(m *module, o *Option, args []Arg, at int) {
	action := actionOf(m, args)
	if action == "BooleanOptionalAction" {
		for _, n := range slices.Clone(o.Names) {
			if long, ok := strings.CutPrefix(n, "--"); ok {
				o.Names = append(o.Names, "--no-"+long)
			}
		}
	}
	if a, ok := Keyword(args, "default"); ok {
		o.Default, o.Known = r.value(m, a.Range, at)
		return
	}
	o.Known = true
	switch action {
	case "store_true":
		o.Default = "False"
	case "store_false":
		o.Default = "True"
	default:
		o.Default = "None"
	}
}

// setDefaults applies set_defaults(name=value) to the options so far; first is the first of this module.
func (r *reader) setDefaults(m *module, c Call, at int, options []Option, first int) {
	conditional := false
	for i := m.Statements[at].In; i >= 0; i = m.Statements[i].In {
		switch m.Token(m.Statements[i].First) {
		case "if", "elif", "else", "for", "while", "except":
			conditional = conditional || !mainGuard.MatchString(m.Of(m.Statements[i].Range))
		}
	}
	for _, a := range m.Args(c.Open) {
		if a.Stars == 2 && !conditional && !m.Is(a.First, "{") { // of a dictionary that is not read: any option may be in it
			for i := range options {
				if options[i].How == Argparse {
					options[i].Default, options[i].Known = "", false
				}
			}
			continue
		}
		v, known := r.value(m, a.Range, at)
		for i := range options {
			if o := &options[i]; a.Name != "" && o.Dest == a.Name && o.How == Argparse {
				switch {
				case conditional && (!known || v != o.Default):
					o.Default, o.Known = "", false
				case !conditional && (i < first || o.Line < m.LineOf(c.First) || o.Default == "None"):
					o.Default, o.Known = v, known
				}
			}
		}
	}
}
