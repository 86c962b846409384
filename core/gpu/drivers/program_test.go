//go:build cgo && !carried

package drivers

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestCarried builds the package as `make dist` does, with the program that it carries, and lists the card of a
// fake driver.
func TestCarried(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	dir := t.TempDir()
	child, library := filepath.Join(dir, "child"), filepath.Join(dir, "libnvidia-ml.so.1")
	for _, args := range [][]string{
		{"go", "build", "-o", child, "../../../cmd/nvml-child"},
		{"cc", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "fakenvml.c")},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	state := filepath.Join(dir, "state")
	if err := os.WriteFile(state, []byte("gpu Fake_card GPU-carried 8589934592 0 1048576 8.6\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("carried.bin")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {here: child}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-count=1", "-tags=carried", "-overlay", list, "-run",
		"^TestCarriedHere$", "-v", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "LD_LIBRARY_PATH="+dir, "FAKE_NVML_STATE="+state)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestCarriedHere")) {
		t.Errorf("%v\n%s", err, out)
	}
}
