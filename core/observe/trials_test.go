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

// What a program prints of its peak is no need where cuDNN's trials are in it. In a story "p8.09/6.40" is a line with
// a peak and what is reserved, in GiB, "p8" one with a peak alone, "h8" the hook's peak, "42" what the driver reports.
func TestTrials(t *testing.T) {
	for name, tt := range map[string]struct {
		benchmark bool
		story     string
		want      string
	}{
		"Stream at batch 32: above what is reserved": {false, "start step p8.09/6.40 step p8.09/6.40",
			"8.09 allocated at most (trials), 6.40 reserved at most"},
		"the most that was reserved bounds it": {false, "start step p8.09/6.20 step p8.09/6.40 step p8.09/6.35",
			"8.09 allocated at most (trials), 6.40 reserved at most"},
		"not above it":                      {false, "start step p5.00/6.40 step p6.39/6.40", "6.39 allocated"},
		"equal but for the rounding":        {false, "start step p6.41/6.40", "6.41 allocated"},
		"no setting is known, none printed": {false, "start step p8.09 step p8.09", "8.09 allocated"},
		"the setting is known":              {true, "start step p8.09 step p8.09", "8.09 allocated at most (trials)"},
		"the setting, and it is below": {true, "start step p6.00/6.40",
			"6.00 allocated at most (trials), 6.40 reserved at most"},
		"of the first iterations only": {false, "start step p8.09 step p6.10 step p6.20 step p6.15",
			"6.20 allocated, after its first iterations"},
		"of the first iterations only, the setting known": {true, "start step p8.09 step p6.10",
			"6.10 allocated, after its first iterations"},
		"it comes back":     {false, "start step p8.09 step p6.10 step p8.08", "8.09 allocated"},
		"it grew, and fell": {false, "start step p6.00 step p8.00 step p6.10", "8.00 allocated"},
		"the hook, the setting known": {true, "start h8.00 step h8.00",
			"8.00 allocated at most (trials), 9.00 reserved at most (trials)"},
		"the hook, and what was reserved": {true, "start h8.09 step p8.09/6.40",
			"8.09 allocated at most (trials), 6.40 reserved at most"},
		"the hook, the counter reset": {true, "start h8.09 step p8.09 step p6.10",
			"6.10 allocated, after its first iterations, 9.09 reserved at most (trials)"},
		"the driver: the steps after the first report": {true, "2 start 9 step 6.5 step 6.6 step", "6.60 used sampled"},
		"the driver: nothing after it":                 {true, "2 start 9 step", "9.00 used at most (trials)"},
		"the driver, without the setting":              {false, "2 start 9 step 6.5 step", "9.00 used sampled"},
	} {
		c := newTimeline()
		c.is, c.from, c.pooled, c.benchmark = mem.Used, "NVML", true, tt.benchmark
		step := int64(0)
		for _, w := range strings.Fields(tt.story) {
			var peak, held float64
			gib := func(f float64) unit.Bytes { return unit.Bytes(f * float64(unit.GiB)) }
			switch {
			case w == "start":
				c.event(oom.Event{Kind: job.Started})
			case w == "step":
				step++
				c.event(oom.Event{Kind: job.Progress, Iteration: step})
			case w[0] == 'p':
				fmt.Sscanf(w, "p%f/%f", &peak, &held)
				c.event(oom.Event{Kind: job.Memory, Bytes: gib(peak), Reserved: gib(held)})
			case w[0] == 'h':
				fmt.Sscanf(w, "h%f", &peak)
				c.hooked(gib(peak), gib(peak+1), false)
			default:
				fmt.Sscanf(w, "%f", &peak)
				c.see(gib(peak), false)
			}
		}
		c.finish()
		ms, _ := c.measured(map[string]unit.Bytes{"training": 1}, true)
		var got []string
		for _, m := range ms["training"] {
			s := strings.TrimSpace(fmt.Sprintf("%.2f %s %s", float64(m.Bytes)/float64(unit.GiB), m.Is, m.Bound))
			if m.With == mem.Trials {
				s += " (trials)"
			}
			if _, after, ok := strings.Cut(m.From, ", "); ok {
				s += ", " + after
			}
			got = append(got, s)
		}
		if !slices.Equal(got, []string{tt.want}) && strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, ", "), tt.want)
		}
	}
}

// A validation's peak is its own, whatever was reserved when a step of training printed it.
func TestTrialsOfAnotherPhase(t *testing.T) {
	c := newTimeline()
	c.is, c.pooled = mem.Used, true
	for i, e := range []oom.Event{
		{Kind: job.Started}, {Kind: job.Progress, Iteration: 1}, {Kind: job.Memory, Bytes: 5 * unit.GiB,
			Reserved: 6 * unit.GiB},
		{Kind: job.Phase, Phase: "validation"}, {Kind: job.PhaseEnd, Phase: "validation"}, {Kind: job.Progress, Iteration: 2},
		{Kind: job.Memory, Bytes: 9 * unit.GiB, Reserved: 6 * unit.GiB}, // the program has emptied its cache
	} {
		c.see(unit.GiB*unit.Bytes(5+i%2), false)
		c.event(e)
	}
	ms, _ := c.measured(map[string]unit.Bytes{"training": 1, "validation": 2}, true)
	for phase, want := range map[string]unit.Bytes{"training": 5 * unit.GiB, "validation": 9 * unit.GiB} {
		i := slices.IndexFunc(ms[phase], func(m mem.Measurement) bool { return m.Is == mem.Allocated })
		if i < 0 || ms[phase][i].Bytes != want || ms[phase][i].Bound != mem.Exact || ms[phase][i].With != "" {
			t.Errorf("%s: %+v", phase, ms[phase])
		}
	}
}
