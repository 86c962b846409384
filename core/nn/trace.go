package nn

import "github.com/launch-ml/launch/core/unit"

// A Trace is what a tape asks of an allocator, in order: the sequence that [Peak] sums up.
type Trace struct {
	Parts  []TracePart
	Events []Event
}

// A TracePart is a part of the job with its tensors that are there before the first step, in the order of the forward.
type TracePart struct {
	Name    string
	Params  []unit.Bytes
	Weights []unit.Bytes // of Params, those that require a gradient: for them an optimizer has states
	Buffers []unit.Bytes
}

// An Event is a request for a block of so many bytes; without bytes it is the block's return. A negative Block is none:
// it is the end of an optimizer's step, of part -1-Block, whose states are made in the first one.
type Event struct {
	Block int32
	Bytes unit.Bytes
}

// traceParts are the tape's parts with their tensors.
func (t *Tape) traceParts() []TracePart {
	parts := make([]TracePart, len(t.parts))
	for i, name := range t.parts {
		parts[i].Name = name
	}
	var params, weights, buffers []int = make([]int, len(parts)), make([]int, len(parts)), make([]int, len(parts))
	for i := range t.tensors {
		x := &t.tensors[i]
		switch part := t.stores[x.store].part; {
		case x.buffer:
			buffers[part]++
		case x.grad:
			params[part]++
			weights[part]++
		default:
			params[part]++
		}
	}
	all := make([]unit.Bytes, 0, len(t.tensors)+len(t.weights))
	for i := range parts {
		next := func(n int) []unit.Bytes {
			all = all[:len(all)+n]
			return all[len(all)-n : len(all)-n : len(all)]
		}
		parts[i].Params, parts[i].Weights, parts[i].Buffers = next(params[i]), next(weights[i]), next(buffers[i])
	}
	for i := range t.tensors {
		x := &t.tensors[i]
		p := &parts[t.stores[x.store].part]
		switch n := x.Bytes(); {
		case x.buffer:
			p.Buffers = append(p.Buffers, n)
		case x.grad:
			p.Params, p.Weights = append(p.Params, n), append(p.Weights, n)
		default:
			p.Params = append(p.Params, n)
		}
	}
	return parts
}

// ask writes down a request, and giveBack a return.
func (r *replay) ask(bytes int64) int32 {
	r.blocks++
	r.trace = append(r.trace, Event{r.blocks, unit.Bytes(bytes)})
	return r.blocks
}

func (r *replay) giveBack(block int32) {
	if block != 0 {
		r.trace = append(r.trace, Event{Block: block})
	}
}
