package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// Whole are the modules that peft trains whole beside adapters (LoraConfig's modules_to_save), by their names. Each
// keeps its original, which is frozen, and has a copy that is trained (ModulesToSaveWrapper.update in
// peft/utils/other.py:632). Where adapters are switched off the original answers (line 622).
//
// The copy is tied to nothing: where the last layer is the embedding, the other of the two stays the original
// (ensure_weight_tying, which ties them, is off).
type Whole struct {
	Names []string // of embed_tokens and lm_head
	// Type is that of the copies. peft leaves them the model's: it makes layers of adapters float32 alone
	// (cast_adapter_dtype in peft/tuners/tuners_utils.py:2705).
	Type nn.DType
}

// ofWhole says what of modules that are trained whole has no formula; "" for nothing.
func (s Step) ofWhole() string {
	if s.LoRA == nil || len(s.LoRA.Names) == 0 {
		return ""
	}
	for _, name := range s.LoRA.Names {
		if name != "embed_tokens" && name != head {
			return "the module " + name + ", trained whole beside adapters, has no formula"
		}
	}
	switch {
	case s.Model.Type == "gpt2" || s.Model.Type == "phi" || s.Model.Experts != nil:
		return "modules that are trained whole beside adapters have no formula for " + s.Model.Type
	case s.Shards != nil || s.FSDP != nil:
		return "modules that are trained whole beside adapters have no formula with divided states"
	case s.Liger.Head && slices.Contains(s.LoRA.Names, head):
		return "Liger's fused loss has no formula for a last layer that is trained whole beside adapters"
	}
	return ""
}

// whole reports whether a module is trained whole beside adapters.
func (d *decoder) whole(name string) bool {
	return d.s.LoRA != nil && slices.Contains(d.s.LoRA.Names, name)
}

// wrapped runs f, which asks for the weight of so many rows, within the module of that name: in its copy where it is
// trained whole.
func (d *decoder) wrapped(name string, rows int64, f func()) {
	switch {
	case !d.whole(name):
		f()
		return
	case d.plain:
		d.Scope("original_module", f)
		return
	case name != head || !d.Tied: // or the original is the embedding's
		d.Scope("original_module", func() { d.FrozenParam("weight", rows, d.Hidden) })
	}
	own := d.ParamType
	d.Frozen, d.ParamType = false, d.s.LoRA.Whole.Type
	d.Scope("modules_to_save", func() { d.Scope("default", f) })
	d.Frozen, d.ParamType = true, own
}

// tied is the embedding's weight, as the last layer has it.
func (d *decoder) tied() (w nn.Tensor) {
	outer, inner := d.embedding()
	path := []string{outer, inner}
	if d.whole(inner) {
		path = append(path, "original_module")
	}
	d.nested(path, func() { w = d.Param("weight", d.Vocab, d.Hidden) })
	return w
}

// borrows reports whether the last layer has the embedding's weight.
func (d *decoder) borrows() bool { return d.Tied && (d.plain || !d.whole(head)) }
