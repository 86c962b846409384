package arch

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
)

// Experts in parts of FSDP and of ZeRO 1 and 2 are as other weights are. What is not read has no formula.
func TestExpertsAlone(t *testing.T) {
	experts := Step{Model: Config{Type: "mixtral", Experts: &Experts{}}}
	if why := experts.ofExperts(); why != "" {
		t.Errorf("as they are they are unknown: %s", why)
	}
	for want, change := range map[string]func(*Step){
		"ZeRO 3": func(s *Step) { s.Shards = &Shards{Stage: 3} }, "": func(s *Step) { s.Shards = &Shards{Stage: 2} },
		"preference":                  func(s *Step) { s.Preference = &Preference{} },
		"in parts":                    func(s *Step) { s.Router, s.FSDP = true, &FSDP{} },
		"in parts, or with quantised": func(s *Step) { s.Router, s.Quant = true, &Quant{} },
	} {
		s := experts
		if change(&s); !strings.Contains(s.ofExperts(), want) || want == "" && s.ofExperts() != "" {
			t.Errorf("%s: unknown because %q", want, s.ofExperts())
		}
	}
}

// The loss that balances the experts has its line with ZeRO and FSDP, too.
func TestExpertsBalancedInParts(t *testing.T) {
	config, err := Read([]byte(`{"model_type": "qwen3_moe", "vocab_size": 1000, "hidden_size": 128,
		"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "num_experts": 8,
		"num_experts_per_tok": 2, "moe_intermediate_size": 64}`))
	if err != nil {
		t.Fatal(err)
	}
	whole := Step{Model: config, Batch: 1, Length: 64, World: 2, Weights: nn.BF16, Optimizer: "adamw_torch",
		Fused: true, Balanced: true}
	zero, full := whole, whole
	zero.Shards = &Shards{Stage: 2, Reduce: 1000}
	full.FSDP = &FSDP{Version: 2, Layers: true, Carved: true, Master: nn.F32}
	for name, s := range map[string]Step{"ZeRO": zero, "FSDP": full} {
		e, want := Training(s), whole.balancing().Bytes
		if got := line(e, mem.Buffers, "router's logits"); e.Unknown != "" || got != want {
			t.Errorf("%s: %d bytes of logits, want %d (%s)", name, got, want, e.Unknown)
		}
	}
}

// The experts of Qwen3-30B-A3B are nearly all of it: 28.99 of 30.53 billion.
func TestExpertParams(t *testing.T) {
	config := Config{Layers: 48, Hidden: 2048, Experts: &Experts{Count: 128, Inner: 768}}
	if got := config.ExpertParams(); got != 28_991_029_248 {
		t.Errorf("%d parameters, want 28991029248", got)
	}
	config.Experts.Dense = make([]bool, 48)
	config.Experts.Dense[0] = true
	if got := config.ExpertParams(); got != 28_991_029_248*47/48 {
		t.Errorf("without one layer's: %d parameters", got)
	}
}
