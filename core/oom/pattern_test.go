package oom

import (
	"testing"

	"github.com/launch-ml/launch/core/oom/printed"
)

// TestPatterns compiles what would otherwise be compiled in the moment of a failure.
func TestPatterns(t *testing.T) {
	for _, r := range rules {
		r.re.MatchString("x")
		if r.kind == NoMemory && r.name == "" || r.kind != NoMemory && r.name != "" {
			t.Errorf("a failure that is not memory has a name, and only that: %q of %s", r.name, r.kind)
		}
		if r.re.MatchString("") {
			t.Errorf("%s matches nothing at all", r.re)
		}
	}
	for _, r := range phaseRules {
		for _, p := range []*pattern{r.path, r.name} {
			if p != nil {
				p.MatchString("x")
			}
		}
	}
	for _, p := range []*pattern{printed.NoHole, mention, quotes, logged, harness, printed.Recovered, anotherMessage,
		pythonLine,
		exceptionHead,
		exceptionLine} {
		p.MatchString("x")
	}
}
