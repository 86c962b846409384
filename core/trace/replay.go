package trace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// The phases of a trace.
const (
	Building   = "building"
	Training   = "training"
	Validation = "validation"
)

// A Phase is what one phase of a script holds at its fullest.
type Phase struct {
	Name     string
	Batches  int // seen of it, and used
	Estimate mem.Estimate
}

// settled are the optimizer steps from which the fullest moment of training was seen: an optimizer makes its states at
// the first, and only the pass after it has all of them beside its activations.
const settled = 2

// block is what the allocator rounds up to, as in core/mem.
const block = 512

func rounded(n unit.Bytes) unit.Bytes { return max(block, (n+block-1)/block*block) }

// Phases prices the phases that were seen, on a card. The building of the model is one only where it holds more than
// what follows.
func (t *Trace) Phases(d gpu.Device, c mem.Caching) []Phase {
	names := t.named()
	fullest := map[string]int{} // phase -> the event at which it holds most
	batches := t.batches(names)
	most := map[string]unit.Bytes{}
	sizes := map[int32]unit.Bytes{}
	var live unit.Bytes
	for i, e := range t.Events {
		switch e.What {
		case Allocated:
			sizes[e.ID] = rounded(e.Bytes)
			live += sizes[e.ID]
			if name := names[i]; live > most[name] {
				most[name], fullest[name] = live, i
			}
		case Freed:
			live -= sizes[e.ID]
			delete(sizes, e.ID)
		}
	}
	if most[Building] <= max(most[Training], most[Validation]) {
		delete(fullest, Building)
	}
	kinds := t.kinds()
	var out []Phase
	for _, name := range []string{Building, Training, Validation} {
		if at, ok := fullest[name]; ok {
			p := Phase{name, batches[name], t.estimate(names, at, kinds, d, c)}
			p.Estimate.Unknown = t.unknown(names, name)
			out = append(out, p)
		}
	}
	return out
}

// unknown is why the fullest moment of a phase was not seen; "" if it was.
func (t *Trace) unknown(names []string, name string) string {
	for i, e := range t.Events {
		if e.What == Unknown && names[i] == name {
			return e.Why
		}
	}
	switch {
	case name == Validation && t.cut(names):
		return "it was cut short: " + t.stopped()
	case name != Training:
	case t.End.Steps < settled && (t.End.Steps == 0 || !t.End.Whole): // one that makes no more has its peak there
		return fmt.Sprintf("only %d optimizer step was traced, and its states come with the first", t.End.Steps)
	case t.End.Waiting > 0:
		return fmt.Sprintf("%d of the optimizers had not stepped when the trace ended, and their states come with the "+
			"first step", t.End.Waiting)
	}
	return ""
}

// cut reports whether the trace broke off in a validation before two batches of the same shapes had been through, after
// which the others would have needed no more.
func (t *Trace) cut(names []string) bool {
	if !t.End.Cut || names[len(names)-1] != Validation {
		return false
	}
	first, _ := around(names, len(names)-1)
	shapes, given, reads := map[int]bool{}, 0, 0 // those that were read after the last forward pass are not through
	for _, e := range t.Events[first:] {
		switch {
		case e.What != Marked:
		case e.Mark.Name == "batch":
			shapes[e.Mark.Shape] = true
			reads++
		case e.Mark.Name == "forward":
			given, reads = given+reads, 0
		}
	}
	return len(shapes) != 1 || given < 3 // the third has begun
}

// batches are how many of each phase were used. Loaders read ahead, so one counts where a forward pass first has it; in
// a phase whose forward passes show none, as values may have gone another way, those that were given count.
func (t *Trace) batches(names []string) map[string]int {
	used, given, known := map[string]int{}, map[string]int{}, map[int]bool{}
	for i, e := range t.Events {
		if e.What != Marked {
			continue
		}
		if e.Mark.Name == "batch" {
			given[names[i]]++
		}
		for _, b := range e.Mark.Used {
			if !known[b] {
				known[b] = true
				used[names[i]]++
			}
		}
	}
	for name, n := range given {
		used[name] = cmp.Or(used[name], n)
	}
	return used
}

// around are the first and the last event of the run of a phase in which an event lies.
func around(names []string, at int) (first, last int) {
	for first = at; first > 0 && names[first-1] == names[at]; first-- {
	}
	for last = at; last+1 < len(names) && names[last+1] == names[at]; last++ {
	}
	return first, last
}

// kinds are the kinds of storages, as far as they were told.
func (t *Trace) kinds() map[int32]string {
	kinds := map[int32]string{}
	for _, e := range t.Events {
		if e.What == Kind {
			kinds[e.ID] = e.Kind
		}
	}
	return kinds
}

// named names the phase of each event. Events are parted where a loader gives a batch and where an optimizer has
// stepped; where no loader is seen, also where the script turns from training to evaluating. A part with a backward
// pass or a step is training, one that only evaluates is validation. One that only reads ahead belongs to what follows,
// any other to what it follows.
func (t *Trace) named() []string {
	names := make([]string, len(t.Events))
	loads := slices.ContainsFunc(t.Events, func(e Event) bool { return e.What == Marked && e.Mark.Name == "batch" })
	begin, now, mode := 0, "", -1
	last, ahead := Building, -1 // ahead: the first event that waits for the name of what follows
	name := func(from, to int, name string) {
		for ; from < to; from++ {
			names[from] = name
		}
	}
	end := func(i int, reads bool) {
		switch {
		case now != "":
			if last = now; ahead >= 0 {
				begin = ahead
			}
			name(begin, i, now)
			ahead = -1
		case ahead < 0 && reads:
			ahead = begin
		case ahead < 0:
			name(begin, i, last)
		}
		begin, now = i, ""
	}
	reads := false // the part began with a batch, and no module was called
	for i, e := range t.Events {
		if e.What != Marked {
			continue
		}
		switch m := e.Mark; m.Name {
		case "batch":
			end(i, reads)
			reads = true
		case "step":
			now, reads = Training, false
			end(i+1, reads)
		case "backward":
			now = Training
		case "forward":
			trains := 0
			if m.Grad || m.Training {
				trains = 1
			}
			if !loads && mode >= 0 && trains != mode {
				end(i, false)
			}
			mode, reads = trains, false
			if now == "" && !(m.Grad && m.Training) { // one of both is often forgotten
				now = Validation
			}
		}
	}
	end(len(t.Events), false)
	if ahead >= 0 {
		name(ahead, len(names), last)
	}
	return names
}

// estimate prices the moment at which a phase holds most.
func (t *Trace) estimate(names []string, at int, kinds map[int32]string, d gpu.Device,
	c mem.Caching) (e mem.Estimate) {
	name := names[at]
	held := map[int32]int{} // what is live then, and where it was allocated
	backward, batch := -1, -1
	for i, ev := range t.Events[:at+1] {
		switch {
		case ev.What == Allocated:
			held[ev.ID] = i
		case ev.What == Freed:
			delete(held, ev.ID)
		case ev.What == Marked && ev.Mark.Name == "batch":
			batch = i
		case ev.What == Marked && ev.Mark.Name == "forward":
			if batch >= 0 && backward < batch || len(ev.Mark.Used) > 0 {
				backward = -1
			}
		case ev.What == Marked && ev.Mark.Name == "backward":
			backward = i
		case ev.What == Marked && ev.Mark.Name == "step":
			backward = -1
		}
	}
	from := fmt.Sprintf("traced with torch %s, %d steps", t.End.Torch, t.End.Steps)
	sums := map[mem.Kind]unit.Bytes{}
	var live unit.Bytes
	for id, i := range held {
		kind, ok := modelStates[kinds[id]]
		switch {
		case ok:
		case name == Training && backward >= 0 && i > backward:
			kind = mem.Transients
		case name == Training:
			kind = mem.Saved
		default:
			kind = mem.Transients
		}
		n := rounded(t.Events[i].Bytes)
		sums[kind] += n
		live += n
	}
	for _, k := range slices.SortedFunc(maps.Keys(sums), func(a, b mem.Kind) int {
		return cmp.Compare(slices.Index(mem.Kinds(), a), slices.Index(mem.Kinds(), b))
	}) {
		// a compiled program keeps other tensors than the eager one that was traced
		guess := k == mem.Workspace || t.End.Compiled && (k == mem.Saved || k == mem.Transients)
		e.Add(mem.Item{Kind: k, What: string(k), Bytes: sums[k], From: from, Guess: guess})
	}
	first, last := around(names, at)
	need, reserved := t.replay(first, last, live, c)
	e.Reserved = reserved
	e.Add(mem.Item{Kind: mem.Slack, What: string(mem.Slack), Bytes: max(0, need-live), Guess: c.Other != "",
		From: "the caching allocator replayed on what was traced"},
		mem.BLASWorkspace(d), mem.BLASLtWorkspace(d), mem.DeviceContext(d))
	return e
}

// modelStates are the kinds that the tracer tells of.
var modelStates = map[string]mem.Kind{"parameter": mem.Parameters, "gradient": mem.Gradients, "state": mem.Optimizer,
	"buffer": mem.Buffers, "workspace": mem.Workspace}

// replay is what the caching allocator reserves for a phase of which so much lives at its fullest, from its first event
// to its last: the smallest room found in which it runs, where it gives back what is merely cached before it asks for
// more, and what it comes to hold where there is room for all. Where no smaller room is found it needs that.
func (t *Trace) replay(first, last int, live unit.Bytes, c mem.Caching) (need, reserved unit.Bytes) {
	reserved = t.held(first, last, 0, c)
	for range rooms {
		if need = t.held(first, last, live, c); need <= live {
			return min(need, reserved), reserved
		}
		live = need // what it lacked there leaves other gaps in a room that has it
	}
	return reserved, reserved
}

// rooms are tried at the most. Two or three are enough as a rule.
const rooms = 10

// held is the most that the allocator holds between two events, with a limit from the first of them on; 0: none.
func (t *Trace) held(first, last int, limit unit.Bytes, c mem.Caching) (most unit.Bytes) {
	a := mem.Allocator{Caching: c}
	blocks := map[int32]int32{}
	for i, e := range t.Events[:last+1] {
		if i == first && limit > 0 {
			a.GiveBack()
			a.Limit = limit
		}
		switch e.What {
		case Allocated:
			if e.Bytes > 0 {
				blocks[e.ID] = a.Ask(e.Bytes)
			}
		case Freed:
			if b, ok := blocks[e.ID]; ok {
				a.Free(b)
				delete(blocks, e.ID)
			}
		}
		if i >= first {
			most = max(most, a.Held())
		}
	}
	return most
}

// A Step is what one optimizer step was made of.
type Step struct {
	Optimizer int // its number
	Passes    int // backward passes since an optimizer has stepped
	// Samples are those of the batches that were used since this optimizer has stepped; where none are seen, those that
	// entered the outermost module with gradients. -1: not known.
	Samples int
	Loaded  bool // they are of batches: a forward pass may have its samples in another dimension than the first
}

// StepsSeen lists the optimizer steps of the trace.
func (t *Trace) StepsSeen() (steps []Step) {
	sizes := t.trained()
	var forwards []Mark
	begun := map[int]int{} // optimizer -> the forwards before its last step
	names, backwards, last := t.named(), 0, 0
	for i, e := range t.Events {
		if e.What != Marked {
			continue
		}
		switch m := e.Mark; m.Name {
		case "forward":
			if m.Grad && names[i] != Validation {
				forwards = append(forwards, m)
			}
		case "backward":
			backwards++
		case "step":
			from := begun[m.Optimizer]
			n, seen := entered(forwards[:from], forwards[from:], sizes)
			if backwards > 0 { // of several that step at once, each has the same
				last = backwards
			}
			if !seen && len(forwards)-from > last {
				n = -1 // one module after another, or another batch: which it is, is not known
			}
			steps = append(steps, Step{m.Optimizer, last, n, seen})
			begun[m.Optimizer], backwards = len(forwards), 0
		}
	}
	return steps
}

// trained are the sizes of the batches, by their number, of those loaders that are trained on: a script may show
// samples in between with gradients, and in training mode, of which there is no backward pass.
func (t *Trace) trained() map[int]int {
	of, trains, group := map[int]Mark{}, map[int]bool{}, map[int]bool{}
	reads := false
	for _, e := range t.Events {
		if e.What != Marked {
			continue
		}
		switch e.Mark.Name {
		case "batch":
			if of[len(of)+1] = e.Mark; !reads {
				clear(group)
			}
			group[e.Mark.Loader], reads = true, true
		case "forward":
			reads = false
		case "backward":
			maps.Copy(trains, group)
		}
	}
	sizes := map[int]int{}
	for n, m := range of {
		if trains[m.Loader] {
			sizes[n] = m.Samples
		}
	}
	return sizes
}

// second are the second steps of each optimizer, as the first may follow a shorter pass.
func (t *Trace) second() (steps []Step) {
	of := map[int]int{}
	for _, s := range t.StepsSeen() {
		if of[s.Optimizer]++; of[s.Optimizer] == 2 {
			steps = append(steps, s)
		}
	}
	return steps
}

// entered are the samples of the forward passes of a step: each batch counts once, however often it is used and in how
// many pieces, and one that was in a step before does so only where there is no other. seen is whether there were
// batches.
func entered(before, now []Mark, sizes map[int]int) (n int, seen bool) {
	old, used := map[int]bool{}, map[int]bool{}
	for _, m := range before {
		for _, b := range m.Used {
			old[b] = true
		}
	}
	for _, m := range now {
		for _, b := range m.Used {
			if _, ok := sizes[b]; ok {
				used[b] = true
			}
		}
	}
	anew := maps.Clone(used)
	maps.DeleteFunc(anew, func(b int, _ bool) bool { return old[b] })
	if len(anew) > 0 {
		used = anew
	}
	for b := range used {
		if sizes[b] < 0 {
			return -1, true
		}
		n += sizes[b]
	}
	if len(used) > 0 {
		return n, true
	}
	for _, m := range now {
		if m.Samples < 0 {
			return -1, false
		}
		n += m.Samples
	}
	return n, false
}
