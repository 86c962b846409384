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

// A HostChoice is where the job stands on the ladder of its host's memory, and what that needs of each room.
type HostChoice struct {
	Rung  int        `json:"rung"`
	Name  string     `json:"name"`
	Needs []HostNeed `json:"needs"`
	Why   string     `json:"why,omitempty"` // of an attempt that stands lower than the one before
}

// A HostNeed is what the job needs of one room of its host.
type HostNeed struct {
	Name     string           `json:"name"` // ladder.HostMemory, ladder.SharedMemory; ladder.Apart
	Estimate mem.Estimate     `json:"estimate"`
	Room     *ladder.HostRoom `json:"room"` // null: not known
	Verdict  ladder.Verdict   `json:"verdict"`
}

// Need returns what is needed of a room, or nil.
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

// rung is where it stands; as asked where there is no ladder.
func (c *HostChoice) rung() int {
	if c == nil {
		return 0
	}
	return c.Rung
}

// hostRoom is the room of the host that ran out, or "": then it was the device's. On a CPU the host's memory is the
// device's: the ladders of the phases give it back.
func (r *Run) hostRoom(rep oom.Report) string {
	switch {
	case rep.Kind == oom.SharedMemory:
		return ladder.SharedMemory
	case (rep.Kind == oom.HostOOM || rep.Kind == oom.CPUAlloc) && !r.Host:
		return ladder.HostMemory
	}
	return ""
}

// feed stands a plan on the ladder of the host's memory: on the first rung that both rooms hold for the plan's
// micro-batch. It refuses nothing: what the kernel calls available is itself an estimate, and so are most of the lines.
//
// A run never goes up that ladder again, and goes down it for the host's sake only: an out-of-memory of the device
// leaves it where it is.
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
				p.take(r.hostAt(from, p.Batch.Micro), h)
				return
			}
		}
	}
	at := r.hostAt(from, p.Batch.Micro)
	if !r.Limits.AsAsked || measured != "" {
		for i := from + 1; i < len(h.Rungs); i++ {
			c := r.hostAt(i, p.Batch.Micro)
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

// take makes the edits of a host rung, which replace those by which a rung of another ladder holds the same setting.
func (p *Plan) take(c HostChoice, h *ladder.HostLadder) {
	edits := h.Rungs[c.Rung].Edits
	p.Edits = slices.DeleteFunc(p.Edits, func(e config.Edit) bool {
		return slices.ContainsFunc(edits, func(o config.Edit) bool { return o.At == e.At })
	})
	p.Edits = append(p.Edits, edits...)
	p.Host = &c
}

// helps reports whether a rung needs less of a room than another.
func (r *Run) helps(h *ladder.HostLadder, rung, than int, room string, micro int64) bool {
	return h.At(rung, room, micro).Total() < h.At(than, room, micro).Total()
}

// milder reports whether c is in a milder trouble than b, which stands above it: with the rooms that both know. Where
// both exceed a room by what is counted, the one that exceeds it by less.
func milder(c, b HostChoice) bool {
	if x, y := c.verdict(), b.verdict(); x != y {
		return x < y
	}
	return c.verdict() == ladder.Not && c.excess() < b.excess()
}

// verdict is the worst of the rooms; a room or a need that is not known is no trouble.
func (c HostChoice) verdict() ladder.Verdict {
	worst := ladder.Fits
	for _, n := range c.Needs {
		if n.Verdict != ladder.Unknown {
			worst = max(worst, n.Verdict)
		}
	}
	return worst
}

// excess is by how much the vouched lines exceed their rooms, together.
func (c HostChoice) excess() (sum unit.Bytes) {
	for _, n := range c.Needs {
		if n.Room != nil {
			sum += max(0, n.Estimate.Vouched()-n.Room.Free)
		}
	}
	return sum
}

// hostAt is what standing on a rung of the host's ladder means.
func (r *Run) hostAt(rung int, micro int64) HostChoice {
	h := r.Ladders.Host
	c := HostChoice{Rung: rung, Name: h.Rungs[rung].Name}
	for _, n := range []HostNeed{{Name: ladder.HostMemory, Room: r.Rooms.Memory}, {Name: ladder.SharedMemory, Room: r.Rooms.Shm}} {
		if r.Host && n.Name == ladder.HostMemory { // it is the phases' room
			n.Name, n.Room = ladder.Apart, nil
		}
		n.Estimate = r.correctHost(n.Name, h.At(rung, n.Name, micro))
		n.Verdict = n.judge()
		c.Needs = append(c.Needs, n)
	}
	return c
}

// judge compares the need with the room. [ladder.Not] means that what a rule or a measurement vouches for exceeds it.
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

// correctHost adds to a need what the attempts have measured of it: where a room ran out, all of it was needed and more.
// As on the other ladders it scales the lines that grow, as a line of its own.
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

// afterHost plans the attempt after one for which a room of the host was too small: everything as it was, on a lower rung
// of the host's ladder.
func (r *Run) afterHost(last *Attempt, room string) (*Plan, *Stop) {
	cause := last.Outcome.Report.Cause
	h := r.Ladders.Host
	switch {
	case h == nil || last.Plan.Host == nil, last.Outcome.Report.Kind == oom.CPUAlloc && last.Outcome.Report.Phase != oom.Data: // one request of the program's own
		return nil, &Stop{Why: cause + "; no rung of the ladders frees that memory"}
	case last.Outcome.Report.Phase == oom.Build:
		return nil, &Stop{Why: cause + "; no loader was running yet, so fewer workers would not help"}
	}
	p := r.standAt(&last.Plan, "")
	if p.Host.Rung == last.Plan.Host.Rung {
		return nil, &Stop{Why: fmt.Sprintf("%s; no setting of the loaders needs less than %q", cause, last.Plan.Host.Name)}
	}
	p.Why = fmt.Sprintf("%s ran out with %q", room, last.Plan.Host.Name)
	p.Host.Why = fmt.Sprintf("for %s: changes the loaders only, nothing on the card", room)
	r.goOn(p)
	return p, nil
}

// hostReason says why the first plan feeds the job in another way than asked, or "".
func (r *Run) hostReason(p *Plan) string {
	if p.Host == nil || p.Host.Rung == 0 {
		return ""
	}
	for _, n := range r.hostAt(0, p.Batch.Micro).Needs {
		if n.Verdict == ladder.May || n.Verdict == ladder.Not {
			return fmt.Sprintf("the loaders as asked need %v of %v of %s", n.Estimate.Total(), n.Room.Free, n.Name)
		}
	}
	return ""
}
