package python

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// A field is one of a dataclass, or a parameter of a function.
type field struct {
	Option
	nested *class // the dataclass that it holds
	flat   string // its name without a prefix
}

// A class is a dataclass or a function of a module, by its statement.
type class struct {
	m         *module
	statement int
}

// dataclasses reads the classes from which command lines are made.
func (r *reader) dataclasses() {
	for _, m := range r.order {
		r.each(m, func(c Call, at int) {
			args := m.Args(c.Open)
			_, name := cutLast(c.Name)
			switch {
			case strings.HasSuffix(name, "ArgumentParser") && name != "ArgumentParser" || name == "TrlParser":
				for _, n := range r.classes(m, args, at, "dataclass_types") {
					r.emit(m, n, HF, "")
				}
			case c.Name == "tyro.cli" || c.Name == "cli" && strings.HasPrefix(m.imported["cli"].module, "tyro"):
				for _, n := range r.classes(m, args, at, "f") {
					r.emit(m, n, Tyro, "")
				}
			case name == "overridable_config_cli" || name == "subcommand_cli_from_dict" ||
				strings.HasPrefix(name, "subcommand_type_from_defaults"): // {"default": ("…", Config())}
				for _, n := range r.instances(m, args, at) {
					r.emit(m, n, Tyro, "")
				}
			case name == "add_arguments" || c.Name == "simple_parsing.parse" || c.Name == "pyrallis.parse" ||
				name == "parse" && strings.HasPrefix(m.imported[name].module, "simple_parsing"):
				for _, n := range r.classes(m, args, at, "config_class") {
					r.emit(m, n, Dataclass, "")
				}
			case c.Name == "OmegaConf.structured":
				for _, n := range r.classes(m, args, at, "obj") {
					r.emit(m, n, Hydra, "")
				}
			}
		})
		r.wrapped(m)
	}
}

// wrapped reads functions under @pyrallis.wrap() and its likes: their parameter's class is the command line; and
// classes of Tap.
func (r *reader) wrapped(m *module) {
	for i, s := range m.Statements {
		if !m.live[i] {
			continue
		}
		if d, ok := m.Definition(s); ok && d.Class && d.Open >= 0 &&
			slices.ContainsFunc(m.Args(d.Open), func(a Arg) bool {
				_, name := cutLast(m.Of(a.Range))
				return name == "Tap" || name == "TypedArgs"
			}) {
			r.emit(m, d.Name, Dataclass, "")
		}
		if !m.Is(s.First, "@") || !strings.HasSuffix(m.Of(s.Range), ".wrap()") {
			continue
		}
		def := i + 1
		for def < len(m.Statements)-1 && m.Is(m.Statements[def].First, "@") {
			def++
		}
		if def == len(m.Statements) {
			continue
		}
		d, ok := m.Definition(m.Statements[def])
		if !ok || d.Open < 0 {
			continue
		}
		for _, p := range m.Split(m.Inside(d.Open), ",")[:min(1, len(m.Split(m.Inside(d.Open), ",")))] {
			if colon := m.Find(p, ":"); colon >= 0 {
				r.emit(m, m.Of(Range{First: colon + 1, End: p.End}), Dataclass, "")
			}
		}
	}
}

// classes are the names of classes in a call's first argument, or in the keyword of that name.
func (r *reader) classes(m *module, args []Arg, at int, keyword string) (names []string) {
	var e Range
	if a, ok := Keyword(args, keyword); ok {
		e = a.Range
	} else if len(args) > 0 && args[0].Name == "" {
		e = args[0].Range
	}
	return r.classNames(m, e, at, 0)
}

// instances are the names of classes and functions in the dictionary that a call is given: tyro's subcommands.
func (r *reader) instances(m *module, args []Arg, at int) (names []string) {
	if len(args) == 0 {
		return nil
	}
	e := args[0].Range
	if name, ok := m.Dotted(e); ok {
		if b, ok := m.binding(name, at); ok {
			if a, ok := m.Assigns(m.Statements[b]); ok && a.Name == name {
				e = a.Value
			}
		}
	}
	for t := e.First; t < e.End; t++ {
		if m.Tokens[t].Kind != Word || m.Is(t-1, ".") {
			continue
		}
		end := t + 1
		for end+1 < e.End && m.Is(end, ".") {
			end += 2
		}
		name := m.Of(Range{First: t, End: end})
		if in, _, _ := r.find(m, name, 0); in != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (r *reader) classNames(m *module, e Range, at, depth int) (names []string) {
	if e.Empty() || depth > 3 {
		return nil
	}
	if m.Tokens[e.First].Pair == e.End-1 && !m.Is(e.First, "{") {
		for _, part := range m.Split(m.Inside(e.First), ",") {
			names = append(names, r.classNames(m, part, at, depth+1)...)
		}
		return names
	}
	name, ok := m.Dotted(e)
	if !ok {
		return nil
	}
	if b, ok := m.binding(name, at); ok {
		if a, ok := m.Assigns(m.Statements[b]); ok && a.Name == name {
			return r.classNames(m, a.Value, b, depth+1)
		}
	}
	return []string{name}
}

// emit adds the options of a class, or of a function's parameters, by its name in a module.
func (r *reader) emit(m *module, name string, how How, prefix string) {
	if in, at, ext := r.find(m, strings.Trim(name, `"' `), 0); in != nil {
		for _, f := range r.fieldsOf(in, at, how, 0) {
			r.emitField(f, how, prefix, 0)
		}
	} else if fields := recorded(ext); fields != nil {
		for _, f := range fields {
			r.emitField(f, how, prefix, 0)
		}
	} else if ext != "" {
		r.leftOut(m, 0, "options of %s", ext)
	}
}

func (r *reader) emitField(f field, how How, prefix string, depth int) {
	if f.nested != nil && depth < maxDepth && how != HF {
		for _, g := range r.fieldsOf(f.nested.m, f.nested.statement, how, 0) {
			r.emitField(g, how, prefix+f.flat+".", depth+1)
		}
		return
	}
	o := f.Option
	o.How, o.Dest = how, prefix+f.flat
	dashed := strings.ReplaceAll(o.Dest, "_", "-")
	switch how {
	case HF:
		o.Names = []string{"--" + f.flat}
		if dashed != o.Dest {
			o.Names = append(o.Names, "--"+dashed)
		}
		if isBool(o.Type) {
			o.Takes = config.Maybe
			if o.Default == "True" {
				o.Names = append(o.Names, "--no_"+f.flat, "--no-"+dashed)
			}
		}
	case Tyro:
		o.Names = []string{"--" + dashed}
		if isBool(o.Type) {
			before, last := cutLast(dashed)
			o.Names = append(o.Names, "--"+cond(before == "", "", before+".")+"no-"+last)
			o.Takes = config.None
		}
	case Hydra:
		o.Names = []string{o.Dest}
	default:
		o.Names = []string{"--" + o.Dest}
		if o.Dest != f.flat {
			o.Names = append(o.Names, "--"+f.flat)
		}
		if isBool(o.Type) {
			o.Takes = config.Maybe
		}
	}
	r.add(o)
}

func isBool(annotation string) bool {
	words := strings.FieldsFunc(annotation, func(c rune) bool { return strings.ContainsRune("[]|, ", c) })
	return slices.Contains(words, "bool")
}

// fieldsOf are the fields of a class, those of its bases first, or the parameters of a function.
func (r *reader) fieldsOf(m *module, statement int, how How, depth int) (out []field) {
	d, ok := m.Definition(m.Statements[statement])
	if !ok || depth > maxDepth {
		return nil
	}
	if !d.Class {
		return r.parameters(m, d, statement)
	}
	if d.Open >= 0 {
		for _, base := range m.Args(d.Open) {
			if base.Name != "" {
				continue
			}
			name := m.Of(base.Range)
			if in, at, ext := r.find(m, name, 0); in != nil && (in != m || at != statement) {
				out = append(out, r.fieldsOf(in, at, how, depth+1)...)
			} else if in == nil && ext != "" {
				fields := recorded(ext)
				if fields == nil && !plain(ext) {
					r.leftOut(m, base.First, "options of %s", ext)
				}
				out = append(out, fields...)
			}
		}
	}
	from, to := m.Block(statement)
	for i := from; i < to; i++ {
		for k := range out { // a = b = 1
			if m.Statements[i].In == statement && m.Rebinds(m.Statements[i], out[k].flat) {
				out[k].Default, out[k].Known = "", false
			}
		}
		a, ok := m.Assigns(m.Statements[i])
		if !ok || m.Statements[i].In != statement || strings.Contains(a.Name, ".") ||
			strings.Contains(m.Of(a.Annotation), "ClassVar") {
			continue
		}
		f := field{flat: a.Name}
		f.Path, f.Line, f.Type = m.Path, m.LineOf(m.Statements[i].First), strings.Trim(m.Of(a.Annotation), `"'`)
		k := slices.IndexFunc(out, func(o field) bool { return o.flat == a.Name })
		if a.Annotation.Empty() {
			if k < 0 { // a constant of the class
				continue
			}
			f.Type = out[k].Type
		}
		r.fieldDefault(m, &f, a.Value, i)
		if f.nested == nil && f.Type != "" {
			r.nest(m, &f, f.Type)
		}
		if k >= 0 {
			out[k] = f
		} else {
			out = append(out, f)
		}
	}
	return out
}

// plain reports whether a base class of a library declares no options.
func plain(ext string) bool {
	_, name := cutLast(ext)
	return slices.Contains([]string{"object", "ABC", "Protocol", "Generic", "BaseModel", "NamedTuple", "TypedDict",
		"Tap", "Serializable",
		"FrozenSerializable"}, name)
}

// nest notes the dataclass of the project that a field holds.
func (r *reader) nest(m *module, f *field, annotation string) {
	if len(f.Default) > 0 && f.Known {
		return
	}
	name := strings.TrimSpace(annotation)
	if in, at, _ := r.find(m, name, 0); in != nil {
		d, _ := in.Definition(in.Statements[at])
		if d.Class && at > 0 && strings.Contains(in.Of(in.Statements[at-1].Range), "dataclass") {
			f.nested = &class{in, at}
		}
	}
}

// fieldDefault reads a field's value: a literal, or a call of field() and its likes.
func (r *reader) fieldDefault(m *module, f *field, e Range, at int) {
	if strings.HasPrefix(f.Type, "Literal[") || strings.Contains(f.Type, "[Literal[") {
		inner := f.Type[strings.Index(f.Type, "Literal[")+8:]
		inner, _, _ = strings.Cut(inner, "]")
		for c := range strings.SplitSeq(inner, ",") {
			text, quoted := Unquote(strings.TrimSpace(c))
			if quoted {
				f.Choices = append(f.Choices, text)
			}
		}
	}
	if e.Empty() {
		return
	}
	f.Default, f.Known = r.value(m, e, at)
	calls := m.Calls(e)
	if f.Known || len(calls) == 0 || calls[0].First != e.First {
		return
	}
	_, name := cutLast(calls[0].Name)
	if !slices.Contains([]string{"field", "Field", "HfArg", "attrib", "ib", "arg", "mutable_field", "choice",
		"Option", "Argument"}, name) {
		if m.Inside(calls[0].Open).Empty() {
			r.nest(m, f, calls[0].Name)
		}
		return
	}
	args := m.Args(calls[0].Open)
	if a, ok := Keyword(args, "default"); ok {
		f.Default, f.Known = r.value(m, a.Range, at)
	} else if a, ok := Keyword(args, "default_factory"); ok {
		r.factory(m, f, a.Range, at)
	} else if len(args) > 0 && args[0].Name == "" && args[0].Stars == 0 && m.Of(args[0].Range) != "..." {
		f.Default, f.Known = r.value(m, args[0].Range, at)
	}
	for _, key := range []string{"help", "description", "doc"} {
		if a, ok := Keyword(args, key); ok {
			f.Help, _ = m.Str(a.Range)
		}
	}
	if a, ok := Keyword(args, "metadata"); ok && m.Is(a.First, "{") {
		for _, entry := range m.Split(m.Inside(a.First), ",") {
			if colon := m.Find(entry, ":"); colon >= 0 && strings.Trim(m.Of(Range{First: entry.First,
				End: colon}), `"'`) == "help" {
				f.Help, _ = m.Str(Range{First: colon + 1, End: entry.End})
			}
		}
	}
	f.Help = strings.Join(strings.Fields(f.Help), " ")
}

func (r *reader) factory(m *module, f *field, e Range, at int) {
	switch name := m.Of(e); {
	case name == "list":
		f.Default, f.Known = "[]", true
	case name == "dict":
		f.Default, f.Known = "{}", true
	case m.Is(e.First, "lambda"):
		if colon := m.Find(e, ":"); colon >= 0 {
			f.Default, f.Known = r.value(m, Range{First: colon + 1, End: e.End}, at)
		}
	default:
		r.nest(m, f, name)
	}
}

// parameters are those of a function, as fire and tyro make options of them.
func (r *reader) parameters(m *module, d Definition, statement int) (out []field) {
	if d.Open < 0 {
		return nil
	}
	for _, p := range m.Split(m.Inside(d.Open), ",") {
		f := field{}
		f.Path, f.Line = m.Path, m.LineOf(p.First)
		name, value := p, Range{}
		if eq := m.Find(p, "="); eq >= 0 {
			name, value = Range{First: p.First, End: eq}, Range{First: eq + 1, End: p.End}
		}
		if colon := m.Find(name, ":"); colon >= 0 {
			f.Type = m.Of(Range{First: colon + 1, End: name.End})
			name.End = colon
		}
		f.flat = m.Of(name)
		if name.End-name.First != 1 || f.flat == "self" || f.flat == "cls" || f.flat == "*" || f.flat == "/" {
			continue
		}
		if !value.Empty() {
			r.fieldDefault(m, &f, value, statement)
		}
		if f.nested == nil && value.Empty() {
			r.nest(m, &f, f.Type)
		}
		out = append(out, f)
	}
	return out
}
