package oom

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/job"
)

// TestPartOf: frames are given outermost first, as "path func".
func TestPartOf(t *testing.T) {
	for _, tt := range []struct {
		name, frames string
		want         Part
	}{
		{"weights", "train.py main; transformers/modeling_utils.py from_pretrained; torch/serialization.py load", Load},
		{"weights, by what people call it", "train.py main; net.py load_weights; torch/serialization.py load", Load},
		{"a state", "train.py main; train.py resume; torch/serialization.py load", Resume},
		{"a state, by Lightning", "lightning/pytorch/trainer/trainer.py _run; checkpoint_connector.py restore; torch/serialization.py load", Resume},
		{"a model within a resume", "train.py resume_training; train.py load_model; torch/serialization.py load", Resume},
		{"saving", "train.py main; train.py save_checkpoint; torch/serialization.py save", Save},
		{"saving for inference", "train.py main; modeling_utils.py save_pretrained; safetensors/torch.py save_file", Save},
		{"the sanity check", "lightning/pytorch/trainer/trainer.py _run_sanity_check; net.py validation_step; net.py forward", SanityCheck},
		{"a metric in validation", "train.py validate; torchmetrics/functional/image/ssim.py _ssim_update", Metric},
		{"a metric by its name", "train.py validate; train.py calculate_psnr", Metric},
		{"images for a person", "net.py log_images; net.py sample; net.py forward", ImageLogging},
		{"a grid of images", "train.py validate; torchvision/utils.py make_grid", ImageLogging},
		{"images that are read", "data.py load_images", ""},
		{"training", "train.py train_step; net.py forward", ""},
		{"the word save in a path", "save/train.py train_step; net.py forward", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var fs []frame
			for f := range strings.SplitSeq(tt.frames, "; ") {
				path, name, _ := strings.Cut(f, " ")
				fs = append(fs, frame{path: path, line: "1", name: name})
			}
			if got := partOf(fs); got != tt.want {
				t.Errorf("partOf is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestFirstStep: bars and signs, in a training step.
func TestFirstStep(t *testing.T) {
	trace := "Traceback (most recent call last):\n  File \"train.py\", line 1, in training_step\n  File \"net.py\", line 2, in forward\n" +
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
	signs := job.Signs{Lines: []job.Sign{
		{Kind: job.Started, Pattern: `^start$`}, {Kind: job.Progress, Pattern: `^at (?P<iteration>\d+)$`},
		{Kind: job.Resumed, Pattern: `^resumed at (?P<iteration>\d+)$`},
	}}
	for _, tt := range []struct {
		name, before string
		want         Part
	}{
		{"a bar at none", "\r  0%|          | 0/500 [00:00<?, ?it/s]", FirstStep},
		{"a bar that moved", "  0%|          | 0/500 [00:00<?, ?it/s]\n  0%|          | 1/500 [00:02<16:00, 2s/it]\n", ""},
		{"another bar that is through, then a bar at none",
			"Map: 100%|##########| 64/64 [00:01<00:00, 60it/s]\n  0%|          | 0/500 [00:00<?, ?it/s]\n", FirstStep},
		{"the same bar again, of the next epoch", "100%|##########| 500/500 [00:01<00:00, 60it/s]\n  0%|          | 0/500 [00:00<?, ?it/s]\n", ""},
		{"nothing was printed", "start\n", ""},
		{"a resumed run without progress", "start\nresumed at 700\n", FirstStep},
		{"a resumed run with progress", "start\nresumed at 700\nat 701\n", ""},
		{"progress beside a bar at none", "at 7\n  0%|          | 0/500 [00:00<?, ?it/s]\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDetector(t, signs)
			write(t, d, Terminal, tt.before+trace)
			r := d.Report(Exit{})
			if r.Part != tt.want || r.Phase != TrainForward {
				t.Errorf("the part is %q in %s, want %q in training's forward", r.Part, r.Phase, tt.want)
			}
			if tt.want == FirstStep && !strings.Contains(r.Cause, "in the forward pass of the first step") {
				t.Errorf("the cause is %q", r.Cause)
			}
		})
	}
}

// TestPartOfWords: where frames say nothing, the words before do.
func TestPartOfWords(t *testing.T) {
	for before, want := range map[string]Part{
		"Sanity Checking DataLoader 0:   0%|  | 0/2 [00:00<?, ?it/s]\n": SanityCheck,
		"saving the model to x.pth\n":                                   Save,
		"Resuming from last.ckpt\n":                                     Resume,
		"computing FID\n":                                               Metric,
		"logging images\n":                                              ImageLogging,
		"all is well\n":                                                 "",
	} {
		d := newDetector(t, job.Signs{})
		write(t, d, Terminal, before+"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
		if r := d.Report(Exit{}); r.Part != want {
			t.Errorf("after %q the part is %q, want %q", before, r.Part, want)
		}
	}
}

// What a program saves behind its failure is not what failed.
func TestSavedBehind(t *testing.T) {
	for behind, want := range map[string]Phase{
		"INFO Saving models and training states to experiments folder\n": Unknown,
		"ERROR saving the checkpoint failed\n":                           Checkpoint,
	} {
		d := newDetector(t, job.Signs{})
		write(t, d, Terminal, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"+behind)
		if r := d.Report(Exit{}); r.Phase != want {
			t.Errorf("before %q the phase is %q, want %q: %s", behind, r.Phase, want, r.Cause)
		}
	}
}

// A failure is in a save only if that had not ended: a step after it shows that it had.
func TestSavedBefore(t *testing.T) {
	const bar = " 33%%|###   | %d/30 [00:05<00:30, 1.00s/it]\n"
	at := func(n int) string { return fmt.Sprintf(bar, n) }
	signs := job.Signs{Lines: []job.Sign{{Kind: job.Progress, Pattern: `(?P<iteration>\d+)/30 `},
		{Kind: job.SavedState, Pattern: `^Saving model checkpoint to`}}}
	const saving = "Saving model checkpoint to out/checkpoint-10\n"
	for name, tt := range map[string]struct {
		signs  job.Signs
		before string
		within bool
	}{
		"at once":                      {job.Signs{}, at(10) + saving, true},
		"after the bar was drawn anew": {job.Signs{}, at(10) + saving + at(10), true},
		"after five steps":             {job.Signs{}, at(10) + saving + at(15), false},
		"after lines of the log": {job.Signs{},
			"step 9 loss 0.5\nsaving the model to x.pth\nstep 10 loss 0.4\nstep 11 loss 0.4\n", false},
		"at once, by the signs":       {signs, at(10) + saving, true},
		"five steps on, by the signs": {signs, at(10) + strings.Repeat("x\n", 20) + saving + at(15), false},
		"in the next save":            {signs, at(10) + saving + at(20) + strings.ReplaceAll(saving, "10", "20"), true},
		"steps after a resume":        {job.Signs{}, at(9) + "Resuming training from out\n" + at(10) + at(15), false},
		"at once after a resume":      {job.Signs{}, "Resuming training from out\n", true},
		"an evaluation's bar after it": {job.Signs{},
			at(10) + saving + "Evaluating:  33%|###   | 11/30 [00:05<00:30, 1.00s/it]\n", false},
	} {
		d := newDetector(t, tt.signs)
		write(t, d, Terminal, tt.before+"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
		r := d.Report(Exit{})
		if got := r.Phase == Checkpoint || r.Part == Save || r.Part == Resume; got != tt.within {
			t.Errorf("%s: %s, %q: %s", name, r.Phase, r.Part, r.Cause)
		}
	}
}

// TestPartBeside: a loss that has a metric's name is none in training; frames may stand below the message.
func TestPartBeside(t *testing.T) {
	ssim := []frame{{path: "train.py", line: "1", name: "train"}, {path: "loss.py", line: "2", name: "ssim"}}
	f := &finding{rows: []printed.Row{{Body: "x"}}, x: &excerpt{}}
	training, validation := Report{Phase: TrainForward}, Report{Phase: Validation}
	if p := training.part(f, ssim, nil, State{}); p != "" {
		t.Errorf("a loss in training is %q", p)
	}
	if p := validation.part(f, ssim, nil, State{}); p != Metric {
		t.Errorf("it is %q in validation", p)
	}
	if p := validation.part(f, nil, ssim, State{}); p != Metric {
		t.Errorf("it is %q where its frames stand below", p)
	}
}
