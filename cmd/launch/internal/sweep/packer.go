package sweep

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/sweep/pack"
	"github.com/launch-ml/launch/core/ui"
)

// A packer is the admission of a sweep that places its trials on cards. A nil packer is none.
type packer struct {
	*pack.Admission
	say   ui.Printer
	wait  time.Duration // how long nothing may run because others hold the cards; at most 0: without a limit
	stops chan<- string

	since time.Time // nothing runs and nothing can start; zero: something does
	gave  bool
	tick  *time.Ticker
	end   context.CancelFunc
	done  sync.WaitGroup
}

// returns is how long a sweep waits for cards that the driver no longer lists: it may be loaded again.
const returns = time.Minute

// sight is how often a sweep looks whether its trials have room.
const sight = 250 * time.Millisecond

// packer returns the admission of a sweep, nil if it does not place its trials.
func (d *driver) packer(
	ctx context.Context, h *sweep.History, x sweep.Executor, stops chan<- string,
) (*packer, error) {
	l, ok := x.(*local.Executor)
	if !h.Spec.Pack || !ok {
		return nil, nil
	}
	of := d.ofTrials(h.Spec.Flags)
	cards, err := room.Cards(ctx, of.room.Wish, os.Environ())
	if err != nil {
		return nil, of.room.DeviceError(err)
	}
	if len(cards) == 0 { // the machine has lost them; --jobs counts
		return nil, nil
	}
	p := &packer{say: d.say, wait: of.room.Wait, stops: stops, tick: time.NewTicker(sight), Admission: &pack.Admission{
		History: h, Machine: machine{l}, Cards: cards, Jobs: h.Spec.Jobs, Policy: of.policy(), Greedy: of.fill}}
	ctx, p.end = context.WithCancel(ctx)
	p.done.Go(func() { room.Watch(ctx) })
	return p, nil
}

func (p *packer) close() {
	if p != nil {
		p.tick.Stop()
		p.end()
		p.done.Wait()
	}
}

func (p *packer) ticks() <-chan time.Time {
	if p == nil {
		return nil
	}
	return p.tick.C
}

func (p *packer) gaveUp() bool { return p != nil && p.gave }

func (p *packer) or(a sweep.Admission) sweep.Admission {
	if p == nil {
		return a
	}
	return p
}

// Admit implements [sweep.Admission]. If nothing runs and nothing can start, others hold the cards: the sweep waits.
func (p *packer) Admit(waiting, running []*sweep.Row) []sweep.Move {
	moves := p.Admission.Admit(waiting, running)
	switch {
	case len(moves)+len(running) > 0 || len(waiting) == 0:
		p.since = time.Time{}
	case p.since.IsZero():
		p.since = time.Now()
		if !p.say.Quiet {
			p.say.Line("%s", p.Wait())
		}
	case p.Gone() && time.Since(p.since) > returns:
		p.giveUp("its cards are no longer there")
	case p.wait > 0 && time.Since(p.since) > p.wait:
		p.giveUp("no card had room")
	}
	return moves
}

// giveUp stops the sweep, once.
func (p *packer) giveUp(why string) {
	if p.gave {
		return
	}
	select {
	case p.stops <- why:
		p.gave = true
	default:
	}
}

// A machine is this one.
type machine struct{ *local.Executor }

// Look implements [packed.Machine].
func (machine) Look() ([]gpu.Device, time.Time) { return room.Seen() }

// Claims implements [packed.Machine].
func (machine) Claims() []room.Held { return room.Claims() }
