package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Python 3.14 starts without its io module, of which earlier ones have made use before the hook.
func TestIOIsNotThereYet(t *testing.T) {
	dir, front := lay(t), t.TempDir()
	text := "import sys\nsys.modules.pop('io')\nsys.path.remove(" + `"` + front + `"` + ")\ndel sys.modules['sitecustomize']\nimport sitecustomize\n"
	if err := os.WriteFile(filepath.Join(front, "sitecustomize.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := install(t, environ(), took(t, filepath.Join(dir, "self.py")))
	env := environ(o.Env...)
	for i, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PYTHONPATH="); ok {
			env[i] = "PYTHONPATH=" + front + string(filepath.ListSeparator) + path
		}
	}
	if out := start(t, dir, env, mainPython(t), "self.py"); out != (outcome{stdout: "8 9\n"}) {
		t.Errorf("%+v", out)
	}
}
