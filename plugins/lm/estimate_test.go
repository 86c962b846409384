package lm

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
)

// A public model is priced by its name; what cannot be is said in a sentence.
func TestEstimate(t *testing.T) {
	ask := func(model string, settings map[string]string) ([]plugin.Phase, error) {
		return New().(plugin.Estimator).Estimate(t.Context(), &plugin.Bare{Arch: model, Settings: settings}, gpu.Device{})
	}
	for name, tt := range map[string]struct {
		settings map[string]string
		states   int64 // bytes of a trainable parameter in the optimizer, in eighths of the model's parameters
		says     string
	}{
		"as it is":          {nil, 4, ""},
		"in float32":        {map[string]string{"weights": "fp32", "amp": "bf16", "checkpointing": "true"}, 8, ""},
		"an optimizer":      {map[string]string{"optimizer": "lion"}, 0, "it is one of adamw_torch_fused, adamw_torch"},
		"beyond counting":   {map[string]string{"length": "5000000000"}, 0, "too large to be counted"},
		"another precision": {map[string]string{"amp": "fp8"}, 0, "it is one of off, bf16, fp16"},
	} {
		phases, err := ask("gpt2", tt.settings)
		if tt.says != "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v, want it to say %q", name, err, tt.says)
			}
			continue
		}
		if err != nil || len(phases) != 2 {
			t.Fatalf("%s: %v, %d phases", name, err, len(phases))
		}
		if got := int64(phases[0].Estimate.Of(mem.Optimizer)); got != tt.states*124439808 {
			t.Errorf("%s: %d bytes of optimizer states, want %d", name, got, tt.states*124439808)
		}
	}
	if _, err := ask("nobody/nothing", nil); err == nil {
		t.Error("a model that nobody knows is priced")
	}
	whole, err := ask("Qwen/Qwen3-0.6B", nil)
	if err != nil {
		t.Fatal(err)
	}
	adapted, err := ask("Qwen/Qwen3-0.6B", map[string]string{"lora-rank": "8"})
	if err != nil {
		t.Fatal(err)
	}
	if a, w := adapted[0].Estimate.Total(), whole[0].Estimate.Total(); a >= w {
		t.Errorf("adapters need %v, the whole model %v", a, w)
	}
}
