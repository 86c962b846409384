package attempt

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
)

// quiet reports nothing.
type quiet struct{}

func (quiet) Warn(string, ...any)      {}
func (quiet) Line(string, ...any)      {}
func (quiet) Starting(*run.Plan, bool) {}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// The settings that a program has saved confirm those of the plan, or show that they differ.
func TestSettingsAsSaved(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "logs/a-project.yaml"), []byte("data: {params: {batch_size: 3}}\ntest_data: {params: {batch_size: 1}}\n"))
	write(t, filepath.Join(dir, "logs/a-lightning.yaml"), []byte("lightning: {trainer: {accumulate_grad_batches: 4}}\n"))
	j := &job.Job{Command: job.Command{Dir: dir}, Signs: job.Signs{Recipes: []string{"logs/*-project.yaml", "logs/*-lightning.yaml"}}}
	out := run.Outcome{Began: time.Now().Add(-time.Minute)}
	asSaved(&out, file.Folder(dir), j, []config.Edit{
		{Knob: "micro-batch", At: config.Address{Doc: "launch.yaml", Path: "data.params.batch_size"}, To: "3"},
		{Knob: "accumulation", At: config.Address{Doc: "launch.yaml", Path: "lightning.trainer.accumulate_grad_batches"}, To: "8"},
		{Knob: "queue", At: config.Address{Doc: "launch.yaml", Path: "data.params.train.queue_size"}, To: "60"},
	})
	if len(out.Settings) != 2 || out.Settings["micro-batch"] != "3" || out.Settings["accumulation"] != "4" {
		t.Errorf("settings %v", out.Settings)
	}

	// Another run beside it writes its own, before or after.
	edits := []config.Edit{{Knob: "micro-batch", At: config.Address{Doc: "launch.yaml", Path: "data.params.batch_size"}, From: "6", To: "3"}}
	write(t, filepath.Join(dir, "logs/b-project.yaml"), []byte("data: {params: {batch_size: 6}}\n"))
	for _, age := range []time.Duration{time.Second, -time.Second} {
		at := time.Now().Add(-age)
		os.Chtimes(filepath.Join(dir, "logs/b-project.yaml"), at, at)
		out := run.Outcome{Began: time.Now().Add(-time.Minute)}
		if asSaved(&out, file.Folder(dir), j, edits); out.Settings["micro-batch"] != "3" {
			t.Errorf("with another run's settings beside: %v", out.Settings)
		}
	}
	write(t, filepath.Join(dir, "logs/a-project.yaml"), []byte("data: {params: {batch_size: 12}}\n"))
	out = run.Outcome{Began: time.Now().Add(-time.Minute)}
	if asSaved(&out, file.Folder(dir), j, edits); len(out.Settings) != 0 {
		t.Errorf("of two that differ, and from the plan too, nobody knows which is this run's: %v", out.Settings)
	}
}

// A program that resumes from a state of this run writes the next one over it. In a folder whose name is not known
// before, that state is the run's only if the attempt has resumed from there.
func TestStateOverResumed(t *testing.T) {
	for _, resumes := range []bool{true, false} {
		dir := t.TempDir()
		last := filepath.Join(dir, "runs/train/last.pt")
		write(t, last, []byte("of attempt 1"))
		x := New(Setup{Name: "mine", Report: quiet{}, Options: Options{State: t.TempDir()}, Job: &job.Job{
			Command: job.Command{Dir: dir},
			Signs:   job.Signs{States: []string{"runs/*/last.pt"}}}})
		defer x.Close()
		p := &run.Plan{Attempt: 2}
		if resumes {
			p.Resume = &run.State{Path: last}
		}
		x.attemptOf(p, job.Command{Dir: dir}, dir, "")
		before := states.List(x.roots, x.Job.Signs.States)
		write(t, last, []byte("of the second attempt"))
		tr := x.follow(x.roots, dir, "", func() int { return 0 }) // now, so that it does not see this process write
		tr.before = before
		out := run.Outcome{Stepped: true}
		tr.found(&out, time.Time{})
		tr.stop()
		if ours, strange := out.Saved != nil, len(out.Strange) == 1; ours != resumes || strange == resumes {
			t.Errorf("resumes: %v, saved %v, strange %v", resumes, out.Saved, out.Strange)
		}
	}
}

// An attempt that starts over overwrites what the one before has saved; what was there before the run, or is another's, is not
// touched. What the program would stop at is moved before every attempt.
func TestPutAside(t *testing.T) {
	for _, resume := range []*run.State{nil, {Path: "x"}} {
		dir := t.TempDir()
		old, mine, theirs, settings := filepath.Join(dir, "ck/old.pth"), filepath.Join(dir, "ck/latest.pth"), filepath.Join(dir, "ck/theirs.pth"), filepath.Join(dir, "logs/config.yaml")
		write(t, old, []byte("of last week"))
		x := New(Setup{Report: quiet{}, Past: Past{Began: time.Now().Add(-time.Minute)}, Options: Options{State: t.TempDir()},
			Job: &job.Job{Command: job.Command{Dir: dir}, Resume: job.Resume{Aside: []string{"ck/*.pth"}, InTheWay: []string{"logs/config.yaml"}}}})
		defer x.Close()
		tr := x.follow(x.roots, dir, "", func() int { return 0 })
		for _, path := range []string{old, mine, theirs, settings} { // the old one is overwritten
			write(t, path, []byte("of attempt 1"))
		}
		tr.x.Held = []string{mine}
		var out run.Outcome
		tr.found(&out, time.Time{})
		tr.stop()
		x.putAside(&run.Plan{Attempt: 2, Resume: resume})
		for path, moved := range map[string]bool{old: false, theirs: false, mine: resume == nil, settings: true} {
			hits, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "before-attempt-2-*", filepath.Base(path)))
			if _, err := os.Stat(path); (err != nil) != moved || (len(hits) == 1) != moved {
				t.Errorf("resume %v: %s is there: %v, put aside: %v", resume, path, err == nil, hits)
			}
		}
	}
}
