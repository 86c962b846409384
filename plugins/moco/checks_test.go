package moco

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
)

// Each check has a log that meets it and a near miss, in each trainer's form.
func TestChecks(t *testing.T) {
	const plausible, moves, accuracy = "the loss is plausible", "the loss moves",
		"the accuracy of the contrastive task is plausible"
	for _, tt := range []struct {
		project, log, check string
		want                job.CheckState
	}{
		{"v2", v2Lines, plausible, job.Met},
		{"v2", strings.ReplaceAll(v2Lines, "Loss 9.1", "Loss -9.1"), plausible, job.NotMet},
		{"v2", "=> creating model 'resnet50'\n", plausible, job.NotChecked},
		{"v2", v2Lines, moves, job.NotMet},
		{"v2", strings.Replace(v2Lines, "Loss 9.1000e+00 (", "Loss 9.1001e+00 (", 1), moves, job.Met},
		{"v2", v2Lines, accuracy, job.Met},
		{"v2", strings.ReplaceAll(v2Lines, "(  3.12)", "(103.12)"), accuracy, job.NotMet},
		{"v3", v3Lines, plausible, job.Met},
		{"v3", strings.ReplaceAll(v3Lines, "Loss 6.9100e+00", "Loss nan"), plausible, job.NotMet},
		{"v3", v3Lines, moves, job.NotChecked},
		{"solar", bar, moves, job.Met},
		{"solar_exp", barOfBranch, plausible, job.Met},
		{"solar", strings.ReplaceAll(bar, "11.0803", "11.0903"), moves, job.NotMet},
	} {
		j := jobOf(t, tt.project)
		_, state := judged(t, j, tt.log, oom.Exited(0))
		found := false
		for _, it := range run.Checklist(j, []run.Attempt{{Outcome: run.Outcome{Ending: run.Succeeded,
			Checked: state.Checks}}}) {
			if it.Name != tt.check {
				continue
			}
			if found = true; it.State != tt.want {
				t.Errorf("%s, %.60q: %+v", tt.project, tt.log, it)
			}
		}
		if !found {
			t.Errorf("%s has no check %q", tt.project, tt.check)
		}
	}
	for _, c := range jobOf(t, "v3").Signs.Checks {
		if err := c.Check(); err != nil || c.Name == accuracy {
			t.Errorf("v3 prints no accuracy: %+v, %v", c, err)
		}
	}
}
