package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// Kernels are axolotl's functions of autograd in place of peft's layers (kernels/lora.py of axolotl 0.19.0), of each
// group of layers that all have adapters (monkeypatch/lora_kernels.py:420).
type Kernels struct{ QKV, O, MLP bool }

// any reports whether one of them is on.
func (k Kernels) any() bool { return k.QKV || k.O || k.MLP }

// kernelled are the models whose attention axolotl finds the lines of (QKV_PATCHES in monkeypatch/lora_kernels.py:28);
// of any other it stops. An MLP without a gate of its own stays peft's (find_mlp_in_layer).
var kernelled = []string{"llama", "mistral", "qwen2", "qwen3", "gemma", "mixtral", "qwen2_moe", "qwen3_moe", "arcee",
	"seed_oss", "smollm3", "granite", "gemma2", "gemma3_text", "glm", "glm4", "hunyuan_v1_dense", "exaone4", "ernie4_5",
	"starcoder2", "ministral"}

// ofAxolotl says what of a step that axolotl alone makes has no formula; "" for nothing.
func (s Step) ofAxolotl() string {
	kernels := s.LoRA != nil && s.LoRA.any()
	switch {
	case kernels && s.Quant != nil && (s.Quant.Bits != 4 || !s.Quant.Nested):
		return "axolotl's kernels for adapters have a formula for 4 bits with quantised scales alone"
	case kernels && !slices.Contains(kernelled, s.Model.Type):
		return "axolotl's kernels for adapters stop at " + s.Model.Type +
			", whose attention has other lines: lora_qkv_kernel, lora_o_kernel and lora_mlp_kernel of false switch them off"
	case s.Upcast && (s.Model.Type == "gpt2" || s.Model.Type == "phi" || s.Model.Norms == layerNorm):
		return "an embedding and norms in float32 have no formula for " + s.Model.Type
	}
	return ""
}

// all reports whether every one of the layers has an adapter.
func (l *LoRA) all(names ...string) bool {
	return l != nil && !slices.ContainsFunc(names, func(name string) bool { return !l.has(name) })
}

// fusesMLP reports whether the MLP is one function, which ends without a dropout.
func (d *decoder) fusesMLP() bool {
	l := d.s.LoRA
	return l != nil && l.MLP && l.all("gate_proj", "up_proj", "down_proj") && !d.Ungated && !d.JoinedGate
}

// A projection is a linear layer with an adapter, as get_lora_parameters takes it apart (kernels/lora.py:26).
type projection struct {
	weight, bias, a, b nn.Tensor
	in, out            int64
}

func (d *decoder) projection(name string, in, out int64, bias bool) (p projection) {
	p.in, p.out = in, out
	d.Scope(name, func() {
		d.Scope("base_layer", func() {
			if d.s.Quant != nil {
				d.packed(out * in)
			} else {
				p.weight = d.Param("weight", out, in)
			}
			if bias {
				p.bias = d.Param("bias", out)
			}
		})
		own := d.ParamType
		d.Frozen, d.ParamType = false, d.s.LoRA.Type
		d.Scope("lora_A.default", func() { p.a = d.Param("weight", d.s.LoRA.Rank, in) })
		d.Scope("lora_B.default", func() { p.b = d.Param("weight", out, d.s.LoRA.Rank) })
		d.Frozen, d.ParamType = true, own
	})
	return p
}

// dropped is _apply_dropout (kernels/lora.py:118): x itself where there is none.
func (d *decoder) dropped(x nn.Tensor) nn.Tensor { return d.Hold(d.Dropout(x, d.s.LoRA.Dropout)) }

// times is matmul_lora (kernels/lora.py:226): the adapter is added in place.
func (d *decoder) times(x, dropped nn.Tensor, p projection) (y nn.Tensor) {
	d.Scope("", func() {
		d.Scope("", func() {
			w := p.weight
			if q := d.s.Quant; q != nil {
				w = d.Hold(d.Zeros(q.Loaded, p.out, p.in))
				d.Line("out_absmax += offset")
				d.Zeros(nn.F32, blocks(p.out*p.in, blockOf4Bit))
			}
			d.Line("out = torch.matmul(X, W, out=out)")
			y = d.LinearWeight(x, w, nn.Tensor{})
		}, x)
		d.Hold(y)
		d.Line("out.addmm_(X_lora @ A, B, alpha=s)")
		a := d.Hold(d.To(p.a, x.DType()))
		d.Hold(d.To(p.b, x.DType()))
		d.LinearWeight(dropped, a, nn.Tensor{})
	}, x, dropped)
	return y
}

// kept are the adapter's weights in the type of the computation, which backward uses: copies where that is another.
func (d *decoder) kept(x nn.Tensor, p projection) []nn.Tensor {
	return []nn.Tensor{d.Hold(d.To(p.a, x.DType())), d.Hold(d.To(p.b, x.DType()))}
}

// inputs are those of a function of autograd: what asks for a gradient.
func inputs(x, dropped nn.Tensor, ps ...projection) []nn.Tensor {
	xs := []nn.Tensor{x}
	if dropped != x {
		xs = append(xs, dropped)
	}
	for _, p := range ps {
		xs = append(xs, p.a, p.b)
	}
	return xs
}

// ranked is how many bytes backward of projections has at once beside its results: gradients at the rank, before and
// after; and a weight of 4 bits made anew (kernels/quantize.py, _ctypes_nf4_dequant).
func (d *decoder) ranked(x nn.Tensor, ps ...projection) int64 {
	tokens, again := x.Numel()/x.Dim(-1), int64(0)
	for _, p := range ps {
		if q := d.s.Quant; q != nil {
			again = max(again, p.out*p.in*int64(q.Loaded.Size())+4*blocks(p.out*p.in, blockOf4Bit))
		}
	}
	return int64(len(ps)+1)*tokens*d.s.LoRA.Rank*int64(x.DType().Size()) + again
}

// fusedQKV is LoRA_QKV (kernels/lora.py:821).
func (d *decoder) fusedQKV(x nn.Tensor) (q, k, v nn.Tensor) {
	ps := []projection{d.projection("q_proj", d.Hidden, d.Heads*d.HeadDim, d.AttentionBias),
		d.projection("k_proj", d.Hidden, d.KVHeads*d.HeadDim, d.AttentionBias),
		d.projection("v_proj", d.Hidden, d.KVHeads*d.HeadDim, d.AttentionBias)}
	d.Scope("", func() {
		dropped := d.dropped(x)
		ys := d.ApplyAll(nn.Functions{Name: "LoRA_QKV", Temps: d.ranked(x, ps...), Forward: func() (ys, saved []nn.Tensor) {
			saved = []nn.Tensor{x, dropped}
			for _, p := range ps {
				ys = append(ys, d.Hold(d.times(x, dropped, p)))
			}
			for _, p := range ps {
				saved = append(saved, d.kept(x, p)...)
			}
			return ys, saved
		}}, inputs(x, dropped, ps...)...)
		q, k, v = ys[0], ys[1], ys[2]
	}, x)
	return q, k, v
}

// fusedO is LoRA_O (kernels/lora.py:1623).
func (d *decoder) fusedO(x nn.Tensor) (y nn.Tensor) {
	p := d.projection("o_proj", d.Heads*d.HeadDim, d.Hidden, d.OutputBias)
	d.Scope("", func() {
		dropped := d.dropped(x)
		y = d.Apply(nn.Function{Name: "LoRA_O", Temps: d.ranked(x, p), Forward: func() (nn.Tensor, []nn.Tensor) {
			out := d.Hold(d.times(x, dropped, p))
			return out, append(d.kept(x, p), x, dropped)
		}}, inputs(x, dropped, p)...)
	}, x)
	return y
}

// fusedMLP is LoRA_MLP (kernels/lora.py:283) with a gated activation, whose backward writes into its inputs
// (kernels/swiglu.py). The gradient of the hidden states is the result of down_proj's backward.
func (d *decoder) fusedMLP(x nn.Tensor) (y nn.Tensor) {
	gate := d.projection("gate_proj", d.Hidden, d.Inner, d.MLPBias)
	up := d.projection("up_proj", d.Hidden, d.Inner, d.MLPBias)
	down := d.projection("down_proj", d.Inner, d.Hidden, d.MLPBias)
	d.Scope("", func() {
		dropped := d.dropped(x)
		tokens := x.Numel() / x.Dim(-1)
		temps := d.ranked(x, gate, up, down) + tokens*d.Inner*int64(x.DType().Size())
		y = d.Apply(nn.Function{Name: "LoRA_MLP", Temps: temps, Forward: func() (nn.Tensor, []nn.Tensor) {
			g, u := d.Hold(d.times(x, dropped, gate)), d.Hold(d.times(x, dropped, up))
			d.Line("hidden = activation_fn(gate, up)")
			hidden := d.Hold(d.Zeros(g.DType(), g.Shape()...))
			out := d.Hold(d.times(hidden, hidden, down))
			saved := []nn.Tensor{x, dropped, g, u}
			for _, p := range []projection{gate, up, down} {
				saved = append(saved, d.kept(x, p)...)
			}
			return out, saved
		}}, inputs(x, dropped, gate, up, down)...)
	}, x)
	return y
}
