package lm

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/launch-ml/launch/plugins/lm/arch"
)

// Figures are of liger-kernel 0.8.5 and transformers 5.23.0.

// ligerPlugin is axolotl's plugin of Liger's kernels. Its switches count with it alone.
const ligerPlugin = "axolotl.integrations.liger.LigerPlugin"

// readLiger reads which of Liger's kernels the model has, for a program that has them.
func readLiger(s *settings, t *training) string {
	asked, why := ligerAsked(s, t)
	if asked == nil || why != "" {
		return why
	}
	on := func(kernel string) bool { return asked[kernel] }
	l := arch.Liger{Rope: on("rope"), Norm: on("rms_norm"), MLP: on("swiglu"), Head: on("fused_linear_cross_entropy"),
		// of mistral it changes a name that nothing uses (liger_kernel/transformers/monkey_patch.py)
		Cross: on("cross_entropy") && t.model.Type != "mistral"}
	if t.model.Type == "gemma" {
		l.MLP = on("geglu")
	}
	if l == (arch.Liger{}) {
		return ""
	}
	if why := ligerRelease(s, t, &l); why != "" {
		return why
	}
	switch {
	case t.model.Experts != nil:
		return "Liger's kernels have no formula for experts"
	case t.model.LigerUnread():
		return "Liger's kernels have no formula for " + t.model.Type
	}
	if !t.model.HasLiger() {
		if t.evals > 0 && trainerLiger(s) { // which passes the model skip_logits (trainer.py:3265)
			return "an evaluation of " + t.model.Type + " with use_liger_kernel has no formula"
		}
		warn(t, "Liger has no kernels for models of the type %s: the setting changes nothing", t.model.Type)
		return ""
	}
	l.Evaluates = trainerLiger(s) && !t.predicted // trainer.py:3265
	t.step.Liger = l
	unmeasured(t, "Liger's kernels")
	return ""
}

// ligerRelease reads what the versions of liger-kernel and of torch change.
func ligerRelease(s *settings, t *training, l *arch.Liger) string {
	const name = "liger_kernel"
	if s.env.Known() && len(s.release("transformers")) > 0 && !s.env.Has(name) {
		return "the package liger-kernel is not installed, and the training stops without it"
	}
	v, torch := assume(s, t, name), assume(s, t, "torch")
	if len(v) < 2 || v[0] != 0 || v[1] != 8 {
		return "the formula is of liger-kernel 0.8, and the command's Python has " + orNone(s.version(name))
	}
	l.Old = len(v) > 2 && v[2] < 5
	l.Wide = torch[0] == 2 && torch[1] < 8
	return ""
}

// trainerLiger reports whether it is the Trainer that turns the kernels on (trainer.py:1494).
func trainerLiger(s *settings) bool { return !s.is(llamaFactory) && !s.is(axolotl) }

// ligerAsked are Liger's kernels by their names in apply_liger_kernel_to_llama; nil for none.
func ligerAsked(s *settings, t *training) (on map[string]bool, why string) {
	on = map[string]bool{"rope": true, "rms_norm": true, "swiglu": true, "geglu": true,
		"fused_linear_cross_entropy": true}
	switch {
	case !trainerLiger(s) && s.on("use_liger_kernel"):
		return nil, "use_liger_kernel of " + s.kind.dialect + " has no formula"
	case s.is(axolotl):
		return ligerAxolotl(s), ""
	case s.is(llamaFactory) && s.on("enable_liger_kernel"):
		// model/loader.py:142 and model/model_utils/liger_kernel.py of ff6d4d12e
		if stage := stage(s); stage != "sft" && stage != "pt" {
			on["fused_linear_cross_entropy"], on["cross_entropy"] = false, true
		}
		return on, ""
	case s.is(llamaFactory), !s.on("use_liger_kernel"):
		return nil, ""
	}
	if v, ok := s.get("liger_kernel_config"); ok && v != "" && v != "None" {
		var config map[string]bool
		if json.Unmarshal([]byte(v), &config) != nil {
			return nil, s.address("liger_kernel_config").Path + " could not be read"
		}
		maps.Copy(on, config)
		if config["fused_linear_cross_entropy"] && t.step.Fused { // trl/trainer/sft_trainer.py:1136
			return nil, "trl refuses fused_linear_cross_entropy in liger_kernel_config: it has a fused head of its own"
		}
	}
	if t.step.Fused { // trl/trainer/sft_trainer.py:1140, dpo_trainer.py:952
		on["fused_linear_cross_entropy"] = false
	}
	if on["cross_entropy"] && on["fused_linear_cross_entropy"] {
		return nil, "Liger refuses cross_entropy beside fused_linear_cross_entropy"
	}
	return on, ""
}

// ligerAxolotl are the switches of axolotl's plugin, each off where nothing sets it
// (src/axolotl/integrations/liger/plugin.py, pre_model_load, of axolotl 0.19.0).
func ligerAxolotl(s *settings) map[string]bool {
	if !slices.Contains(s.list("plugins"), ligerPlugin) {
		return nil
	}
	glu := s.on("liger_glu_activation") || s.on("liger_swiglu")
	return map[string]bool{"rope": s.on("liger_rope"), "rms_norm": s.on("liger_rms_norm"), "swiglu": glu, "geglu": glu,
		"cross_entropy":              s.on("liger_cross_entropy"),
		"fused_linear_cross_entropy": s.on("liger_fused_linear_cross_entropy")}
}
