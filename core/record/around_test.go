package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// What was measured before a change of the script, of a file of settings, or of a variable that the script reads is of
// another program. What changes no memory does not count, and neither does a job with a formula.
func TestAround(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := "import os\nwide = os.environ.get('WIDE', '1')\nrank = os.environ['RANK']\n" +
		"run = os.getenv(\"WANDB_NAME\")\n" +
		"settings = load('conf/fixed.yaml')\n"
	if err := os.Mkdir(filepath.Join(dir, "conf"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"t.py": script, "c.yaml": "width: 1\n", "args.json": "{}", "result.json": "{}", "lib.py": "",
		"acc.yaml": "bf16: no\n",
	} {
		write(name, text)
	}
	env := []string{"WIDE=1", "RANK=0", "WANDB_NAME=a", "OTHER=1"}
	arch, ranks := "", int64(1)
	of := func() string {
		line := "accelerate launch --config_file acc.yaml t.py --settings c.yaml --params args.json --out-file result.json"
		return programOf(&job.Job{Arch: arch, Batch: job.Batch{Ranks: ranks},
			Command: job.Command{Args: strings.Fields(line), Dir: dir, Env: env}})
	}
	for _, tt := range []struct {
		what   string
		change func()
		same   bool
	}{
		{"the script", func() { write("t.py", script+"deep = 2\n") }, false},
		{"a file of settings", func() { write("c.yaml", "width: 2\n") }, false},
		{"a file that the script names", func() { write("conf/fixed.yaml", "width: 2\n") }, false},
		{"JSON settings", func() { write("args.json", `{"width": 2}`) }, false},
		{"the launcher's settings", func() { write("acc.yaml", "bf16: yes\n") }, false},
		{"a variable that it reads", func() { env = []string{"WIDE=2", "RANK=0"} }, false},
		{"a variable of the run", func() { env = []string{"WIDE=2", "RANK=1", "WANDB_NAME=b"} }, true},
		{"a variable that it does not read", func() { env = []string{"WIDE=2", "RANK=1", "OTHER=2"} }, true},
		{"what it writes", func() { write("result.json", `{"loss": 1}`) }, true},
		{"more ranks", func() { ranks = 2 }, false},
		{"a module", func() { write("lib.py", "x = 1\n") }, true},
		{"nothing, with a formula", func() { arch = "net" }, false},
		{"the script, with a formula", func() { write("t.py", script) }, true},
	} {
		before := of()
		tt.change()
		if same := of() == before; same != tt.same {
			t.Errorf("%s: the same program: %v, want %v", tt.what, same, tt.same)
		}
	}
}
