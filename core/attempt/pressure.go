package attempt

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// What launch does when memory runs short while a program trains: [Options.OnPressure].
const (
	Save     = "save"      // the program saves its state, and goes on
	StepDown = "step-down" // then it is stopped, and the run goes on one rung lower
)

const (
	// refusals are how many requests a card must refuse after the first step until that is pressure. The allocator met
	// them: a single one may have been for what was needed once.
	refusals = 2
	// pause is the time from one save to the next, at first. It doubles, because each save stays on the disk.
	pause = 10 * time.Minute
)

// A leak is a forecast that the memory of the card, or of the host, will be used up.
type leak struct {
	what string
	card bool
}

// press notes advice about memory that is about to run out.
func (l *listener) press(a job.Advice) {
	if pressing, card := advice.Pressing(a); pressing {
		l.leaking.CompareAndSwap(nil, &leak{what: a.What, card: card})
	}
}

// A presser sees that memory runs short, and has the program save its state.
type presser struct {
	x       *Executor
	a       attempt
	l       *listener
	s       saver
	cancel  context.CancelFunc
	over    chan struct{}
	done    chan struct{}
	once    sync.Once
	found   *run.Pressure // read once done is closed
	handled int64         // refusals that were acted on
}

// presser starts the presser of an attempt. It returns the context that it cancels when the program has saved its state
// and is to go on one rung lower.
func (x *Executor) presser(ctx context.Context, a attempt, l *listener, s saver) (*presser, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	p := &presser{x: x, a: a, l: l, s: s, cancel: cancel, over: make(chan struct{}), done: make(chan struct{})}
	if x.Job == nil || a.trial != "" {
		close(p.done)
		return p, ctx
	}
	go p.look(ctx, time.Now())
	return p, ctx
}

// stop ends the presser, and returns what it has found.
func (p *presser) stop() *run.Pressure {
	p.once.Do(func() { close(p.over) })
	<-p.done
	p.cancel()
	return p.found
}

// look looks for pressure until the attempt is over, and acts on it as often as it may.
func (p *presser) look(ctx context.Context, began time.Time) {
	defer close(p.done)
	tick := time.NewTicker(lookForRequest)
	defer tick.Stop()
	var next time.Time
	for wait := pause; ; {
		select {
		case <-p.over:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		why, card := p.short()
		if why == "" {
			continue
		}
		if p.found == nil {
			p.found = &run.Pressure{Why: why, Iteration: max(0, p.l.detector.State().Iteration), After: time.Since(began),
				Way: p.x.Job.Save.Signal != "" || p.x.hookSaves(&p.a)}
		}
		if p.x.OnPressure == "" {
			return // what was found first is all that is told
		}
		if time.Now().Before(next) {
			continue
		}
		if p.handled = p.refused(); p.act(ctx, why, card) {
			return
		}
		next, wait = time.Now().Add(wait), 2*wait
	}
}

// refused is how many requests the card has refused since the program began to train, by what it prints and by the
// hook.
func (p *presser) refused() int64 {
	n := p.l.pressed.Load()
	if p.a.words {
		n = max(n, p.a.overlay.Report().Retries())
	}
	return n
}

// short returns how it shows that memory runs short, "" if nothing new shows it, and whether that is the card's.
func (p *presser) short() (why string, card bool) {
	if n := p.refused(); n >= p.handled+refusals {
		why = fmt.Sprintf("the card refused %d requests for memory, which the allocator met by giving up its cache", n)
		if short := unit.Bytes(p.l.short.Load()); short > 0 {
			why += fmt.Sprintf(", %v short", short)
		}
		return why, true
	}
	if k := p.l.leaking.Load(); k != nil && p.found == nil {
		return k.what, k.card
	}
	return "", false
}

// act has the program save its state and, where that was asked for and a rung is below, stops it then. done: nothing is
// left to do in this attempt.
func (p *presser) act(ctx context.Context, why string, card bool) (done bool) {
	below := p.a.below
	if !card { // the rungs of the phases are of the card
		below = nil
	}
	before := p.s.saved()
	w := p.s.request(below != nil)
	asked := w.signalled || w.answer != nil
	switch {
	case below != nil:
		p.x.Report.Line("memory runs short: %s; when the program has saved its state, launch stops it and goes on with %s",
			why, below.Changes())
	case asked && p.x.OnPressure == StepDown:
		p.x.Report.Line("memory runs short: %s; no allowed change is left to go on with, so launch only has the program "+
			"save its state", why)
	case asked:
		p.x.Report.Line("memory runs short: %s; launch has the program save its state", why)
	default:
		p.x.Report.Line("memory runs short: %s; launch has no way to have the program save its state", why)
		return true
	}
	saved := p.wait(ctx, before, &w, below != nil)
	if saved {
		p.found.Saved++
		p.found.Down = below != nil
	}
	if p.found.Down {
		p.cancel()
	}
	return p.found.Down
}

// wait returns when a new state was saved, when the program refused to save one and none is waited for, or when the
// attempt is over.
func (p *presser) wait(ctx context.Context, before string, w *wish, patient bool) (saved bool) {
	gone := false
	refused := func(why string) {
		p.x.Report.Line("launch could not have it save its state: %s", why)
		gone = !patient
	}
	tick := time.NewTicker(lookForState)
	defer tick.Stop()
	for {
		select {
		case <-p.over: // a program that ends when it has saved
			return w.stops && p.s.saved() != before
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if w.answered(refused) || !w.stops && p.s.saved() != before {
			return true
		}
		if gone {
			return false
		}
	}
}

// underPressure adds to an outcome what was seen of memory that ran short. If launch stopped the program for that, the
// run goes on.
func underPressure(out *run.Outcome, p *run.Pressure) {
	if out.Pressure = p; p == nil || !p.Down {
		return
	}
	if out.Ending == run.OutOfMemory || out.Left != "" || out.Ending == run.Succeeded && out.Claimed {
		p.Down = false // it had ended before launch stopped it
		return
	}
	out.Ending, out.Lied, out.Silent, out.Asked, out.Phase = run.Interrupted, false, false, "", ladder.Training
	out.Cause = p.Why + ": the program saved its state and was stopped"
}
