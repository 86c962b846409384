package slurm

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		needs Needs
		want  string
	}{
		{Needs{}, ""},
		{Needs{Before: 2 * time.Minute}, "--signal=B:USR2@120"},
		{Needs{Memory: 100*unit.MiB + 1, GPUs: 2}, "--mem=101M --gres=gpu:2"},
		{Needs{Time: 25*time.Hour + 90*time.Second}, "--time=25:02:00"},
	} {
		if got := strings.Join(c.needs.Options(), " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.needs, got, c.want)
		}
	}
}

func TestClusterOf(t *testing.T) {
	const text = "Configuration data\nKillWait                = 5 sec\nRequeueExit             = 70-75,99\n" +
		"RequeueExitHold         = 80\n"
	c := clusterOf(text)
	if c.Kill != 5*time.Second || !c.Asked || !c.Again(75) || !c.Again(99) || c.Again(76) || c.Again(80) {
		t.Errorf("%+v", c)
	}
	if c := clusterOf("RequeueExit             = (null)\n"); c.Kill != defaultKill || c.Again(75) {
		t.Errorf("%+v", c)
	}
}

// A shell runs the command of a script as it was given, and no text ends a comment.
func TestScript(t *testing.T) {
	words := []string{"printf", "%s\\n", "a b", "it's", "$HOME", "", "*"}
	text, err := Script{Options: []string{"--mem=1M"}, Notes: []string{"one\necho two"}, Command: words}.Text()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", text).CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); !slices.Equal(got, words[2:]) {
		t.Errorf("%q, want %q, of\n%s", got, words[2:], text)
	}
	if !strings.HasPrefix(text, "#!/bin/sh\n#SBATCH --mem=1M\n# one echo two\n") {
		t.Error(text)
	}
}
