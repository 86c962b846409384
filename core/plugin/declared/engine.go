package declared

import (
	"fmt"
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
			if l := x.Loop(i); l >= 0 && strings.HasSuffix(c.Name, ".accumulate") {
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
			if x.Find(in, "*") >= 0 || slices.Contains(x.Words(in), name) {
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
			inHeader := x.Is(header.First, "while") && slices.Contains(x.Words(header), counter)
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

// counters are the names to which a loop adds in each of its passes: n += 1, self.n += 1, state["n"] += 1.
func (s *splitReader) counters(x *python.Syntax, l int) (names []string) {
	from, to := x.Block(l)
	for i := from; i < to; i++ {
		op := x.Find(x.Statements[i].Range, "+=")
		if op <= x.Statements[i].First || x.Loop(i) != l || s.guarded(x, i, l) {
			continue
		}
		name := x.Token(op - 1)
		if x.Is(op-1, "]") && x.Tokens[op-2].Kind == python.String {
			name, _ = python.Literal(x.Token(op - 2))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// groupedLoops are the loops whose passes are grouped into optimizer steps: by a block, or by a condition.
func (s *splitReader) groupedLoops(x *python.Syntax, blocks map[int]int) map[int]bool {
	loops := map[int]bool{}
	for l := range blocks {
		loops[l] = true
	}
	for i, st := range x.Statements {
		if _, ok := stepsOf(x, optimizer, st); ok {
			if l := x.Loop(i); l >= 0 && s.guarded(x, i, l) {
				loops[l] = true
			}
		}
	}
	return loops
}

var (
	// keeper is what is saved and loaded as a whole.
	keeper = lazy.MustCompile(`(?i)^(train_?)?(state|checkpoint|ckpt)s?$`)
	// counterName tells a counter of passes from a sum of losses.
	counterName = lazy.MustCompile(`(?i)step|iter|batch|pass|^n$|^i$|^it$|count`)
)

// states finds where a saved state counts forward passes. With other passes in a step it is of another place of the
// training, and what goes on from it trains for more steps or for fewer.
func (s *splitReader) states(x *python.Syntax, blocks map[int]int) {
	for l := range s.groupedLoops(x, blocks) {
		for _, counter := range s.counters(x, l) {
			if !counterName.MatchName(counter) || s.saved != "" {
				continue
			}
			for i, st := range x.Statements {
				if s.restores(x, st, counter) && s.used(x, i) {
					s.saved = fmt.Sprintf("its saved state counts forward passes (%s)", x.Place(x.LineOf(st.First)))
					break
				}
			}
		}
	}
	if len(s.groupedLoops(x, blocks)) > 0 && s.saved == "" {
		s.skipping(x)
	}
}

// restores reports whether a statement takes a counter out of a saved state, or counts in it, and does not scale it.
func (s *splitReader) restores(x *python.Syntax, st python.Statement, counter string) bool {
	if op := x.Find(st.Range, "+="); op > st.First+3 && x.Is(op-1, "]") && x.Tokens[op-2].Kind == python.String {
		key, _ := python.Literal(x.Token(op - 2))
		return key == counter && keeper.MatchName(x.Token(op-4))
	}
	for _, b := range x.Bindings(st) {
		if b.Name[strings.LastIndexByte(b.Name, '.')+1:] != counter || s.accumulated(x, b.Value) ||
			s.accumulatedLater(x, counter) {
			continue
		}
		for i := b.Value.First; i < b.Value.End; i++ {
			if x.Tokens[i].Kind == python.String && (x.Is(i-1, "[") || x.Is(i-1, "(") && x.Is(i-2, "get")) {
				if key, _ := python.Literal(x.Token(i)); counterName.MatchString(key) && !optionsOf(x, i) {
					return true
				}
			}
		}
	}
	return false
}

// optionsOf reports whether a key is of the program's settings: cfg["step"] is no state.
func optionsOf(x *python.Syntax, key int) bool {
	at := key - 2
	if x.Is(at, "get") {
		at -= 2
	}
	return at < 0 || settingsName.MatchName(x.Token(at))
}

var settingsName = lazy.MustCompile(`(?i)^(args?|opts?|cfg|conf|config|hparams|hps|flags|params|options|settings)$`)

// skipping finds where a resume passes over as many batches as it has read of a state's name, whatever their size.
func (s *splitReader) skipping(x *python.Syntax) {
	for i, st := range x.Statements {
		for _, c := range x.Calls(st.Range) {
			args := x.Args(c.Open)
			if !strings.HasSuffix(c.Name, "skip_first_batches") || len(args) < 2 || s.accumulated(x, args[1].Range) {
				continue
			}
			name := x.Of(args[1].Range)
			scaled := slices.ContainsFunc(x.Statements, func(o python.Statement) bool {
				return slices.ContainsFunc(x.Bindings(o), func(b python.Binding) bool {
					return b.Name == name && s.accumulated(x, b.Value)
				})
			})
			if !scaled && !s.accumulatedLater(x, name) && s.used(x, i) {
				s.saved = fmt.Sprintf("its saved state counts forward passes (%s)", x.Place(x.LineOf(c.First)))
				return
			}
		}
	}
}
