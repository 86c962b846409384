package observe

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/unit"
)

// A Reading is the memory that the job held at a time after the first look.
type Reading struct {
	After time.Duration
	Held  unit.Bytes
}

// Curves are what an attempt showed over time.
type Curves struct {
	Card []Reading // of the card, in training or where the phase is not known
	// Host is the anonymous memory of all processes of the job, which no file backs and the kernel cannot drop.
	Host []Reading
	// Spent is the time in each phase, "" before the first.
	Spent map[string]time.Duration
	// Busy is the mean of how busy the card was in training, in percent, BusyLooks of how many looks, over BusyFor.
	Busy      float64
	BusyLooks int
	BusyFor   time.Duration
}

const (
	// mostReadings bounds a curve. A longer one keeps every second reading, again and again.
	mostReadings = 1024
	// anonLook is the time between two looks at the anonymous memory: a leak that matters takes many minutes.
	anonLook = 15 * time.Second
)

// A curve keeps readings over time, a bounded number of them.
type curve struct {
	readings []Reading
	stride   int // of how many readings one is kept
	skipped  int
}

func (c *curve) add(r Reading) {
	c.stride = max(1, c.stride)
	if c.skipped++; c.skipped < c.stride {
		return
	}
	c.skipped = 0
	if len(c.readings) == mostReadings {
		for i := range mostReadings / 2 {
			c.readings[i] = c.readings[2*i+1]
		}
		c.readings, c.stride = c.readings[:mostReadings/2], 2*c.stride
	}
	c.readings = append(c.readings, r)
}

// course collects the curves. Its methods may be called from several goroutines.
type course struct {
	mu         sync.Mutex
	began      time.Time
	card, host curve
	spent      map[string]time.Duration
	phaseAt    time.Time
	phase      string
	busy       float64
	looks      int
	busySince  time.Time
	busyFor    time.Duration
}

// after is the time since the first look. mu is held.
func (c *course) after(now time.Time) time.Duration {
	if c.began.IsZero() {
		c.began = now
	}
	return now.Sub(c.began)
}

// in notes the phase that is running. The time since the last look belongs to the phase of that look.
func (c *course) in(now time.Time, phase string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after(now)
	if c.spent == nil {
		c.spent = map[string]time.Duration{}
	} else {
		c.spent[c.phase] += now.Sub(c.phaseAt)
	}
	c.phaseAt, c.phase = now, phase
}

// onCard adds a look at the card; busy is nil if that is not known.
func (c *course) onCard(now time.Time, phase string, held unit.Bytes, busy *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	after := c.after(now)
	if phase == ladder.Training || phase == "" {
		c.card.add(Reading{after, held})
	}
	if phase != ladder.Training || busy == nil {
		return
	}
	if c.looks == 0 {
		c.busySince = now
	}
	c.looks++
	c.busy += (float64(*busy) - c.busy) / float64(c.looks)
	c.busyFor = now.Sub(c.busySince)
}

func (c *course) onHost(now time.Time, held unit.Bytes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host.add(Reading{c.after(now), held})
}

// Curves returns what was observed so far.
func (w *Watch) Curves() Curves {
	c := &w.course
	c.mu.Lock()
	defer c.mu.Unlock()
	return Curves{Card: slices.Clone(c.card.readings), Host: slices.Clone(c.host.readings), Spent: maps.Clone(c.spent),
		Busy: c.busy, BusyLooks: c.looks, BusyFor: c.busyFor}
}

// watchAnon reads the anonymous memory of the job until ctx is done.
func watchAnon(ctx context.Context, pid func() int, see func(time.Time, unit.Bytes)) {
	tick := time.NewTicker(anonLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if held := anonOf(pid()); held > 0 {
				see(now, held)
			}
		}
	}
}

// anonOf is the anonymous memory of a process and its descendants (proc_pid_status(5), RssAnon); 0 if it is unknown.
func anonOf(root int) (sum unit.Bytes) {
	if root <= 0 {
		return 0
	}
	for _, pid := range proc.Family(root) {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			continue
		}
		if _, rest, ok := bytes.Cut(text, []byte("\nRssAnon:")); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				kib, _ := strconv.ParseInt(string(f[0]), 10, 64)
				sum += unit.Bytes(kib) * unit.KiB
			}
		}
	}
	return sum
}
