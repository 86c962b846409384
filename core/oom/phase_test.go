package oom

import (
	"io"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/job"
)

// TestPhaseOf: frames are given outermost first, as "path func".
func TestPhaseOf(t *testing.T) {
	for _, tt := range []struct {
		name, frames string
		want         Phase
		exact        bool
	}{
		{"a backward within a training step",
			"train.py main; transformers/trainer.py training_step; accelerate/accelerator.py backward; torch/_tensor.py backward", TrainBackward, true},
		{"a recomputed forward", "train.py main; torch/autograd/graph.py _engine_run_backward; torch/utils/checkpoint.py recompute_fn; " +
			"torch/nn/modules/module.py _call_impl; net.py forward", TrainBackward, true},
		{"a forward within an optimizer's closure", "train.py main; torch/optim/adam.py step; lightning/loops/optimization.py closure; " +
			"net.py training_step; net.py forward", TrainForward, true},
		{"a loss that is evaluated", "train.py main; transformers/trainer.py train; transformers/trainer.py evaluation_loop; " +
			"transformers/trainer.py prediction_step; transformers/trainer.py compute_loss; net.py forward", Validation, true},
		{"a loss in training", "train.py main; transformers/trainer.py training_step; transformers/trainer.py compute_loss; net.py forward",
			TrainForward, true},
		{"a step that validation shares", "train.py main; net.py validation_step; net.py shared_step; net.py forward", Validation, true},
		{"a loss without a name", "train.py main; train.py train; loss.py ssim", TrainForward, false},
		{"a module that is imported", "train.py <module>; models/net.py <module>", Build, false},
		{"a script's own level", "train.py <module>", Unknown, false},
		{"an optimizer under no_grad", "train.py main; torch/utils/_contextlib.py decorate_context; torch/optim/adamw.py step", Optimizer, true},
		{"a scheduler is no optimizer", "train.py main; torch/optim/lr_scheduler.py step", Unknown, false},
		{"a teacher under no_grad", "train.py main; net.py training_step; torch/utils/_contextlib.py decorate_context; net.py forward", TrainForward, true},
		{"under no_grad alone", "train.py main; torch/utils/_contextlib.py decorate_context; net.py forward", Validation, false},
		{"a loss that is estimated", "train.py <module>; train.py estimate_loss; module.py _call_impl; model.py forward", Validation, true},
		{"validation within a fit", "train.py main; lightning/trainer.py fit; net.py validation_step; net.py forward", Validation, true},
		{"a state that is read while a model is built", "train.py main; transformers/modeling_utils.py from_pretrained; torch/serialization.py load",
			Build, true},
		{"a state that is resumed", "train.py main; train.py resume; torch/serialization.py load", Checkpoint, true},
		{"a model within a resume", "train.py resume_training; train.py load_model; torch/serialization.py load", Checkpoint, true},
		{"a model's constructor", "train.py main; net.py __init__", Build, false},
		{"an output object within a forward", "train.py main; net.py compute_loss; transformers/utils/generic.py __init__", TrainForward, true},
		{"a plain forward", "train.py main; torch/nn/modules/module.py _call_impl; net.py forward", TrainForward, false},
		{"gradients are clipped", "train.py main; torch/nn/utils/clip_grad.py clip_grad_norm_", Optimizer, true},
		{"a module's own predict", "train.py main; train.py train; module.py _call_impl; net.py forward; net.py predict; net.py _predict_once", TrainForward, false},
		{"train and evaluate", "main.py train_and_evaluate; main.py epoch; net.py forward", TrainForward, false},
		{"an algorithm's own loop", "train.py main; algorithms.py update", TrainForward, false},
		{"a loader", "train.py main; torch/utils/data/dataloader.py __next__", Data, true},
		{"to the device", "train.py main; torch/nn/modules/module.py _apply", Build, true},
		{"nothing known", "train.py main; train.py recall", Unknown, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var fs []frame
			for f := range strings.SplitSeq(tt.frames, "; ") {
				path, name, _ := strings.Cut(f, " ")
				fs = append(fs, frame{path: path, line: "1", name: name})
			}
			if got, exact := phaseOf(fs); got != tt.want || exact != tt.exact {
				t.Errorf("phaseOf is %s, exact %v; want %s, %v", got, exact, tt.want, tt.exact)
			}
		})
	}
}

// A traceback without torch's frames ends in the line that asked.
func TestPhaseOfTrimmed(t *testing.T) {
	for line, want := range map[string]Phase{
		"loss.backward()": TrainBackward, "self.scaler_g.scale(l_total).backward()": TrainBackward, "accelerator.backward(loss)": TrainBackward,
		"self.manual_backward(loss)": TrainBackward, "loss.mean().backward(retain_graph=True)": TrainBackward, "(loss / n).backward()": TrainBackward,
		"torch.autograd.backward(loss)": TrainBackward, "losses[0].backward(  # twice": TrainBackward,
		"optimizer.step()": Optimizer, "self.optimizer_g.step()": Optimizer, "opt.step(closure)": Optimizer, "self.scaler.step(self.optim)": Optimizer, "optimizers[1].step()": Optimizer,
		"out = net(x)": TrainForward, "net(x).backward()": TrainForward, "net(x).sum().backward()": TrainForward, "accelerator.backward(criterion(net(x), y))": TrainForward,
		"optimizer_scheduler.step()": TrainForward, "self.backward_path(x)": TrainForward, "env.step()": TrainForward,
	} {
		text := "Traceback (most recent call last):\n  File \"/home/ann/fit.py\", line 31, in <module>\n    train()\n  File \"/home/ann/fit.py\", line 12, in train_step\n    " + line +
			"\n    ^^^^^^^^^^\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.00 GiB is free.\n"
		if r := reported(t, text); r.Phase != want || r.Stage != "training" {
			t.Errorf("%s: %s, want %s", line, r.Phase, want)
		}
	}
	const within = "Traceback (most recent call last):\n  File \"/home/ann/fit.py\", line 12, in train_step\n    loss.backward()\n  File \"/home/ann/net.py\", line 9, in forward\n    return a @ b\n" +
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
	if r := reported(t, within); r.Phase != TrainForward {
		t.Errorf("a frame further in says more: %s", r.Phase)
	}
}

func TestGPUKind(t *testing.T) {
	gib := func(v float64) float64 { return v * (1 << 30) }
	n := func(requested, capacity, allocated, reserved, free float64) *printed.Numbers {
		return &printed.Numbers{Requested: printed.Rounded(gib(requested)), Capacity: printed.Rounded(gib(capacity)),
			Allocated: printed.Rounded(gib(allocated)),
			Reserved:  printed.Rounded(gib(reserved)), Free: printed.Rounded(gib(free))}
	}
	limited := n(1, 24, 3, 3.5, 18)
	limited.Allowed = printed.Rounded(gib(4))
	fragmented := n(1, 24, 3, 6, 18)
	fragmented.Allowed = printed.Rounded(gib(6.5))
	for _, tt := range []struct {
		name  string
		n     *printed.Numbers
		want  Kind
		limit bool
	}{
		{"more than the card", n(30, 24, 3, 4, 20), GPUCapacity, false},
		{"numbers that cannot be", n(1, 24, 30, 31, 0), GPUCapacity, false},
		{"a limit", limited, GPUCapacity, true},
		{"a limit, in pieces", fragmented, GPUFragmentation, true},
		{"others", n(1, 24, 3, 4, 0.1), GPUContention, false},
		{"pieces", n(1, 24, 18, 22.8, 0.2), GPUFragmentation, false},
		{"pieces, though few", n(0.1, 24, 22.5, 22.8, 0.1), GPUCapacity, false},
		{"full", n(1, 24, 22.5, 22.8, 0.2), GPUCapacity, false},
		{"no numbers", &printed.Numbers{}, GPUUnspecified, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, limit := gpuKind(tt.n); got != tt.want || limit != tt.limit {
				t.Errorf("gpuKind is %s, limit %v; want %s, %v", got, limit, tt.want, tt.limit)
			}
		})
	}
}

// A forward pass that no name, no sign and no source line assigns is called that, and not training's.
func TestWhoseForward(t *testing.T) {
	trace := func(line string) string {
		return "Traceback (most recent call last):\n  File \"train.py\", line 40, in <module>\n    " + line +
			"\n  File \"/usr/lib/python3/dist-packages/torch/nn/modules/module.py\", line 1527, in _call_impl\n" +
			"    return forward_call(*args, **kwargs)\n  File \"/home/u/model.py\", line 182, in forward\n    y = self.head(x)\n" +
			"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB.\n"
	}
	announced := []job.Sign{{Kind: job.Started, Pattern: "^begin"}, {Kind: job.Phase, Phase: "validation", Pattern: "^val"}}
	for name, tt := range map[string]struct {
		signs []job.Sign
		text  string
		phase Phase
		where string
	}{
		"nothing shows it":                     {nil, trace("out = model(x)"), TrainForward, "in a forward pass"},
		"no gradients":                         {nil, trace("with torch.no_grad(): out = model(x)"), Validation, "in validation"},
		"no gradients, while training":         {announced[:1], "begin\n" + trace("with torch.inference_mode(): out = model(x)"), Validation, "in validation"},
		"its only sign is of a beginning":      {announced[:1], "begin\n" + trace("out = model(x)"), TrainForward, "in a forward pass"},
		"it announces where validation begins": {announced, "begin\n" + trace("out = model(x)"), TrainForward, "in the training's forward pass"},
	} {
		d, err := NewDetector(job.Signs{Lines: tt.signs})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(d.Stream(Terminal), tt.text)
		if r := d.Report(Exit{}); r.Phase != tt.phase || !strings.Contains(r.Cause, tt.where) {
			t.Errorf("%s: %s, %q; want %s, %q", name, r.Phase, r.Cause, tt.phase, tt.where)
		}
	}
}
