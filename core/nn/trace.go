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
		parts[i] = t.sizes[i].tensors
		parts[i].Name = name
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
