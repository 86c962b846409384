package carry

import (
	"context"
	"os"

	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// A keeper is the journal of a run that goes on only as what it began.
type keeper struct {
	run.Journal
	began  *sameness.Taken // what the run is
	again  func() identity.Subject
	rec    *record.Record // may be nil
	run    *run.Run
	say    ui.Printer
	accept bool
	ended  bool // an attempt of this launch has ended
	input  sameness.Stdin
	pipes  []sameness.Pipe // that arguments name
	past   identity.Past
}

// Planned implements [run.Journal]. Before an attempt after the first it compares what is there now with what the run
// began as.
func (k *keeper) Planned(p *run.Plan) error {
	if !k.ended && p.Trial == "" {
		k.input.Begin(os.Stdin)
		k.pipes = sameness.PipesOf(k.again().Command)
	}
	if was := k.began; k.ended && p.Trial == "" && was.Get() != nil {
		now := identity.Take(k.again(), was.Get().Salt)
		what := append(identity.Compare(was.Get(), now, k.past), k.input.Again()...)
		for _, p := range k.pipes {
			what = append(what, p.Again()...)
		}
		switch {
		case len(what) == 0:
		case !k.accept:
			return &run.Halt{Stop: &run.Stop{Code: run.OwnTrouble, Why: sameness.ChangedSince(records.ID(k.rec), what),
				Unlike: sameness.MixOf(nil, what).What}}
		default:
			k.mark(sameness.MixOf(p.Resume, what), now)
		}
	}
	return k.Journal.Planned(p)
}

// mark notes that the run is no longer what it began as. now is what it is from here on; nil: what it was.
func (k *keeper) mark(m run.Mix, now *identity.Identity) {
	if k.run.Mixed = append(k.run.Mixed, m); now != nil {
		k.began = sameness.Already(now)
		sameness.KeepDiff(context.Background(), k.rec, k.again(), now)
	}
	if k.rec != nil {
		k.rec.Write(record.Event{Kind: record.Mixed, Identity: now, Mix: &m})
	}
	k.say.Warn("%v", m)
}

// Ended implements [run.Journal]. It lists the data once more: what the attempt itself has written is no change.
func (k *keeper) Ended(a *run.Attempt) error {
	if a.Plan.Trial == "" {
		k.ended = true
		if was := k.began.Get(); was != nil && a.Outcome.Ending != run.Succeeded {
			k.past = identity.Past{Left: was.Again(k.again())}
			if k.rec != nil {
				k.rec.Write(record.Event{Kind: record.Listed, Data: k.past.Left})
			}
		}
	}
	return k.Journal.Ended(a)
}
