package arch

import (
	"encoding/json"

	"github.com/launch-ml/launch/core/nn"
)

// A Form is in what a decoder of llama's make is another. Its zero value is llama's own
// (models/llama/modeling_llama.py). Files below are of transformers 5.24.0.
type Form struct {
	Norms  normKind
	Around normPlace
	// Ungated: the MLP has no gate: down_proj(act_fn(up_proj(x))).
	Ungated bool
	// JoinedHeads: one layer makes queries, keys and values. JoinedGate: one makes gate and up.
	JoinedHeads, JoinedGate bool
	// Anew: queries and keys are put together anew after they are turned.
	Anew bool
	// Interleaved: the channels that are turned lie beside each other, for which each layer has cos and sin of its own.
	Interleaved bool
	// NormTurned: queries and keys are normalised after they are turned.
	NormTurned bool
	// WholeNorm: queries and keys are normalised over all heads at once.
	WholeNorm bool
	// WideRotary: cos and sin stay float32, and so are queries and keys while they are turned.
	WideRotary bool
	// TwoRotaries: layers with a window have cos and sin of their own.
	TwoRotaries bool
	Unturned    []bool // by layer, which of them turn nothing; nil for none
	// EmbedScale: the embedding multiplies its rows, by a buffer of one number.
	EmbedScale bool
	// Factors: embedding, logits, and what a layer adds to its input are multiplied by numbers.
	Factors bool
	// ScoreCap and LogitCap: tanh bounds the scores of eager attention, and the logits.
	ScoreCap, LogitCap bool
	// DropsByFunction: dropout is no module, so that nobody can switch it off.
	DropsByFunction bool
}

// A normKind is what a model's norms compute.
type normKind int

const (
	plainNorm   normKind = iota
	centredNorm          // 1 + weight in float32 (GemmaRMSNorm)
	wideNorm             // the weight times the states in float32 (Olmo2RMSNorm)
	layerNorm            // torch.nn.LayerNorm
)

// A normPlace is where a layer's norms are.
type normPlace int

const (
	normBefore normPlace = iota // of attention and MLP
	normAfter
	normBoth
)

// normNames are the names of a layer's norms: before and after attention, before and after the MLP.
func (c Config) normNames() [4]string {
	switch {
	case c.Around == normBefore:
		return [4]string{"input_layernorm", "", "post_attention_layernorm", ""}
	case c.Type == "glm4":
		return [4]string{"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"}
	}
	return [4]string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
		"post_feedforward_layernorm"}
}

// readArcee is ArceeConfig (models/arcee/configuration_arcee.py): the MLP has no gate.
func readArcee(r raw) Config {
	c := readLlama(r)
	c.Hidden, c.Inner, c.Positions = or(r.Hidden, 2560), or(r.Inner, 18432), or(r.Positions, 4096)
	c.Activation, c.Ungated = or(r.Act, "relu2"), true
	return c
}

// readSeedOss is SeedOssConfig (models/seed_oss/configuration_seed_oss.py): attention and MLP end in a dropout.
func readSeedOss(r raw) Config {
	return Config{
		Vocab: or(r.Vocab, 155136), Hidden: or(r.Hidden, 4096), Inner: or(r.Inner, 27648), Layers: or(r.Layers, 64),
		Heads: or(r.Heads, 80), KVHeads: or(r.KVHeads, 8), HeadDim: or(r.HeadDim, 128), Positions: or(r.Positions, 524288),
		Activation: or(r.Act, "silu"), Tied: or(r.Tied, false), AttentionBias: or(r.AttentionBias, true),
		OutputBias: or(r.OutputBias, false), MLPBias: or(r.MLPBias, false), Attention: or(r.AttnDropout, 0.1),
		Residual: or(r.ResidualDropout, 0.1), Form: Form{DropsByFunction: true},
	}
}

// readSmolLM3 is SmolLM3Config (models/smollm3/configuration_smollm3.py): each fourth layer turns nothing.
func readSmolLM3(r raw) Config {
	c := readLlama(r)
	c.Vocab, c.Hidden, c.Layers = or(r.Vocab, 128256), or(r.Hidden, 2048), or(r.Layers, 36)
	c.Heads, c.KVHeads, c.Positions = or(r.Heads, 16), or(r.KVHeads, 4), or(r.Positions, 32768)
	c.Tied = or(r.Tied, true)
	every := max(or(r.NoRopeInterval, 4), 1)
	for i := range min(max(c.Layers, 0), most) {
		turned := (i+1)%every != 0
		if i < int64(len(r.NoRope)) {
			turned = r.NoRope[i] != 0
		}
		c.Unturned = append(c.Unturned, !turned)
	}
	if or(r.UseSliding, false) {
		c.Window, c.Sliding = or(r.Window, 0), sliding(r, c.Layers, func(i int64) bool { return c.Unturned[i] })
	}
	return c
}

// readGranite is GraniteConfig (models/granite/configuration_granite.py).
func readGranite(r raw) Config {
	c := readLlama(r)
	c.Factors = true
	return c
}

// readOlmo2 is Olmo2Config (models/olmo2/configuration_olmo2.py): the norms come after attention and MLP.
func readOlmo2(r raw) Config {
	c := readLlama(r)
	c.Vocab, c.MLPBias = or(r.Vocab, 50304), false
	c.Norms, c.Around, c.QueryNorm, c.WholeNorm, c.WideRotary = wideNorm, normAfter, true, true, true
	return c
}

// readOlmo3 is Olmo3Config (models/olmo3/configuration_olmo3.py): three of four layers have a window.
func readOlmo3(r raw) Config {
	c := readOlmo2(r)
	c.TwoRotaries, c.Window = true, or(r.Window, 4096)
	c.Sliding = sliding(r, c.Layers, func(i int64) bool { return (i+1)%4 != 0 })
	return c
}

// readPhi3 is Phi3Config (models/phi3/configuration_phi3.py). A window of null is none.
func readPhi3(r raw) Config {
	c := Config{
		Vocab: or(r.Vocab, 32064), Hidden: or(r.Hidden, 3072), Inner: or(r.Inner, 8192), Layers: or(r.Layers, 32),
		Heads: or(r.Heads, 32), KVHeads: or(r.KVHeads, 0), HeadDim: or(r.HeadDim, 0), Positions: or(r.Positions, 4096),
		Activation: or(r.Act, "silu"), Tied: or(r.Tied, false), Attention: or(r.AttnDropout, 0),
		Residual: or(r.ResidPdrop, 0), Window: or(r.Window, 0), Form: Form{JoinedHeads: true, JoinedGate: true, Anew: true},
	}
	c.Rotary = partly(c, first(r.Rope.Partial, r.Partial, 1))
	return c
}

// partly is how many channels of a head are turned.
func partly(c Config, share float64) int64 {
	width := c.HeadDim
	if width == 0 && c.Heads > 0 {
		width = c.Hidden / c.Heads
	}
	return int64(float64(width) * share)
}

// readGlm is GlmConfig (models/glm/configuration_glm.py), and Glm4Config (models/glm4/configuration_glm4.py), which has
// norms before and after.
func readGlm(r raw) Config {
	c := Config{
		Vocab: or(r.Vocab, 151552), Hidden: or(r.Hidden, 4096), Inner: or(r.Inner, 13696), Layers: or(r.Layers, 40),
		Heads: or(r.Heads, 32), KVHeads: or(r.KVHeads, 2), HeadDim: or(r.HeadDim, 128), Positions: or(r.Positions, 131072),
		Activation: or(r.Act, "silu"), Tied: or(r.Tied, false), AttentionBias: or(r.AttentionBias, true),
		Attention: or(r.AttnDropout, 0), Form: Form{JoinedGate: true, Anew: true, Interleaved: true},
	}
	c.Rotary = partly(c, first(r.Rope.Partial, r.Partial, 0.5))
	if r.Type == "glm4" {
		c.Around = normBoth
	}
	return c
}

// readHunyuan is HunYuanDenseV1Config (models/hunyuan_v1_dense/configuration_hunyuan_v1_dense.py).
func readHunyuan(r raw) Config {
	c := readLlama(r)
	c.Vocab, c.MLPBias, c.NormTurned = or(r.Vocab, 290943), false, true
	return c
}

// readExaone4 is Exaone4Config (models/exaone4/configuration_exaone4.py): where layers have windows, those without turn
// nothing.
func readExaone4(r raw) Config {
	c := readLlama(r)
	c.Vocab, c.Inner, c.KVHeads = or(r.Vocab, 102400), or(r.Inner, 16384), or(r.KVHeads, 32)
	c.AttentionBias, c.OutputBias, c.MLPBias, c.Around, c.QueryNorm = false, false, false, normAfter, true
	if c.Window = or(r.Window, 0); c.Window == 0 {
		return c
	}
	c.Sliding = sliding(r, c.Layers, func(i int64) bool { return (i+1)%r.pattern(4) != 0 })
	for _, windowed := range c.Sliding {
		c.Unturned = append(c.Unturned, !windowed)
	}
	return c
}

// readErnie is Ernie4_5Config (models/ernie4_5/configuration_ernie4_5.py).
func readErnie(r raw) Config {
	bias := or(r.UseBias, false)
	return Config{
		Vocab: or(r.Vocab, 103424), Hidden: or(r.Hidden, 1024), Inner: or(r.Inner, 3072), Layers: or(r.Layers, 18),
		Heads: or(r.Heads, 16), KVHeads: or(r.KVHeads, 2), HeadDim: or(r.HeadDim, 128), Positions: or(r.Positions, 131072),
		Activation: or(r.Act, "silu"), Tied: or(r.Tied, true), AttentionBias: bias, OutputBias: bias, MLPBias: bias,
		Form: Form{WideRotary: true, Interleaved: true},
	}
}

// readStarcoder2 is Starcoder2Config (models/starcoder2/configuration_starcoder2.py). A window of null is none.
func readStarcoder2(r raw) Config {
	bias := or(r.UseBias, true)
	return Config{
		Vocab: or(r.Vocab, 49152), Hidden: or(r.Hidden, 3072), Inner: or(r.Inner, 12288), Layers: or(r.Layers, 30),
		Heads: or(r.Heads, 24), KVHeads: or(r.KVHeads, 2), HeadDim: or(r.HeadDim, 0), Positions: or(r.Positions, 4096),
		Activation: or(r.Act, "gelu_pytorch_tanh"), Tied: or(r.Tied, true), AttentionBias: bias, OutputBias: bias,
		MLPBias: bias, Attention: or(r.AttnDropout, 0), Residual: or(r.ResidualDropout, 0), Embed: or(r.EmbedDropout, 0),
		Window: or(r.Window, 0), Form: Form{Norms: layerNorm, Ungated: true, DropsByFunction: true},
	}
}

// readMinistral is MinistralConfig (models/ministral/configuration_ministral.py), mistral's with windows by layers.
func readMinistral(r raw) Config {
	c := readMistral(r)
	c.Window = or(r.Window, 4096)
	c.Sliding = sliding(r, c.Layers, func(int64) bool { return true })
	return c
}

// pattern is how many layers a window's pattern has; where it is a text, layer_types have it.
func (r raw) pattern(otherwise int64) int64 {
	var n int64
	if json.Unmarshal(r.SlidingPattern, &n) != nil || n < 1 {
		return otherwise
	}
	return n
}

// readGemma2 is Gemma2Config (models/gemma2/configuration_gemma2.py): every other layer has a window, and tanh bounds
// the logits, and the scores of eager attention. SDPA bounds none.
func readGemma2(r raw) Config {
	c := gemmaWith(r, 256000)
	c.ScoreCap, c.LogitCap = given(r.ScoreCap, true), given(r.LogitCap, true)
	c.Sliding = sliding(r, c.Layers, func(i int64) bool { return i%2 == 0 })
	return c
}

// readGemma3 is Gemma3TextConfig (models/gemma3/configuration_gemma3.py): five of six layers have a window. The class
// hands its attention no bound of the scores.
func readGemma3(r raw) Config {
	c := gemmaWith(r, 262208)
	c.Positions, c.QueryNorm, c.TwoRotaries = or(r.Positions, 131072), true, true
	c.LogitCap = given(r.LogitCap, false)
	c.Sliding = sliding(r, c.Layers, func(i int64) bool { return (i+1)%r.pattern(6) != 0 })
	return c
}

func gemmaWith(r raw, vocab int64) Config {
	c := readGemma(r)
	c.Vocab, c.Hidden, c.Inner, c.Layers = or(r.Vocab, vocab), or(r.Hidden, 2304), or(r.Inner, 9216), or(r.Layers, 26)
	c.Heads, c.KVHeads, c.Activation = or(r.Heads, 8), or(r.KVHeads, 4), or(r.HiddenAct, "gelu_pytorch_tanh")
	c.Window, c.Around = or(r.Window, 4096), normBoth
	return c
}

// sliding says of each layer whether it has a window, by layer_types where the configuration has them.
func sliding(r raw, layers int64, otherwise func(i int64) bool) (out []bool) {
	for i := range min(max(layers, 0), most) {
		slides := otherwise(i)
		if i < int64(len(r.LayerTypes)) {
			slides = r.LayerTypes[i] == "sliding_attention"
		}
		out = append(out, slides)
	}
	return out
}

// given reports whether a number is there: null is none.
func given(m json.RawMessage, otherwise bool) bool {
	if len(m) == 0 {
		return otherwise
	}
	return present(m)
}

// Bounds reports whether the model bounds the scores of its attention, which SDPA does not do: its class refuses SDPA
// since 5.21 (_supports_sdpa in models/gemma2/modeling_gemma2.py).
func (c Config) Bounds() bool { return c.ScoreCap }

// formed says what of the model's form the losses that make no logits do not have; "" for nothing.
func (c Config) formed() string {
	switch {
	case c.Factors:
		return "logits that are divided by a number have no formula without logits"
	case c.LogitCap:
		return "logits that tanh bounds have no formula without logits"
	}
	return ""
}

// tokens is the embedding. Multiplied by a number it is no leaf: what asks for a gradient is the embedding's own result
// (_require_grads_hook), which the graph keeps.
func (d *decoder) tokens(ids nn.Tensor) nn.Tensor {
	b, n := ids.Dim(0), ids.Dim(1)
	if d.EmbedScale {
		return d.scaledTokens(ids)
	}
	x := d.embed("embed_tokens", ids, d.Vocab, b, n, d.Hidden)
	if !d.Factors {
		return x
	}
	x = d.Hold(x)
	if d.asksInput() {
		x = d.leaf(x)
	}
	d.Line("inputs_embeds = inputs_embeds * self.embedding_multiplier")
	return d.MulScalar(x)
}

// leaf is x, which asks for a gradient, and which the graph keeps.
func (d *decoder) leaf(x nn.Tensor) nn.Tensor {
	return d.Hold(d.Apply(nn.Function{Name: "requires_grad_", Forward: func() (nn.Tensor, []nn.Tensor) {
		return x, []nn.Tensor{x}
	}}, d.RequireGrad(x)))
}

// bounded is the variable x, which becomes tanh(x / cap) * cap.
func (d *decoder) bounded(x nn.Tensor) nn.Tensor {
	x = d.Rebind(x, d.DivScalar(x))
	x = d.Rebind(x, d.Tanh(x))
	return d.Rebind(x, d.MulScalar(x))
}

// turn is one of the two that are turned: (x * cos) + (rotate_half(x) * sin). ernie's are made float32 first
// (models/ernie4_5/modeling_ernie4_5.py).
func (d *decoder) turn(x nn.Tensor) nn.Tensor {
	d.Line("(q * cos) + (rotate_half(q) * sin)")
	wide := func(x nn.Tensor) nn.Tensor {
		if d.WideRotary && d.Interleaved {
			return d.To(x, nn.F32)
		}
		return x
	}
	straight := d.Hold(d.Mul(wide(x), d.cos))
	var half nn.Tensor
	d.Scope("", func() {
		x1, x2 := d.Hold(d.Narrow(x, -1, d.Rotary/2)), d.Hold(d.Narrow(x, -1, d.Rotary/2))
		half = d.Cat(-1, d.Neg(x2), x1)
	}, x)
	return d.Add(straight, d.Mul(wide(half), d.sin))
}

// interleaved are cos and sin with each of the first half twice, side by side (models/glm4/modeling_glm4.py).
func (d *decoder) interleaved(x nn.Tensor) nn.Tensor {
	return d.Hold(d.Copy("repeat_interleave", x, x.Shape()...))
}

// turnedAnew is apply_rotary_pos_emb of phi3 (models/phi3/modeling_phi3.py) and of glm: the turned channels of a head
// and those that are left, put together.
func (d *decoder) turnedAnew(q, k nn.Tensor) (nn.Tensor, nn.Tensor) {
	d.Scope("", func() {
		if d.Rotary == d.HeadDim { // joined with nothing, and copied all the same
			q = d.Hold(d.Copy("torch.cat", d.turn(q), q.Shape()...))
			k = d.Hold(d.Copy("torch.cat", d.turn(k), k.Shape()...))
			return
		}
		part := func(x nn.Tensor, channels int64) nn.Tensor { return d.Hold(d.Narrow(x, -1, channels)) }
		qRot, qPass := part(q, d.Rotary), part(q, d.HeadDim-d.Rotary)
		kRot, kPass := part(k, d.Rotary), part(k, d.HeadDim-d.Rotary)
		q, k = d.Hold(d.Cat(-1, d.turn(qRot), qPass)), d.Hold(d.Cat(-1, d.turn(kRot), kPass))
	}, q, k)
	return q, k
}

// joinedHeads are phi3's queries, keys and values: parts of one tensor (Phi3Attention.forward).
func (d *decoder) joinedHeads(x nn.Tensor) (q, k, v nn.Tensor) {
	b, n := x.Dim(0), x.Dim(1)
	query, key := d.Heads*d.HeadDim, d.KVHeads*d.HeadDim
	qkv := d.Hold(d.linear("qkv_proj", x, query+2*key, false))
	parts := d.Split(qkv, 2, query, key, key)
	heads := func(x nn.Tensor, count int64) nn.Tensor {
		return d.Hold(d.Transpose(d.View(x, b, n, count, d.HeadDim), 1, 2))
	}
	return heads(parts[0], d.Heads), heads(parts[1], d.KVHeads), heads(parts[2], d.KVHeads)
}

// joinedGate is Phi3MLP.forward.
func (d *decoder) joinedGate(_ *nn.Tape, x nn.Tensor) nn.Tensor {
	both := d.Split(d.linear("gate_up_proj", x, 2*d.Inner, false), 2, d.Inner, d.Inner)
	gate, up := d.Hold(both[0]), d.Hold(both[1])
	d.Line("up_states = up_states * self.activation_fn(gate)")
	up = d.Rebind(up, d.Mul(up, d.activate(gate)))
	return d.linear("down_proj", up, d.Hidden, false)
}

// ungated is ArceeMLP.forward, and Starcoder2MLP.forward, whose layers have other names and whose result is a variable.
func (d *decoder) ungated(_ *nn.Tape, x nn.Tensor) nn.Tensor {
	if d.Norms == layerNorm {
		y := d.Hold(d.linear("c_fc", x, d.Inner, d.MLPBias))
		y = d.Rebind(y, d.activate(y))
		return d.linear("c_proj", y, d.Hidden, d.MLPBias)
	}
	return d.linear("down_proj", d.activate(d.linear("up_proj", x, d.Inner, d.MLPBias)), d.Hidden, d.MLPBias)
}

// relu2 is ReLUSquaredActivation.forward (activations.py).
func relu2(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		t.Line("squared = torch.square(relu_applied)")
		return t.Pow(t.Hold(t.ReLU(x)))
	}, x)
}
