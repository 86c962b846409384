package plugintest

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
)

// groups are those that a sign's pattern has to have.
var groups = map[job.SignKind]string{job.Progress: "iteration", job.Resumed: "iteration", job.Memory: "bytes", job.Setting: "value"}

// signs holds what a job says of its program's words against what launch does with them: each mistake here is silent in a run.
func signs(t testing.TB, j *job.Job, set *ladder.Set) {
	t.Helper()
	if _, err := oom.NewDetector(j.Signs); err != nil {
		t.Error(err)
		return
	}
	for _, s := range j.Signs.Lines {
		re := regexp.MustCompile(s.Pattern)
		if g := groups[s.Kind]; g != "" && re.SubexpIndex(g) < 0 {
			t.Errorf("the %s sign %q has no group %q", s.Kind, s.Pattern, g)
		}
		if s.Phase != "" && set.Ladder(s.Phase) == nil && s.Kind != job.OutOfMemory {
			t.Errorf("the %s sign %q is of a phase %q, which has no ladder", s.Kind, s.Pattern, s.Phase)
		}
		if s.Kind == job.Setting && !slices.ContainsFunc(j.Knobs, func(k job.Knob) bool { return k.Name == s.Knob }) &&
			!slices.ContainsFunc(set.Invariants, func(in ladder.Invariant) bool { return in.Name == s.Knob }) {
			t.Errorf("the setting sign %q names %q, which is neither a knob nor an invariant of the job", s.Pattern, s.Knob)
		}
	}
	for _, glob := range slices.Concat(j.Signs.States, j.Signs.Log, j.Signs.Recipes, j.Resume.Aside) {
		if _, err := filepath.Match(glob, ""); err != nil {
			t.Errorf("%q matches no file: %v", glob, err)
		}
	}
	if p := j.Signs.StateIteration; p != "" {
		if re, err := regexp.Compile(p); err != nil || re.SubexpIndex("iteration") < 0 {
			t.Errorf("the states' %q has no group \"iteration\" (%v)", p, err)
		}
	}
}
