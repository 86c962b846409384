package arch_test

import (
	"testing"

	"github.com/launch-ml/launch/tools/truth/rows"
)

// Whole training steps of the projects' own classes, as tools/capture/steps.py has recorded them from PyTorch: parameters,
// saved tensors, the peak of live bytes with all model states.
func TestSteps(t *testing.T) {
	if n := rows.Check(t, "testdata/steps_moco.json") + rows.Check(t, "testdata/steps_moco_exp.json"); n < 40 {
		t.Errorf("%d rows are recorded, want at least 40", n)
	}
}

// torchvision's classifiers, which moco builds on.
func TestClassifiers(t *testing.T) {
	if n := rows.Check(t, "testdata/steps_torchvision.json"); n < 20 {
		t.Errorf("%d rows are recorded, want at least 20", n)
	}
}
