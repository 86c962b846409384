package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Under nohup, and in the background of a shell without job control, signals are ignored from the start: they stay ignored.
func TestSignalsUnderNohup(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		".launch-job.yaml": "script: train.py\nmicro-batch: {conf.py: C.batch}\nprogress: 'step (?P<iteration>\\d+)'\nsucceeded: 'is over'\n",
		"conf.py":          "class C:\n    batch = 4\n",
		"train.py":         "for l in open(f'/proc/{__import__(\"os\").getenv(\"LAUNCH_PID\")}/status'):\n    if l.startswith('SigIgn'): print(l)\nprint('step 1')\nprint('is over')\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	launch := filepath.Join(t.TempDir(), "launch")
	if err := os.Symlink(self, launch); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", `trap '' HUP INT; export LAUNCH_PID=$$; exec "$0" -q --device cpu -- "$1" train.py`, launch, testPython())
	c.Dir, c.Env = dir, append(os.Environ(), "HOME="+t.TempDir())
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var mask uint64
	_, said, _ := strings.Cut(string(out), "SigIgn:")
	if _, err := fmt.Sscanf(said, "%x", &mask); err != nil || mask&1 == 0 || mask>>(syscall.SIGINT-1)&1 == 0 {
		t.Errorf("launch itself ignores %x while the program runs, and was started with SIGHUP and SIGINT ignored:\n%s", mask, out)
	}
}
