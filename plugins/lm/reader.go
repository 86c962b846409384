package lm

import (
	"cmp"
	"slices"
	"strings"
)

// fills is a function that fills a part of a training, or says why that has no estimate; "" where it has.
type fills func(s *settings, t *training) (why string)

// A reader makes a training of what a command of one framework says.
type reader struct {
	// divide finds out how the global batch is divided. The error may be a [plugin.Need] of the number of cards.
	divide func(s *settings, t *training) error
	// checkpoints reads activation checkpointing, which the rungs ask for, whatever else is unknown.
	checkpoints fills
	// parts are what only this framework has, in the order in which one needs another: model, adapters, length.
	parts []fills
	// rows are the rows of its data set; nil where they are not read.
	rows rowsOf
}

// alike are the parts that all frameworks read alike, after their own.
var alike = []fills{readLiger, dated, readExperts, readPrecision, readOptimizer}

// read fills a training completely. What cannot be known makes its estimate unknown, with the reason.
func (r reader) read(s *settings) (t training, err error) {
	if err := r.divide(s, &t); err != nil {
		return t, err
	}
	if s.script != nil && s.script.mapped && (t.replicas || t.ranks > 1) {
		return t, errOwn("device_map shares the model out among several cards")
	}
	t.output = s.text("output_dir", cmp.Or(s.kind.output, "trainer_output")) // training_args.py:771
	checkpoints := r.checkpoints(s, &t)
	known := func(*settings, *training) string { return checkpoints }
	for _, read := range slices.Concat(r.parts, alike, []fills{known, readShards, readFSDP}) {
		if t.unknown = read(s, &t); t.unknown != "" {
			break
		}
	}
	t.wrapped = usesFSDP(s, &t)
	t.sharded = t.wrapped || s.has("deepspeed") || t.sharding != nil
	t.step.Model, t.step.World = t.model, t.ranks
	t.averaging, t.averages = averaged(s, &t)
	if t.unknown == "" {
		warnGathered(s, &t)
		warnExperts(&t)
		readLengths(s, &t, r.rows)
		warnAssumed(s, &t)
		warnUnseen(&t)
	}
	return t, nil
}

// replicated says that one process uses all cards.
func replicated(_ *settings, t *training) string {
	if t.replicas {
		return "one process uses all cards by torch.nn.DataParallel, which has no formula: a launcher such as torchrun " +
			"gives each card a process"
	}
	return ""
}

// switches are fields of TrainingArguments that change what a step keeps where they are on, and others are those that
// do where they are set.
var (
	switches = strings.Fields("torch_compile use_cache include_inputs_for_metrics batch_eval_metrics " +
		"bf16_full_eval fp16_full_eval use_mps_device adafactor use_kernels")
	others = strings.Fields("torch_compile_backend torch_compile_mode neftune_noise_alpha " +
		"label_smoothing_factor optim_target_modules optim_args parallelism_config accelerator_config include_for_metrics " +
		"sharded_ddp per_gpu_train_batch_size per_gpu_eval_batch_size kernel_config")
)

// foreignTrainer says which setting of the Trainer has no formula.
func foreignTrainer(s *settings, _ *training) string {
	on := slices.IndexFunc(switches, s.on)
	set := slices.IndexFunc(others, func(field string) bool {
		v, ok := s.get(field)
		return ok && v != "" && v != "None" && v != "0" && v != "0.0"
	})
	switch {
	case on >= 0:
		return s.address(switches[on]).Path + " has no formula"
	case set >= 0:
		return s.address(others[set]).Path + " has no formula"
	}
	return ""
}
