package stablesr

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// checkoutDir makes a command's folder: a stand-in of a checkout, and recipes by name. edit changes the recipe's text.
func checkoutDir(t testing.TB, from string, recipes map[string]func(string) string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", from))); err != nil {
		t.Fatal(err)
	}
	base, err := os.ReadFile("testdata/recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range recipes {
		text := string(base)
		if edit != nil {
			if text = edit(text); text == string(base) {
				t.Fatalf("%s: the recipe is not changed", name)
			}
		}
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replace is an edit of a recipe, or of several places of it.
func replace(oldNew ...string) func(string) string {
	return func(s string) string { return strings.NewReplacer(oldNew...).Replace(s) }
}

// edged is the recipe as the edge fork has it.
var edged = replace("ldm.models.diffusion.ddpm.LatentDiffusionSRTextWT", "ldm.models.diffusion.ddpm_with_edge.LatentDiffusionSRTextWTWithEdge",
	"    image_size: 512\n", "    image_size: 512\n    use_edge_processing: True\n    edge_input_channels: 3\n",
	"openaimodel.UNetModelDualcondV2", "unet_with_edge.UNetModelDualcondV2WithEdge", "semb_channels: 256}", "semb_channels: 256, use_edge_processing: True}")

func both(a, b func(string) string) func(string) string {
	return func(s string) string { return b(a(s)) }
}

var env = []string{"PATH=/nowhere", "HOME=/nowhere", "WANDB_MODE=offline"}

func recognize(dir string, args ...string) (*job.Job, error) {
	return recognizeAs(job.Command{Args: append([]string{"python"}, args...), Dir: dir, Env: env})
}

func recognizeAs(c job.Command) (*job.Job, error) {
	r, err := New().Recognize(context.Background(), c)
	if err != nil {
		return nil, err
	}
	return r.Job(), nil
}

func mine(t *testing.T, dir string, args ...string) *job.Job {
	t.Helper()
	j, err := recognize(dir, args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return j
}

func laddersOf(t *testing.T, j *job.Job, d gpu.Device) *ladder.Set {
	t.Helper()
	return plugintest.Ladders(t, New(), j.Command, d)
}

func card(vram unit.Bytes) gpu.Device { return gpu.Device{Kind: gpu.CUDA, Total: vram} }

// stock is the recipe as it is, with arguments behind it.
func stock(t *testing.T, more ...string) *job.Job {
	t.Helper()
	return mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil}),
		append([]string{"main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--scale_lr", "False"}, more...)...)
}

func find(t *testing.T, l ladder.Ladder, name string) ladder.Rung {
	t.Helper()
	for _, r := range l.Rungs {
		if r.Name == name {
			return r
		}
	}
	var names []string
	for _, r := range l.Rungs {
		names = append(names, r.Name)
	}
	t.Fatalf("no rung %q among %q", name, names)
	return ladder.Rung{}
}

// after is what the program would read with the edits of a rung.
func after(t *testing.T, j *job.Job, edits []config.Edit) *recipe {
	t.Helper()
	r, err := readCommand(j.Command)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.tried(j, edits)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func joined(ss []string) string { return strings.Join(ss, "\n") }

// facts 1.1, the table of traps: what main.py makes of its arguments.
func TestArguments(t *testing.T) {
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil, "more.yaml": func(string) string { return "data: {params: {batch_size: 3}}\n" }})
	type want struct{ micro, accum int64 }
	for name, tt := range map[string]struct {
		args []string
		want want
	}{
		"as it is":                         {[]string{"--base", "r.yaml", "--train"}, want{6, 4}},
		"overrides first":                  {[]string{"data.params.batch_size=1", "--base", "r.yaml", "--train"}, want{1, 4}},
		"a flag of one value for a guard":  {[]string{"--base", "r.yaml", "--train", "--process_position", "0", "data.params.batch_size=1"}, want{1, 4}},
		"behind --scale_lr False":          {[]string{"--base", "r.yaml", "--train", "--scale_lr", "False", "data.params.batch_size=2"}, want{2, 4}},
		"a flag that says the default":     {[]string{"--base", "r.yaml", "--train", "--accumulate_grad_batches", "1"}, want{6, 4}},
		"a flag over the dotlist":          {[]string{keyAccum + "=7", "--base", "r.yaml", "--accumulate_grad_batches", "5", "--train"}, want{6, 5}},
		"the same key twice":               {[]string{"data.params.batch_size=1", "data.params.batch_size=2", "--base", "r.yaml", "--train"}, want{2, 4}},
		"files from left to right":         {[]string{"--base", "r.yaml", "more.yaml", "--train"}, want{3, 4}},
		"the other way round":              {[]string{"--base", "more.yaml", "r.yaml", "--train"}, want{6, 4}},
		"an abbreviation":                  {[]string{"--bas", "r.yaml", "--train", "--gpu", "0,", "--accumu", "2"}, want{6, 2}},
		"a misspelt key of the trainer":    {[]string{"lightning.trainer.accumulate_grad_batchez=9", "--base", "r.yaml", "--train"}, want{6, 4}},
		"brackets in a key":                {[]string{"data[params][batch_size]=3", "--base", "r.yaml", "--train"}, want{3, 4}},
		"a whole mapping in one override":  {[]string{"data.params={batch_size: 2}", "--base", "r.yaml", "--train"}, want{2, 4}},
		"a row of short options":           {[]string{"-tTrue", "-b", "r.yaml"}, want{6, 4}},
		"a flag that the recipe also says": {[]string{"--base", "r.yaml", "--train", "--precision", "32"}, want{6, 4}},
	} {
		j, err := recognize(dir, append([]string{"main.py"}, tt.args...)...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := (want{j.Batch.Micro, j.Batch.Accumulation}); got != tt.want {
			t.Errorf("%s: read as %+v, want %+v", name, got, tt.want)
		}
	}
	for name, tt := range map[string]struct {
		args    []string
		says    string
		notMine bool
	}{
		"swallowed by --base":     {[]string{"--train", "--base", "r.yaml", "data.params.batch_size=1"}, "stands behind --base", false},
		"swallowed by --train":    {[]string{"--base", "r.yaml", "--train", "data.params.batch_size=1"}, "--train takes data.params.batch_size=1", false},
		"swallowed by --scale_lr": {[]string{"--base", "r.yaml", "--scale_lr", "data.params.batch_size=1"}, "--scale_lr takes", false},
		"ambiguous":               {[]string{"--base", "r.yaml", "--acc", "4"}, "--acc could be", false},
		"a name and a resume":     {[]string{"--base", "r.yaml", "--name", "x", "--resume", "logs/y"}, "leave --name out", false},
		"nothing to resume":       {[]string{"--base", "r.yaml", "--resume", "logs/y"}, "nothing to resume at logs/y", false},
		"a list by its index":     {[]string{"model.params.unet_config.params.channel_mult.0=9", "--base", "r.yaml"}, "which OmegaConf does not merge", false},
		"a list over a mapping":   {[]string{"--base", "r.yaml", "list.yaml"}, "which OmegaConf does not merge", false},
		"no such file":            {[]string{"--base", "nothere.yaml"}, "there is no file nothere.yaml", false},
		"another family's":        {[]string{"--base", "other.yaml"}, "no model.target", true},
	} {
		write(t, filepath.Join(dir, "list.yaml"), "data: [1]\n")
		write(t, filepath.Join(dir, "other.yaml"), "batch: 4\n")
		_, err := recognize(dir, append([]string{"main.py"}, tt.args...)...)
		if err == nil || !strings.Contains(err.Error(), tt.says) || errors.Is(err, plugin.ErrNotMine) != tt.notMine {
			t.Errorf("%s: %v; want it to say %q, not mine: %v", name, err, tt.says, tt.notMine)
		}
	}
}

// A main.py of somebody else's is left alone, whatever its options are called.
func TestNotMine(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.py"), "parser.add_argument('-b', '--batch-size')\n")
	if _, err := recognize(dir, "main.py", "-a", "resnet50", "-b", "256", "data"); !errors.Is(err, plugin.ErrNotMine) {
		t.Errorf("the ImageNet example is taken for ours: %v", err)
	}
	// Another project's main.py, with options of the same names and none of Lightning's settings.
	write(t, filepath.Join(dir, "main.py"), "p.add_argument(\"--base\", nargs=\"*\")\np.add_argument(\"--train\", action=\"store_true\")\nopt, _ = p.parse_known_args()\n")
	write(t, filepath.Join(dir, "c.yaml"), "model: {target: foo.Bar, params: {}}\ndata: {params: {batch_size: 4}}\n")
	for _, args := range [][]string{{"--train", "--base", "c.yaml"}, {"--base", "c.yaml", "--train", "k=v"}} {
		if _, err := recognize(dir, append([]string{"main.py"}, args...)...); !errors.Is(err, plugin.ErrNotMine) {
			t.Errorf("another project's main.py is taken for ours: %v", err)
		}
	}
	if _, err := recognize(t.TempDir(), "main.py", "--base", "x.yaml"); !errors.Is(err, plugin.ErrNotMine) {
		t.Errorf("a script that is not there is ours: %v", err)
	}
}

// facts 3.4: numbers as OmegaConf reads them, which PyYAML does not.
func TestNumbers(t *testing.T) {
	root, err := parse("x.yaml", []byte("a: 1e-4\nb: 5.0e-05\nc: \"1e-4\"\nd: ~\ne: 1_000\nf: yes\ng: [1, 2e0, {h: 1e3}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := tree{"a": 1e-4, "b": 5e-5, "c": "1e-4", "d": nil, "e": int64(1000), "f": true, "g": []any{int64(1), 2.0, tree{"h": 1e3}}}
	if !same(root, want) {
		t.Errorf("read as %#v, want %#v", root, want)
	}
	words := tree{"a": tree{"b": int64(1)}}
	if err := readOverride("a={c: 2}").set(words); err != nil || !same(words, tree{"a": tree{"b": int64(1), "c": int64(2)}}) {
		t.Errorf("a mapping in an override makes %v (%v): it is merged", words, err)
	}
	if o := readOverride("model.base_learning_rate=1e-4"); o.value != 1e-4 {
		t.Errorf("an override is read as %#v", o.value)
	}
	if o := readOverride("--no-scale_lr"); o.key != "--no-scale_lr" || o.value != nil {
		t.Errorf("an unknown flag is read as %+v", o)
	}
}

// facts 1.1: what is silently ignored is said, and what stops the program too.
func TestWarnings(t *testing.T) {
	plain := replace("batch_size: 6   # mine", "batch_size: 6")
	for name, tt := range map[string]struct {
		edit func(string) string
		args []string
		says string
	}{
		"--config":             {plain, []string{"--config", "x.yaml"}, "no option --config and ignores it: recipes are named behind --base"},
		"--no-scale_lr":        {plain, []string{"--no-scale_lr"}, "no option --no-scale_lr"},
		"--finetune_from":      {plain, []string{"--finetune_from", "x.ckpt"}, "no option --finetune_from"},
		"its value":            {plain, []string{"--finetune_from", "x.ckpt"}, "x.ckpt is no override"},
		"an idle flag":         {plain, []string{"--accumulate_grad_batches", "1"}, "--accumulate_grad_batches 1 has no effect"},
		"a misspelt key":       {replace("benchmark: True", "benchmark: True\n    accumulate_grad_batchez: 9"), nil, "accumulate_grad_batchez has no effect"},
		"no comma":             {plain, []string{"--gpus", "0"}, "--gpus 0 without its comma is the number 0"},
		"a number of GPUs":     {plain, []string{"--gpus", "1"}, "--gpus 1: this main.py takes its value for text"},
		"the queue":            {replace("batch_size: 6 ", "batch_size: 7 "), nil, "queue_size 180 is no multiple of the micro-batch 7"},
		"UNet use_checkpoint":  {replace("context_dim: 1024, use_checkpoint: False", "context_dim: 1024, use_checkpoint: True"), nil, "One of the differentiated Tensors does not require grad"},
		"the same, unfrozen":   {replace("context_dim: 1024, use_checkpoint: False", "context_dim: 1024, use_checkpoint: True", "unfrozen_diff: False", "unfrozen_diff: True"), nil, "'dict' object has no attribute 'detach'"},
		"precision 16":         {plain, []string{"--precision", "16"}, "precision 16 stops the first backward pass"},
		"use_ema missing":      {replace("    use_ema: False\n", ""), nil, "use_ema is missing and then on: the averages take 3.42 GiB"},
		"xformers not known":   {plain, nil, "whether xformers is there is not known"},
		"learning rate scaled": {plain, []string{"--scale_lr", "True"}, "the learning rate is scaled"},
		"an odd size":          {replace("gt_size: 512", "gt_size: 500"), nil, "images of 500 are no multiple of 64"},
		"no formula":           {replace("openaimodel.UNetModelDualcondV2", "mine.UNet"), nil, "no formula for it"},
	} {
		dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": tt.edit})
		args := []string{"main.py", "--train", "--base", "r.yaml"}
		if !slices.Contains(tt.args, "--gpus") {
			args = append(args, "--gpus", "0,")
		}
		j, err := recognize(dir, append(args, tt.args...)...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if all := joined(j.Warnings); !strings.Contains(all, tt.says) {
			t.Errorf("%s: no warning says %q:\n%s", name, tt.says, all)
		}
	}
	for _, w := range stock(t).Warnings {
		if !strings.Contains(w, "xformers") && !strings.Contains(w, "a saved state takes") {
			t.Errorf("the recipe as it is is warned of: %s", w)
		}
	}
}

// facts 1.4: a terminal would be asked for a login.
func TestWandb(t *testing.T) {
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
	args := []string{"python", "main.py", "--train", "--base", "r.yaml", "--gpus", "0,"}
	home := t.TempDir()
	warned := func(env ...string) bool {
		j, err := recognizeAs(job.Command{Args: args, Dir: dir, Env: env})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(joined(j.Warnings), "Weights & Biases")
	}
	if !warned("PATH=/nowhere", "HOME="+home) {
		t.Error("nobody says that the logger will ask")
	}
	if warned("PATH=/nowhere", "HOME="+home, "WANDB_MODE=offline") {
		t.Error("warned although WANDB_MODE is set")
	}
	write(t, filepath.Join(home, ".netrc"), "machine api.wandb.ai login user password x\n")
	if warned("PATH=/nowhere", "HOME="+home) {
		t.Error("warned although somebody is logged in")
	}
}

// facts 1.3: how many processes train.
func TestRanks(t *testing.T) {
	for gpus, want := range map[string]int64{"0,": 1, "0,1": 2, "0,1,": 2, "2": 2, "1": 1, "0": 1} {
		j := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil}), "main.py", "--train", "--base", "r.yaml", "--gpus", gpus)
		if j.Batch.Ranks != want {
			t.Errorf("--gpus %s: %d ranks, want %d", gpus, j.Batch.Ranks, want)
		}
	}
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
	c := job.Command{Args: []string{"python", "main.py", "--train", "--base", "r.yaml", "--gpus=-1", "--num_nodes", "2"}, Dir: dir, Env: env}
	var need *plugin.Need
	if _, err := recognizeAs(c); !errors.As(err, &need) || !need.Devices {
		t.Errorf("--gpus -1 does not ask how many there are: %v", err)
	}
	c.Devices = 4
	if j, err := recognizeAs(c); err != nil || j.Batch.Ranks != 8 {
		t.Errorf("--gpus -1 of 4 on 2 nodes: %+v, %v", j, err)
	}
}

// facts 3: an edit lies where it counts, whatever else the command says of the same key, and changes nothing else.
func TestEdits(t *testing.T) {
	for name, tt := range map[string]struct {
		args, want []string
	}{
		"behind --base":          {[]string{"--train", "--base", "r.yaml", "--gpus", "0,"}, []string{"--train", "--base", "r.yaml", "/launch/launch.yaml", "--gpus", "0,"}},
		"--base=":                {[]string{"--train", "--base=r.yaml", "--gpus", "0,"}, []string{"--train", "--base", "r.yaml", "/launch/launch.yaml", "--gpus", "0,"}},
		"-b joined":              {[]string{"--train", "-br.yaml", "--gpus", "0,"}, []string{"--train", "-b", "r.yaml", "/launch/launch.yaml", "--gpus", "0,"}},
		"two uses of --base":     {[]string{"-b", "x.yaml", "--train", "-b", "r.yaml"}, []string{"-b", "x.yaml", "--train", "-b", "r.yaml", "/launch/launch.yaml"}},
		"the user's own word":    {[]string{"data.params.batch_size=12", keyAccum + "=2", "--train", "--base", "r.yaml"}, []string{"data.params.batch_size=3", keyAccum + "=8", "--train", "--base", "r.yaml"}},
		"two of them":            {[]string{"data.params.batch_size=4", "data.params.batch_size=12", keyAccum + "=2", "--train", "--base", "r.yaml"}, []string{"data.params.batch_size=4", "data.params.batch_size=3", keyAccum + "=8", "--train", "--base", "r.yaml"}},
		"a flag that outranks":   {[]string{"--train", "--base", "r.yaml", "--accumu", "4"}, []string{"--train", "--base", "r.yaml", "/launch/launch.yaml", "--accumu", "8"}},
		"a flag and a word":      {[]string{keyAccum + "=9", "--train", "--base", "r.yaml", "--accumulate_grad_batches=4"}, []string{keyAccum + "=9", "--train", "--base", "r.yaml", "/launch/launch.yaml", "--accumulate_grad_batches=8"}},
		"a flag that is ignored": {[]string{"--train", "--base", "r.yaml", "--accumulate_grad_batches", "1"}, []string{"--train", "--base", "r.yaml", "/launch/launch.yaml", "--accumulate_grad_batches", "1"}},
		"in a shell's string":    {nil, nil},
	} {
		dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
		if tt.args != nil && !slices.Contains(tt.args, "--gpus") { // without it nothing is fitted to a card
			tt.args, tt.want = append(tt.args, "--gpus=0,"), append(tt.want, "--gpus=0,")
		}
		args := append([]string{"main.py"}, tt.args...)
		var j *job.Job
		if tt.args == nil {
			var err error
			j, err = recognizeAs(job.Command{Args: []string{"sh", "-c", "python main.py --train --base r.yaml --gpus 0,"}, Dir: dir, Env: env})
			if err != nil {
				t.Fatal(err)
			}
		} else {
			j = mine(t, dir, args...)
		}
		rung := find(t, laddersOf(t, j, card(24*unit.GiB)).Shared, "micro-batch 3 × accumulation 8")
		made, err := j.Rewrite(rung.Edits, "/launch")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tt.want != nil && !slices.Equal(made.Command.Args[2:], tt.want) {
			t.Errorf("%s: the command becomes %q, want %q", name, made.Command.Args[2:], tt.want)
		}
		if r := after(t, j, rung.Edits); r.micro != 3 || r.accum != 8 {
			t.Errorf("%s: the program would read %d × %d", name, r.micro, r.accum)
		}
	}
}

// A flag that would say Lightning's default is ignored by main.py, so it is taken away and the file decides.
func TestFlagThatWouldBeIgnored(t *testing.T) {
	j := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil}),
		"main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--accumulate_grad_batches", "4")
	rung := find(t, laddersOf(t, j, card(80*unit.GiB)).Shared, "micro-batch 12 × accumulation 2")
	if r := after(t, j, rung.Edits); r.micro != 12 || r.accum != 2 {
		t.Errorf("read as %d × %d", r.micro, r.accum)
	}
	j = mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": replace("batch_size: 6 ", "batch_size: 5 ")}),
		"main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--accumulate_grad_batches", "2")
	rung = find(t, laddersOf(t, j, card(80*unit.GiB)).Shared, "micro-batch 10 × accumulation 1")
	made, err := j.Rewrite(rung.Edits, "/launch")
	if err != nil || slices.Contains(made.Command.Args, "--accumulate_grad_batches") {
		t.Errorf("the flag is still there: %q, %v", made.Command.Args, err)
	}
	if r := after(t, j, rung.Edits); r.micro != 10 || r.accum != 1 {
		t.Errorf("read as %d × %d", r.micro, r.accum)
	}
}

// What the command itself says over a key in a form that no edit reaches makes no rung: it would not be taken.
func TestWhatCannotBeSet(t *testing.T) {
	j := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil}),
		"main.py", "data.params={batch_size: 6}", "--train", "--base", "r.yaml", "--gpus", "0,")
	for _, r := range laddersOf(t, j, card(24*unit.GiB)).Shared.Rungs {
		for _, e := range r.Edits {
			if e.Knob == knobMicro {
				t.Errorf("%s edits the micro-batch at %v, which an override says", r.Name, e.At)
			}
		}
	}
}

// facts 2 and 7: pairs at the recipe's own product, all of which divide the pool.
func TestPairs(t *testing.T) {
	set := laddersOf(t, stock(t), card(24*unit.GiB))
	var names []string
	for _, r := range set.Shared.Rungs {
		if r.Cost == ladder.Speed {
			names = append(names, r.Name)
		}
	}
	want := []string{"micro-batch 12 × accumulation 2", "micro-batch 4 × accumulation 6", "micro-batch 3 × accumulation 8",
		"micro-batch 2 × accumulation 12", "micro-batch 1 × accumulation 24", "micro-batch 1 × accumulation 24, structcond activation checkpointing"}
	if !slices.Equal(names, want) { // 24 and 8 do not divide 180
		t.Errorf("the pairs are %q, want %q", names, want)
	}
	for _, r := range set.Shared.Rungs {
		for _, e := range r.Edits {
			if strings.Contains(e.At.Path, "unet_config") && strings.Contains(e.At.Path, "use_checkpoint") || strings.Contains(e.At.Path, "precision") {
				t.Errorf("%s turns %s, which stops the first backward pass", r.Name, e.At.Path)
			}
		}
		if v := r.Values; r.Cost < ladder.Recipe && v[knobMicro]*v[knobAccumulation] != 24 && len(v) > 0 {
			t.Errorf("%s is another global batch and costs %v", r.Name, r.Cost)
		}
	}
}

// A recipe whose own micro-batch does not divide the pool still gets ladders, and only rungs that do.
func TestPairsOfARecipeThatDoesNotDivide(t *testing.T) {
	j := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": replace("batch_size: 6 ", "batch_size: 8 ")}), "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
	for _, r := range laddersOf(t, j, card(24*unit.GiB)).Shared.Rungs {
		if m := r.Values[knobMicro]; m > 0 && 180%m != 0 {
			t.Errorf("%s stops at the pool's assert", r.Name)
		}
	}
}

// facts 2: what follows the micro-batch where the recipe does not say it is written down as it is.
func TestWhatFollowsTheMicroBatch(t *testing.T) {
	j := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": replace("    num_workers: 6\n", "", "        queue_size: 180\n", "")}),
		"main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
	set := laddersOf(t, j, card(24*unit.GiB))
	if q := set.Values[knobQueue]; q != 300 {
		t.Errorf("the pool has %d pairs, want 50 × 6", q)
	}
	r := after(t, j, find(t, set.Shared, "micro-batch 3 × accumulation 8").Edits)
	if n, _ := integer(r.root, keyWorkers); n != 12 || r.queue != 300 {
		t.Errorf("at a micro-batch of 3 there are %d workers and a pool of %d; want 12 and 300, as asked", n, r.queue)
	}
}

// facts 2: random_size has no pool, so nothing is asserted and nothing of it is on the card.
func TestNoPool(t *testing.T) {
	j := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": replace("random_size: False", "random_size: True")}), "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
	set := laddersOf(t, j, card(24*unit.GiB))
	find(t, set.Shared, "micro-batch 8 × accumulation 3")
	for _, it := range set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked).Items {
		if strings.Contains(it.What, "pool") {
			t.Errorf("there is a pool: %+v", it)
		}
	}
	for _, k := range j.Knobs {
		if k.Name == knobQueue && k.Dead == "" {
			t.Error("queue_size is not said to be dead")
		}
	}
}

// The figures: 6 × 4 does not fit in 24 GiB without xformers, 3 × 8 does, and xformers decides.
func TestFigures(t *testing.T) {
	total := func(set *ladder.Set, name string) float64 {
		for i, r := range set.Shared.Rungs {
			if r.Name == name {
				return float64(set.Ladder(ladder.Training).Rungs[0].At(i).Total()) / (1 << 30)
			}
		}
		t.Fatalf("no rung %q", name)
		return 0
	}
	j := stock(t)
	set := laddersOf(t, j, card(24*unit.GiB))
	asked := set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked)
	if asked.Certain() <= 24*unit.GiB {
		t.Errorf("6 × 4 counts %v, which is no more than the card", asked.Certain())
	}
	if four, three := total(set, "micro-batch 4 × accumulation 6"), total(set, "micro-batch 3 × accumulation 8"); four <= 24 || three > 22 {
		t.Errorf("4 × 6 needs %.1f GiB and 3 × 8 %.1f", four, three)
	}
	dir := j.Command.Dir
	venv := filepath.Join(dir, "venv")
	write(t, filepath.Join(venv, "lib/python3.9/site-packages/xformers/__init__.py"), "")
	write(t, filepath.Join(venv, "lib/python3.9/site-packages/torch/version.py"), "__version__ = '1.13.1'\n")
	write(t, filepath.Join(venv, "bin/python"), "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(venv, "bin/python"), 0o755); err != nil {
		t.Fatal(err)
	}
	j.Command.Args[0] = filepath.Join(venv, "bin/python")
	with := laddersOf(t, j, card(24*unit.GiB))
	if e := with.Ladder(ladder.Training).Rungs[0].At(with.Shared.Asked); e.Total() >= 20*unit.GiB {
		t.Errorf("with xformers 6 × 4 needs %v", e.Total())
	}
}

// facts 6.4: the UNet's checkpointing saves nothing, because it never gets beyond the first backward pass.
func TestUNetCheckpointing(t *testing.T) {
	total := func(edit func(string) string) unit.Bytes {
		j := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": edit}), "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
		set := laddersOf(t, j, card(24*unit.GiB))
		e := set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked)
		return e.Total() - e.Of(mem.Slack) // which is a matter of which block serves which request
	}
	if with, without := total(replace("context_dim: 1024, use_checkpoint: False", "context_dim: 1024, use_checkpoint: True")), total(nil); with != without {
		t.Errorf("with use_checkpoint in the UNet a step is said to need %v, and without it %v", with, without)
	}
	// Structcond's works, and saves 84 MiB a sample at 512.
	with := total(replace("channel_mult: [1, 1, 2, 2]\n        use_checkpoint: False", "channel_mult: [1, 1, 2, 2]\n        use_checkpoint: True"))
	if saves := total(nil) - with; saves < 6*80*unit.MiB || saves > 6*95*unit.MiB {
		t.Errorf("with use_checkpoint in structcond a step of six saves %v", saves)
	}
}

// facts 5.4 and 6.2: the phases that share the micro-batch are priced at it, and every phase is there.
func TestPhases(t *testing.T) {
	set := laddersOf(t, stock(t), card(24*unit.GiB))
	for _, phase := range []string{ladder.Training, ladder.Validation, images} {
		l := set.Ladder(phase)
		if l == nil {
			t.Fatalf("no ladder for %s", phase)
		}
		asked, least := l.Rungs[0].At(set.Shared.Asked), l.Rungs[0].At(len(set.Shared.Rungs)-1)
		if !asked.Known() || least.Total() >= asked.Total() {
			t.Errorf("%s: %v as asked (%s), %v at the end", phase, asked.Total(), asked.Unknown, least.Total())
		}
	}
	training, logging := set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked), set.Ladder(images).Rungs[0].At(set.Shared.Asked)
	if logging.Total() >= training.Total() {
		t.Errorf("image logging needs %v, and a training step %v", logging.Total(), training.Total())
	}
	off := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": replace("max_images: 4", "max_images: 4, disabled: True")}), "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
	if laddersOf(t, off, card(24*unit.GiB)).Ladder(images) != nil {
		t.Error("image logging is priced though it is off")
	}
}

// facts 2: averages are copies of the whole UNet, and follow every micro-batch, so that a split is not the same mathematics.
func TestEMA(t *testing.T) {
	without := laddersOf(t, stock(t), card(80*unit.GiB))
	j := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": replace("    use_ema: False\n", "")}), "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
	set := laddersOf(t, j, card(80*unit.GiB))
	more := func(phase string) unit.Bytes {
		return set.Ladder(phase).Rungs[0].At(set.Shared.Asked).Certain() - without.Ladder(phase).Rungs[0].At(without.Shared.Asked).Certain()
	}
	// LitEma keeps the copy of its last swap, and the sanity check is the first (ema.py:62).
	if got := more(ladder.Training); got < 6800*unit.MiB || got > 7200*unit.MiB {
		t.Errorf("use_ema takes %v in training, want 6.84 GiB", got)
	}
	if got := more(ladder.Validation); got < 6800*unit.MiB || got > 10600*unit.MiB {
		t.Errorf("use_ema takes %v in validation, want 6.84 GiB and at most a third copy", got)
	}
	if r := find(t, set.Shared, "micro-batch 3 × accumulation 8"); r.Cost != ladder.Numerics {
		t.Errorf("a split under use_ema costs %v", r.Cost)
	}
}

// facts 7: what is another experiment comes last, and says so.
func TestOtherExperiments(t *testing.T) {
	j := stock(t)
	set := laddersOf(t, j, card(24*unit.GiB))
	least := "micro-batch 1 × accumulation 24, "
	pool := find(t, set.Shared, least+"pool of 60")
	if r := after(t, j, pool.Edits); pool.Cost != ladder.Recipe || r.queue != 60 || r.micro != 1 {
		t.Errorf("a smaller pool costs %v and is read as %d × %d, pool %d", pool.Cost, r.micro, r.accum, r.queue)
	}
	crop := find(t, set.Shared, least+"high-resolution crop 256")
	r := after(t, j, crop.Edits)
	for _, key := range []string{keyGTSize, keyTrainCrop, keyValCrop, keyImageSize} {
		if n, _ := integer(r.root, key); n != 256 {
			t.Errorf("at a crop of 256 %s is %d", key, n)
		}
	}
	if crop.Cost != ladder.Recipe {
		t.Errorf("a smaller crop costs %v", crop.Cost)
	}
}

// facts 6.6: edge maps: batch normalisation sees the piece, another resolution does not work, and no edge maps is another
// model.
func TestEdgeLadder(t *testing.T) {
	dir := checkoutDir(t, "edge", map[string]func(string) string{"e.yaml": edged})
	j := mine(t, dir, "main.py", "--train", "--base", "e.yaml", "--gpus", "0,")
	set := laddersOf(t, j, card(24*unit.GiB))
	if r := find(t, set.Shared, "micro-batch 3 × accumulation 8"); r.Cost != ladder.Numerics {
		t.Errorf("a split that batch normalisation sees costs %v", r.Cost)
	}
	for _, r := range set.Shared.Rungs {
		if strings.Contains(r.Name, "crop") {
			t.Errorf("%s stops at torch.cat", r.Name)
		}
	}
	off := find(t, set.Shared, "micro-batch 1 × accumulation 24, pool of 22, no edge maps")
	r := after(t, j, off.Edits)
	if off.Cost != ladder.Model || truth(r.root, keyEdge, true) || truth(r.root, keyUNetEdge, true) {
		t.Errorf("no edge maps costs %v, and both places are %v and %v", off.Cost, r.root["model"], r.edgeOn())
	}
	all := joined(append(j.Warnings, j.Truths...))
	for _, want := range []string{"the first image log will stop the training", "none of the edge branch's 36 tensors is trained", "commented out in the same commit", "stops with a RuntimeError"} {
		if !strings.Contains(all, want) {
			t.Errorf("nobody says %q:\n%s", want, all)
		}
	}
	at := checkoutDir(t, "edge", map[string]func(string) string{"e.yaml": both(edged, replace("gt_size: 512", "gt_size: 256"))})
	if all := joined(mine(t, at, "main.py", "--train", "--base", "e.yaml", "--gpus", "0,").Warnings); !strings.Contains(all, "edge maps work at 512 only") {
		t.Errorf("nobody says that 256 does not work:\n%s", all)
	}
	apart := checkoutDir(t, "edge", map[string]func(string) string{"e.yaml": both(edged, replace("semb_channels: 256, use_edge_processing: True}", "semb_channels: 256, use_edge_processing: False}"))})
	if all := joined(mine(t, apart, "main.py", "--train", "--base", "e.yaml", "--gpus", "0,").Warnings); !strings.Contains(all, "they must agree") {
		t.Errorf("nobody says that the two places differ:\n%s", all)
	}
}

// A key without a value is spelled as the recipe spells it, in every text that launch shows.
func TestKeyWithoutValue(t *testing.T) {
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"n.yaml": replace("accumulate_grad_batches: 4", "accumulate_grad_batches: ~", "gt_size: 512", "gt_size: null")})
	j := mine(t, dir, "main.py", "--train", "--base", "n.yaml", "--gpus", "0,", "--accumulate_grad_batches", "1")
	all := joined(append(j.Warnings, j.Truths...))
	if !strings.Contains(all, "the recipe says null;") || strings.Contains(all, "<nil>") {
		t.Errorf("it is said:\n%s", all)
	}
	for _, k := range j.Knobs {
		if strings.Contains(k.Value, "<nil>") {
			t.Errorf("%s is %q", k.Name, k.Value)
		}
	}
}

// An edge processor that nobody knows has no formula: its widths are in the code.
func TestUnknownEdgeProcessor(t *testing.T) {
	dir := checkoutDir(t, "edge", map[string]func(string) string{"e.yaml": edged})
	write(t, filepath.Join(dir, "ldm/modules/diffusionmodules/edge_processor.py"), "class EdgeMapProcessor:\n    pass  # 1024 range(5) [512, 256, 64, 16, 4]\n")
	set := laddersOf(t, mine(t, dir, "main.py", "--train", "--base", "e.yaml", "--gpus", "0,"), card(24*unit.GiB))
	if e := set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked); e.Known() {
		t.Errorf("an unknown edge processor is priced at %v", e.Total())
	}
}

// OmegaConf's references are what they name; a batch that is no whole number is none, and nothing is divided by it.
func TestReferences(t *testing.T) {
	of := func(words ...string) *job.Job {
		dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
		return mine(t, dir, append(append([]string{"main.py"}, words...), "--train", "--gpus", "0,", "--base", "r.yaml")...)
	}
	for word, want := range map[string]int64{
		"data.params.batch_size=${bs}": 3, "data.params.batch_size=${ twice }": 3, "data.params.batch_size=${lightning.trainer.accumulate_grad_batches}": 4,
		"data.params.batch_size=${nobody}": 0, "data.params.batch_size=${data}": 0, "data.params.batch_size=${circle}": 0, "data.params.batch_size=${.num_workers}": 0,
		"data.params.batch_size=${oc.env:BS}": 0, "data.params.batch_size=a${bs}": 0, "data.params.batch_size=0": 0, "data.params.batch_size=abc": 0, "data.params.batch_size=2.0": 0, "data.params.batch_size=": 0,
	} {
		j := of(word, "bs=3", "twice=${bs}", "circle=${round}", "round=${circle}")
		if j.Batch.Micro != want {
			t.Errorf("%s: a micro-batch of %d, want %d", word, j.Batch.Micro, want)
		}
		set := laddersOf(t, j, card(24*unit.GiB))
		if e := set.Phases[0].Rungs[0].At(set.Shared.Asked); e.Known() != (want > 0) {
			t.Errorf("%s: %q", word, e.Unknown)
		}
		if split := slices.ContainsFunc(set.Shared.Rungs, func(r ladder.Rung) bool { return strings.HasPrefix(r.Name, "micro-batch 1 ×") }); split != (want > 0) {
			t.Errorf("%s: rungs %+v", word, set.Shared.Rungs)
		}
	}
	// What names the batch changes with it: a smaller one would change more than the plan says, and is not offered.
	set := laddersOf(t, of("data.params.batch_size=3", "data.all=${data}", "also=${data.params.batch_size}"), card(24*unit.GiB))
	if slices.ContainsFunc(set.Shared.Rungs, func(r ladder.Rung) bool { return strings.HasPrefix(r.Name, "micro-batch") }) {
		t.Errorf("rungs %+v", set.Shared.Rungs)
	}
}

// A rung whose change something in the command outranks is left out, and no other: that one kind of edit is taken says nothing of
// another.
func TestChangesThatAreOutranked(t *testing.T) {
	names := func(words ...string) (out []string) {
		dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
		args := append([]string{"main.py", "--train", "--gpus", "0,", "--base", "r.yaml", "--scale_lr", "False"}, words...)
		for _, r := range laddersOf(t, mine(t, dir, args...), card(24*unit.GiB)).Shared.Rungs {
			out = append(out, r.Name)
		}
		return out
	}
	with, without := names(), names("data.params.train.params={queue_size: 180}")
	ofPool := func(name string) bool { return strings.Contains(name, "pool of") }
	if !slices.ContainsFunc(with, ofPool) || slices.ContainsFunc(without, ofPool) || len(without) < 5 {
		t.Errorf("rungs %q; with a pool in a word that says more %q", with, without)
	}
}

// facts 1.2: train_with_edge.py takes one whole file, and neither overrides nor Trainer flags.
func TestTrainWithEdge(t *testing.T) {
	dir := checkoutDir(t, "edge", map[string]func(string) string{"configs/edge.yaml": edged, "my.yaml": both(edged, replace("batch_size: 6 ", "batch_size: 2 "))})
	j := mine(t, dir, "train_with_edge.py", "--gpus", "0,")
	rung := find(t, laddersOf(t, j, card(24*unit.GiB)).Shared, "micro-batch 3 × accumulation 8")
	made, err := j.Rewrite(rung.Edits, "/launch")
	if err != nil || !slices.Equal(made.Command.Args[1:], []string{"train_with_edge.py", "--gpus", "0,", "--config", "/launch/edge.yaml"}) {
		t.Fatalf("with its default recipe the command becomes %q, %v", made.Command.Args, err)
	}
	whole, _ := os.ReadFile(filepath.Join(dir, "configs/edge.yaml"))
	want := strings.NewReplacer("batch_size: 6   # mine", "batch_size: 3   # mine", "accumulate_grad_batches: 4", "accumulate_grad_batches: 8").Replace(string(whole))
	if string(made.Files[0].Text) != want {
		t.Errorf("the copy is\n%s", made.Files[0].Text)
	}
	j = mine(t, dir, "train_with_edge.py", "--config", "my.yaml", "--gpus", "0,")
	if j.Batch.Micro != 2 {
		t.Errorf("--config my.yaml is read as %+v", j.Batch)
	}
	all := joined(append(j.Warnings, j.Truths...))
	for _, want := range []string{"sets PYTORCH_CUDA_ALLOC_CONF to max_split_size_mb:128", "a test of its own, at a batch of 2", "--resume never works", "enable_flash_sdp does nothing"} {
		if !strings.Contains(all, want) {
			t.Errorf("nobody says %q:\n%s", want, all)
		}
	}
	if _, err := recognize(dir, "train_with_edge.py", "--resume", "logs/x"); err == nil || !strings.Contains(err.Error(), `add --name ""`) {
		t.Errorf("the readme's resume: %v", err)
	}
	if all := joined(mine(t, dir, "train_with_edge.py").Warnings); !strings.Contains(all, "--gpus 0 without its comma") {
		t.Errorf("nobody says that its default of --gpus is no GPU:\n%s", all)
	}
	for _, r := range laddersOf(t, j, card(24*unit.GiB)).Shared.Rungs {
		if strings.Contains(r.Name, "expandable") {
			t.Error("expandable segments are offered, and the script overwrites them")
		}
	}
}

// expandable segments are for main.py with a torch that has them, and never where the script overwrites the variable.
func TestExpandableSegments(t *testing.T) {
	venv := filepath.Join(t.TempDir(), "venv")
	write(t, filepath.Join(venv, "lib/python3.11/site-packages/torch/version.py"), "__version__ = '2.4.0'\n")
	write(t, filepath.Join(venv, "bin/python"), "#!/bin/sh\n")
	offered := func(from, script string, args ...string) bool {
		dir := checkoutDir(t, from, map[string]func(string) string{"configs/edge.yaml": edged, "e.yaml": edged})
		j, err := recognizeAs(job.Command{Args: append([]string{filepath.Join(venv, "bin/python"), script}, args...), Dir: dir, Env: env})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(laddersOf(t, j, card(24*unit.GiB)).Shared.Rungs, func(r ladder.Rung) bool { return strings.Contains(r.Name, "expandable") })
	}
	if !offered("edge", "main.py", "--train", "--base", "e.yaml", "--gpus", "0,") {
		t.Skip("this machine's kernel has no expandable segments to offer")
	}
	if offered("edge", "train_with_edge.py", "--gpus", "0,") {
		t.Error("offered to a script that overwrites the allocator's settings")
	}
}

// facts 1.2: the fixed variant fails at 90 % of the card.
func TestMemoryFraction(t *testing.T) {
	dir := checkoutDir(t, "edge", map[string]func(string) string{"configs/edge.yaml": edged})
	j := mine(t, dir, "train_with_edge_fixed.py", "--gpus", "0,")
	if all := joined(j.Warnings); !strings.Contains(all, "lets PyTorch take only 0.9 of the card") {
		t.Errorf("nobody says that the card is made smaller:\n%s", all)
	}
	set := laddersOf(t, j, card(40*unit.GiB))
	for _, it := range set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked).Items {
		if it.What == "the script's limit" {
			if got := float64(it.Bytes) / (1 << 30); got < 3.9 || got > 4.1 {
				t.Errorf("a tenth of 40 GiB is %v", it.Bytes)
			}
			return
		}
	}
	t.Error("the limit is no line of the estimate")
}

// facts 4: a retry drops the name, keeps --base and --train, and goes on from the last.ckpt that the dying run wrote.
func TestResume(t *testing.T) {
	state := "/w/logs/2026-01-01T00-00-00_x/checkpoints/last.ckpt"
	with := func(edits []config.Edit) []config.Edit {
		out := slices.Clone(edits)
		for i := range out {
			out[i].To = strings.ReplaceAll(out[i].To, job.SavedPath, state)
		}
		return out
	}
	for name, tt := range map[string]struct {
		from       string
		args, want []string
	}{
		"with a name":             {"checkout", []string{"main.py", "--train", "--base", "r.yaml", "--name", "x", "--gpus", "0,"}, []string{"main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--resume", state}},
		"-n joined":               {"checkout", []string{"main.py", "-nx", "--train", "--base", "r.yaml"}, []string{"main.py", "--train", "--base", "r.yaml", "--resume", state}},
		"without a name":          {"checkout", []string{"main.py", "--train", "--base", "r.yaml"}, []string{"main.py", "--train", "--base", "r.yaml", "--resume", state}},
		"train_with_edge":         {"edge", []string{"train_with_edge.py", "--gpus", "0,"}, []string{"train_with_edge.py", "--gpus", "0,", "--name=", "--resume", state}},
		"train_with_edge, named":  {"edge", []string{"train_with_edge.py", "--name", "mine"}, []string{"train_with_edge.py", "--name", "", "--resume", state}},
		"train_with_edge, no one": {"edge", []string{"train_with_edge.py", "--name", ""}, []string{"train_with_edge.py", "--name", "", "--resume", state}},
	} {
		j := mine(t, checkoutDir(t, tt.from, map[string]func(string) string{"r.yaml": nil, "configs/edge.yaml": edged}), tt.args...)
		made, err := j.Rewrite(with(j.Resume.Edits), "/launch")
		if err != nil || !slices.Equal(made.Command.Args[1:], tt.want) {
			t.Errorf("%s: the command becomes %q (%v), want %q", name, made.Command.Args[1:], err, tt.want)
		}
	}
}

// facts 3 and 4: the configurations that a run has saved stand below --base, so that the overlay outranks an old
// micro-batch again on every attempt; what the user resumes is read the same way.
func TestResumeMerges(t *testing.T) {
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
	run := "logs/2026-01-01T00-00-00_x"
	whole, _ := os.ReadFile(filepath.Join(dir, "r.yaml"))
	write(t, filepath.Join(dir, run, "configs/2026-01-01T00-00-00-project.yaml"), replace("batch_size: 6 ", "batch_size: 12 ")(string(whole)))
	write(t, filepath.Join(dir, run, "configs/2026-01-02T00-00-00-lightning.yaml"), "lightning: {trainer: {accumulate_grad_batches: 9}}\n")
	write(t, filepath.Join(dir, run, "checkpoints/last.ckpt"), "x")
	j := mine(t, dir, "main.py", "--train", "--resume", run, "--gpus", "0,")
	if j.Batch.Micro != 12 || j.Batch.Accumulation != 9 || j.Name != "2026-01-01T00-00-00_x" {
		t.Errorf("the saved configurations are read as %+v", j)
	}
	if want := run + "/checkpoints/last.ckpt"; j.Signs.States[0] != want || j.Exclusive != filepath.Join(dir, run) {
		t.Errorf("its states are %q, exclusive %s; want %s", j.Signs.States, j.Exclusive, want)
	}
	j = mine(t, dir, "main.py", "--train", "--base", "r.yaml", "--resume", run+"/checkpoints/last.ckpt", "--gpus", "0,")
	if j.Batch.Micro != 6 || j.Batch.Accumulation != 4 {
		t.Errorf("--base does not outrank what was saved: %+v", j.Batch)
	}
	rung := find(t, laddersOf(t, j, card(24*unit.GiB)).Shared, "micro-batch 3 × accumulation 8")
	if r := after(t, j, rung.Edits); r.micro != 3 || r.accum != 8 {
		t.Errorf("the overlay does not outrank what was saved: %d × %d", r.micro, r.accum)
	}
	if j.Rehearsal.None == "" {
		t.Error("a run that goes on is rehearsed in its own folder")
	}
}

// facts 4: the disk that saved states take, from the free space of the log folder.
func TestDisk(t *testing.T) {
	r, err := readCommand(stock(t).Command)
	if err != nil {
		t.Fatal(err)
	}
	if size := r.stateSize(); size < 6100*unit.MiB || size > 6300*unit.MiB {
		t.Errorf("a last.ckpt takes %v, want 6.04 GiB", size)
	}
	if free, at := freeSpace(filepath.Join(t.TempDir(), "not", "there")); free <= 0 || at == "" {
		t.Errorf("%v free at %q", free, at)
	}
}

// Knobs that nothing reads are reported, and never turned.
func TestDeadKnobs(t *testing.T) {
	j := stock(t)
	dead := map[string]bool{}
	for _, k := range j.Knobs {
		dead[k.At.Path] = k.Dead != ""
	}
	for path, want := range map[string]bool{
		keyMicro: false, keyAccum: false, keyQueue: false, keyStructCkpt: false, keyUNetCkpt: true, keyGTSize: false,
		"data.params.train.params.gt_size": true, "model.params.unet_config.params.image_size": true, keyImages + ".max_images": true,
	} {
		if got, ok := dead[path]; !ok || got != want {
			t.Errorf("%s: dead %v (listed %v), want %v", path, got, ok, want)
		}
	}
	for _, r := range laddersOf(t, j, card(10*unit.GiB)).Shared.Rungs {
		for _, e := range r.Edits {
			if dead[e.At.Path] {
				t.Errorf("%s turns %s, which nothing reads", r.Name, e.At.Path)
			}
		}
	}
}

// A rehearsal writes into launch's folder, ends by itself, and is taken by the program as it is meant.
func TestRehearsal(t *testing.T) {
	j := stock(t, "--max_steps", "1000")
	if j.Rehearsal.None != "" {
		t.Fatal(j.Rehearsal.None)
	}
	r := after(t, j, j.Rehearsal.Edits)
	if dir, _ := r.argv.Get("--logdir"); dir != job.Scratch {
		t.Errorf("it writes into %q", dir)
	}
	if n, _ := integer(r.root, trainerKey+"max_steps"); n != 24 {
		t.Errorf("it makes at most %d steps", n)
	}
	if off, _ := get(r.root, keyImages+".disabled"); off != true || r.micro != 6 {
		t.Errorf("images are off: %v, micro-batch %d", off, r.micro)
	}
	edge := mine(t, checkoutDir(t, "edge", map[string]func(string) string{"configs/edge.yaml": edged}), "train_with_edge.py")
	if edge.Rehearsal.None == "" {
		t.Error("train_with_edge.py has no option for its log folder, and is rehearsed")
	}
}

// facts 9: what the guide says wrongly, only where the job is concerned.
func TestTruths(t *testing.T) {
	if got := stock(t).Truths; len(got) > 0 {
		t.Errorf("StableSR itself is told %q", got)
	}
	guide := both(edged, replace("batch_size: 6 ", "batch_size: 2 ", "accumulate_grad_batches: 4", "accumulate_grad_batches: 6", "context_dim: 1024, use_checkpoint: False", "context_dim: 1024, use_checkpoint: True"))
	all := joined(mine(t, checkoutDir(t, "edge", map[string]func(string) string{"configs/edge.yaml": guide}), "train_with_edge.py", "--gpus", "0,").Truths)
	for _, want := range []string{"6 × 4 is 24", "36 tensors", "commented out", "RuntimeError", "16.6 GiB", "sanity check", "on the new class", "enable_flash_sdp", "never works"} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%q is said %d times:\n%s", want, strings.Count(all, want), all)
		}
	}
}

// What has no formula is unknown, and the ladder is there all the same.
func TestUnknown(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"another UNet":  replace("openaimodel.UNetModelDualcondV2", "mine.UNet"),
		"another model": replace("ddpm.LatentDiffusionSRTextWT", "ddpm.MyOwn"),
		"a ControlNet":  replace("    image_size: 512\n", "    image_size: 512\n    use_hq_canny_cond: True\n"),
		// a first stage's resolution is none of the data set's
		"no size": replace("  gt_size: 512\ndata", "  other: 1\ndata", "        crop_size: 512\n", ""),
	} {
		j := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": edit}), "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
		set := laddersOf(t, j, card(24*unit.GiB))
		if e := set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked); e.Known() {
			t.Errorf("%s: estimated at %v", name, e.Total())
		}
		find(t, set.Shared, "micro-batch 3 × accumulation 8")
	}
}

// Plain latent-diffusion: the whole UNet is trained, its checkpointing works, and the learning rate is scaled by default.
func TestLatentDiffusion(t *testing.T) {
	ldm := replace("ddpm.LatentDiffusionSRTextWT", "ddpm.LatentDiffusion", "openaimodel.UNetModelDualcondV2", "openaimodel.UNetModel", "gt_size: 512\ndata", "other: 1\ndata")
	structcond := regexp.MustCompile(`(?m)^    structcond_stage_config:\n(?:      .*\n)*`)
	plain := func(s string) string { return structcond.ReplaceAllString(ldm(s), "") }
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": plain})
	main, _ := os.ReadFile(filepath.Join(dir, "main.py"))
	write(t, filepath.Join(dir, "main.py"), strings.Replace(string(main), `const=True, default=False)`, `const=True, default=True)`, 1))
	j := mine(t, dir, "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
	if j.Dialect != "latent-diffusion" || !strings.Contains(joined(j.Warnings), "the learning rate is scaled") {
		t.Errorf("%s, %q", j.Dialect, j.Warnings)
	}
	set := laddersOf(t, j, card(80*unit.GiB))
	e := set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked)
	var adam unit.Bytes
	for _, it := range e.Items {
		if it.Kind == mem.Optimizer {
			adam += it.Bytes
		}
	}
	if !e.Known() || adam < 6*unit.GiB {
		t.Errorf("%v, Adam %v (%s)", e.Total(), adam, e.Unknown)
	}
	l := set.Ladder(images)
	if l == nil {
		t.Fatal("there is no image log")
	}
	if e := l.Rungs[0].At(set.Shared.Asked); !e.Known() || e.Of(mem.Transients) < unit.GiB {
		t.Errorf("image logging: %v of transients (%s)", e.Of(mem.Transients), e.Unknown)
	}
}

// On a CPU nothing of CUDA is counted.
func TestHost(t *testing.T) {
	set := laddersOf(t, stock(t), gpu.Device{Kind: gpu.CPU, Total: 32 * unit.GiB})
	for _, it := range set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked).Items {
		if it.Kind == mem.Context || it.Kind == mem.Slack || it.What == "DDP buckets" {
			t.Errorf("on a CPU there is %+v", it)
		}
	}
}

// What takes nothing of the card is not fitted to it.
func TestIdleCard(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		idle bool
	}{
		"trains on a card":       {[]string{"--train", "--gpus", "0,"}, false},
		"--train said in a word": {[]string{"--train", "True", "--gpus", "0,"}, false},
		"no --gpus":              {[]string{"--train"}, true},
		"the number 0":           {[]string{"--train", "--gpus", "0"}, true},
		"no --train":             {[]string{"--gpus", "0,"}, true},
		"--train False":          {[]string{"--train", "False", "--gpus", "0,"}, true},
	} {
		j := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil}), append([]string{"main.py", "--base", "r.yaml"}, tt.args...)...)
		set := laddersOf(t, j, card(24*unit.GiB))
		e := set.Phases[0].Rungs[0].At(set.Shared.Asked)
		if untouched := len(set.Shared.Rungs) == 1 && !e.Known(); untouched != tt.idle {
			t.Errorf("%s: left alone: %v, want %v (%d rungs; unknown because %q)", name, untouched, tt.idle, len(set.Shared.Rungs), e.Unknown)
		}
	}
}

// secondStage is a recipe of the controllable feature wrapping, with the sizes of upstream's.
const secondStage = `model:
  base_learning_rate: 5.0e-5
  target: ldm.models.autoencoder.AutoencoderKLResi
  params:
    embed_dim: 4
    freeze_dec: True
    lossconfig:
      target: ldm.modules.losses.LPIPSWithDiscriminator
      params: {disc_start: 501, kl_weight: 0, disc_weight: 0.025, disc_factor: 1.0}
    ddconfig: {double_z: true, z_channels: 4, resolution: 512, in_channels: 3, out_ch: 3, ch: 128, ch_mult: [1, 2, 4, 4], num_res_blocks: 2, attn_resolutions: [], dropout: 0.0}
data:
  params:
    batch_size: 2
    num_workers: 6
    train: {target: basicsr.data.single_image_dataset.SingleImageNPDataset}
    validation: {target: basicsr.data.single_image_dataset.SingleImageNPDataset}
lightning:
  trainer: {accumulate_grad_batches: 4}
`

// The second stage is priced in every phase, and dividing its batch otherwise is another experiment: its loss says so.
func TestSecondStage(t *testing.T) {
	dir := checkoutDir(t, "checkout", nil)
	write(t, filepath.Join(dir, "r.yaml"), secondStage)
	j := mine(t, dir, "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
	set := laddersOf(t, j, card(24*unit.GiB))
	for _, phase := range []string{ladder.Training, ladder.Validation, images} {
		l := set.Ladder(phase)
		if l == nil {
			t.Fatalf("%s has no ladder", phase)
		}
		if e := l.Rungs[0].At(set.Shared.Asked); !e.Known() || e.Total() < unit.GiB {
			t.Errorf("%s: %v, %s", phase, e.Total(), e.Unknown)
		}
	}
	if r := find(t, set.Shared, "micro-batch 1 × accumulation 8"); r.Cost != ladder.Recipe {
		t.Errorf("a division of the batch costs %v", r.Cost)
	}
}
