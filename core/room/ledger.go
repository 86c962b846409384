package room

import (
	"os"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// An Offer is a card as a launch finds it.
type Offer struct {
	Device gpu.Device
	Free   unit.Bytes // what the launch may take now
	Empty  unit.Bytes // what it could take if it had the card alone
	Claims int        // of other launches
	Open   bool       // one of them has no known size: its job may take all of the card
}

// A ledger adds up what is promised of a card.
type ledger struct {
	held []Held
	// descends reports whether a process belongs to a launch.
	descends func(pid, launch int) bool
	// visible reports whether the driver's number of a process names a process here. In a container it may not.
	visible func(pid int) bool
	// blind: the driver may not list the processes of this machine, or not by their numbers here.
	blind   bool
	reserve unit.Bytes
}

// offer returns what a card has for this launch. The use of everybody counts as it was measured. A claim counts in
// addition, as far as the processes of its launch have not taken it yet. If the driver does not tell whose the used
// memory is, it may be that of the claims, and only the larger of both counts.
//
// A claim without a known size counts as measured; Open tells of it. Claims of other accounts count as measured.
func (l ledger) offer(d gpu.Device) Offer {
	o := Offer{Device: d, Empty: max(1, d.Total-l.reserve)}
	known, blind := unit.Bytes(0), l.blind && len(d.Processes) == 0 // known: used, and by whom
	blind = blind || d.Unlisted && !d.Shared                        // what a machine's programs hold is no claim's
	used := map[int]unit.Bytes{}                                    // by launch
	mine := l.of(d)
	for _, p := range d.Processes {
		switch launch, claimed := l.launch(p.PID, mine); {
		case p.Used < 0, p.Relays():
			blind = true
		case claimed:
			used[launch] += p.Used
			known += p.Used
		case l.visible(p.PID):
			known += p.Used
		default:
			blind = true
		}
	}
	seen, unseen := unit.Bytes(0), unit.Bytes(0) // what claims have left, if their processes are seen; all of it if not
	for _, h := range mine {
		o.Claims++
		if h.Open {
			o.Open = true
			continue
		}
		if now, ok := used[h.PID]; ok {
			seen += max(0, h.Bytes-now)
		} else {
			unseen += h.Bytes
		}
	}
	if blind {
		unseen = max(0, unseen-max(0, d.Used-known))
	}
	o.Free = max(0, d.Free()-seen-unseen-l.reserve)
	return o
}

// of lists the claims of other launches on a card that this one respects. Those of launches that this one runs in do
// not count: it would wait for its own end.
func (l ledger) of(d gpu.Device) (out []Held) {
	for _, h := range l.held {
		if h.Resource == Of(d) && !h.Waiting && h.Refuses() && !l.around(h) {
			out = append(out, h)
		}
	}
	return out
}

// around reports whether a claim is this launch's, or that of a launch in which this one runs.
func (l ledger) around(h Held) bool {
	return h.Own() || h.UID == os.Geteuid() && l.descends(os.Getpid(), h.PID)
}

// launch returns the launch, of those that hold a claim, that a process belongs to.
func (l ledger) launch(pid int, held []Held) (launch int, ok bool) {
	for _, h := range held {
		if l.descends(pid, h.PID) {
			return h.PID, true
		}
	}
	return 0, false
}
