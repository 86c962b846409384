package main

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// looks keeps what the last looks from outside have seen, for the verdict: how full the card was, who else was on it, what
// the host had left.
type looks struct {
	every time.Duration

	mu       sync.Mutex
	now      oom.Card
	recent   []glance // of the card, the last ones
	since    time.Time
	level    unit.Bytes // that the job has held since then
	hostRoom oom.Host
	left     []unit.Bytes // of the host, the last ones
}

// A glance is one look at a card.
type glance struct {
	free, others unit.Bytes
	who          []oom.Holder
}

const (
	// lastLooks is how many count as the last: what fills a card may be gone from it before the program has ended, and
	// what was free a minute ago says nothing of its end.
	lastLooks = 20
	// steadyWithin is by how much a steady job may vary: the pool of torch's allocator grows in pieces of 20 MiB
	// (c10/cuda/CUDACachingAllocator.h, kLargeBuffer).
	steadyWithin = 64 * unit.MiB
	hostRoomLook = 500 * time.Millisecond
)

func newLooks(every time.Duration) *looks { return &looks{every: every} }

// card takes a look at the card, of which the job holds held and others hold the rest: who they are, where the driver
// tells.
func (l *looks) card(d gpu.Device, held, others unit.Bytes, who []oom.Holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := glance{free: d.Free(), others: max(0, others), who: who}
	slices.SortFunc(k.who, func(a, b oom.Holder) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID)) })
	l.recent = append(l.recent[max(0, len(l.recent)-lastLooks+1):], k)
	l.now.Capacity, l.now.Peak = d.Total, max(l.now.Peak, held)
	l.now.Looks++
	now := time.Now()
	if abs(held-l.level) > steadyWithin {
		l.since, l.level = now, held
	}
	l.now.Steady, l.now.At = now.Sub(l.since), l.level
}

// host takes a look at the host's memory.
func (l *looks) host(r ladder.HostRooms) {
	if r.Memory == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hostRoom.Looks == 0 {
		l.hostRoom.Room = r.Memory.Free
	}
	l.hostRoom.Looks++
	if least := slices.Min(append(l.left, r.Memory.Free)); r.Memory.Free <= least {
		l.hostRoom.By = r.Memory.By
	}
	l.left = append(l.left[max(0, len(l.left)-lastLooks+1):], r.Memory.Free)
}

// onCard is what was seen of the card; nil where nobody looked.
func (l *looks) onCard() *oom.Card {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.Looks == 0 {
		return nil
	}
	c := l.now
	c.Every = l.every
	fullest := slices.MinFunc(l.recent, func(a, b glance) int {
		return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(len(b.who), len(a.who)))
	})
	c.Free, c.Others, c.Who = fullest.free, fullest.others, fullest.who
	return &c
}

// onHost is what was seen of the host's memory; nil where it cannot be looked at.
func (l *looks) onHost() *oom.Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hostRoom.Looks == 0 {
		return nil
	}
	h := l.hostRoom
	h.Least = slices.Min(l.left)
	return &h
}

// hostRoomWatch looks at the rooms of the host until ctx is done.
func hostRoomWatch(ctx context.Context, at func() ladder.HostRooms, see func(ladder.HostRooms)) {
	tick := time.NewTicker(hostRoomLook)
	defer tick.Stop()
	for {
		see(at())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
