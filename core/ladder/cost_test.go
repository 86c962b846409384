package ladder

import (
	"testing"
)

// Every cost has a name and a meaning of its own.
func TestMeanings(t *testing.T) {
	seen := map[string]bool{"unknown": true, "": true}
	for c := None; c <= Model; c++ {
		if m := c.Meaning(); seen[m] || len(m) < 10 {
			t.Errorf("%v means %q", c, m)
		} else {
			seen[m] = true
		}
	}
	if got := Cost(99).Meaning(); got != "unknown" {
		t.Errorf("a cost that does not exist means %q", got)
	}
}
