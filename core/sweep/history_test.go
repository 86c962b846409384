package sweep

import (
	"testing"

	"github.com/launch-ml/launch/core/run"
)

// A run that was continued by hand, and has succeeded, is its row's result: the row does not run again.
func TestContinued(t *testing.T) {
	short := Result{Ending: run.OutOfMemory, Code: 1, Run: "R1", Known: true}
	good := Result{Ending: run.Succeeded, Run: "R1", Known: true, Mixed: []string{"mixed from step 2"}}
	other := Result{Ending: run.Succeeded, Run: "R2"}
	for name, tt := range map[string]struct {
		result Result
		want   State
	}{"its run": {good, Succeeded}, "another run": {other, Waiting}} {
		h, err := Replay([]Event{{Kind: Listed, Trials: []Trial{{Number: 1}}, Done: true},
			{Kind: Started, Trial: 1, Start: 1},
			{Kind: Ended, Trial: 1, Start: 1, Result: &short}, {Kind: Continued, Trial: 1, Result: &tt.result},
			{Kind: Taken, Again: true}})
		if err != nil || h.Rows[0].State != tt.want || tt.want == Succeeded && len(h.Rows[0].Result.Mixed) != 1 {
			t.Errorf("%s: %+v, %v", name, h.Rows[0], err)
		}
	}
}
