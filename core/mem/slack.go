package mem

import (
	"maps"
	"slices"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// requests is what a phase asks of the allocator, beside what its lines say is kept.
type requests struct {
	peak        nn.Peak
	inputs      string // what the batch is
	first, last int    // the lines of the estimate that the peak accounts for
}

// AddPeak enters the moment at which a tape needs the most, part by part, and its requests. inputs says what the batch is.
func (e *Estimate) AddPeak(p nn.Peak, inputs string) {
	r := &requests{peak: p, inputs: inputs, first: len(e.Items)}
	at := "at the peak, " + p.Moment
	for _, part := range p.Parts {
		what := part.Part
		if what == "" {
			what = "loss"
		}
		e.Add(
			Item{Kind: Inputs, What: what, Bytes: part.Inputs, From: inputs},
			Item{Kind: Saved, What: what, Bytes: part.Saved, From: at},
			Item{Kind: Saved, What: what, Bytes: part.Casts, From: "autocast's copies of the weights, " + at},
			Item{Kind: Gradients, What: what, Bytes: part.Gradients, Count: int64(part.Gradients) / 4, From: at},
			Item{Kind: Transients, What: what, Bytes: part.Transients, From: at},
		)
	}
	for _, a := range p.Allocs {
		e.Largest(Alloc{Bytes: a.Bytes, What: a.What})
	}
	r.last = len(e.Items)
	e.requests = r
}

// kept are the requests behind a line that stays from before the first step, and those that come with the optimizer's
// first. A line is as many tensors as it has parameters, where it is a multiple of them.
func (r *requests) kept(it Item) (sizes []unit.Bytes, part int) {
	for i, p := range r.peak.Trace.Parts {
		if it.What != p.Name {
			continue
		}
		if it.Kind == Optimizer {
			return copies(it.Bytes, p.Weights), i
		}
		for _, tensors := range [][]unit.Bytes{p.Params, p.Buffers, p.Weights} {
			if sizes := copies(it.Bytes, tensors); len(sizes) > 1 {
				return sizes, -1
			}
		}
		return []unit.Bytes{it.Bytes}, -1
	}
	var all []unit.Bytes // of several parts, such as an average of the whole model
	for _, p := range r.peak.Trace.Parts {
		all = append(all, p.Weights...)
		if sizes := copies(it.Bytes, p.Params); len(sizes) > 1 {
			return sizes, -1
		}
	}
	return copies(it.Bytes, all), -1
}

// mostCopies is more copies of a model than anybody keeps of it in one line: the hungriest optimizer here has five states.
const mostCopies = 8

// copies are bytes as whole copies of tensors, or in one piece: a queue that happens to be a multiple of some small part is
// no copy of it.
func copies(bytes unit.Bytes, tensors []unit.Bytes) []unit.Bytes {
	sum := unit.Bytes(0)
	for _, n := range tensors {
		sum += n
	}
	if sum == 0 || bytes%sum != 0 || bytes/sum > mostCopies {
		return []unit.Bytes{bytes}
	}
	return slices.Repeat(tensors, int(bytes/sum))
}

// Replay carries out the requests of an estimate of one phase: what is kept, then two steps, of which the first makes the
// optimizer's states, here and there in what the step has left. (A third changes nothing.) In expandable segments it does
// not matter where they lie: one step, with the states made before, reserves the same within 1 %, and is replayed alone.
// ok is false where the estimate has no sequence of requests.
func (a *Allocator) Replay(e Estimate) (u Usage, ok bool) {
	if e.requests == nil || !e.Known() {
		return Usage{}, false
	}
	s := e.sequence()
	for _, n := range s.kept {
		a.Ask(n)
	}
	if a.Expandable {
		for _, part := range slices.Sorted(maps.Keys(s.states)) { // in one order: the same question has one answer
			for _, n := range s.states[part] {
				a.Ask(n)
			}
			s.states[part] = nil
		}
		s.steps = 1
	}
	held := make([]int32, len(s.events)+1)
	for step := range s.steps {
		for _, ev := range s.events {
			switch {
			case ev.Block < 0:
				if step == 0 {
					for _, n := range s.states[-1-ev.Block] {
						a.Ask(n)
					}
					s.states[-1-ev.Block] = nil // once, however often it steps
				}
			case ev.Bytes > 0:
				held[ev.Block] = a.Ask(ev.Bytes)
			default:
				a.Free(held[ev.Block])
				held[ev.Block] = 0
			}
		}
		for block, id := range held { // gradients that outlive the step make place for those of the next
			if id != 0 {
				a.Free(id)
				held[block] = 0
			}
		}
	}
	return a.Usage(), true
}

// A sequence is what an estimate asks of an allocator.
type sequence struct {
	kept   []unit.Bytes           // from before the first step
	states map[int32][]unit.Bytes // by part, where its optimizer steps: made in the first
	events []nn.Event             // of a step
	steps  int
}

func (e Estimate) sequence() sequence {
	r := e.requests
	s := sequence{states: map[int32][]unit.Bytes{}, events: r.peak.Trace.Events, steps: 1}
	for _, ev := range s.events {
		if ev.Block < 0 {
			s.states[-1-ev.Block], s.steps = nil, 2
		}
	}
	for i, it := range e.Items {
		if i >= r.first && i < r.last || !slices.Contains(tensors, it.Kind) {
			continue
		}
		sizes, part := r.kept(it)
		if _, steps := s.states[int32(part)]; steps && part >= 0 {
			s.states[int32(part)] = append(s.states[int32(part)], sizes...)
		} else {
			s.kept = append(s.kept, sizes...)
		}
	}
	return s
}

// small is what the small pool holds at its fullest.
func (s sequence) small() (peak unit.Bytes) {
	sum := unit.Bytes(0)
	ask := func(n unit.Bytes) unit.Bytes {
		if n = rounded(n); n > smallSize {
			return 0
		}
		sum += n
		peak = max(peak, sum)
		return n
	}
	for _, n := range s.kept {
		ask(n)
	}
	for _, sizes := range s.states {
		for _, n := range sizes {
			ask(n)
		}
	}
	held := make([]unit.Bytes, len(s.events)+1)
	for _, ev := range s.events {
		switch {
		case ev.Bytes > 0:
			held[ev.Block] = ask(ev.Bytes)
		case ev.Block > 0:
			sum -= held[ev.Block]
		}
	}
	return peak
}

// tensors are the kinds of lines that are tensors of their own beside what the tape asks for.
var tensors = []Kind{Parameters, Gradients, Optimizer, Buffers, Inputs}

// slackShare of the live tensors that grow is what the caching allocator reserves beyond them at the peak, where the
// sequence of requests is not known. 3 to 10 % is what is reported for regular shapes.
const slackShare = 0.05

// slack is what the caching allocator needs beyond the tensors: rounding, and free blocks that serve no later request. It
// is replayed in a room that just holds the tensors, at whose end the allocator gives back what it can before it asks for
// more: what is merely cached is no need. reserved is what it comes to hold with all of that, where there is room for it; 0
// where the requests are not known.
func (e Estimate) slack(expandable bool) (it Item, reserved unit.Bytes) {
	it = Item{Kind: Slack, What: string(Slack), Guess: true}
	if e.requests == nil || !e.Known() {
		it.Bytes, it.From = unit.Bytes(slackShare*float64(e.Growing())), "5 % of what grows: 3 to 10 % are reported for regular shapes"
		if expandable {
			it.Bytes, it.From = 40*unit.MiB, "expandable segments: a page of 20 MiB or 2 MiB a pool and stream"
		}
		return it, 0
	}
	live := e.live()
	coarse := e.sequence().small() < live/minor
	free := Allocator{Expandable: expandable, Coarse: coarse}
	u, _ := free.Replay(e)
	need := u.Reserved
	if need-live > live/100 { // much is cached: how much of it is needed?
		tight := Allocator{Expandable: expandable, Limit: live, Coarse: coarse}
		u, _ := tight.Replay(e)
		need = min(need, u.Reserved)
	}
	it.Guess, it.Bytes, it.From = false, max(0, need-live), "the caching allocator replayed in segments of 2 and 20 MiB or more"
	if expandable {
		it.From = "the caching allocator replayed in expandable segments"
	}
	return it, u.Reserved
}

// minor is the share of the tensors, as a divisor, below which the small pool is taken for one piece.
const minor = 30

// live is the sum of the lines that are tensors.
func (e Estimate) live() (sum unit.Bytes) {
	if e.requests == nil {
		return 0
	}
	for i, it := range e.Items {
		if i >= e.requests.first && i < e.requests.last || slices.Contains(tensors, it.Kind) {
			sum += it.Bytes
		}
	}
	return sum
}

// OnCard adds what a process takes on a card beside its tensors: the allocator's slack, the workspace of cuBLAS and
// cuBLASLt, the context.
func (e *Estimate) OnCard(d gpu.Device, expandable bool) {
	it, reserved := e.slack(expandable)
	e.Reserved = reserved
	e.Add(it, BLASWorkspace(d.Capability), BLASLtWorkspace(d.Capability), CUDAContext(d.Name, d.Total))
}
