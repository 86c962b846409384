package run

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
)

// Each of launch's own lines is met by one outcome, not met by a near miss, and not checked where nothing shows it.
func TestChecklist(t *testing.T) {
	batch := config.Edit{Knob: job.MicroBatch, At: config.Address{Doc: "x.yml", Path: "batch"}, From: "4", To: "2"}
	counted := job.Job{Steps: 12, Signs: job.Signs{Lines: []job.Sign{{Kind: job.Progress}}}}
	uncounted := counted
	uncounted.Steps = 0
	for name, tt := range map[string]struct {
		job   job.Job
		plan  Plan
		out   Outcome
		which int
		want  job.CheckState
		has   string
	}{
		"the last iteration": {counted, Plan{}, Outcome{Ending: Succeeded, Iteration: 12}, 0, job.Met,
			"iteration 12 of 12"},
		"the last report before it": {job.Job{Steps: 12, Signs: job.Signs{Lines: counted.Signs.Lines, Every: 5}}, Plan{},
			Outcome{Ending: Succeeded, Iteration: 10}, 0, job.Met, "iteration 10 of 12"},
		"its success line": {uncounted, Plan{}, Outcome{Ending: Succeeded, Iteration: 3, Claimed: true}, 0,
			job.Met, "success line"},
		"too few iterations": {counted, Plan{}, Outcome{Ending: Succeeded, Iteration: 6,
			Short: "the last step that it reported was 6 of 12"}, 0, job.NotMet, "6 of 12"},
		"nearly all of them": {counted, Plan{}, Outcome{Ending: Succeeded, Iteration: 10}, 0,
			job.NotChecked, "iteration 10 of 12"},
		"how many is not known": {uncounted, Plan{}, Outcome{Ending: Succeeded, Iteration: 12}, 0,
			job.NotChecked, "not known how many"},
		"no iteration": {counted, Plan{}, Outcome{Ending: Succeeded}, 0, job.NotChecked,
			"no iteration"},
		"a failure": {counted, Plan{}, Outcome{Ending: Failed, Iteration: 12}, 0, job.NotMet,
			"failed at iteration 12"},
		"no out-of-memory": {counted, Plan{}, Outcome{Ending: Succeeded}, 1, job.Met, "had none"},
		"one at the end": {counted, Plan{}, Outcome{Ending: OutOfMemory}, 1, job.NotMet,
			"ended with one"},
		"one that it survived": {counted, Plan{}, Outcome{Ending: Succeeded, Survived: " OOM Recovery successful"},
			1, job.NotMet, "went on after a failure"},
		"interrupted before any": {counted, Plan{}, Outcome{Ending: Interrupted}, 1, job.NotChecked,
			"did not come to its end"},
		"nothing was set, nor printed": {counted, Plan{}, Outcome{Ending: Succeeded}, 2, job.NotChecked,
			"changed none, and the program printed none"},
		"nothing was set": {counted, Plan{Batch: job.Batch{Micro: 4, Accumulation: 1, Ranks: 1}}, Outcome{Ending: Succeeded,
			Settings: map[string]string{job.MicroBatch: "4"}}, 2, job.Met, "reports no other value"},
		"passed, and not printed": {job.Job{Signs: job.Signs{TakesArgv: true}}, Plan{Edits: []config.Edit{{
			Knob: job.MicroBatch, At: config.Address{Doc: config.ArgvDoc, Path: "--batch"}, To: "2"}}},
			Outcome{Ending: Succeeded}, 2, job.NotChecked, "launch passed micro-batch = 2"},
		"an early stop, with its reason": {counted, Plan{}, Outcome{Ending: Succeeded, Iteration: 6,
			Short: "6 of 12", Early: "Early stopping"}, 0, job.NotChecked, "printed why"},
		"a restart": {counted, Plan{Resume: &State{}}, Outcome{Ending: Succeeded, Iteration: 12, Resumption: &Resumption{
			State: Restarted, First: 1, Saved: 8}}, 3, job.NotMet, "first step is 1, the state is of step 8"},
		"a resume": {counted, Plan{Resume: &State{}}, Outcome{Ending: Succeeded, Iteration: 12, Resumption: &Resumption{
			State: Resumed, First: 9, Saved: 8}}, 3, job.Met, "first step is 9"},
		"a resume that nothing shows": {counted, Plan{Resume: &State{}}, Outcome{Ending: Succeeded, Resumption: &Resumption{
			State: NotChecked, Why: "no step"}}, 3, job.NotChecked, "no step"},
		"confirmed by a line": {counted, Plan{Edits: []config.Edit{batch}}, Outcome{Ending: Succeeded,
			Settings: map[string]string{job.MicroBatch: "2"}}, 2, job.Met, "confirms each of the 1"},
		"another value": {counted, Plan{Edits: []config.Edit{batch}}, Outcome{Ending: Succeeded,
			Settings: map[string]string{job.MicroBatch: "4"}}, 2, job.NotMet, "micro-batch = 2 (it reports 4)"},
		"no line": {counted, Plan{Edits: []config.Edit{batch}}, Outcome{Ending: Succeeded}, 2,
			job.NotChecked, "nothing that the program printed or saved confirms micro-batch = 2"},
		"the recipe was read otherwise": {counted, Plan{Batch: job.Batch{Micro: 4, Accumulation: 1, Ranks: 1}},
			Outcome{Ending: Succeeded, Settings: map[string]string{job.MicroBatch: "8"}}, 2, job.NotMet, "it reports 8"},
	} {
		it := Checklist(&tt.job, []Attempt{{Plan: tt.plan, Outcome: tt.out}})[tt.which]
		if it.State != tt.want || !strings.Contains(it.Seen, tt.has) {
			t.Errorf("%s: %+v", name, it)
		}
	}
}

// The values of a plugin's check are those of the training that the last attempt ended: of its saved state and what
// came after it. Trials do not count.
func TestChecklistJoins(t *testing.T) {
	c := job.Check{Name: "psnr moves", Pattern: `psnr (?P<value>\S+)`, Rule: job.Moving}
	j := &job.Job{Signs: job.Signs{Checks: []job.Check{c}}}
	attempt := func(value string, resume *State, trial Trial) Attempt {
		var v job.CheckValues
		v.Add(c, "", job.CheckPoint{Value: value, Step: 1})
		return Attempt{Plan: Plan{Resume: resume, Trial: trial}, Outcome: Outcome{Ending: Succeeded,
			Checked: []job.CheckValues{v}}}
	}
	for name, tt := range map[string]struct {
		attempts []Attempt
		want     job.CheckState
	}{
		"one attempt":      {[]Attempt{attempt("1", nil, "")}, job.NotChecked},
		"one that resumed": {[]Attempt{attempt("1", nil, ""), attempt("2", &State{Iteration: 1}, "")}, job.Met},
		"one that resumed, alike": {[]Attempt{attempt("1", nil, ""), attempt("1", &State{Iteration: 1}, "")},
			job.NotMet},
		"one that started over": {[]Attempt{attempt("1", nil, ""), attempt("2", nil, "")}, job.NotChecked},
		"a rehearsal before":    {[]Attempt{attempt("1", nil, Rehearsal), attempt("2", nil, "")}, job.NotChecked},
		"an older record":       {[]Attempt{{Outcome: Outcome{Ending: Succeeded}}}, job.NotChecked},
	} {
		all := Checklist(j, tt.attempts)
		if it := all[len(all)-1]; it.State != tt.want {
			t.Errorf("%s: %+v", name, it)
		}
	}
	if all := Checklist(j, []Attempt{attempt("1", nil, Rehearsal)}); all != nil {
		t.Errorf("a rehearsal alone: %+v", all)
	}
}

// What an advice reports is not printed a second time.
func TestChecklistElsewhere(t *testing.T) {
	c := job.Check{Name: "the loss is finite", Rule: job.Finite}
	var v job.CheckValues
	v.Add(c, "", job.CheckPoint{Value: "nan", Step: 1})
	out := Outcome{Ending: Succeeded, Checked: []job.CheckValues{v}}
	j := &job.Job{Signs: job.Signs{Checks: []job.Check{c}}}
	if open := job.OpenChecks(Checklist(j, []Attempt{{Outcome: out}})); len(open) != 1 {
		t.Errorf("without advice: %+v", open)
	}
	out.Advice = []job.Advice{{Name: job.NotFinite}}
	if open := job.OpenChecks(Checklist(j, []Attempt{{Outcome: out}})); len(open) != 0 {
		t.Errorf("with advice: %+v", open)
	}
}
