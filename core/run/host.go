package run

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// A HostChoice is a rung of the ladder for host memory, and what it needs of each room.
type HostChoice struct {
	Rung  int        `json:"rung"`
	Name  string     `json:"name"`
	Needs []HostNeed `json:"needs"`
	Why   string     `json:"why,omitempty"` // why it is lower than in the attempt before
}

// A HostNeed is what the job needs of host memory or of /dev/shm.
type HostNeed struct {
	Name     string           `json:"name"` // ladder.HostMemory, ladder.SharedMemory; ladder.Apart
	Estimate mem.Estimate     `json:"estimate"`
	Room     *ladder.HostRoom `json:"room"` // null: unknown
	Verdict  ladder.Verdict   `json:"verdict"`
}

// Need returns the need for a room, or nil.
func (c *HostChoice) Need(room string) *HostNeed {
	if c == nil {
		return nil
	}
	for i := range c.Needs {
		if c.Needs[i].Name == room {
			return &c.Needs[i]
		}
	}
	return nil
}

// rung returns the index of the rung; 0, as asked, without a ladder.
func (c *HostChoice) rung() int {
	if c == nil {
		return 0
	}
	return c.Rung
}

// hostRoom returns which room of host memory ran out, "" if it was the device's. On a CPU the device is host memory,
// and the ladders of the phases count.
func (r *Run) hostRoom(rep oom.Report) string {
	switch {
	case rep.Kind == oom.SharedMemory:
		return ladder.SharedMemory
	case (rep.Kind == oom.HostOOM || rep.Kind == oom.CPUAlloc) && !r.Host:
		return ladder.HostMemory
	}
	return ""
}

// feed chooses the plan's rung on the ladder for host memory: the first that fits both rooms at the plan's micro-batch.
// It never refuses a plan: the memory that the kernel calls available is an estimate itself, and so are most of the
// lines.
//
// A run never goes up this ladder again. It goes down only if host memory or /dev/shm runs out, not after an
// out-of-memory on the device.
func (r *Run) feed(p *Plan) {
	h := r.Ladders.Host
	if h == nil {
		return
	}
	from, measured := 0, ""
	if last := r.Last(); last != nil && last.Plan.Host != nil {
		from = last.Plan.Host.Rung
		if last.Outcome.Ending == OutOfMemory {
			if measured = r.hostRoom(last.Outcome.Report); measured == "" {
				p.take(r.hostAt(from, p.Batch.Micro, p.Need()), h)
				return
			}
		}
	}
	at := r.hostAt(from, p.Batch.Micro, p.Need())
	if !r.Limits.AsAsked || measured != "" {
		for i := from + 1; i < len(h.Rungs); i++ {
			c := r.hostAt(i, p.Batch.Micro, p.Need())
			switch {
			case measured == "" && milder(c, at),
				measured != "" && at.Rung == from && r.helps(h, i, from, measured, p.Batch.Micro),
				measured != "" && at.Rung > from && milder(c, at) && r.helps(h, i, at.Rung, measured, p.Batch.Micro):
				at = c
			}
		}
	}
	p.take(at, h)
}

// take adds the edits of a host-memory rung. They replace edits of the same setting by a rung of another ladder.
func (p *Plan) take(c HostChoice, h *ladder.HostLadder) {
	edits := h.Rungs[c.Rung].Edits
	p.Edits = slices.DeleteFunc(p.Edits, func(e config.Edit) bool {
		return slices.ContainsFunc(edits, func(o config.Edit) bool { return o.At == e.At })
	})
	p.Edits = append(p.Edits, edits...)
	p.Host = &c
}

// helps reports whether a rung needs less of a room than another rung.
func (r *Run) helps(h *ladder.HostLadder, rung, than int, room string, micro int64) bool {
	return h.At(rung, room, micro).Total() < h.At(than, room, micro).Total()
}

// milder reports whether c exceeds the known rooms less severely than b, which is above it on the ladder. If both
// exceed a room by their certain lines, the smaller excess is milder.
func milder(c, b HostChoice) bool {
	if x, y := c.verdict(), b.verdict(); x != y {
		return x < y
	}
	return c.verdict() == ladder.Not && c.excess() < b.excess()
}

// verdict is the worst verdict of the rooms. An unknown room or need is not a problem.
func (c HostChoice) verdict() ladder.Verdict {
	worst := ladder.Fits
	for _, n := range c.Needs {
		if n.Verdict != ladder.Unknown {
			worst = max(worst, n.Verdict)
		}
	}
	return worst
}

// excess is how much the certain lines exceed their rooms, in bytes, added up.
func (c HostChoice) excess() (sum unit.Bytes) {
	for _, n := range c.Needs {
		if n.Room != nil {
			sum += max(0, n.Estimate.Vouched()-n.Room.Free)
		}
	}
	return sum
}

// hostAt returns the choice of a rung of the ladder for host memory, beside what the plan needs of the card.
func (r *Run) hostAt(rung int, micro int64, card unit.Bytes) HostChoice {
	h := r.Ladders.Host
	c := HostChoice{Rung: rung, Name: h.Rungs[rung].Name}
	for _, n := range []HostNeed{{Name: ladder.HostMemory, Room: r.Rooms.Memory}, {Name: ladder.SharedMemory, Room: r.Rooms.Shm}} {
		if r.Host && n.Name == ladder.HostMemory { // the phases' ladders count for that room
			n.Name, n.Room = ladder.Apart, nil
		}
		if r.Shared && n.Name == ladder.HostMemory && n.Room != nil {
			n.Room = &ladder.HostRoom{Free: max(0, n.Room.Free-card), By: n.Room.By + " less the card's part of it"}
		}
		n.Estimate = r.correctHost(n.Name, h.At(rung, n.Name, micro))
		n.Verdict = n.judge()
		c.Needs = append(c.Needs, n)
	}
	return c
}

// judge compares the need with the room. [ladder.Not] means that the lines from a rule or a measurement alone exceed
// it.
func (n HostNeed) judge() ladder.Verdict {
	switch e := n.Estimate; {
	case n.Room == nil:
		return ladder.Unknown
	case e.Vouched() > n.Room.Free:
		return ladder.Not
	case !e.Known():
		return ladder.Unknown
	case e.Total() <= n.Room.Free:
		return ladder.Fits
	}
	return ladder.May
}

// correctHost corrects a need by what the attempts have measured: if a room ran out, the need was more than all of it.
// As on the other ladders, the correction is a line of its own, in proportion to the lines that grow.
func (r *Run) correctHost(room string, e mem.Estimate) mem.Estimate {
	factor, from := 1.0, 0
	for _, a := range r.Attempts {
		n := a.Plan.Host.Need(room)
		if a.Outcome.Ending != OutOfMemory || r.hostRoom(a.Outcome.Report) != room || n == nil || n.Room == nil {
			continue
		}
		raw := r.Ladders.Host.At(a.Plan.Host.Rung, room, a.Plan.Batch.Micro)
		growing := raw.Growing()
		if !raw.Known() || growing <= 0 {
			continue
		}
		if f := float64(n.Room.Free+1-(raw.Total()-growing)) / float64(growing); f > factor {
			factor, from = f, a.Plan.Attempt
		}
	}
	if factor <= 1 || !e.Known() {
		return e
	}
	out := mem.Estimate{Items: slices.Clone(e.Items)}
	out.Add(mem.Item{Kind: mem.Correction, What: room, Bytes: unit.Bytes(float64(e.Growing()) * (factor - 1)),
		From: fmt.Sprintf("attempt %d needed %.2f times the lines that grow with the loaders", from, factor)})
	return out
}

// afterHost plans the attempt after one that ran out of host memory or /dev/shm: the same plan on a lower rung of the
// ladder for host memory.
func (r *Run) afterHost(last *Attempt, room string) (*Plan, *Stop) {
	cause := last.Outcome.Report.Cause
	h := r.Ladders.Host
	switch {
	// a single request of the program itself
	case h == nil || last.Plan.Host == nil, last.Outcome.Report.Kind == oom.CPUAlloc && last.Outcome.Report.Phase != oom.Data:
		return nil, &Stop{Why: cause + "; no change that launch can make frees that memory"}
	case last.Outcome.Report.Phase == oom.Build:
		return nil, &Stop{Why: cause + "; no loader was running yet, so fewer workers would not help"}
	}
	p := r.standAt(&last.Plan, "")
	if p.Host.Rung == last.Plan.Host.Rung {
		return nil, &Stop{Why: fmt.Sprintf("%s; no setting of the loaders needs less than %q", cause,
			last.Plan.Host.Name)}
	}
	p.Why = fmt.Sprintf("%s ran out with %q", room, last.Plan.Host.Name)
	p.Host.Why = fmt.Sprintf("for %s: changes the loaders only, nothing on the card", room)
	r.goOn(p)
	return p, nil
}

// hostReason returns why the first plan changes the loaders, or "".
func (r *Run) hostReason(p *Plan) string {
	if p.Host == nil || p.Host.Rung == 0 {
		return ""
	}
	for _, n := range r.hostAt(0, p.Batch.Micro, p.Need()).Needs {
		if n.Verdict == ladder.May || n.Verdict == ladder.Not {
			return fmt.Sprintf("the loaders as asked need %v, and %s has %v", n.Estimate.Total(), n.Name, n.Room.Free)
		}
	}
	return ""
}
