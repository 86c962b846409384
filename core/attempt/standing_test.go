package attempt

import (
	"errors"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/run"
)

// A run resumes from what is left of its own, and says what it passes over. It stops where nothing is left, and where
// others have gone on in its folder.
func TestDecide(t *testing.T) {
	a, b := &run.State{Path: "/w/1.pt"}, run.State{Path: "/w/2.pt"}
	newer, lost := []string{"3.pt"}, []run.Loss{{State: b, Why: "changed since this run wrote it"}}
	const line = "2.pt changed since this run wrote it: launch resumes from 1.pt, which this run wrote before that"
	for name, tt := range map[string]struct {
		s           Standing
		lines, stop string
	}{
		"nothing has changed":  {Standing{From: a}, "", ""},
		"it never saved":       {Standing{}, "", ""},
		"the newest is lost":   {Standing{Lost: lost, From: a}, line, ""},
		"all are lost":         {Standing{Lost: lost}, "", "no saved state is left"},
		"others have gone on":  {Standing{From: a, Newer: newer}, "", "has written saved states in its folder: 3.pt. Move"},
		"both":                 {Standing{Lost: lost, Newer: newer}, "", "since this run wrote it; since its last attempt"},
		"a killed one has one": {Standing{Lost: lost}.Now(a), "", ""},
		"a killed one has not": {Standing{Lost: lost}.Now(nil), "", "no saved state is left"},
	} {
		err := tt.s.Decide("R")
		var why *StatesError
		if (err != nil) != (tt.stop != "") || err != nil && (!errors.As(err, &why) ||
			!strings.Contains(err.Error(), tt.stop) || !strings.Contains(err.Error(), "launch resume R --from-start")) {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Join(tt.s.Lines(), "|"); err == nil && got != tt.lines {
			t.Errorf("%s: %s", name, got)
		}
	}
}
