package main

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// A keeper is one before the rest of the program is prepared, which takes longer than all that a keeper does at its
// start. What is prepared before it depends on what the keeper's package imports, and one import can bring hundreds.
func TestKeeperStartsEarly(t *testing.T) {
	cmd := exec.Command(os.Args[0], "__keeper", "0", "0") // no socket: it says so, and ends
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 125 {
		t.Fatalf("%v: %s", err, out)
	}
	prepared := regexp.MustCompile(`(?m)^init (\S+)`).FindAllSubmatch(out, -1)
	if len(prepared) == 0 || len(prepared) > 40 {
		t.Errorf("%d packages are prepared before a keeper is one, want 1 to 40:\n%s", len(prepared), out)
	}
}
