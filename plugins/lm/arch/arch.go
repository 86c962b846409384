// Package arch is what fine-tuning a language model costs: its decoder as its Python forward on an nn.Tape, with the
// Trainer's training step and evaluation around it, line by line.
//
// Files and lines are of transformers 5.23.0, peft 0.21.2 and accelerate 1.15.0, as on PyPI.
package arch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// ErrUnknown is the error for a model without a formula. It says nothing about the job: its cost is unknown, not
// wrong.
var ErrUnknown = errors.New("no formula for it")

// A Config is a decoder's config.json, under one name for each thing.
type Config struct {
	Type                       string // model_type
	Vocab, Hidden, Inner       int64
	Layers, Heads, KVHeads     int64
	HeadDim, Positions         int64
	Tied                       bool // lm_head is the embedding
	AttentionBias, OutputBias  bool // of q, k, v, and of o
	MLPBias, QueryNorm         bool
	Activation                 string
	Embed, Attention, Residual float64 // dropout
	Rotary                     int64   // channels of a head that are turned
	Window                     int64   // of a sliding attention; 0 for none
	Sliding                    []bool  // by layer, which of them slide; nil for all alike
	DType                      nn.DType
	Experts                    *Experts // nil for a model without
	Form
}

// raw is config.json, as the models' configuration classes name their fields.
type raw struct {
	Type       string `json:"model_type"`
	Vocab      *int64 `json:"vocab_size"`
	Hidden     *int64 `json:"hidden_size"`
	NEmbd      *int64 `json:"n_embd"`
	Inner      *int64 `json:"intermediate_size"`
	NInner     *int64 `json:"n_inner"`
	Layers     *int64 `json:"num_hidden_layers"`
	NLayer     *int64 `json:"n_layer"`
	Heads      *int64 `json:"num_attention_heads"`
	NHead      *int64 `json:"n_head"`
	KVHeads    *int64 `json:"num_key_value_heads"`
	HeadDim    *int64 `json:"head_dim"`
	Positions  *int64 `json:"max_position_embeddings"`
	NPositions *int64 `json:"n_positions"`

	Act           *string  `json:"hidden_act"`
	Activation    *string  `json:"activation_function"`
	HiddenAct     *string  `json:"hidden_activation"`
	Tied          *bool    `json:"tie_word_embeddings"`
	AttentionBias *bool    `json:"attention_bias"`
	OutputBias    *bool    `json:"attention_out_bias"`
	MLPBias       *bool    `json:"mlp_bias"`
	AttnPdrop     *float64 `json:"attn_pdrop"`
	AttnDropout   *float64 `json:"attention_dropout"`
	EmbdPdrop     *float64 `json:"embd_pdrop"`
	ResidPdrop    *float64 `json:"resid_pdrop"`

	ResidualDropout *float64        `json:"residual_dropout"`
	ScoreCap        json.RawMessage `json:"attn_logit_softcapping"`
	LogitCap        json.RawMessage `json:"final_logit_softcapping"`
	NoRope          []int64         `json:"no_rope_layers"`
	NoRopeInterval  *int64          `json:"no_rope_layer_interval"`
	SlidingPattern  json.RawMessage `json:"sliding_window_pattern"` // a number, or a text
	UseBias         *bool           `json:"use_bias"`
	EmbedDropout    *float64        `json:"embedding_dropout"`

	UseSliding *bool    `json:"use_sliding_window"`
	Window     *int64   `json:"sliding_window"`
	MaxWindow  *int64   `json:"max_window_layers"`
	LayerTypes []string `json:"layer_types"`
	Partial    *float64 `json:"partial_rotary_factor"`
	Rope       struct {
		Partial *float64 `json:"partial_rotary_factor"`
	} `json:"rope_parameters"`

	DType      string `json:"dtype"`
	TorchDType string `json:"torch_dtype"`

	// What would be another forward.
	Quantization  json.RawMessage `json:"quantization_config"`
	Upcast        bool            `json:"reorder_and_upcast_attn"`
	Cross         bool            `json:"add_cross_attention"`
	QKLayerNorm   bool            `json:"qk_layernorm"`
	Bidirectional *bool           `json:"use_bidirectional_attention"`
	AutoMap       json.RawMessage `json:"auto_map"`

	rawExperts
}

// read makes a Config of config.json, with the defaults of the model's configuration class.
var read = map[string]func(r raw) Config{"gpt2": readGPT2, "phi": readPhi, "gemma": readGemma,
	"llama": readLlama, "mistral": readMistral, "qwen2": readQwen2, "qwen3": readQwen3, "mixtral": readMixtral,
	"qwen3_moe": readQwen3Moe, "qwen2_moe": readQwen2Moe, "olmoe": readOlmoe,
	"arcee": readArcee, "seed_oss": readSeedOss, "smollm3": readSmolLM3, "granite": readGranite, "olmo2": readOlmo2,
	"olmo3": readOlmo3, "phi3": readPhi3, "gemma2": readGemma2, "gemma3_text": readGemma3,
	"glm": readGlm, "glm4": readGlm, "hunyuan_v1_dense": readHunyuan, "exaone4": readExaone4, "ernie4_5": readErnie,
	"starcoder2": readStarcoder2, "ministral": readMinistral}

// Read reads the text of a config.json. The error wraps ErrUnknown where the decoder has no formula.
func Read(text []byte) (c Config, err error) {
	var r raw
	if err := json.Unmarshal(text, &r); err != nil {
		return c, fmt.Errorf("reading config.json: %w", err)
	}
	make, ok := read[r.Type]
	if !ok {
		return c, fmt.Errorf("a model of the type %q: %w", r.Type, ErrUnknown)
	}
	if why := r.another(); why != "" {
		return c, fmt.Errorf("a model of the type %q with %s: %w", r.Type, why, ErrUnknown)
	}
	c = make(r)
	c.Type, c.DType = r.Type, dtypes[first(ptr(r.DType), ptr(r.TorchDType), "float32")]
	c.KVHeads = cmp.Or(c.KVHeads, c.Heads)
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	c.Rotary = cmp.Or(c.Rotary, c.HeadDim)
	return c, c.check()
}

var dtypes = map[string]nn.DType{"float32": nn.F32, "float16": nn.F16, "bfloat16": nn.BF16}

// another says what of the configuration makes it another forward than that of the model's file here; "" for nothing.
func (r raw) another() string {
	switch {
	case present(r.Quantization):
		return "quantization_config"
	case present(r.AutoMap):
		return "auto_map, which is code of its own"
	case r.Upcast:
		return "reorder_and_upcast_attn"
	case r.Cross:
		return "add_cross_attention"
	case r.QKLayerNorm:
		return "qk_layernorm"
	case r.Bidirectional != nil && *r.Bidirectional:
		return "use_bidirectional_attention"
	}
	for _, name := range []string{r.DType, r.TorchDType} {
		if _, ok := dtypes[name]; name != "" && !ok {
			return "the type " + name
		}
	}
	return r.rawExperts.another()
}

func present(m json.RawMessage) bool { return len(m) > 0 && string(m) != "null" }

// most is more than any of these numbers is in a model that exists.
const most = 1 << 21

// check reports a configuration that no model can have.
func (c Config) check() error {
	for name, n := range map[string]int64{"vocab_size": c.Vocab, "hidden_size": c.Hidden, "intermediate_size": c.Inner,
		"num_hidden_layers": c.Layers, "num_attention_heads": c.Heads, "num_key_value_heads": c.KVHeads,
		"head_dim": c.HeadDim, "max_position_embeddings": c.Positions} {
		if n < 1 || n > most || name == "num_hidden_layers" && n > 1000 {
			return fmt.Errorf("%s of %d in config.json: %w", name, n, ErrUnknown)
		}
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%d heads and %d of keys and values in config.json: %w", c.Heads, c.KVHeads, ErrUnknown)
	case c.Rotary < 2 || c.Rotary > c.HeadDim || c.Rotary%2 != 0 && c.Type != "gpt2":
		return fmt.Errorf("%d rotary channels of %d in config.json: %w", c.Rotary, c.HeadDim, ErrUnknown)
	case activations[c.Activation] == nil:
		return fmt.Errorf("the activation %q in config.json: %w", c.Activation, ErrUnknown)
	case c.Sliding != nil && int64(len(c.Sliding)) != c.Layers:
		return fmt.Errorf("%d layer_types for %d layers in config.json: %w", len(c.Sliding), c.Layers, ErrUnknown)
	}
	return c.Experts.check(c)
}

// slides reports whether that layer's attention has a window.
func (c Config) slides(layer int64) bool {
	return c.Window > 0 && (c.Sliding == nil || c.Sliding[layer])
}

// first is the first of them that is given, and otherwise the last, the configuration class's own default.
func first[T any](a, b *T, otherwise T) T {
	switch {
	case a != nil:
		return *a
	case b != nil:
		return *b
	}
	return otherwise
}

func ptr(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func or[T any](a *T, otherwise T) T { return first(a, nil, otherwise) }

// Activations of transformers/activations.py.
var activations = map[string]func(t *nn.Tape, x nn.Tensor) nn.Tensor{
	"gelu_new": geluNew, "silu": (*nn.Tape).SiLU, "swish": (*nn.Tape).SiLU, "gelu": (*nn.Tape).GELU,
	"gelu_pytorch_tanh": (*nn.Tape).GELU, "relu": (*nn.Tape).ReLU,
	"relu2": relu2,
}

// geluNew is NewGELUActivation.forward (activations.py:66): 0.5 * input * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) *
// (input + 0.044715 * torch.pow(input, 3.0)))), in the order in which Python evaluates it.
func geluNew(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		t.Line("0.5 * input * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (input + 0.044715 * torch.pow(input, 3.0))))")
		half := t.Hold(t.MulScalar(x))
		inner := t.Add(x, t.MulScalar(t.Pow(x)))
		tanh := t.AddScalar(t.Tanh(t.MulScalar(inner)))
		return t.Mul(half, tanh)
	}, x)
}

// Name is the type in the words of a ledger.
func (c Config) Name() string { return strings.TrimSpace(c.Type) }
