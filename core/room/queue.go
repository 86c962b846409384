package room

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/private"
)

// Patience is how long a launch waits for room.
type Patience struct {
	For time.Duration // 0: not at all; negative: without a limit
	// Say prints that it waits, and for what. It is called once.
	Say func(want Want)
}

// A turn is one look at the claims.
type turn struct {
	since   time.Time // when the launch began to wait
	patient bool      // it may wait, or go on waiting
}

// errLook is the error of a decision that needs a fresh look at the cards.
var errLook = errors.New("look again")

// A queue is the wait of one launch for room. While it waits, it has entries among the claims, which hold nothing.
type queue struct {
	Patience
	// decide returns what to claim, or entries that wait.
	decide func([]Held, turn) ([]Want, error)
	look   func() error       // asks the driver; nil for host memory
	seen   func([]gpu.Device) // takes what another launch has seen; nil for host memory

	entries []*Claim
}

const (
	glance = 100 * time.Millisecond // how often a waiting launch looks whether a claim has changed
	bury   = 500 * time.Millisecond // how often it looks for launches that were killed
	sight  = 250 * time.Millisecond // how often one of them asks the driver
	reopen = 3 * time.Second / 2    // after this it decides again, even if nothing seems to have changed
)

// wait returns the claims that decide wants, as soon as it wants any that do not wait. It returns when ctx is done.
func (q *queue) wait(ctx context.Context) ([]*Claim, error) {
	t := turn{since: time.Now(), patient: q.For != 0}
	defer func() {
		for _, c := range q.entries {
			c.Release()
		}
	}()
	for looked := false; ; looked = true {
		made, err := q.once(t)
		if errors.Is(err, ErrClaims) && t.patient && ctx.Err() == nil { // many launches on a busy machine
			continue
		}
		if !errors.Is(err, errLook) || looked {
			if err != nil || len(q.entries) == 0 {
				return made, err
			}
			break
		}
		if err := q.look(); err != nil {
			return nil, err
		}
	}
	if q.Say != nil {
		q.Say(q.entries[0].Want())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if q.seen != nil {
		done := make(chan struct{})
		go func() {
			defer close(done)
			watchForAll(ctx)
		}()
		defer func() { cancel(); <-done }()
	}
	return q.stand(ctx, t)
}

// stand waits in the queue.
func (q *queue) stand(ctx context.Context, t turn) ([]*Claim, error) {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	var last, buried, stamp time.Time
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		now := time.Now()
		if now.Sub(buried) > bury {
			buried = now
			BuryClaims(bury)
		}
		t.patient = q.For < 0 || now.Sub(t.since) < q.For
		if changed := ClaimStamp(); t.patient && changed.Equal(stamp) && now.Sub(last) < reopen {
			continue
		} else {
			stamp, last = changed, now
		}
		if q.seen != nil {
			if all, _ := sharedLook(); all != nil {
				q.seen(all)
			}
		}
		made, err := q.once(t)
		if errors.Is(err, errLook) {
			if err = q.look(); err == nil {
				made, err = q.once(t)
			}
		}
		if err != nil && !errors.Is(err, ErrClaims) || len(made) > 0 {
			return made, err
		}
		if err == nil && len(q.entries) == 0 { // it was let go without a claim: it is refused elsewhere, or runs as asked
			return made, nil
		}
	}
}

// once decides. Entries that wait are made only once.
func (q *queue) once(t turn) (made []*Claim, err error) {
	still := false
	made, err = DecideClaims(q.entries, func(held []Held) ([]Want, error) {
		wants, err := q.decide(held, t)
		if err == nil && len(wants) > 0 && wants[0].Waiting && len(q.entries) > 0 {
			still = true
			return nil, errStill
		}
		return wants, err
	})
	switch {
	case still:
		return nil, nil
	case err != nil:
		return nil, err
	}
	q.entries = nil
	if len(made) > 0 && made[0].Want().Waiting {
		q.entries, made = made, nil
	}
	return made, nil
}

// errStill ends a decision that leaves everything as it was.
var errStill = errors.New("still waiting")

// The launches of this account that wait share what one of them sees of the cards: a driver that is asked by forty
// would have little time for anything else.
const (
	lookFile = ".cards"
	lookLock = ".watching"
	lookLife = 6 * sight // how long a look counts
)

// watchForAll asks the driver for all waiting launches, from when no other one does until ctx is done.
func watchForAll(ctx context.Context) {
	path, err := SharedPath(lookFile)
	if err != nil {
		return
	}
	lock, err := SharedPath(lookLock)
	if err != nil {
		return
	}
	f, err := private.Open(lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	for ctx.Err() == nil {
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			before := ""
			_ = drivers.Watch(ctx, sight, func(now time.Time, all []gpu.Device) {
				text, err := json.Marshal(append([]gpu.Device{}, all...)) // none is a look, too
				switch {
				case err != nil:
				case string(text) == before:
					os.Chtimes(path, now, now)
				case private.WriteFile(path+".next", text, 0o600) == nil && os.Rename(path+".next", path) == nil:
					before = string(text)
				}
			})
		}
		select { // while another one watches, or after the driver has failed
		case <-ctx.Done():
		case <-time.After(sight):
		}
	}
}

// sharedLook is what the cards were seen to hold, and when; nil if nobody has looked for too long.
func sharedLook() (all []gpu.Device, at time.Time) {
	path, err := SharedPath(lookFile)
	if err != nil {
		return nil, at
	}
	at, ok := ageOf(path)
	if !ok {
		return nil, at
	}
	text, err := private.ReadFile(path)
	if err != nil || json.Unmarshal(text, &all) != nil {
		return nil, at
	}
	return all, at
}
