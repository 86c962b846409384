package lm

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin/plugintest"
)

// What LLaMA-Factory's stages beside sft make of a recipe, or why that has no formula.
func TestReadsStages(t *testing.T) {
	for name, tt := range map[string]struct {
		args    []string
		read    func(r *recognized) bool
		unknown string
	}{
		"pairs": {[]string{"stage=dpo", "lora_dropout=0.1"}, func(r *recognized) bool {
			p := r.step.Preference
			return p != nil && !p.Precomputed && !r.step.Fused && r.step.LoRA.Dropout == 0 && r.pads && r.multiple &&
				!r.predicted
		}, ""},
		"a copy": {[]string{"stage=dpo", "finetuning_type=full"}, func(r *recognized) bool {
			return r.step.Weights == nn.F32 && r.step.Preference.Reference == nn.BF16
		}, ""},
		"no reference": {[]string{"stage=dpo", "pref_loss=simpo"}, func(r *recognized) bool {
			return r.step.Preference.Precomputed
		}, ""},
		"another reference": {[]string{"stage=dpo", "ref_model=nobody/x"}, nil, "ref_model"},
		"blocks": {[]string{"stage=pt"}, func(r *recognized) bool {
			return !r.pads && r.step.Preference == nil && r.step.Length == 512
		}, ""},
		"packed blocks": {[]string{"stage=pt", "packing=true"}, func(r *recognized) bool { return !r.pads }, ""},
		"single texts": {[]string{"stage=pt", "packing=false"}, func(r *recognized) bool {
			return r.pads && !r.multiple
		}, ""},
		"another stage":    {[]string{"stage=ppo"}, nil, "stage ppo"},
		"of a fine-tuning": {[]string{"compute_accuracy=true"}, func(r *recognized) bool { return r.predicted }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := recognised(t, factory(t, append([]string{"a.yaml"}, tt.args...)...))
			if !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if tt.read != nil && !tt.read(r) {
				t.Errorf("read as %+v with %+v and %+v", r.step, r.step.LoRA, r.step.Preference)
			}
		})
	}
}

func TestStagesPromises(t *testing.T) {
	for _, args := range [][]string{{"stage=dpo"}, {"stage=dpo", "finetuning_type=full"}, {"stage=pt", "packing=false"}} {
		plugintest.Check(t, New(), factory(t, append([]string{"a.yaml"}, args...)...), card)
	}
}
