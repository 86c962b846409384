package main

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/sweep/pack"
	"github.com/launch-ml/launch/core/sweep/packed"
	"github.com/launch-ml/launch/core/ui"
)

// packing returns the cards on which launch places the trials of a sweep; none: as many run as --jobs allows, and each
// finds its own card. Trials that use several cards find their own.
func packing(
	ctx context.Context, s settings, spec sweep.Spec, engine *sweep.Engine, t sweep.Template, trials []sweep.Trial,
) []gpu.Device {
	if s = s.ofTrials(spec.Flags); engine != nil || s.GPUs > 1 || s.Nodes != "" {
		return nil
	}
	cards, err := room.Cards(ctx, s.Wish, os.Environ())
	if err != nil || len(cards) == 0 { // each trial reports a device that is not there
		return nil
	}
	for _, trial := range trials {
		inv, err := t.Render(trial)
		if err != nil {
			return nil
		}
		c := job.Command{Args: inv.Args, Env: append(os.Environ(), inv.Env...), Dir: t.Dir}
		if room.PromiseOf(0, c, nil).Ranks > 1 {
			return nil
		}
	}
	if len(cards) > 1 && len(trials) > 0 { // a plugin may know that the command uses all cards that it sees
		spec.Pack = false
		x, err := executor(s, spec, t.Dir)
		if err != nil {
			return nil
		}
		q, err := x.Plan(ctx, t, trials[:1], true)
		if err != nil || q[0].Ranks > 1 {
			return nil
		}
	}
	return cards
}

// ofTrials are the settings with the flags that every trial gets: those of a sweep's file, and those with which a
// sweep that is resumed began.
func (s settings) ofTrials(flags []string) settings {
	f := ownFlags()
	addSet(f)
	if f.Parse(flags) != nil {
		return s
	}
	dir, _ := os.Getwd()
	all, err := readSettings(f, dir)
	if err != nil {
		return s
	}
	all.State, all.Quiet, all.JSONFile = s.State, s.Quiet, s.JSONFile
	return all
}

// policy is what the user has set of the placement.
func policy(s settings) pack.Policy {
	return pack.Policy{Headroom: max(pack.DefaultHeadroom, s.Reserve)}
}

// saveOn is how trials that share cards are asked to save their state and to stop.
const saveOn = "USR2=60s"

// onCards has trials run on the cards that the sweep chooses for them, if the user did not name one.
func (s settings) onCards(o *local.Options) {
	before := []string{"--yield"}
	if o.SaveOn = syscall.SIGUSR2; len(s.Leave) > 0 {
		o.SaveOn = s.Leave[0].Signal
	} else {
		before = append(before, "--save-on="+saveOn)
	}
	if s.Wait == 0 {
		before = append(before, "--wait") // the room may be there a moment later
	}
	if s.Device == "auto" {
		o.Pricing = []string{"--device=" + room.Any} // for the card that fits best, not for the first
	}
	o.OnCard = func(c *sweep.Card) []string {
		if s.Device != "auto" && !s.Chooses() {
			return before
		}
		// A list: then the program sees this card alone. A card that is named without a list is only watched.
		return append(before[:len(before):len(before)], "--device="+c.UUID+",")
	}
}

// A packer is the admission of a sweep that places its trials on cards. A nil packer is none.
type packer struct {
	*packed.Admission
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
func (s settings) packer(
	ctx context.Context, h *sweep.History, x sweep.Executor, say ui.Printer, stops chan<- string,
) (*packer, error) {
	l, ok := x.(*local.Executor)
	if !h.Spec.Pack || !ok {
		return nil, nil
	}
	s = s.ofTrials(h.Spec.Flags)
	cards, err := room.Cards(ctx, s.Wish, os.Environ())
	if err != nil {
		return nil, s.deviceError(err)
	}
	if len(cards) == 0 { // the machine has lost them; --jobs counts
		return nil, nil
	}
	p := &packer{say: say, wait: s.Wait, stops: stops, tick: time.NewTicker(sight), Admission: &packed.Admission{
		History: h, Machine: machine{l}, Cards: cards, Jobs: h.Spec.Jobs, Policy: policy(s), Greedy: s.Fill}}
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
