package private

import "testing"

// A TMPDIR that is missing is not made, and costs nothing.
func TestTempDir(t *testing.T) {
	here, gone := t.TempDir(), t.TempDir()+"/gone"
	t.Setenv("TMPDIR", here)
	if dir := TempDir(); dir != here {
		t.Errorf("it is %s, not %s", dir, here)
	}
	t.Setenv("TMPDIR", gone)
	if dir := TempDir(); dir == gone || dir == "" {
		t.Errorf("it is %s", dir)
	}
}
