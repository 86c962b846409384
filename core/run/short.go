package run

import "github.com/launch-ml/launch/core/unit"

// Infeasible is a run that needs more memory than there is, at every cost that was allowed. That is a property of its
// settings, and no result of the training. An amount that is not known is nil.
type Infeasible struct {
	Peak *unit.Bytes `json:"peak_bytes"` // it needs that at least, with the smallest rung that was allowed
	Room *unit.Bytes `json:"room_bytes"`
}

// Short returns how a run does not fit, or nil: its smallest rung was refused, or its last attempt ran out of memory.
func Short(stop *Stop, last *Outcome, room unit.Bytes) *Infeasible {
	switch {
	case stop != nil && stop.Refused != nil:
		var need unit.Bytes
		for _, c := range stop.Refused.Choices {
			if c.Estimate.Known() {
				need = max(need, c.Estimate.Total())
			}
		}
		return &Infeasible{positive(need), positive(stop.Refused.Room)}
	case last == nil || last.Ending != OutOfMemory:
		return nil
	}
	out := &Infeasible{positive(last.Peak), positive(room)}
	if n := last.Report.Numbers; n.Requested != nil && n.Allocated != nil {
		if need := *n.Requested + *n.Allocated; out.Peak == nil || *out.Peak < need {
			out.Peak = &need
		}
	}
	if out.Room == nil {
		out.Room = last.Report.Capacity
	}
	return out
}

func positive(b unit.Bytes) *unit.Bytes {
	if b <= 0 {
		return nil
	}
	return &b
}
