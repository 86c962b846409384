package observe

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

// observations keeps the last readings of the card and of host memory, for the verdict: how full the card was, which
// other processes used it, how much host memory was left.
type observations struct {
	every time.Duration

	mu       sync.Mutex
	now      oom.Card
	recent   []look // the last readings of the card
	since    time.Time
	level    unit.Bytes // what the job has held since then
	hostRoom oom.Host
	left     []unit.Bytes // free host memory, in the last readings
}

// A look is one reading of a card.
type look struct {
	free, others unit.Bytes
	who          []oom.Holder
}

const (
	// lastLooks is how many readings are kept. More than one, because what filled the card may be gone before the
	// program ends. Not many, because the memory that was free a minute earlier proves nothing.
	lastLooks = 20
	// steadyWithin is how much the memory of a steady job may vary: the pool of torch's allocator grows in pieces of 20
	// MiB (c10/cuda/CUDACachingAllocator.h, kLargeBuffer).
	steadyWithin = 64 * unit.MiB
	hostRoomLook = 500 * time.Millisecond
)

func newObservations(every time.Duration) *observations { return &observations{every: every} }

// addCard adds a reading of the card: the job holds held, other processes hold others. who lists those if the driver
// does.
func (o *observations) addCard(d gpu.Device, held, others unit.Bytes, who []oom.Holder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := look{free: d.Free(), others: max(0, others), who: who}
	slices.SortFunc(k.who, func(a, b oom.Holder) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID)) })
	o.recent = append(o.recent[max(0, len(o.recent)-lastLooks+1):], k)
	o.now.Capacity, o.now.Peak = d.Total, max(o.now.Peak, held)
	o.now.Looks++
	now := time.Now()
	if abs(held-o.level) > steadyWithin {
		o.since, o.level = now, held
	}
	o.now.Steady, o.now.At = now.Sub(o.since), o.level
}

// answered notes whether the card answers the driver.
func (o *observations) answered(d gpu.Device) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now.Fault, o.now.Mend = d.Fault, ""; d.Fault != "" {
		o.now.Mend = d.Mend()
	}
}

// addHost adds a reading of host memory.
func (o *observations) addHost(r ladder.HostRooms) {
	if r.Memory == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hostRoom.Looks == 0 {
		o.hostRoom.Room = r.Memory.Free
	}
	o.hostRoom.Looks++
	if least := slices.Min(append(o.left, r.Memory.Free)); r.Memory.Free <= least {
		o.hostRoom.By = r.Memory.By
	}
	o.left = append(o.left[max(0, len(o.left)-lastLooks+1):], r.Memory.Free)
}

// Card returns what was observed of the card; nil if nothing was.
func (o *observations) Card() *oom.Card {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now.Looks == 0 && o.now.Fault == "" {
		return nil
	}
	c := o.now
	c.Every = o.every
	if o.now.Looks == 0 {
		return &c
	}
	fullest := slices.MinFunc(o.recent, func(a, b look) int {
		return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(len(b.who), len(a.who)))
	})
	c.Free, c.Others, c.Who = fullest.free, fullest.others, fullest.who
	return &c
}

// Host returns what was observed of host memory; nil if nothing could be.
func (o *observations) Host() *oom.Host {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hostRoom.Looks == 0 {
		return nil
	}
	h := o.hostRoom
	h.Least = slices.Min(o.left)
	return &h
}

// watchHost reads the free host memory until ctx is done.
func watchHost(ctx context.Context, at func() ladder.HostRooms, see func(ladder.HostRooms)) {
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
