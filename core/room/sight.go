package room

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/unit"
)

// Cards lists the cards that a command may be given, one by one: all of this machine, or those that its environment or
// the wish leaves, of those whose size is known. There are none if the wish is host memory or a card that is not
// here, or without a driver.
func Cards(ctx context.Context, w Wish, env []string) ([]gpu.Device, error) {
	if w.Device == "cpu" || w.VRAM > 0 {
		return nil, nil
	}
	all, err := list(ctx)
	if errors.Is(err, drivers.ErrNoDriver) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if w.Device == "auto" {
		w.Device = Any
	}
	r := Room{wish: w, all: all}
	err = r.among(env, nil)
	return slices.DeleteFunc(r.seen, func(d gpu.Device) bool { return d.Total == 0 }), err
}

// Watch looks at the cards for all launches of this account that wait for room, until ctx is done. One of them asks the
// driver.
func Watch(ctx context.Context) { watchForAll(ctx) }

// Seen returns what the cards were seen to hold, and when; nil if nobody has looked for too long.
func Seen() (all []gpu.Device, at time.Time) { return sharedLook() }

// A Use is what a card holds.
type Use struct {
	// Others is what others hold or have claimed. It is all of the card if another launch may take all of it.
	Others unit.Bytes
	Own    map[int]unit.Bytes // by launch; none: not known
	// Untold: the driver does not tell whose the memory is, so that Others may have a part of the own launches' in it.
	Untold bool
}

// UseOf returns what a card holds, seen from the launches that one sweep has started: their process IDs are own.
func UseOf(d gpu.Device, held []Held, own []int) Use {
	l := ledger{held: held, descends: proc.Descends, visible: visible, blind: blind()}
	return l.use(d, own)
}

func (l ledger) use(d gpu.Device, own []int) Use {
	u := Use{Own: map[int]unit.Bytes{}}
	ofOwn := func(pid int) int {
		for _, launch := range own {
			if l.descends(pid, launch) {
				return launch
			}
		}
		return 0
	}
	used, gone, known := unit.Bytes(0), unit.Bytes(0), unit.Bytes(0)
	foreign := map[int]unit.Bytes{} // by launch
	var claims []Held
	claimed := unit.Bytes(0) // by own launches
	for _, h := range l.of(d) {
		if ofOwn(h.PID) == 0 {
			claims = append(claims, h)
		} else {
			claimed += h.Bytes
		}
	}
	for _, p := range d.Processes {
		launch := ofOwn(p.PID)
		other, isClaims := l.launch(p.PID, claims)
		switch {
		case p.Used < 0:
		case launch != 0:
			u.Own[launch] += p.Used
			used += p.Used
		case !l.visible(p.PID) && !l.blind: // it has ended since the driver was asked
			gone += p.Used
		case isClaims:
			foreign[other] += p.Used
			known += p.Used
		}
	}
	told := slices.ContainsFunc(d.Processes, func(p gpu.Process) bool { return p.Used >= 0 && !p.Relays() })
	hidden := l.blind || d.Unlisted && !d.Shared || slices.ContainsFunc(d.Processes, gpu.Process.Relays)
	u.Untold = used == 0 && d.Used > 0 && (hidden || !told)
	if hidden && used == 0 { // the driver does not tell whose the memory is
		used = min(d.Used, claimed)
	}
	u.Others = max(0, d.Used-used-gone)
	for _, h := range claims {
		if h.Open {
			u.Others = d.Total
			return u
		}
		u.Others += max(0, h.Bytes-foreign[h.PID])
	}
	if hidden && known == 0 { // what others hold may be what they have claimed
		sum := unit.Bytes(0)
		for _, h := range claims {
			sum += h.Bytes
		}
		u.Others = max(sum, u.Others-sum)
	}
	return u
}

func ageOf(path string) (time.Time, bool) {
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) > lookLife {
		return time.Time{}, false
	}
	return info.ModTime(), true
}
