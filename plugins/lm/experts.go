package lm

import "fmt"

// readExperts says what of a mixture of experts has no formula in this program. Before transformers 5.6 tokens are
// gathered twice, and the router's weights stay float32 (integrations/moe.py, modeling_qwen3_moe.py of 5.5).
func readExperts(s *settings, t *training) string {
	switch none := t.model.Experts == nil; {
	case none && weighs(s, "router_aux_loss_coef"):
		return s.address("router_aux_loss_coef").Path + " has no formula for " + t.model.Type
	case none:
		return ""
	}
	v, torch := assume(s, t, "transformers"), assume(s, t, "torch")
	switch {
	case len(v) < 2 || v[0] != 5 || v[1] < 6:
		return "experts have a formula from transformers 5.6 on, and the command's Python has " +
			s.version("transformers")
	case torch[0] < 2 || torch[0] == 2 && torch[1] < 10: // _can_use_grouped_mm (integrations/moe.py:302)
		return fmt.Sprintf("experts have a formula from torch 2.10 on, and this is %d.%d", torch[0], torch[1])
	case s.is(axolotl) && s.given("experts_implementation") && s.text("experts_implementation", "") != "grouped_mm":
		return "experts_implementation " + s.text("experts_implementation", "") + " has no formula"
	case s.is(llamaFactory) && weighs(s, "moe_aux_loss_coef"):
		return "moe_aux_loss_coef, the loss that balances the experts, has no formula"
	}
	// axolotl 0.19 makes the router float32 (loaders/model.py:1171), and leaves experts to transformers otherwise: its
	// own functions for them are those of a plugin, and of quantize_moe_experts
	t.step.Router = s.is(axolotl)
	t.step.Balanced = t.step.Fused && !unbalanced(s) // trl/trainer/sft_trainer.py:1205
	if t.step.Balanced && v[1] < 16 {                // which joins the logits of all layers there
		return "the loss that balances the experts has a formula from transformers 5.16 on: " +
			s.address("router_aux_loss_coef").Path + " 0 leaves it out"
	}
	unmeasured(t, "experts")
	return ""
}
