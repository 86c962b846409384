package record

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

// Receipts returns the receipts of an attempt of run r that has ended, under the run's name. A phase has one if it was
// completed, or if it ran out of memory: then it needs at least what it was refused.
//
// What the program does not confirm teaches nothing of a formula. A phase without a formula has a receipt unless the
// program reports another setting, or shows by equal failures that it does not take it: otherwise each later run would
// run out of memory at the same rungs again. Its estimates refuse nothing.
func (s Subject) Receipts(name string, r *run.Run, a *run.Attempt) (out []Receipt) {
	o := &a.Outcome
	open := a.Unconfirmed(s.job)
	otherwise := slices.ContainsFunc(open, func(u run.Open) bool { return u.Said != "" })
	if o.Untaken != "" || s.machine.Kind == "" || otherwise ||
		len(open) > 0 && r.Unmoved(a) != "" { // its actual settings are unknown
		return nil
	}
	set := cmp.Or(r.Priced, r.Ladders)
	for _, c := range a.Plan.Choices {
		price := set.Ladder(c.Phase).Rungs[c.Rung].At(a.Plan.Shared.Rung)
		k, ok := s.ranAt(set, r.Ladders.Host, a, c)
		if !ok || len(open) > 0 && price.Known() {
			continue
		}
		rec := Receipt{
			Version: ReceiptVersion, Run: name, Attempt: a.Plan.Attempt, Time: o.Began.Add(o.Took).UTC().Truncate(time.Second),
			Job: k, Machine: s.machine, Ending: string(o.Ending),
			Predicted: predicted(set, a, c), Measured: peaks(set, a, c.Phase, s.machine.Kind),
			Retries: o.Retries[c.Phase],
		}
		if c.Estimate.Known() {
			rec.Planned = c.Estimate.Total()
		}
		if c.Phase == ladder.Training {
			rec.Rate = o.Rate
		}
		if rec.check() == nil {
			out = append(out, rec)
		}
	}
	return out
}

// ranAt returns the key of a phase as the attempt ran it. It returns false if the program printed other settings.
func (s Subject) ranAt(set *ladder.Set, host *ladder.HostLadder, a *run.Attempt, c run.Choice) (ReceiptKey, bool) {
	k := s.key(set, c.Phase, a.Plan.Shared.Rung, c.Rung)
	elsewhere := map[string]string{} // by knob: a program prints one value, and the plan may set it for another phase only
	for _, c := range a.Plan.Choices {
		for _, e := range set.Ladder(c.Phase).Rungs[c.Rung].Edits {
			elsewhere[e.Knob] = e.To
		}
	}
	if contradicted(k.Settings, elsewhere, a.Outcome.Settings) {
		return k, false
	}
	if h := a.Plan.Host; h != nil && host != nil { // loader settings count as well
		for _, e := range host.Rungs[h.Rung].Edits {
			k.Settings[e.Knob] = e.To
		}
	}
	if resumed(c) != nil {
		k.Settings[run.ResumedState] = "yes"
	}
	return k, true
}

// predicted is the estimate of a phase as the plugin priced it, plus the saved state that stays in memory after a resume.
func predicted(set *ladder.Set, a *run.Attempt, c run.Choice) mem.Estimate {
	raw := set.Ladder(c.Phase).Rungs[c.Rung].At(a.Plan.Shared.Rung)
	e := mem.Estimate{Unknown: raw.Unknown, Reserved: raw.Reserved, Items: append(slices.Clone(raw.Items), resumed(c)...)}
	for i := range e.Items {
		e.Items[i].From = "" // the run's record has the source
	}
	return e
}

// resumed returns the line of the saved state that the attempt resumed from, or none.
func resumed(c run.Choice) []mem.Item {
	if i := slices.IndexFunc(c.Estimate.Items, func(it mem.Item) bool { return it.What == run.ResumedState }); i >= 0 {
		return c.Estimate.Items[i : i+1]
	}
	return nil
}

// peaks returns what an attempt measured of a phase on a kind of device. It returns nothing for a phase that neither
// completed nor ran out of memory.
func peaks(set *ladder.Set, a *run.Attempt, phase, kind string) []mem.Measurement {
	o, failed := &a.Outcome, a.Outcome.Phase
	if set.Ladder(failed) == nil {
		failed = ladder.Training
	}
	if o.Ending == run.OutOfMemory && failed == phase { // even if it was completed before
		price := set.Ladder(phase).Rungs[a.Plan.Choice(phase).Rung].At(a.Plan.Shared.Rung)
		return refused(a, kind, price.Known())
	}
	if !slices.Contains(o.Passed, phase) {
		return nil
	}
	ms := slices.Clone(o.Measured[phase])
	if len(ms) == 0 && o.PeakIs == run.Resident {
		return []mem.Measurement{{Is: mem.Resident, Bytes: o.Peak, Bound: mem.AtMost, From: "getrusage"}}
	}
	if phase == ladder.Training && hidden(a) {
		for i := range ms {
			ms[i].Bound = mem.AtMost
		}
	}
	return ms
}

// contradicted reports whether the program printed a number that the plan set neither for this phase nor for another.
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

// hidden reports whether the peak that was measured for training may belong to another phase: one that the program may
// have run without printing so.
func hidden(a *run.Attempt) bool {
	training := a.Plan.Choice(ladder.Training)
	return slices.ContainsFunc(a.Plan.Choices, func(c run.Choice) bool {
		return c.Phase != ladder.Training && !slices.Contains(a.Outcome.Passed, c.Phase) && len(a.Outcome.Measured[c.Phase]) == 0 &&
			(!c.Estimate.Known() || 10*c.Estimate.Total() > 9*training.Estimate.Total())
	})
}

// refused returns what a phase needs at least, by its out-of-memory. Without a formula the room counts too: of all that
// was beyond it only live tensors are known, and the next run must not try the same size in the same room again.
func refused(a *run.Attempt, kind string, formula bool) (out []mem.Measurement) {
	rep, message := a.Outcome.Report, "the out-of-memory message"
	more := mem.Measurement{Is: mem.Used, Bytes: a.Plan.Room + 1, Bound: mem.AtLeast, From: "the room that it ran out of"}
	ofCard := slices.Contains([]oom.Kind{oom.GPUCapacity, oom.GPUFragmentation, oom.GPUUnspecified}, rep.Kind)
	switch {
	case kind == gpu.CPU && a.Plan.Room > 0 && (rep.Kind == oom.CPUAlloc || !formula && rep.Kind == oom.HostOOM):
		return []mem.Measurement{{Is: mem.Data, Bytes: a.Plan.Room + 1, Bound: mem.AtLeast, From: "the limit that it ran into"}}
	case (gpu.Device{Kind: kind}).OnCard() && a.Plan.Room > 0 && !formula && ofCard:
		if rep.Kind != oom.GPUFragmentation && rep.Allocated != nil && rep.Requested != nil {
			out = append(out, mem.Measurement{Is: mem.Allocated, Bytes: *rep.Allocated + *rep.Requested, Bound: mem.AtLeast, From: message})
		}
		return append(out, more)
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
