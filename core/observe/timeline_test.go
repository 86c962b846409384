package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// A peak between two lines of a program belongs to the phases that may have run there. In a story "42" is a look at
// 42 MiB, "42!" a peak that was counted, "p42" what the program prints of its own peak; "start", "step", "val" (it
// begins), "/val" (it ends) are its words.
func TestTimeline(t *testing.T) {
	for name, tt := range map[string]struct {
		story  string
		pooled bool
		failed bool
		want   string
		passed string
	}{
		"both phases announced": {"20 start 90 step 95 val 140! /val 94 step", false, false,
			"training 90 data sampled; validation 140 data", "training validation"},
		"only the end is": {"20 start 90 step 140 /val 94 step", false, false,
			"training 90 data sampled; validation 140 data sampled", "training validation"},
		"only the end is, and it needs less": {"20 start 90 step 92 step 91 /val 30 step 30", false, false,
			"training 92 data sampled; validation 91 data at most", "training validation"},
		"it begins before it is said, and ends after": {"start 90 step 160 val 120 /val 150 step 90 step", false, false,
			"training 90 data sampled; validation 160 data sampled", "training validation"},
		"it is said all at once": {"start 90 step 160 val /val 95 step", false, false,
			"training 90 data sampled; validation 160 data sampled", "training validation"},
		"training is the larger: its first step after validation": {"start 90 step 90 val 60 /val 99 step 90 step", false, false,
			"training 99 data sampled; validation 60 data sampled", "training validation"},
		"training is the larger: validation ends early": {"start 90 step 90 val 60 /val 70 step 90 step", false, false,
			"training 90 data sampled; validation 60 data sampled", "training validation"},
		"building takes the most":            {"300 start 90 step 92 step", false, false, "training 92 data sampled", "training"},
		"the last words are not of training": {"start 90 step 80 step 400", false, false, "training 90 data sampled", "training"},
		"no word but the first":              {"20 start 90 85", false, false, "training 90 data sampled", "training"},
		"no word at all":                     {"20 90 85", false, false, "training 90 data sampled", "training"},
		"no word at all, and it failed":      {"20 90 85", false, true, "", ""},
		"one step, and it failed":            {"start 90 step 95", false, true, "training 90 data sampled", ""},
		"it failed in validation":            {"start 90 step 90 step val 140", false, true, "training 90 data sampled", "training"},
		"a pool is not given back": {"start 90 step 90 val 140 /val 140 step", true, false,
			"training 90 data sampled; validation 140 data sampled", "training validation"},
		"a pool that validation fits in": {"start 90 step val 90 /val 90 step", true, false,
			"training 90 data sampled; validation 90 data at most", "training validation"},
		"the program's own peak": {"start step p70 val p80 /val step p80", true, false,
			"training 70 allocated; validation 80 allocated", "training validation"},
		"its own peak, after both": {"start step p70 step p70 /val step p80", true, false,
			"training 70 allocated; validation 80 allocated", "training validation"},
		"its own peak does not grow": {"start step p70 /val step p70", true, false,
			"training 70 allocated; validation 70 allocated at most", "training validation"},
		"its own peak of two at once": {"start 1 step 1 /val p80", true, false,
			"training 80 allocated at most, 1 data sampled; validation 80 allocated at most, 1 data at most", "training validation"},
		"its own peak, later more":   {"start step p70 step p75", true, false, "training 75 allocated", "training"},
		"on a CPU it counts nothing": {"start 90 step p70 95 step p75", false, false, "training 95 data sampled", "training"},
	} {
		priced := map[string]unit.Bytes{"training": 100, "validation": 150}
		if strings.HasPrefix(name, "no word at all") {
			delete(priced, "validation") // it is the only phase
		}
		if strings.HasPrefix(name, "training is the larger") {
			priced["validation"] = 50
		}
		c := newTimeline()
		c.is, c.from, c.pooled = mem.Data, "looks", tt.pooled
		step := int64(0)
		for _, w := range strings.Fields(tt.story) {
			var n int64
			switch {
			case w == "start":
				c.event(oom.Event{Kind: job.Started})
			case w == "step":
				step++
				c.event(oom.Event{Kind: job.Progress, Iteration: step})
				c.event(oom.Event{Kind: job.Progress, Iteration: step}) // said on both streams
			case w == "val":
				c.event(oom.Event{Kind: job.Phase, Phase: "validation"})
			case w == "/val":
				c.event(oom.Event{Kind: job.PhaseEnd, Phase: "validation"})
			case w[0] == 'p':
				fmt.Sscanf(w, "p%d", &n)
				c.event(oom.Event{Kind: job.Memory, Bytes: unit.Bytes(n)})
			default:
				fmt.Sscanf(w, "%d", &n)
				c.see(unit.Bytes(n), strings.HasSuffix(w, "!"))
			}
		}
		c.finish()
		c.event(oom.Event{Kind: job.PhaseEnd, Phase: "validation"}) // read in a log afterwards
		ms, passed := c.measured(priced, !tt.failed)
		var got []string
		for _, p := range []string{"training", "validation"} {
			var of []string
			for _, m := range ms[p] {
				of = append(of, strings.TrimSpace(fmt.Sprintf("%d %s %s", m.Bytes, m.Is, m.Bound)))
			}
			if len(of) > 0 {
				got = append(got, p+" "+strings.Join(of, ", "))
			}
		}
		if s := strings.Join(got, "; "); s != tt.want {
			t.Errorf("%s: %s, want %s", name, s, tt.want)
		}
		if s := strings.Join(slices.Sorted(slices.Values(passed)), " "); s != tt.passed {
			t.Errorf("%s: passed %q, want %q", name, s, tt.passed)
		}
	}
}

// The allocator's lines belong to phases as peaks do: to the phase whose lines surround them, else to the one with
// the largest estimate of those that may have run.
func TestRetriesByPhase(t *testing.T) {
	try := oom.Retry{Requested: 500 * unit.MiB, Free: 120 * unit.MiB}
	say := func(tl *timeline, kind job.SignKind, phase string) { tl.event(oom.Event{Kind: kind, Phase: phase}) }
	priced := map[string]unit.Bytes{"training": 9, "validation": 10}

	tl := newTimeline()
	tl.retried(try) // before any phase
	say(tl, job.Started, "")
	tl.retried(try)
	say(tl, job.Progress, "")
	say(tl, job.Phase, "validation")
	tl.retried(try)
	tl.retried(oom.Retry{Requested: unit.GiB, Free: 900 * unit.MiB})
	say(tl, job.PhaseEnd, "validation")
	tl.finish()
	tl.retried(try) // of a log file that is read later
	got := tl.retriesOf(priced)
	if got[""].Count != 1 || got["training"].Count != 1 || got["validation"] != (oom.Retries{Count: 2,
		Short: 380 * unit.MiB}) {
		t.Errorf("announced: %+v", got)
	}

	for needs, priced := range map[string]map[string]unit.Bytes{"validation": priced, "training": {"training": 11,
		"validation": 10}} {
		tl := newTimeline()
		say(tl, job.Started, "")
		say(tl, job.Progress, "")
		tl.retried(try)
		say(tl, job.PhaseEnd, "validation") // its beginning was not printed
		if got := tl.retriesOf(priced); len(got) != 1 || got[needs].Count != 1 {
			t.Errorf("in either, %s is the larger: %+v", needs, got)
		}
	}
	if got := newTimeline().retriesOf(nil); len(got) != 0 {
		t.Errorf("none: %+v", got)
	}
}
