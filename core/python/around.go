package python

import "slices"

// FunctionAround is the innermost function in whose block a statement stands; -1 for the module's own.
func (x *Syntax) FunctionAround(statement int) int {
	for i := x.Statements[statement].In; i >= 0; i = x.Statements[i].In {
		if d, ok := x.Definition(x.Statements[i]); ok && !d.Class {
			return i
		}
	}
	return -1
}

// Parameters are the names of a function's parameters.
func (x *Syntax) Parameters(f int) (out []string) {
	d, _ := x.Definition(x.Statements[f])
	if d.Open < 0 {
		return nil
	}
	for _, p := range x.Args(d.Open) {
		if p.Name != "" {
			out = append(out, p.Name)
		} else {
			out = append(out, x.Token(p.First))
		}
	}
	return out
}

// A Binding is a name or attribute and what a statement assigns to it.
type Binding struct {
	Name  string // "" for a target with a subscript
	At    Range
	Value Range
}

// Bindings are what a statement assigns, also to several targets at once: "a, b = 1, 2". Of values that are not listed
// one by one, each target has all.
func (x *Syntax) Bindings(st Statement) (out []Binding) {
	eq := x.Find(st.Range, "=")
	if eq < 0 {
		return nil
	}
	if a, ok := x.Assigns(st); ok {
		return []Binding{{a.Name, Range{First: st.First, End: eq}, a.Value}}
	}
	left, right := x.listed(Range{First: st.First, End: eq}), x.listed(Range{First: eq + 1, End: st.End})
	if x.Find(Range{First: eq + 1, End: st.End}, "=") >= 0 { // a = b = 1
		return nil
	}
	whole := len(right) == 1 && (x.Is(right[0].First, "map") || x.Is(right[0].First, "("))
	for i, to := range left {
		switch {
		case len(left) == len(right):
			name, _ := x.Dotted(to)
			out = append(out, Binding{name, to, right[i]})
		case len(right) == 1 && !whole && len(x.Calls(right[0])) > 0:
			out = append(out, Binding{"", to, right[0]})
		}
	}
	return out
}

// listed are the parts of "a, b", with or without brackets around all of them.
func (x *Syntax) listed(r Range) (parts []Range) {
	if (x.Is(r.First, "(") || x.Is(r.First, "[")) && x.Tokens[r.First].Pair == r.End-1 {
		r = x.Inside(r.First)
	}
	for _, part := range x.Split(r, ",") {
		if !part.Empty() {
			parts = append(parts, part)
		}
	}
	return parts
}

// Loop is the innermost loop around a statement, within its function; -1 where there is none.
func (x *Syntax) Loop(statement int) int {
	for i := x.Statements[statement].In; i >= 0; i = x.Statements[i].In {
		st := x.Statements[i]
		if _, ok := x.Definition(st); ok {
			return -1
		}
		if x.Is(st.First, "for") || x.Is(st.First, "while") || x.Is(st.First, "async") {
			return i
		}
	}
	return -1
}

// DottedAt is the whole name that begins at a token.
func (x *Syntax) DottedAt(i, end int) (string, bool) {
	if x.Tokens[i].Kind != Word || x.Is(i-1, ".") {
		return "", false
	}
	to := i + 1
	for to+1 < end && x.Is(to, ".") && x.Tokens[to+1].Kind == Word {
		to += 2
	}
	return x.Of(Range{First: i, End: to}), true
}

// Words are the names in a range.
func (x *Syntax) Words(r Range) (out []string) {
	for i := r.First; i < r.End; i++ {
		if x.Tokens[i].Kind == Word {
			out = append(out, x.Token(i))
		}
	}
	return out
}

// HasName reports whether a range has one of the names, as a name or as a key: args.batch_size, cfg["batch_size"].
func (x *Syntax) HasName(r Range, of []string) bool {
	for i := r.First; i < r.End; i++ {
		text := x.Token(i)
		if x.Tokens[i].Kind == String {
			text, _ = Literal(text)
		}
		if slices.Contains(of, text) {
			return true
		}
	}
	return false
}

// FunctionText is the text of the innermost function around a statement; of a module's own statement only its text.
func (x *Syntax) FunctionText(statement int) string {
	if i := x.FunctionAround(statement); i >= 0 {
		_, to := x.Block(i)
		return x.Of(Range{First: x.Statements[i].First, End: x.Statements[to-1].End})
	}
	return x.Of(x.Statements[statement].Range)
}

// Outermost is the outermost definition around a statement; -1 where it is the module's own.
func (x *Syntax) Outermost(statement int) int {
	out := -1
	for i := statement; i >= 0; i = x.Statements[i].In {
		if _, ok := x.Definition(x.Statements[i]); ok {
			out = i
		}
	}
	return out
}
