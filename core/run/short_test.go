package run

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// What is not known is nil, and a run that failed for another reason is not infeasible.
func TestShort(t *testing.T) {
	b := func(n unit.Bytes) *unit.Bytes { return &n }
	stated := oom.Report{Numbers: oom.Numbers{Requested: b(3), Allocated: b(9), Capacity: b(10)}}
	for name, tt := range map[string]struct {
		stop *Stop
		last *Outcome
		room unit.Bytes
		want *Infeasible
	}{
		"refused, unknown":    {&Stop{Refused: &Plan{Room: 8}}, nil, 0, &Infeasible{nil, b(8)}},
		"by the message":      {nil, &Outcome{Ending: OutOfMemory, Report: stated}, 0, &Infeasible{b(12), b(10)}},
		"by the measurement":  {nil, &Outcome{Ending: OutOfMemory, Report: stated, Peak: 13}, 11, &Infeasible{b(13), b(11)}},
		"nothing is known":    {nil, &Outcome{Ending: OutOfMemory}, 0, &Infeasible{}},
		"it failed otherwise": {nil, &Outcome{Ending: Failed, Report: stated}, 0, nil},
		"nothing was started": {nil, nil, 0, nil},
	} {
		if diff := cmp.Diff(tt.want, Short(tt.stop, tt.last, tt.room)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
