package sweep

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/launch-ml/launch/cmd/launch/internal/engine"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/ui"
)

// start begins a sweep and drives it to its end.
func (d *driver) start(
	ctx context.Context, a sweep.Asked, trials []sweep.Trial, on *sweep.Engine, detach bool,
) error {
	err := cmp.Or(checkTexts(a, trials), result.CheckFile(d.result))
	if err != nil {
		return err
	}
	spec, t, err := a.Spec(record.MaskArgs(a.Command))
	if err != nil {
		return err
	}
	cards := d.packing(ctx, spec, on, t, trials)
	if spec.Pack = len(cards) > 0; !spec.Pack {
		spec.Jobs = max(1, spec.Jobs)
	}
	quotes, err := d.price(ctx, &spec, &t, a.SamePlan, trials, true)
	if err != nil {
		return err
	}
	if err := sweep.Conflicts(quotes); err != nil {
		return err
	}
	spec.Engine = engine.Sized(on, d.placing.room, quotes)
	sweeps := local.In(d.state)
	j, err := d.create(ctx, sweeps, &spec, a.Snapshot)
	if err != nil {
		return err
	}
	t.Dir = spec.Template().Dir
	h, err := sweeps.Read(spec.Name)
	if err == nil && len(quotes) == len(trials) && len(quotes) > 0 {
		e := sweep.Event{Version: sweep.Version, Time: time.Now(), Kind: sweep.Priced, Quotes: quotes}
		h.Apply(e)
		err = j.Write(e)
	}
	if err != nil {
		j.Close()
		return err
	}
	if say := d.say; !say.Quiet {
		count := ui.Count(len(trials), "trial")
		if spec.Search != nil {
			count = "a search"
		}
		say.Line("sweep %s: %s, %s; launch sweep status %s prints the table", spec.Name, count, where(spec, len(cards)),
			spec.Name)
		say.SamePlan(spec)
	}
	return d.drive(ctx, j, h, trials, t, detach)
}

// where describes where the trials of a sweep run.
func where(spec sweep.Spec, cards int) string {
	e := spec.Engine
	if spec.Pack {
		text := "on " + ui.Count(cards, "card")
		if spec.Jobs > 0 {
			text += fmt.Sprintf(", at most %d at the same time", spec.Jobs)
		}
		return text
	}
	if e == nil {
		return fmt.Sprintf("%d at the same time", spec.Jobs)
	}
	text := "array jobs on Slurm"
	if e.Memory > 0 {
		text += fmt.Sprintf(", %v of host memory each (the largest estimate and %v spare)", e.Memory, engine.Spare)
	}
	if e.GPUs > 0 {
		text += ", " + ui.Count(e.GPUs, "card") + " each"
	}
	return text
}
