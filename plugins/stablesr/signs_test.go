package stablesr

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// What follows is written by hand in the form that main.py and Lightning 1.4.2 print (facts 5): bars on one line, redrawn
// behind a carriage return, and no newline at the end.
const (
	head = "Global seed set to 23\nRunning on GPUs 0,\nMonitoring val/loss_simple_ema as checkpoint metric.\n" +
		"Merged modelckpt-cfg: \n{'target': 'x', 'params': {'dirpath': 'logs/2026-01-01T00-00-00_x/checkpoints'}}\n" +
		"#### Data #####\naccumulate_grad_batches = 8\n++++ NOT USING LR SCALING ++++\nSetting learning rate to 5.00e-05\n" +
		"Project config\ndata:\n  params:\n    batch_size: 3\n    train:\n      params:\n        queue_size: 180\n\n"
	sanity = "\rValidation sanity check:   0%|          | 0/2 [00:00<?, ?it/s]"
	began  = "\rTraining: -1it [00:00, ?it/s]"
	epoch  = "\rEpoch 0:   7%|▋         | 1/14 [00:00<00:00, 87.38it/s, loss=0.397, v_num=0, train/loss_simple_step=0.397, global_step=12.00]"
	edgeUp = "\rEpoch 0:   7%|▋         | 9/14 [00:00<00:00, 87.38it/s, loss=0.397, v_num=0]"
	valid  = "\r\n\rValidating:   0%|          | 0/2 [00:00<?, ?it/s]\x1b[A"
	frame  = "Summoning checkpoint.\nTraceback (most recent call last):\n  File \"main.py\", line 735, in <module>\n    trainer.fit(model, data)\n"
	oomIs  = "RuntimeError: CUDA out of memory. Tried to allocate 6.00 GiB (GPU 0; 23.53 GiB total capacity; 13.04 GiB already allocated; 5.51 GiB free; 13.10 GiB reserved in total by PyTorch)\n"
)

func detect(t *testing.T, signs job.Signs, out, err string) *oom.Detector {
	t.Helper()
	d, e := oom.NewDetector(signs)
	if e != nil {
		t.Fatal(e)
	}
	d.Stream(oom.Terminal).Write([]byte(out))
	d.Stream(oom.Stderr).Write([]byte(err))
	return d
}

// facts 5: what is printed says where the run is, how far, and with which settings.
func TestStates(t *testing.T) {
	signs := stock(t).Signs
	for name, tt := range map[string]struct {
		out, err, phase string
		iteration       int64
	}{
		"the sanity check": {head + sanity, "", ladder.Validation, -1},
		"the loop":         {head + sanity + began, "", ladder.Training, -1},
		"an epoch":         {head + sanity + began + epoch, "", ladder.Training, 12},
		"a validation":     {head + sanity + began + epoch + valid, "", ladder.Validation, 12},
		"a sampler": {head + began + epoch + "\rDDIM Sampler:  50%|█████     | 100/200 [00:09<00:09]", "",
			images, 12},
		"behind a sampler": {head + began + epoch + "\rDDIM Sampler: 100%|██████████| 200/200 [00:19<00:00]", "",
			ladder.Training, 12},
		"a row of images": {head + began + epoch + "\rProgressive Generation:   9%|▉ | 88/1000 [00:09<00:09]", "",
			images, 12},
		"behind the validation": {head + began + epoch + valid + "\rValidating: 100%|██████████| 2/2 [00:00<00:00]\x1b[A" + epoch, "", ladder.Training, 12},
	} {
		s := detect(t, signs, tt.out+"\r", tt.err).State()
		if s.Phase != tt.phase || s.Iteration != tt.iteration {
			t.Errorf("%s: phase %q, iteration %d; want %q, %d", name, s.Phase, s.Iteration, tt.phase, tt.iteration)
		}
		if s.Settings[knobAccumulation] != "8" || s.Settings[knobMicro] != "3" || s.Settings[knobQueue] != "180" {
			t.Errorf("%s: the settings are read as %v", name, s.Settings)
		}
	}
	d := detect(t, signs, "", "\rSampling t:  12%|█▏        | 120/1000 [00:10<01:00]\r")
	if p := d.State().Phase; p != images {
		t.Errorf("while images are logged the phase is %q", p)
	}
	d.Stream(oom.Stderr).Write([]byte("\rSampling t: 100%|██████████| 1000/1000 [01:10<00:00]\nAverage Epoch time: 12.30 seconds\nAverage Peak memory 15234.56MiB\n"))
	s := d.State()
	if s.Phase == images || s.Peak < 15234*unit.MiB || s.Peak > 15235*unit.MiB {
		t.Errorf("afterwards the phase is %q and the peak %v", s.Phase, s.Peak)
	}
}

// With width 0 a bar has no picture.
func TestBarWithoutPicture(t *testing.T) {
	signs := mine(t, checkoutDir(t, "edge", map[string]func(string) string{"configs/edge.yaml": edged}), "train_with_edge.py").Signs
	if s := detect(t, signs, "\rEpoch 0:  50%\x20\x20 7/14 [00:00<00:00, 8.3it/s, loss=0.4, v_num=0]\r", "").State(); s.Iteration != 7 {
		t.Errorf("iteration %d, want 7", s.Iteration)
	}
}

// facts 5.4: a state that is written before anything was trained is not worth a resume; the edge fork prints micro-batches.
func TestStateAfter(t *testing.T) {
	signs := stock(t).Signs
	if signs.StateAfter != 1 || signs.CountsMicro {
		t.Errorf("StableSR: a state counts after %d, of micro-batches: %v", signs.StateAfter, signs.CountsMicro)
	}
	edge := mine(t, checkoutDir(t, "edge", map[string]func(string) string{"configs/edge.yaml": edged}), "train_with_edge.py").Signs
	if edge.StateAfter != 25 || !edge.CountsMicro {
		t.Errorf("the edge fork: a state counts after %d, of micro-batches: %v", edge.StateAfter, edge.CountsMicro)
	}
	if s := detect(t, edge, head+began+edgeUp+"\r", "").State(); s.Iteration != 9 {
		t.Errorf("its progress is read as %d", s.Iteration)
	}
}

// facts 1.1, 1.3 and 5.2: how it ends, which the exit code does not say.
func TestEndings(t *testing.T) {
	in := func(file, name string) string { return "  File \"" + file + "\", line 1, in " + name + "\n    x\n" }
	for name, tt := range map[string]struct {
		out   string
		exit  oom.Exit
		want  oom.Ending
		stage string
	}{
		"the end": {head + began + epoch, oom.Exited(0), oom.Succeeded, ""},
		"in the sanity check": {head + sanity + frame + in("pytorch_lightning/trainer/trainer.py", "_run_sanity_check") +
			in("ldm/models/diffusion/ddpm.py", "validation_step") + oomIs + sanity, oom.Exited(1), oom.OutOfMemory, ladder.Validation},
		"in the backward pass, the bar redrawn behind it": {head + began + epoch + frame + in("pytorch_lightning/loops/optimization.py", "backward") +
			in("torch/autograd/__init__.py", "backward") + oomIs + epoch, oom.Exited(1), oom.OutOfMemory, ladder.Training},
		"while images are logged": {head + began + epoch + frame + in("main.py", "log_img") + in("ldm/models/diffusion/ddpm.py", "log_images") +
			in("ldm/modules/diffusionmodules/model.py", "forward") + oomIs + epoch, oom.Exited(1), oom.OutOfMemory, images},
		"Ctrl-C": {head + began + epoch + "\nDetected KeyboardInterrupt, attempting graceful shutdown...\nSummoning checkpoint.\n", oom.Exited(0), oom.Interrupted, ""},
		"another rank ran out": {head + began + epoch + "\nTraceback (most recent call last):\n" + in("pytorch_lightning/loops/training.py", "_training_step") +
			oomIs + "\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n" +
			in("pytorch_lightning/plugins/training_type/ddp.py", "reconciliate_processes") +
			"pytorch_lightning.utilities.exceptions.DeadlockDetectedException: DeadLock detected from rank: 1 \n Traceback (most recent call last):\n" +
			in("pytorch_lightning/loops/training.py", "_training_step") + oomIs, oom.Exited(137), oom.OutOfMemory, ladder.Training},
		"killed without a word":     {head + began + epoch, oom.Exited(137), oom.Failed, ""},
		"terminated":                {head + began + epoch, oom.Killed(15), oom.Failed, ""},
		"the preflight of the fork": {"Edge processing tests failed!\n", oom.Exited(0), oom.Failed, ""},
	} {
		signs := stock(t).Signs
		v := detect(t, signs, tt.out, "").Judge(oom.Seen{Exit: tt.exit}, signs)
		if v.Ending != tt.want || tt.stage != "" && v.Report.Stage != tt.stage {
			t.Errorf("%s: %s in %q (%s), want %s in %q", name, v.Ending, v.Report.Stage, v.Cause, tt.want, tt.stage)
		}
	}
	signs := stock(t).Signs
	if v := detect(t, signs, head, "").Judge(oom.Seen{Exit: oom.Exited(137)}, signs); !strings.Contains(v.Cause, "DeadlockDetectedException") {
		t.Errorf("an exit of 137 is explained by %q", v.Cause)
	}
}

// facts 1.3 and 4: the run folder is the one with checkpoints, by the run's own name; other ranks' strays and other runs
// are not it.
func TestStatesGlob(t *testing.T) {
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"configs/my.recipe.yaml": nil})
	for _, tt := range []struct {
		args []string
		run  string
	}{
		{[]string{"--base", "configs/my.recipe.yaml", "--name", "x[1]"}, "logs/2026-01-01T00-00-00_x[1]"},
		{[]string{"--base", "configs/my.recipe.yaml"}, "logs/2026-01-01T00-00-00_my.recipe"},
		{[]string{"--base", "configs/my.recipe.yaml", "-f", "_b", "-l", "out"}, "out/2026-01-01T00-00-00_my.recipe_b"},
	} {
		j := mine(t, dir, append([]string{"main.py", "--train"}, tt.args...)...)
		want := filepath.Join(dir, tt.run, "checkpoints/last.ckpt")
		write(t, want, "x")
		write(t, filepath.Join(dir, filepath.Dir(tt.run), "child_runs", filepath.Base(tt.run), "checkpoints/last.ckpt"), "x")
		write(t, filepath.Join(dir, filepath.Dir(tt.run), "2026-01-01T00-00-01_other/checkpoints/last.ckpt"), "x")
		_, suffix, _ := strings.Cut(filepath.Base(tt.run), "_")
		write(t, filepath.Join(dir, filepath.Dir(tt.run), "kept_"+suffix, "checkpoints/last.ckpt"), "x") // no run's name
		if err := os.MkdirAll(filepath.Join(dir, tt.run+"0", "wandb"), 0o755); err != nil {
			t.Fatal(err)
		}
		hits, err := filepath.Glob(filepath.Join(dir, j.Signs.States[0]))
		if err != nil || !slices.Equal(hits, []string{want}) {
			t.Errorf("%q finds %q (%v), want %q", j.Signs.States[0], hits, err, want)
		}
	}
}

// Lightning's Trainer turns cudnn.benchmark on where it is asked to, as StableSR's recipes do.
func TestBenchmark(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want bool
	}{{nil, true}, {[]string{"lightning.trainer.benchmark=true"}, true}, {[]string{"--benchmark", "True"}, true},
		{[]string{"lightning.trainer.benchmark=false"}, false}} {
		if got := stock(t, tt.args...).Signs.Benchmark; got != tt.want {
			t.Errorf("%q: %v, want %v", tt.args, got, tt.want)
		}
	}
}

// A value of the monitored loss is printed where it is among the best.
func TestMetric(t *testing.T) {
	text := "Epoch 0, global step 99: val/loss_simple_ema reached 0.12345 (best 0.12345), saving model to " +
		"\"x.ckpt\" as top 3\n" +
		"Epoch 1, global step 199: val/loss_simple_ema was not in top 3\n"
	state := detect(t, stock(t).Signs, "", text).State()
	want := &metric.Point{Value: 0.12345, Step: 99}
	if m := state.Metrics["val loss"]; m.Direction != metric.Minimise || m.Best == nil || *m.Best != *want ||
		*m.Last != *want {
		t.Errorf("%+v", state.Metrics)
	}
}

// What main.py's melk saves is judged by the last words of Lightning; it saves on request, too (main.py:718 at
// 398ee938).
func TestMelk(t *testing.T) {
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
	path := filepath.Join(dir, "main.py")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for more, want := range map[string][2]string{
		"": {},
		"\n\ndef melk(*args):\n    trainer.save_checkpoint('last.ckpt')\n\n\nsignal.signal(signal.SIGUSR1, melk)\n": {
			"lightning", "SIGUSR1"},
	} {
		write(t, path, string(text)+more)
		j, err := recognize(dir, "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
		if err != nil || j.LastWords != want[0] || j.Save.Signal != want[1] {
			t.Errorf("%v: %+v", err, j)
		}
	}
}
