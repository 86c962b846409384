package observe

import (
	"maps"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// What a hook reports is a counter's peak of the phase that ran when it grew, and outranks the program's own print of it.
func TestHookPeaks(t *testing.T) {
	exact := func(allocated, reserved unit.Bytes) []mem.Measurement {
		return []mem.Measurement{{Is: mem.Allocated, Bytes: allocated, From: byHook}, {Is: mem.Reserved, Bytes: reserved, From: byHook}}
	}
	atMost := func(allocated, reserved unit.Bytes) []mem.Measurement {
		ms := exact(allocated, reserved)
		ms[0].Bound, ms[1].Bound = mem.AtMost, mem.AtMost
		return ms
	}
	sign := func(kind job.SignKind, phase string) func(*timeline) {
		return func(c *timeline) { c.event(oom.Event{Kind: kind, Phase: phase, Iteration: 1}) }
	}
	hook := func(allocated, reserved unit.Bytes, last bool) func(*timeline) {
		return func(c *timeline) { c.hooked(allocated, reserved, last) }
	}
	started, step := sign(job.Started, ""), sign(job.Progress, "")
	validation, validated := sign(job.Phase, "validation"), sign(job.PhaseEnd, "validation")
	for name, tt := range map[string]struct {
		story []func(*timeline)
		want  map[string][]mem.Measurement
	}{
		"each phase says its own": {[]func(*timeline){hook(0, 0, false), started, hook(100, 200, false), step,
			func(c *timeline) { c.event(oom.Event{Kind: job.Memory, Bytes: 90}) }, hook(120, 200, false), validation, hook(150, 260, false), validated},
			map[string][]mem.Measurement{ladder.Training: exact(120, 200), "validation": exact(150, 260)}},
		"a validation is seen at the next step": {[]func(*timeline){started, hook(100, 200, false), validation, hook(100, 200, false), validated, step, hook(150, 260, true)},
			map[string][]mem.Measurement{ladder.Training: exact(100, 200), "validation": exact(150, 260)}},
		"a validation that needs less": {[]func(*timeline){started, hook(100, 200, false), validation, validated, step, hook(100, 200, true)},
			map[string][]mem.Measurement{ladder.Training: exact(100, 200), "validation": atMost(100, 200)}},
		"killed in a validation": {[]func(*timeline){started, hook(100, 200, false), validation, hook(100, 200, false)},
			map[string][]mem.Measurement{ladder.Training: exact(100, 200)}},
		"heard at the end only": {[]func(*timeline){started, step, validation, validated, step, hook(150, 260, true)},
			map[string][]mem.Measurement{ladder.Training: atMost(150, 260), "validation": atMost(150, 260)}},
		"no card": {[]func(*timeline){started, step, hook(0, 0, true)}, map[string][]mem.Measurement{}},
	} {
		c := newTimeline()
		c.pooled = true
		for _, do := range tt.story {
			do(c)
		}
		if out, _ := c.measured(nil, true); !maps.EqualFunc(out, tt.want, slices.Equal) {
			t.Errorf("%s: %+v, want %+v", name, out, tt.want)
		}
	}
	c := newTimeline()
	for _, e := range []oom.Event{{Kind: job.Started}, {Kind: job.Phase}, {Kind: job.PhaseEnd}, {Kind: job.Progress}} {
		if !c.turns(e) {
			t.Errorf("%s may begin another phase", e.Kind)
		}
	}
	started(c)
	if c.turns(oom.Event{Kind: job.Progress}) || c.turns(oom.Event{Kind: job.Memory}) {
		t.Error("training goes on at each of its steps")
	}
}
