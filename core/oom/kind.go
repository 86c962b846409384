package oom

import "github.com/launch-ml/launch/core/unit"

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
func gpuKind(n *Numbers) (kind Kind, limit bool) {
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
	case n.Allocated == nil && n.Reserved == nil && n.ProcessInUse == nil:
		if n.Free == nil || free >= requested {
			return GPUUnspecified, false // refused though there was room, for an unknown reason
		}
		return GPUCapacity, false
	case n.Free != nil && (n.Reserved != nil || n.ProcessInUse != nil) && n.OtherHeld() > max(capacity/10, unit.GiB):
		return GPUContention, false
	case served:
		return GPUFragmentation, false
	case n.undecided():
		return GPUUnspecified, false
	}
	return GPUCapacity, n.Allowed != nil && unit.Value(n.Allowed)-reserved < requested
}

// undecided reports whether the numbers that are missing may be those of contention or of fragmentation: what is
// neither free nor known to be this process's is large enough for one of them.
func (n *Numbers) undecided() bool {
	if n.Reserved != nil && n.Free != nil || n.ProcessInUse != nil || n.Allowed != nil {
		return false
	}
	rest := *n.Capacity - unit.Value(n.Free) - n.own()
	pieces := n.Reserved == nil && rest >= *n.Requested && rest*20 >= *n.Capacity
	return pieces || rest > max(*n.Capacity/10, unit.GiB)
}

// Roomy reports whether far more than the request was free when it was refused: a twentieth of the card and 1 GiB
// beyond it. Our choice: a card that is nearly full may refuse a little less than it reports as free.
func (n *Numbers) Roomy() bool {
	return n.Requested != nil && n.Capacity != nil && n.Free != nil && n.Allowed == nil && *n.Requested <= *n.Capacity &&
		*n.Free-*n.Requested > max(*n.Capacity/20, unit.GiB)
}

// Siblings is how many other processes of one size hold the card, each no more than a context and a few buffers: the
// ranks of one job that all began on the same card. 0 where there are fewer than three.
func (n *Numbers) Siblings() int {
	const context, alike = 2 * unit.GiB, 64 * unit.MiB
	most := 0
	for _, p := range n.Others {
		same := 0
		for _, q := range n.Others {
			if d := p.Bytes - q.Bytes; q.Bytes <= context && d <= alike && d >= -alike {
				same++
			}
		}
		most = max(most, same)
	}
	if most < 3 {
		return 0
	}
	return most
}

// own is what this process holds of the card, as far as can be known.
func (n *Numbers) own() unit.Bytes {
	if n.ProcessInUse != nil && *n.ProcessInUse >= unit.Value(n.Allocated) { // a broken NVML reports 0
		return *n.ProcessInUse
	}
	reserved := max(unit.Value(n.Reserved), unit.Value(n.Allocated))
	// In a container NVML's pids are the host's, so our own process is listed as "Process N"; it is the one that holds
	// what we reserved and a CUDA context.
	for _, p := range n.Others {
		if p.Bytes >= reserved && p.Bytes <= reserved+4*unit.GiB {
			return p.Bytes
		}
	}
	return reserved + min(unit.GiB, unit.Value(n.Capacity)*6/100)
}

// OtherHeld is what other processes hold; never negative.
func (n *Numbers) OtherHeld() unit.Bytes {
	if n.Capacity == nil || n.Free == nil {
		return 0
	}
	return max(0, *n.Capacity-*n.Free-n.own())
}
