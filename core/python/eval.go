package python

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// value is what an expression is, or an error in ok: a number, a string, True, False or None, constants of these, and
// products, sums and such of numbers. A list or another display of literals is its text.
func (r *reader) value(m *module, e Range, at int) (text string, ok bool) {
	v, ok := r.eval(m, e, at, 0)
	if !ok {
		return "", false
	}
	if e.End-e.First == 1 && m.Tokens[e.First].Kind == Number {
		if _, whole := v.(int64); !whole {
			return m.Of(e), true // as it is spelled: 6e-4
		}
	}
	return spelled(v), true
}

// display is a list, a tuple, a set or a dictionary, as it is written.
type display string

func spelled(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return cond(v, "True", "False")
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case display:
		return string(v)
	case string:
		return v
	}
	return ""
}

// An evaluation is an expression that is being read.
type evaluation struct {
	*reader
	m     *module
	i     int
	end   int
	at    int // the statement in which it stands
	depth int
}

func (r *reader) eval(m *module, e Range, at, depth int) (any, bool) {
	if depth > maxDepth || e.Empty() || e.End-e.First > 4096 {
		return nil, false
	}
	x := evaluation{r, m, e.First, e.End, at, depth}
	v, ok := x.binary(0)
	return v, ok && x.i == x.end
}

// precedence of the operators of numbers.
var precedence = map[string]int{"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "**": 4}

func (x *evaluation) binary(least int) (any, bool) {
	if x.depth += 1; x.depth > 64 {
		return nil, false
	}
	defer func() { x.depth-- }()
	left, ok := x.unary()
	for ok && x.i < x.end {
		op := x.m.Token(x.i)
		p := precedence[op]
		if p == 0 || p <= least || x.m.Tokens[x.i].Kind != Op {
			break
		}
		x.i++
		if op == "**" {
			p-- // to the right
		}
		var right any
		if right, ok = x.binary(p); ok {
			left, ok = apply(op, left, right)
		}
	}
	return left, ok
}

func (x *evaluation) unary() (any, bool) {
	if x.i < x.end && (x.m.Is(x.i, "-") || x.m.Is(x.i, "+")) && x.m.Tokens[x.i].Kind == Op {
		sign := x.m.Token(x.i)
		x.i++
		v, ok := x.binary(3) // binds looser than **
		if !ok || sign == "+" {
			return v, ok
		}
		return apply("-", int64(0), v)
	}
	return x.atom()
}

func (x *evaluation) atom() (any, bool) {
	if x.i >= x.end {
		return nil, false
	}
	t := x.m.Tokens[x.i]
	from := x.i
	switch {
	case t.Kind == Number:
		x.i++
		return number(x.m.Token(from))
	case t.Kind == String:
		for x.i < x.end && x.m.Tokens[x.i].Kind == String {
			x.i++
		}
		s, ok := x.m.Str(Range{First: from, End: x.i})
		return s, ok
	case t.Kind == Word:
		return x.name()
	case t.Pair > x.i && t.Pair < x.end:
		x.i = t.Pair + 1
		inside := x.m.Inside(from)
		if x.m.Is(from, "(") && !inside.Empty() && x.m.Find(inside, ",") < 0 {
			return x.eval(x.m, inside, x.at, x.depth+1)
		}
		for i := inside.First; i < inside.End; i++ {
			if x.m.Tokens[i].Kind == Word && !slices.Contains([]string{"True", "False", "None"}, x.m.Token(i)) {
				return nil, false
			}
		}
		return display(x.m.Of(Range{First: from, End: x.i})), true
	}
	return nil, false
}

// name is True, False, None, a constant, or int and float of one.
func (x *evaluation) name() (any, bool) {
	from := x.i
	x.i++
	for x.i+1 < x.end && x.m.Is(x.i, ".") && x.m.Tokens[x.i+1].Kind == Word {
		x.i += 2
	}
	name, _ := x.m.Dotted(Range{First: from, End: x.i})
	if x.i < x.end && x.m.Is(x.i, "(") {
		inside := x.m.Inside(x.i)
		if inside.Empty() || name != "int" && name != "float" {
			return nil, false
		}
		x.i = inside.End + 1
		v, ok := x.eval(x.m, inside, x.at, x.depth+1)
		f, isNumber := float(v)
		if !ok || !isNumber || math.Abs(f) > 1<<53 {
			return nil, false
		}
		if name == "int" {
			return int64(f), true
		}
		return f, true
	}
	switch name {
	case "True", "False":
		return name == "True", true
	case "None":
		return nil, true
	}
	return x.constant(x.m, name, x.at, x.depth+1)
}

// constant is the value of a name, or of a module's or a class's: it has to be assigned once.
func (r *reader) constant(m *module, name string, at, depth int) (any, bool) {
	if m == nil || depth > maxDepth {
		return nil, false
	}
	first, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		if at, ok := m.binding(name, at); ok {
			a, _ := m.Assigns(m.Statements[at])
			if a.Name != name {
				return nil, false
			}
			return r.eval(m, a.Value, at, depth+1)
		} else if len(m.bound[name]) > 0 {
			return nil, false
		}
	}
	if sym, ok := m.imported[first]; ok && sym.path != "" {
		if sym.name != "" {
			rest = strings.Trim(sym.name+"."+rest, ".")
		}
		in := r.load(sym.path)
		return r.constant(in, rest, -1, depth+1)
	}
	if class, ok := m.defined[first]; ok && dotted {
		found := -1
		from, to := m.Block(class)
		for i := from; i < to; i++ {
			if m.Statements[i].In == class && slices.Contains(m.Binds(m.Statements[i]), rest) {
				if found >= 0 {
					return nil, false
				}
				found = i
			}
		}
		if found >= 0 {
			a, ok := m.Assigns(m.Statements[found])
			if !ok || a.Name != rest {
				return nil, false
			}
			return r.eval(m, a.Value, found, depth+1)
		}
	}
	return nil, false
}

// binding is the one statement that assigns a name, as a statement sees it; -1 stands for one after the module's
// end. Parameters, loops and second assignments leave it unknown.
func (m *module) binding(name string, at int) (statement int, ok bool) {
	all := m.bound[name]
	if at >= 0 {
		for def := m.function(at); def >= 0; def = m.function(def) {
			if m.parameter(def, name) {
				return 0, false
			}
			var inside []int
			for _, b := range all {
				if m.function(b) == def {
					inside = append(inside, b)
				}
			}
			if len(inside) > 0 {
				return inside[0], len(inside) == 1
			}
		}
	}
	statement, n := -1, 0
	for _, b := range all {
		if m.function(b) >= 0 {
			if m.Is(m.Statements[b].First, "global") {
				return 0, false
			}
			continue
		}
		if m.inClass(b) || at >= 0 && m.function(at) < 0 && b >= at {
			continue
		}
		statement = b
		n++
	}
	return statement, n == 1
}

// function is the header of the function around a statement, or -1.
func (m *module) function(i int) int { return m.within[i] }

func (m *module) inClass(i int) bool {
	in := m.Statements[i].In
	if in < 0 {
		return false
	}
	d, ok := m.Definition(m.Statements[in])
	return ok && d.Class
}

// parameter reports whether a function has a parameter of that name.
func (m *module) parameter(def int, name string) bool {
	d, _ := m.Definition(m.Statements[def])
	if d.Open < 0 {
		return false
	}
	return slices.ContainsFunc(m.Split(m.Inside(d.Open), ","), func(r Range) bool {
		for m.Is(r.First, "*") || m.Is(r.First, "**") {
			r.First++
		}
		return m.Is(r.First, name)
	})
}

func number(s string) (any, bool) {
	s = strings.ReplaceAll(s, "_", "")
	if n, err := strconv.ParseInt(s, 0, 64); err == nil &&
		(len(s) == 1 || s[0] != '0' || strings.ContainsAny(s, "xXoObB")) {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !strings.ContainsAny(s, "xXpP")
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// apply is a Python operator on two numbers, or + on two strings. A result that is not exact is none.
func apply(op string, a, b any) (any, bool) {
	if s, ok := a.(string); ok {
		t, both := b.(string)
		return s + t, both && op == "+" && len(s)+len(t) < 4096
	}
	x, ok1 := float(a)
	y, ok2 := float(b)
	if !ok1 || !ok2 {
		return nil, false
	}
	_, whole1 := a.(int64)
	_, whole2 := b.(int64)
	whole := whole1 && whole2
	var f float64
	switch {
	case op == "+":
		f = x + y
	case op == "-":
		f = x - y
	case op == "*":
		f = x * y
	case op == "**":
		f = math.Pow(x, y)
		whole = whole && y >= 0
	case y == 0:
		return nil, false
	case op == "/":
		f, whole = x/y, false
	case op == "//":
		f = math.Floor(x / y)
	case op == "%":
		f = x - y*math.Floor(x/y)
	}
	if math.IsNaN(f) || math.IsInf(f, 0) || whole && math.Abs(f) > 1<<53 {
		return nil, false
	}
	if whole {
		return int64(f), true
	}
	return f, true
}
