package declared

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// With accelerate an optimizer waits without a condition of its own: inside "with accelerator.accumulate(model):" its
// steps are left out but for the last pass of a group. A scheduler waits there, too, if prepare() got it.

// groupers are the loops whose passes such a block groups into steps, each with its block's statement.
func groupers(x *python.Syntax) map[int]int {
	if !x.Names("accumulate") {
		return nil
	}
	out := map[int]int{}
	for i, st := range x.Statements {
		if !x.Is(st.First, "with") {
			continue
		}
		for _, c := range x.Calls(st.Range) {
			if l := loop(x, i); l >= 0 && strings.HasSuffix(c.Name, ".accumulate") {
				out[l] = i
			}
		}
	}
	return out
}

// prepared reports whether prepare() gets a scheduler, or may: what is not in the file is not known.
func prepared(x *python.Syntax, name string) bool {
	calls := false
	for _, st := range x.Statements {
		for _, c := range x.Calls(st.Range) {
			if !strings.HasSuffix(c.Name, ".prepare") && !strings.HasSuffix(c.Name, ".prepare_scheduler") {
				continue
			}
			calls = true
			in := x.Inside(c.Open)
			if x.Find(in, "*") >= 0 || slices.Contains(words(x, in), name) {
				return true
			}
		}
	}
	return !calls
}

// waiting reports whether the call by which a scheduler advances waits for the last pass of a group.
func (s *splitReader) waiting(x *python.Syntax, statement, l int, c python.Call, blocks map[int]int) bool {
	if s.guarded(x, statement, l) {
		return true
	}
	_, groups := blocks[l]
	owner := strings.TrimSuffix(strings.TrimSuffix(c.Name, ".step_update"), ".step")
	return groups && prepared(x, owner[strings.LastIndexByte(owner, '.')+1:])
}

// grown finds a part of a schedule that is multiplied by the accumulation, though the schedule advances with the
// optimizer's steps: a warm-up of so many passes.
func (s *splitReader) grown(x *python.Syntax, statement int, c python.Call) {
	for _, a := range x.Args(c.Open) {
		if at := x.Find(a.Range, "*"); at >= 0 && x.Find(a.Range, "/") < 0 && x.Find(a.Range, "//") < 0 &&
			s.accumulated(x, a.Range) {
			s.add(x, statement, at, ladder.Recipe,
				"the learning rate's schedule grows with the accumulation, and advances with the optimizer steps")
		}
	}
}

// ending are the names of a number at which a training ends.
var ending = lazy.MustCompile(`(?i)^(end|last|final|stop)_?(at_?)?(step|iter|iteration)s?$`)

// ofBlocks finds what accelerate's blocks change: a number of steps that counts passes, and a last group of an epoch
// that has fewer.
func (s *splitReader) ofBlocks(x *python.Syntax, blocks map[int]int) {
	for l, block := range blocks {
		header := x.Statements[l].Range
		text := x.Of(header)
		if s.accumulated(x, header) {
			continue
		}
		for _, counter := range s.counters(x, l) {
			inHeader := x.Is(header.First, "while") && slices.Contains(words(x, header), counter)
			if inHeader || s.stopsAt(x, l, counter) {
				s.add(x, block, x.Statements[block].First, ladder.Recipe, countsPasses)
			}
		}
		ranged := x.Is(header.First, "for") && strings.Contains(text, "range(")
		switch {
		case ranged && !data.MatchString(text) && !strings.Contains(text, "epoch"):
			s.add(x, block, x.Statements[block].First, ladder.Recipe, countsPasses)
		case !ranged && data.MatchString(text):
			s.add(x, block, x.Statements[block].First, ladder.Numerics, partialGroup)
		}
	}
}

// counters are the names to which a loop adds in each of its passes.
func (s *splitReader) counters(x *python.Syntax, l int) (names []string) {
	from, to := x.Block(l)
	for i := from; i < to; i++ {
		op := x.Find(x.Statements[i].Range, "+=")
		if op <= x.Statements[i].First {
			continue
		}
		name := x.Token(op - 1)
		if !slices.Contains(names, name) && s.everyPass(x, l, name) {
			names = append(names, name)
		}
	}
	return names
}
