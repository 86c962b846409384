package plugin

import (
	"fmt"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
)

// Divisions makes the ladders that most families have: a training whose micro-batch and accumulation are settings, so
// that each division of the global batch is a rung. The rungs above the one that was asked for have a larger
// micro-batch. A rung that saves nothing is left out, and the global batch is an invariant.
type Divisions struct {
	Asked ladder.Split
	// Cost is what another division gives up: [ladder.Speed], or [ladder.Numerics] where batch normalisation sees the
	// micro-batch.
	Cost ladder.Cost
	// Takes reports whether the program accepts a division; nil: it accepts every one.
	Takes func(ladder.Split) bool
	// Edits are those that lead from the command as typed to another division. Their cost is set to Cost. Without any
	// the division is no rung.
	Edits func(ladder.Split) []config.Edit
	// Price is the memory of the training at a division, as if it had been typed.
	Price func(ladder.Split) mem.Estimate
}

// Set makes the ladders: a shared one without rungs beside the job as asked, and one of the training. More rungs and
// phases can be added to it.
func (d Divisions) Set() *ladder.Set {
	takes := d.Takes
	if takes == nil {
		takes = func(ladder.Split) bool { return true }
	}
	larger, smaller := d.Asked.Others(takes)
	above, below := d.rungs(larger), d.rungs(smaller)
	set := &ladder.Set{
		Values: map[string]int64{job.MicroBatch: d.Asked.Micro, job.Accumulation: d.Asked.Accumulation},
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Asked: len(above),
			Rungs: append(above, ladder.Descend(ladder.AsAsked(d.Price(d.Asked)), below, 0)...)}},
	}
	if global := d.Asked.Micro * d.Asked.Accumulation; global > 0 {
		set.Invariants = []ladder.Invariant{{Name: job.GlobalBatch, Until: ladder.Recipe, Equals: global,
			Factors: []string{job.MicroBatch, job.Accumulation}}}
	}
	return set
}

func (d Divisions) rungs(splits []ladder.Split) (rungs []ladder.Rung) {
	for _, s := range splits {
		edits := d.Edits(s)
		if len(edits) == 0 {
			continue
		}
		for i := range edits {
			edits[i].Cost = d.Cost.String()
		}
		rungs = append(rungs, ladder.Rung{
			Name: fmt.Sprintf("micro-batch %d × accumulation %d", s.Micro, s.Accumulation), Cost: d.Cost, Edits: edits,
			Slowdown:  ladder.SplitSlowdown(float64(d.Asked.Micro) / float64(s.Micro)),
			Values:    map[string]int64{job.MicroBatch: s.Micro, job.Accumulation: s.Accumulation},
			Estimates: []mem.Estimate{d.Price(s)},
		})
	}
	return rungs
}
