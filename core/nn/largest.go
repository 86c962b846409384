package nn

import (
	"slices"

	"github.com/launch-ml/launch/core/unit"
)

// LargestParam is the size of the largest parameter that requires a gradient, in the parts of these names, or in all
// for none: what an update that goes from tensor to tensor needs a few times over.
func (t *Tape) LargestParam(parts ...string) (b unit.Bytes) {
	for _, n := range t.weights {
		w := &t.tensors[n]
		if len(parts) == 0 || slices.Contains(parts, t.parts[t.stores[w.store].part]) {
			b = max(b, w.Bytes())
		}
	}
	return b
}
