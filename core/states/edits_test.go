package states

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
)

// A rehearsal's settings lead into launch's folder, into the project, or where the command writes anyway.
func TestCheckRehearsal(t *testing.T) {
	dir := top(t)
	tree(t, dir, "w/out -> ../home", "w/self -> runs", "w/runs/", "home/.launch/")
	for _, tt := range []struct {
		from, to string
		inside   bool
	}{
		{"", "{scratch}", true}, {"", "{scratch}/out", true}, {"", "{scratch}//out/./x", true},
		{"", "\"{scratch}/a b\"", true},
		{"", "{scratch}/../../thesis", false}, {"", "{scratch}/a/../../b", false}, {"", "x/{scratch}", false},
		{"", "{}/home/{scratch}", false}, {"", "{scratch}{scratch}", false}, {"", "../{scratch name}", false},
		{"", "{scratch name}", true}, {"", "runs/{scratch name}", true}, {"", "{}/home/{scratch name}", false},
		{"", "3", true}, {"", "1e-4", true}, {"", "null", true}, {"", "/dev/null", true}, {"", "[1, 2]", true},
		{"", "{}/home/thesis", false}, {"", "~/thesis", false}, {"", "$HOME/thesis", false}, {"", "../home", false},
		{"", "a,{}/home", false}, {"", "key={}/home", false}, {"", "['{}/home']", false}, {"", "/", false},
		{"{}/big/a", "{}/big/a", true}, {"['{}/big/a', '{}/big/b']", "['{}/big/a']", true},
		{"", "{}/big/typed", true}, {"", "out/thesis", false}, {"", "self/x", true}, {"", "{}/w/x", true},
		{"", "a\x00b", false},
	} {
		fill := func(s string) string { return strings.ReplaceAll(s, "{}", dir) }
		j := asked(dir, "--data="+dir+"/big/typed")
		j.Rehearsal.Edits = []config.Edit{{At: config.Address{Path: "--x"}, From: fill(tt.from), To: fill(tt.to)}}
		err := NewRoots(j).CheckRehearsal()
		if (err == nil) != tt.inside || err != nil && !strings.Contains(err.Error(), "--x") {
			t.Errorf("%q to %q: %v", tt.from, tt.to, err)
		}
		j.Rehearsal = job.Rehearsal{Largest: j.Rehearsal.Edits}
		if err := NewRoots(j).CheckRehearsal(); (err == nil) != tt.inside {
			t.Errorf("the largest batch: %q to %q: %v", tt.from, tt.to, err)
		}
	}
}
