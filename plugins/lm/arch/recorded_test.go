package arch_test

import (
	"testing"

	"github.com/launch-ml/launch/tools/truth/rows"
)

// Whole training steps of transformers' own classes, and steps of an evaluation, as tools/capture/steps.py has
// recorded them from PyTorch: parameters, saved tensors, the peak of live bytes with all model states.
func TestSteps(t *testing.T) {
	if n := rows.Check(t, "testdata/steps_lm.json"); n < 134 {
		t.Errorf("%d rows are recorded, want at least 134", n)
	}
}

// Steps of the Trainer itself on a CPU, and of trl's SFTTrainer.
func TestTrainer(t *testing.T) {
	if n := rows.Check(t, "testdata/steps_lm_trainer.json"); n < 79 {
		t.Errorf("%d rows are recorded, want at least 79", n)
	}
}
