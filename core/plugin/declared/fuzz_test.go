package declared

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/plugin/plugintest"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

// A declaration comes with a project, from anywhere: whatever it says is a job that can be planned, or an error.
func FuzzDeclaration(f *testing.F) {
	for _, text := range []string{
		"script: train.py\nmicro-batch: --batch-size\naccumulation: --accum\nprogress: 'step (?P<iteration>\\d+)'\nsucceeded: 'training is over'\nresume: {--resume: 'runs/*/*.pt'}\n",
		"script: train.py\nmicro-batch: {config.py: Config.batch}\naccumulation: {config.py: Config.accum}\nbatch-norm: true\nrungs:\n  - {name: remat, at: {config.py: REMAT}, to: true, cost: speed}\nsaved: 'saved (?P<path>\\S+)'\n",
		"script: train.py\nmicro-batch: {--config: train.batch_size}\naccumulation: {--config: train.accum}\nstarted: go\n",
		"script: &a train.py\nmicro-batch: *a\n", "script: [train.py]\nmicro-batch: {a: {b: c}}\n", "{script: train.py, micro-batch: {--config: ''}}\n",
	} {
		f.Add([]byte(text))
	}
	for _, text := range forms {
		f.Add([]byte("script: train.py\nmicro-batch: {at: --batch-size, default: 8}\n" + text))
	}
	dir := f.TempDir()
	for name, text := range map[string]string{"train.py": "x = 1\n", "x.yml": "train:\n  batch_size: 32\n  accum: 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			f.Fatal(err)
		}
	}
	source := []byte("class Config:\n    batch = 32\n    accum = 1\nREMAT = False\n")
	item := func(path, value string, start, line int) config.PythonItem {
		return config.PythonItem{Path: path, Value: json.RawMessage(value), Literal: true, Start: start, End: start + len(value), Line: line}
	}
	c := job.Command{
		Args: []string{"python", "train.py", "--batch-size", "32", "--config", "x.yml", "--accum=1"}, Dir: dir, Env: []string{"PATH=/usr/bin"},
		Sources: []config.PythonSource{{Path: filepath.Join(dir, "config.py"), Text: source, Items: []config.PythonItem{
			item("Config.batch", "32", 26, 2), item("Config.accum", "1", 41, 3), item("REMAT", "False", 51, 4)}}},
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		began := time.Now()
		defer func() {
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		}()
		if err := os.WriteFile(filepath.Join(dir, File), text, 0o644); err != nil {
			t.Fatal(err)
		}
		p := New()
		r, err := p.Recognize(t.Context(), c)
		if err != nil {
			return
		}
		j := r.Job()
		j.Command = c
		if err := j.Check(); err != nil {
			return
		}
		if _, err := oom.NewDetector(j.Signs); err != nil {
			t.Errorf("its signs cannot be read: %v", err)
		}
		set, err := r.Ladders(t.Context(), gpu.Device{})
		if err != nil {
			return
		}
		if err := set.Check(); err != nil {
			t.Errorf("its ladders contradict themselves: %v", err)
			return
		}
		for _, r := range set.Phases[0].Rungs {
			if _, err := j.Rewrite(r.Edits, "/attempt"); err != nil {
				t.Errorf("rung %q cannot be made: %v", r.Name, err)
			}
		}
	})
}
