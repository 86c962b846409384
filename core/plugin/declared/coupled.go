package declared

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// What a computation over the samples of a micro-batch is written with. A mean over them is none: that is what a loss
// is.
var (
	// offDiagonal is what Barlow Twins and VICReg take of a correlation over the batch.
	offDiagonal = lazy.MustCompile(`(?i)^off_?diag(onal)?\w*$`)
	// batchSpread are layers with a statistic of the micro-batch, of StyleGAN and after.
	batchSpread = lazy.MustCompile(`(?i)^mini_?batch_?(std(_?dev)?|standard_?deviation|discrimination|stat)\w*$`)
	// spread matches a deviation over the first dimension.
	spread = lazy.MustCompile(`\.(?:std|var)\(\s*(?:dim\s*=\s*|axis\s*=\s*)?0\b`)
	hinged = lazy.MustCompile(`\brelu\(|\bhinge|\bclamp\(`)
	// standardised matches advantages, returns or rewards less their mean.
	standardised = lazy.MustCompile(`(?i)\b(adv\w*|returns?|rewards?)\s*-\s*(?:\w+\.)*` +
		`(adv\w*|returns?|rewards?)\.mean\(`)
	// rows and columns match labels that are laid along one dimension and the other, to be compared with each other.
	rows = lazy.MustCompile(`(?i)\b(\w*(?:labels?|targets?|class(?:es)?|pids?)|y)` +
		`(?:\.(?:contiguous\(\)\.)?(?:view|reshape)\(\s*-1,\s*1\s*\)|` +
		`\.unsqueeze\(\s*(?:1|-1|dim\s*=\s*1)\s*\)|\[:,\s*None\])`)
	columns = lazy.MustCompile(`(?i)\b(\w*(?:labels?|targets?|class(?:es)?|pids?)|y)` +
		`(?:\.(?:view|reshape)\(\s*1,\s*-1\s*\)|\.unsqueeze\(\s*(?:0|dim\s*=\s*0)\s*\)|` +
		`\[None,\s*:\]|\[None\]|\.t\(\)|\.T\b)`)
	// following are names of what follows samples that were seen, a little with each step.
	following = lazy.MustCompile(`(?i)(^|_)(weight_?decay|wd|` +
		`ema(_?(decay|beta|momentum|rate|half_?life))?|momentum|mu)$`)
	warming   = lazy.MustCompile(`(?i)warm_?up`)
	optimizes = lazy.MustCompile(`^(\w*SGD\w*|\w*Adam\w*|\w*RMSprop\w*|Lion\w*|LAMB|Lamb|LARS|Adagrad|Adafactor|` +
		`Muon|Novograd|SAM|create_optimizer\w*|get_optimizer)$`)
	// held are names of what does not come from the batch: prototypes, queues, weights.
	held = lazy.MustCompile(`(?i)proto|cent(er|roid)|queue|bank|weight|memory|class|anchor|codebook|text_feat`)
)

// coupled finds what is computed over the samples of a micro-batch with each other, but for losses that have a name.
func (s *splitReader) coupled(x *python.Syntax) {
	for i, st := range x.Statements {
		if x.Is(st.First, "import") || x.Is(st.First, "from") || x.Is(st.First, "def") || x.Is(st.First, "class") {
			continue
		}
		text := x.Of(st.Range)
		switch {
		case standardised.MatchString(text) && strings.Contains(text, ".std("):
			s.add(x, i, st.First, ladder.Recipe, "advantages are relative to those of the same micro-batch")
		case sameRows(text) && strings.Contains(x.FunctionText(i), "loss"):
			s.add(x, i, st.First, ladder.Recipe, across+": it compares their labels")
		case spread.MatchString(text) && !ungraded(x, i):
			if f := x.FunctionText(i); hinged.MatchString(f) && strings.Contains(f, "loss") {
				s.add(x, i, st.First, ladder.Recipe, across+": it takes their deviation")
			}
		}
		for _, c := range x.Calls(st.Range) {
			s.coupling(x, i, c)
		}
	}
}

// coupling finds what one call shows.
func (s *splitReader) coupling(x *python.Syntax, i int, c python.Call) {
	name := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
	switch {
	case offDiagonal.MatchName(name) && !ungraded(x, i):
		s.add(x, i, c.First, ladder.Recipe, across+": it correlates their features")
	case batchSpread.MatchName(name):
		s.add(x, i, c.First, ladder.Numerics, "%s has a statistic of each micro-batch", name)
	case (name == "cov" || name == "corrcoef") && strings.HasPrefix(c.Name, "torch.") && !ungraded(x, i) &&
		strings.Contains(x.FunctionText(i), "loss"):
		s.add(x, i, c.First, ladder.Recipe, across+": it correlates their features")
	case name == "einsum" && apart.MatchString(x.FunctionText(i)) && !ungraded(x, i) && pairwise(x, x.Args(c.Open)):
		s.add(x, i, c.First, ladder.Recipe, across+": it multiplies their features")
	}
}

// sameRows reports whether labels are compared with themselves, each with each.
func sameRows(text string) bool {
	if !strings.Contains(text, "eq(") && !strings.Contains(text, "==") {
		return false
	}
	for _, r := range rows.FindAllStringSubmatch(text, -1) {
		for _, c := range columns.FindAllStringSubmatch(text, -1) {
			if r[1] == c[1] {
				return true
			}
		}
	}
	return false
}

// pairwise reports whether an einsum multiplies each row of one batch with each of another: "nc,mc->nm".
func pairwise(x *python.Syntax, args []python.Arg) bool {
	if len(args) != 3 {
		return false
	}
	spec, _ := x.Str(args[0].Range)
	in, out, ok := strings.Cut(strings.ReplaceAll(spec, " ", ""), "->")
	a, b, two := strings.Cut(in, ",")
	if !ok || !two || len(a) != 2 || len(b) != 2 || len(out) != 2 || a == b || strings.ContainsRune(a, rune(out[1])) {
		return false
	}
	left, right := x.Words(args[1].Range), x.Words(args[2].Range)
	if slices.ContainsFunc(slices.Concat(left, right), held.MatchString) {
		return false
	}
	return slices.ContainsFunc(left, embedded.MatchString) && slices.ContainsFunc(right, embedded.MatchString) ||
		len(left) > 0 && len(right) > 0 && left[0] == right[0]
}

// follow finds settings beside the learning rate that are computed of the samples of a pass: weight decay, the momentum
// of an average, a warm-up, and whatever else an optimizer is given.
func (s *splitReader) follow(x *python.Syntax, i int, st python.Statement, seen []string) {
	for _, g := range x.Bindings(st) {
		last := g.Name[strings.LastIndexByte(g.Name, '.')+1:]
		switch {
		case following.MatchName(last) && s.pass(x, g.Value, seen):
			s.add(x, i, g.Value.First, ladder.Recipe, "%s follows the micro-batch", last)
		case warming.MatchName(last) && s.counting(x, g.Value, nil, seen) && !s.accumulatedLater(x, last):
			s.add(x, i, g.Value.First, ladder.Recipe, "the warm-up is a number of forward passes")
		}
	}
	for _, c := range x.Calls(st.Range) {
		if !optimizes.MatchName(c.Name[strings.LastIndexByte(c.Name, '.')+1:]) {
			continue
		}
		for n, a := range x.Args(c.Open) {
			if (n == 1 && a.Name == "" || following.MatchName(a.Name)) && s.pass(x, a.Range, seen) {
				s.add(x, i, a.First, ladder.Recipe, "a setting of the optimizer follows the micro-batch")
			}
		}
	}
}

// unused finds an optimizer that steps with every pass although there is an accumulation: it only divides the loss.
func (s *splitReader) unused(x *python.Syntax) {
	if !x.Names("backward") || len(s.accumulation) == 0 || s.engine() {
		return
	}
	for i, st := range x.Statements {
		c, ok := stepsOf(x, optimizer, st)
		l := x.Loop(i)
		if !ok || l < 0 || st.In != l || s.accumulated(x, x.Statements[l].Range) {
			continue
		}
		from, to := x.Block(l)
		passes, waits := false, false
		for j := from; j < to; j++ {
			r := x.Statements[j].Range
			passes = passes || strings.Contains(x.Of(r), ".backward(")
			for _, word := range []string{"if", "elif", "while", "for", "with", "continue"} {
				waits = waits || x.Is(r.First, word) && (s.accumulated(x, r) || word == "continue")
			}
		}
		around := l
		for around >= 0 && !waits {
			waits = s.accumulated(x, x.Statements[around].Range)
			around = x.Loop(around)
		}
		if passes && !waits {
			s.add(x, i, c.First, ladder.Recipe,
				"the optimizer steps with every forward pass, whatever the accumulation is")
		}
	}
}

// engine reports whether any source leaves the accumulation to what steps the optimizer for it.
func (s *splitReader) engine() bool {
	return slices.ContainsFunc(s.sources, func(f python.Source) bool {
		return divides().In(f.Code)&anEngine != 0 && engines.MatchString(f.Code)
	})
}
