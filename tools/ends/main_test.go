package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain is the program itself where a test runs it.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_ENDS") != "" {
		if err := os.Unsetenv("TEST_ENDS"); err != nil {
			panic(err)
		}
		main()
	}
	os.Exit(m.Run())
}

func ends(t *testing.T, script string) (string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "sh", "-c", script)
	cmd.Env = append(os.Environ(), "TEST_ENDS=1")
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A child that has outlived its parent ends, one in a session of its own, too; those that ignore signals as well.
func TestAllEnds(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "3600.0"+filepath.Base(dir)) // an argument that no other process has
	out, err := ends(t, `for i in 1 2 3; do setsid sh -c 'trap "" TERM HUP; sh -c "sleep 3600; true" `+mark+
		` & wait' `+mark+` </dev/null >/dev/null 2>&1 & done; echo printed; sleep 0.2; exit 7`)
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 7 || out != "printed\n" {
		t.Errorf("%v, %q", err, out)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), mark) && filepath.Base(filepath.Dir(file)) != "self" {
			t.Errorf("%s is left: %q", file, text)
		}
	}
}

func TestCodes(t *testing.T) {
	for script, code := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 137} {
		_, err := ends(t, script)
		got := 0
		if exit, ok := err.(*exec.ExitError); ok {
			got = exit.ExitCode()
		}
		if got != code {
			t.Errorf("%s: exit code %d, want %d", script, got, code)
		}
	}
}
