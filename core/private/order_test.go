package private

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The order in which names were noted counts; what was not noted is older, in the order in which it was given.
func TestInOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	order := func(names ...string) string {
		names = slices.Clone(names)
		InOrder(dir, names)
		return strings.Join(names, " ")
	}
	if got := order("b", "a"); got != "b a" {
		t.Errorf("without a list: %s", got)
	}
	for _, name := range []string{"z", "gone", "m"} {
		if err := NoteMade(dir, name); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(orderOf(dir), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("torn li") // a full disk
	f.Close()
	if err := NoteMade(dir, "c"); err != nil {
		t.Fatal(err)
	}
	if got := order("a", "c", "m", "new", "z"); got != "a new z m c" {
		t.Errorf("the order is %s", got)
	}
	if err := os.WriteFile(orderOf(dir), []byte(strings.Repeat("x\n", longestOrder)+"c\na\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := order("a", "c"); got != "c a" {
		t.Errorf("the end of a long list: %s", got)
	}
}
