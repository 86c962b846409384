package lm

import "slices"

// cutPlugin is axolotl's plugin of cut cross entropy, which is on where the plugin is named, unless cut_cross_entropy
// is false or null (integrations/cut_cross_entropy/args.py of axolotl 0.19.0).
const cutPlugin = "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"

// readCut reads whether the loss is cut cross entropy, or says why the training would stop with it.
func (t *training) readCut(plugins []string) string {
	const field, module = "cut_cross_entropy", "cut_cross_entropy"
	if !slices.Contains(plugins, cutPlugin) {
		if t.on(field) {
			t.warn("%s has no effect: it is a setting of the plugin %s, which plugins does not name", field, cutPlugin)
		}
		return ""
	}
	if t.nothing(field) || t.set(field) && !t.on(field) {
		return ""
	}
	if t.env.Known() && len(t.release("transformers")) > 0 && !t.env.Has(module) {
		return "the package cut-cross-entropy is not installed, and the training stops without it"
	}
	t.step.Cut = true
	t.unmeasured("cut cross entropy")
	return ""
}
