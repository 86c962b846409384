package dualattn

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/plugin"
)

// What a bare network cannot be is said in a sentence, with what would do; what it can be, however small, is priced.
func TestEstimateOfTheImpossible(t *testing.T) {
	for name, tt := range map[string]struct {
		arch     string
		settings map[string]string
		says     string // "": it is priced
	}{
		"heads":            {"dual cross-attention ViT", map[string]string{"heads": "7"}, "dim is 768 and heads is 7"},
		"fewer than heads": {"dual cross-attention ViT", map[string]string{"dim": "7"}, "heads divides dim"},
		"a share of none":  {"dual cross-attention ViT", map[string]string{"top-k": "nan"}, "top-k is NaN: it is a share above 0 and of at most 1"},
		"more than all":    {"dual cross-attention ViT", map[string]string{"dropout": "1"}, "dropout is 1: it is a share of at least 0 and below 1"},
		"no patch":         {"dual cross-attention ViT", map[string]string{"image": "7"}, "--image 16 is the least"},
		"beyond counting":  {"dual cross-attention ViT", map[string]string{"image": "9999999999x64"}, "with these settings: a micro-batch of 2 with images of 9999999999 × 64 is too large to be counted"},
		"one patch":        {"dual cross-attention ViT", map[string]string{"image": "16", "layers": "1"}, ""},
	} {
		phases, err := New().(plugin.Estimator).Estimate(t.Context(), &plugin.Bare{Arch: tt.arch, Settings: tt.settings}, gpu.Device{})
		switch {
		case tt.says == "" && (err != nil || len(phases) == 0):
			t.Errorf("%s: %v, %d phases", name, err, len(phases))
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, want it to say %q", name, err, tt.says)
		}
	}
}
