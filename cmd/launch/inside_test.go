package main

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// The hook is there where the user or the plugin asks for it and nowhere else, and what stands in its way stops nothing.
func TestHook(t *testing.T) {
	command := func(args ...string) job.Command {
		return job.Command{Args: args, Dir: t.TempDir(), Env: []string{"PYTHONPATH=/mine", "PATH=/bin"}}
	}
	for name, tt := range map[string]struct {
		settings settings
		job      *job.Job
		attempt  attempt
		says     string // why not
		on       bool
	}{
		"nobody asks":            {attempt: attempt{command: command("python", "train.py"), dir: t.TempDir()}},
		"a plugin that asks":     {job: &job.Job{Inside: true}, attempt: attempt{command: command("python", "train.py"), dir: t.TempDir()}, on: true},
		"a plugin that asks not": {job: &job.Job{}, attempt: attempt{command: command("python", "train.py"), dir: t.TempDir()}},
		"the user asks":          {settings: settings{Inside: true}, attempt: attempt{command: command("python", "train.py"), dir: t.TempDir()}, on: true},
		"of a shell's words":     {settings: settings{Inside: true}, attempt: attempt{command: command("bash", "-c", "for i in 1; do python t.py; done"), dir: t.TempDir()}, on: true},
		"python -I":              {settings: settings{Inside: true}, attempt: attempt{command: command("python", "-I", "train.py"), dir: t.TempDir()}, says: "python -I reads no PYTHONPATH"},
		"no folder":              {settings: settings{Inside: true}, attempt: attempt{command: command("python", "train.py")}, says: "cannot be put into PYTHONPATH"},
		"a folder with a colon":  {settings: settings{Inside: true}, attempt: attempt{command: command("python", "train.py"), dir: t.TempDir() + "/a:b"}, on: true},
	} {
		a, x := tt.attempt, executor{settings: tt.settings, job: tt.job}
		if err := x.hook(&a, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		env := strings.Join(a.command.Env, " ")
		if on := strings.Contains(env, "LAUNCH_OVERLAY="); on != tt.on || on != (a.witness != nil) || !strings.Contains(env, "/mine") || !on && len(a.command.Env) != 2 {
			t.Errorf("%s: %s", name, env)
		}
		in := a.inside(time.Now())
		if (in != nil) != (tt.on || tt.says != "") || tt.says != "" && !strings.Contains(in.Hook.Why, tt.says) {
			t.Errorf("%s: %+v, want %q", name, in, tt.says)
		}
		if tt.on {
			if _, err := os.Stat(filepath.Join(cmp.Or(a.hookDir, a.dir), "witness.py")); err != nil || strings.Contains(a.dir, ":") != (a.hookDir != "") {
				t.Errorf("%s: in %q or %q: %v", name, a.hookDir, a.dir, err)
			}
			os.RemoveAll(a.hookDir)
		}
	}
}

// What a hook reports is a counter's peak of the phase that ran when it grew, and outranks the program's own print of it.
func TestCourseToldByHook(t *testing.T) {
	exact := func(allocated, reserved unit.Bytes) []mem.Measurement {
		return []mem.Measurement{{Is: mem.Allocated, Bytes: allocated, From: byHook}, {Is: mem.Reserved, Bytes: reserved, From: byHook}}
	}
	atMost := func(allocated, reserved unit.Bytes) []mem.Measurement {
		ms := exact(allocated, reserved)
		ms[0].Bound, ms[1].Bound = mem.AtMost, mem.AtMost
		return ms
	}
	sign := func(kind job.SignKind, phase string) func(*course) {
		return func(c *course) { c.hear(oom.Event{Kind: kind, Phase: phase, Iteration: 1}) }
	}
	told := func(allocated, reserved unit.Bytes, last bool) func(*course) {
		return func(c *course) { c.told(allocated, reserved, last) }
	}
	started, step := sign(job.Started, ""), sign(job.Progress, "")
	validation, validated := sign(job.Phase, "validation"), sign(job.PhaseEnd, "validation")
	for name, tt := range map[string]struct {
		course []func(*course)
		want   map[string][]mem.Measurement
	}{
		"each phase says its own": {[]func(*course){told(0, 0, false), started, told(100, 200, false), step,
			func(c *course) { c.hear(oom.Event{Kind: job.Memory, Bytes: 90}) }, told(120, 200, false), validation, told(150, 260, false), validated},
			map[string][]mem.Measurement{ladder.Training: exact(120, 200), "validation": exact(150, 260)}},
		"a validation is seen at the next step": {[]func(*course){started, told(100, 200, false), validation, told(100, 200, false), validated, step, told(150, 260, true)},
			map[string][]mem.Measurement{ladder.Training: exact(100, 200), "validation": exact(150, 260)}},
		"a validation that needs less": {[]func(*course){started, told(100, 200, false), validation, validated, step, told(100, 200, true)},
			map[string][]mem.Measurement{ladder.Training: exact(100, 200), "validation": atMost(100, 200)}},
		"killed in a validation": {[]func(*course){started, told(100, 200, false), validation, told(100, 200, false)},
			map[string][]mem.Measurement{ladder.Training: exact(100, 200)}},
		"heard at the end only": {[]func(*course){started, step, validation, validated, step, told(150, 260, true)},
			map[string][]mem.Measurement{ladder.Training: atMost(150, 260), "validation": atMost(150, 260)}},
		"no card": {[]func(*course){started, step, told(0, 0, true)}, map[string][]mem.Measurement{}},
	} {
		c := newCourse()
		c.pooled = true
		for _, do := range tt.course {
			do(c)
		}
		if out, _ := c.measured(nil, true); !maps.EqualFunc(out, tt.want, slices.Equal) {
			t.Errorf("%s: %+v, want %+v", name, out, tt.want)
		}
	}
	c := newCourse()
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
