package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var actionFolder = filepath.Join("..", "..", ".github", "actions", "install")

// released makes a small release in a folder, and returns its tarball.
func released(t *testing.T, dir string) string {
	t.Helper()
	d := dist{release: release{version: "v1.2.3"}}
	path := d.stem(dir, architecture{goarch: runtime.GOARCH}) + ".tar.gz"
	packed, err := tarball(strings.TrimSuffix(filepath.Base(path), ".tar.gz"), installation(), day)
	if err == nil {
		err = os.WriteFile(path, packed, 0o644)
	}
	if err == nil {
		err = writeSums(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The script installs a release, from a folder or an address, and nothing whose checksum is another.
func TestInstallScript(t *testing.T) {
	dir, prefix := t.TempDir(), t.TempDir()
	path := released(t, dir)
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(packed))
	install := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(filepath.Join(actionFolder, "install.sh"), args...).CombinedOutput()
		if err != nil {
			return "failed: " + string(out)
		}
		if got, err := filepath.EvalSymlinks(filepath.Join(prefix, "bin", "launch-ml")); err != nil {
			t.Errorf("%s: %v", got, err)
		}
		return string(out)
	}
	for what, args := range map[string][]string{
		"a folder": {dir, "v1.2.3", prefix}, "its only version": {dir, "", prefix},
		"an address": {"file://" + dir, "1.2.3", prefix, sum},
	} {
		if _, err := exec.LookPath("curl"); what == "an address" && err != nil {
			continue
		}
		if out := install(args...); !strings.Contains(out, "launch: version") {
			t.Errorf("%s: %s", what, out)
		}
	}
	if out := install(dir, "1.2.3", prefix, strings.Repeat("0", 64)); !strings.Contains(out, "another checksum") {
		t.Error(out)
	}
	if err := os.WriteFile(path, append(packed, 0), 0o644); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	if out := install(dir, "1.2.3", fresh); !strings.Contains(out, "not the file that SHA256SUMS has") {
		t.Error(out)
	}
	if _, err := os.Stat(filepath.Join(fresh, "bin")); err == nil {
		t.Error("a file with another checksum was installed")
	}
	if err := os.WriteFile(strings.Replace(path, "1.2.3", "1.2.4", 1), packed, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := install(dir, "", fresh); !strings.Contains(out, "which version?") {
		t.Error(out)
	}
	if out := install(dir, "9.9.9", fresh); !strings.Contains(out, "cannot get") {
		t.Error(out)
	}
}

// The step of the action runs as a runner would run it: launch is on the PATH of later steps.
func TestAction(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(actionFolder, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Inputs map[string]struct{ Description, Default string }
		Runs   struct {
			Using string
			Steps []struct {
				Shell, Run string
				Env        map[string]string
			}
		}
	}
	reader := yaml.NewDecoder(bytes.NewReader(text))
	if err := reader.Decode(&action); err != nil || action.Runs.Using != "composite" || len(action.Runs.Steps) != 1 {
		t.Fatalf("%+v: %v", action, err)
	}
	dir, temp := t.TempDir(), t.TempDir()
	released(t, dir)
	folder, err := filepath.Abs(actionFolder)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"${{ inputs.version || github.action_ref }}": "v1.2.3", "${{ inputs.sha256 }}": "",
		"${{ inputs.from }}": dir, "${{ github.action_path }}": folder}
	step := action.Runs.Steps[0]
	cmd := exec.Command(step.Shell, "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
	cmd.Env = append(os.Environ(), "RUNNER_TEMP="+temp, "GITHUB_PATH="+temp+"/path", "GITHUB_OUTPUT="+temp+"/output")
	for name, expression := range step.Env {
		value, ok := given[expression]
		if !ok {
			t.Errorf("the test does not know %s", expression)
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bin, err := os.ReadFile(temp + "/path")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(strings.TrimSpace(string(bin)), "launch"), "gpus").CombinedOutput()
	if err != nil || string(out) != "launch: gpus\n" {
		t.Errorf("%s: %v", out, err)
	}
}
