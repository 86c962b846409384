package lm

import (
	"cmp"
	"slices"
	"strings"
)

// read finds out what the training is made of. What cannot be known makes the estimate unknown, with the reason.
func read(s *settings, t *training) {
	t.output = s.text("output_dir", cmp.Or(s.kind.output, "trainer_output")) // training_args.py:771
	// which the rungs ask for, whatever else is unknown
	checkpointing := readCheckpointing(s, t)
	if t.unknown = parts(s, t, checkpointing); t.unknown != "" {
		return
	}
	t.predicted = t.evals > 0 && !s.is(axolotl) && s.script == nil && !t.step.Fused &&
		(!s.is(llamaFactory) || s.on("compute_accuracy") && stage(s) == "sft") &&
		!s.on("prediction_loss_only")
	t.step.Liger.Evaluates = t.step.Liger.Evaluates && !t.predicted // trainer.py:3265
	t.step.Model, t.step.World = t.model, t.ranks
	warnGathered(s, t)
	warnExperts(t)
}

// parts reads what the training is made of, in the order in which one part needs another.
func parts(s *settings, t *training, checkpointing string) (why string) {
	if why = released(s, t); why != "" {
		return why
	}
	if why = launched(s, t); why != "" {
		return why
	}
	if why = foreign(s); why != "" {
		return why
	}
	if why = ofFramework(s, t); why != "" {
		return why
	}
	if why = readLiger(s, t); why != "" {
		return why
	}
	if why = dated(s, t); why != "" {
		return why
	}
	if why = readExperts(s, t); why != "" {
		return why
	}
	if why = readPrecision(s, t); why != "" {
		return why
	}
	if why = readOptimizer(s, t); why != "" {
		return why
	}
	if checkpointing != "" {
		return checkpointing
	}
	if why = readShards(s, t); why != "" {
		return why
	}
	return readFSDP(s, t)
}

func ofFramework(s *settings, t *training) string {
	switch s.kind.framework {
	case runCLM:
		return readModel(s, t)
	case trlSFT:
		return readSFT(s, t)
	case trlDPO:
		return readDPO(s, t)
	case llamaFactory:
		return readFactory(s, t)
	case axolotl:
		return readAxolotl(s, t)
	}
	return readTrainer(s, t)
}

// launched says what of how the command is started has no formula.
func launched(s *settings, t *training) string {
	if _, _, _, why := accelerateOptions(launching(s)); why != "" && s.is(axolotl) {
		return why
	}
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

// foreign says which setting has no formula.
func foreign(s *settings) string {
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
