package ladder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// Host is the name of the ladder of the host's memory.
const Host = "host"

// The rooms of a host.
const (
	HostMemory   = "host memory"
	SharedMemory = "/dev/shm"
)

// Apart is, on a CPU, what the loader workers need beside the processes that train, whose room is the device's. Nobody
// knows what is free for it: a limit by --memory is one on each process.
const Apart = "loader workers, beside it"

// A HostRoom is what is free of one of the host's memories. Where that is not known there is no HostRoom.
type HostRoom struct {
	Free unit.Bytes `json:"free_bytes"`
	By   string     `json:"by"` // what bounds it: "MemAvailable", "the limit of cgroup /job"
}

// HostRooms are the rooms of the host, looked at before every attempt; nil is not known. What lies in Shm counts against
// Memory as well.
type HostRooms struct {
	Memory *HostRoom `json:"memory"`
	Shm    *HostRoom `json:"shm"`
}

// A HostLadder is the ways to feed a job, from the one asked for, Rungs[0], downward, each priced for the host's memory
// and for /dev/shm. It is apart from all other ladders: a rung of it gives back nothing of a card, and no rung of theirs
// is taken for the host's sake. How much a rung needs follows from the micro-batch that they have chosen, never the other
// way round.
type HostLadder struct {
	Rungs []HostRung `json:"rungs"`
	// Unknown, if not empty, says why the lines are no estimate. They are then at most a lower bound.
	Unknown string `json:"unknown,omitempty"`
}

// A HostRung is one way to feed the job: edits from the job as asked, not cumulative, all of cost [None].
type HostRung struct {
	Name  string         `json:"name"` // "2 loader workers, prefetch 1"
	Edits []config.Edit  `json:"edits,omitempty"`
	Lines []mem.HostLine `json:"lines,omitempty"`
}

// At is what a rung needs of a room, [HostMemory] or [SharedMemory], or of [Apart], for a micro-batch; 0 is one that is
// not known.
func (l *HostLadder) At(rung int, room string, micro int64) mem.Estimate {
	lines := l.Rungs[rung].Lines
	var e mem.Estimate
	switch room {
	case SharedMemory:
		e = mem.SharedMemory(lines, micro)
	case Apart:
		e = mem.Apart(lines, micro)
	default:
		e = mem.HostMemory(lines, micro)
	}
	e.Unknown = l.Unknown
	if e.Unknown == "" && micro <= 0 {
		e.Unknown = "how large a micro-batch is is not known"
	}
	return e
}

// A Feed is how a loader is fed: the settings that a host ladder turns.
type Feed struct {
	Workers, Prefetch int64
	Pinned            bool
}

// String names the feed by what differs from the one asked for.
func (f Feed) name(asked Feed) string {
	var parts []string
	switch {
	case f.Workers == asked.Workers:
	case f.Workers == 0:
		parts = append(parts, "no loader workers")
	case f.Workers == 1:
		parts = append(parts, "1 loader worker")
	default:
		parts = append(parts, fmt.Sprintf("%d loader workers", f.Workers))
	}
	if f.Prefetch != asked.Prefetch && f.Workers > 0 {
		parts = append(parts, fmt.Sprintf("prefetch %d", f.Prefetch))
	}
	if f.Pinned != asked.Pinned {
		parts = append(parts, "no pinned copies")
	}
	if len(parts) == 0 {
		return "as asked"
	}
	return strings.Join(parts, ", ")
}

// WhyHost is why a rung of the host's ladder edits what it edits.
const WhyHost = "gives back host memory and /dev/shm, and nothing of the card; batches may come more slowly"

// Feeds makes the ladder of a loader: prefetch to one batch a worker, then half the workers again and again down to one,
// then no pinned copies, then no workers. edits makes what leads from the feed asked for to another, and says that it
// cannot where a knob of it cannot be turned; lines price a feed. A rung that needs no less of any room is left out.
func Feeds(asked Feed, edits func(Feed) ([]config.Edit, bool), lines func(Feed) []mem.HostLine) *HostLadder {
	l := &HostLadder{Rungs: []HostRung{{Name: asked.name(asked), Lines: lines(asked)}}}
	try := func(f Feed) bool {
		if f == asked {
			return false
		}
		made, ok := edits(f)
		if !ok {
			return false
		}
		r := HostRung{Name: f.name(asked), Edits: made, Lines: lines(f)}
		if !less(r, l.Rungs[len(l.Rungs)-1]) {
			return true // and go on from there
		}
		l.Rungs = append(l.Rungs, r)
		return true
	}
	now := asked
	step := func(f Feed) {
		if try(f) {
			now = f
		}
	}
	if asked.Workers > 0 && asked.Prefetch > 1 {
		step(Feed{asked.Workers, 1, asked.Pinned})
	}
	for w := asked.Workers / 2; w > 0; w /= 2 {
		step(Feed{w, now.Prefetch, asked.Pinned})
	}
	if asked.Pinned {
		step(Feed{now.Workers, now.Prefetch, false})
	}
	if asked.Workers > 0 {
		step(Feed{0, asked.Prefetch, now.Pinned})
	}
	return l
}

// less reports whether a rung needs less than another of some room, and more of none, whatever the micro-batch.
func less(r, than HostRung) bool {
	some := false
	for _, micro := range []int64{1, 1 << 14} {
		for _, need := range []func([]mem.HostLine, int64) mem.Estimate{mem.HostMemory, mem.SharedMemory} {
			here, there := need(r.Lines, micro).Total(), need(than.Lines, micro).Total()
			if here > there {
				return false
			}
			some = some || here < there
		}
	}
	return some
}

// check reports the first way in which l is no host ladder beside the set's others.
func (l *HostLadder) check(s *Set) error {
	if len(l.Rungs) == 0 {
		return fmt.Errorf("it has no rung: it needs at least the job as asked")
	}
	if len(l.Rungs[0].Edits) > 0 {
		return fmt.Errorf("rung %q is said to be the job as asked and edits it", l.Rungs[0].Name)
	}
	for i, r := range l.Rungs {
		for _, e := range r.Edits {
			if e.Cost != None.String() {
				return fmt.Errorf("rung %q turns %q at the cost of %s: the host's knobs cost nothing", r.Name, e.Knob, e.Cost)
			}
			if other := s.owner(e); other != "" {
				return fmt.Errorf("knob %q is on the %s ladder too, at a cost", e.Knob, other)
			}
		}
		for _, line := range r.Lines {
			if line.Bytes < 0 || line.PerSample < 0 {
				return fmt.Errorf("rung %q: %s of %s is less than nothing", r.Name, line.Kind, line.What)
			}
		}
		if i > 0 && !less(r, l.Rungs[i-1]) {
			return fmt.Errorf("rung %q needs no less than %q above it", r.Name, l.Rungs[i-1].Name)
		}
	}
	return nil
}

// owner is the ladder that turns the knob of a host rung's edit too; "" where none does, or only to hold the setting at
// what it was, which costs nothing and which the host's edit then replaces.
func (s *Set) owner(e config.Edit) string {
	for _, l := range append([]Ladder{s.Shared}, s.Phases...) {
		for _, r := range l.Rungs {
			if slices.ContainsFunc(r.Edits, func(o config.Edit) bool { return o.Knob == e.Knob && o.Cost != None.String() }) {
				return l.Phase
			}
		}
	}
	return ""
}
