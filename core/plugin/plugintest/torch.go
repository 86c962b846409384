package plugintest

import (
	"os"
	"path/filepath"
	"testing"
)

// Torch makes a Python that has torch of that version, as far as anybody can see who starts nothing: the interpreter is python3
// of the PATH, and torch is its version.py. It returns the interpreter's path.
func Torch(t testing.TB, version string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range map[string]string{
		"bin/python": "#!/bin/sh\nexec python3 \"$@\"\n",
		"lib/python3.11/site-packages/torch/version.py": "__version__ = '" + version + "'\ncuda = '12.4'\nhip = None\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "bin", "python")
}
