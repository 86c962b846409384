package declared

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

var (
	rate = lazy.MustCompile(`(?i)(^|_)lr($|_)|^(init|base|max|peak|abs|new)?lr$|learning_?rate`)
	// sized are calls by which the samples of a pass stay what they are, but for their unit.
	sized = lazy.MustCompile(`(?i)^(int|float|max|min|round|sqrt|pow)$|` +
		`world_size|num_(processes|gpus|replicas)|device_count`)
)

// rates finds a learning rate that follows from the samples of a pass, and not from those of a step: with the
// accumulation beside them it stays. micro are the names of the samples of a pass.
func (s *splitReader) rates(x *python.Syntax, micro []string) {
	if !slices.ContainsFunc(micro, x.Names) {
		return
	}
	computed := grown{x: x, roots: micro}
	for more := true; more; {
		more = false
		for i, st := range x.Statements {
			seen := computed.seen(i)
			for _, g := range x.Bindings(st) {
				last := g.Name[strings.LastIndexByte(g.Name, '.')+1:]
				if last != "" && !slices.Contains(seen, last) && !rate.MatchName(last) && s.pass(x, g.Value, seen) &&
					s.arithmetic(x, g.Value) && !s.accumulatedLater(x, last) {
					computed.add(g.Name, i)
					more = true
				}
			}
		}
	}
	for i, st := range x.Statements {
		s.follow(x, i, st, computed.seen(i))
		for _, v := range rateValues(x, st) {
			if seen := computed.seen(i); s.pass(x, v, seen) || s.chosen(x, i, v, seen) {
				s.add(x, i, v.First, ladder.Recipe, "the learning rate follows the micro-batch")
			}
		}
	}
}

// grown are the names that a file computes of some settings, each where it holds: a name that a function assigns says
// nothing of the same name in another function.
type grown struct {
	x     *python.Syntax
	roots []string // hold everywhere
	local []local
}

type local struct {
	name string
	in   int // the function that assigns it; -1 where it holds everywhere
}

// add adds a name that a statement assigns. An attribute holds everywhere.
func (g *grown) add(name string, statement int) {
	dot := strings.LastIndexByte(name, '.')
	l := local{name[dot+1:], -1}
	if dot < 0 {
		l.in = g.x.FunctionAround(statement)
	}
	g.local = append(g.local, l)
}

// seen are the names that hold at a statement: also those that a function around it takes as a parameter.
func (g *grown) seen(statement int) []string {
	out := slices.Clone(g.roots)
	for _, l := range g.local {
		holds := l.in < 0
		for f := g.x.FunctionAround(statement); f >= 0 && !holds; f = g.x.FunctionAround(f) {
			holds = f == l.in || slices.Contains(g.x.Parameters(f), l.name)
		}
		if holds {
			out = append(out, l.name)
		}
	}
	return out
}

// accumulatedLater reports whether a name gets the accumulation by a later statement: "n *= accum", "n = n // accum".
func (s *splitReader) accumulatedLater(x *python.Syntax, name string) bool {
	return slices.ContainsFunc(x.Statements, func(st python.Statement) bool {
		for _, op := range []string{"=", "*=", "/=", "//="} {
			at := x.Find(st.Range, op)
			value := python.Range{First: at + 1, End: st.End}
			if at > st.First && x.Is(at-1, name) && s.accumulated(x, value) &&
				(op != "=" || x.HasName(value, []string{name})) {
				return true
			}
		}
		return false
	})
}

// chosen reports whether a rate is one of several by the samples of a pass: "if batch_size < 16: lr = 0.01". The
// condition compares them with numbers alone.
func (s *splitReader) chosen(x *python.Syntax, statement int, value python.Range, micro []string) bool {
	in := x.Statements[statement].In
	if in < 0 || !x.Is(x.Statements[in].First, "if") && !x.Is(x.Statements[in].First, "elif") {
		return false
	}
	for i := x.Statements[statement].First; i < value.First; i++ {
		if x.Tokens[i].Pair >= value.First { // a keyword of a call
			return false
		}
	}
	r := x.Statements[in].Range
	if colon := x.Find(r, ":"); colon >= 0 {
		r.End = colon
	}
	compares := false
	for i := r.First + 1; i < r.End; i++ {
		switch text := x.Token(i); {
		case slices.Contains([]string{"<", ">", "<=", ">=", "=="}, text):
			compares = true
		case x.Tokens[i].Kind == python.Word && !slices.Contains(micro, text) && !x.Is(i+1, ".") || text == "*":
			return false
		}
	}
	return compares && s.pass(x, python.Range{First: r.First + 1, End: r.End}, micro)
}

// pass reports whether a range is computed of the samples of a pass without the accumulation. A number of passes, as
// len(data) // batch_size is, is none.
func (s *splitReader) pass(x *python.Syntax, r python.Range, micro []string) bool {
	if !sizes(x, r, micro) || s.accumulated(x, r) {
		return false
	}
	for i := r.First; i < r.End; i++ {
		if x.Is(i, "len") || x.Is(i, "//") || x.Is(i, "==") || x.Is(i, "lambda") {
			return false
		}
	}
	return true
}

// sizes reports whether a range has one of the names for its value: "batch_size is None" only asks whether it is set.
func sizes(x *python.Syntax, r python.Range, of []string) bool {
	for i := r.First; i < r.End; i++ {
		end := i + 1
		for end < r.End && (x.Is(end, "]") || x.Is(end, ")")) {
			end++
		}
		if !x.Is(end, "is") && x.HasName(python.Range{First: i, End: i + 1}, of) {
			return true
		}
	}
	return false
}

// arithmetic reports whether a range has no call but those that keep the meaning of a size.
func (s *splitReader) arithmetic(x *python.Syntax, r python.Range) bool {
	for i := r.First; i < r.End; i++ {
		switch t := x.Token(i); {
		case x.Tokens[i].Kind == python.String:
			return x.Is(i-1, "[") && r.End-r.First < 16
		case strings.Contains("[{:%", t):
			return false
		}
	}
	return !slices.ContainsFunc(x.Calls(r), func(c python.Call) bool {
		return !sized.MatchName(c.Name[strings.LastIndexByte(c.Name, '.')+1:])
	})
}

// rateValues are what a statement gives a learning rate: by =, *= or /=, by a keyword, or as a key of a dictionary.
func rateValues(x *python.Syntax, st python.Statement) (out []python.Range) {
	if _, ok := x.Definition(st); ok {
		return nil
	}
	several := x.Find(st.Range, "=")
	if several >= 0 && x.Find(python.Range{First: st.First, End: several}, ",") < 0 {
		several = -1
	}
	if several >= 0 {
		for _, g := range x.Bindings(st) {
			if isRate(x, g.At) {
				out = append(out, g.Value)
			}
		}
	}
	for i := max(st.First, several+1); i+1 < st.End; i++ {
		next := i + 1
		if x.Is(next, "]") { // group["lr"] = …
			next++
		}
		op := x.Token(next)
		if !isRate(x, python.Range{First: i, End: next}) || !slices.Contains([]string{"=", "*=", "/=", ":"}, op) ||
			op == ":" && x.Tokens[i].Kind != python.String || x.Tokens[min(next+1, st.End-1)].Kind == python.String {
			continue
		}
		v := python.Range{First: next + 1, End: st.End}
		for j := v.First; j < st.End; j++ {
			if x.Is(j, ",") || x.Is(j, ")") || x.Is(j, "}") {
				v.End = j
				break
			}
			j = max(j, x.Tokens[j].Pair)
		}
		out = append(out, v)
	}
	return out
}

// isRate reports whether a target is a learning rate: lr, args.lr, group["lr"].
func isRate(x *python.Syntax, target python.Range) bool {
	last := target.End - 1
	if x.Is(last, "]") {
		last--
	}
	if last < target.First {
		return false
	}
	text := x.Token(last)
	if x.Tokens[last].Kind == python.String {
		text, _ = python.Literal(text)
	}
	return mayRate(text) && rate.MatchString(text)
}
