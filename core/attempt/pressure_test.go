package attempt

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/run"
)

// A program is asked to save when memory runs short, only in ways that it survives, and not again for a while; it is
// stopped only where a state was saved and a rung is below that would help.
func TestPressure(t *testing.T) {
	saved, refused := &overlay.LastWords{Path: "s"}, &overlay.LastWords{Why: "several processes"}
	for name, c := range map[string]struct {
		mode    string
		stops   bool // the program's own way to save ends it
		hook    *overlay.LastWords
		retries int64
		leak    *leak
		below   bool
		own     time.Duration // when the program saves by itself
		saves   int
		down    bool
		said    string // what each line has
		none    bool   // no pressure
	}{
		"off":         {retries: 2, hook: saved},
		"one refusal": {mode: Save, retries: 1, hook: saved, none: true},
		"saved": {mode: Save, retries: 2, hook: saved, saves: 1,
			said: "launch has the program save"},
		"refused": {mode: Save, retries: 2, hook: refused,
			said: "launch has | could not have it save its state: several"},
		"no way":             {mode: Save, retries: 2, said: "launch has no way"},
		"a way that ends it": {mode: Save, retries: 2, stops: true, said: "launch has no way"},
		"a leak": {mode: Save, leak: &leak{"the card's memory grows", true}, hook: saved, saves: 1,
			said: "the card's memory grows; launch has"},
		"down": {mode: StepDown, retries: 2, hook: saved, below: true, saves: 1, down: true,
			said: "launch stops it and goes on with"},
		"down, nothing below": {mode: StepDown, retries: 2, hook: saved, saves: 1,
			said: "no allowed change is left"},
		"down, host memory": {mode: StepDown, leak: &leak{"host memory grows", false}, hook: saved, below: true, saves: 1,
			said: "no allowed change"},
		"down, refused": {mode: StepDown, retries: 2, hook: refused, below: true,
			said: "launch stops it | could not"},
		"down, refused, saves": {mode: StepDown, retries: 2, hook: refused, below: true, own: time.Minute, saves: 1,
			down: true,
			said: "launch stops it | could not"},
		"down, no way, saves": {mode: StepDown, retries: 2, below: true, own: time.Minute, saves: 1,
			down: true,
			said: "launch stops it"},
		"down, a way that ends it": {mode: StepDown, retries: 2, stops: true, below: true,
			said: "launch stops it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said, began := &lines{}, time.Now()
				x := &Executor{Setup: Setup{Job: &job.Job{}, Report: said, Options: Options{OnPressure: c.mode}}}
				d, err := oom.NewDetector(job.Signs{})
				if err != nil {
					t.Fatal(err)
				}
				l := &listener{detector: d}
				s := saver{ask: func(end bool) (bool, bool) { return c.stops && end, c.stops && end },
					saved: func() string {
						if c.own > 0 && time.Since(began) > c.own {
							return "one"
						}
						return ""
					}}
				if c.hook != nil {
					s.hook = func() func() *overlay.LastWords { return func() *overlay.LastWords { return c.hook } }
				}
				a := attempt{}
				if c.below {
					a.below = &run.Plan{}
				}
				p, ctx := x.presser(context.Background(), a, l, s)
				l.pressed.Store(c.retries)
				l.leaking.Store(c.leak)
				time.Sleep(5 * time.Minute)
				if c.retries >= refusals {
					l.pressed.Add(10) // it goes on, but the pause is longer
				}
				time.Sleep(4 * time.Minute)
				stopped := ctx.Err() != nil
				found := p.stop()
				switch {
				case found == nil && c.none:
				case found == nil || c.none:
					t.Errorf("it finds %+v", found)
				case found.Saved != c.saves || found.Down != c.down || stopped != c.down:
					t.Errorf("%+v, stopped %v", found, stopped)
				}
				want := strings.Split(c.said, " | ")
				if c.said == "" {
					want = nil
				}
				if !slices.EqualFunc(said.text, want, strings.Contains) {
					t.Errorf("it prints %q; want %q", said.text, want)
				}
			})
		})
	}
}
