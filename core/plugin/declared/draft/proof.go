package draft

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// How sure a line of a draft is: its comment begins so. What is less than likely is no line, but a comment.
const (
	sure   = "sure: "   // the code shows it
	likely = "likely: " // by its name, its help, or because it is the only one
)

// A reading is a setting as the code reads it: by its attribute, and by the variables that it is handed on in.
type reading struct {
	direct *regexp.Regexp // .batch_size, ["batch_size"]
	last   string         // the name that direct has
	names  map[string]bool
}

// mayBe reports whether a file has one of the names at all: most have not.
func (r *reading) mayBe(f *file) bool {
	if strings.Contains(f.Text, r.last) {
		return true
	}
	for name := range r.names {
		if strings.Contains(f.Text, name) {
			return true
		}
	}
	return false
}

// in reports whether a text reads the setting.
func (r *reading) in(text string) bool {
	return r.direct.MatchString(text) || slices.ContainsFunc(identifiers.FindAllString(text, -1), func(n string) bool {
		return r.names[n]
	})
}

// is reports whether a text is the setting's value and nothing else: int(args.batch_size), but not len(batch_size).
func (r *reading) is(text string) bool {
	return r.in(text) && !arithmetic.MatchString(text) && !strings.ContainsAny(text, ":") &&
		!slices.ContainsFunc(called.FindAllStringSubmatch(text, -1), func(m []string) bool {
			return !slices.Contains([]string{"int", "float", "round", "max", "min", "get", "getattr", "abs"}, m[1])
		})
}

// called matches the function of a call, and what is indexed by more than a key.
var called = lazy.MustCompile(`(\w+|[\])])\s*\(`)

var (
	identifiers = lazy.MustCompile(`[A-Za-z_]\w*`)
	arithmetic  = lazy.MustCompile(`[-+*/%<>]|==|\blambda\b|\bfor\b`)
)

// reads is how the code reads a setting. others are those that it is told apart from: where one of them has the same
// last name, the name of its group has to stand before it.
func (d *drafting) reads(s *setting, others []setting) *reading {
	dest := cond(s.Dest != "", s.Dest, bare(long(s.Option)))
	last := lastPart(dest)
	r := &reading{names: map[string]bool{}, last: last}
	same := slices.ContainsFunc(others, func(o setting) bool {
		return o.place != s.place && lastPart(cond(o.Dest != "", o.Dest, bare(long(o.Option)))) == last
	})
	id := fmt.Sprint(s.place, same)
	if d.readings[id] != nil {
		return d.readings[id]
	}
	if d.readings == nil {
		d.readings = map[string]*reading{}
	}
	d.readings[id] = r
	switch parts := strings.Split(dest, "."); {
	case same && len(parts) > 1:
		r.direct = regexp.MustCompile(`\b` + regexp.QuoteMeta(parts[len(parts)-2]) + `['"\])]*[.\[(]+['"]?` +
			regexp.QuoteMeta(last) + `\b`)
		return r
	case same:
		r.direct = regexp.MustCompile(`(?:^|[^\w.\]])\w+(?:\.|\[['"])` + regexp.QuoteMeta(last) + `\b`)
	default:
		r.direct = word(s)
	}
	switch s.How {
	case python.ByConstants, python.Fire, python.Click, python.ByGlobals:
		r.names[last] = true
	}
	for range 4 { // from one variable to the next
		if !d.handOn(r) {
			break
		}
	}
	return r
}

// handOn adds the names that are given what a setting's readings have: b = args.batch_size; f(b) where f has b.
func (d *drafting) handOn(r *reading) (more bool) {
	add := func(name string) {
		if name = lastPart(name); name != "" && !r.names[name] && !plainWords[name] {
			r.names[name], more = true, true
		}
	}
	for _, f := range d.files {
		if !r.mayBe(f) {
			continue
		}
		for _, s := range f.Statements {
			if !r.in(f.Of(s.Range)) {
				continue
			}
			if a, ok := f.Assigns(s); ok && !a.Value.Empty() && r.is(f.Of(a.Value)) {
				add(a.Name)
			}
			for _, c := range f.Calls(s.Range) {
				args := f.Args(c.Open)
				for k, a := range args {
					if a.Stars > 0 || !r.is(f.Of(a.Range)) {
						continue
					}
					if a.Name != "" {
						if d.defines(lastPart(c.Name)) || slices.Contains([]string{"dict", "update", "partial"}, lastPart(c.Name)) {
							add(a.Name)
						}
						continue
					}
					add(d.parameterAt(lastPart(c.Name), k))
				}
			}
		}
	}
	return more
}

// plainWords are names that mean too much to be followed.
var plainWords = map[string]bool{"args": true, "self": true, "cfg": true, "config": true, "x": true, "n": true,
	"value": true, "default": true, "name": true, "opt": true, "kwargs": true, "data": true}

// defines reports whether the project has a function or a class of that name.
func (d *drafting) defines(name string) bool { return len(d.definitions()[name]) > 0 }

// A defined is where a function or a class is defined.
type defined struct {
	f         *file
	statement int
}

// definitions are the functions and classes of the project, by their names.
func (d *drafting) definitions() map[string][]defined {
	if d.defs == nil {
		d.defs = map[string][]defined{}
		for _, f := range d.files {
			for i, s := range f.Statements {
				if def, ok := f.Definition(s); ok {
					d.defs[def.Name] = append(d.defs[def.Name], defined{f, i})
				}
			}
		}
	}
	return d.defs
}

// parameterAt is the name of a function's parameter at a position, that of a class's __init__ or field for a class; "".
func (d *drafting) parameterAt(function string, k int) string {
	all := d.definitions()[function]
	if len(all) != 1 {
		return ""
	}
	f, at := all[0].f, all[0].statement
	def, _ := f.Definition(f.Statements[at])
	if def.Class || def.Open < 0 {
		return ""
	}
	params := f.Split(f.Inside(def.Open), ",")
	if len(params) > 0 && (f.Is(params[0].First, "self") || f.Is(params[0].First, "cls")) {
		k++
	}
	if k >= len(params) || f.Tokens[params[k].First].Kind != python.Word {
		return ""
	}
	return f.Token(params[k].First)
}

var (
	loaderish = lazy.MustCompile(`(?i)loader|sampler$|iterator|datamodule|_data$|dataset|^batch$|fetcher`)
	drawn     = lazy.MustCompile(`^(randint|randn?|empty|zeros|ones|full|sample|choices?|batched|chunks?|split)$`)
)

// feeds is where the program makes the batches of its training of a setting, or "": DataLoader(batch_size=…), a slice
// of the data, a random draw.
func (d *drafting) feeds(r *reading) string {
	slice := ""
	for _, f := range d.files {
		if !r.mayBe(f) {
			continue
		}
		for i, s := range f.Statements {
			text := f.Of(s.Range)
			if !r.in(text) || d.evaluates(f, i) || r.measures(f, i) {
				continue
			}
			for _, c := range f.Calls(s.Range) {
				if d.loads1(f, c, r) {
					return d.place(f, c.First) + " gives it to " + lastPart(c.Name)
				}
				if slice == "" && drawn.MatchString(lastPart(c.Name)) && !strings.HasPrefix(text, "def") &&
					r.in(f.Of(f.Inside(c.Open))) {
					slice = d.place(f, c.First) + " draws so many"
				}
			}
			if slice == "" && d.slices(f, s, r) {
				slice = d.place(f, s.First) + " takes so many of the data"
			}
		}
	}
	return slice
}

// measures reports whether the function around a statement takes the name of the setting for the size of a tensor that
// it was given: batch_size = x.size(0). What it then makes of that size tells nothing of the setting.
func (r *reading) measures(f *file, i int) bool {
	function := f.function(i)
	if function < 0 {
		return false
	}
	from, _ := f.Block(function)
	for _, s := range f.Statements[from:i] {
		a, ok := f.Assigns(s)
		value := f.Of(a.Value)
		if ok && r.in(a.Name) && (strings.Contains(value, ".size(") || strings.Contains(value, ".shape")) {
			return true
		}
	}
	return false
}

// evaluates reports whether a statement is about the validation.
func (d *drafting) evaluates(f *file, i int) bool {
	m := message{}
	f.around(&m, i)
	text := f.Of(f.Statements[i].Range)
	if a, ok := f.Assigns(f.Statements[i]); ok {
		text = a.Name
	}
	return evalish.MatchString(m.scope) || evalName.MatchString(text)
}

var evalName = lazy.MustCompile(`(?i)^\s*(self\.)?\w*(eval|valid|val_|_val\b|test|infer|sampl)\w*\s*(=|$)`)

// loads1 reports whether a call makes a loader of so many samples.
func (d *drafting) loads1(f *file, c python.Call, r *reading) bool {
	if !loaderish.MatchString(lastPart(c.Name)) {
		return false
	}
	args := f.Args(c.Open)
	for k, a := range args {
		named := strings.Contains(strings.ToLower(a.Name), "batch") || a.Name == "bs"
		if (named || a.Name == "" && k > 0) && a.Stars == 0 && r.in(f.Of(a.Range)) &&
			len(f.Calls(a.Range)) < 2 && !strings.Contains(f.Of(a.Range), "len(") {
			return true
		}
	}
	return false
}

// slices reports whether a statement cuts so many samples out of something: data[i:i + batch_size],
// y[:args.batch_size].
func (d *drafting) slices(f *file, s python.Statement, r *reading) bool {
	for t := s.First; t < s.End; t++ {
		if !f.Is(t, "[") || f.Tokens[t].Pair < 0 {
			continue
		}
		in := f.Inside(t)
		if f.Find(in, ":") >= 0 && r.in(f.Of(in)) {
			return true
		}
	}
	return false
}

// operand is the whole operand that ends before, or begins after, an operator: a name with what follows it, a call, an
// expression in brackets.
func (f *file) operand(at, step int) python.Range {
	if step > 0 {
		end := at + 1
		for end < len(f.Tokens) {
			switch {
			case f.opens(end) && f.Tokens[end].Pair > end:
				end = f.Tokens[end].Pair + 1
			case f.Tokens[end].Kind != python.Op || f.Is(end, "."):
				end++
			default:
				return python.Range{First: at + 1, End: end}
			}
			if end < len(f.Tokens) && !f.Is(end, ".") && !f.opens(end) && !f.Is(end-1, ".") {
				break
			}
		}
		return python.Range{First: at + 1, End: end}
	}
	first := at
	for first > 0 {
		t := first - 1
		switch {
		case f.closes(t) && f.Tokens[t].Pair >= 0 && f.Tokens[t].Pair < t:
			first = f.Tokens[t].Pair
			if first > 0 && f.Tokens[first-1].Kind == python.Word || first > 0 && f.closes(first-1) {
				continue // a call, an index
			}
		case f.Tokens[t].Kind != python.Op:
			first = t
		default:
			return python.Range{First: first, End: at}
		}
		if first == 0 || !f.Is(first-1, ".") {
			break
		}
		first--
	}
	return python.Range{First: first, End: at}
}

func (f *file) opens(t int) bool  { return f.Is(t, "(") || f.Is(t, "[") }
func (f *file) closes(t int) bool { return f.Is(t, ")") || f.Is(t, "]") }

// A product is one operation between two operands.
type operation struct {
	op          string
	left, right python.Range
	at          int
	first       bool // no "*" or "/" stands before the left operand, which would come first
}

// operations are the multiplications and divisions of a statement.
func (f *file) operations(s python.Statement) (all []operation) {
	for t := s.First + 1; t < s.End-1; t++ {
		switch op := f.Token(t); op {
		case "*", "/", "//", "*=", "/=", "//=":
			o := operation{op: strings.TrimSuffix(op, "="), left: f.operand(t, -1), right: f.operand(t, 1), at: t}
			before := o.left.First - 1
			o.first = before < s.First || !slices.Contains([]string{"*", "/", "//", "%", "@"}, f.Token(before))
			all = append(all, o)
		}
	}
	return all
}

// noBatch are names of quotients that are no batch.
var noBatch = lazy.MustCompile(`(?i)(^|_)(lr|learning_rate|warmup|epochs?|loss|interval|log|decay|iters?|len|` +
	`total_steps|` +
	`steps_per_epoch|max_steps)(_|$)`)

// splits is where the program divides the batch size by the accumulation, or "": then it is the global batch. What is
// divided has to be the batch size itself, not an expression that it only stands in.
func (d *drafting) splits() string {
	if d.micro == nil || d.accum == nil {
		return ""
	}
	micro, accum := d.reads(d.micro, nil), d.reads(d.accum, nil)
	for _, f := range d.files {
		if !micro.mayBe(f) || !accum.mayBe(f) {
			continue
		}
		for _, s := range f.Statements {
			a, assigns := f.Assigns(s)
			if assigns && noBatch.MatchString(lastPart(a.Name)) {
				continue
			}
			for _, o := range f.operations(s) {
				if !strings.HasPrefix(o.op, "/") || !o.first || !micro.is(f.Of(f.inner(o.left))) || !accum.in(f.Of(o.right)) ||
					micro.in(f.Of(o.right)) {
					continue
				}
				whole := o.op == "//" || f.rounded(o.left.First) // else it may be a factor of something
				if whole || assigns && batchVariable.MatchString(lastPart(a.Name)) || f.keywordBatch(o.left.First) {
					return d.place(f, o.at)
				}
			}
		}
	}
	return ""
}

// rounded reports whether what begins at a token stands in int( or its likes.
func (f *file) rounded(at int) bool {
	for at--; at > 0 && f.Is(at, "("); at-- {
		if slices.Contains([]string{"int", "round", "floor", "ceil"}, f.Token(at-1)) {
			return true
		}
	}
	return false
}

// keywordBatch reports whether what begins at a token is the value of a batch's keyword: batch_size=…
func (f *file) keywordBatch(at int) bool {
	for at--; at > 0 && (f.Is(at, "(") || f.Is(at, "int") || f.Is(at, "max")); at-- {
		continue
	}
	return at > 0 && f.Is(at, "=") && strings.Contains(strings.ToLower(f.Token(at-1)), "batch")
}

// inner is an operand without a bracket around it, and without int() and its likes.
func (f *file) inner(e python.Range) python.Range {
	for !e.Empty() {
		switch open := e.First; {
		case f.Is(open, "(") && f.Tokens[open].Pair == e.End-1:
			e = f.Inside(open)
		case e.End-e.First > 2 && slices.Contains([]string{"int", "float", "round", "max"}, f.Token(open)) &&
			f.Is(open+1, "(") && f.Tokens[open+1].Pair == e.End-1:
			e = f.Inside(open + 1)
		default:
			return e
		}
	}
	return e
}

// multiplies is where the program multiplies the micro-batch by the accumulation, or "".
func (d *drafting) multiplies() string {
	if d.micro == nil || d.accum == nil {
		return ""
	}
	micro, accum := d.reads(d.micro, nil), d.reads(d.accum, nil)
	for _, f := range d.files {
		if !micro.mayBe(f) || !accum.mayBe(f) {
			continue
		}
		for _, s := range f.Statements {
			if text := f.Of(s.Range); !micro.in(text) || !accum.in(text) {
				continue
			}
			for _, o := range f.operations(s) {
				for o.left.First-1 > s.First && f.Is(o.left.First-1, "*") { // a * ranks * b
					o.left.First = f.operand(o.left.First-1, -1).First
				}
				l, r := f.Of(o.left), f.Of(o.right)
				if o.op == "*" && (micro.in(l) && accum.in(r) || accum.in(l) && micro.in(r)) {
					return d.place(f, o.at)
				}
			}
		}
	}
	return ""
}
