package arch

import (
	"strings"
	"testing"
)

// Whatever divides or changes the weights of experts has no formula.
func TestExpertsAlone(t *testing.T) {
	experts := Step{Model: Config{Type: "mixtral", Experts: &Experts{}}}
	if why := experts.ofExperts(); why != "" {
		t.Errorf("as they are they are unknown: %s", why)
	}
	for want, change := range map[string]func(*Step){
		"DeepSpeed": func(s *Step) { s.Shards = &Shards{} }, "FSDP": func(s *Step) { s.FSDP = &FSDP{} },
		"quantised": func(s *Step) { s.Quant = &Quant{} }, "preference": func(s *Step) { s.Preference = &Preference{} },
	} {
		s := experts
		if change(&s); !strings.Contains(s.ofExperts(), want) {
			t.Errorf("%s: unknown because %q", want, s.ofExperts())
		}
	}
}
