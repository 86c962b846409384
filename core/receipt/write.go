package receipt

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
)

// Receipts makes the receipts of an attempt that has ended. Only a phase that was gone through completely was measured; one
// that ran out of memory needs at least what it was refused.
func (b Subject) Receipts(name string, r *run.Run, a *run.Attempt) (out []Receipt) {
	o := &a.Outcome
	if o.Untaken != "" || b.machine.Kind == "" || len(a.Unconfirmed(b.job)) > 0 { // what it ran with is not known
		return nil
	}
	set, failed := cmp.Or(r.Priced, r.Ladders), o.Phase
	if set.Ladder(failed) == nil {
		failed = ladder.Training
	}
	elsewhere := map[string]string{} // what the plan sets for one phase it does not set for another, and the program has it in all
	for _, c := range a.Plan.Choices {
		for _, e := range set.Ladder(c.Phase).Rungs[c.Rung].Edits {
			elsewhere[e.Knob] = e.To
		}
	}
	for _, c := range a.Plan.Choices {
		k := b.key(set, c.Phase, a.Plan.Shared.Rung, c.Rung)
		if contradicted(k.Settings, elsewhere, o.Settings) {
			continue
		}
		rec := Receipt{
			Version: Version, Run: name, Attempt: a.Plan.Attempt, Time: o.Began.Add(o.Took).UTC().Truncate(time.Second),
			Job: k, Machine: b.machine, Ending: string(o.Ending), Planned: c.Estimate.Total(),
		}
		if h := a.Plan.Host; h != nil && r.Ladders.Host != nil { // how it was fed is a setting as any other
			for _, e := range r.Ladders.Host.Rungs[h.Rung].Edits {
				k.Settings[e.Knob] = e.To
			}
		}
		raw := set.Ladder(c.Phase).Rungs[c.Rung].At(a.Plan.Shared.Rung)
		rec.Predicted.Unknown, rec.Predicted.Reserved = raw.Unknown, raw.Reserved
		rec.Predicted.Items = slices.Clone(raw.Items)
		if i := slices.IndexFunc(c.Estimate.Items, func(it mem.Item) bool { return it.What == run.ResumedState }); i >= 0 {
			rec.Predicted.Items = append(rec.Predicted.Items, c.Estimate.Items[i])
			k.Settings[run.ResumedState] = "yes"
		}
		for i := range rec.Predicted.Items {
			rec.Predicted.Items[i].From = "" // the run's record has it
		}
		if !c.Estimate.Known() {
			rec.Planned = 0
		}
		switch {
		case o.Ending == run.OutOfMemory && failed == c.Phase: // though it may have passed before
			rec.Measured = refused(a, b.machine.Kind)
		case slices.Contains(o.Passed, c.Phase):
			rec.Measured = slices.Clone(o.Measured[c.Phase])
			if len(rec.Measured) == 0 && o.PeakIs == run.Resident {
				rec.Measured = []mem.Measurement{{Is: mem.Resident, Bytes: o.Peak, Bound: mem.AtMost, From: "getrusage"}}
			}
			if c.Phase == ladder.Training && hidden(a) {
				for i := range rec.Measured {
					rec.Measured[i].Bound = mem.AtMost
				}
			}
		}
		if rec.Check() == nil {
			out = append(out, rec)
		}
	}
	return out
}

// contradicted reports whether the program ran with other settings than it was given, for this phase or for another.
func contradicted(given, elsewhere, said map[string]string) bool {
	for knob, value := range said {
		want, ok := given[knob]
		if value = strings.ReplaceAll(value, ",", ""); ok && value != want && value != elsewhere[knob] {
			if _, err := strconv.ParseFloat(want, 64); err == nil {
				return true
			}
		}
	}
	return false
}

// hidden reports whether another phase, of which the program may have said no word, could have made the peak that was
// taken for training's.
func hidden(a *run.Attempt) bool {
	training := a.Plan.Choice(ladder.Training)
	return slices.ContainsFunc(a.Plan.Choices, func(c run.Choice) bool {
		return c.Phase != ladder.Training && !slices.Contains(a.Outcome.Passed, c.Phase) && len(a.Outcome.Measured[c.Phase]) == 0 &&
			(!c.Estimate.Known() || 10*c.Estimate.Total() > 9*training.Estimate.Total())
	})
}

// refused is what an out-of-memory proves that its phase needs.
func refused(a *run.Attempt, kind string) (out []mem.Measurement) {
	rep, message := a.Outcome.Report, "the out-of-memory message"
	switch {
	case kind == gpu.CPU && rep.Kind == oom.CPUAlloc && a.Plan.Room > 0:
		return []mem.Measurement{{Is: mem.Data, Bytes: a.Plan.Room + 1, Bound: mem.AtLeast, From: "the limit that it ran into"}}
	case kind == gpu.CPU || rep.Kind == oom.GPUContention || rep.Kind == oom.GPUFragmentation || rep.Allocated == nil || rep.Requested == nil:
		return nil
	}
	out = append(out, mem.Measurement{Is: mem.Allocated, Bytes: *rep.Allocated + *rep.Requested, Bound: mem.AtLeast, From: message})
	if rep.Reserved != nil && rep.ProcessInUse != nil && *rep.ProcessInUse > *rep.Reserved { // the difference is the context
		out = append(out, mem.Measurement{Is: mem.Reserved, Bytes: *rep.Reserved, Bound: mem.AtLeast, From: message},
			mem.Measurement{Is: mem.Used, Bytes: *rep.ProcessInUse, Bound: mem.AtLeast, From: message})
	}
	return out
}
