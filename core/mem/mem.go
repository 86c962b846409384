// Package mem keeps the ledger of memory that a phase of a job will take: lines with a kind, a part and a source.
package mem

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// A Kind says what an amount of memory is for. The first four are the "model states" of the ZeRO paper
// (Rajbhandari et al., 2020, section 3), with buffers beside them.
type Kind string

const (
	Parameters Kind = "parameters"
	Gradients  Kind = "gradients"
	Optimizer  Kind = "optimizer states"
	Buffers    Kind = "buffers"
	Inputs     Kind = "inputs"        // the batch itself, held for the step
	Saved      Kind = "saved tensors" // kept by autograd from forward until backward
	Transients Kind = "transients"    // live beyond the above at the peak, such as gradients of activations
	Workspace  Kind = "workspace"     // asked for by a kernel while it runs
	Context    Kind = "CUDA context"
	Slack      Kind = "allocator slack" // reserved and not allocated
	Runtime    Kind = "runtime"         // on a CPU: the interpreter, torch and their libraries
	Others     Kind = "other processes" // of the same job, on the same card
	Correction Kind = "correction"      // learned from measured runs
	Late       Kind = "late growth"     // appears after the first step
)

// An Item is one line of an estimate.
type Item struct {
	Kind  Kind       `json:"kind"`
	What  string     `json:"what"` // the part, under the recipe's own name: "network_g", "losses.perceptual"
	Bytes unit.Bytes `json:"bytes"`
	Count int64      `json:"count,omitempty"` // elements, for parameters and buffers
	From  string     `json:"from"`            // how the number was reached: a formula, a file, a measurement
	// Guess marks a line that no rule and no measurement on this machine vouches for. Guesses never refuse a job.
	Guess bool `json:"guess,omitempty"`
}

// Title names the line: the part, and the kind where the part does not say it.
func (it Item) Title() string {
	switch {
	case it.What == "" || it.What == string(it.Kind):
		return string(it.Kind)
	case it.Kind == Context && strings.HasSuffix(it.What, " context"): // of a card that is not CUDA's
		return it.What
	}
	return it.What + " " + string(it.Kind)
}

// Counted reports whether the kind follows exactly from shapes; the others depend on kernels, drivers and luck.
func (k Kind) Counted() bool {
	return slices.Contains([]Kind{Parameters, Gradients, Optimizer, Buffers, Inputs, Saved, Transients, Loaders}, k)
}

// Grows reports whether the kind scales with the batch and the image, in host memory also with the loader workers. What
// an attempt measures corrects such lines.
func (k Kind) Grows() bool {
	return slices.Contains([]Kind{Inputs, Saved, Transients, Workspace, Slack, Others, Loaders, Pinned, Decoded, Workers}, k)
}

// An Alloc is a single request to the allocator.
type Alloc struct {
	Bytes unit.Bytes `json:"bytes"`
	What  string     `json:"what"` // which operation asks: "body.0.attn: torch.bmm(q, k)"
}

// An Estimate is the itemised memory of one phase on one device at the phase's peak. It is a value. The zero
// Estimate is empty, which is not the same as unknown.
type Estimate struct {
	Items []Item `json:"items,omitempty"`
	// Allocs are the single requests of the phase that are larger than every earlier one, in order of time:
	// enough to say, for any room, which request would be the first to exceed it.
	Allocs []Alloc `json:"allocs,omitempty"`
	// Unknown, if not empty, says why there is no estimate. Items are then at most a lower bound.
	Unknown string `json:"unknown,omitempty"`
	// Reserved is what the caching allocator comes to hold on a card with room for all it caches
	// (torch.cuda.max_memory_reserved): the phase needs less of it, as its lines say. 0 where that is not known.
	Reserved unit.Bytes `json:"reserved_bytes,omitempty"`
	// AtMost is why the need may well be smaller: the lines that nothing vouches for are for the largest case. "" if they
	// are for this one.
	AtMost string `json:"at_most,omitempty"`
	// Below is what the phase was measured to need at a larger size, where its lines are a guess in proportion to that:
	// it needs no more, and an unknown part of it does not shrink. 0: there is none.
	Below unit.Bytes `json:"-"`
	// Learned names the receipts that corrected it; empty where it is as priced.
	Learned []string `json:"learned,omitempty"`
}

// Known reports whether e estimates the whole phase.
func (e Estimate) Known() bool { return e.Unknown == "" }

// Total is the peak: the sum of the lines.
func (e Estimate) Total() unit.Bytes {
	var sum unit.Bytes
	for _, it := range e.Items {
		sum += it.Bytes
	}
	return sum
}

// Most is the total, or the amount that bounds it where that is all that is known: [Estimate.Below].
func (e Estimate) Most() unit.Bytes { return max(e.Total(), e.Below) }

// Certain is the sum of the lines that are counted and not guessed; or, where the same was measured to need less, that.
func (e Estimate) Certain() unit.Bytes {
	var sum unit.Bytes
	for _, it := range e.Items {
		if !it.Guess && it.Kind.Counted() {
			sum += it.Bytes
		}
	}
	if len(e.Learned) > 0 && e.Known() {
		return min(sum, e.Total())
	}
	return sum
}

// Least is what is known to be needed: the certain lines, and of an estimate that is not whole what failed before.
func (e Estimate) Least() unit.Bytes {
	if !e.Known() && len(e.Learned) > 0 {
		return max(e.Certain(), e.Total())
	}
	return e.Certain()
}

// Vouched is the sum of the lines that a rule or a measurement vouches for: all that are no guess.
func (e Estimate) Vouched() unit.Bytes {
	var sum unit.Bytes
	for _, it := range e.Items {
		if !it.Guess {
			sum += it.Bytes
		}
	}
	return sum
}

// GuessAlone reports whether a guess is all that is known: no line was counted, and no measurement vouches for the
// rest.
func (e Estimate) GuessAlone() bool { return e.Known() && e.Certain() <= 0 && e.Vouched() < e.Total() }

// Of is the sum of the lines of one kind.
func (e Estimate) Of(k Kind) unit.Bytes {
	var sum unit.Bytes
	for _, it := range e.Items {
		if it.Kind == k {
			sum += it.Bytes
		}
	}
	return sum
}

// Growing is the sum of the lines that grow with the batch and the image.
func (e Estimate) Growing() unit.Bytes {
	var sum unit.Bytes
	for _, it := range e.Items {
		if it.Kind.Grows() {
			sum += it.Bytes
		}
	}
	return sum
}

// FirstFailing returns the first single request that exceeds room, or nil.
func (e Estimate) FirstFailing(room unit.Bytes) *Alloc {
	for _, a := range e.Allocs {
		if a.Bytes > room {
			return &a
		}
	}
	return nil
}

// Add appends lines, leaving out those of zero bytes.
func (e *Estimate) Add(items ...Item) {
	for _, it := range items {
		if it.Bytes != 0 {
			e.Items = append(e.Items, it)
		}
	}
}

// Largest keeps in e.Allocs the running maxima of the requests seen so far.
func (e *Estimate) Largest(a Alloc) {
	if n := len(e.Allocs); n == 0 || a.Bytes > e.Allocs[n-1].Bytes {
		e.Allocs = append(e.Allocs, a)
	}
}
