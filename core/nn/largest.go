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

// A Weight is a parameter, and where it lies: "model.embed_tokens.weight".
type Weight struct {
	Path string
	Tensor
}

// Trained are the parameters of a part that require a gradient, in the order in which they were first used.
func (t *Tape) Trained(part string) []Weight { return t.parameters(part, true) }

// Untrained are the parameters of a part that never require a gradient, in that order, too.
func (t *Tape) Untrained(part string) []Weight { return t.parameters(part, false) }

func (t *Tape) parameters(part string, trained bool) (all []Weight) {
	at := map[int32]int32{}
	for n := range t.nodes {
		at[t.nodes[n].tensor-1] = int32(n)
	}
	for n, w := range t.tensors {
		if !w.buffer && w.grad == trained && t.parts[t.stores[w.store].part] == part {
			all = append(all, Weight{t.path(at[int32(n)]), w.Tensor})
		}
	}
	return all
}
