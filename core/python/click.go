package python

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// click reads @click.option, and typer's parameters.
func (r *reader) click(m *module) {
	isClick := strings.Contains(m.Code, "click")
	isTyper := strings.Contains(m.Code, "typer")
	if !isClick && !isTyper {
		return
	}
	r.each(m, func(c Call, at int) {
		_, method := cutLast(c.Name)
		external := c.Name == "click.option" || method == "option" && c.Name == "option"
		if external && isClick && (m.Is(c.First-1, "@") || c.Name == "click.option") {
			r.clickOption(m, c, at)
		}
		if c.Name == "typer.run" {
			for _, n := range r.classes(m, m.Args(c.Open), at, "function") {
				r.typer(m, n)
			}
		}
	})
	if !isTyper {
		return
	}
	for i, s := range m.Statements {
		if !m.live[i] || !m.Is(s.First, "@") || !strings.Contains(m.Of(s.Range), ".command(") &&
			!strings.Contains(m.Of(s.Range), ".callback(") {
			continue
		}
		for j := i + 1; j < len(m.Statements); j++ {
			if d, ok := m.Definition(m.Statements[j]); ok {
				r.typer(m, d.Name)
				break
			}
			if !m.Is(m.Statements[j].First, "@") {
				break
			}
		}
	}
}

func (r *reader) clickOption(m *module, c Call, at int) {
	o := Option{Path: m.Path, Line: m.LineOf(c.First), How: Click}
	args := m.Args(c.Open)
	starred := false
	for _, a := range args {
		starred = starred || a.Stars > 0
		if a.Name != "" || a.Stars > 0 {
			continue
		}
		s, ok := m.Str(a.Range)
		switch {
		case !ok:
			r.leftOut(m, c.First, "an option with a computed name")
			return
		case !strings.HasPrefix(s, "-"):
			o.Dest = s
		default:
			for name := range strings.SplitSeq(s, "/") { // --shout/--no-shout
				o.Names = append(o.Names, strings.TrimSpace(name))
			}
			if strings.Contains(s, "/") {
				o.Takes = config.None
			}
		}
	}
	if len(o.Names) == 0 {
		return
	}
	if o.Dest == "" {
		o.Dest = destOf(o.Names)
	}
	r.details(m, &o, args, at)
	flag := false
	for _, name := range []string{"is_flag", "count"} {
		if a, ok := Keyword(args, name); ok && m.Of(a.Range) == "True" {
			o.Takes, flag = config.None, true
		}
	}
	o.Default, o.Known = cond(flag || o.Takes == config.None, "False", "None"), !starred
	if a, ok := Keyword(args, "default"); ok {
		o.Default, o.Known = r.value(m, a.Range, at)
	}
	r.add(o)
}

// typer reads the parameters of a function as typer makes options of them.
func (r *reader) typer(m *module, name string) {
	in, at, _ := r.find(m, name, 0)
	if in == nil {
		return
	}
	for _, f := range r.fieldsOf(in, at, Click, 0) {
		o := f.Option
		o.How, o.Dest = Click, f.flat
		o.Names = []string{"--" + strings.ReplaceAll(f.flat, "_", "-")}
		if given := typerNames(in, in.Statements[at], f.flat); len(given) > 0 {
			o.Names = given
		}
		if isBool(o.Type) {
			o.Takes = config.None
		}
		if slices.ContainsFunc(r.out, func(p Option) bool {
			return p.Path == o.Path && p.Line == o.Line &&
				p.Dest == o.Dest
		}) {
			continue
		}
		r.add(o)
	}
}

// typerNames are the names that typer.Option gives to a parameter.
func typerNames(m *module, s Statement, parameter string) (names []string) {
	for _, c := range m.Calls(s.Range) {
		if !strings.HasSuffix(c.Name, "Option") || c.First < 2 {
			continue
		}
		first := c.First
		for first > s.First && !m.Is(first, ",") && !m.Is(first, "(") {
			first--
		}
		if !m.Is(first+1, parameter) && !m.Is(first+2, parameter) {
			continue
		}
		for _, a := range m.Args(c.Open) {
			if text, ok := m.Str(a.Range); ok && a.Name == "" && strings.HasPrefix(text, "-") {
				names = append(names, strings.Split(text, "/")...)
			}
		}
	}
	return names
}

// absl reads flags.DEFINE_integer and its likes.
func (r *reader) absl(m *module) {
	if !strings.Contains(m.Code, "DEFINE_") {
		return
	}
	r.each(m, func(c Call, at int) {
		_, method := cutLast(c.Name)
		kind, ok := strings.CutPrefix(method, "DEFINE_")
		args := m.Args(c.Open)
		if !ok || len(args) < 2 {
			return
		}
		name, ok := m.Str(args[0].Range)
		if !ok {
			r.leftOut(m, c.First, "an option with a computed name")
			return
		}
		o := Option{Names: []string{"--" + name, "-" + name}, Dest: name, Type: kind, Path: m.Path,
			Line: m.LineOf(c.First), How: Absl}
		if kind == "boolean" || kind == "bool" {
			o.Names, o.Takes = append(o.Names, "--no"+name), config.None
		}
		def := args[1]
		if a, ok := Keyword(args, "default"); ok {
			def = a
		}
		o.Default, o.Known = r.value(m, def.Range, at)
		if kind == "enum" && len(args) > 2 && m.Tokens[args[2].First].Pair == args[2].End-1 {
			for _, c := range m.Split(m.Inside(args[2].First), ",") {
				if s, ok := m.Str(c); ok {
					o.Choices = append(o.Choices, s)
				}
			}
		}
		r.add(o)
	})
}

// fire reads fire.Fire(f): the parameters of a function, of a class and its methods, or of all functions of the script.
func (r *reader) fire(m *module) {
	r.each(m, func(c Call, at int) {
		cli := c.Name == "CLI" || c.Name == "auto_cli" || strings.HasPrefix(c.Name, "jsonargparse.")
		if c.Name != "fire.Fire" && c.Name != "Fire" && !(cli && strings.Contains(m.Code, "jsonargparse")) {
			return
		}
		names := r.classes(m, m.Args(c.Open), at, "component")
		if len(names) == 0 {
			for name, i := range m.defined {
				if d, _ := m.Definition(m.Statements[i]); !d.Class {
					names = append(names, name)
				}
			}
			slices.Sort(names)
		}
		for _, name := range names {
			in, i, ext := r.find(m, name, 0)
			if in == nil {
				if ext != "" {
					r.leftOut(m, c.First, "options of %s", ext)
				}
				continue
			}
			r.callable(in, i)
		}
	})
}

// callable adds the parameters of a function, or of a class's __init__ and methods.
func (r *reader) callable(m *module, statement int) {
	d, _ := m.Definition(m.Statements[statement])
	if !d.Class {
		for _, f := range r.parameters(m, d, statement) {
			f.Names, f.Dest, f.How = []string{"--" + f.flat}, f.flat, Fire
			if len(f.flat) == 1 {
				f.Names = append(f.Names, "-"+f.flat)
			}
			r.add(f.Option)
		}
		return
	}
	from, to := m.Block(statement)
	for i := from; i < to; i++ {
		if d, ok := m.Definition(m.Statements[i]); ok && !d.Class && m.Statements[i].In == statement &&
			(d.Name == "__init__" || d.Name[0] != '_') {
			r.callable(m, i)
		}
	}
}
