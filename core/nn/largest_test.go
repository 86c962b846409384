package nn_test

import (
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// A part's parameters are those that require a gradient, and those that never do, each with its path.
func TestTrained(t *testing.T) {
	tape := nn.NewTape()
	tape.Part("model", func() {
		tape.Frozen = true
		x := tape.Linear("base", tape.Input(nn.F32, 2, 4), 8, true)
		tape.Frozen = false
		tape.Linear("adapter", x, 3, false)
	})
	tape.Part("other", func() { tape.Scope("other", func() { tape.FrozenParam("scale", 5) }) })
	for name, tt := range map[string]struct {
		got  []nn.Weight
		want map[string]int64
	}{
		"trained":   {tape.Trained("model"), map[string]int64{"model.adapter.weight": 24}},
		"untrained": {tape.Untrained("model"), map[string]int64{"model.base.weight": 32, "model.base.bias": 8}},
		"another":   {tape.Untrained("other"), map[string]int64{"other.other.scale": 5}},
	} {
		if len(tt.got) != len(tt.want) {
			t.Errorf("%s: %d parameters, want %d", name, len(tt.got), len(tt.want))
		}
		for _, w := range tt.got {
			if w.Numel() != tt.want[w.Path] {
				t.Errorf("%s: %s has %d elements, want %d", name, w.Path, w.Numel(), tt.want[w.Path])
			}
		}
	}
}
