package python

import (
	"slices"
	"strings"
)

// Binds lists the names and attributes ("a.b") to which a statement gives a value or of which it takes it, in whatever
// way: by an assignment to one or several ("a = b = 1", "a, b = 1, 2", "a += 1", "a := 1"), an import ("*" for all of
// a module), a definition, a loop, "with", "except", "del", "global". [Syntax.Assigns] is only the first of these. Of a
// header the body on its line is read, too. Where that is not clear, a name is listed.
func (x *Syntax) Binds(s Statement) (names []string) {
	r := s.Range
	if x.Is(r.First, "async") {
		r.First++
	}
	for i := r.First + 1; i < r.End; i++ {
		if x.Is(i, ":=") && x.Tokens[i-1].Kind == Word {
			names = append(names, x.Token(i-1))
		}
	}
	if d, ok := x.Definition(s); ok {
		return append(names, d.Name)
	}
	switch x.Token(r.First) {
	case "import", "from":
		return append(names, x.importedBy(r)...)
	case "del", "global", "nonlocal":
		return append(names, x.targets(Range{r.First + 1, r.End})...)
	case "for":
		names = append(names, x.targets(Range{r.First + 1, max(x.Find(r, "in"), r.First+1)})...)
	case "with", "except":
		for i := r.First; i+1 < r.End; i++ {
			if x.Is(i, "as") {
				names = append(names, x.targets(Range{i + 1, max(i+2, x.Tokens[i+1].Pair+1)})...)
			}
		}
	case "case": // a pattern's names, or an assignment to a variable of that name, as with "match"
		names = append(append(names, x.assigned(r)...), x.targets(Range{r.First + 1, r.End})...)
	case "match":
		names = append(names, x.assigned(r)...)
	case "if", "elif", "else", "while", "try", "finally":
	default:
		return append(names, x.assigned(r)...)
	}
	for colon := x.Find(r, ":"); colon >= 0; colon = x.Find(Range{colon + 1, r.End}, ":") {
		names = append(names, x.assigned(Range{colon + 1, r.End})...)
	}
	return names
}

// Rebinds reports whether a statement gives a name another value than by an assignment to it alone.
func (x *Syntax) Rebinds(s Statement, name string) bool {
	if a, ok := x.Assigns(s); ok && a.Name == name {
		return false
	}
	return slices.Contains(x.Binds(s), name)
}

// assigned are the targets of an assignment.
func (x *Syntax) assigned(r Range) (names []string) {
	if lambda := x.Find(r, "lambda"); lambda >= 0 {
		r.End = lambda
	}
	first := r.First
	for i := r.First; i < r.End; i++ {
		op := x.Token(i)
		switch {
		case x.Tokens[i].Pair > i:
			i = x.Tokens[i].Pair
		case x.Tokens[i].Kind != Op || !strings.HasSuffix(op, "=") ||
			slices.Contains([]string{"==", "!=", "<=", ">=", ":="}, op):
		default:
			target := Range{first, i}
			if colon := x.Find(target, ":"); colon >= 0 { // of an annotation
				target.End = colon
			}
			names = append(names, x.targets(target)...)
			first = i + 1
		}
	}
	return names
}

// targets are the names in what is assigned to: "a, (b.c, *d)". What has a subscript binds no name.
func (x *Syntax) targets(r Range) (names []string) {
	for i := r.First; i < r.End; i++ {
		if x.Tokens[i].Kind != Word {
			continue
		}
		name, end := x.Token(i), i+1
		for end+1 < r.End && x.Is(end, ".") && x.Tokens[end+1].Kind == Word {
			name += "." + x.Token(end+1)
			end += 2
		}
		subscript := false
		for end < r.End && (x.Is(end, "[") || x.Is(end, "(")) && x.Tokens[end].Pair > end {
			subscript, end = true, x.Tokens[end].Pair+1
		}
		if !subscript && !x.Is(i-1, ".") {
			names = append(names, name)
		}
		i = end - 1
	}
	return names
}

// importedBy are the names that an import binds.
func (x *Syntax) importedBy(r Range) (names []string) {
	from := x.Is(r.First, "from")
	if from {
		if r.First = x.Find(r, "import"); r.First < 0 {
			return nil
		}
	}
	r.First++
	if x.Is(r.First, "(") {
		r = x.Inside(r.First)
	}
	for _, part := range x.Split(r, ",") {
		switch {
		case part.Empty():
		case from || part.End-2 > part.First && x.Is(part.End-2, "as"):
			names = append(names, x.Token(part.End-1))
		default:
			names = append(names, x.Token(part.First))
		}
	}
	return names
}
