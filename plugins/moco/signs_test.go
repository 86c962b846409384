package moco

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// judged reads a program's output by the job's signs and weighs its end.
func judged(t *testing.T, j *job.Job, output string, exit oom.Exit) (oom.Verdict, oom.State) {
	t.Helper()
	d, err := oom.NewDetector(j.Signs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(d, output); err != nil {
		t.Fatal(err)
	}
	return d.Judge(oom.Seen{Exit: exit}, j.Signs), d.State()
}

const (
	v2Lines = "Use GPU: 0 for training\n=> creating model 'resnet50'\n" +
		"Epoch: [3][   0/5004]\tTime  9.512 ( 9.512)\tData  5.001 ( 5.001)\tLoss 9.1000e+00 (9.1000e+00)\tAcc@1   3.12 (  3.12)\tAcc@5  12.50 ( 12.50)\n" +
		"Epoch: [3][  10/5004]\tTime  0.512 ( 1.512)\tData  0.001 ( 0.501)\tLoss 9.1000e+00 (9.1000e+00)\tAcc@1   3.12 (  3.12)\tAcc@5  12.50 ( 12.50)\n"
	v3Lines = "Epoch: [3][  10/5004]\tTime  0.512 ( 0.512)\tData  0.001 ( 0.001)\tLR 1.2000e-04 (1.2000e-04)\tLoss 6.9100e+00 (6.9100e+00)\n"
	bar     = "Epoch [0]:   0%|          | 0/31 [00:00<?, ?it/s]\r" +
		"Epoch [0]:   3%|▎         | 1/31 [00:05<02:31,  5.04s/it, loss=11.0903, lr=0.00012]\r" +
		"Epoch [0]:  39%|███▊      | 12/31 [00:25<00:21,  1.12s/it, loss=11.0803, lr=0.00112]\r"
	barOfBranch = "Epoch [1/100]:  10%|█         | 3/31 [00:05<02:31,  5.04s/it, loss=1.1e+01, avg=1.1e+01, gnorm=2.0e+00, lr=1.0e-06, m=0.9900]\r" +
		"\n[Epoch 1/100]  avg_loss=11.000000  best_loss=11.000000  lr=1.00e-06\n=> saved new best checkpoint (epoch 1, best_loss 11.000000)\n"
	spawned = "Traceback (most recent call last):\n  File \"main_moco.py\", line 465, in <module>\n    main()\n" +
		"torch.multiprocessing.spawn.ProcessRaisedException:\n\n-- Process 1 terminated with the following error:\n" +
		"Traceback (most recent call last):\n  File \"torch/multiprocessing/spawn.py\", line 69, in _wrap\n    fn(i, *args)\n" +
		"  File \"main_moco.py\", line 328, in main_worker\n    train(train_loader, model, criterion, optimizer, epoch, args)\n"
)

func jobOf(t *testing.T, name string) *job.Job {
	t.Helper()
	script := "main.py"
	if name[0] == 'v' {
		return mine(t, asked(checkout(t, name, nil), 2, with("main_moco.py", "data")...))
	}
	return mine(t, asked(checkout(t, name, nil), 2, with(script)...))
}

func TestProgress(t *testing.T) {
	for _, r := range []struct {
		name, output string
		iteration    int64
		trained      bool
	}{
		{"v2", v2Lines, 10, true}, {"v3", v3Lines, 10, true}, {"solar", bar, 12, true}, {"solar_exp", barOfBranch, 3, true},
		{"solar", "Epoch [0]:   0%|          | 0/31 [00:00<?, ?it/s]\r", -1, false},
		{"v2", "Use GPU: 0 for training\n", -1, false},
	} {
		j := jobOf(t, r.name)
		v, state := judged(t, j, r.output, oom.Exit{Known: true})
		if state.Iteration != r.iteration {
			t.Errorf("%s: iteration %d, want %d", r.name, state.Iteration, r.iteration)
		}
		if (v.Ending == oom.Succeeded) != r.trained || v.Lied == r.trained {
			t.Errorf("%s, exit 0: %+v", r.name, v)
		}
	}
	if j := jobOf(t, "solar_exp"); true {
		if _, s := judged(t, j, barOfBranch, oom.Exit{Known: true}); s.Saved == nil || s.Saved.Iteration != 1 {
			t.Errorf("saved: %+v", s.Saved)
		}
		if _, s := judged(t, j, "=> loaded checkpoint 'checkpoints/resnet50/last.pth' (epoch 7, best_loss 1.000000)\n", oom.Exit{Known: true}); s.Resumed == nil || s.Resumed.Iteration != 7 || s.Resumed.Path != "checkpoints/resnet50/last.pth" {
			t.Errorf("resumed: %+v", s.Resumed)
		}
	}
	if !jobOf(t, "solar").Signs.CountsMicro || jobOf(t, "v2").Signs.CountsMicro {
		t.Error("solar-ssl's bar counts micro-batches, the others' meters count steps")
	}
}

// Out of memory as the parent of mp.spawn's processes reports it, by torch's generations; and what is none.
func TestFailuresOfSpawn(t *testing.T) {
	failed := oom.Exit{Known: true, Code: 1}
	for _, r := range []struct {
		name, line string
		want       oom.Ending
	}{
		{"1.12", "RuntimeError: CUDA out of memory. Tried to allocate 98.00 MiB (GPU 1; 7.79 GiB total capacity; 6.10 GiB already allocated; 63.06 MiB free; 6.20 GiB reserved in total by PyTorch)", oom.OutOfMemory},
		{"1.13", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 98.00 MiB (GPU 1; 7.79 GiB total capacity; 6.10 GiB already allocated; 63.06 MiB free; 6.20 GiB reserved in total by PyTorch)", oom.OutOfMemory},
		{"2.5", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 98.00 MiB. GPU 1 has a total capacity of 7.79 GiB of which 63.06 MiB is free.", oom.OutOfMemory},
		{"shared memory is not the card's", "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.", oom.OutOfMemory},
		{"a surviving orphan", "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:10001 (errno: 98 - Address already in use).", oom.Failed},
		{"the queue wrapped", "RuntimeError: The expanded size of the tensor (32) must match the existing size (64) at non-singleton dimension 1.  Target sizes: [8, 32].  Tensor sizes: [8, 64]", oom.Failed},
	} {
		v, _ := judged(t, jobOf(t, "v2"), v2Lines+spawned+r.line+"\n\n", failed)
		if v.Ending != r.want {
			t.Errorf("%s: %v, because %s", r.name, v.Ending, v.Cause)
		}
		if r.name == "shared memory is not the card's" && v.Report.Kind != oom.SharedMemory {
			t.Errorf("%s: %v", r.name, v.Report.Kind)
		}
	}
	// By whom is not known, so it is no proof; but the cause is said.
	v, _ := judged(t, jobOf(t, "v2"), v2Lines+"torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL\n", failed)
	if v.Ending == oom.Succeeded || v.Cause == "" {
		t.Errorf("a killed process: %+v", v)
	}
	v, _ = judged(t, jobOf(t, "v2"), v2Lines+"torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL\n", oom.Exit{Known: true, Code: 1, OOMKills: 1})
	if v.Ending != oom.OutOfMemory {
		t.Errorf("killed by the kernel, which counted it: %v", v.Ending)
	}
}

// The commands that cannot run distributed, and the default that makes a negative number of processes.
func TestDistributedOnly(t *testing.T) {
	for _, r := range []struct {
		args []string
		says string
	}{
		{[]string{"main_moco.py", "data"}, "it runs distributed only"},
		{[]string{"main_moco.py", "--gpu", "0", "data"}, "it runs distributed only"},
		{[]string{"main_moco.py", "--multiprocessing-distributed", "data"}, "--world-size is -1"},
	} {
		for _, name := range []string{"v2", "v3"} {
			if j := mine(t, asked(checkout(t, name, nil), 2, r.args...)); !says(j.Warnings, r.says) {
				t.Errorf("%s %v: warns %q", name, r.args, j.Warnings)
			}
		}
	}
}

// Each rehearsal leaves nothing behind, or there is none.
func TestRehearsals(t *testing.T) {
	path := func(j *job.Job, knob string) string {
		for _, e := range j.Rehearsal.Edits {
			if e.Knob == knob {
				return e.To
			}
		}
		return ""
	}
	solar := jobOf(t, "solar")
	if r := solar.Rehearsal; r.None != "" || r.Steps < 4*4+2 || path(solar, "epochs") != "1" || !strings.Contains(path(solar, "experiment"), job.Scratch) {
		t.Errorf("solar: %+v", r)
	}
	if out, err := solar.Rewrite(solar.Rehearsal.Edits, t.TempDir()); err != nil || !strings.Contains(string(out.Files[0].Text), `checkpoint_dir: str = "`+job.Scratch) && !strings.Contains(string(out.Files[0].Text), "checkpoint_dir: str = '"+job.Scratch) {
		t.Errorf("solar, rewritten: %v", err)
	}
	// facebookresearch's save where they are started, and so does the branch: its checkpoint_dir is an expression.
	v3 := jobOf(t, "v3")
	if r := v3.Rehearsal; r.None != "" || !r.Away || !slices.Equal(r.Paths, []int{1, len(v3.Command.Args) - 1}) || path(v3, "progress interval") != "1" || path(v3, "epochs") != "1" || r.Steps == 0 {
		t.Errorf("v3: %+v", r)
	}
	away := v3.Away("/elsewhere")
	if out, err := away.Rewrite(v3.Rehearsal.Edits, t.TempDir()); err != nil || out.Command.Dir != "/elsewhere" ||
		out.Command.Args[1] != filepath.Join(v3.Command.Dir, "main_moco.py") || !slices.Contains(out.Command.Args, filepath.Join(v3.Command.Dir, "data")) || v3.Command.Args[1] != "main_moco.py" {
		t.Errorf("v3, elsewhere: %+v, %v", out, err)
	}
	branch := jobOf(t, "solar_exp")
	if r := branch.Rehearsal; r.None != "" || !r.Away || path(branch, "epochs") != "1" || path(branch, "warm-up") != "0" || !strings.Contains(path(branch, "data"), branch.Command.Dir) || path(branch, "experiment") != "" {
		t.Errorf("the branch: %+v", r)
	}
	for what, args := range map[string][]string{
		"no data set":          with("main_moco.py"),
		"a relative resume":    with("main_moco.py", "--resume", "x.pth.tar", "data"),
		"two words for data":   with("main_moco.py", "-a", "data", "data"),
		"another starts it":    {"-m", "torch.distributed.run", "main_moco.py", "data"},
		"no progress by steps": nil,
	} {
		dir := checkout(t, "v3", nil)
		if args == nil {
			dir, args = checkout(t, "v3", map[string][]string{"main_moco.py": {"--print-freq", "--print-often"}}), with("main_moco.py", "data")
		}
		if r := mine(t, asked(dir, 2, args...)).Rehearsal; r.None == "" || len(r.Edits) > 0 || r.Away {
			t.Errorf("%s: %+v", what, r)
		}
	}
	c := asked(checkout(t, "v3", map[string][]string{"main_moco.py": {"parser.add_argument('--epochs'", "parser.add_argument('--start-epoch', default=0, type=int)\nparser.add_argument('--epochs'"}}),
		2, with("main_moco.py", "--start-epoch", "3", "data")...)
	c.Env = append(c.Env, "PYTHONPATH=lib:/opt")
	if j := mine(t, c); !j.Rehearsal.Away || path(j, "epochs") != "" || path(j, "module path") != filepath.Join(c.Dir, "lib")+":/opt" {
		t.Errorf("a later epoch, with modules of its own: %+v", j.Rehearsal)
	}
	// Where its folder is an expression of an absolute path, it would save among the real run's files.
	dir := checkout(t, "solar_exp", map[string][]string{"src/config.py": {`f"checkpoints/{backbone}"`, `f"/data/{backbone}"`}})
	if j := mine(t, asked(dir, 2, with("main.py")...)); !strings.Contains(j.Rehearsal.None, "/data/resnet50") {
		t.Errorf("the branch, saving elsewhere: %+v", j.Rehearsal)
	}
	// A branch whose folder is plain must have its warm-up shortened with its epochs.
	dir = checkout(t, "solar_exp", map[string][]string{"src/config.py": {`f"checkpoints/{backbone}"`, `"checkpoints"`}})
	j := mine(t, asked(dir, 2, with("main.py")...))
	if path(j, "epochs") != "1" || path(j, "warm-up") != "0" {
		t.Errorf("the branch: %+v", j.Rehearsal)
	}
}

// Of solar-ssl's own words none says a setting: what it prints of memory are literals, so nothing is confirmed by them.
func TestNoFalseConfirmation(t *testing.T) {
	for _, name := range []string{"v2", "v3", "solar", "solar_exp"} {
		for _, s := range jobOf(t, name).Signs.Lines {
			if s.Kind == job.Setting || s.Kind == job.Memory {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// The example is recognised by the same features and priced by a formula of its own.
func TestExample(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/moco")); err != nil {
		t.Fatal(err)
	}
	images(t, filepath.Join(dir, "dataset/original"), 300)
	j := mine(t, asked(dir, -1, "main.py"))
	if j.Dialect != "solar-ssl/moco-v3" || j.Batch != (job.Batch{Micro: 64, Accumulation: 4, Ranks: 1}) || len(j.Warnings) > 0 || len(j.Truths) > 0 {
		t.Errorf("recognised as %s, %+v, %q %q", j.Dialect, j.Batch, j.Warnings, j.Truths)
	}
	set := plugintest.Ladders(t, New(), j.Command, gpu.Device{Kind: gpu.CPU, Total: 1200 * unit.MiB})
	l := training(t, set)
	if e := l.Rungs[l.Asked].At(0); !e.Known() || len(set.Shared.Rungs) != 1 {
		t.Errorf("on a CPU: %s, shared rungs %v", e.Unknown, set.Shared.Rungs)
	}
	if r := fill(t, set, 1200*unit.MiB, ladder.Metrics); to(r, job.MicroBatch) != "128" || to(r, job.Accumulation) != "2" {
		t.Errorf("filling takes %q", r.Name)
	}
	if !slices.ContainsFunc(j.Files, func(f job.File) bool {
		return f.Format == job.Python && f.Path == filepath.Join(dir, "src/config_thrifty.py")
	}) {
		t.Errorf("files %+v", j.Files)
	}
}

// An edit's text is what the program reads: an option that the command leaves open is added, one that it gives replaced.
func TestEditsOfOptions(t *testing.T) {
	p := &project{}
	for _, k := range []knob{
		{name: "x", at: config.Address{Doc: config.ArgvDoc, Path: "--lr"}, value: "0.03", left: true},
		{name: "x", at: config.Address{Doc: config.ArgvDoc, Path: "--lr"}, value: "0.06"},
	} {
		e, err := p.edit(k, 0.015, "recipe", "")
		if err != nil || e.To != "0.015" || e.Add != k.left || k.left != (e.From == "") {
			t.Errorf("%+v: %+v, %v", k, e, err)
		}
	}
}

// cudnn.benchmark is on where the trainer's code turns it on: facebookresearch's, and solar-ssl's two.
func TestBenchmark(t *testing.T) {
	const v2, solar = "    return moco.builder.MoCo(", "    scaler ="
	for name, tt := range map[string]struct {
		checkout, file, at, line string
		want                     bool
	}{
		"v2":                     {"v2", "main_moco.py", v2, "    cudnn.benchmark = True\n", true},
		"v2, as the stub has it": {"v2", "main_moco.py", v2, "", false},
		"v2, off":                {"v2", "main_moco.py", v2, "    cudnn.benchmark = False\n", false},
		"solar-ssl":              {"solar", "src/training/train_moco.py", solar, "    cudnn.benchmark = True\n", true},
		"solar-ssl, by its settings": {"solar", "src/training/train_moco.py", solar,
			"    cudnn.benchmark     = not config.deterministic\n", true},
	} {
		dir := checkout(t, tt.checkout, map[string][]string{tt.file: {tt.at, tt.line + tt.at}})
		command := with("main_moco.py", "data")
		if tt.checkout == "solar" {
			command = []string{"main.py"}
		}
		if got := mine(t, asked(dir, 1, command...)).Signs.Benchmark; got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// The loss is the epoch's mean so far, at its epoch.
func TestMetric(t *testing.T) {
	for _, r := range []struct {
		name, output string
		value        float64
		step         int64
	}{{"v2", v2Lines, 9.1, 3}, {"v3", v3Lines, 6.91, 3}, {"solar", bar, 11.0803, 0}, {"solar_exp", barOfBranch, 11, 1}} {
		_, state := judged(t, jobOf(t, r.name), r.output, oom.Exit{Known: true})
		if m := state.Metrics["loss"]; m.Last == nil || *m.Last != (metric.Point{Value: r.value, Step: r.step}) ||
			m.Direction != metric.Minimise {
			t.Errorf("%s: %+v", r.name, state.Metrics)
		}
	}
}
