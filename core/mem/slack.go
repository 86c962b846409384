package mem

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// Tensors is the estimate of what a phase's tensors take, on every device alike, with the requests behind its lines: they decide what a
// process takes beside its tensors.
type Tensors struct {
	Estimate
	requests *requests // nil where they are not known
}

// Unpriced is no estimate, and why.
func Unpriced(why string) Tensors { return Tensors{Estimate: Estimate{Unknown: why}} }

// requests is what a phase asks of the allocator, beside what its lines say is kept.
type requests struct {
	peak        nn.Peak
	keeper      *keeper // of the peak's parts
	inputs      string  // what the batch is
	first, last int     // the lines of the estimate that the peak accounts for
}

// AddPeak enters the moment at which a tape needs the most, part by part, and its requests. inputs says what the batch is.
func (e *Tensors) AddPeak(p nn.Peak, inputs string) { e.addPeak(p, inputs, newKeeper(p.Trace.Parts)) }

func (e *Tensors) addPeak(p nn.Peak, inputs string, k *keeper) {
	r := &requests{peak: p, keeper: k, inputs: inputs, first: len(e.Items)}
	at := "at the peak, " + p.Moment
	for _, part := range p.Parts {
		what := part.Part
		if what == "" {
			what = "loss"
		}
		if what == nn.CuDNN {
			e.Add(Item{Kind: Workspace, What: what, Bytes: part.Transients, From: fmt.Sprintf(
				"copies as NHWC of the input (%v) and the result (%v), %s", p.Copies.Input, p.Copies.Result, at)})
			continue
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

// A line is what is asked for behind a line of an estimate: so many copies of a list of tensors.
type copied struct {
	tensors []unit.Bytes
	sum     unit.Bytes
	times   int
}

func (c copied) number() int { return c.times * len(c.tensors) }

// mostCopies is more copies of a model than anybody keeps of it in one line: the hungriest optimizer here has five states.
const mostCopies = 8

// of are bytes as whole copies of tensors, or in one piece: a queue that happens to be a multiple of some small part is no
// copy of it.
func (c copied) of(bytes unit.Bytes) copied {
	if c.sum == 0 || bytes%c.sum != 0 || bytes/c.sum > mostCopies {
		return copied{tensors: []unit.Bytes{bytes}, sum: bytes, times: 1}
	}
	c.times = int(bytes / c.sum)
	return c
}

func newCopied(tensors []unit.Bytes) copied {
	c := copied{tensors: tensors}
	for _, n := range tensors {
		c.sum += n
	}
	return c
}

// A keeper knows which tensors the lines of an estimate are made of.
type keeper struct {
	parts []kept
	all   copied // the parameters of every part that require a gradient
}

// kept is a part's tensors that are there before the first step.
type kept struct {
	name                     string
	params, buffers, weights copied
}

func newKeeper(parts []nn.TracePart) *keeper {
	k, n := &keeper{}, 0
	for _, p := range parts {
		n += len(p.Weights)
	}
	k.parts = make([]kept, 0, len(parts))
	all := make([]unit.Bytes, 0, n)
	for _, p := range parts {
		k.parts = append(k.parts, kept{p.Name, newCopied(p.Params), newCopied(p.Buffers), newCopied(p.Weights)})
		all = append(all, p.Weights...)
	}
	k.all = newCopied(all)
	return k
}

// kept are the requests behind a line that stays from before the first step, and those that come with the optimizer's
// first, which are of a part by its number; -1 for the others. A line is as many tensors as it has parameters, where it is
// a multiple of them.
func (k *keeper) kept(it Item) (c copied, part int) {
	for i, p := range k.parts {
		if it.What != p.name {
			continue
		}
		if it.Kind == Optimizer {
			return p.weights.of(it.Bytes), i
		}
		for _, tensors := range [...]copied{p.params, p.buffers, p.weights} {
			if c := tensors.of(it.Bytes); c.number() > 1 {
				return c, -1
			}
		}
		return copied{}.of(it.Bytes), -1
	}
	for _, p := range k.parts {
		if c := p.params.of(it.Bytes); c.number() > 1 {
			return c, -1
		}
	}
	return k.all.of(it.Bytes), -1 // of several parts, such as an average of the whole model
}

// A sequence is what an estimate asks of an allocator: what is kept, then two steps, of which the first makes the
// optimizer's states, here and there in what the step has left. (A third changes nothing.)
type sequence struct {
	kept     []copied // from before the first step
	states   []states // made in the first, by part
	nn.Trace          // of a step
	steps    int
}

// states are what a part's optimizer makes where it steps.
type states struct {
	part int32
	made []copied
}

func (e Tensors) sequence() sequence {
	r := e.requests
	s := sequence{Trace: r.peak.Trace, steps: 1}
	for _, ev := range s.Events {
		if part := -1 - ev.Block; ev.Block < 0 && s.of(part) == nil {
			s.states, s.steps = append(s.states, states{part: part}), 2
		}
	}
	slices.SortFunc(s.states, func(a, b states) int { return cmp.Compare(a.part, b.part) })
	for i, it := range e.Items {
		if i >= r.first && i < r.last || !slices.Contains(tensors, it.Kind) {
			continue
		}
		c, part := r.keeper.kept(it)
		if at := s.of(int32(part)); at != nil {
			at.made = append(at.made, c)
		} else {
			s.kept = append(s.kept, c)
		}
	}
	return s
}

// of are the states of a part, or nil.
func (s sequence) of(part int32) *states {
	for i := range s.states {
		if s.states[i].part == part {
			return &s.states[i]
		}
	}
	return nil
}

// small is what the small pool holds at its fullest.
func (s sequence) small() (peak unit.Bytes) {
	sum := unit.Bytes(0)
	ask := func(n unit.Bytes) {
		if n = rounded(n); n <= smallSize {
			sum += n
			peak = max(peak, sum)
		}
	}
	all := func(cs []copied) {
		for _, c := range cs {
			for range c.times {
				for _, n := range c.tensors {
					ask(n)
				}
			}
		}
	}
	all(s.kept)
	for _, p := range s.states {
		all(p.made)
	}
	p := plays.Get().(*play) // for its memory
	defer plays.Put(p)
	held := p.hold(len(s.Events))
	for _, ev := range s.Events {
		switch {
		case ev.Size > 0:
			before := sum
			ask(s.Sizes[ev.Size])
			held[ev.Block] = int32((sum - before) / minBlock)
		case ev.Block > 0:
			sum -= unit.Bytes(held[ev.Block]) * minBlock
		}
	}
	return peak
}

// Replay carries out the requests of an estimate of one phase. In expandable segments it does not matter where the
// optimizer's states lie: one step, with the states made before, reserves the same within 1 %, and is replayed alone. ok is
// false where the estimate has no sequence of requests.
func (a *Allocator) Replay(e Tensors) (u Usage, ok bool) {
	if e.requests == nil || !e.Known() {
		return Usage{}, false
	}
	p := plays.Get().(*play)
	defer plays.Put(p)
	own := p.Allocator
	p.Allocator = a
	p.begin(e.sequence())
	p.end()
	p.Allocator = own
	return a.Usage(), true
}

// A play is an allocator at some moment of a sequence.
type play struct {
	*Allocator
	sequence
	step, next int     // the event to come
	made       []bool  // by part with states: they are
	held       []int32 // by block of the events
	floor      floor
}

// A floor is an allocator that holds what the last sequences began with: the parameters of one model, mostly, thousands of
// them, in every phase and on every rung.
type floor struct {
	kept []copied
	Allocator
}

// asked returns how many of the lines the floor holds, if a play in that allocator would hold them so: none or all of its own.
// A limit changes nothing: while nothing has been freed, nothing can be given back.
func (f *floor) asked(kept []copied, a *Allocator) int {
	n := len(f.kept)
	if n > len(kept) || f.Caching != a.Caching || f.Coarse != a.Coarse {
		return 0
	}
	for i, c := range f.kept {
		if c.times != kept[i].times || c.sum != kept[i].sum || !slices.Equal(c.tensors, kept[i].tensors) {
			return 0
		}
	}
	return n
}

// plays pools plays, to reuse their buffers.
var plays = sync.Pool{New: func() any { return &play{Allocator: &Allocator{}} }}

// with empties the allocator.
func (p *play) with(c Caching, coarse bool, limit unit.Bytes) {
	p.reset()
	p.Caching, p.Coarse, p.Limit = c, coarse, limit
}

// as makes p what q is.
func (p *play) as(q *play) {
	p.Allocator.as(q.Allocator)
	p.sequence, p.step, p.next = q.sequence, q.step, q.next
	p.made, p.held = append(p.made[:0], q.made...), append(p.held[:0], q.held...)
}

// hold is room for what a step's events hold.
func (p *play) hold(events int) []int32 {
	if cap(p.held) <= events {
		p.held = make([]int32, 2*events+1)
	}
	p.held = p.held[:events+1]
	clear(p.held)
	return p.held
}

// begin asks for what is kept.
func (p *play) begin(s sequence) {
	p.sequence = s
	p.hold(len(s.Events))
	p.step, p.next, p.made = 0, 0, append(p.made[:0], make([]bool, len(s.states))...)
	n := 0
	if len(p.blocks) == 0 {
		n = p.stand()
	}
	p.askAll(s.kept[n:])
	if p.Expandable {
		for i := range s.states { // in one order: the same question has one answer
			p.make(i)
		}
		p.steps = 1
	}
}

// stand asks for as much of what is kept as another sequence will begin with, in an empty allocator, or takes it from the
// floor. It returns how many lines that is.
func (p *play) stand() int {
	if n := p.floor.asked(p.kept, p.Allocator); n > 0 {
		limit := p.Limit
		p.Allocator.as(&p.floor.Allocator)
		p.Limit = limit
		return n
	}
	n := slices.IndexFunc(p.kept, func(c copied) bool { return c.number() == 1 }) // what a setting has made, such as a queue
	if n <= 0 {
		return 0
	}
	p.askAll(p.kept[:n])
	p.floor.kept = append(p.floor.kept[:0], p.kept[:n]...)
	p.floor.Allocator.as(p.Allocator)
	return n
}

// end carries out the rest.
func (p *play) end() {
	events, sizes, held, a := p.Events, p.Sizes, p.held, p.Allocator // many events: none of these changes
	for ; p.step < p.steps; p.step, p.next = p.step+1, 0 {
		for ; p.next < len(events); p.next++ {
			switch ev := events[p.next]; {
			case ev.Block < 0:
				for i := range p.states {
					if p.states[i].part == -1-ev.Block {
						p.make(i)
					}
				}
			case ev.Size > 0:
				held[ev.Block] = a.Ask(sizes[ev.Size])
			default:
				a.Free(held[ev.Block])
				held[ev.Block] = 0
			}
		}
		for block, id := range p.held { // gradients that outlive the step make place for those of the next
			if id != 0 {
				p.Free(id)
				p.held[block] = 0
			}
		}
	}
}

// make makes a part's states, once, however often it steps.
func (p *play) make(i int) {
	if p.made[i] {
		return
	}
	p.made[i] = true
	f := p.brim.f
	p.brim.f = nil // in their midst is no event to go on from
	p.askAll(p.states[i].made)
	p.brim.f = f
}

func (p *play) askAll(cs []copied) {
	for _, c := range cs {
		for range c.times {
			for _, n := range c.tensors {
				p.Ask(n)
			}
		}
	}
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
func (e Tensors) slack(c Caching) (it Item, reserved unit.Bytes) {
	it = Item{Kind: Slack, What: string(Slack), Guess: true}
	if e.requests == nil || !e.Known() {
		it.Bytes, it.From = unit.Bytes(slackShare*float64(e.Growing())), "5 % of what grows: 3 to 10 % are reported for regular shapes"
		if c.Expandable {
			it.Bytes, it.From = 40*unit.MiB, "expandable segments: a page of 20 MiB or 2 MiB a pool and stream"
		}
		return it, 0
	}
	live, requests := e.live(), e.sequence()
	need, reserved := requests.need(live, c, requests.small() < live/minor)
	it.Guess, it.Bytes, it.From = c.Other != "", max(0, need-live), "the caching allocator replayed in segments of 2 and 20 MiB or more"
	if c.Expandable {
		it.From = "the caching allocator replayed in expandable segments"
	}
	if c.MaxSplit > 0 {
		it.From += fmt.Sprintf(", none above %v split", c.MaxSplit)
	}
	if c.Other != "" {
		it.From += "; as without " + c.Other
	}
	return it, reserved
}

// need is what has to be reserved for the requests in a room that just holds their live bytes, and what is reserved where
// there is room for all. The two are one sequence until the room is full, and are carried out once until then.
func (s sequence) need(live unit.Bytes, c Caching, coarse bool) (need, reserved unit.Bytes) {
	p, tight := plays.Get().(*play), plays.Get().(*play)
	defer plays.Put(p)
	defer plays.Put(tight)
	p.with(c, coarse, 0)
	p.begin(s)
	forked := false
	if p.now.Reserved <= live {
		p.whenFull(live, func() { tight.as(p); forked = true })
	}
	p.end()
	reserved = p.usage.Reserved
	if reserved-live <= live/100 {
		return reserved, reserved
	}
	if forked { // much is cached: how much of it is needed?
		tight.Limit = live
	} else {
		tight.with(c, coarse, live)
		tight.begin(s)
	}
	tight.end()
	return min(reserved, tight.usage.Reserved), reserved
}

// minor is the share of the tensors, as a divisor, below which the small pool is taken for one piece.
const minor = 30

// live is the sum of the lines that are tensors.
func (e Tensors) live() (sum unit.Bytes) {
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

// OnCard is the estimate with what a process takes on a card beside its tensors: the allocator's slack, the workspace of cuBLAS and
// cuBLASLt, the context.
func (e Tensors) OnCard(d gpu.Device, c Caching) Estimate {
	it, reserved := e.slack(c)
	out := e.Alone()
	out.Reserved = reserved
	out.guessCopies(d)
	out.Add(it, BLASWorkspace(d), BLASLtWorkspace(d), DeviceContext(d))
	return out
}

// guessCopies marks cuDNN's copies as a guess on another architecture than that of the only card that has shown them.
func (e *Estimate) guessCopies(d gpu.Device) {
	const ada = "8.9"
	for i := range e.Items {
		if it := &e.Items[i]; it.Kind == Workspace && it.What == nn.CuDNN && !it.Guess && d.Capability != ada {
			it.Guess, it.From = true, it.From+"; as on an RTX 4090"
			if d.Kind == gpu.HIP {
				it.What, it.From = "MIOpen", "not known: what cuDNN takes, "+it.From
			}
		}
	}
}

// Alone is the estimate of the tensors, with lines of its own.
func (e Tensors) Alone() Estimate {
	out := e.Estimate
	out.Items = slices.Clone(out.Items)
	return out
}

// Beside adds the other processes of a job that stand on the same card, processes in all, each with the needs of this one. It is a
// guess, for their peaks need not come at the same moment.
func (e *Estimate) Beside(processes int64, why string) {
	if processes < 2 || !e.Known() {
		return
	}
	e.Add(Item{Kind: Others, What: string(Others), Bytes: unit.Bytes(processes-1) * e.Total(), Guess: true,
		From: fmt.Sprintf("%d more, each as this one: %s", processes-1, why)})
	e.Reserved *= unit.Bytes(processes)
}
