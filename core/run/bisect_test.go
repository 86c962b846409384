package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// what is known of a micro-batch before a run, in GiB: a measurement, a guess in proportion, or that it failed with
// that.
type before struct {
	measured, guessed, failed map[int64]unit.Bytes
}

func (b before) at(micro int64) mem.Estimate {
	of := func(n unit.Bytes, guess bool) mem.Estimate {
		return mem.Estimate{
			Items:   []mem.Item{{Kind: mem.Correction, What: "training", Bytes: n * g, Guess: guess}},
			Learned: []string{"r"},
		}
	}
	if n, ok := b.measured[micro]; ok {
		return of(n, false)
	} else if n, ok := b.guessed[micro]; ok {
		return of(n, true)
	} else if n, ok := b.failed[micro]; ok {
		e := of(n, false)
		e.Unknown = "these settings ran out of memory"
		return e
	}
	return unknown()
}

// splittable is a job without a formula whose batch can be divided in every way, in a room of 12 GiB.
func splittable(micro int64, b before, others ...ladder.Rung) *Run {
	l := ladder.Ladder{Phase: ladder.Training}
	p := ladder.Ladder{Phase: ladder.Training}
	add := func(r ladder.Rung, e mem.Estimate) {
		r.Estimates = []mem.Estimate{e}
		l.Rungs = append(l.Rungs, r)
		r.Estimates = []mem.Estimate{unknown()}
		p.Rungs = append(p.Rungs, r)
	}
	add(ladder.AsAsked(), b.at(micro))
	_, smaller := ladder.Split{Micro: micro, Accumulation: 1}.Others(func(ladder.Split) bool { return true })
	for _, s := range smaller {
		r := rung(fmt.Sprint(s.Micro), ladder.Speed, job.MicroBatch, fmt.Sprint(s.Micro), unknown())
		r.Values = map[string]int64{job.MicroBatch: s.Micro, job.Accumulation: s.Accumulation}
		add(r, b.at(s.Micro))
	}
	for _, o := range others {
		add(o, unknown())
	}
	shared := ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}}
	values := map[string]int64{job.MicroBatch: micro, job.Accumulation: 1}
	return &Run{
		Job:     &job.Job{Batch: job.Batch{Micro: micro, Accumulation: 1, Ranks: 1}},
		Ladders: &ladder.Set{Shared: shared, Phases: []ladder.Ladder{l}, Values: values},
		Priced:  &ladder.Set{Shared: shared, Phases: []ladder.Ladder{p}, Values: values},
		Limits:  Limits{Allow: ladder.Speed}, Room: 12 * g,
	}
}

// coupledSplit is the same job with its micro-batch on the shared ladder: validation uses it, too.
func coupledSplit(r *Run) *Run {
	out := *r
	for _, into := range []**ladder.Set{&out.Ladders, &out.Priced} {
		set := **into
		l := set.Phases[0]
		set.Shared = ladder.Ladder{Phase: ladder.Shared, Asked: l.Asked}
		asked := ladder.AsAsked()
		for _, rg := range l.Rungs {
			asked.Estimates = append(asked.Estimates, rg.Estimates[0])
			rg.Estimates = nil
			set.Shared.Rungs = append(set.Shared.Rungs, rg)
		}
		set.Phases = []ladder.Ladder{
			{Phase: ladder.Training, Rungs: []ladder.Rung{asked}},
			{Phase: ladder.Validation, Rungs: []ladder.Rung{asked}},
		}
		*into = &set
	}
	return &out
}

// story is the micro-batches that a run tries if those above fits run out of memory.
func story(t *testing.T, r *Run, fits int64, outs ...Outcome) string {
	t.Helper()
	var tried []string
	for i := 0; ; i++ {
		p, stop := r.Next()
		if stop != nil {
			return strings.Join(tried, " ")
		}
		tried = append(tried, fmt.Sprint(p.Batch.Micro))
		out := oomIn(ladder.Training, 0, 0)
		if p.Batch.Micro <= fits {
			out = Outcome{Ending: Succeeded}
		}
		if i < len(outs) {
			out = outs[i]
		}
		r.Attempts = append(r.Attempts, Attempt{*p, out})
	}
}

func TestBisect(t *testing.T) {
	type m = map[int64]unit.Bytes
	checkpointing := rung("checkpointing", ladder.Speed, "checkpointing", "on", unknown())
	others := oomIn(ladder.Training, 0, 0)
	others.Report.Kind = oom.GPUContention
	for name, tt := range map[string]struct {
		run  *Run
		fits int64
		outs []Outcome
		want string
	}{
		"nothing is known: a half each time": {splittable(64, before{}), 0, nil, "64 32 16 8 4 2 1"},
		"a batch that is no power of two":    {splittable(96, before{}), 0, nil, "96 48 24 12 6 3 1"},
		"the next divisor below a half":      {splittable(45, before{}), 0, nil, "45 15 5 1"},
		"the middle between what fitted and did not": {splittable(96, before{measured: m{16: 6}, guessed: m{24: 14, 32: 13,
			48: 18, 96: 11}}), 16, nil, "96 32 24 16"},
		"and the one that failed in proportion": {splittable(120, before{measured: m{10: 6}, guessed: m{12: 13, 15: 13,
			20: 13, 24: 13, 30: 13, 40: 13, 60: 13, 120: 12}}), 10, nil, "120 24 15 12 6"},
		"what fits even in proportion": {splittable(96, before{measured: m{16: 4}, guessed: m{24: 6, 32: 8,
			48: 12, 96: 11}}), 32, nil, "96 48 32"},
		"a half is known not to fit": {splittable(96, before{failed: m{48: 13}}), 0, nil, "96 24 12 6 3 1"},
		"it is known not to fit itself": {splittable(96, before{failed: m{96: 13, 48: 13}}), 0, nil,
			"24 12 6 3 1"},
		"what failed in a smaller room is tried": {splittable(96, before{failed: m{96: 5, 48: 5}}), 0, nil,
			"96 48 24 12 6 3 1"},
		"by the line, which has the rest as well": {splittable(96, before{measured: m{96: 11, 48: 11, 32: 11, 24: 6,
			16: 4, 12: 3, 8: 2, 6: 2, 4: 1, 3: 1, 2: 1, 1: 1}}), 6, nil, "96 48 32 24 12 6"},
		"the line foresees that it does not fit": {splittable(96, before{measured: m{96: 20, 48: 14, 32: 11, 24: 8,
			16: 6}}), 24, nil, "32 24"},
		"a rung that is no size comes in its order": {splittable(4, before{}, checkpointing), 0, nil, "4 2 1 4"},
		"a guess from the only size decides nothing": {splittable(32, before{measured: m{16: 8}, guessed: m{32: 16, 8: 4,
			4: 2, 2: 1, 1: 1}}), 32, nil, "32"},
		"unless it failed there": {splittable(32, before{measured: m{16: 8}, failed: m{32: 13},
			guessed: m{8: 4, 4: 2, 2: 1, 1: 1}}), 32, nil, "16"},
		"but it may lead to another size": {splittable(32, before{guessed: m{32: 16, 16: 8, 8: 4, 4: 2, 2: 1,
			1: 1}}), 32, nil, "16"},
		"other processes are no measurement": {splittable(64, before{}), 0, []Outcome{others}, "64"},
	} {
		coupled := coupledSplit(tt.run)
		if got := story(t, tt.run, tt.fits, tt.outs...); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if got := story(t, coupled, tt.fits, tt.outs...); got != tt.want {
			t.Errorf("%s, and validation uses it: %s, want %s", name, got, tt.want)
		}
	}
}
