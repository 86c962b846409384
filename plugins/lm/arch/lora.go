package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// A LoRA is a LoraConfig of peft, with a plain adapter in each of some linear layers.
type LoRA struct {
	Rank    int64
	Targets []string // names of linear layers, "all-linear" for each of them but lm_head
	Dropout float64
	// Type is the adapters' own: peft makes them float32 where the model is half (autocast_adapter_dtype).
	Type nn.DType
	Whole
	// Wide: an adapter's input becomes float32, though the adapter computes in another type. FSDP 1 with
	// use_orig_params shows peft the type of its parts (_cast_input_dtype), and gathers them in that of the
	// computation.
	Wide bool
	Kernels
}

// has reports whether a linear layer has an adapter.
func (l *LoRA) has(name string) bool {
	return name != head && (slices.Contains(l.Targets, AllLinear) || slices.Contains(l.Targets, name))
}

// AllLinear stands for every linear layer but the last.
const AllLinear = "all-linear"

const head = "lm_head"

// linears are the names of the linear layers of a model's layers.
func (c Config) linears() []string {
	switch {
	case c.Type == "gpt2":
		return []string{"c_attn", "c_proj", "c_fc"}
	case c.Type == "phi":
		return []string{"q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"}
	case c.Norms == layerNorm:
		return append([]string{"c_fc", "c_proj"}, attentionLayers...)
	case c.JoinedHeads:
		return []string{"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
	case c.JoinedGate:
		return append([]string{"gate_up_proj", "down_proj"}, attentionLayers...)
	case c.Ungated:
		return append([]string{"up_proj", "down_proj"}, attentionLayers...)
	}
	return llamaLayers
}

var llamaLayers = append([]string{"gate_proj", "up_proj", "down_proj"}, attentionLayers...)

// HasLinear reports whether a layer of the model has a linear layer of that name, or that of another llama has: peft
// passes over names that no module has, if it finds another.
func (c Config) HasLinear(name string) (there, elsewhere bool) {
	return slices.Contains(c.linears(), name), slices.Contains(llamaLayers, name)
}

// adapted is lora.Linear.forward (peft/tuners/lora/layer.py:1074). The input is cast to the adapter's type first
// (_cast_input_dtype in peft/tuners/tuners_utils.py:2220), under autocast too.
func (d *decoder) adapted(name string, x nn.Tensor, out int64, bias bool) (y nn.Tensor) {
	l := d.s.LoRA
	d.Scope(name, func() {
		result := d.Hold(d.Linear("base_layer", x, out, bias))
		kind, own := result.DType(), d.ParamType
		d.Frozen, d.ParamType = false, l.Type
		kindOf := l.Type
		if l.Wide {
			kindOf = nn.F32
		}
		cast := d.Hold(d.To(x, kindOf))
		d.Line("result = result + lora_B(lora_A(dropout(x))) * scaling")
		low := d.Linear("lora_A.default", d.Dropout(cast, l.Dropout), l.Rank, false)
		high := d.MulScalar(d.Linear("lora_B.default", low, out, false))
		d.Frozen, d.ParamType = true, own
		result = d.Rebind(result, d.Add(result, high))
		y = d.To(result, kind)
	}, x)
	return y
}
