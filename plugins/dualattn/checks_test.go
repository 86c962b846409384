package dualattn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
)

// Each check has a log that meets it and a near miss. Two figures may be alike by chance.
func TestChecks(t *testing.T) {
	j := recognized(t, files("three streams"), fgvc()...)
	for values, want := range map[string][2]job.CheckState{ // plausible, moves
		"3.20 61.20 71.20":  {job.Met, job.Met},
		"71.20 71.20 71.20": {job.Met, job.NotMet},
		"71.20 71.20":       {job.Met, job.NotChecked},
		"71.20 171.20 0.50": {job.NotMet, job.Met},
		"":                  {job.NotChecked, job.NotChecked},
	} {
		var b strings.Builder
		for i, v := range strings.Fields(values) {
			fmt.Fprintf(&b, "\nEpoch %d/100\nTrain Loss: 1.0\nVal Top-1 Acc: %s%% (Best: 71.20%% @ epoch 15)\n", 5*(i+1), v)
		}
		_, state := judged(t, j.Signs, 0, stdout[:20]+"\n"+b.String(), stderr)
		all := run.Checklist(j, []run.Attempt{{Outcome: run.Outcome{Ending: run.Succeeded, Checked: state.Checks}}})
		if len(all) != 5 {
			t.Fatalf("the list is %+v", all)
		}
		if got := [2]job.CheckState{all[3].State, all[4].State}; got != want {
			t.Errorf("%q: %+v", values, all[3:])
		}
	}
}
