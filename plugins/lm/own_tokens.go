package lm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/python"
)

// An ownReader reads a script of one's own by its tokens.
type ownReader struct {
	*python.Syntax
	*literals
}

// only is the one call of a class that is imported from a library by its own name, and not used otherwise.
func (r *ownReader) only(class, library string) (c python.Call, err error) {
	if !r.imported(class, library) {
		return c, errOwn("%s is not imported from %s", class, library)
	}
	calls := r.calls(class)
	if len(calls) != 1 {
		return c, errOwn("%s is called %d times", class, len(calls))
	}
	if _, err := r.place(calls[0]); err != nil {
		return c, err
	}
	for _, use := range r.uses(class) {
		if use != calls[0].First && !r.imports(use) {
			return c, errOwn("%s is used otherwise in line %d", class, r.LineOf(use))
		}
	}
	return calls[0], nil
}

func (r *ownReader) calls(name string) (out []python.Call) {
	for _, c := range r.Calls(python.Range{First: 0, End: len(r.Tokens)}) {
		if c.Name == name {
			out = append(out, c)
		}
	}
	return out
}

// uses are the tokens that are that variable: no attribute, and no name of an argument.
func (r *ownReader) uses(name string) (out []int) {
	for i, t := range r.Tokens {
		if t.Kind != python.Word || r.Token(i) != name || r.Is(i-1, ".") {
			continue
		}
		if r.Is(i+1, "=") && (r.Is(i-1, "(") || r.Is(i-1, ",")) { // of an argument, or the last of a, b = 1, 2
			if s := r.statement(i); s >= 0 && r.Find(r.Statements[s].Range, "=") != i+1 {
				continue
			}
		}
		out = append(out, i)
	}
	return out
}

// statement is the statement that has a token.
func (r *ownReader) statement(token int) int {
	return slices.IndexFunc(r.Statements, func(s python.Statement) bool { return s.First <= token && token < s.End })
}

func (r *ownReader) imports(token int) bool {
	s := r.statement(token)
	return s >= 0 && (r.Is(r.Statements[s].First, "from") || r.Is(r.Statements[s].First, "import"))
}

// place is the function in which a call stands, as a path's beginning: one that runs once, so that it is in no loop and
// under no condition but that of the module being the program.
func (r *ownReader) place(c python.Call) (function string, err error) {
	for s := r.statement(c.First); s >= 0; s = r.Statements[s].In {
		header := r.Statements[s]
		switch first := r.Token(header.First); first {
		case "def":
			d, _ := r.Definition(header)
			if function != "" {
				return "", errOwn("%s stands in a function of another function", c.Name)
			}
			function = config.JoinPath(d.Name+"()") + "."
		case "if":
			if s != r.statement(c.First) && strings.Contains(r.Of(header.Range), "__name__") {
				continue
			}
			return "", errOwn("%s stands under a condition", c.Name)
		case "for", "while", "async", "class", "match", "try", "except", "else", "elif", "finally", "lambda", "return":
			return "", errOwn("%s stands in a block of %q", c.Name, first)
		}
	}
	return function, nil
}

// value is a literal as the settings have it: a text, a number, "true", "false" or "None", or the one switch of a
// dictionary.
func (r *ownReader) value(at python.Range) (string, bool) {
	if text, ok := r.Str(at); ok {
		return text, true
	}
	switch n := at.End - at.First; {
	case n == 1 && r.Is(at.First, "None"):
		return "None", true
	case n == 1 && (r.Is(at.First, "True") || r.Is(at.First, "False")):
		return strings.ToLower(r.Token(at.First)), true
	case n == 1 && r.Tokens[at.First].Kind == python.Number:
		return strings.ReplaceAll(r.Token(at.First), "_", ""), true
	case n == 5 && r.Is(at.First, "{") && r.Is(at.First+2, ":"):
		name, ok := r.Str(python.Range{First: at.First + 1, End: at.First + 2})
		on, is := r.value(python.Range{First: at.First + 3, End: at.First + 4})
		return fmt.Sprintf("{%q: %s}", name, on), ok && is && (on == "true" || on == "false")
	}
	return "", false
}

// passed reports why an argument of the trainer is not what a call has made: the call itself, or a variable that has
// nothing else, and that nothing else is done with.
func (r *ownReader) passed(value python.Range, made python.Call, allowed ...string) error {
	if value.Empty() {
		return errOwn("the trainer is not given what %s makes", made.Name)
	}
	if r.exactly(value, made) {
		return nil
	}
	if value.End != value.First+1 || r.Tokens[value.First].Kind != python.Word {
		return errOwn("%s is not understood", r.Of(value))
	}
	name, target := r.Token(value.First), -1
	if a, ok := r.Assigns(r.Statements[r.statement(made.First)]); ok && a.Name == name && r.exactly(a.Value, made) {
		target = r.Statements[r.statement(made.First)].First
	}
	if target < 0 {
		return errOwn("%s is not what %s makes", name, made.Name)
	}
	for _, use := range r.uses(name) {
		read := r.Is(use+1, ".") && slices.Contains(allowed, r.Token(use+2)) && !r.Is(use+3, "=")
		if use != target && use != value.First && !read {
			return errOwn("%s is used otherwise in line %d", name, r.LineOf(use))
		}
	}
	return nil
}

// exactly reports whether a value is a call, and nothing that is done with what it makes.
func (r *ownReader) exactly(value python.Range, made python.Call) bool {
	return value.First == made.First && value.End == r.Tokens[made.Open].Pair+1
}

// bindings are the statements that give a name a value, in whatever way, wherever they stand.
func (r *ownReader) bindings(name string) (all []int) {
	for s, statement := range r.Statements {
		if slices.Contains(r.Binds(statement), name) {
			all = append(all, s)
		}
	}
	return all
}

// imported reports whether a name is that of a library, and nothing else anywhere in the script.
func (r *ownReader) imported(name, library string) bool {
	all := r.bindings(name)
	for _, s := range all {
		if !slices.ContainsFunc(r.importsOf(s), func(im python.Import) bool {
			return ofLibrary(im.Module, library) && slices.Contains(im.Names, python.Imported{Name: name, As: name})
		}) {
			return false
		}
	}
	return len(all) > 0
}

// importsOf are the imports of a statement; none where it is another one.
func (r *ownReader) importsOf(s int) []python.Import {
	if !r.imports(r.Statements[s].First) {
		return nil
	}
	return python.NewSource("", r.Of(r.Statements[s].Range)).Imports()
}

// ofLibrary reports whether a module is a library or a part of it.
func ofLibrary(module, library string) bool {
	return module == library || strings.HasPrefix(module, library+".")
}

// constant is the literal that a variable has: one that is assigned once, outside blocks that may not run.
func (r *ownReader) constant(at python.Range) (value string, ok bool) {
	if at.End != at.First+1 || r.Tokens[at.First].Kind != python.Word || len(r.bindings(r.Token(at.First))) != 1 {
		return "", false
	}
	for _, use := range r.uses(r.Token(at.First)) {
		s := r.statement(use)
		if s < 0 {
			return "", false
		}
		statement := r.Statements[s]
		if d, is := r.Definition(statement); is && d.Open >= 0 && use > d.Open && use < r.Tokens[d.Open].Pair {
			return "", false // a parameter, or a default
		}
		if slices.Contains([]string{"for", "as", "global", "nonlocal", "del", "import", "lambda"}, r.Token(use-1)) ||
			r.Is(use+1, ":=") || slices.Contains([]string{"from", "for", "with"}, r.Token(statement.First)) {
			return "", false
		}
		assigned := r.Find(statement.Range, "=")
		augmented := slices.ContainsFunc([]string{"+=", "-=", "*=", "/=", "//=", "%="}, func(op string) bool {
			return r.Is(use+1, op)
		})
		switch {
		case augmented:
			return "", false
		case assigned < 0 || use > assigned:
			continue
		}
		a, is := r.Assigns(statement)
		text, literal := r.value(a.Value)
		if !is || ok || !literal || a.Name != r.Token(at.First) {
			return "", false
		}
		if _, err := r.place(python.Call{Name: a.Name, First: statement.First}); err != nil {
			return "", false
		}
		value, ok = text, true
	}
	return value, ok
}

// text is a literal text, or a variable that is one.
func (r *ownReader) text(at python.Range) (string, bool) {
	if text, ok := r.Str(at); ok {
		return text, true
	}
	return r.constant(at)
}

// list is a list of texts.
func (r *ownReader) list(at python.Range) (out []string, ok bool) {
	if at.Empty() || !r.Is(at.First, "[") || r.Tokens[at.First].Pair != at.End-1 {
		return nil, false
	}
	for _, part := range r.Split(r.Inside(at.First), ",") {
		text, is := r.Str(part)
		if !is {
			return nil, false
		}
		out = append(out, text)
	}
	return out, len(out) > 0
}

// decorated reports whether a decorator makes something else of what a statement defines.
func (r *ownReader) decorated(s int) bool { return s > 0 && r.Is(r.Statements[s-1].First, "@") }
