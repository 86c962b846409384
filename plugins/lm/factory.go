package lm

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// Figures are of hiyouga/LLaMA-Factory at ff6d4d12e (2026-08-18), src/llamafactory/…:line.

// factorySwitches and factoryOthers are LLaMA-Factory's own settings without a formula: those that change what a step
// keeps where they are on, and those that do where they are set.
var (
	factorySwitches = strings.Fields("use_dora use_galore use_apollo use_badam use_muon use_adam_mini " +
		"use_llama_pro use_mca use_megatron_bridge use_hyper_parallel use_dft_loss use_asft_loss use_eaft_loss " +
		"predict_with_generate shift_attn use_unsloth use_unsloth_gc " +
		"upcast_layernorm upcast_lmhead_output use_kt resize_vocab use_kv_cache " +
		"use_v1_kernels pissa_init")
	factoryOthers = strings.Fields("mixture_of_depths adapter_name_or_path " +
		"add_tokens add_special_tokens new_special_tokens_config rope_scaling")
)

// readFactory reads a training of LLaMA-Factory, whole or with LoRA.
func readFactory(s *settings) (training, error) {
	return reader{divideTrainer, checkpointsFactory, []fills{released, replicated, foreignTrainer, foreignFactory,
		modelFactory, stageFactory}, rowsFactory}.read(s)
}

// checkpointsFactory reads activation checkpointing, which is on unless it is switched off.
func checkpointsFactory(s *settings, t *training) string {
	v, ok := s.get("use_reentrant_gc") // True in hparams/model_args.py:149
	t.step.Checkpointing, t.step.Reentrant = !s.on(checkpointField(s)), !ok || strings.EqualFold(v, "true")
	return ""
}

// foreignFactory says which setting of LLaMA-Factory has no formula.
func foreignFactory(s *settings, _ *training) string {
	if v := strings.ToLower(s.getenv("USE_V1")); s.prog.Path() == "" && v != "" && v != "0" && v != "false" {
		return "USE_V1 starts another program of LLaMA-Factory, which has no formula" // cli.py:19 of 0.9.5
	}
	if !slices.Contains([]string{"sft", "pt", "dpo"}, stage(s)) {
		return "the stage " + stage(s) + " has no formula"
	}
	if i := slices.IndexFunc(factorySwitches, s.on); i >= 0 {
		return factorySwitches[i] + " has no formula"
	}
	if stage(s) != "sft" && s.on("neat_packing") { // hparams/parser.py:423
		return "neat_packing is refused by LLaMA-Factory for the stage " + stage(s)
	}
	if i := slices.IndexFunc(factoryOthers, s.has); i >= 0 {
		return factoryOthers[i] + " has no formula"
	}
	return ""
}

// modelFactory reads the model, the length to which rows are cut, and the adapters.
func modelFactory(s *settings, t *training) string {
	t.predicted = t.evals > 0 && s.on("compute_accuracy") && stage(s) == "sft" && !s.on("prediction_loss_only")
	p, why := loadNamed(s, t)
	if why != "" {
		return why
	}
	if why := attendsFactory(s, t); why != "" {
		return why
	}
	var err error
	cut := int64(2048) // hparams/data_args.py:46
	if factoryBefore(s, 0, 9, 1) {
		cut = 1024 // hparams/data_args.py:45 of 0.9.0
	}
	if t.step.Length, err = s.count("cutoff_len", cut); err != nil {
		return err.Error()
	}
	t.pads, t.multiple = true, true // of 8 (train/sft/workflow.py:63, train/dpo/workflow.py:50)
	return readTuning(s, t, typed(p.config))
}

// stageFactory reads what the stage makes of the rows and of the loss.
func stageFactory(s *settings, t *training) string {
	switch stage(s) {
	case "pt":
		return readPretraining(s, t)
	case "dpo":
		return readPairs(s, t)
	}
	return packsFactory(s, t)
}

// readTuning is init_adapter (model/adapter.py:337): the model is loaded in the type of the computation, and whole
// models are float32 unless pure_bf16 is on. named says that the configuration names a type.
func readTuning(s *settings, t *training, named bool) string {
	compute := nn.BF16
	switch {
	case s.on("pure_bf16") || s.on("bf16"): // hparams/parser.py:512 of 0.9.5, before fp16
	case s.on("fp16"):
		compute = nn.F16
	default: // infer_optim_dtype (extras/misc.py:241 of 0.9.5): of the configuration; float32 without an accelerator
		t.inferred = true
		if named && t.model.DType != nn.BF16 {
			compute = nn.F16
		}
	}
	trained := nn.F32
	if s.on("pure_bf16") {
		trained = nn.BF16
	}
	switch how := s.text("finetuning_type", "lora"); how {
	case "full":
		if s.has("quantization_bit") {
			return "quantization_bit without adapters is refused by LLaMA-Factory (model/adapter.py:332)"
		}
		t.step.Weights = trained
		return ""
	case "lora":
		t.step.Weights = compute
		if why := readQuantFactory(s, t, compute); why != "" {
			return why
		}
		return readFactoryLoRA(s, t, trained)
	default:
		return "finetuning_type " + how + " has no formula"
	}
}

// readFactoryLoRA reads the adapters. They are float32 with pure_bf16, too: peft makes them so (autocast_adapter_dtype
// of get_peft_model, peft 0.18.1), and nothing makes them half again.
func readFactoryLoRA(s *settings, t *training, trained nn.DType) string {
	rank, err := s.count("lora_rank", 8) // hparams/finetuning_args.py:77
	if err != nil {
		return err.Error()
	}
	// modules that are trained whole: float32 unless pure_bf16 is on (model/adapter.py:286 of 0.9.5)
	l := &arch.LoRA{Rank: rank, Type: nn.F32, Whole: arch.Whole{Type: trained}}
	for name := range strings.SplitSeq(s.text("additional_target", ""), ",") {
		if name = strings.TrimSpace(name); name != "" {
			l.Names = append(l.Names, name)
		}
	}
	if why := dropout(s, l); why != "" {
		return why
	}
	for name := range strings.SplitSeq(s.text("lora_target", "all"), ",") {
		if name = strings.TrimSpace(name); name != "all" {
			l.Targets = append(l.Targets, name)
			continue
		}
		all, ok := t.model.AllTargets() // find_all_linear_modules (model/model_utils/misc.py:28 of 0.9.5)
		if !ok {
			return "adapters in all linear layers of " + t.model.Type + " have no formula"
		}
		l.Targets = append(l.Targets, all...)
	}
	return adapt(t, l)
}

// readPretraining is run_pt (train/pt/workflow.py): texts are joined and cut into blocks of cutoff_len, so that nothing
// is padded, unless packing is switched off (hparams/parser.py:645). Its collator pads to the longest sequence alone.
func readPretraining(s *settings, t *training) string {
	_, set := s.get("packing")
	t.pads, t.multiple = set && !s.on("packing"), false
	return ""
}

// readPairs is CustomDPOTrainer (train/dpo/trainer.py): dropout of modules is off, and a reference answers without the
// adapters, or as a frozen copy in the type of the computation, unless the loss wants none
// (hparams/finetuning_args.py:593).
func readPairs(s *settings, t *training) string {
	for _, field := range strings.Fields("ref_model ref_model_adapters ref_model_quantization_bit ld_alpha") {
		if s.has(field) {
			return s.address(field).Path + " has no formula"
		}
	}
	p := &arch.Preference{Precomputed: slices.Contains([]string{"orpo", "simpo"}, s.text("pref_loss", "sigmoid"))}
	t.step.Preference = p
	withoutDropout(t)
	if p.Precomputed || t.step.LoRA != nil {
		return ""
	}
	switch {
	case s.on("pure_bf16"), s.on("bf16"):
		p.Reference = nn.BF16
	case s.on("fp16"):
		p.Reference = nn.F16
	default:
		return "the type in which the reference is loaded is not known: bf16, fp16 or pure_bf16 sets it"
	}
	return ""
}

// attendsFactory reads LLaMA-Factory's flash_attn. Without the package of the kernels it leaves the choice to
// transformers, with a warning of its own (model/model_utils/attention.py:84).
func attendsFactory(s *settings, t *training) string {
	how, module := "", ""
	switch name := s.text("flash_attn", "auto"); name {
	case "auto", "sdpa":
	case "disabled":
		how = "eager"
	case "fa2":
		how, module = "flash_attention_2", "flash_attn"
	case "fa3":
		how, module = "flash_attention_3", "flash_attn_interface"
	default:
		return "flash_attn " + name + " has no formula"
	}
	if module != "" && len(s.release("transformers")) > 0 && !s.env.Has(module) {
		warn(t, "the package %s is not installed, so LLaMA-Factory uses SDPA", module)
		how = ""
	}
	return attends(t, how)
}

// packsFactory is PackedSupervisedDatasetProcessor (LLaMA-Factory's data/processor/supervised.py:146): each row has
// cutoff_len tokens (hparams/data_args.py:189), in multiples of 8. neat_packing keeps its sequences apart, by a mask in
// the batch, or for fa2 by positions (data/collator.py:535).
func packsFactory(s *settings, t *training) string {
	neat := s.on("neat_packing")
	if !neat && !s.on("packing") {
		return ""
	}
	if rest := t.step.Length % 8; rest > 0 {
		t.step.Length += 8 - rest
	} else {
		t.pads, t.multiple = false, false
	}
	switch {
	case !neat:
	case !t.step.Flash:
		t.pads, t.multiple, t.step.Blocks = false, false, true
	case s.text("flash_attn", "") == "fa3":
		return "neat_packing with fa3 has no formula"
	case max(t.split.Micro, t.evals) > 1:
		return "neat_packing with fa2 fails with more than one row in a batch (data/collator.py:539)"
	default:
		t.pads, t.multiple, t.single = false, false, true
	}
	return ""
}

// readQuantFactory is configure_quantization (LLaMA-Factory's model/model_utils/quantization.py:86) of a model that is
// loaded in that type.
func readQuantFactory(s *settings, t *training, compute nn.DType) string {
	if !s.has("quantization_bit") {
		return ""
	}
	if method := s.text("quantization_method", "bnb"); !strings.EqualFold(method, "bnb") { // hparams/model_args.py:280
		return "quantization_method " + method + " has no formula"
	}
	t.step.Weights = compute
	switch bits := s.text("quantization_bit", ""); bits {
	case "4":
		v, ok := s.get("double_quantization") // True in hparams/model_args.py:292
		quantised(t, arch.Quant{Bits: 4, Nested: !ok || strings.EqualFold(v, "true"), Compute: compute})
	case "8":
		quantised(t, arch.Quant{Bits: 8})
	default:
		return "quantization_bit " + bits + " has no formula"
	}
	return ""
}
