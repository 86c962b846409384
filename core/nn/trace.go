package nn

import "github.com/launch-ml/launch/core/unit"

// A Trace is what a tape asks of an allocator, in order: the sequence that [Peak] sums up.
type Trace struct {
	Parts  []TracePart
	Sizes  []unit.Bytes // every size that is asked for, once, behind a first one of 0
	Events []Event
}

// A TracePart is a part of the job with its tensors that are there before the first step, in the order of the forward.
type TracePart struct {
	Name    string
	Params  []unit.Bytes
	Weights []unit.Bytes // of Params, those that require a gradient: for them an optimizer has states
	Buffers []unit.Bytes
}

// An Event is a request for a block of so many bytes, by its number in Sizes; of number 0 it is the block's return. A
// negative Block is none: it is the end of an optimizer's step, of part -1-Block, whose states are made in the first one.
type Event struct {
	Block int32
	Size  int32
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

// sizes are numbers for sizes, in a table by their hash: a network asks for some hundred of them, thousands of times.
type sizes struct {
	all   []unit.Bytes
	table []int32 // twice as large as all at least; 0 is nobody
}

func (s *sizes) reset() {
	s.all = append(s.all[:0], 0)
	if s.table == nil {
		s.table = make([]int32, 1024)
	}
	clear(s.table)
}

// number is that of a size of at least 1.
func (s *sizes) number(bytes int64) int32 {
	at := s.at(bytes)
	if s.table[at] == 0 {
		s.all = append(s.all, unit.Bytes(bytes))
		s.table[at] = int32(len(s.all) - 1)
		if 2*len(s.all) > len(s.table) {
			s.table = make([]int32, 2*len(s.table))
			for i, n := range s.all[1:] {
				s.table[s.at(int64(n))] = int32(i + 1)
			}
			return int32(len(s.all) - 1)
		}
	}
	return s.table[at]
}

// at is where a size stands or would stand. Sizes have many zeros at their end, so the hash is of the upper bits of a
// product with 2⁶⁴ over the golden ratio (Knuth, The Art of Computer Programming 3, section 6.4).
func (s *sizes) at(bytes int64) int {
	mask := len(s.table) - 1
	at := int(uint64(bytes) * 0x9E3779B97F4A7C15 >> 40)
	for ; ; at++ {
		if n := s.table[at&mask]; n == 0 || s.all[n] == unit.Bytes(bytes) {
			return at & mask
		}
	}
}

// ask writes down a request, and giveBack a return.
func (r *replay) ask(bytes int64) int32 {
	r.blocks++
	r.trace = append(r.trace, Event{r.blocks, r.sizes.number(bytes)})
	return r.blocks
}

func (r *replay) giveBack(block int32) {
	if block != 0 {
		r.trace = append(r.trace, Event{Block: block})
	}
}
