package observe

import (
	"testing"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// TestObservations: the verdict needs the fullest of the last looks: not the very last, when the job may be gone already,
// and not an old one.
func TestObservations(t *testing.T) {
	l := newObservations(time.Second)
	if l.Card() != nil || l.Host() != nil {
		t.Fatal("nobody has looked, and something was seen")
	}
	gib := unit.GiB
	at := func(used, held unit.Bytes, who ...oom.Holder) {
		l.addCard(gpu.Device{Total: 24 * gib, Used: used}, held, used-held, who)
	}
	at(24*gib, gib) // long ago
	for range lastLooks {
		at(8*gib, 6*gib)
	}
	at(23*gib, 14*gib, oom.Holder{PID: 1, Bytes: 2 * gib}, oom.Holder{PID: 2, Bytes: 7 * gib})
	at(2*gib, 0) // it is gone
	c := l.Card()
	if c.Free != gib || c.Others != 9*gib || c.Peak != 14*gib || c.Capacity != 24*gib || c.Looks != lastLooks+3 || c.Every != time.Second {
		t.Errorf("of the card was seen %+v", *c)
	}
	if len(c.Who) != 2 || c.Who[0].PID != 2 {
		t.Errorf("on it were %v", c.Who)
	}
	if c.Steady > time.Second || c.At != 0 {
		t.Errorf("steady for %v at %v, right after it fell", c.Steady, c.At)
	}

	host := func(free unit.Bytes, by string) {
		l.addHost(ladder.HostRooms{Memory: &ladder.HostRoom{Free: free, By: by}})
	}
	l.addHost(ladder.HostRooms{})
	if l.Host() != nil {
		t.Error("a room that is not known is none that is empty")
	}
	host(10*gib, "the machine")
	host(gib, "a cgroup")
	host(2*gib, "the machine")
	if h := l.Host(); h.Room != 10*gib || h.Least != gib || h.By != "a cgroup" || h.Looks != 3 {
		t.Errorf("of the host was seen %+v", *h)
	}
	for range lastLooks {
		host(5*gib, "the machine")
	}
	if h := l.Host(); h.Least != 5*gib || h.Room != 10*gib {
		t.Errorf("of the host was seen last %+v", *h)
	}
}

// TestSteady: small changes are none, and a large one begins anew.
func TestSteady(t *testing.T) {
	l := newObservations(time.Second)
	at := func(held unit.Bytes) { l.addCard(gpu.Device{Total: 24 * unit.GiB, Used: held}, held, 0, nil) }
	at(unit.GiB)
	l.since = l.since.Add(-time.Hour)
	at(unit.GiB + 20*unit.MiB)
	if c := l.Card(); c.Steady < time.Hour || c.At != unit.GiB {
		t.Errorf("steady for %v at %v", c.Steady, c.At)
	}
	at(2 * unit.GiB)
	if c := l.Card(); c.Steady > time.Minute || c.At != 2*unit.GiB {
		t.Errorf("after it grew, steady for %v at %v", c.Steady, c.At)
	}
}
