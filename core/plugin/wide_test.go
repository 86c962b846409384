package plugin

import "testing"

// A mark that fits every command is refused: its plugin could stop all of them.
func TestNarrowMarks(t *testing.T) {
	for _, m := range []Mark{{}, {Script: "*"}, {Script: "*.py"}, {Script: "?*.py"}, {Script: "[^.]*.py"},
		{Flags: []string{}}, {Script: "["},
		{Beside: []string{"./"}}, {Script: "train.py", Beside: []string{"x", "."}}} {
		if err := (Manifest{Name: "x", Marks: []Mark{m}}).Check(); err == nil {
			t.Errorf("%+v passes", m)
		}
	}
	for _, m := range []Mark{{Script: "train.py"}, {Script: "train*"}, {Script: "*train*.py"}, {Flags: []string{"opt"}},
		{Script: "*", Beside: []string{"options"}}, {Script: "*.py", Flags: []string{"opt"}}} {
		if err := (Manifest{Name: "x", Marks: []Mark{m}}).Check(); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
}
