package lm

import (
	"fmt"
	"slices"
	"strconv"
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
func (t *training) readFactory() string {
	if v := strings.ToLower(t.getenv("USE_V1")); t.prog.Path() == "" && v != "" && v != "0" && v != "false" {
		return "USE_V1 starts another program of LLaMA-Factory, which has no formula" // cli.py:19 of 0.9.5
	}
	stage := stages[t.stage()]
	if stage == nil {
		return "the stage " + t.stage() + " has no formula"
	}
	if i := slices.IndexFunc(factorySwitches, t.on); i >= 0 {
		return factorySwitches[i] + " has no formula"
	}
	if t.stage() != "sft" && t.on("neat_packing") { // hparams/parser.py:423
		return "neat_packing is refused by LLaMA-Factory for the stage " + t.stage()
	}
	if i := slices.IndexFunc(factoryOthers, t.has); i >= 0 {
		return factoryOthers[i] + " has no formula"
	}
	p, err := t.find(t.text("model_name_or_path", ""), t.text("model_revision", "main"))
	if err == nil {
		t.model, err = arch.Read(p.config)
	}
	if err != nil {
		return err.Error()
	}
	if why := t.attendsFactory(); why != "" {
		return why
	}
	if t.step.Length, err = t.count("cutoff_len", 2048); err != nil { // hparams/data_args.py:46
		return err.Error()
	}
	t.pads, t.multiple = true, true // of 8 (train/sft/workflow.py:63, train/dpo/workflow.py:50)
	if why := t.readTuning(typed(p.config)); why != "" {
		return why
	}
	return stage(t)
}

// readTuning is init_adapter (model/adapter.py:337): the model is loaded in the type of the computation, and whole
// models are float32 unless pure_bf16 is on. named says that the configuration names a type.
func (t *training) readTuning(named bool) string {
	compute := nn.BF16
	switch {
	case t.on("pure_bf16") || t.on("bf16"): // hparams/parser.py:512 of 0.9.5, before fp16
	case t.on("fp16"):
		compute = nn.F16
	default: // infer_optim_dtype (extras/misc.py:241 of 0.9.5): of the configuration; float32 without an accelerator
		t.inferred = true
		if named && t.model.DType != nn.BF16 {
			compute = nn.F16
		}
	}
	trained := nn.F32
	if t.on("pure_bf16") {
		trained = nn.BF16
	}
	switch how := t.text("finetuning_type", "lora"); how {
	case "full":
		if t.has("quantization_bit") {
			return "quantization_bit without adapters is refused by LLaMA-Factory (model/adapter.py:332)"
		}
		t.step.Weights = trained
		return ""
	case "lora":
		t.step.Weights = compute
		if why := t.readQuantFactory(compute); why != "" {
			return why
		}
		return t.readFactoryLoRA(trained)
	default:
		return "finetuning_type " + how + " has no formula"
	}
}

// readFactoryLoRA reads the adapters. They are float32 with pure_bf16, too: peft makes them so (autocast_adapter_dtype
// of get_peft_model, peft 0.18.1), and nothing makes them half again.
func (t *training) readFactoryLoRA(trained nn.DType) string {
	rank, err := t.count("lora_rank", 8) // hparams/finetuning_args.py:77
	if err != nil {
		return err.Error()
	}
	// modules that are trained whole: float32 unless pure_bf16 is on (model/adapter.py:286 of 0.9.5)
	l := &arch.LoRA{Rank: rank, Type: nn.F32, Whole: arch.Whole{Type: trained}}
	for name := range strings.SplitSeq(t.text("additional_target", ""), ",") {
		if name = strings.TrimSpace(name); name != "" {
			l.Names = append(l.Names, name)
		}
	}
	if v, ok := t.get("lora_dropout"); ok {
		if l.Dropout, err = strconv.ParseFloat(v, 64); err != nil || !(l.Dropout >= 0 && l.Dropout < 1) {
			return fmt.Sprintf("lora_dropout is %q: it is a number from 0 to 1", v)
		}
	}
	for name := range strings.SplitSeq(t.text("lora_target", "all"), ",") {
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
	return t.adapt(l)
}
