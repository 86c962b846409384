package ui

import "testing"

// A rehearsal is no attempt at the run, and is not said to be one.
func TestTries(t *testing.T) {
	for want, n := range map[string][2]int{
		"1 attempt": {1, 0}, "3 attempts": {3, 0}, "1 attempt after 1 short run": {1, 1}, "2 attempts after 3 short runs": {2, 3}, "1 short run": {0, 1},
	} {
		if got := tries(n[0], n[1]); got != want {
			t.Errorf("%d attempts and %d short runs are %q, want %q", n[0], n[1], got, want)
		}
	}
}
