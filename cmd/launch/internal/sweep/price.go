package sweep

import (
	"context"
	"os"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/sweep"
)

// manyTrials are so many that to price them takes long enough to be told: each is a plan of its own.
const manyTrials = 500

// price prices the trials and, if the user wants one plan for all, finds it. With probe, trials of a command
// that no plugin recognises are not priced one by one.
func (d *driver) price(
	ctx context.Context, spec *sweep.Spec, t *sweep.Template, samePlan bool, trials []sweep.Trial, probe bool,
) ([]sweep.Quote, error) {
	x := d.executor(*spec, t.Dir)
	if len(trials) >= manyTrials && !d.say.Quiet {
		d.say.Line("pricing %d trials before one begins; Ctrl-C ends it", len(trials))
	}
	quotes, err := x.Plan(ctx, *t, trials, probe && !samePlan)
	if err != nil || !samePlan {
		return quotes, err
	}
	price := func(shared sweep.Assignment) ([]sweep.Quote, error) {
		with := *t
		with.Shared = shared
		again, err := x.Plan(ctx, with, trials, false)
		quotes = again
		return again, err
	}
	shared, cost, err := sweep.SamePlan(quotes, price)
	if err != nil {
		return nil, err
	}
	spec.Shared, spec.SharedCost, t.Shared = shared, &cost, shared
	return quotes, nil
}

// packing returns the cards on which launch places the trials of a sweep; none: as many run as --jobs allows, and each
// finds its own card. Trials that use several cards find their own.
func (d *driver) packing(
	ctx context.Context, spec sweep.Spec, engine *sweep.Engine, t sweep.Template, trials []sweep.Trial,
) []gpu.Device {
	of := d.ofTrials(spec.Flags)
	if engine != nil || of.room.GPUs > 1 || of.nodes != "" {
		return nil
	}
	cards, err := room.Cards(ctx, of.room.Wish, os.Environ())
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
		q, err := d.executor(spec, t.Dir).Plan(ctx, t, trials[:1], true)
		if err != nil || q[0].Ranks > 1 {
			return nil
		}
	}
	return cards
}
