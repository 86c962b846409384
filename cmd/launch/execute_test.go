package main

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/confine"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func archive(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("archive/data.pkl")
	if err == nil {
		_, err = w.Write(bytes.Repeat([]byte("weights"), 1000))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A state that was being written when its program was killed is passed over for the one before it.
func TestSavedStateIsWhole(t *testing.T) {
	dir, signs := t.TempDir(), job.Signs{States: []string{"ck/*.pth"}, StateIteration: `_(?P<iteration>\d+)`}
	since := time.Now().Add(-time.Minute)
	whole := archive(t)
	write(t, filepath.Join(dir, "ck/c_1.pth"), whole)
	write(t, filepath.Join(dir, "ck/c_2.pth"), whole[:len(whole)-30])
	at := time.Now().Add(-10 * time.Second)
	os.Chtimes(filepath.Join(dir, "ck/c_1.pth"), at, at)
	if s := saved(folder(dir), signs, since); s == nil || s.Iteration != 1 || int(s.Bytes) != len(whole) {
		t.Errorf("the state to go on from is %+v", s)
	}
	write(t, filepath.Join(dir, "ck/c_2.pth"), []byte("a format of its own"))
	if s := saved(folder(dir), signs, since); s == nil || s.Iteration != 2 {
		t.Errorf("of a format that is not known, the newest: %+v", s)
	}
	if s := saved(folder(dir), signs, time.Now().Add(time.Hour)); s != nil {
		t.Errorf("one that was there before: %+v", s)
	}
}

// What a program writes down of its settings confirms them, or says that they are others.
func TestSettingsAsSaved(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "logs/a-project.yaml"), []byte("data: {params: {batch_size: 3}}\ntest_data: {params: {batch_size: 1}}\n"))
	write(t, filepath.Join(dir, "logs/a-lightning.yaml"), []byte("lightning: {trainer: {accumulate_grad_batches: 4}}\n"))
	j := &job.Job{Command: job.Command{Dir: dir}, Signs: job.Signs{Recipes: []string{"logs/*-project.yaml", "logs/*-lightning.yaml"}}}
	out := run.Outcome{Began: time.Now().Add(-time.Minute)}
	asSaved(&out, folder(dir), j, []config.Edit{
		{Knob: "micro-batch", At: config.Address{Doc: "launch.yaml", Path: "data.params.batch_size"}, To: "3"},
		{Knob: "accumulation", At: config.Address{Doc: "launch.yaml", Path: "lightning.trainer.accumulate_grad_batches"}, To: "8"},
		{Knob: "queue", At: config.Address{Doc: "launch.yaml", Path: "data.params.train.queue_size"}, To: "60"},
	})
	if len(out.Settings) != 2 || out.Settings["micro-batch"] != "3" || out.Settings["accumulation"] != "4" {
		t.Errorf("settings %v", out.Settings)
	}
}

// An attempt that starts over overwrites what the one before has saved; what was there before the run is not touched.
func TestPutAside(t *testing.T) {
	dir := t.TempDir()
	old, mine := filepath.Join(dir, "ck/old.pth"), filepath.Join(dir, "ck/latest.pth")
	write(t, old, []byte("of last week"))
	week := time.Now().Add(-7 * 24 * time.Hour)
	os.Chtimes(old, week, week)
	write(t, mine, []byte("of attempt 1"))
	x := &executor{say: ui.Printer{W: io.Discard}, firstBegan: time.Now().Add(-time.Minute),
		job: &job.Job{Command: job.Command{Dir: dir}, Resume: job.Resume{None: "there is no way to", Aside: []string{"ck/*.pth"}}}}
	x.roots = confine.New(x.job)
	x.putAside(&run.Plan{Attempt: 2})
	if _, err := os.Stat(old); err != nil {
		t.Error("what was there before the run was moved")
	}
	hits, _ := filepath.Glob(filepath.Join(dir, "ck/before-attempt-2-*/latest.pth"))
	if _, err := os.Stat(mine); err == nil || len(hits) != 1 {
		t.Errorf("put aside: %v", hits)
	}
}
