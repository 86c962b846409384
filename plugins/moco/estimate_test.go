package moco

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
		"a transformer's one size":      {"vit_small", map[string]string{"image": "225"}, "vit_small takes images of 224 only, not of 225"},
		"a queue that is no multiple":   {"resnet18", map[string]string{"project": "v2", "queue": "100"}, "a step enqueues 32 keys, and they have to divide the queue: 100 is no multiple of them, --queue 128 is"},
		"of all ranks":                  {"resnet18", map[string]string{"project": "v1", "queue": "96", "ranks": "2"}, "--queue 128 is"},
		"beyond counting":               {"resnet18", map[string]string{"image": "5000000000"}, "with these settings: a micro-batch of 32 with images of 5000000000 is too large to be counted"},
		"one sample":                    {"resnet18", map[string]string{"micro-batch": "1"}, "--micro-batch 2 does"},
		"an optimizer nobody has":       {"resnet18", map[string]string{"optimizer": "nosuch"}, "it is one of lars, sgd, adamw"},
		"one sample of each of two":     {"resnet18", map[string]string{"micro-batch": "1", "ranks": "2"}, ""},
		"one sample, no projector's BN": {"resnet18", map[string]string{"micro-batch": "1", "project": "v2"}, ""},
		"a queue that nothing divides":  {"resnet18", map[string]string{"project": "solar", "queue": "100"}, ""},
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
