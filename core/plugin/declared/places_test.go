package declared

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
)

// A try is a project of some files, and a command in it.
type try struct {
	files   map[string]string
	command string
	devices int
}

// in writes the project into a folder.
func (tt try) in(t *testing.T, declaration string) job.Command {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"train.py": "import x\n"}
	if declaration != "" {
		files[File] = declaration
	}
	for name, text := range tt.files {
		files[name] = text
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return job.Command{Args: strings.Fields(tt.command), Dir: dir, Devices: tt.devices}
}

var assignment = regexp.MustCompile(`(?m)^(\w+) = (.*)$`)

// sourceOf reads the assignments of a Python file, as launch does for a plugin.
func sourceOf(t *testing.T, path string) config.PythonSource {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := config.PythonSource{Path: path, Text: text}
	for _, m := range assignment.FindAllSubmatchIndex(text, -1) {
		value := bytes.ReplaceAll(text[m[4]:m[5]], []byte("'"), []byte(`"`))
		it := config.PythonItem{Path: string(text[m[2]:m[3]]), Start: m[4], End: m[5], Literal: json.Valid(value)}
		if it.Literal {
			it.Value = value
		}
		s.Items = append(s.Items, it)
	}
	return s
}

// recognized asks the plugin, and answers what it needs.
func recognized(t *testing.T, c job.Command) (plugin.Recognized, error) {
	t.Helper()
	for range 3 {
		r, err := New().Recognize(t.Context(), c)
		var need *plugin.Need
		if !errors.As(err, &need) {
			if err == nil {
				r.Job().Command = c
			}
			return r, err
		}
		for _, path := range need.Sources {
			c.Sources = append(c.Sources, sourceOf(t, path))
		}
		if need.Devices && c.Devices == 0 {
			t.Fatal("it asks for the number of cards, which the test does not have")
		}
	}
	t.Fatal("it asks without end")
	return nil, nil
}

// planned is a job with its ladders, which have to be sound.
func planned(t *testing.T, c job.Command) (*job.Job, *ladder.Set) {
	t.Helper()
	r, err := recognized(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Job().Check(); err != nil {
		t.Fatal(err)
	}
	set, err := r.Ladders(t.Context(), gpu.Device{})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Check(); err != nil {
		t.Fatal(err)
	}
	return r.Job(), set
}

// made is what a rung makes of the command: its arguments after the script, and the copies.
func made(t *testing.T, j *job.Job, edits []config.Edit) string {
	t.Helper()
	out, err := j.Rewrite(edits, "/copies")
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{strings.Join(out.Command.Args[2:], " ")}
	for _, f := range out.Files {
		lines = append(lines, filepath.Base(f.Path)+": "+strings.ReplaceAll(strings.TrimSpace(string(f.Text)), "\n", "; "))
	}
	return strings.Join(lines, " | ")
}

// Each form of a place is read, and changed where it is set.
func TestPlaces(t *testing.T) {
	for name, tt := range map[string]struct {
		places  string // micro-batch and accumulation
		files   map[string]string
		args    string
		want    job.Batch
		changed string // by the first rung
		warns   string
	}{
		"another name of the option": {"micro-batch: [--batch-size, -b]\naccumulation: '--accum|-a'", nil, "-b 8 -a2",
			job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, "-b 4 -a4", ""},
		"nothing typed": {"micro-batch: [--batch-size, -b]\naccumulation: --accum",
			map[string]string{"train.py": "p.add_argument('-b', '--batch-size', type=int, " +
				"default=32)\np.add_argument('--accum', default=1)\n"}, "",
			job.Batch{Micro: 32, Accumulation: 1, Ranks: 1}, "--accum 2 --batch-size 16", ""},
		"the author's default": {"micro-batch: {at: --batch-size, default: 8}\naccumulation: {at: --accum, default: 1}",
			nil, "--x",
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 1}, "--x --accum 2 --batch-size 4", ""},
		"KEY=VALUE": {"micro-batch: data.batch_size=\naccumulation: trainer.accum=", nil, "data.batch_size=8 trainer.accum=1",
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 1}, "data.batch_size=4 trainer.accum=2", ""},
		"Hydra's +key": {"micro-batch: data.batch_size=\naccumulation: +trainer.accum=", nil,
			"++data.batch_size=8 +trainer.accum=1",
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 1}, "++data.batch_size=4 +trainer.accum=2", ""},
		"a key that is added": {"micro-batch: batch=\naccumulation: {at: +accum=, default: 1}", nil, "batch=8",
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 1}, "batch=4 +accum=2", ""},
		"joined options": {"micro-batch: {at: --batch=, default: 8}\naccumulation: --accum=", nil, "--accum=2",
			job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, "--accum=4 --batch=4", ""},
		"an option's YAML": {"micro-batch: {--config: train.batch}\naccumulation: {--config: train.accum}",
			map[string]string{"c.yaml": "train:\n  batch: 8 # small\n  accum: 1\n"}, "--config c.yaml",
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 1}, "--config /copies/c.yaml | c.yaml: train:;   batch: 4 # " +
				"small;   accum: 2", ""},
		"an option's TOML": {"micro-batch: {--config|-c: train.batch}\naccumulation: {--config: train.accum}",
			map[string]string{"c.toml": "[train]\nbatch = 8\naccum = 1\n"}, "-c c.toml",
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 1}, "-c /copies/c.toml | c.toml: [train]; batch = 4; accum = 2", ""},
		"the JSON that an argument names": {"micro-batch: {'*.json': batch}\naccumulation: {at: {'*.json': accum}, " +
			"default: 1}",
			map[string]string{"c.json": "{\"batch\": 8}\n"}, "c.json",
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 1}, `/copies/c.json | c.json: {"batch": 4, "accum": 2}`, ""},
		"the Python that an argument names": {"micro-batch: {'*.py': batch}\naccumulation: {'config/*.py': accum}",
			map[string]string{"config/a.py": "batch = 8\naccum = 2\n"}, "config/a.py",
			job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, "/copies/a.py | a.py: batch = 4; accum = 4", ""},
		"a key's file": {"micro-batch: {cfg=: batch}\naccumulation: {cfg=: accum}",
			map[string]string{"c.yaml": "batch: 8\naccum: 2\n"}, "cfg=c.yaml",
			job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, "cfg=/copies/c.yaml | c.yaml: batch: 4; accum: 4", ""},
		"an argument outranks a file": {"micro-batch: {any: [--batch=, {'*.py': batch}]}\naccumulation: {any: " +
			"[--accum=, {'*.py': accum}]}",
			map[string]string{"a.py": "batch = 8\naccum = 5 * 8\n"}, "a.py",
			job.Batch{Micro: 8, Accumulation: 40, Ranks: 1}, "a.py --accum=64 --batch=5", ""},
		"a file after an argument": {"micro-batch: {any: [--batch=, {'*.py': batch}]}\naccumulation: {any: " +
			"[--accum=, {'*.py': accum}]}",
			map[string]string{"a.py": "accum = 2\n"}, "--accum=8 --batch=8 a.py",
			job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, "--accum=8 --batch=4 /copies/a.py | a.py: accum = 4", ""},
		"a value that others share": {"micro-batch: {--config: train.batch}\naccumulation: --accum",
			map[string]string{"c.yaml": "train: {batch: &b 8}\nval: {batch: *b}\n"}, "--config c.yaml --accum 2",
			job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, "", "&b is used elsewhere too"},
		"of several the first that is set": {"micro-batch: {any: [--batch, {--config: batch}, {at: {defaults.yaml: " +
			"batch}, default: 3}]}\naccumulation: {any: [{--config: accum}]}",
			map[string]string{"c.yaml": "accum: 1\n", "defaults.yaml": "batch: 16\n"}, "--config c.yaml",
			job.Batch{Micro: 16, Accumulation: 1, Ranks: 1}, "--config /copies/c.yaml --batch 8 | c.yaml: accum: 2", ""},
		"a file that nothing names": {"micro-batch: {defaults.yaml: batch}\naccumulation: --accum",
			map[string]string{"defaults.yaml": "batch: 16\n"}, "--accum 1",
			job.Batch{Micro: 16, Accumulation: 1, Ranks: 1}, "", "launch cannot change"},
		"pairs": {"micro-batch: {pair: SOLVER.BATCH}\naccumulation: {at: {pair: SOLVER.ACCUM}, default: 1}", nil,
			"--amp --cfg c.yaml SOLVER.BATCH 8 MODEL.DEPTH 2",
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 1},
			"--amp --cfg c.yaml SOLVER.BATCH 4 MODEL.DEPTH 2 SOLVER.ACCUM 2", ""},
		"an option beside pairs": {"micro-batch: {pair: SOLVER.BATCH}\naccumulation: {at: --accum, default: 1}", nil,
			"--amp SOLVER.BATCH 8 MODEL.DEPTH 2",
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 1}, "--amp --accum 2 SOLVER.BATCH 4 MODEL.DEPTH 2", ""},
		"a pair outranks a file": {"micro-batch: {any: [{pair: SOLVER.BATCH}, {--cfg: SOLVER.BATCH}]}\naccumulation: " +
			"{any: [{pair: SOLVER.ACCUM}, {--cfg: SOLVER.ACCUM}]}",
			map[string]string{"c.yaml": "SOLVER:\n  BATCH: 16\n  ACCUM: 1\n"}, "--cfg c.yaml SOLVER.BATCH 8",
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 1},
			"--cfg c.yaml SOLVER.BATCH 4 SOLVER.ACCUM 2", ""},
		"no number": {"micro-batch: --batch\naccumulation: --accum", nil, "--batch auto --accum 1",
			job.Batch{Accumulation: 1, Ranks: 1}, "", `--batch is "auto"`},
		"an expression": {"micro-batch: {'*.py': batch}", map[string]string{"a.py": "batch = base * 2\n"}, "a.py",
			job.Batch{Accumulation: 1, Ranks: 1}, "", "which is no batch size"},
		"no such file": {"micro-batch: {--config: batch}", nil, "--x 1", job.Batch{Accumulation: 1, Ranks: 1}, "",
			"the command does not name"},
	} {
		t.Run(name, func(t *testing.T) {
			c := try{tt.files, "python train.py " + tt.args, 0}.in(t, "script: train.py\n"+tt.places+"\n")
			j, set := planned(t, c)
			if j.Batch != tt.want {
				t.Errorf("batch %+v, want %+v", j.Batch, tt.want)
			}
			if got := strings.Join(j.Warnings, "\n"); !strings.Contains(got, tt.warns) || (tt.warns == "") != (got == "") {
				t.Errorf("warnings %q, want %q", got, tt.warns)
			}
			rungs := set.Phases[0].Rungs[set.Phases[0].Asked:]
			if tt.changed == "" {
				if len(rungs) > 1 {
					t.Errorf("rungs %+v", rungs)
				}
				return
			}
			if got := strings.ReplaceAll(made(t, j, rungs[1].Edits), c.Dir+"/",
				""); got != tt.changed || rungs[1].Cost != ladder.Speed {
				t.Errorf("the first rung, at cost %v, makes\n%s\nwant\n%s", rungs[1].Cost, got, tt.changed)
			}
		})
	}
}

// A field that a derived class sets again is no setting that launch knows.
func TestSetAgain(t *testing.T) {
	s := &config.PythonSource{
		Items: []config.PythonItem{{Path: "Config.batch"}, {Path: "Config.accum"}, {Path: "Big.accum"},
			{Path: "Other.batch"}},
		Classes: []config.PythonClass{{Name: "Config"}, {Name: "Big", Bases: []string{"Config"}}, {Name: "Other"}},
	}
	for path, want := range map[string]string{
		"Config.accum": "Big", "Config.batch": "", "Big.accum": "", "Other.batch": "", "BATCH": "",
	} {
		if got := setAgain(s, path); got != want {
			t.Errorf("%s is set again by %q, want %q", path, got, want)
		}
	}
}

func sprint(parts ...any) (s string) {
	for _, p := range parts {
		s += fmt.Sprint(p)
	}
	return s
}
