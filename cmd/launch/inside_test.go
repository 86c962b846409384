package main

import (
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
		"a folder with a colon":  {settings: settings{Inside: true}, attempt: attempt{command: command("python", "train.py"), dir: t.TempDir() + "/a:b"}, says: "cannot be put into PYTHONPATH"},
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
			if _, err := os.Stat(filepath.Join(a.dir, "witness.py")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// What a hook reports is a counter's peak of the phase that ran when it grew, and outranks the program's own print of it.
func TestCourseToldByHook(t *testing.T) {
	c := newCourse()
	c.pooled = true
	hear := func(kind job.SignKind, phase string) {
		e := oom.Event{Kind: kind, Phase: phase, Iteration: 1}
		if !c.turns(e) && kind != job.Memory && kind != job.Progress {
			t.Errorf("%s may begin another phase", kind)
		}
		c.hear(e)
	}
	c.told(0, 0) // it has not spoken
	hear(job.Started, "")
	c.told(100, 200)
	if c.turns(oom.Event{Kind: job.Progress}) {
		t.Error("training goes on at each of its steps")
	}
	hear(job.Progress, "")
	c.hear(oom.Event{Kind: job.Memory, Bytes: 90})
	c.told(120, 200)
	hear(job.Phase, "validation")
	c.told(150, 260)
	hear(job.PhaseEnd, "validation")
	c.told(150, 260)
	out, _ := c.measured(nil, true)
	for phase, want := range map[string][]mem.Measurement{
		ladder.Training: {{Is: mem.Allocated, Bytes: 120, From: byHook}, {Is: mem.Reserved, Bytes: 200, From: byHook}},
		"validation":    {{Is: mem.Allocated, Bytes: 150, From: byHook}, {Is: mem.Reserved, Bytes: 260, From: byHook}},
	} {
		if !slices.Equal(out[phase], want) {
			t.Errorf("%s: %+v, want %+v", phase, out[phase], want)
		}
	}
}
