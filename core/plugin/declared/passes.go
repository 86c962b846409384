package declared

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// An effect is what another micro-batch changes of the training though the global batch stays, and where the source
// has it.
type effect struct {
	cost ladder.Cost
	why  string // with the file and the line
}

// mostFiles bounds how many files of a project are searched for such effects.
const mostFiles = 60

// sources are the files of the program's project that its imports lead to, the script first.
func (p *program) sources() (files []python.Source) {
	if !p.text().Exists() {
		return nil
	}
	var known []python.Source
	if p.list != nil {
		known = p.list.Files
	}
	read := func(path string) python.Source {
		if i := slices.IndexFunc(known, func(s python.Source) bool { return s.Path == path }); i >= 0 {
			return known[i]
		}
		return python.ReadSource(path, maxFile)
	}
	roots := p.roots()
	files = []python.Source{p.text()}
	seen := map[string]bool{p.path: true}
	var targets []string
	if strings.Contains(p.text().Code, "hydra") {
		targets = p.settings().Targets
	}
	for _, path := range targets {
		if f := read(path); f.Exists() && !seen[path] && len(files) < mostFiles {
			seen[path] = true
			files = append(files, f)
		}
	}
	for i := 0; i < len(files); i++ {
		for _, im := range files[i].Imports() {
			for _, root := range roots {
				for _, path := range im.Files(root, files[i].Path) {
					if seen[path] || len(files) == mostFiles {
						continue
					}
					seen[path] = true
					if f := read(path); f.Exists() {
						files = append(files, f)
					}
				}
			}
		}
	}
	return files
}

// roots are the folders in which the program's imports are looked for: the script's own, the command's, and those in
// which a package that the script is part of may lie.
func (p *program) roots() (roots []string) {
	dir := filepath.Dir(p.path)
	for _, root := range []string{dir, filepath.Clean(p.Dir), filepath.Dir(dir), filepath.Join(p.Dir, "src")} {
		inside := root == dir || root == filepath.Clean(p.Dir) || strings.HasPrefix(root, filepath.Clean(p.Dir)+"/")
		if inside && !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	if p.Kind == command.Installed || p.Kind == command.Module { // its package may lie anywhere
		root := dir
		for range 8 {
			if _, err := os.Stat(filepath.Join(root, "__init__.py")); err != nil {
				break
			}
			root = filepath.Dir(root)
		}
		if root != dir && !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	return roots
}

// effects are what another micro-batch changes in this program, read once and only where there are rungs for it.
func (r *reading) effects() []effect {
	if r.changed != nil {
		return r.changed
	}
	r.changed = []effect{}
	for _, s := range r.Split {
		named := func(a string) bool { return slices.Contains(s.Arguments, a) }
		if len(s.Arguments) == 0 || slices.ContainsFunc(r.prog.Args, named) {
			r.changed = append(r.changed, effect{ladder.Cost(s.Cost), s.Why})
		}
	}
	sources := r.prog.sources()
	if why := r.otherUnit(sources); why != "" {
		r.changed = append(r.changed, effect{ladder.Recipe, why})
	}
	s := readSplit(sources, r.microNames(), r.namesOf(r.Accumulation))
	r.changed, r.counted, r.job.Signs.MayCountMicro = append(r.changed, s.found...), s.saved, s.groups
	return r.changed
}

// microNames are the names of the micro-batch in the program's source.
func (r *reading) microNames() []string {
	micro := r.namesOf(r.Micro)
	if slices.Contains(micro, "per_device_train_batch_size") {
		micro = append(micro, "train_batch_size")
	}
	return micro
}

// namesOf are the names of a setting in the program's source.
func (r *reading) namesOf(p *place) (names []string) {
	if p == nil {
		return nil
	}
	for _, one := range p.each() {
		if one.path != "" {
			names = append(names, one.path[strings.LastIndexAny(one.path, ".]")+1:])
			continue
		}
		long := slices.ContainsFunc(one.names, func(n string) bool { return len(n) > 2 })
		for _, n := range one.names {
			if !long || strings.Contains(r.prog.text().Code, "dest") { // -b is stored under its long name
				if o, ok := r.prog.settings().Lookup(n); ok && o.Dest != "" {
					names = append(names, o.Dest)
				}
			}
			n = strings.ReplaceAll(strings.TrimLeft(n, "-+~"), "-", "_")
			names = append(names, n[strings.LastIndexByte(n, '.')+1:])
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return len(n) < 2 })
}

var (
	unitOption = lazy.MustCompile(`(?i)^-*(\w*_)?(batch(_?size)?|bsz?)_?(type|unit|by|mode|per_gpu_type)$|` +
		`^-*sampler_?type$`)
	otherUnits = lazy.MustCompile(`(?i)frame|token|bin|second|duration|length|numel|dynamic|sorted|folded|pixel`)
	unitName   = lazy.MustCompile(`(?i)tokens?($|_)|frames?($|_)|_bins$|seconds|duration|_secs?$|pixels`)
)

// otherUnit is how the micro-batch shows to be no number of samples: by its own name, or by a setting beside it; "" if
// nothing shows that.
func (r *reading) otherUnit(sources []python.Source) string {
	for _, n := range r.namesOf(r.Micro) {
		if unitName.MatchString(n) {
			return fmt.Sprintf("%s is no number of samples", nameOf(r.micro.at))
		}
	}
	says := func(name, value string) string {
		if !unitOption.MatchString(strings.ReplaceAll(name, "-", "_")) || !otherUnits.MatchString(value) {
			return ""
		}
		return fmt.Sprintf("%s is %s, so %s is no number of samples", name, value, nameOf(r.micro.at))
	}
	for i, a := range r.prog.Args {
		name, value, joined := strings.Cut(a, "=")
		if !joined && i+1 < len(r.prog.Args) {
			value = r.prog.Args[i+1]
		}
		if why := says(name, value); why != "" {
			return why
		}
	}
	if !slices.ContainsFunc(sources, func(s python.Source) bool {
		return slices.ContainsFunc(unitWords, func(w string) bool { return strings.Contains(s.Code, w) })
	}) {
		return ""
	}
	for _, o := range r.prog.settings().Options {
		for _, n := range o.Names {
			if _, typed := optionOf(r.prog.Args, n); typed || !o.Known {
				continue
			}
			if why := says(n, o.Default); why != "" {
				return why
			}
		}
	}
	return ""
}

// unitWords are parts of the names of settings that tell what a batch counts.
var unitWords = []string{"batch_type", "batch-type", "size_type", "size-type", "batch_unit", "batch-unit", "size_unit",
	"size-unit",
	"batch_by", "batch-by", "batch_mode", "batch-mode", "sampler_type", "sampler-type"}

// readSplit reads what another micro-batch changes, the dearest first: of the training, and of one that goes on. micro
// and accumulation are the names of the settings in the source. It decides by the text alone: what is in a function
// that nothing calls does not count.
func readSplit(files []python.Source, micro, accumulation []string) *splitReader {
	s := &splitReader{accumulation: accumulation, sources: files, parsed: map[string]*python.Syntax{}}
	s.divides = sync.OnceValue(s.dividesAnywhere)
	for _, f := range files { // few files have any of this, and only these are parsed
		sizes := mayRate(f.Code) && slices.ContainsFunc(micro, f.Names)
		accumulates := strings.Contains(f.Code, "accum") || strings.Contains(f.Code, "update_freq") ||
			slices.ContainsFunc(accumulation, f.Names)
		draws := strings.Contains(f.Code, "num_samples") && slices.ContainsFunc(micro, f.Names)
		losses := compares(f)
		if !sizes && !accumulates && !losses && !draws {
			continue
		}
		x := s.syntax(f)
		if losses {
			s.losses(x)
		}
		if sizes {
			s.rates(x, slices.Clone(micro))
		}
		if draws {
			s.drawn(x, micro)
		}
		if accumulates {
			blocks := groupers(x)
			s.groups = s.groups || s.anyGroups(x)
			s.schedules(x, blocks)
			s.lengths(x, micro, blocks)
			s.counts(x)
			s.ofBlocks(x, blocks)
			s.states(x, blocks)
			s.undivided(x)
			s.sums(x)
			s.eachPass(x)
			s.partial(x)
		}
	}
	slices.SortStableFunc(s.found, func(a, b effect) int { return cmp.Compare(b.cost, a.cost) })
	if s.saved == "" && inPasses(files, micro, accumulation) {
		s.saved = "its saved state counts the micro-batches of an epoch"
	}
	return s
}

// anyGroups reports whether passes of a loop are grouped into optimizer steps: by "% accum", or by accelerate.
func (s *splitReader) anyGroups(x *python.Syntax) bool {
	for i, st := range x.Statements {
		if _, _, ok := s.grouped(x, st.Range); (ok || strings.Contains(x.Of(st.Range), ".accumulate(")) &&
			loop(x, i) >= 0 && s.used(x, i) {
			return true
		}
	}
	return false
}

// mayRate reports whether a text may name a learning rate. It is far cheaper than matching.
func mayRate(text string) bool {
	return strings.Contains(text, "lr") || strings.Contains(text, "LR") || strings.Contains(text, "Lr") ||
		strings.Contains(text, "earning")
}

type splitReader struct {
	sources      []python.Source
	accumulation []string
	found        []effect
	parsed       map[string]*python.Syntax // by path
	divides      func() bool               // whether any file divides by the accumulation
	sumCalls     map[string]bool           // functions and classes that return a sum over samples; nil: not looked for yet
	sumKinds     map[string]bool           // of these, the classes
	groups       bool                      // passes of a loop are grouped into optimizer steps
	saved        string                    // why a state that is saved at another micro-batch is none to go on from; ""
}

// add adds an effect, where the code in which the statement stands is used at all. Of each reason the first counts.
func (s *splitReader) add(x *python.Syntax, statement, token int, cost ladder.Cost, format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	same := func(e effect) bool { return strings.HasPrefix(e.why, why+" (") }
	if s.used(x, statement) && !slices.ContainsFunc(s.found, same) {
		s.found = append(s.found, effect{cost, fmt.Sprintf("%s (%s)", why, x.Place(x.LineOf(token)))})
	}
}

// used reports whether something names the outermost function or class in which a statement stands.
func (s *splitReader) used(x *python.Syntax, statement int) bool {
	name := ""
	for i := statement; i >= 0; i = x.Statements[i].In {
		if d, ok := x.Definition(x.Statements[i]); ok {
			name = d.Name
		}
	}
	if name == "" {
		return true
	}
	for _, source := range s.sources {
		if !source.Names(name) {
			continue
		}
		f := s.syntax(source)
		for _, st := range f.Statements {
			d, defines := f.Definition(st)
			if f.Is(st.First, "import") || f.Is(st.First, "from") || defines && d.Name == name {
				continue
			}
			for i := st.First; i < st.End; i++ {
				if f.Tokens[i].Kind == python.Word && f.Is(i, name) {
					return true
				}
			}
		}
	}
	return false
}

// names reports whether a range has one of the names, as a name or as a key: args.batch_size, cfg["batch_size"].
func names(x *python.Syntax, r python.Range, of []string) bool {
	for i := r.First; i < r.End; i++ {
		text := x.Token(i)
		if x.Tokens[i].Kind == python.String {
			text, _ = python.Literal(text)
		}
		if slices.Contains(of, text) {
			return true
		}
	}
	return false
}

var accumulates = lazy.MustCompile(`(?i)accum|grad_acc|^update_freq$`)

// accumulations are names of what returns the accumulation: accumulation_iters(devices).
var accumulations = lazy.MustCompile(`(?i)(steps?|iters?|factor|count|num)$`)

// accumulated reports whether a range names the accumulation.
func (s *splitReader) accumulated(x *python.Syntax, r python.Range) bool {
	if names(x, r, s.accumulation) {
		return true
	}
	for i := r.First; i < r.End; i++ {
		if x.Tokens[i].Kind == python.Word && accumulates.MatchString(x.Token(i)) &&
			(!x.Is(i+1, "(") || accumulations.MatchString(x.Token(i))) {
			return true
		}
	}
	return false
}

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
			for _, g := range givenBy(x, st) {
				last := g.name[strings.LastIndexByte(g.name, '.')+1:]
				if last != "" && !slices.Contains(seen, last) && !rate.MatchString(last) && s.pass(x, g.value, seen) &&
					s.arithmetic(x, g.value) && !s.accumulatedLater(x, last) {
					computed.add(g.name, i)
					more = true
				}
			}
		}
	}
	for i, st := range x.Statements {
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
		l.in = functionAround(g.x, statement)
	}
	g.local = append(g.local, l)
}

// seen are the names that hold at a statement: also those that a function around it takes as a parameter.
func (g *grown) seen(statement int) []string {
	out := slices.Clone(g.roots)
	for _, l := range g.local {
		holds := l.in < 0
		for f := functionAround(g.x, statement); f >= 0 && !holds; f = functionAround(g.x, f) {
			holds = f == l.in || slices.Contains(parametersOf(g.x, f), l.name)
		}
		if holds {
			out = append(out, l.name)
		}
	}
	return out
}

// functionAround is the innermost function in whose block a statement stands; -1 for the module's own.
func functionAround(x *python.Syntax, statement int) int {
	for i := x.Statements[statement].In; i >= 0; i = x.Statements[i].In {
		if d, ok := x.Definition(x.Statements[i]); ok && !d.Class {
			return i
		}
	}
	return -1
}

// parametersOf are the names of a function's parameters.
func parametersOf(x *python.Syntax, f int) (out []string) {
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

// A binding is a name or attribute and what a statement assigns to it.
type binding struct {
	name  string // "" for a target with a subscript
	at    python.Range
	value python.Range
}

// givenBy are what a statement assigns, also to several targets at once: "a, b = 1, 2". Of values that are not listed
// one by one, each target has all.
func givenBy(x *python.Syntax, st python.Statement) (out []binding) {
	eq := x.Find(st.Range, "=")
	if eq < 0 {
		return nil
	}
	if a, ok := x.Assigns(st); ok {
		return []binding{{a.Name, python.Range{First: st.First, End: eq}, a.Value}}
	}
	left, right := listed(x, python.Range{First: st.First, End: eq}), listed(x, python.Range{First: eq + 1, End: st.End})
	if x.Find(python.Range{First: eq + 1, End: st.End}, "=") >= 0 { // a = b = 1
		return nil
	}
	whole := len(right) == 1 && (x.Is(right[0].First, "map") || x.Is(right[0].First, "("))
	for i, to := range left {
		switch {
		case len(left) == len(right):
			name, _ := x.Dotted(to)
			out = append(out, binding{name, to, right[i]})
		case len(right) == 1 && !whole && len(x.Calls(right[0])) > 0:
			out = append(out, binding{"", to, right[0]})
		}
	}
	return out
}

// listed are the parts of "a, b", with or without brackets around all of them.
func listed(x *python.Syntax, r python.Range) (parts []python.Range) {
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

// accumulatedLater reports whether a name gets the accumulation by a later statement: "n *= accum", "n = n // accum".
func (s *splitReader) accumulatedLater(x *python.Syntax, name string) bool {
	return slices.ContainsFunc(x.Statements, func(st python.Statement) bool {
		for _, op := range []string{"=", "*=", "/=", "//="} {
			at := x.Find(st.Range, op)
			value := python.Range{First: at + 1, End: st.End}
			if at > st.First && x.Is(at-1, name) && s.accumulated(x, value) &&
				(op != "=" || names(x, value, []string{name})) {
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
		if !x.Is(end, "is") && names(x, python.Range{First: i, End: i + 1}, of) {
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
		return !sized.MatchString(c.Name[strings.LastIndexByte(c.Name, '.')+1:])
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
		for _, g := range givenBy(x, st) {
			if isRate(x, g.at) {
				out = append(out, g.value)
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

// loop is the innermost loop around a statement, within its function; -1 where there is none.
func loop(x *python.Syntax, statement int) int {
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

// guarded reports whether a statement, or a condition between it and the loop, depends on the accumulation.
func (s *splitReader) guarded(x *python.Syntax, statement, within int) bool {
	for i := statement; i > within; i = x.Statements[i].In {
		if r := x.Statements[i].Range; (x.Is(r.First, "if") || x.Is(r.First, "elif") || x.Is(r.First, "else")) &&
			(s.accumulated(x, r) || x.Is(r.First, "else") || strings.Contains(x.Of(r), "sync")) {
			return true
		}
	}
	return false
}

var (
	scheduler = lazy.MustCompile(`(?i)sched|warm_?up|lr_`)
	optimizer = lazy.MustCompile(`(?i)optim|(^|\.)opt[a-z]?\d?$|scaler`)
)

// schedules finds a scheduler that advances with every pass, beside an optimizer that does not.
func (s *splitReader) schedules(x *python.Syntax, blocks map[int]int) {
	if !x.Names("step") && !x.Names("step_update") {
		return
	}
	stepping := map[int]bool{} // loops in which the optimizer waits for the accumulation
	for l := range blocks {
		stepping[l] = true
	}
	for i, st := range x.Statements {
		if _, ok := stepsOf(x, optimizer, st); ok {
			if l := loop(x, i); l >= 0 && s.guarded(x, i, l) {
				stepping[l] = true
			}
		}
	}
	for i, st := range x.Statements {
		c, ok := stepsOf(x, scheduler, st)
		if l := loop(x, i); ok && l >= 0 && stepping[l] && !s.waiting(x, i, l, c, blocks) {
			s.add(x, i, c.First, ladder.Recipe,
				"the learning rate's schedule advances with every forward pass, not with every optimizer step")
		}
	}
}

var (
	engines = lazy.MustCompile(`(?i)accelerat|deepspeed|fabric|engine|(^|\.)manual_backward$`)
	summed  = lazy.MustCompile(`(?i)loss\w*\s*\+?=.*\.sum\(|\.sum\(\)\.backward|reduction\s*=\s*["']sum`)
	// scaleFree are optimizers whose steps are the same whatever the scale of the gradients is.
	scaleFree = lazy.MustCompile(`(?i)^\w*(adam|lion|lamb|adafactor|rmsprop|adagrad)\w*$`)
	// plain are calls that divide nothing by what they are given.
	plain = lazy.MustCompile(`^(range|print|int|len|max|min|tqdm|trange|enumerate|islice|format|log|info|debug|write|` +
		`set_postfix\w*|set_description\w*)$`)
	anyScale = lazy.MustCompile(`(?i)^(\w*sgd\w*|lars|muon|clip_grad\w*)$`)
)

// undivided finds gradients that are added up over the passes of a step, where no loss is divided by their number: with
// more passes they are larger.
func (s *splitReader) undivided(x *python.Syntax) {
	if !x.Names("backward") || s.divides() {
		return
	}
	cost := scaleCost(x)
	for i, st := range x.Statements {
		l := loop(x, i)
		if x.Is(st.First, "for") { // with its body on the line
			l = i
		}
		for _, c := range x.Calls(st.Range) {
			if strings.HasSuffix(c.Name, ".backward") && l >= 0 && s.grouping(x, l) && !s.guarded(x, i, l) {
				s.add(x, i, c.First, cost,
					"its loss is not divided by the number of passes of a step, so that the gradients grow with it")
			}
		}
	}
}

// grouping reports whether the passes of a loop are those of a step, or are grouped into steps.
func (s *splitReader) grouping(x *python.Syntax, l int) bool {
	if s.accumulated(x, x.Statements[l].Range) {
		return true
	}
	from, to := x.Block(l)
	for i := from; i < to; i++ {
		if _, ok := stepsOf(x, optimizer, x.Statements[i]); ok && s.guarded(x, i, l) {
			return true
		}
	}
	return false
}

// dividesAnywhere reports whether any file divides by the accumulation, or leaves that to what does.
func (s *splitReader) dividesAnywhere() bool {
	return slices.ContainsFunc(s.sources, func(f python.Source) bool {
		return engines.MatchString(f.Code) || summed.MatchString(f.Code) || s.divided(f)
	})
}

// syntax is that of a file, which is parsed once.
func (s *splitReader) syntax(f python.Source) *python.Syntax {
	x, ok := s.parsed[f.Path]
	if !ok {
		x = f.Syntax()
		s.parsed[f.Path] = x
	}
	return x
}

// divided reports whether a file divides anything by the accumulation, or may: where a call in a loop gets it.
func (s *splitReader) divided(f python.Source) bool {
	if !accumulates.MatchString(f.Code) && !slices.ContainsFunc(s.accumulation, f.Names) {
		return false
	}
	x := s.syntax(f)
	for at, st := range x.Statements {
		for i := st.First; i < st.End; i++ {
			if (x.Is(i, "/") || x.Is(i, "/=")) && s.accumulated(x, python.Range{First: i + 1, End: st.End}) {
				return true
			}
		}
		for _, c := range x.Calls(st.Range) {
			name := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
			if loop(x, at) >= 0 && !plain.MatchString(name) && s.accumulated(x, x.Inside(c.Open)) {
				return true
			}
		}
	}
	return false
}

// stepsOf is the call in a statement by which an optimizer or a scheduler advances.
func stepsOf(x *python.Syntax, whose *lazy.Regexp, st python.Statement) (python.Call, bool) {
	for _, c := range x.Calls(st.Range) {
		i := strings.LastIndexByte(c.Name, '.')
		if whose == scheduler && len(x.Args(c.Open)) > 1 { // of a diffusion: step(noise, time, sample)
			continue
		}
		if i > 0 && (c.Name[i:] == ".step" || c.Name[i:] == ".step_update") && whose.MatchString(c.Name[:i]) ||
			whose == optimizer && i > 0 && c.Name[i:] == ".step" && whose.MatchString(x.Of(x.Inside(c.Open))) {
			return c, true
		}
	}
	return python.Call{}, false
}

var (
	loaders = lazy.MustCompile(`(?i)load|(^|_)dl$|iter`)
	lasting = lazy.MustCompile(`LR$|(?i)schedule|annealing|restarts|onecycle|one_cycle`)
)

// lengths finds a schedule that is as long as the passes, and advances with the optimizer's steps: with more passes for
// each of them it ends later, or never.
func (s *splitReader) lengths(x *python.Syntax, micro []string, blocks map[int]int) {
	waits := false
	for i, st := range x.Statements {
		c, ok := stepsOf(x, scheduler, st)
		l := loop(x, i)
		waits = waits || ok && l >= 0 && x.Inside(c.Open).Empty() && s.waiting(x, i, l, c, blocks)
	}
	if !waits {
		return
	}
	var passes []string
	for grown := true; grown; {
		grown = false
		for _, st := range x.Statements {
			for _, b := range givenBy(x, st) {
				last := b.name[strings.LastIndexByte(b.name, '.')+1:]
				if b.name != "" && !slices.Contains(passes, b.name) && s.counting(x, b.value, passes, micro) &&
					!s.accumulatedLater(x, last) {
					passes, grown = append(passes, b.name), true
				}
			}
		}
	}
	for i, st := range x.Statements {
		for _, c := range x.Calls(st.Range) {
			if !lasting.MatchString(c.Name[strings.LastIndexByte(c.Name, '.')+1:]) {
				continue
			}
			s.grown(x, i, c)
			for _, a := range x.Args(c.Open) {
				if s.counting(x, a.Range, passes, micro) {
					s.add(x, i, c.First, ladder.Recipe,
						"the learning rate's schedule is as long as the forward passes, and advances with the optimizer steps")
				}
			}
		}
	}
}

// counting reports whether a range is a number of passes: len(loader), samples // batch_size, or a name of such.
func (s *splitReader) counting(x *python.Syntax, r python.Range, passes, micro []string) bool {
	if s.accumulated(x, r) {
		return false
	}
	divides := x.Find(r, "//") >= 0 || x.Find(r, "/") >= 0
	for _, c := range x.Calls(r) {
		in := x.Inside(c.Open)
		switch {
		case c.Name == "len" && slices.ContainsFunc(words(x, in), loaders.MatchString):
			return true
		case c.Name != "len" && c.Name != "math.ceil" && !sized.MatchString(c.Name[strings.LastIndexByte(c.Name, '.')+1:]):
			return false
		}
		divides = divides || x.Find(in, "//") >= 0 || x.Find(in, "/") >= 0
	}
	for i := r.First; i < r.End; i++ {
		if name, ok := dottedAt(x, i, r.End); ok && slices.Contains(passes, name) {
			return true
		}
	}
	return divides && names(x, r, micro)
}

// dottedAt is the whole name that begins at a token.
func dottedAt(x *python.Syntax, i, end int) (string, bool) {
	if x.Tokens[i].Kind != python.Word || x.Is(i-1, ".") {
		return "", false
	}
	to := i + 1
	for to+1 < end && x.Is(to, ".") && x.Tokens[to+1].Kind == python.Word {
		to += 2
	}
	return x.Of(python.Range{First: i, End: to}), true
}

// grouped are the tokens after which a range compares a counter with the accumulation: "% accum", "== accum".
func (s *splitReader) grouped(x *python.Syntax, r python.Range) (at int, modulo, ok bool) {
	for i := r.First; i+1 < r.End; i++ {
		if !x.Is(i, "%") && !x.Is(i, "==") && !x.Is(i, ">=") {
			continue
		}
		operand := python.Range{First: i + 1, End: i + 2}
		for operand.End < r.End && (x.Is(operand.End, ".") || x.Is(operand.End, "[") || x.Is(operand.End-1, ".") ||
			x.Is(operand.End-1, "[") || x.Is(operand.End, "]")) {
			operand.End++
		}
		if x.Is(i+1, "(") {
			operand.End = max(operand.End, x.Tokens[i+1].Pair)
		}
		if s.accumulated(x, operand) {
			return i, x.Is(i, "%"), true
		}
	}
	return 0, false, false
}

var (
	data  = lazy.MustCompile(`(?i)load|data|batch|len\(|enumerate|iter|zip|samples|shards`)
	limit = lazy.MustCompile(`(?i)(max|total|num|n|train)_?(train(ing)?_?)?` +
		`(steps?|iters?|iterations|updates)|^steps|^iters`)
)

const (
	countsPasses = "its number of steps counts forward passes, so it makes fewer optimizer updates"
	partialGroup = "the last micro-batches of an epoch may be a partial group, which weighs otherwise or is dropped"
)

// counts finds a training whose length counts passes: with more of them for each optimizer step it makes fewer steps.
func (s *splitReader) counts(x *python.Syntax) {
	const why = countsPasses
	for i, st := range x.Statements {
		at, modulo, ok := s.grouped(x, st.Range)
		if !ok || !modulo {
			continue
		}
		l := loop(x, i)
		if x.Is(st.First, "for") || x.Is(st.First, "while") || l < 0 {
			continue
		}
		header := x.Statements[l].Range
		text := x.Of(header)
		if s.accumulated(x, header) {
			continue
		}
		counter := counted(x, st.Range, at)
		switch {
		case x.Is(header.First, "for") && strings.Contains(text, "range(") && !data.MatchString(text) &&
			!strings.Contains(text, "epoch"):
			s.add(x, i, at, ladder.Recipe, why)
		case x.Is(header.First, "while") && counter != "" && strings.Contains(text, counter) && s.everyPass(x, l, counter):
			s.add(x, i, at, ladder.Recipe, why)
		case counter != "" && s.stopsAt(x, l, counter) && s.everyPass(x, l, counter):
			s.add(x, i, at, ladder.Recipe, why)
		}
	}
}

// counted is the name before "%", as in (step + 1) % accum; "" where it is no name.
func counted(x *python.Syntax, r python.Range, modulo int) string {
	first := modulo - 1
	if x.Is(first, ")") {
		first = x.Tokens[first].Pair + 1
	}
	for i := max(first, r.First); i < modulo; i++ {
		if x.Tokens[i].Kind == python.Word && !x.Is(i, "self") && !x.Is(i, "not") {
			return x.Token(i)
		}
	}
	return ""
}

// everyPass reports whether a loop adds to a counter in each of its passes.
func (s *splitReader) everyPass(x *python.Syntax, l int, counter string) bool {
	from, to := x.Block(l)
	for i := from; i < to; i++ {
		st := x.Statements[i]
		if op := x.Find(st.Range, "+="); op > st.First && x.Is(op-1, counter) && !s.guarded(x, i, l) {
			return true
		}
	}
	return false
}

// stopsAt reports whether a loop ends where a counter reaches a number of steps.
func (s *splitReader) stopsAt(x *python.Syntax, l int, counter string) bool {
	from, to := x.Block(l)
	for i := from; i < to; i++ {
		r := x.Statements[i].Range
		if !x.Is(r.First, "if") || !names(x, r, []string{counter}) {
			continue
		}
		compares := x.Find(r, ">=") >= 0 || x.Find(r, ">") >= 0 || x.Find(r, "==") >= 0
		ends := strings.HasSuffix(x.Of(r), "break") || strings.HasSuffix(x.Of(r), "return")
		for j := i + 1; j < to && !ends; j++ { // of its own block, whatever else stands there
			first := x.Statements[j].First
			ends = x.Statements[j].In == i && (x.Is(first, "break") || x.Is(first, "return"))
		}
		bounded := slices.ContainsFunc(words(x, r), func(w string) bool {
			return limit.MatchString(w) || ending.MatchString(w)
		})
		if compares && ends && bounded {
			return true
		}
	}
	return false
}

func words(x *python.Syntax, r python.Range) (out []string) {
	for i := r.First; i < r.End; i++ {
		if x.Tokens[i].Kind == python.Word {
			out = append(out, x.Token(i))
		}
	}
	return out
}

// partial finds where the passes of an epoch are grouped into optimizer steps, so that the last group may have fewer:
// it is left out, goes on in the next epoch, or weighs otherwise than the last batch as asked.
func (s *splitReader) partial(x *python.Syntax) {
	for i, st := range x.Statements {
		for j := st.First; j < st.End; j++ {
			if x.Is(j, "//") && s.accumulated(x, python.Range{First: j + 1, End: min(j+4, st.End)}) &&
				(strings.Contains(x.Of(st.Range), "len(") || strings.Contains(x.Of(st.Range), "batch")) {
				s.add(x, i, j, ladder.Numerics,
					"the number of optimizer steps is rounded down, so that a partial group of an epoch is dropped")
			}
		}
		at, _, ok := s.grouped(x, st.Range)
		l := loop(x, i)
		if !ok || l < 0 || !x.Is(st.First, "if") {
			continue
		}
		if r := x.Statements[l].Range; (x.Is(r.First, "for") || x.Is(r.First, "while")) && data.MatchString(x.Of(r)) &&
			!s.accumulated(x, r) {
			s.add(x, i, at, ladder.Numerics, partialGroup)
		}
	}
}
