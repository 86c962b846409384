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
	if slices.ContainsFunc(r.namesOf(r.Micro), unitName.MatchString) {
		return fmt.Sprintf("%s is no number of samples", nameOf(r.micro.at))
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
	"size-unit", "batch_by", "batch-by", "batch_mode", "batch-mode", "sampler_type", "sampler-type"}

// readSplit reads what another micro-batch changes, the dearest first: of the training, and of one that goes on. micro
// and accumulation are the names of the settings in the source. It decides by the text alone: what is in a function
// that nothing calls does not count.
func readSplit(files []python.Source, micro, accumulation []string) *splitReader {
	s := &splitReader{accumulation: accumulation, sources: files, parsed: map[string]*python.Syntax{}}
	s.divides, s.anySum = sync.OnceValue(s.dividesAnywhere), sync.OnceValue(s.sumsAnywhere)
	for _, f := range files { // few files have any of this, and only these are parsed
		sizes := (mayRate(f.Code) || mayFollow(f.Code)) && slices.ContainsFunc(micro, f.Names)
		accumulates := strings.Contains(f.Code, "accum") || strings.Contains(f.Code, "update_freq") ||
			slices.ContainsFunc(accumulation, f.Names)
		draws := strings.Contains(f.Code, "num_samples") && slices.ContainsFunc(micro, f.Names)
		marks := tells().In(f.Text)
		losses, couples := compares(f, marks), mayCouple(marks)
		if !sizes && !accumulates && !losses && !couples && !draws {
			continue
		}
		x := s.syntax(f)
		if losses {
			s.losses(x)
		}
		if couples {
			s.coupled(x)
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
			s.unused(x)
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
			x.Loop(i) >= 0 && s.used(x, i) {
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

// mayFollow is the same of what else may follow the samples of a pass.
func mayFollow(text string) bool {
	return strings.Contains(text, "arm") && warming.MatchString(text) || strings.Contains(text, "decay") ||
		strings.Contains(text, "ema") || strings.Contains(text, "momentum")
}

type splitReader struct {
	sources      []python.Source
	accumulation []string
	found        []effect
	parsed       map[string]*python.Syntax // by path
	divides      func() bool               // whether any file divides by the accumulation
	anySum       func() bool               // whether any loss may be a sum
	sumCalls     map[string]bool           // functions and classes that return a sum over samples; nil: not looked for yet
	sumKinds     map[string]bool           // of these, the classes
	groups       bool                      // passes of a loop are grouped into optimizer steps
	saved        string                    // why a state that is saved at another micro-batch is none to go on from; ""
}

// add adds an effect, where the code in which the statement stands is used at all. Of each reason the first counts.
func (s *splitReader) add(x *python.Syntax, statement, token int, cost ladder.Cost, format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	same := func(e effect) bool { return strings.HasPrefix(e.why, why+" (") }
	if !slices.ContainsFunc(s.found, same) && s.used(x, statement) {
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

var accumulates = lazy.MustCompile(`(?i)accum|grad_acc|^update_freq$`)

// accumulations are names of what returns the accumulation: accumulation_iters(devices).
var accumulations = lazy.MustCompile(`(?i)(steps?|iters?|factor|count|num)$`)

// accumulated reports whether a range names the accumulation.
func (s *splitReader) accumulated(x *python.Syntax, r python.Range) bool {
	if x.HasName(r, s.accumulation) {
		return true
	}
	for i := r.First; i < r.End; i++ {
		if x.Tokens[i].Kind == python.Word && accumulates.MatchName(x.Token(i)) &&
			(!x.Is(i+1, "(") || accumulations.MatchName(x.Token(i))) {
			return true
		}
	}
	return false
}
