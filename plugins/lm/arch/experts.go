package arch

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// Experts are the mixture of experts that layers have in the place of an MLP.
//
// Tokens are sorted by their expert, and each product is of all experts at once (grouped_mm_experts_forward in
// integrations/moe.py, which transformers takes unless it is told otherwise: modeling_utils.py:1884). A token has Each
// rows whichever experts it goes to, so that no size depends on how the tokens are spread over the experts.
type Experts struct {
	Count, Each, Inner int64
	Shared             int64  // channels of an expert that every token goes to; 0 for none
	Normalised         bool   // norm_topk_prob
	Wide               bool   // the router's weights stay float32, and so does what they weigh
	Dense              []bool // by layer, which of them have an MLP; nil for none
}

// rawExperts is what config.json says of the experts.
type rawExperts struct {
	Local       *int64          `json:"num_local_experts"`
	Count       *int64          `json:"num_experts"`
	Each        *int64          `json:"num_experts_per_tok"`
	ExpertInner *int64          `json:"moe_intermediate_size"`
	Shared      *int64          `json:"shared_expert_intermediate_size"`
	Every       *int64          `json:"decoder_sparse_step"`
	Dense       []int64         `json:"mlp_only_layers"`
	Normalised  *bool           `json:"norm_topk_prob"`
	QKVBias     *bool           `json:"qkv_bias"`
	Logits      bool            `json:"output_router_logits"`
	Jitter      float64         `json:"router_jitter_noise"`
	Clip        json.RawMessage `json:"clip_qkv"`
	How         *string         `json:"experts_implementation"`
}

// another says what makes the experts another forward; "" for nothing.
func (r rawExperts) another() string {
	switch {
	case r.Logits:
		return "output_router_logits, the loss that balances the experts"
	case r.Jitter != 0:
		return "router_jitter_noise"
	case present(r.Clip):
		return "clip_qkv"
	case r.How != nil && *r.How != "grouped_mm":
		return "experts_implementation " + *r.How
	}
	return ""
}

// readMixtral is MixtralConfig (models/mixtral/configuration_mixtral.py).
func readMixtral(r raw) Config {
	c := readMistral(r)
	c.Experts = &Experts{Count: first(r.Local, r.Count, 8), Each: or(r.Each, 2), Inner: c.Inner, Normalised: true,
		Wide: true}
	return c
}

// readQwen3Moe is Qwen3MoeConfig (models/qwen3_moe/configuration_qwen3_moe.py).
func readQwen3Moe(r raw) Config {
	c, bias := qwenMoe(r, 6144, 32, 4), or(r.AttentionBias, false)
	c.QueryNorm, c.AttentionBias, c.OutputBias = true, bias, bias
	c.Experts.Count, c.Experts.Inner = first(r.Count, r.Local, 128), or(r.ExpertInner, 768)
	c.Experts.Each = or(r.Each, 8)
	return c
}

// readQwen2Moe is Qwen2MoeConfig (models/qwen2_moe/configuration_qwen2_moe.py).
func readQwen2Moe(r raw) Config {
	c := qwenMoe(r, 5632, 16, 16)
	c.AttentionBias = or(r.QKVBias, true)
	c.Experts.Count, c.Experts.Inner = or(r.Count, 60), or(r.ExpertInner, 1408)
	c.Experts.Each, c.Experts.Shared = or(r.Each, 4), or(r.Shared, 5632)
	return c
}

// qwenMoe is what the two have alike, with these defaults.
func qwenMoe(r raw, inner, heads, kv int64) Config {
	c := Config{Vocab: or(r.Vocab, 151936), Hidden: or(r.Hidden, 2048), Inner: or(r.Inner, inner),
		Layers: or(r.Layers, 24), Heads: or(r.Heads, heads), KVHeads: or(r.KVHeads, kv), HeadDim: or(r.HeadDim, 0),
		Positions: or(r.Positions, 32768), Activation: or(r.Act, "silu"), Tied: or(r.Tied, false),
		Attention: or(r.AttnDropout, 0)}
	if or(r.UseSliding, false) {
		c.Window = or(r.Window, 4096)
	}
	c.Experts = &Experts{Normalised: or(r.Normalised, false)}
	if every := or(r.Every, 1); every > 1 || len(r.Dense) > 0 {
		for i := range min(max(c.Layers, 0), most) {
			c.Experts.Dense = append(c.Experts.Dense, slices.Contains(r.Dense, i) || (i+1)%max(every, 1) != 0)
		}
	}
	return c
}

// readOlmoe is OlmoeConfig (models/olmoe/configuration_olmoe.py): queries and keys are normalised over all heads.
func readOlmoe(r raw) Config {
	bias := or(r.AttentionBias, false)
	c := Config{Vocab: or(r.Vocab, 50304), Hidden: or(r.Hidden, 2048), Inner: or(r.Inner, 2048),
		Layers: or(r.Layers, 16), Heads: or(r.Heads, 16), KVHeads: or(r.KVHeads, 0), HeadDim: or(r.HeadDim, 0),
		Positions:  or(r.Positions, 4096),
		Activation: or(r.Act, "silu"), Tied: or(r.Tied, false), Attention: or(r.AttnDropout, 0), QueryNorm: true,
		AttentionBias: bias, OutputBias: bias, Form: Form{WholeNorm: true}}
	c.Experts = &Experts{Count: first(r.Count, r.Local, 64), Each: or(r.Each, 8), Inner: c.Inner,
		Normalised: or(r.Normalised, false)}
	return c
}

// check reports experts that no model can have.
func (e *Experts) check(c Config) error {
	switch {
	case e == nil:
		return nil
	case c.Type == "qwen2_moe" && c.Window > 0:
		return fmt.Errorf("a model of the type %q with use_sliding_window: %w", c.Type, ErrUnknown)
	case e.Count < 1 || e.Count > 1<<12 || e.Each < 1 || e.Each > e.Count || e.Inner < 1 || e.Inner > most ||
		e.Shared < 0 || e.Shared > most:
		return fmt.Errorf("%d experts of %d channels, %d for each token, in config.json: %w", e.Count, e.Inner, e.Each,
			ErrUnknown)
	}
	return nil
}

// ExpertParams are the elements of all experts.
func (c Config) ExpertParams() (n int64) {
	for i := range c.Layers {
		if !c.Experts.dense(i) {
			n += 3 * c.Experts.Count * c.Experts.Inner * c.Hidden
		}
	}
	return n
}

// dense reports whether that layer has an MLP.
func (e *Experts) dense(layer int64) bool { return e == nil || e.Dense != nil && e.Dense[layer] }

// attentionLayers are the linear layers of attention.
var attentionLayers = []string{"q_proj", "k_proj", "v_proj", "o_proj"}

// AllTargets are the names of all linear layers but the last: [AllLinear], or those of attention where the rest are
// experts, which are no linear layers. ok is false where some others have names that experts of transformers 4 had.
func (c Config) AllTargets() (names []string, ok bool) {
	switch e := c.Experts; {
	case e == nil:
		return []string{AllLinear}, true
	case e.Shared > 0 || e.Dense != nil:
		return nil, false
	}
	return attentionLayers, true
}

// ofExperts says what of a step with experts has no formula; "" for nothing.
func (s Step) ofExperts() string {
	if s.Model.Experts == nil {
		return ""
	}
	of := "experts of " + s.Model.Type
	switch {
	case s.Shards != nil && s.Shards.Stage == 3:
		return "ZeRO 3 has no formula for " + of + ": how much of a layer is gathered at once was not read"
	case s.Router && (s.Shards != nil || s.FSDP != nil || s.Quant != nil):
		return "a router in float32, as axolotl makes it, has no formula in parts, or with quantised weights"
	case s.Preference != nil:
		return "preference optimisation has no formula for " + of
	case s.LoRA == nil:
		return ""
	}
	for _, name := range s.LoRA.Targets {
		// peft makes of others adapters of experts (peft/utils/transformers_weight_conversion.py:402), also of all-linear
		if !slices.Contains(attentionLayers, name) {
			return fmt.Sprintf("adapters of %s have no formula, but those of attention alone (%s): %s", of,
				"q_proj, k_proj, v_proj, o_proj", name)
		}
	}
	return ""
}

// mixture is forward of MixtralSparseMoeBlock (models/mixtral/modeling_mixtral.py:121), Qwen3MoeSparseMoeBlock,
// OlmoeSparseMoeBlock, and Qwen2MoeSparseMoeBlock, which has a shared expert.
func (d *decoder) mixture(_ *nn.Tape, x nn.Tensor) nn.Tensor {
	b, n, h := x.Dim(0), x.Dim(1), x.Dim(2)
	rows := d.Hold(d.View(x, b*n, h))
	var shared nn.Tensor
	if d.Experts.Shared > 0 {
		shared = d.Hold(d.Call("shared_expert", rows, func(_ *nn.Tape, x nn.Tensor) nn.Tensor {
			return d.gatedBy(x, d.Experts.Shared)
		}))
	}
	logits, weights, chosen := d.route(rows)
	d.Hold(logits)
	d.Hold(weights)
	d.Hold(chosen)
	y := d.Hold(d.experts(rows, weights, chosen))
	if d.Experts.Shared > 0 {
		d.Line("F.sigmoid(self.shared_expert_gate(hidden_states_reshaped)) * shared_expert_output")
		shared = d.Rebind(shared, d.Mul(d.Sigmoid(d.linear("shared_expert_gate", rows, 1, false)), shared))
		y = d.Rebind(y, d.Add(y, shared))
	}
	return d.View(y, b, n, h)
}

// route is MixtralTopKRouter.forward (modeling_mixtral.py:104), and that of the others, which cast the weights back.
func (d *decoder) route(x nn.Tensor) (logits, weights, chosen nn.Tensor) {
	e := d.Experts
	d.Scope("gate", func() {
		d.Line("router_logits = F.linear(hidden_states, self.weight)")
		logits = d.Hold(d.LinearWeight(x, d.router(), nn.Tensor{}))
		d.Line("router_probs = torch.nn.functional.softmax(router_logits, dtype=torch.float, dim=-1)")
		probs := d.Hold(d.SoftmaxAs(d.To(logits, nn.F32)))
		d.Line("router_top_value, router_indices = torch.topk(router_probs, self.top_k, dim=-1)")
		weights, chosen = d.TopK(probs, e.Each)
		d.Hold(weights)
		d.Hold(chosen)
		if e.Normalised {
			d.Line("router_top_value /= router_top_value.sum(dim=-1, keepdim=True)")
			weights = d.DivInplace(weights, d.SumDim(weights, -1))
		}
		if !e.Wide {
			weights = d.Rebind(weights, d.To(weights, logits.DType()))
		}
	}, x)
	return logits, weights, chosen
}

// router is the router's weight.
func (d *decoder) router() (w nn.Tensor) {
	own := d.ParamType
	if d.s.Router {
		d.ParamType = nn.F32
	}
	w = d.Param("weight", d.Experts.Count, d.Hidden)
	d.ParamType = own
	return w
}

// experts is grouped_mm_experts_forward (integrations/moe.py:424), of x (tokens, hidden) with weights and numbers of
// experts (tokens, Each).
func (d *decoder) experts(x, weights, chosen nn.Tensor) (y nn.Tensor) {
	e, n := d.Experts, x.Dim(0)
	s := n * e.Each
	d.Scope("experts", func() {
		sample, ids := d.Hold(d.View(weights, s)), d.Hold(d.View(chosen, s))
		d.Line("expert_ids_g, perm = torch.sort(expert_ids)")
		sorted := d.Integers("torch.sort", ids, 2, s)
		perm := d.Hold(sorted[1])
		d.Hold(sorted[0])
		d.Line("selected_hidden_states_g = hidden_states[perm // num_top_k]")
		selected := d.Hold(d.Lookup(x, d.Integers("torch.floor_divide", perm, 1, s)[0], s, d.Hidden))
		d.Line("sample_weights_g = sample_weights[perm]")
		sample = d.Hold(d.Lookup(sample, perm, s))
		d.Line("tokens_per_expert = torch.histc(histc_input, bins=self.num_experts, min=0, max=self.num_experts - 1)")
		d.Hold(d.Zeros(nn.F32, s)) // histc_input
		d.Hold(d.Zeros(nn.F32, e.Count))
		ends := d.Hold(d.Zeros(nn.F32, e.Count))
		d.Line("proj_out = _grouped_linear(selected_hidden_states_g, selected_weights, offsets, bias=selected_biases)")
		product := d.Hold(d.grouped(selected, d.Param("gate_up_proj", e.Count, 2*e.Inner, d.Hidden), ends))
		d.Line("proj_out = self._apply_gate(proj_out)")
		product = d.Rebind(product, d.applyGate(product))
		d.Line("proj_out = _grouped_linear(proj_out, selected_weights, offsets, bias=selected_biases)")
		product = d.Rebind(product, d.grouped(product, d.Param("down_proj", e.Count, d.Hidden, e.Inner), ends))
		d.Line("weighted_out = proj_out * sample_weights_g.unsqueeze(-1)")
		weighted := d.Hold(d.Mul(product, d.View(sample, s, 1)))
		d.Line("inv_perm[perm] = torch.arange(perm.size(0), device=device)")
		back := d.Hold(d.Zeros(nn.I64, s))
		d.Zeros(nn.I64, s)
		d.Line("weighted_out = weighted_out[inv_perm]")
		weighted = d.Rebind(weighted, d.Lookup(weighted, back, s, d.Hidden))
		d.Line("final_hidden_states = weighted_out.view(num_tokens, num_top_k, hidden_dim).sum(dim=1)")
		y = d.To(d.Hold(d.SumRows(weighted, n)), x.DType())
	}, x, chosen, weights)
	return y
}

// grouped is _grouped_linear (integrations/moe.py:386), which casts its input to the weight's type.
func (d *decoder) grouped(x, w, ends nn.Tensor) (y nn.Tensor) {
	d.Scope("", func() { y = d.GroupedMM(d.To(x, w.DType()), w, ends) }, x)
	return y
}

// applyGate is _default_apply_gate (integrations/moe.py:568): gate, up = gate_up_out.chunk(2, dim=-1), and
// self.act_fn(gate) * up.
func (d *decoder) applyGate(x nn.Tensor) (y nn.Tensor) {
	d.Scope("", func() {
		halves := d.Split(x, -1, d.Experts.Inner, d.Experts.Inner)
		y = d.Mul(d.activate(d.Hold(halves[0])), d.Hold(halves[1]))
	}, x)
	return y
}

// balancing is at most what load_balancing_loss_func (models/mixtral/modeling_mixtral.py:474) keeps and needs, of all
// layers: the router's logits, which the model's outputs hold and whose gradients take their place in backward, and
// their softmax, which autocast makes in float32. Of one layer at a time it has copies of these, and what topk returns.
func (s Step) balancing() mem.Item {
	e, kind := s.Model.Experts, s.Weights
	if s.Autocast != nn.F32 {
		kind = s.Autocast
	}
	tokens, layers := s.routed()
	logits := unit.Bytes(tokens*layers*e.Count) * kind.Size()
	again := unit.Bytes(tokens) * (5*unit.Bytes(e.Count)*nn.F32.Size() +
		2*unit.Bytes(e.Each)*(nn.I64.Size()+nn.F32.Size()))
	return mem.Item{Kind: mem.Buffers, What: "router's logits", Bytes: logits + s.balances() + again,
		Count: tokens * (2*layers*e.Count + 5*e.Count + 4*e.Each), Guess: true,
		From: "at most, of all layers, for the loss that balances the experts: logits, and their softmax"}
}

// balances is what the graph holds for the loss that balances the experts: the softmax of each layer's logits.
func (s Step) balances() unit.Bytes {
	if !s.Balanced || s.Model.Experts == nil {
		return 0
	}
	kind := s.Weights
	if s.Autocast != nn.F32 {
		kind = nn.F32
	}
	tokens, layers := s.routed()
	return unit.Bytes(tokens*layers*s.Model.Experts.Count) * kind.Size()
}

// routed is how many tokens go through the routers of how many layers.
func (s Step) routed() (tokens, layers int64) {
	for i := range s.Model.Layers {
		if !s.Model.Experts.dense(i) {
			layers++
		}
	}
	return s.sequences() * s.Length, layers
}
