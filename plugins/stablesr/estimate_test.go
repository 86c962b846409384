package stablesr

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
		"no multiple of 64":            {"LatentDiffusionSRTextWT", map[string]string{"image": "500"}, "the UNet's halves need a multiple of 64, such as 512"},
		"a pool that is no multiple":   {"LatentDiffusionSRTextWT", map[string]string{"micro-batch": "7"}, "180 is none of 7, --queue 182 is"},
		"sizes that only a recipe has": {"LatentDiffusion", nil, "the sizes of LatentDiffusion are in a recipe"},
		"the smallest":                 {"LatentDiffusionSRTextWT", map[string]string{"image": "64"}, ""},
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
