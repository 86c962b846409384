package mem

import (
	"fmt"
	"slices"
)

// Kinds lists every kind, in the order of a ledger: a script may rely on there being no other.
func Kinds() []Kind {
	return []Kind{Parameters, Gradients, Optimizer, Buffers, Inputs, Saved, Transients, Workspace, Context, Slack, Runtime, Others, Correction, Late,
		Loaders, Pinned, Decoded, Workers, HostModel, Saving}
}

// Check reports how a line is none that a ledger can have: of no kind there is, of no part, with fewer than zero bytes
// where nothing was learned, or with parameters or buffers that nobody counted.
func (it Item) Check() error {
	switch {
	case !slices.Contains(Kinds(), it.Kind):
		return fmt.Errorf("%q of %s is no kind of memory; the kinds are %q", it.Kind, it.What, Kinds())
	case it.What == "":
		return fmt.Errorf("%v of %s belong to no part", it.Bytes, it.Kind)
	case it.Bytes < 0 && it.Kind != Correction:
		return fmt.Errorf("%s of %s is %d bytes", it.Kind, it.What, it.Bytes)
	case (it.Kind == Parameters || it.Kind == Buffers) && it.Count <= 0:
		return fmt.Errorf("%s of %s have %v and no count of elements", it.Kind, it.What, it.Bytes)
	}
	return nil
}
