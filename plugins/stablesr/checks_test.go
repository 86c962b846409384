package stablesr

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
)

// Each check has a bar that meets it and a near miss.
func TestChecks(t *testing.T) {
	signs := stock(t).Signs
	j := *stock(t)
	for _, tt := range []struct {
		name, out string
		want      [2]job.CheckState // plausible, moves
	}{
		{"two losses", epoch + strings.ReplaceAll(epoch, "0.397", "0.391"), [2]job.CheckState{job.Met, job.Met}},
		{"one loss twice", epoch + epoch, [2]job.CheckState{job.Met, job.NotMet}},
		{"NaN", epoch + strings.ReplaceAll(epoch, "loss=0.397", "loss=nan"), [2]job.CheckState{job.NotMet,
			job.NotChecked}},
		{"no bar", sanity, [2]job.CheckState{job.NotChecked, job.NotChecked}},
		{"another figure", "\rEpoch 0:   7%|7 | 1/14 [00:00<00:00, other_loss_=0.397, v_num=0]",
			[2]job.CheckState{job.NotChecked, job.NotChecked}},
	} {
		state := detect(t, signs, head+tt.out+"\n", "").State()
		all := run.Checklist(&j, []run.Attempt{{Outcome: run.Outcome{Ending: run.Succeeded, Checked: state.Checks}}})
		if got := [2]job.CheckState{all[3].State, all[4].State}; got != tt.want {
			t.Errorf("%s: %+v", tt.name, all[3:])
		}
	}
}
