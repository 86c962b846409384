package declared

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/plugin"
)

const declaration1 = `script: train.py
micro-batch: {src/config.py: Config.batch_size}
accumulation: {src/config.py: Config.accum}
rungs:
  - {name: activation checkpointing, at: {src/config.py: Config.remat}, to: true, cost: speed}
  - {name: tiny, at: --size, to: 64, cost: recipe}
progress: 'step (?P<iteration>\d+)'
succeeded: 'is over'
resume: {--resume: 'checkpoints/*.pt'}
`

const source = "class Config:\n    batch_size: int = 8\n    accum = 2\n    remat = False\n"

// project writes a project and returns the command in it.
func project(t *testing.T, declaration string) job.Command {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{File: declaration, "train.py": "", "x.yml": "a: {batch: 4}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return job.Command{Args: []string{"python", "train.py", "--size", "128", "--config", "x.yml"}, Dir: dir}
}

// answered is what launch reads of the source for the plugin.
func answered(c job.Command) job.Command {
	at := func(path, value, text string) config.PythonItem {
		i := strings.Index(source, text)
		return config.PythonItem{Path: path, Value: []byte(value), Literal: true, Start: i + len(text) - len(value), End: i + len(text)}
	}
	remat := at("Config.remat", "False", "remat = False")
	remat.Value = []byte("false")
	c.Sources = []config.PythonSource{{
		Path: filepath.Join(c.Dir, "src/config.py"), Text: []byte(source), Classes: []config.PythonClass{{Name: "Config"}},
		Items: []config.PythonItem{at("Config.batch_size", "8", "int = 8"), at("Config.accum", "2", "accum = 2"), remat},
	}}
	return c
}

func TestDeclaredJob(t *testing.T) {
	c := project(t, declaration1)
	var need *plugin.Need
	if _, err := New().Recognize(context.Background(), c); !errors.As(err, &need) || len(need.Sources) != 1 || need.Sources[0] != filepath.Join(c.Dir, "src/config.py") {
		t.Fatalf("before the source is read: %v", err)
	}
	c = answered(c)
	recognized, err := New().Recognize(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	j := recognized.Job()
	if j.Batch != (job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}) || !j.Signs.MustSucceed {
		t.Errorf("batch %+v, signs %+v", j.Batch, j.Signs)
	}
	j.Command = c
	set, err := recognized.Ladders(context.Background(), gpu.Device{})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Check(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range set.Phases[0].Rungs {
		got = append(got, r.Name+" "+r.Cost.String())
	}
	want := "micro-batch 16 × accumulation 1 speed; as asked none; micro-batch 4 × accumulation 4 speed; " +
		"activation checkpointing speed; micro-batch 2 × accumulation 8 speed; micro-batch 1 × accumulation 16 speed; " +
		"tiny recipe"
	if strings.Join(got, "; ") != want {
		t.Errorf("rungs\n%s\nwant\n%s", strings.Join(got, "; "), want)
	}
	out, err := j.Rewrite(set.Phases[0].Rungs[2].Edits, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if text := string(out.Files[0].Text); text != strings.Replace(strings.Replace(source, "= 8", "= 4", 1), "accum = 2", "accum = 4", 1) {
		t.Errorf("source as served:\n%s", text)
	}
}

// One metric, or several.
func TestDeclaredMetrics(t *testing.T) {
	one := "{name: psnr, pattern: 'PSNR (?P<value>\\S+)', direction: maximise}"
	for text, want := range map[string]int{one: 1, "[" + one +
		", {name: loss, pattern: 'l=(?P<value>\\S+)', direction: min}]": 2} {
		r, err := New().Recognize(context.Background(), project(t,
			"script: train.py\nmicro-batch: --size\nmetric: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		lines := r.Job().Signs.Lines
		if len(lines) != want || lines[0].Kind != job.Metric || lines[0].Name != "psnr" ||
			lines[0].Direction != metric.Maximise ||
			lines[want-1].Direction == metric.Maximise && want == 2 {
			t.Errorf("%s: %+v", text, lines)
		}
	}
}

// Without an accumulation a smaller micro-batch is another experiment.
func TestDeclaredRecipeFile(t *testing.T) {
	c := project(t, "script: train.py\nmicro-batch: {--config: a.batch}\n")
	recognized, err := New().Recognize(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	j := recognized.Job()
	j.Command = c
	set, err := recognized.Ladders(context.Background(), gpu.Device{})
	if err != nil {
		t.Fatal(err)
	}
	r := set.Phases[0].Rungs[1]
	if r.Cost != ladder.Recipe || r.Edits[0].At != (config.Address{Doc: "x.yml", Path: "a.batch"}) || r.Edits[0].To != "2" {
		t.Errorf("rung %+v", r)
	}
}

func TestDeclarationErrors(t *testing.T) {
	for name, tt := range map[string]struct{ text, says string }{
		"another script":   {"script: eval.py\nmicro-batch: --b\n", "eval.py"},
		"no script":        {"micro-batch: --b\n", "which script"},
		"no micro-batch":   {"script: train.py\n", "micro-batch"},
		"a misspelled key": {"script: train.py\nmicrobatch: --b\n", "microbatch"},
		"no place":         {"script: train.py\nmicro-batch: 12\n", "a place is"},
		"no group":         {"script: train.py\nmicro-batch: --b\nprogress: 'step'\n", "iteration"},
		"a wrong pattern":  {"script: train.py\nmicro-batch: --b\nprogress: '(?P<iteration>'\n", "missing"},
		"a metric without a value": {"script: train.py\nmicro-batch: --b\nmetric: {name: a, pattern: b, direction: min}\n",
			"(?P<value>"},
		"a metric's direction": {"script: train.py\nmicro-batch: --b\nmetric: {name: a, pattern: 'b (?P<value>.)', " +
			"direction: up}\n", "minimise"},
		"a metric's key": {"script: train.py\nmicro-batch: --b\nmetric: [{nam: a}]\n", "nam"},
		"a wrong cost": {"script: train.py\nmicro-batch: --b\nrungs: [{name: a, at: --a, to: 1, cost: " +
			"cheap}]\n", "cheap"},
	} {
		_, err := New().Recognize(context.Background(), project(t, tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, tt.says)
		}
	}
}

// What others could have written, or what is no file, is not believed: a reason to leave the command alone, and no error of it.
func TestUnbelieved(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for what, spoil := range map[string]func(path string) error{
		"open to all": func(path string) error { return os.Chmod(path, 0o666) },
		"its folder":  func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) },
		"a FIFO":      func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"huge":        func(path string) error { return os.Truncate(path, 1<<30) },
		"a folder":    func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
	} {
		c := answered(project(t, declaration1))
		if err := spoil(filepath.Join(c.Dir, File)); err != nil {
			t.Fatal(err)
		}
		var caution *plugin.Caution
		if _, err := New().Recognize(t.Context(), c); !errors.As(err, &caution) || !strings.Contains(caution.Why, filepath.Join(c.Dir, File)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
