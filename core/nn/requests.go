package nn

import "github.com/launch-ml/launch/core/unit"

// Requests replays the tape and calls f before each request to the allocator is met, with what is live then: an
// out-of-memory's "tried to allocate" and "already allocated", without parameters, buffers and optimizer states.
func (t *Tape) Requests(f func(a Alloc, backward bool, live unit.Bytes)) {
	r := newReplay(t)
	defer r.done()
	r.watch = func(bytes int64, o *op, back bool) {
		f(Alloc{unit.Bytes(bytes), t.where(o)}, back, unit.Bytes(r.live))
	}
	r.list(t.ops, 0)
}
