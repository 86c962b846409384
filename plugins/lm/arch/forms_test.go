package arch_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

func model(t *testing.T, config string) arch.Config {
	t.Helper()
	c, err := arch.Read([]byte(config))
	if err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return c
}

// What config.json leaves out is as the configuration class has it, and null is not what is left out.
func TestForms(t *testing.T) {
	small := `"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, ` +
		`"num_hidden_layers": 4, "num_key_value_heads": 4, `
	smol := model(t, `{`+small+`"model_type": "smollm3"}`)
	if want := []bool{false, false, false, true}; !slices.Equal(smol.Unturned, want) || smol.Window != 0 || !smol.Tied {
		t.Errorf("smollm3: %+v", smol)
	}
	listed := model(t, `{`+small+`"model_type": "smollm3", "no_rope_layers": [0, 1, 1, 1], "use_sliding_window": true, `+
		`"sliding_window": 8}`)
	if !listed.Unturned[0] || listed.Unturned[3] || !slices.Equal(listed.Sliding, listed.Unturned) {
		t.Errorf("smollm3 by its list: %+v", listed)
	}
	exaone := model(t, `{`+small+`"model_type": "exaone4", "sliding_window": 8, "sliding_window_pattern": "LLG", `+
		`"layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]}`)
	if want := []bool{false, false, true, false}; !slices.Equal(exaone.Unturned, want) {
		t.Errorf("exaone4: %+v", exaone)
	}
	if c := model(t, `{`+small+`"model_type": "exaone4", "sliding_window": null}`); c.Unturned != nil || c.Window != 0 {
		t.Errorf("exaone4 without windows: %+v", c)
	}
	gemma := model(t, `{`+small+`"model_type": "gemma2"}`)
	none := model(t, `{`+small+`"model_type": "gemma2", "attn_logit_softcapping": null}`)
	if !gemma.Bounds() || !gemma.LogitCap || none.Bounds() || !none.LogitCap {
		t.Errorf("gemma2: %+v, with null: %+v", gemma.Form, none.Form)
	}
	if c := model(t, `{`+small+`"model_type": "glm4", "head_dim": 32}`); c.Rotary != 16 {
		t.Errorf("glm4 turns %d channels of a head, want 16", c.Rotary)
	}
	if _, err := arch.Read([]byte(`{"model_type": "mimo"}`)); !errors.Is(err, arch.ErrUnknown) {
		t.Errorf("a model without a formula: %v", err)
	}
}

// peft passes over names that a model does not have, if it finds another.
func TestHasLinear(t *testing.T) {
	for kind, want := range map[string]string{"llama": "gate_proj", "arcee": "up_proj", "phi3": "gate_up_proj",
		"glm4": "gate_up_proj", "starcoder2": "c_fc", "phi": "fc1", "gpt2": "c_attn"} {
		c := model(t, `{"model_type": "`+kind+`"}`)
		if there, _ := c.HasLinear(want); !there {
			t.Errorf("%s has no %s", kind, want)
		}
		there, elsewhere := c.HasLinear("gate_proj")
		if there != (kind == "llama") || !elsewhere {
			t.Errorf("gate_proj of %s: %t, elsewhere %t", kind, there, elsewhere)
		}
		if there, elsewhere := c.HasLinear("score"); there || elsewhere {
			t.Errorf("%s has the layer score", kind)
		}
	}
}

// What a model's form does to losses without logits, and axolotl's functions to its attention.
func TestFormless(t *testing.T) {
	for name, tt := range map[string]struct {
		kind   string
		change func(s *arch.Step)
		why    string
	}{
		"granite, cut":           {"granite", func(s *arch.Step) { s.Cut = true }, "divided by a number"},
		"gemma2, the fused head": {"gemma2", func(s *arch.Step) { s.Fused, s.Eager = true, true }, "tanh bounds"},
		"arcee, cut":             {"arcee", func(s *arch.Step) { s.Cut = true }, ""},
		"olmo3, kernels":         {"olmo3", kernels, "stop at olmo3"},
		"arcee, kernels":         {"arcee", kernels, ""},
		"starcoder2, float32 norms": {"starcoder2", func(s *arch.Step) { s.Upcast = true },
			"norms in float32 have no formula"},
	} {
		s := arch.Step{Model: model(t, `{"model_type": "`+tt.kind+`", "num_hidden_layers": 2}`), Batch: 1, Length: 64,
			Weights: nn.BF16, Optimizer: "adamw_torch_fused", World: 1}
		tt.change(&s)
		got := arch.Training(s).Unknown
		if tt.why == "" && got != "" || !strings.Contains(got, tt.why) {
			t.Errorf("%s: unknown %q, want %q", name, got, tt.why)
		}
	}
}

func kernels(s *arch.Step) {
	s.LoRA = &arch.LoRA{Rank: 8, Targets: []string{arch.AllLinear}, Kernels: arch.Kernels{QKV: true, O: true, MLP: true}}
}
