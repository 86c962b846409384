package declared

import (
	"strings"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

var (
	clips = lazy.MustCompile(`(^|[._])clip_grad(_norm|_value|s|ients)?_?$`)
	// follows are calls by which a network follows another one, a little with each call.
	follows = lazy.MustCompile(`(?i)(^|[._])ema(_\w+)?\.(update|step|update_parameters)$|` +
		`(^|[._])(update_ema|ema_update|update_parameters|momentum_update\w*|_?momentum_update_\w+|soft_update\w*|` +
		`update_(target|teacher|moving_average|momentum)\w*)$`)
	// spared are words of a condition by which an epoch is cut short for a trial.
	spared  = lazy.MustCompile(`(?i)debug|dry|smoke|sanity|fast|quick|test|overfit|profil|\b(and|or|not)\b`)
	indexed = lazy.MustCompile(`\benumerate\(`)
)

// eachPass finds what is done in each pass of a loop whose optimizer waits for the accumulation: with more passes of a
// step it is done more often, or with gradients that are not whole yet.
func (s *splitReader) eachPass(x *python.Syntax) {
	if !x.Names("step") {
		return
	}
	waits := map[int]bool{}
	for i, st := range x.Statements {
		if _, ok := stepsOf(x, optimizer, st); ok {
			if l := x.Loop(i); l >= 0 && s.guarded(x, i, l) && !s.accumulated(x, x.Statements[l].Range) {
				waits[l] = true
			}
		}
	}
	for i, st := range x.Statements {
		l := x.Loop(i)
		if l < 0 || !waits[l] || s.guarded(x, i, l) {
			continue
		}
		for _, c := range x.Calls(st.Range) {
			switch {
			case clips.MatchName(c.Name):
				s.add(x, i, c.First, ladder.Recipe,
					"gradients are clipped in every forward pass, before those of a step are complete")
			case follows.MatchName(c.Name):
				s.add(x, i, c.First, ladder.Recipe,
					"a moving average is updated with every forward pass, not with every optimizer step")
			}
		}
		if s.cutShort(x, i, l) {
			s.add(x, i, st.First, ladder.Recipe, "its epochs end after a number of forward passes")
		}
	}
}

// cutShort reports whether a statement ends a loop at a number of its passes: "if i >= args.steps: break".
func (s *splitReader) cutShort(x *python.Syntax, i, l int) bool {
	r, header := x.Statements[i].Range, x.Statements[l].Range
	if !x.Is(r.First, "if") || !x.Is(header.First, "for") || !indexed.MatchString(x.Of(header)) ||
		s.accumulated(x, r) || spared.MatchString(x.Of(r)) {
		return false
	}
	body := x.Of(r)
	ends := strings.HasSuffix(body, "break") || i+1 < len(x.Statements) && x.Statements[i+1].In == i &&
		x.Is(x.Statements[i+1].First, "break")
	at := x.Find(r, ">=")
	if at < 0 {
		at = max(x.Find(r, ">"), x.Find(r, "=="))
	}
	return ends && at > r.First && x.HasName(python.Range{First: r.First, End: at}, []string{x.Token(header.First + 1)})
}

// drawn finds a sampler that draws a number of samples for an epoch which follows the micro-batch.
func (s *splitReader) drawn(x *python.Syntax, micro []string) {
	if !x.Names("num_samples") {
		return
	}
	for i, st := range x.Statements {
		for _, c := range x.Calls(st.Range) {
			for _, a := range x.Args(c.Open) {
				if a.Name == "num_samples" && strings.HasSuffix(c.Name, "Sampler") && x.HasName(a.Range, micro) &&
					!s.accumulated(x, a.Range) && x.Find(a.Range, "/") < 0 && x.Find(a.Range, "//") < 0 {
					s.add(x, i, a.First, ladder.Recipe, "the number of samples of an epoch follows the micro-batch")
				}
			}
		}
	}
}

// scaleCost is what gradients of another size cost: with an optimizer whose steps do not depend on it, rounding.
func scaleCost(x *python.Syntax) ladder.Cost {
	free, bound := false, false
	for _, st := range x.Statements {
		for _, c := range x.Calls(st.Range) {
			name := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
			free, bound = free || scaleFree.MatchName(name), bound || anyScale.MatchName(name)
		}
	}
	if free && !bound {
		return ladder.Numerics
	}
	return ladder.Recipe
}
