package lm

import (
	"fmt"
	"strconv"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// readExperts says what of a mixture of experts has no formula in this program. Before transformers 5.6 tokens are
// gathered twice, and the router's weights stay float32 (integrations/moe.py, modeling_qwen3_moe.py of 5.5).
func (t *training) readExperts() string {
	switch none := t.model.Experts == nil; {
	case none && t.weighs("router_aux_loss_coef"):
		return t.address("router_aux_loss_coef").Path + " has no formula for " + t.model.Type
	case none:
		return ""
	}
	v, torch := t.assume("transformers"), t.assume("torch")
	switch {
	case len(v) < 2 || v[0] != 5 || v[1] < 6:
		return "experts have a formula from transformers 5.6 on, and the command's Python has " +
			t.env.Version("transformers")
	case torch[0] < 2 || torch[0] == 2 && torch[1] < 10: // _can_use_grouped_mm (integrations/moe.py:302)
		return fmt.Sprintf("experts have a formula from torch 2.10 on, and this is %d.%d", torch[0], torch[1])
	case t.kind.own != nil && t.given("experts_implementation") && t.text("experts_implementation", "") != "grouped_mm":
		return "experts_implementation " + t.text("experts_implementation", "") + " has no formula"
	case t.kind.pairs && t.weighs("moe_aux_loss_coef"):
		return "moe_aux_loss_coef, the loss that balances the experts, has no formula"
	}
	// axolotl 0.19 makes the router float32 (loaders/model.py:1171), and leaves experts to transformers otherwise: its
	// own functions for them are those of a plugin, and of quantize_moe_experts
	t.step.Router = t.kind.own != nil
	t.step.Balanced = t.step.Fused && !t.unbalanced() // trl/trainer/sft_trainer.py:1205
	if t.step.Balanced && v[1] < 16 {                 // which joins the logits of all layers there
		return "the loss that balances the experts has a formula from transformers 5.16 on: " +
			t.address("router_aux_loss_coef").Path + " 0 leaves it out"
	}
	t.unmeasured("experts")
	return ""
}

// weighs reports whether a field is set, and not to 0.
func (t *training) weighs(field string) bool {
	v, ok := t.get(field)
	n, err := strconv.ParseFloat(v, 64)
	return ok && v != "" && v != "None" && v != "null" && (err != nil || n != 0)
}

// unbalanced reports whether the loss that balances the experts is switched off.
func (t *training) unbalanced() bool {
	v, ok := t.get("router_aux_loss_coef")
	n, err := strconv.ParseFloat(v, 64)
	return ok && err == nil && n == 0
}

// warnExperts notes what quantisation leaves as it was loaded, and what mixed precision leaves alone: grouped_mm is on
// none of autocast's lists (torch 2.15), and the experts' input is cast to the type of their weights
// (integrations/moe.py:379).
func (t *training) warnExperts() {
	if q := t.step.Quant; t.model.Experts != nil && q != nil && t.unknown == "" {
		kept := unit.Bytes(t.model.ExpertParams()) * t.step.Weights.Size()
		t.warn("its experts stay in %v, and take %v: bitsandbytes quantises linear layers, and since transformers 5 "+
			"the experts of a layer are one tensor (replace_with_bnb_linear in integrations/bitsandbytes.py:160)",
			t.step.Weights, kept)
	}
	if t.model.Experts != nil && t.step.Weights == nn.F32 && t.step.Autocast != nn.F32 {
		t.warn("experts compute in float32, the type of their weights: mixed precision leaves grouped_mm alone")
	}
}
