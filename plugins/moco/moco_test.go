package moco

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// ladders prices a job on a card of that size.
func ladders(t *testing.T, j *job.Job, vram unit.Bytes) *ladder.Set {
	t.Helper()
	return plugintest.Ladders(t, New(), j.Command, gpu.Device{Kind: gpu.CUDA, Total: vram})
}

func training(t *testing.T, set *ladder.Set) ladder.Ladder {
	t.Helper()
	l := set.Ladder(ladder.Training)
	if l == nil {
		t.Fatal("no ladder of the training")
	}
	return *l
}

// fill is what --fill would take.
func fill(t *testing.T, set *ladder.Set, room unit.Bytes, allow ladder.Cost) ladder.Rung {
	t.Helper()
	l := training(t, set)
	p, ok := l.Fit(ladder.Query{From: 0, Room: room, Allow: allow})
	if !ok {
		t.Fatal("nothing is allowed")
	}
	return l.Rungs[p.Rung]
}

func to(r ladder.Rung, knob string) string {
	for _, e := range r.Edits {
		if e.Knob == knob {
			return e.To
		}
	}
	return ""
}

var distributed = []string{"--multiprocessing-distributed", "--world-size", "1", "--rank", "0"}

func with(script string, args ...string) []string {
	return slices.Concat([]string{script}, distributed, args)
}

// The batch that a command says is divided by the worker, each project in its own way (facts: batch semantics).
func TestBatchIsATotal(t *testing.T) {
	solar, v2, v3 := checkout(t, "solar", nil), checkout(t, "v2", nil), checkout(t, "v3", nil)
	for _, r := range []struct {
		name                string
		c                   job.Command
		micro, accum, ranks int64
		warns               string
	}{
		{"solar on two GPUs", asked(solar, 2, with("main.py")...), 32, 4, 2, ""},
		{"solar on one GPU without the flag", asked(solar, 2, "main.py"), 64, 4, 1, ""},
		{"solar on three", asked(solar, 3, with("main.py")...), 21, 4, 3, "64 is no multiple of 3"},
		{"v2 divides by the node's GPUs", asked(v2, 8, with("main_moco.py", "-b", "256", "data")...), 32, 1, 8, ""},
		{"v2 on two nodes", asked(v2, 8, "main_moco.py", "--multiprocessing-distributed", "--world-size", "2", "data"), 32, 1, 16, ""},
		{"v3 divides by all processes", asked(v3, 8, "main_moco.py", "--multiprocessing-distributed", "--world-size", "2", "data"), 256, 1, 16, ""},
		{"int() truncates", asked(v2, 8, with("main_moco.py", "-b100", "data")...), 12, 1, 8, "an optimizer step sees 96 images"},
		{"the long spelling", asked(v2, 2, with("main_moco.py", "--batch-size=64", "data")...), 32, 1, 2, ""},
		{"a shortened spelling", asked(v2, 2, with("main_moco.py", "--batch", "32", "data")...), 16, 1, 2, ""},
		{"the last one counts", asked(v2, 2, with("main_moco.py", "-b", "256", "data", "-b", "128")...), 64, 1, 2, ""},
	} {
		j := mine(t, r.c)
		if want := (job.Batch{Micro: r.micro, Accumulation: r.accum, Ranks: r.ranks}); j.Batch != want {
			t.Errorf("%s: batch %+v, want %+v", r.name, j.Batch, want)
		}
		if r.warns != "" && !says(j.Warnings, r.warns) || r.warns == "" && says(j.Warnings, "multiple") {
			t.Errorf("%s: warns %q, want %q", r.name, j.Warnings, r.warns)
		}
	}
}

// What torchrun does not take it stops at, before the trainer runs.
func TestLauncherRefuses(t *testing.T) {
	c := asked(checkout(t, "solar", nil), 2, "main.py")
	c.Args = []string{"torchrun", "--nproc_per_node", "two", "main.py"}
	if j := mine(t, c); !says(j.Warnings, "torchrun will stop before it starts anything: --nproc_per_node is two") {
		t.Errorf("warned of %q", j.Warnings)
	}
}

// Around a script that starts its own processes, or joins none, torchrun is no help, and the sum of a step is each one's.
func TestLaunchedFromOutside(t *testing.T) {
	solar := checkout(t, "solar", nil)
	const alone, again, one = "each trains everything by itself on GPU 0", "each of them starts one for every GPU once more", "this is one process on one GPU"
	for _, tt := range []struct {
		args               []string
		warns, never, says string
	}{
		{[]string{"torchrun", "--nproc_per_node", "2", "main.py"}, "torchrun starts 2 processes, and without --multiprocessing-distributed nothing joins them", again, "torchrun starts 2 processes, all on one GPU and without exchanging gradients, so it is 256 in each of them"},
		{[]string{"torchrun", "--nproc_per_node", "gpu", "main.py"}, "torchrun starts a process for each GPU, and", again, "torchrun starts a process for each GPU, all on one GPU"},
		{append([]string{"torchrun", "--nproc_per_node", "2"}, with("main.py")...), again, alone, "divides the batch by the number of GPUs"},
		{[]string{"torchrun", "main.py"}, "", alone, one},
		{[]string{"python", "main.py"}, "", alone, one},
	} {
		c := asked(solar, 0, "main.py")
		c.Args = tt.args
		if c.Args[0] == "torchrun" && slices.Contains(c.Args, "--multiprocessing-distributed") {
			c.Devices = 2
		}
		j := mine(t, c)
		if tt.warns != "" && !says(j.Warnings, tt.warns) || says(j.Warnings, tt.never) || tt.warns == "" && says(j.Warnings, again) {
			t.Errorf("%q: warns %q, want %q and never %q", tt.args, j.Warnings, tt.warns, tt.never)
		}
		if !says(j.Truths, tt.says) || tt.says != one && says(j.Truths, one) {
			t.Errorf("%q: says %q, want %q", tt.args, j.Truths, tt.says)
		}
	}
}

// Processes that nothing joins stand on one card, and it has to hold them all.
func TestCrowd(t *testing.T) {
	solar := checkout(t, "solar", nil)
	price := func(args ...string) (mem.Estimate, *job.Job) {
		c := asked(solar, 2, "main.py")
		c.Args = args
		j := mine(t, c)
		l := training(t, ladders(t, j, 80*unit.GiB))
		return l.Rungs[l.Asked].At(0), j
	}
	one, _ := price("python", "main.py")
	three, j := price("torchrun", "--nproc_per_node", "3", "main.py")
	if three.Total() != 3*one.Total() || three.Certain() != one.Certain() || !says(j.Warnings, "it is planned for all of them") {
		t.Errorf("three need %v (%v for certain), one %v (%v); warns %q", three.Total(), three.Certain(), one.Total(), one.Certain(), j.Warnings)
	}
}

// Visible GPUs decide the batch of each: what launch says, else CUDA_VISIBLE_DEVICES, else it is not known.
func TestNumberOfGPUs(t *testing.T) {
	solar := checkout(t, "solar", nil)
	for _, r := range []struct {
		gpus    int
		env     string
		args    []string
		micro   int64
		unknown bool
	}{
		{4, "CUDA_VISIBLE_DEVICES=0,1", []string{"python"}, 16, false},
		{-1, "CUDA_VISIBLE_DEVICES=0,1", []string{"python"}, 32, false},
		{-1, "", []string{"env", "CUDA_VISIBLE_DEVICES=2", "python"}, 64, false},
		{-1, "CUDA_VISIBLE_DEVICES=1,-1,0", []string{"python"}, 64, false},
		{-1, "", []string{"python"}, 0, true},
	} {
		c := asked(solar, r.gpus, with("main.py")...)
		c.Args = append(slices.Clone(r.args), c.Args[1:]...)
		if r.env != "" {
			c.Env = append(c.Env, r.env)
		}
		j := mine(t, c)
		if j.Batch.Micro != r.micro {
			t.Errorf("%d, %q: micro-batch %d, want %d", r.gpus, r.env, j.Batch.Micro, r.micro)
		}
		e := training(t, ladders(t, j, 24*unit.GiB)).Rungs[0].At(0)
		if e.Known() == r.unknown {
			t.Errorf("%d, %q: estimate known is %v: %s", r.gpus, r.env, e.Known(), e.Unknown)
		}
	}
}

// mp.spawn of no processes returns: exit 0, and nothing was trained.
func TestNoVisibleGPU(t *testing.T) {
	for _, name := range []string{"solar", "v2"} {
		script := map[string][]string{"solar": with("main.py"), "v2": with("main_moco.py", "data")}[name]
		c := asked(checkout(t, name, nil), -1, script...)
		c.Env = append(c.Env, "CUDA_VISIBLE_DEVICES=")
		j := mine(t, c)
		if !says(j.Warnings, "would exit 0 without training") {
			t.Errorf("%s: warns %q", name, j.Warnings)
		}
		if !j.Signs.MustSucceed {
			t.Errorf("%s: an exit of 0 is a success", name)
		}
	}
}

func TestDialects(t *testing.T) {
	for name, r := range map[string]struct{ script, dialect, arch string }{
		"v2":        {"main_moco.py", "facebookresearch/moco", "resnet50"},
		"v3":        {"main_moco.py", "facebookresearch/moco-v3", "resnet50"},
		"solar":     {"main.py", "solar-ssl/moco-v3", "resnet50"},
		"solar_k2":  {"main.py", "solar-ssl/moco-v3", "resnet50"},
		"solar_exp": {"main.py", "solar-ssl/moco-v3", "resnet50"},
	} {
		dir := checkout(t, name, nil)
		j := mine(t, asked(dir, 2, with(r.script)...))
		if j.Dialect != r.dialect || j.Arch != r.arch {
			t.Errorf("%s: recognised as %s, %s", name, j.Dialect, j.Arch)
		}
	}
	dir := checkout(t, "solar", nil)
	j := mine(t, asked(dir, 2, slices.Concat([]string{"-m", "src.training.train_moco"}, distributed)...))
	if j.Batch.Micro != 32 || j.Name != "config_low" {
		t.Errorf("the trainer as a module: %+v of %s", j.Batch, j.Name)
	}
}

func TestOthersCommands(t *testing.T) {
	dir := checkout(t, "v2", map[string][]string{"main_moco.py": {"--moco-", "--other-"}})
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "main.py"), []byte("print('hello')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []job.Command{
		asked(dir, 1, "main_moco.py", "data"), asked(other, 1, "main.py"), asked(other, 1, "missing.py"),
		{Args: []string{"make", "train"}, Dir: other, Devices: 1},
	} {
		if _, err := recognize(t, c); !errors.Is(err, plugin.ErrNotMine) {
			t.Errorf("%v: %v", c.Args, err)
		}
	}
}

// The settings that are live stand in the trainer's import, never in a file's name.
func TestImportChain(t *testing.T) {
	dir := checkout(t, "solar", map[string][]string{"src/training/train_moco.py": {"src.config_low", "src.config_sixteen"}})
	j := mine(t, asked(dir, 2, with("main.py")...))
	if j.Name != "config_sixteen" || j.Batch.Global() != 384 {
		t.Errorf("read %s, global batch %d", j.Name, j.Batch.Global())
	}
	at := map[string]string{}
	for _, k := range j.Knobs {
		at[k.Name] = filepath.Base(k.At.Doc) + " " + k.At.Path
	}
	for name, want := range map[string]string{ // what the class does not say, its base in the other file does
		job.MicroBatch: "config_sixteen.py Config.batch_size", job.Accumulation: "config_low.py Config.gradient_accumulation_steps",
		knobQueue: "config_sixteen.py Config.queue_size", knobCrop: "config_low.py Config.image_size",
	} {
		if at[name] != want {
			t.Errorf("%s stands at %s, want %s", name, at[name], want)
		}
	}

	// Through a package that hands the name on.
	dir = checkout(t, "solar", map[string][]string{"src/training/train_moco.py": {"from src.config_low import Config", "from src import Config"}})
	if err := os.WriteFile(filepath.Join(dir, "src/__init__.py"), []byte("from .config_low import Config\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if j := mine(t, asked(dir, 2, with("main.py")...)); j.Name != "config_low" || j.Batch.Micro != 32 {
		t.Errorf("through a package: %s, %+v", j.Name, j.Batch)
	}
}

// An edit of the settings is placed in the file where they stand, and nowhere else.
func TestEditsOfSettings(t *testing.T) {
	dir := checkout(t, "solar", map[string][]string{"src/training/train_moco.py": {"src.config_low", "src.config_sixteen"}})
	j := mine(t, asked(dir, 2, with("main.py")...))
	l := training(t, ladders(t, j, 24*unit.GiB))
	i := slices.IndexFunc(l.Rungs, func(r ladder.Rung) bool { return r.Name == "batch 48 × accumulation 8" })
	if i < 0 {
		t.Fatalf("no such rung")
	}
	out, err := j.Rewrite(l.Rungs[i].Edits, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, f := range out.Files {
		text[filepath.Base(f.Path)] = string(f.Text)
	}
	if len(text) != 2 || !strings.Contains(text["config_sixteen.py"], "batch_size: int = 48\n") ||
		!strings.Contains(text["config_low.py"], "gradient_accumulation_steps: int = 8\n") {
		t.Errorf("edited %v", text)
	}
}

func TestUnreadSettings(t *testing.T) {
	dir := checkout(t, "solar", nil)
	c := asked(dir, 2, with("main.py")...)
	for _, name := range []string{"main.py", "src/training/train_moco.py", "src/config_low.py"} {
		src := pythonSource(t, filepath.Join(dir, name))
		if strings.Contains(name, "config") {
			src = config.PythonSource{Path: src.Path, Problem: "it is no Python"}
		}
		c.Sources = append(c.Sources, src)
	}
	j := mine(t, c)
	if !says(j.Warnings, "nothing in it is changed") {
		t.Errorf("warns %q", j.Warnings)
	}
	if l := training(t, ladders(t, j, 8*unit.GiB)); len(l.Rungs) != 1 || l.Rungs[0].At(0).Known() {
		t.Errorf("rungs %+v", l.Rungs)
	}
}

// The old settings lack what today's trainer reads: it would stop with an AttributeError.
func TestMissingSettings(t *testing.T) {
	dir := checkout(t, "solar", map[string][]string{"src/training/train_moco.py": {"src.config_low", "src.config"}})
	j := mine(t, asked(dir, 2, with("main.py")...))
	if !says(j.Warnings, "config.py has no use_amp, use_queue, gradient_accumulation_steps, which train_moco.py:") {
		t.Errorf("warns %q", j.Warnings)
	}
	if says(j.Warnings, "queue_size") || says(j.Warnings, "print_vram_estimate") {
		t.Errorf("what is guarded by hasattr is said to be missing: %q", j.Warnings)
	}
}

// Queue length and global batch, exactly where the code asserts it.
func TestQueueInvariant(t *testing.T) {
	has := func(set *ladder.Set) bool {
		return slices.ContainsFunc(set.Invariants, func(in ladder.Invariant) bool { return in.Name == "queue" })
	}
	for name, want := range map[string]bool{"v2": true, "solar_k2": true, "solar": false, "solar_exp": false, "v3": false} {
		script := "main.py"
		if name[0] == 'v' {
			script = "main_moco.py"
		}
		j := mine(t, asked(checkout(t, name, nil), 2, with(script)...))
		set := ladders(t, j, 24*unit.GiB)
		if has(set) != want {
			t.Errorf("%s: the queue binds: %v", name, !want)
		}
		if !want {
			continue
		}
		for _, r := range training(t, set).Rungs { // by all ranks, not by one
			v := set.ValuesAt(0, map[string]int{})
			for k, x := range r.Values {
				v[k] = x
			}
			if v[knobQueue]%(v[job.MicroBatch]*j.Batch.Ranks) != 0 {
				t.Errorf("%s: rung %q: %d keys a step and a queue of %d", name, r.Name, v[job.MicroBatch]*j.Batch.Ranks, v[knobQueue])
			}
		}
	}
	// A job that would fail the assert itself is no ladder's fault, and is said, with the batches that would not. It is said
	// of the job as asked: the rungs keep to the queue.
	for _, tt := range []struct{ batch, k, says string }{
		{"96", "65536", "as asked a step enqueues 96 keys, and builder.py:5 asserts that they divide the queue of 65536: it would stop at the first step; a batch of 64 or of 128 would not"},
		{"192", "64", "a batch of 64 would not"},
		{"64", "63", "no batch of 2 processes divides it"},
	} {
		j := mine(t, asked(checkout(t, "v2", nil), 2, with("main_moco.py", "-b", tt.batch, "--moco-k", tt.k, "data")...))
		if !says(j.Warnings, tt.says) {
			t.Errorf("a batch of %s, a queue of %s: warns %q, want %q", tt.batch, tt.k, j.Warnings, tt.says)
		}
		ladders(t, j, 24*unit.GiB)
	}
}

// With --allow recipe half as much again, 96, comes with a queue that divides where the code asserts it.
func TestFillBeyondTheGlobalBatch(t *testing.T) {
	for name, queue := range map[string]string{"solar": "", "solar_k2": "65568"} {
		j := mine(t, asked(checkout(t, name, nil), 2, with("main.py")...))
		l := training(t, ladders(t, j, 24*unit.GiB))
		i := slices.IndexFunc(l.Rungs, func(r ladder.Rung) bool { return to(r, job.MicroBatch) == "96" })
		if i < 0 || l.Rungs[i].Cost != ladder.Recipe || to(l.Rungs[i], knobQueue) != queue || to(l.Rungs[i], knobRate) != "0.09" {
			t.Errorf("%s: rung %d of %+v", name, i, l.Rungs)
		}
	}
	// Where a run can be gone on with, its queue is in the state, so its length stays.
	j := mine(t, asked(checkout(t, "v2", nil), 2, with("main_moco.py", "-b", "64", "data")...))
	for _, r := range training(t, ladders(t, j, 80*unit.GiB)).Rungs {
		if to(r, knobQueue) != "" || to(r, job.MicroBatch) == "96" {
			t.Errorf("v2: rung %q changes the queue", r.Name)
		}
	}
}

// The satellite project on two cards of 8 GiB: issue 3.
func TestSatelliteProject(t *testing.T) {
	dir := checkout(t, "solar", nil)
	j := mine(t, asked(dir, 2, with("main.py")...))
	if j.Batch.Global() != 256 || j.Batch.Micro != 32 {
		t.Errorf("global batch %d, %d a GPU", j.Batch.Global(), j.Batch.Micro)
	}
	set := ladders(t, j, 8*unit.GiB)
	l := training(t, set)
	near := func(e mem.Estimate, want float64) {
		t.Helper()
		if got := float64(e.Total()) / float64(unit.GiB); !e.Known() || math.Abs(got-want)/want > 0.03 {
			t.Errorf("%.2f GiB used, want about %.1f", got, want)
		}
	}
	near(l.Rungs[l.Asked].At(0), 4.6) // what the project's authors measured
	if r := fill(t, set, 8*unit.GiB, ladder.Metrics); to(r, job.MicroBatch) != "128" || to(r, job.Accumulation) != "2" || r.Cost != ladder.Numerics {
		t.Errorf("filling takes %q, cost %v", r.Name, r.Cost)
	}
	one := mine(t, asked(dir, 1, "main.py"))
	l = training(t, ladders(t, one, 8*unit.GiB))
	near(l.Rungs[l.Asked].At(0), 7.1)
}

// At the same global batch a smaller micro-batch is another batch normalisation and another momentum of the keys.
func TestSplitCostsNumerics(t *testing.T) {
	j := mine(t, asked(checkout(t, "solar", nil), 2, with("main.py")...))
	l := training(t, ladders(t, j, 8*unit.GiB))
	for i, r := range l.Rungs {
		if r.Cost >= ladder.Recipe || i == l.Asked {
			continue
		}
		if r.Cost != ladder.Numerics || r.Values[job.MicroBatch]*r.Values[job.Accumulation]*2 != 256 || !strings.Contains(r.Edits[0].Why, "momentum encoder") {
			t.Errorf("rung %q: cost %v, values %v, because %s", r.Name, r.Cost, r.Values, r.Edits[0].Why)
		}
		if n := r.Values[job.MicroBatch]; n < 2 {
			t.Errorf("rung %q: BatchNorm1d of %d image", r.Name, n)
		}
		if total, _ := strconv.Atoi(to(r, job.MicroBatch)); total%2 != 0 {
			t.Errorf("rung %q: %d on 2 GPUs", r.Name, total)
		}
	}
}

// Smaller crops are for networks that take them; torchvision's transformers assert 224.
func TestCrops(t *testing.T) {
	for backbone, want := range map[string]int{"resnet50": 3, "vit_base": 0} {
		dir := checkout(t, "solar", map[string][]string{"src/config_low.py": {`backbone: str = "resnet50"`, `backbone: str = "` + backbone + `"`}})
		l := training(t, ladders(t, mine(t, asked(dir, 2, with("main.py")...)), 24*unit.GiB))
		n := 0
		for _, r := range l.Rungs {
			if to(r, knobCrop) != "" {
				n++
				if r.Cost != ladder.Recipe {
					t.Errorf("%q costs %v", r.Name, r.Cost)
				}
			}
		}
		if n != want {
			t.Errorf("%s: %d rungs with smaller crops, want %d", backbone, n, want)
		}
	}
}

// moco's -b and --lr halve together; moco-v3 scales its own rate.
func TestLearningRateRules(t *testing.T) {
	for name, rate := range map[string]string{"v2": "0.015", "v3": ""} {
		j := mine(t, asked(checkout(t, name, nil), 8, with("main_moco.py", "-b", "1024", "data")...))
		l := training(t, ladders(t, j, 24*unit.GiB))
		r := l.Rungs[l.Asked+1]
		if to(r, job.MicroBatch) != "512" || to(r, knobRate) != rate || r.Cost != ladder.Recipe {
			t.Errorf("%s: %+v costs %v", name, r.Edits, r.Cost)
		}
		out, err := j.Rewrite(r.Edits, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(out.Command.Args, "512") || slices.Contains(out.Command.Args, "1024") {
			t.Errorf("%s: runs %v", name, out.Command.Args)
		}
		if name == "v3" && !strings.Contains(r.Edits[0].Why, "negatives") {
			t.Errorf("v3 does not say that its negatives become fewer: %s", r.Edits[0].Why)
		}
	}
}

// Knobs that nothing reads are said and never turned, and neither are those that save nothing.
func TestDeadKnobs(t *testing.T) {
	j := mine(t, asked(checkout(t, "solar", nil), 2, with("main.py")...))
	dead := map[string]bool{}
	for _, k := range j.Knobs {
		dead[k.Name] = k.Dead != ""
	}
	if !dead[knobCheckpointing] || dead[job.Accumulation] || dead[knobAMP] {
		t.Errorf("dead knobs %v", dead)
	}
	if !says(j.Truths, "use_grad_checkpointing does nothing") || !says(j.Truths, "config_low.py:26") {
		t.Errorf("truths %q", j.Truths)
	}
	k2 := mine(t, asked(checkout(t, "solar_k2", nil), 2, with("main.py")...))
	if !says(k2.Truths, "gradient_accumulation_steps does nothing here") || k2.Batch.Global() != 64 {
		t.Errorf("the earlier state accumulates: %+v, %q", k2.Batch, k2.Truths)
	}
	for _, j := range []*job.Job{j, k2} {
		set := ladders(t, j, 3*unit.GiB)
		for _, l := range append([]ladder.Ladder{set.Shared}, set.Phases...) {
			for i, r := range l.Rungs {
				for _, e := range r.Edits {
					if e.Knob == knobCheckpointing || strings.Contains(e.To, "vit_small") || e.Knob == knobQueue && i > l.Asked || j == k2 && e.Knob == job.Accumulation {
						t.Errorf("rung %q turns %s", r.Name, e.Knob)
					}
				}
			}
		}
	}
	// Read by a file that runs, it is alive.
	live := mine(t, asked(checkout(t, "solar", map[string][]string{
		"src/training/train_moco.py": {"    scaler = ", "    if config.use_grad_checkpointing:\n        model.remat()\n    scaler = "},
	}), 2, with("main.py")...))
	if says(live.Truths, "use_grad_checkpointing") {
		t.Errorf("it is read: %q", live.Truths)
	}
}

// A field that the trainer sets itself is not the class's to say.
func TestOverwrittenSettings(t *testing.T) {
	j := mine(t, asked(checkout(t, "solar", map[string][]string{
		"src/training/train_moco.py": {"    scaler = ", "    config.gradient_accumulation_steps = 2\n    scaler = "},
	}), 2, with("main.py")...))
	for _, k := range j.Knobs {
		if k.Name == job.Accumulation && !strings.Contains(k.Dead, "train_moco.py:") {
			t.Errorf("turned though overwritten: %+v", k)
		}
		if k.Name == job.MicroBatch && k.Dead != "" {
			t.Errorf("the division is no overwriting: %s", k.Dead)
		}
	}
}

// What the guides and comments get wrong, where the job is concerned, once, with the place.
func TestTruths(t *testing.T) {
	j := mine(t, asked(checkout(t, "solar", nil), 2, with("main.py")...))
	for _, want := range []string{
		"64 × 2 GPUs × 4 = 512 images an optimizer step; train_moco.py:41 divides the batch by the number of GPUs, so it is 256",
		"learning_rate 0.06 is base_lr × 512/256; with the 256 images that a step really sees the same rule gives 0.03",
		"amounts of memory that it prints", "nothing has to divide queue_size: moco.py:8",
	} {
		if !says(j.Truths, want) {
			t.Errorf("does not say %q: %q", want, j.Truths)
		}
	}
	for _, never := range []string{"6.9", "vit_b_16", "USE_LOW_VRAM", "the queue holds"} {
		if says(j.Truths, never) {
			t.Errorf("says %q, which is no matter here", never)
		}
	}
	sixteen := checkout(t, "solar", map[string][]string{
		"src/training/train_moco.py": {"src.config_low", "src.config_sixteen"}, "src/config_low.py": {`backbone: str = "resnet50"`, `backbone: str = "vit_small"`},
	})
	c := asked(sixteen, 2, with("main.py")...)
	c.Env = append(c.Env, "USE_LOW_VRAM_CONFIG=1")
	j = mine(t, c)
	for _, want := range []string{
		"= 768 images an optimizer step", "so it is 384", "4.6 × 96/64", "the queue holds 400 steps, not 800, of batches of 96",
		`"vit_small" is torchvision's vit_b_16`, "USE_LOW_VRAM_CONFIG is read by nothing",
	} {
		if !says(j.Truths, want) {
			t.Errorf("does not say %q: %q", want, j.Truths)
		}
	}
	for i, a := range j.Truths {
		if slices.Contains(j.Truths[i+1:], a) {
			t.Errorf("says twice %q", a)
		}
	}
}

// The network is what the source builds under a name.
func TestEncoders(t *testing.T) {
	total := func(name, backbone string) unit.Bytes {
		file := "src/config_low.py"
		if name == "solar_exp" {
			file = "src/config.py"
		}
		dir := checkout(t, name, map[string][]string{file: {`backbone: str = "resnet50"`, `backbone: str = "` + backbone + `"`}})
		l := training(t, ladders(t, mine(t, asked(dir, 2, with("main.py")...)), 80*unit.GiB))
		return l.Rungs[l.Asked].At(0).Total()
	}
	if small, base := total("solar", "vit_small"), total("solar", "vit_base"); small != base {
		t.Errorf("main's vit_small needs %v and its vit_base %v", small, base)
	}
	if small, base := total("solar_exp", "vit_small"), total("solar_exp", "vit_base"); small*3 > base*2 {
		t.Errorf("the branch's vit_small needs %v and its vit_base %v", small, base)
	}
	dir := checkout(t, "solar", map[string][]string{"src/config_low.py": {`backbone: str = "resnet50"`, `backbone: str = "own_net"`}})
	l := training(t, ladders(t, mine(t, asked(dir, 2, with("main.py")...)), 8*unit.GiB))
	if e := l.Rungs[l.Asked].At(0); e.Known() {
		t.Errorf("an unknown network needs %v", e.Total())
	}
	if len(l.Rungs) < 3 {
		t.Error("without a formula there are no rungs")
	}
}

// What an epoch has bounds the batch and the accumulation.
func TestDataSet(t *testing.T) {
	for _, r := range []struct {
		images int
		says   string
		truth  string
	}{
		{40, "with drop_last an epoch has no batch", ""},
		{100, "it would never step", ""},
		{2000, "", "of the 31 batches of an epoch 3 are thrown away"},
	} {
		dir := checkout(t, "solar", nil)
		images(t, filepath.Join(dir, "dataset/original"), r.images)
		j := mine(t, asked(dir, 2, with("main.py")...))
		if r.says != "" && !says(j.Warnings, r.says) || r.says == "" && len(j.Warnings) > 0 {
			t.Errorf("%d images: warns %q", r.images, j.Warnings)
		}
		if r.truth != "" && !says(j.Truths, r.truth) {
			t.Errorf("%d images: says %q", r.images, j.Truths)
		}
		for i, rung := range training(t, ladders(t, j, 80*unit.GiB)).Rungs {
			n, a := rung.Values[job.MicroBatch], rung.Values[job.Accumulation]
			if i > 0 && len(rung.Edits) > 0 && int64(r.images+1)/2/n < a {
				t.Errorf("%d images: rung %q never steps", r.images, rung.Name)
			}
		}
	}
	// ImageFolder: classes below train.
	dir := checkout(t, "v2", nil)
	images(t, filepath.Join(dir, "data/train/cats"), 20)
	images(t, filepath.Join(dir, "data/train/dogs"), 20)
	j := mine(t, asked(dir, 2, with("main_moco.py", "-b", "64", "data")...))
	if !says(j.Warnings, "40 images are fewer than 2 processes × 32") {
		t.Errorf("warns %q", j.Warnings)
	}
}

// Beyond its own 4096 nobody trains moco, and the queue of solar-ssl's main takes two keys an image.
func TestFillIsBounded(t *testing.T) {
	j := mine(t, asked(checkout(t, "v3", nil), 8, with("main_moco.py", "-b", "2048", "data")...))
	for _, r := range training(t, ladders(t, j, 1024*unit.GiB)).Rungs {
		if b, _ := strconv.Atoi(to(r, job.MicroBatch)); b > 4096 {
			t.Errorf("v3 fills to %d", b)
		}
	}
	dir := checkout(t, "solar", map[string][]string{"src/config_low.py": {"queue_size: int = 65536", "queue_size: int = 256"}})
	for _, r := range training(t, ladders(t, mine(t, asked(dir, 2, with("main.py")...)), 1024*unit.GiB)).Rungs {
		if r.Values[job.MicroBatch]*2*2 > 256 {
			t.Errorf("rung %q enqueues %d keys into 256", r.Name, r.Values[job.MicroBatch]*4)
		}
	}
}

// Mixed precision is a rung where it is off and the code reads it.
func TestMixedPrecision(t *testing.T) {
	off := checkout(t, "solar", map[string][]string{"src/config_low.py": {"use_amp: bool = True", "use_amp: bool = False"}})
	set := ladders(t, mine(t, asked(off, 2, with("main.py")...)), 8*unit.GiB)
	i := slices.IndexFunc(set.Shared.Rungs, func(r ladder.Rung) bool { return to(r, knobAMP) == "True" })
	if i < 0 || set.Shared.Rungs[i].Cost != ladder.Numerics {
		t.Fatalf("shared rungs %+v", set.Shared.Rungs)
	}
	l := training(t, set)
	if full, half := l.Rungs[l.Asked].At(0).Growing(), l.Rungs[l.Asked].At(i).Growing(); float64(half) > 0.58*float64(full) {
		t.Errorf("%v become %v", full, half)
	}
	set = ladders(t, mine(t, asked(checkout(t, "solar_exp", nil), 2, with("main.py")...)), 8*unit.GiB)
	if slices.ContainsFunc(set.Shared.Rungs, func(r ladder.Rung) bool { return to(r, knobAMP) != "" }) {
		t.Error("a branch without mixed precision has a rung for it")
	}
}

// How many keys a step enqueues is the model's to say: of both crops, or of the second.
func TestStepsInTheQueue(t *testing.T) {
	for name, want := range map[string]bool{"solar": true, "solar_k2": false} {
		dir := checkout(t, name, map[string][]string{"src/config_low.py": {"    use_queue", "    # 65,536 / 64 = 1024 batches\n    use_queue"}})
		j := mine(t, asked(dir, 2, with("main.py")...))
		if got := says(j.Truths, "the queue holds 512 steps, not 1024"); got != want {
			t.Errorf("%s: said is %v: %q", name, got, j.Truths)
		}
	}
}

// A queue that is switched off binds nothing and costs no logits.
func TestQueueSwitchedOff(t *testing.T) {
	total := func(use string) unit.Bytes {
		dir := checkout(t, "solar_k2", map[string][]string{"src/config_low.py": {"use_queue: bool = True", "use_queue: bool = " + use}})
		set := ladders(t, mine(t, asked(dir, 2, with("main.py")...)), 8*unit.GiB)
		if bound := len(set.Invariants) == 2; bound != (use == "True") {
			t.Errorf("use_queue %s: invariants %+v", use, set.Invariants)
		}
		l := training(t, set)
		e := l.Rungs[l.Asked].At(0)
		return e.Total() - e.Of(mem.Slack) // which is a matter of which block serves which request
	}
	if on, off := total("True"), total("False"); on-off < 256*65536*4 {
		t.Errorf("with a queue %v, without %v", on, off)
	}
}
