package oom

import (
	"github.com/launch-ml/launch/core/oom/printed"
	"github.com/launch-ml/launch/core/unit"
)

// gpuKind decides why a GPU's allocator refused, from its numbers alone. The order of the rules matters:
//
//  1. more was asked for than the card has, or the numbers cannot be true: capacity
//  2. a limit on this process was reached while the card had room: fragmentation if the reserved memory would have sufficed,
//     else capacity, marked as a limit
//  3. far more than the request was free: neither full nor in pieces, so another limit than the card's memory
//  4. others hold more than a tenth of the card and more than 1 GiB: contention
//  5. the reserved, unallocated memory would have sufficed, and is a twentieth of the card or more: fragmentation. The
//     allocator has given back all whole blocks before it prints, so this is external fragmentation by definition
//  6. numbers that a paste has cut would decide between these: unspecified
//  7. else capacity
//
// The thresholds were set on collected logs, where most requests are tiny and most cards full: there the fragments would
// have lasted for a step or two.
func gpuKind(n *printed.Numbers) (kind Kind, limit bool) {
	if n.Requested == nil {
		return GPUUnspecified, false
	}
	if n.Capacity == nil {
		if n.Allowed != nil && n.Allocated != nil {
			return GPUCapacity, true // MPS: the high-water mark
		}
		return GPUUnspecified, false
	}
	requested, capacity := *n.Requested, *n.Capacity
	allocated, reserved := unit.Value(n.Allocated), unit.Value(n.Reserved)
	free := unit.Value(n.Free)
	unallocated := max(0, reserved-allocated)
	served := n.Reserved != nil && unallocated >= requested && unallocated*20 >= capacity
	switch {
	case requested > capacity || allocated > capacity+capacity/50:
		return GPUCapacity, false
	case n.Allowed != nil && n.Free != nil && free >= requested:
		if served {
			return GPUFragmentation, true
		}
		return GPUCapacity, true
	case n.Roomy():
		return GPUUnspecified, false
	case n.Listed() && n.OtherHeld() > max(capacity/10, unit.GiB):
		return GPUContention, false
	case n.Allocated == nil && n.Reserved == nil && n.ProcessInUse == nil:
		if n.Free == nil || free >= requested {
			return GPUUnspecified, false // refused though there was room, for an unknown reason
		}
		return GPUCapacity, false
	case n.Free != nil && (n.Reserved != nil || n.ProcessInUse != nil) && n.OtherHeld() > max(capacity/10, unit.GiB):
		return GPUContention, false
	case served:
		return GPUFragmentation, false
	case n.Undecided():
		return GPUUnspecified, false
	}
	return GPUCapacity, n.Allowed != nil && unit.Value(n.Allowed)-reserved < requested
}
