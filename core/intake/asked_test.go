package intake

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

const askedYAML = `name: tiny
train:
  total_iter: 12
  lr: !!float 1e-3
  plain: 0.1
  old: 1e-4      # a text to PyYAML
  betas: [0.9, 0.99]
  amp: false
  ema: ~
  "a.b": 1
pool: 100
`

const askedTOML = `pool = 5
[optim]
type = "adamw"
lr = 1e-3
`

// pythonOf is Python source with literals that stand each on a line of its own: "Class.field = text".
func pythonOf(path string, classes map[string]string, lines ...string) *config.PythonSource {
	s := &config.PythonSource{Path: path, SHA256: path}
	for i, line := range lines {
		name, text, _ := strings.Cut(line, " = ")
		start := len(s.Text) + len(name) + 3
		it := config.PythonItem{Path: name, Start: start, End: start + len(text), Line: i + 1, Literal: true}
		switch {
		case text == "LIMIT":
			it.Literal = false
		case text == "True" || text == "False":
			it.Value = json.RawMessage(strings.ToLower(text))
		default:
			it.Value = json.RawMessage(strings.ReplaceAll(text, "'", `"`)) // as JSON
		}
		s.Text = append(s.Text, line+"\n"...)
		s.Items = append(s.Items, it)
	}
	for class, base := range classes {
		s.Classes = append(s.Classes, config.PythonClass{Name: class, Bases: []string{base}})
	}
	return s
}

func askedJob() *job.Job {
	return &job.Job{
		Command: job.Command{Args: strings.Fields("python train.py -opt x.yml --lr 0.1 --amp --sizes 1 2"), Dir: "/work"},
		Options: []config.Option{
			{Names: []string{"-opt"}}, {Names: []string{"--lr", "--learning-rate"}},
			{Names: []string{"--amp"}, Takes: config.None}, {Names: []string{"--fast"}, Takes: config.None},
			{Names: []string{"-b", "--batch-size"}}, {Names: []string{"--sizes"}, Takes: config.Some},
		},
		Files: []job.File{
			{Path: "x.yml", Format: "yaml", Flag: "-opt", Text: []byte(askedYAML)},
			{Path: "conf/y.toml", Format: "toml", Flag: "--toml", Text: []byte(askedTOML)},
			{Path: "/p/config.py", Format: job.Python, Source: pythonOf("/p/config.py", map[string]string{"Sub": "Config"},
				"Config.rate = 0.1", "Config.kind = 'adam'", "Config.amp = False", "Config.steps = LIMIT", "Sub.kind = 'sgd'")},
		},
		Knobs: []job.Knob{
			{Name: "micro-batch", At: config.Address{Doc: config.ArgvDoc, Path: "--batch-size"}, Default: true},
			{Name: "iterations", At: config.Address{Doc: "x.yml", Path: "train.total_iter"}, Value: "12"},
			{Name: "warm-up", At: config.Address{Doc: "x.yml", Path: "train.warmup"}, Default: true},
			{Name: "old", At: config.Address{Doc: "x.yml", Path: "train.old"}, Dead: "nothing uses it (model.py:7)"},
		},
	}
}

// What a user asks for is found by its address, its knob or its option, and spelled as its file spells it.
func TestAsked(t *testing.T) {
	for _, tt := range []struct{ set, want string }{
		{"train.total_iter=6", "iterations x.yml:train.total_iter: 12 -> 6"},
		{"iterations=6", "iterations x.yml:train.total_iter: 12 -> 6"},
		{"warm-up=5", "warm-up x.yml:train.warmup: (absent) -> 5"},
		{"train.warmup=5", "warm-up x.yml:train.warmup: (absent) -> 5"},
		{"train.lr=2e-4", "train.lr x.yml:train.lr: 1e-3 -> 0.0002"}, // readers of YAML disagree on 2e-4
		{"train.plain=2e-4", "train.plain x.yml:train.plain: 0.1 -> 0.0002"},
		{"train.plain=2", "train.plain x.yml:train.plain: 0.1 -> 2"},
		{`train.plain="auto"`,
			`train.plain x.yml:train.plain: 0.1 -> "auto" (--set train.plain="auto": it was a number (0.1) and is a text now)`},
		{"train.plain=null", "train.plain x.yml:train.plain: 0.1 -> null"},
		{"train.ema=0.999", "train.ema x.yml:train.ema: ~ -> 0.999"},
		{"train.betas=[0.5, 0.9]", "train.betas x.yml:train.betas: [0.9, 0.99] -> [0.5, 0.9]"},
		{"train.betas.1=0.9", "train.betas.1 x.yml:train.betas.1: 0.99 -> 0.9"},
		{`train.a\.b=2`, `train.a\.b x.yml:train.a\.b: 1 -> 2`},
		{"name=big=er", "name x.yml:name: tiny -> big=er"},
		{"name=7", "name x.yml:name: tiny -> 7 (--set name=7: it was a text (tiny) and is a number now)"},
		{"train.amp=1",
			"train.amp x.yml:train.amp: false -> 1 (--set train.amp=1: it was true or false (false) and is a number now)"},
		{"x.yml:pool=7", "pool x.yml:pool: 100 -> 7"},
		{"y.toml:pool=7", "pool conf/y.toml:pool: 5 -> 7"},
		{"optim.type=sgd", `optim.type conf/y.toml:optim.type: "adamw" -> "sgd"`},
		{"optim.lr=2e-4", "optim.lr conf/y.toml:optim.lr: 1e-3 -> 2e-4"},
		{"Config.rate=1e-4", "Config.rate /p/config.py:Config.rate: 0.1 -> 1e-4"},
		{"Config.amp=true", "Config.amp /p/config.py:Config.amp: False -> True"},
		{"Sub.kind=lamb", `Sub.kind /p/config.py:Sub.kind: 'sgd' -> "lamb"`},
		{"Config.kind='x'",
			`Config.kind /p/config.py:Config.kind: 'adam' -> 'x' ` +
				`(--set Config.kind: class Sub, which derives from Config, has a value of its own for kind)`},
		{"--lr=0.2", "--lr argv:--lr: 0.1 -> 0.2"},
		{"--learning-rate=0.2", "--learning-rate argv:--learning-rate: 0.1 -> 0.2"},
		{"-b=4", "micro-batch argv:-b: (absent) -> 4"},
		{"micro-batch=4", "micro-batch argv:--batch-size: (absent) -> 4"},
		{"--amp=false", "--amp argv:--amp:  -> (taken away)"},
		{"--fast=true", "--fast argv:--fast: (absent) -> "},
		{"--amp=true", ""}, // as typed
		{"+x.yml:train.new=1", "train.new x.yml:train.new: (absent) -> 1"},

		{"train.total_itr=6", `error: the job has no setting "train.total_itr"; similar ones are train.total_iter`},
		{"total_iter=6", `error: the job has no setting "total_iter"; similar ones are train.total_iter`},
		{"Train.LR=6", `error: the job has no setting "Train.LR"; similar ones are --lr, train.lr, optim.lr`},
		{"zzzzz=6",
			`error: the job has no setting "zzzzz": neither x.yml, conf/y.toml, /p/config.py nor an option or a knob has it`},
		{"--lrr=6", `error: the job has no setting "--lrr"; similar ones are --lr`},
		{"pool=7", "error: pool could be x.yml:pool or conf/y.toml:pool: write one of them"},
		{"train=7", "error: train is a section with total_iter, lr,"},
		{"train.old=7", "error: the running code does not read train.old: nothing uses it (model.py:7)"},
		{"old=7", "error: the running code does not read train.old"},
		{"train.plain=fast",
			`error: train.plain is a number now (0.1), and fast is a text; ` +
				`if the program takes a text there, quote it: train.plain="fast"`},
		{"train.lr=fast", "error: train.lr is a number now (1e-3), and fast is a text"},
		{"train.amp=maybe", "error: train.amp is true or false now (false), and maybe is a text"},
		{"train.lr=[", "error: "},
		{"optim.lr=fast", "error: optim.lr is a number now (1e-3), and fast is a text"},
		{"Config.rate=fast", "error: Config.rate is a number now (0.1), and fast is a text"},
		{"Config.steps=7", "error: Config.steps is computed (config.py, line 4)"},
		{"Config.nothing=7", `error: the job has no setting "Config.nothing"`},
		{"--lr=fast", `error: --lr is a number now (0.1), and "fast" is none`},
		{"--amp=2e", "error: --amp takes no value: write true or false"},
		{"--sizes=3", "error: --sizes has several values in the command"},
		{"-opt=y.yml", "error: -opt names the recipe: change it in the command itself"},
		{"+train.new=1", "error: write the file too: +x.yml:train.new"},
		{"+name=1", "error: the recipe has name: leave out the +"},
		{"name", "error: write KEY=VALUE"},
		{"=1", "error: write KEY=VALUE"},
	} {
		edits, warnings, err := Asked(askedJob(), []string{tt.set})
		got := ""
		switch {
		case err != nil:
			got = "error: " + strings.TrimPrefix(err.Error(), "--set "+tt.set+": ")
		case len(edits) > 0:
			got = fmt.Sprintf("%s %v", edits[0].Knob, edits[0])
			if len(warnings) > 0 {
				got += fmt.Sprintf(" (%s)", strings.Join(warnings, "; "))
			}
		}
		if got != tt.want && !(strings.HasPrefix(tt.want, "error: ") && strings.HasPrefix(got, tt.want)) {
			t.Errorf("--set %s\n got %s\nwant %s", tt.set, got, tt.want)
		}
	}
}

// All mistakes are reported together, and a setting is set once, whatever it is called.
func TestAskedTogether(t *testing.T) {
	edits, _, err := Asked(askedJob(), []string{"name=a", "iterations=3", "--lr=1"})
	if len(edits) != 3 || err != nil {
		t.Errorf("%v, %v", edits, err)
	}
	for want, set := range map[string][]string{
		"--set name=b: name is set twice": {"name=a", "name=b"},
		"--set train.total_iter=3: this is the same setting as iterations, which is set too": {
			"iterations=3", "train.total_iter=3"},
		"--set --learning-rate=1: this is the same setting as --lr, which is set too": {"--lr=1", "--learning-rate=1"},
		"--set a: write KEY=VALUE\n--set b: write KEY=VALUE":                          {"a", "b"},
	} {
		if _, _, err := Asked(askedJob(), set); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", set, err, want)
		}
	}
}

// A program that merges files takes every setting as an argument, which outranks them.
func TestAskedMerged(t *testing.T) {
	j := &job.Job{
		Command: job.Command{Args: strings.Fields("python main.py --base x.yaml --gpus 0, model.size=8"), Dir: "/work"},
		Options: []config.Option{{Names: []string{"--base"}, Takes: config.Any}, {Names: []string{"--gpus"}}},
		Files: []job.File{
			{Path: "launch.yaml", Format: "yaml", Flag: "--base", Text: []byte("data: {batch: 4}"), Added: true},
		},
		Merged: []byte(`{"model":{"size":8,"rate":5e-05,"kind":"unet"},"data":{"batch":4}}`),
		Knobs: []job.Knob{
			{Name: "micro-batch", At: config.Address{Doc: "launch.yaml", Path: "data.batch"}, Value: "4"},
		},
	}
	for set, want := range map[string]string{
		"micro-batch=2":   "micro-batch argv:data.batch: 4 -> 2: data.batch=2",
		"data.batch=2":    "micro-batch argv:data.batch: 4 -> 2: data.batch=2",
		"model.rate=1e-5": "model.rate argv:model.rate: 5e-05 -> 1.0e-05: model.rate=1.0e-05",
		"model.size=16":   "model.size argv:model.size: 8 -> 16: model.size=16",
		"model.kind=vit":  `model.kind argv:model.kind: "unet" -> vit: model.kind=vit`,
		"+model.drop=0.1": "model.drop argv:model.drop: (absent) -> 0.1: model.drop=0.1",
	} {
		edits, _, err := Asked(j, []string{set})
		if err != nil {
			t.Errorf("%s: %v", set, err)
			continue
		}
		args, err := j.WithAsked(j.Command.Args, edits)
		if err != nil {
			t.Errorf("%s: %v", set, err)
			continue
		}
		_, arg, _ := strings.Cut(want, ": "+edits[0].At.Path+"=")
		if got := fmt.Sprintf("%s %v", edits[0].Knob, edits[0]); !strings.HasPrefix(want, got+": ") ||
			!strings.Contains(" "+strings.Join(args, " ")+" ", " "+edits[0].At.Path+"="+arg+" ") {
			t.Errorf("%s: %s, %q, want %s", set, got, args, want)
		}
	}
}

// recipes is a plugin whose jobs have a recipe: "-opt FILE" with a number for the key batch.
type recipes struct{ family }

func (recipes) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	path := c.Args[slices.Index(c.Args, "-opt")+1]
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, err := config.ParseYAML(text)
	if err != nil {
		return nil, err
	}
	batch, ok := doc.Root().Get("batch").Int()
	if !ok || batch > 100 {
		return nil, fmt.Errorf("%s: batch is no size", path)
	}
	at := config.Address{Doc: path, Path: "batch"}
	return reads{&job.Job{
		Command: c, Options: []config.Option{{Names: []string{"-opt"}}, {Names: []string{"--lr"}}},
		Batch:     job.Batch{Micro: batch, Accumulation: 1, Ranks: 1},
		Files:     []job.File{{Path: path, Format: "yaml", Flag: "-opt", Text: text}},
		Knobs:     []job.Knob{{Name: "micro-batch", At: at, Value: fmt.Sprint(batch)}},
		Resume:    job.Resume{None: "no"},
		Warnings:  []string{path + " is short"},
		Rehearsal: job.Rehearsal{Edits: []config.Edit{{Knob: "rehearsal", At: at, From: fmt.Sprint(batch), To: "1"}}},
	}}, nil
}

// reads prices a job by its batch: one GiB an image, with a rung for half of it.
type reads struct{ job *job.Job }

func (r reads) Job() *job.Job { return r.job }

func (r reads) Ladders(context.Context, gpu.Device) (*ladder.Set, error) {
	at := func(batch int64) []mem.Estimate {
		return []mem.Estimate{{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: unit.Bytes(batch) * unit.GiB}}}}
	}
	n := r.job.Batch.Micro
	half := config.Edit{Knob: "micro-batch", At: r.job.Knobs[0].At, From: fmt.Sprint(n), To: fmt.Sprint(n / 2)}
	half.Cost = ladder.Recipe.String()
	return &ladder.Set{
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{
			{Name: "as asked", Slowdown: 1, Estimates: at(n)},
			{Name: "half", Cost: ladder.Recipe, Slowdown: 2, Edits: []config.Edit{half}, Estimates: at(n / 2)},
		}}},
	}, nil
}

// The plugin reads and prices the recipe with what the user asks for. All that is kept names the user's own files, and
// launch's changes come after the user's.
func TestReadAsked(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "/bin")
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for name, text := range map[string]string{"train.py": "", "x.yml": "batch: 4 # of each\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(set ...string) *Reading {
		t.Helper()
		o := options(t)
		o.Builtin = []func() plugin.Plugin{func() plugin.Plugin { return recipes{} }}
		o.Ask, o.Limits.Allow, o.Set = o.Here, ladder.Recipe, set
		r, err := Read(t.Context(), o, []string{"python", "train.py", "-opt", "x.yml", "--lr", "1"})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		return r
	}
	r := read("batch=12", "--lr=2")
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	plan, stop := r.Run.First()
	if stop != nil || len(plan.Edits) != 1 || plan.Edits[0].String() != "x.yml:batch: 12 -> 6" {
		t.Fatalf("the plan is %+v, %+v", plan, stop)
	}
	made, err := r.Job.Rewrite(plan.Edits, "/a")
	if err != nil || len(made.Files) != 1 || string(made.Files[0].Text) != "batch: 6 # of each\n" {
		t.Errorf("the copy is %v, %v", made, err)
	}
	if got := strings.Join(made.Command.Args, " "); got != "python train.py -opt /a/x.yml --lr 2" {
		t.Errorf("the command is %s", got)
	}
	if text, _ := json.Marshal(r.Job); strings.Contains(string(text), "launch-set-") || len(r.Job.Asked) != 2 {
		t.Errorf("a copy is left in %s", text)
	}
	if r.Job.Warnings[0] != "x.yml is short" || r.Job.Rehearsal.Edits[0].At.Doc != "x.yml" {
		t.Errorf("warning %q, rehearsal %v", r.Job.Warnings[0], r.Job.Rehearsal.Edits)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("copies are left: %v", left)
	}
	if text, _ := os.ReadFile("x.yml"); string(text) != "batch: 4 # of each\n" {
		t.Errorf("the user's file is %q", text)
	}
	for set, want := range map[string]string{"batch=200": "x.yml: batch is no size", "bath=1": "similar ones are batch"} {
		if r := read(set); r.Err == nil || !strings.Contains(r.Err.Error(), want) || r.Job != nil ||
			strings.Contains(r.Err.Error(), "launch-set-") {
			t.Errorf("--set %s: %v, want %s", set, r.Err, want)
		}
	}
}

// A command that would run as typed cannot run with other settings.
func TestReadAskedAsTyped(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "/bin")
	t.Setenv("HOME", t.TempDir())
	if err := os.WriteFile("train.py", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"ls":                      "(command not understood",
		"python other.py":         "(no plugin knows it)",
		"python train.py caution": "(the declaration is not believed",
		"python train.py panic":   "no such layer",
		"python train.py --help":  "",
	} {
		o := options(t)
		o.Set = []string{"a=1"}
		r, err := Read(t.Context(), o, strings.Split(args, " "))
		switch {
		case err != nil || r.Job != nil:
			t.Errorf("%s: %v, a job %v", args, err, r.Job)
		case want == "" && r.Err != nil, want != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), want)):
			t.Errorf("%s: %v, want %s", args, r.Err, want)
		}
		r.Close()
	}
}
