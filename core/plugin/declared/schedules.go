package declared

import (
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

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
	stepping := s.groupedLoops(x, blocks) // in which the optimizer waits for the accumulation
	for i, st := range x.Statements {
		c, ok := stepsOf(x, scheduler, st)
		if l := x.Loop(i); ok && l >= 0 && stepping[l] && !s.waiting(x, i, l, c, blocks) {
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
		l := x.Loop(i)
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
		marks := divides().In(f.Code) // these patterns are slow, and this is asked of every file
		return marks&anEngine != 0 && engines.MatchString(f.Code) || marks&aSum != 0 && sumsLoss(f.Code) ||
			(marks&anAccumulation != 0 || slices.ContainsFunc(s.accumulation, f.Names)) && s.divided(f)
	})
}

// What a word stands for in what dividesAnywhere looks for.
const (
	anEngine uint64 = 1 << iota
	aSum
	anAccumulation
)

var divides = sync.OnceValue(func() *lazy.Finder {
	return lazy.NewFinder(map[uint64][]string{
		anEngine:       {"accelerat", "deepspeed", "fabric", "engine", "manual_backward"},
		aSum:           {"sum"},
		anAccumulation: {"accum", "grad_acc"},
	})
})

// sumsLoss reports whether a line of the code makes the loss a sum.
func sumsLoss(code string) bool {
	for line := range strings.Lines(code) {
		if strings.Contains(line, "sum") && summed.MatchString(line) {
			return true
		}
	}
	return false
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
	x := s.syntax(f)
	for at, st := range x.Statements {
		for i := st.First; i < st.End; i++ {
			if (x.Is(i, "/") || x.Is(i, "/=")) && s.accumulated(x, python.Range{First: i + 1, End: st.End}) {
				return true
			}
		}
		for _, c := range x.Calls(st.Range) {
			name := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
			if x.Loop(at) >= 0 && !plain.MatchName(name) && s.accumulated(x, x.Inside(c.Open)) {
				return true
			}
		}
	}
	return false
}

// stepsOf is the call in a statement by which an optimizer or a scheduler advances.
func stepsOf(x *python.Syntax, whose *lazy.Regexp, st python.Statement) (python.Call, bool) {
	if !strings.Contains(x.Of(st.Range), "step") {
		return python.Call{}, false
	}
	for _, c := range x.Calls(st.Range) {
		i := strings.LastIndexByte(c.Name, '.')
		if whose == scheduler && len(x.Args(c.Open)) > 1 { // of a diffusion: step(noise, time, sample)
			continue
		}
		if i > 0 && (c.Name[i:] == ".step" || c.Name[i:] == ".step_update") && whose.MatchName(c.Name[:i]) ||
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
		l := x.Loop(i)
		waits = waits || ok && l >= 0 && x.Inside(c.Open).Empty() && s.waiting(x, i, l, c, blocks)
	}
	if !waits {
		return
	}
	var passes []string
	for grown := true; grown; {
		grown = false
		for _, st := range x.Statements {
			for _, b := range x.Bindings(st) {
				last := b.Name[strings.LastIndexByte(b.Name, '.')+1:]
				if b.Name != "" && !slices.Contains(passes, b.Name) && s.counting(x, b.Value, passes, micro) &&
					!s.accumulatedLater(x, last) {
					passes, grown = append(passes, b.Name), true
				}
			}
		}
	}
	for i, st := range x.Statements {
		for _, c := range x.Calls(st.Range) {
			if !lasting.MatchName(c.Name[strings.LastIndexByte(c.Name, '.')+1:]) {
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
		case c.Name == "len" && slices.ContainsFunc(x.Words(in), loaders.MatchString):
			return true
		case c.Name != "len" && c.Name != "math.ceil" && !sized.MatchName(c.Name[strings.LastIndexByte(c.Name, '.')+1:]):
			return false
		}
		divides = divides || x.Find(in, "//") >= 0 || x.Find(in, "/") >= 0
	}
	for i := r.First; i < r.End; i++ {
		if name, ok := x.DottedAt(i, r.End); ok && slices.Contains(passes, name) {
			return true
		}
	}
	return divides && x.HasName(r, micro)
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
		l := x.Loop(i)
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
		if !x.Is(r.First, "if") || !x.HasName(r, []string{counter}) {
			continue
		}
		compares := x.Find(r, ">=") >= 0 || x.Find(r, ">") >= 0 || x.Find(r, "==") >= 0
		ends := strings.HasSuffix(x.Of(r), "break") || strings.HasSuffix(x.Of(r), "return")
		for j := i + 1; j < to && !ends; j++ { // of its own block, whatever else stands there
			first := x.Statements[j].First
			ends = x.Statements[j].In == i && (x.Is(first, "break") || x.Is(first, "return"))
		}
		bounded := slices.ContainsFunc(x.Words(r), func(w string) bool {
			return limit.MatchName(w) || ending.MatchName(w)
		})
		if compares && ends && bounded {
			return true
		}
	}
	return false
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
		l := x.Loop(i)
		if !ok || l < 0 || !x.Is(st.First, "if") {
			continue
		}
		if r := x.Statements[l].Range; (x.Is(r.First, "for") || x.Is(r.First, "while")) && data.MatchString(x.Of(r)) &&
			!s.accumulated(x, r) {
			s.add(x, i, at, ladder.Numerics, partialGroup)
		}
	}
}
