package draft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/python"
)

// glob is a path as a glob: options and constants by their names, and what is computed as a star.
func (d *drafting) glob(f *file, e python.Range, at, depth int) (string, bool) {
	if e.Empty() || depth > 8 {
		return "", false
	}
	if f.Tokens[e.First].Pair == e.End-1 && f.Is(e.First, "(") {
		return d.glob(f, f.Inside(e.First), at, depth+1)
	}
	for _, op := range []string{"/", "+"} {
		parts := f.Split(e, op)
		if len(parts) < 2 {
			continue
		}
		var all []string
		for _, p := range parts {
			g, ok := d.glob(f, p, at, depth+1)
			if !ok {
				g = star(f.Of(p))
			}
			all = append(all, g)
		}
		return strings.Join(all, map[string]string{"/": "/"}[op]), true
	}
	if name, ok := f.Dotted(e); ok {
		return d.globName(f, name, at, depth)
	}
	if calls := f.Calls(e); len(calls) > 0 && calls[0].First == e.First && f.Tokens[calls[0].Open].Pair == e.End-1 {
		return d.globCall(f, calls[0], at, depth)
	}
	if f.Tokens[e.First].Kind != python.String {
		return "", false
	}
	var out strings.Builder
	for _, p := range f.pieces(e, 0) {
		if p.field == "" {
			out.WriteString(strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`).Replace(p.text))
			continue
		}
		g, ok := d.globText(f, p.field, at, depth+1)
		out.WriteString(cond(ok, g, star(p.field)))
	}
	return out.String(), true
}

func cond(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// globText is the path that an expression in a text stands for, where it is a name.
func (d *drafting) globText(f *file, field string, at, depth int) (string, bool) {
	inner := &file{Syntax: python.NewSource(f.Path, field).Syntax()}
	name, ok := inner.Dotted(python.Range{End: len(inner.Tokens)})
	if !ok {
		return "", false
	}
	return d.globName(f, name, at, depth)
}

// globCall is the path of os.path.join, Path and str.
func (d *drafting) globCall(f *file, c python.Call, at, depth int) (string, bool) {
	args := f.Args(c.Open)
	switch lastPart(c.Name) {
	case "join":
		var parts []string
		for _, a := range args {
			g, ok := d.glob(f, a.Range, at, depth+1)
			if !ok || a.Stars > 0 {
				g = star(f.Of(a.Range))
			}
			parts = append(parts, g)
		}
		return strings.Join(parts, "/"), len(parts) > 0
	case "format":
		name, _ := strings.CutSuffix(c.Name, ".format")
		if b := f.binding(name, at); b >= 0 {
			a, _ := f.Assigns(f.Statements[b])
			if text, ok := f.Str(a.Value); ok {
				var out strings.Builder
				for _, p := range f.format(text, args) {
					part, ok := d.globText(f, p.field, at, depth+1)
					out.WriteString(cond(p.field == "", p.text, cond(ok, part, star(p.field))))
				}
				return out.String(), true
			}
		}
	case "Path", "str", "abspath", "expanduser", "realpath", "PurePath":
		if len(args) == 1 {
			return d.glob(f, args[0].Range, at, depth+1)
		}
	}
	return "", false
}

// globName is the path that a name stands for: an option, a constant, a variable, a parameter's default.
func (d *drafting) globName(f *file, name string, at, depth int) (string, bool) {
	attribute := name
	if head, tail, dotted := strings.Cut(name, "."); dotted && head != "self" {
		attribute = tail
	} else if dotted {
		attribute = lastPart(name)
	}
	dotted := strings.Contains(name, ".")
	if !dotted {
		if b := f.binding(name, at); b >= 0 {
			if f.counts(name) {
				return "", false
			}
			a, _ := f.Assigns(f.Statements[b])
			if o, ok := d.option(name); ok && o.How == python.ByGlobals {
				return d.named(o), true
			}
			g, ok := d.glob(f, a.Value, b, depth+1)
			if !ok && star(name) == "*" && star(f.Of(a.Value)) != "*" { // tag = str(epoch)
				return star(f.Of(a.Value)), true
			}
			return g, ok
		}
		if g, ok := d.looped(f, name, at, depth); ok {
			return g, true
		}
		if g, ok := d.parameter(f, name, at, depth); ok {
			return g, true
		}
	}
	if o, ok := d.option(attribute); ok && (dotted || o.How == python.ByGlobals || o.How == python.Fire ||
		o.How == python.Click || o.How == python.ByConstants) {
		if o.How == python.ByConstants {
			return o.Default, o.Known
		}
		return d.named(o), true
	}
	if dotted && depth < 6 { // opt.save_dir = …
		return d.once(fmt.Sprint(".", lastPart(name), depth), func() (string, bool) {
			for _, g := range d.files {
				for i, s := range g.Statements {
					if a, ok := g.Assigns(s); ok && strings.HasSuffix(a.Name, "."+lastPart(name)) {
						if path, ok := d.glob(g, a.Value, i, depth+2); ok && strings.Trim(path, "*/") != "" {
							return path, true
						}
					}
				}
			}
			return "", false
		})
	}
	return "", false
}

// A globbed is the path that a name was found to stand for.
type globbed struct {
	path string
	ok   bool
}

// once looks for a path once: calls that hand on each other's parameters, such as those of forward, would have it
// looked for as often as there are ways from one to another.
func (d *drafting) once(what string, look func() (string, bool)) (string, bool) {
	if d.paths == nil {
		d.paths = map[string]globbed{}
	}
	if _, known := d.paths[what]; !known {
		path, ok := look()
		d.paths[what] = globbed{path, ok}
	}
	return d.paths[what].path, d.paths[what].ok
}

// callsOf are the calls in the whole project of what has that name.
func (d *drafting) callsOf(name string) []call {
	if d.everyCall == nil {
		d.everyCall = d.calling(func(*file, int) bool { return true })
	}
	return d.everyCall[name]
}

// calling are the calls in the statements that are wanted, by the last part of what they call.
func (d *drafting) calling(wanted func(f *file, statement int) bool) map[string][]call {
	calls := map[string][]call{}
	for _, f := range d.files {
		for i, s := range f.Statements {
			if wanted(f, i) {
				for _, c := range f.Calls(s.Range) {
					calls[lastPart(c.Name)] = append(calls[lastPart(c.Name)], call{f, i, c})
				}
			}
		}
	}
	return calls
}

// looped is the path that a loop's variable has: for path in [...].
func (d *drafting) looped(f *file, name string, at, depth int) (string, bool) {
	for i := f.Statements[at].In; i >= 0 && depth < 8; i = f.Statements[i].In {
		s := f.Statements[i]
		if !f.Is(s.First, "for") || !f.Is(s.First+1, name) || !f.Is(s.First+2, "in") || s.First+3 >= s.End {
			continue
		}
		list := python.Range{First: s.First + 3, End: s.First + 4}
		if f.Tokens[s.First+3].Kind == python.Word {
			b := f.binding(f.Token(s.First+3), i)
			if b < 0 {
				return "", false
			}
			a, _ := f.Assigns(f.Statements[b])
			list = a.Value
		}
		if f.Is(list.First, "[") {
			if all := f.Split(f.Inside(list.First), ","); len(all) > 0 {
				return d.glob(f, all[0], i, depth+1)
			}
		}
	}
	return "", false
}

// option is the option that the program reads by an attribute.
func (d *drafting) option(dest string) (python.Option, bool) {
	for _, o := range d.list.Options {
		if o.Dest == dest && len(o.Names) > 0 {
			return o, true
		}
	}
	return python.Option{}, false
}

// parameter is the path that a function's parameter has: by the one call in the file that gives it, else by its
// default.
func (d *drafting) parameter(f *file, name string, at, depth int) (string, bool) {
	header := f.function(at)
	if header < 0 {
		return "", false
	}
	def, _ := f.Definition(f.Statements[header])
	if def.Open < 0 {
		return "", false
	}
	position, fallback := -1, python.Range{}
	params := f.Args(def.Open)
	offset := 0
	for i, p := range params {
		if f.Is(p.First, "self") {
			offset = 1
		}
		own := p.Name
		if own == "" {
			own = f.Token(p.First)
			if eq := f.Find(p.Range, "="); eq >= 0 && own == name { // with an annotation
				fallback = python.Range{First: eq + 1, End: p.End}
			}
		} else if own == name {
			fallback = p.Range
		}
		if own == name {
			position = i
		}
	}
	if position < 0 {
		return "", false
	}
	return d.once(fmt.Sprint(f.Path, header, name, depth), func() (string, bool) {
		return d.passed(passing{f, def.Name, name, position - offset, header, fallback}, depth)
	})
}

// A passing is a parameter of a function, and where its calls give it.
type passing struct {
	f              *file
	function, name string
	position       int
	header         int
	fallback       python.Range
}

// passed is the path that the calls of a function give its parameter: of several the first that is no best state and
// can be read. What is given by a number is a number in all: its name as a word is another state. Where a dictionary
// may give it, its default is not what it has.
func (d *drafting) passed(p passing, depth int) (string, bool) {
	given, computed := false, ""
	for _, one := range d.callsOf(p.function) {
		g, c := one.f, one.call
		if depth > 6 || saves(c.Name) { // torch.save is not the project's save
			continue
		}
		args := g.Args(c.Open)
		a, ok := python.Keyword(args, p.name)
		if k := p.position; !ok && k >= 0 && k < len(args) && args[k].Name == "" && args[k].Stars == 0 {
			a, ok = args[k], true
		}
		if !ok && slices.ContainsFunc(args, func(a python.Arg) bool { return a.Stars == 2 }) { // train(**config)
			if o, ok := d.option(p.name); ok {
				return d.named(o), true
			}
			given, computed = true, cond(computed == "[0-9]*", computed, "*")
			continue
		}
		if !ok {
			continue
		}
		given = true
		switch path, ok := d.glob(g, a.Range, one.statement, depth+1); {
		case !ok && computed != "[0-9]*":
			computed = star(g.Of(a.Range))
		case ok && computed == "" && !final.MatchString(path):
			return path, true
		}
	}
	switch {
	case computed == "*":
		return "", false
	case given:
		return computed, computed != ""
	}
	return d.glob(p.f, p.fallback, p.header, depth+1)
}
