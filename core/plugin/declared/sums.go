package declared

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

var (
	lossCall = lazy.MustCompile(`(?i)(loss|entropy|nll|mse|kl_div|criterion)\w*$`)
	judging  = lazy.MustCompile(`(?i)eval|valid|test|infer|predict`)
)

// A summing knows which names of a file stand for sums over the samples of a pass. A sum that is divided by anything
// but the accumulation is none.
type summing struct {
	s     *splitReader
	x     *python.Syntax
	calls map[string]bool         // functions, classes and objects that return one
	kinds map[string]bool         // of these, the classes
	named map[int]map[string]bool // by the function in which the name is
}

// sums finds a loss that is a sum over the samples of a pass, and is divided by the number of passes of a step: the
// smaller the micro-batch, the smaller are the gradients.
func (s *splitReader) sums(x *python.Syntax) {
	if !x.Names("backward") || !x.Names("sum") && !strings.Contains(x.Code, "size_average") && len(s.summed()) == 0 {
		return
	}
	passes := s.groupedPasses(x)
	if len(passes) == 0 || !s.anySum() || !s.dividesAll(x) {
		return
	}
	m := s.summing(x)
	for range 3 { // what is summed may be named before the function that sums it
		for i, st := range x.Statements {
			m.read(i, st)
		}
	}
	for i, st := range x.Statements {
		if first, ok := passes[i]; ok && m.sum(i, st.Range) {
			s.add(x, i, first, scaleCost(x),
				"its loss is a sum over the samples of a pass and is divided by the number of passes, so that the gradients shrink")
		}
	}
}

// groupedPasses are the statements with the backward passes that are grouped into steps, and where each begins.
func (s *splitReader) groupedPasses(x *python.Syntax) map[int]int {
	passes := map[int]int{}
	for i, st := range x.Statements {
		if !strings.Contains(x.Of(st.Range), "backward") {
			continue
		}
		l := x.Loop(i)
		for _, c := range x.Calls(st.Range) {
			if strings.HasSuffix(c.Name, "backward") && l >= 0 && s.grouping(x, l) {
				passes[i] = c.First
			}
		}
	}
	return passes
}

// dividesAll reports whether a file divides by the accumulation.
func (s *splitReader) dividesAll(x *python.Syntax) bool {
	for _, st := range x.Statements {
		for i := st.First; i < st.End; i++ {
			if (x.Is(i, "/") || x.Is(i, "/=")) && s.accumulated(x, python.Range{First: i + 1, End: st.End}) {
				return true
			}
		}
	}
	return false
}

// sumsAnywhere reports whether any source asks a loss for its sum, or sums what a loss gives for each sample. Without
// that nothing is a sum, and what is named need not be followed.
func (s *splitReader) sumsAnywhere() bool {
	return slices.ContainsFunc(s.sources, func(f python.Source) bool {
		return strings.Contains(f.Code, "reduction") || strings.Contains(f.Code, "size_average") ||
			strings.Contains(f.Code, ".sum()")
	})
}

// summed are the names of functions and classes of all sources that return a sum.
func (s *splitReader) summed() map[string]bool {
	if s.sumCalls == nil {
		s.sumCalls, s.sumKinds = map[string]bool{}, map[string]bool{}
		if !s.anySum() {
			return s.sumCalls
		}
		for _, f := range s.sources {
			if strings.Contains(f.Code, "sum") || strings.Contains(f.Code, "size_average") {
				m := &summing{s, s.syntax(f), s.sumCalls, s.sumKinds, map[int]map[string]bool{}}
				for i, st := range m.x.Statements {
					m.read(i, st)
				}
			}
		}
	}
	return s.sumCalls
}

func (s *splitReader) summing(x *python.Syntax) *summing {
	return &summing{s, x, s.summed(), s.sumKinds, map[int]map[string]bool{}}
}

// within is the function in which a statement stands, and the outermost definition; -1 for none.
func (m *summing) within(i int) (function, outermost int) {
	function, outermost = -1, -1
	for i = m.x.Statements[i].In; i >= 0; i = m.x.Statements[i].In {
		if d, ok := m.x.Definition(m.x.Statements[i]); ok {
			if outermost = i; function < 0 && !d.Class {
				function = i
			}
		}
	}
	return function, outermost
}

// read notes what a statement names, or returns.
func (m *summing) read(i int, st python.Statement) {
	x := m.x
	function, outermost := m.within(i)
	if x.Is(st.First, "return") {
		if function >= 0 && m.sum(i, st.Range) && !m.divides(function) {
			d, _ := x.Definition(x.Statements[function])
			if outer, _ := x.Definition(x.Statements[outermost]); outer.Class && (d.Name == "forward" || d.Name == "__call__") {
				m.calls[outer.Name], m.kinds[outer.Name] = true, true
			} else {
				m.calls[d.Name] = true
			}
		}
		return
	}
	if op := x.Find(st.Range, "/="); op > 0 {
		if name, ok := x.Dotted(python.Range{First: st.First, End: op}); ok && !m.s.accumulated(x, st.Range) {
			delete(m.named[function], name)
		}
		return
	}
	for _, b := range x.Bindings(st) {
		if b.Name == "" {
			continue
		}
		callable := m.constructs(b.Value)
		if callable {
			m.calls[b.Name[strings.LastIndexByte(b.Name, '.')+1:]] = true
		}
		switch sum := !callable && m.sum(i, b.Value); {
		case sum && m.named[function] == nil:
			m.named[function] = map[string]bool{b.Name: true}
		case sum:
			m.named[function][b.Name] = true
		default:
			delete(m.named[function], b.Name)
		}
	}
}

// constructs reports whether a value is an object that returns sums: nn.CrossEntropyLoss(reduction="sum").
func (m *summing) constructs(r python.Range) bool {
	for _, c := range m.x.Calls(r) {
		name := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
		if c.First == r.First && m.x.Tokens[c.Open].Pair == r.End-1 &&
			(m.kinds[name] || strings.HasSuffix(name, "Loss") && name[0] >= 'A' && name[0] <= 'Z' && m.byKeyword(c)) {
			return true
		}
	}
	return false
}

// byKeyword reports whether a call asks for a sum.
func (m *summing) byKeyword(c python.Call) bool {
	for _, a := range m.x.Args(c.Open) {
		text, _ := m.x.Str(a.Range)
		if a.Name == "reduction" && text == "sum" || a.Name == "size_average" && m.x.Of(a.Range) == "False" {
			return true
		}
	}
	return false
}

// sum reports whether a range is a sum over samples, or names one, and divides it by nothing but the accumulation.
func (m *summing) sum(i int, r python.Range) bool {
	x := m.x
	function, _ := m.within(i)
	if function >= 0 && judging.MatchName(x.Of(x.Statements[function].Range)) || strings.Contains(x.Of(r), ".item(") {
		return false
	}
	for j := r.First; j < r.End; j++ {
		if (x.Is(j, "/") || x.Is(j, "//")) && !m.s.accumulated(x, python.Range{First: j + 1, End: min(j+6, r.End)}) {
			return false
		}
		if name, ok := x.DottedAt(j, r.End); ok && m.named[function][strings.TrimSuffix(name, ".backward")] {
			return true
		}
	}
	for _, c := range x.Calls(r) {
		name := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
		if name == "mean" {
			return false
		}
		if m.byKeyword(c) && strings.HasSuffix(name, "Loss") && x.Is(x.Tokens[c.Open].Pair+1, "(") {
			return true // made and called at once
		}
		if m.calls[name] && !m.kinds[name] || lossCall.MatchName(name) && name[0] >= 'a' && m.byKeyword(c) {
			return true
		}
	}
	// F.cross_entropy(…, reduction="none").sum() / accum
	if by := x.Find(r, "/"); by > 0 {
		r.End = by
	}
	if eq := x.Find(r, "="); eq > 0 {
		r.First = eq + 1
	}
	end := strings.TrimSpace(x.Of(r))
	return strings.HasSuffix(end, ".sum()") &&
		(strings.Contains(end, `reduction="none"`) || strings.Contains(end, `reduction='none'`) || powers(x, r))
}

// powers reports whether a range takes the sum of powers or absolute values: ((y - x) ** 2).sum().
func powers(x *python.Syntax, r python.Range) bool {
	for _, c := range x.Calls(r) {
		if name := c.Name[strings.LastIndexByte(c.Name, '.')+1:]; name == "pow" || name == "square" || name == "abs" {
			return true
		}
	}
	return x.Is(r.First, "(") && x.Find(x.Inside(r.First), "**") >= 0
}

// divides reports whether a function divides anything.
func (m *summing) divides(function int) bool {
	from, to := m.x.Block(function)
	for i := from; i < to; i++ {
		st := m.x.Statements[i]
		for j := st.First; j < st.End; j++ {
			if m.x.Is(j, "/") || m.x.Is(j, "/=") || m.x.Is(j, "//") {
				return true
			}
		}
	}
	return false
}
