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
