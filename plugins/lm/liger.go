package lm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/launch-ml/launch/plugins/lm/arch"
)

// Figures are of liger-kernel 0.8.5 and transformers 5.23.0.

// ligerPlugin is axolotl's plugin of Liger's kernels. Its switches count with it alone.
const ligerPlugin = "axolotl.integrations.liger.LigerPlugin"

// readLiger reads which of Liger's kernels the model has, for a program that has them.
func (t *training) readLiger() string {
	asked, why := t.ligerAsked()
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
	if why := t.ligerRelease(&l); why != "" {
		return why
	}
	if t.model.Experts != nil {
		return "Liger's kernels have no formula for experts"
	}
	if !t.model.HasLiger() {
		if t.evals > 0 && t.trainerLiger() { // which passes the model skip_logits (trainer.py:3265)
			return "an evaluation of " + t.model.Type + " with use_liger_kernel has no formula"
		}
		t.warn("Liger has no kernels for models of the type %s: the setting changes nothing", t.model.Type)
		return ""
	}
	l.Evaluates = t.trainerLiger() // unless the logits are asked for: see read
	t.step.Liger = l
	t.unmeasured("Liger's kernels")
	return ""
}

// ligerRelease reads what the versions of liger-kernel and of torch change.
func (t *training) ligerRelease(l *arch.Liger) string {
	const name = "liger_kernel"
	if t.env.Known() && len(t.release("transformers")) > 0 && !t.env.Has(name) {
		return "the package liger-kernel is not installed, and the training stops without it"
	}
	v, torch := t.assume(name), t.assume("torch")
	if len(v) < 2 || v[0] != 0 || v[1] != 8 {
		return "the formula is of liger-kernel 0.8, and the command's Python has " + orNone(t.env.Version(name))
	}
	l.Old = len(v) > 2 && v[2] < 5
	l.Wide = torch[0] == 2 && torch[1] < 8
	return ""
}

// trainerLiger reports whether it is the Trainer that turns the kernels on (trainer.py:1494).
func (t *training) trainerLiger() bool { return !t.kind.pairs && t.kind.own == nil }

// ligerAsked are Liger's kernels by their names in apply_liger_kernel_to_llama; nil for none.
func (t *training) ligerAsked() (on map[string]bool, why string) {
	on = map[string]bool{"rope": true, "rms_norm": true, "swiglu": true, "geglu": true,
		"fused_linear_cross_entropy": true}
	switch {
	case !t.trainerLiger() && t.on("use_liger_kernel"):
		return nil, "use_liger_kernel of " + t.kind.dialect + " has no formula"
	case t.kind.own != nil:
		return t.ligerAxolotl(), ""
	case t.kind.pairs && t.on("enable_liger_kernel"):
		if s := t.stage(); s != "sft" && s != "pt" { // model/loader.py:142 and model/model_utils/liger_kernel.py of ff6d4d12e
			on["fused_linear_cross_entropy"], on["cross_entropy"] = false, true
		}
		return on, ""
	case t.kind.pairs, !t.on("use_liger_kernel"):
		return nil, ""
	}
	if v, ok := t.get("liger_kernel_config"); ok && v != "" && v != "None" {
		var config map[string]bool
		if json.Unmarshal([]byte(v), &config) != nil {
			return nil, t.address("liger_kernel_config").Path + " could not be read"
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
func (t *training) ligerAxolotl() map[string]bool {
	if !slices.Contains(t.list("plugins"), ligerPlugin) {
		return nil
	}
	glu := t.on("liger_glu_activation") || t.on("liger_swiglu")
	return map[string]bool{"rope": t.on("liger_rope"), "rms_norm": t.on("liger_rms_norm"), "swiglu": glu, "geglu": glu,
		"cross_entropy":              t.on("liger_cross_entropy"),
		"fused_linear_cross_entropy": t.on("liger_fused_linear_cross_entropy")}
}

// pluginsAxolotl says which of axolotl's plugins and of their settings has no formula.
func (t *training) pluginsAxolotl() string {
	plugins := slices.DeleteFunc(t.list("plugins"), func(name string) bool { return name == "" })
	for _, name := range plugins {
		if name != ligerPlugin && name != cutPlugin {
			return fmt.Sprintf("the plugin %s has no formula", name)
		}
	}
	ours := strings.Fields("liger_rope liger_rms_norm liger_layer_norm liger_glu_activation liger_swiglu " +
		"liger_cross_entropy liger_fused_linear_cross_entropy")
	if why := t.readCut(plugins); why != "" {
		return why
	}
	if !slices.Contains(plugins, ligerPlugin) {
		if i := slices.IndexFunc(ours, t.on); i >= 0 {
			t.warn("%s has no effect: it is a setting of the plugin %s, which plugins does not name", ours[i], ligerPlugin)
		}
		return ""
	}
	switch {
	case t.step.Cut && (t.on("liger_cross_entropy") || t.on("liger_fused_linear_cross_entropy")):
		return "cut cross entropy beside a loss of Liger's has no formula"
	case t.on("liger_use_token_scaling"):
		return "liger_use_token_scaling has no formula"
	case t.has("liger_kernel_impl"):
		return "liger_kernel_impl has no formula"
	case t.on("liger_cross_entropy") && t.on("liger_fused_linear_cross_entropy"):
		return "axolotl refuses liger_cross_entropy beside liger_fused_linear_cross_entropy"
	}
	return ""
}
