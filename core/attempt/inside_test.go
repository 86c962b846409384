package attempt

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
)

// The hook is there where the user or the plugin asks for it and nowhere else, and what stands in its way stops nothing.
func TestHook(t *testing.T) {
	command := func(args ...string) job.Command {
		return job.Command{Args: args, Dir: t.TempDir(), Env: []string{"PYTHONPATH=/mine", "PATH=/bin"}}
	}
	for name, tt := range map[string]struct {
		options Options
		job     *job.Job
		attempt attempt
		says    string // why not
		on      bool
	}{
		"nobody asks":            {attempt: attempt{command: command("python", "train.py"), dir: t.TempDir()}},
		"a plugin that asks":     {job: &job.Job{Inside: true}, attempt: attempt{command: command("python", "train.py"), dir: t.TempDir()}, on: true},
		"a plugin that asks not": {job: &job.Job{}, attempt: attempt{command: command("python", "train.py"), dir: t.TempDir()}},
		"the user asks":          {options: Options{Inside: true}, attempt: attempt{command: command("python", "train.py"), dir: t.TempDir()}, on: true},
		"of a shell's words":     {options: Options{Inside: true}, attempt: attempt{command: command("bash", "-c", "for i in 1; do python t.py; done"), dir: t.TempDir()}, on: true},
		"python -I":              {options: Options{Inside: true}, attempt: attempt{command: command("python", "-I", "train.py"), dir: t.TempDir()}, says: "python -I ignores PYTHONPATH"},
		"no folder":              {options: Options{Inside: true}, attempt: attempt{command: command("python", "train.py")}, says: "cannot be put into PYTHONPATH"},
		"a folder with a colon":  {options: Options{Inside: true}, attempt: attempt{command: command("python", "train.py"), dir: t.TempDir() + "/a:b"}, on: true},
	} {
		a, x := tt.attempt, Executor{Setup: Setup{Options: tt.options, Job: tt.job}}
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
