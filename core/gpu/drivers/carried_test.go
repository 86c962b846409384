//go:build carried

package drivers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCarriedHere asks a driver by the carried program, from memory and from a file. TestCarried runs it.
func TestCarriedHere(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no nvidia-smi
	all, err := List(t.Context())
	if err != nil || len(all) != 1 || all[0].UUID != "GPU-carried" || all[0].Asked != "" {
		t.Errorf("from memory: %+v, %v", all, err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	path, started, err := inFile()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, word).Output()
	if err != nil || !strings.Contains(string(out), "GPU-carried") {
		t.Errorf("from a file: %s, %v", out, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	started()
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); err != nil || len(left) != 0 {
		t.Errorf("these files are left: %q, %v", left, err)
	}
}
