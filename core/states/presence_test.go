package states

import (
	"slices"
	"testing"
)

// A run knows whether it was alone in a folder, also of one that came later.
func TestPresence(t *testing.T) {
	dir := t.TempDir()
	join := func(folder, who string) *Presence {
		t.Helper()
		p, err := Join(dir, folder, who)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, other := join("/w/runs", "a"), join("/w/other", "c")
	if !a.Alone() || !other.Alone() {
		t.Error("the only run in its folder is not alone")
	}
	b := join("/w/runs", "b")
	if a.Alone() || b.Alone() || !other.Alone() {
		t.Error("two runs in a folder, and one is alone")
	}
	b.Leave()
	if a.Alone() {
		t.Error("the other has gone, and what it wrote is still there")
	}
	a.Leave()
	if Undisturbed(dir, "/w/runs", "a") {
		t.Error("another run was there, and what was left is taken for undisturbed")
	}
	c := join("/w/runs", "c")
	if !c.Alone() {
		t.Error("nobody is left, and a new run is not alone")
	}
	c.Leave()
	if !Undisturbed(dir, "/w/runs", "c") || Undisturbed(dir, "/w/runs", "b") || Undisturbed(dir, "/w/new", "c") {
		t.Error("the last mark is of the run that was there last, alone")
	}
	if got := Folders("/w", []string{"a/*.pt", "runs/*/x.pt", "/abs/b/checkpoint-*/"}); !slices.Equal(got, []string{"/w/a", "/abs/b"}) {
		t.Errorf("folders: %q", got)
	}
}
