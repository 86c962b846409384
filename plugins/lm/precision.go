package lm

import (
	"fmt"
	"strconv"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// readPrecision is mixed precision: of the settings, else of accelerate (training_args.py:1614).
func readPrecision(s *settings, t *training) string {
	launched, why := acceleratePrecision(s, t)
	if why == "" {
		why = surrounded(s, t)
	}
	switch {
	case why != "":
		return why
	case t.bf16:
		t.step.Autocast = nn.BF16
	case s.on("fp16"):
		t.step.Autocast = nn.F16
	case s.on("bf16"): // of trl where neither is set (trl/trainer/base_config.py:108)
		t.step.Autocast = nn.BF16
	case launched == "fp16":
		t.step.Autocast = nn.F16
	case launched == "bf16":
		t.step.Autocast = nn.BF16
	case launched != "" && launched != "no":
		return fmt.Sprintf("mixed precision %q has no formula", launched)
	}
	// adapters are float32 (autocast_adapter_dtype in peft/tuners/tuners_utils.py); all else would have half gradients,
	// which GradScaler refuses (_unscale_grads_ in torch/amp/grad_scaler.py)
	if t.step.Autocast == nn.F16 && t.step.Weights != nn.F32 && t.step.LoRA == nil {
		return "fp16 trains float32 weights alone, and these are half: torch's GradScaler refuses their gradients"
	}
	return ""
}

// readOptimizer is --optim, whose default the version of torch decides (training_args.py:806), since transformers 4.54
// (training_args.py:1291 of 4.54.1).
func readOptimizer(s *settings, t *training) string {
	torch := assume(s, t, "torch")
	major, minor := torch[0], torch[1]
	t.step.Optimizer = "adamw_torch"
	if old := t.step.Release > 0 && t.step.Release < 54; !old && (major > 2 || major == 2 && minor >= 8) {
		t.step.Optimizer = "adamw_torch_fused"
	}
	t.step.Optimizer = s.text("optim", t.step.Optimizer)
	if v, ok := s.get("weight_decay"); ok {
		rate, err := strconv.ParseFloat(v, 64)
		t.step.Decay = err != nil || rate != 0
	}
	if arch.Bitsandbytes(t.step.Optimizer) {
		unmeasured(t, "the optimizer "+t.step.Optimizer)
	}
	if arch.Listed(t.step.Optimizer, t.step.Decay) {
		unmeasured(t, "the copies of lists of the optimizer "+t.step.Optimizer)
	}
	grouped := t.model.KVHeads < t.model.Heads && t.model.KVHeads > 0
	if grouped && t.step.Weights == nn.F32 && t.step.Autocast == nn.F32 && (major < 2 || major == 2 && minor < 15) {
		return fmt.Sprintf("float32 attention with grouped heads has a formula from torch 2.15 on, and this is %d.%d",
			major, minor)
	}
	return ""
}
