package arch_test

import (
	"testing"

	"github.com/launch-ml/launch/tools/truth/rows"
)

// Whole training steps of the projects' own classes, as tools/capture/steps.py has recorded them from PyTorch: parameters,
// saved tensors, the peak of live bytes with all model states.
func TestSteps(t *testing.T) {
	if n := rows.Check(t, "testdata/steps_sisr.json"); n < 15 {
		t.Errorf("%d rows are recorded, want at least 15", n)
	}
	if n := rows.Check(t, "testdata/steps_sisr_attention.json"); n < 15 {
		t.Errorf("%d rows of attention networks are recorded, want at least 15", n)
	}
	if n := rows.Check(t, "testdata/steps_basicsr.json"); n < 13 {
		t.Errorf("%d rows of BasicSR are recorded, want at least 13", n)
	}
	for name, least := range map[string]int{"nafnet": 3, "restormer": 2} {
		if n := rows.Check(t, "testdata/steps_basicsr_"+name+".json"); n < least {
			t.Errorf("%d rows of %s are recorded, want at least %d", n, name, least)
		}
	}
	if n := rows.Check(t, "testdata/steps_neosr.json"); n < 15 {
		t.Errorf("%d rows of neosr are recorded, want at least 15", n)
	}
}
