package python

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// unsure are words of a program whose parser may take more than its calls of add_argument show.
var unsure = []string{"parse_known", "intermixed", "argv", "prefix_chars", "parents=[", "REMAINDER", "\"...\"", "'...'",
	"exit_on_error", "SystemExit", "ArgumentParser)", ".error =", "_actions", "_add_action", "configargparse",
	"ConfigArgumentParser", "jsonargparse", "simple_parsing", "HfArgumentParser"}

// Refused is the first of a script's arguments that its parser stops at, because no option has that name, with the
// option that may be meant; "" for both where there is none, or where the source does not surely show it: the program
// parses all of its arguments by argparse, unconditionally, and hands its parser to nothing that is not read.
func Refused(script string, args []string, roots ...string) (option, near string) {
	if !slices.ContainsFunc(args, optional) {
		return "", ""
	}
	r, l := readOptions(script, roots)
	names := []string{"-h", "--help"}
	for _, o := range l.Options {
		switch o.How {
		case Argparse:
			names = append(names, o.Names...)
		case ByConstants, ByFile:
		default:
			return "", ""
		}
	}
	if len(l.Unread) > 0 || l.Cut || !r.parsesAll() {
		return "", ""
	}
	for _, a := range args {
		if a == "--" {
			break
		}
		name, _, _ := strings.Cut(a, "=")
		if optional(a) && !takenBy(name, names) {
			if len(name) > 3 { // of two letters any is near to any
				near = config.Near(name, names)
			}
			return name, near
		}
	}
	return "", ""
}

// optional reports whether argparse takes an argument for an option: no value begins with a dash, but a number and
// what has a blank.
func optional(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && arg != "--" && !strings.Contains(arg, " ") &&
		!strings.ContainsRune(".0123456789", rune(arg[1]))
}

// takenBy reports whether one of the names takes an option as typed: shortened, or with its value behind one letter.
func takenBy(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		return strings.HasPrefix(n, name) || len(n) == 2 && n[1] != '-' && strings.HasPrefix(name, n)
	})
}

// parsesAll reports whether the program surely gives all its arguments to parsers whose options were all read.
func (r *reader) parsesAll() bool {
	for _, text := range r.texts {
		if slices.ContainsFunc(unsure, func(word string) bool { return strings.Contains(text, word) }) {
			return false
		}
	}
	parses, sure := 0, true
	for _, m := range r.order {
		parsers := r.parsers(m)
		r.each(m, func(c Call, at int) {
			on, method := cutLast(c.Name)
			args := m.Args(c.Open)
			own, _, _ := r.find(m, c.Name, 0)
			switch {
			case method == "parse_args" && own == nil:
				parses++
				sure = sure && len(args) == 0 && r.made(m, on) && r.always(m, at, 0)
			case method == "add_argument":
				sure = sure && len(args) > 0 && args[0].Name == "" && args[0].Stars == 0
			case slices.ContainsFunc(args, func(a Arg) bool { return slices.Contains(parsers, m.Of(a.Range)) }):
				sure = sure && own != nil
			}
		})
	}
	return sure && parses > 0
}

// parsers are the names by which a module adds options or parses.
func (r *reader) parsers(m *module) (names []string) {
	r.each(m, func(c Call, _ int) {
		on, method := cutLast(c.Name)
		if strings.HasPrefix(method, "add_argument") || method == "parse_args" {
			names = append(names, on)
		}
	})
	return names
}

// made reports whether every value of a name is a parser of argparse's own, or comes from the project.
func (r *reader) made(m *module, name string) bool {
	for _, i := range m.bound[name] {
		a, ok := m.Assigns(m.Statements[i])
		if !ok {
			return false
		}
		calls := m.Calls(a.Value)
		if len(calls) == 0 || calls[0].First != a.Value.First {
			return false
		}
		if in, _, ext := r.find(m, calls[0].Name, 0); in == nil && ext != "argparse.ArgumentParser" {
			return false
		}
	}
	return len(m.bound[name]) > 0
}

// always reports whether a statement runs whenever the program does: nothing but functions that always run, and the
// check for the main module, is around it.
func (r *reader) always(m *module, at, depth int) bool {
	for i := m.Statements[at].In; i >= 0; i = m.Statements[i].In {
		d, is := m.Definition(m.Statements[i])
		if !is && !mainGuard.MatchString(m.Of(m.Statements[i].Range)) || d.Class || depth > maxDepth {
			return false
		}
		if is && !r.calledAlways(m, i, depth+1) {
			return false
		}
	}
	return true
}

func (r *reader) calledAlways(of *module, definition, depth int) (is bool) {
	for _, m := range r.order {
		r.each(m, func(c Call, at int) {
			if is {
				return
			}
			in, i, _ := r.find(m, c.Name, 0)
			is = in == of && i == definition && r.always(m, at, depth)
		})
	}
	return is
}
