package python

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/config/command"
)

// A relative folder in PYTHONPATH lies in the folder of the command, not in that of its script.
func TestRelativePath(t *testing.T) {
	dir := t.TempDir()
	e := Of(command.Prog{Dir: dir}, []string{"PYTHONPATH=lib:/abs"})
	got := e.roots(filepath.Join(dir, "src"))
	if !slices.Contains(got, filepath.Join(dir, "lib")) || !slices.Contains(got, "/abs") {
		t.Errorf("%v", got)
	}
}
