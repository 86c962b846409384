// Package nodes carries one run on several machines, each with a launch of its own: that of node 0 decides, and those
// of
// the other nodes follow it. They make each attempt together, and an out-of-memory on one node ends it on all.
//
// The launches speak over TCP with TLS. Both sides prove that they know the same key, so that nobody else decides.
package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A Place is a node among those of a run.
type Place struct {
	Node, Nodes int
	Address     string // HOST:PORT of node 0
}

const (
	// Meeting is how long a launch waits for those of the other nodes to start.
	Meeting = 10 * time.Minute
	// soon is how long the others may end by themselves after a node ran out of memory.
	soon = 3 * time.Second
	// later is the same after another failure: the launcher may save or report something.
	later = 30 * time.Second
)

// patience is how long the other nodes have after an outcome; 0: as long as they need.
func patience(o *run.Outcome) time.Duration {
	switch {
	case o.Ending == run.OutOfMemory, o.Untaken != "":
		return soon
	case o.Ending == run.Succeeded, o.Silent:
		return 0
	}
	return later
}

// A result is the outcome of one node.
type result struct {
	node  int
	out   run.Outcome
	ended bool // launch ended the program because of another node
}

// merge makes one outcome of those of all nodes, in the order in which they came. What decides is the first that is no
// success; one that ran out of memory comes before all others, which may only be its consequence. Only rank 0 saves
// states
// and prints how far the training is. It is on node 0, unless a rendezvous of torchrun's has given the numbers out.
func merge(results []result) run.Outcome {
	first := slices.MinFunc(results, func(a, b result) int { return cmp.Compare(a.weight(), b.weight()) })
	teller := slices.MinFunc(results, func(a, b result) int {
		return cmp.Or(cmp.Compare(a.mute(), b.mute()),
			cmp.Compare(a.node, b.node))
	})
	out, o := teller.out, first.out
	if first.node == teller.node || first.weight() == fine {
		return out
	}
	out.Ending, out.Report, out.Phase, out.Untaken, out.Lied, out.Silent = o.Ending, o.Report, o.Phase, o.Untaken, false,
		false
	out.Cause = fmt.Sprintf("node %d: %s", first.node, o.Cause)
	out.Peak, out.PeakIs, out.Peaks = o.Peak, o.PeakIs, o.Peaks
	return out
}

// The weights of results: what decides comes first.
const (
	memory = iota
	failure
	stopped
	fine
)

func (r result) weight() int {
	switch {
	case r.out.Ending == run.OutOfMemory:
		return memory
	case r.ended:
		return stopped
	case r.out.Ending == run.Succeeded, r.out.Silent:
		return fine
	}
	return failure
}

// mute is smaller for a node that printed more of the training.
func (r result) mute() int {
	switch {
	case r.out.Stepped, r.out.Saved != nil:
		return 0
	case r.out.Ending == run.Succeeded:
		return 1
	}
	return 2
}

// adopt is the outcome of a follower after the leader has merged all.
func adopt(own, merged run.Outcome, ended bool) run.Outcome {
	own.Strange, own.Settings, own.Confirmed = nil, merged.Settings, merged.Confirmed // those are rank 0's
	switch {
	case merged.Ending == run.Succeeded && own.Silent: // rank 0 printed the success
		own.Ending, own.Cause, own.Lied, own.Silent, own.Report.Fatal, own.Report.Cause = run.Succeeded, "", false, false,
			false, ""
	case ended:
		own.Ending, own.Cause, own.Lied, own.Silent = merged.Ending, "launch ended it: "+merged.Cause, false, false
	}
	return own
}

// least is the room of the fullest device of all nodes. 0 is a node where no device can be seen.
func least(a, b unit.Bytes) unit.Bytes {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func leastHost(a, b ladder.HostRooms) ladder.HostRooms {
	smaller := func(a, b *ladder.HostRoom) *ladder.HostRoom {
		if a == nil || b != nil && b.Free < a.Free {
			return b
		}
		return a
	}
	return ladder.HostRooms{Memory: smaller(a.Memory, b.Memory), Shm: smaller(a.Shm, b.Shm)}
}

// Gone is the stop of a run whose launch on another node has ended.
func Gone(node int) *run.Stop {
	return &run.Stop{Why: fmt.Sprintf("the launch of node %d has ended, or cannot be reached", node), Code: run.TryLater}
}
