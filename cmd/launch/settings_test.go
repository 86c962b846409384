package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// What a stranger may type, and what is said to it: what is wrong, and what would do.
func TestAmountsThatCannotBe(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := t.TempDir()
	for _, tt := range []struct {
		args string
		says string // "": it is taken
	}{
		{"--vram 0", "--vram 0: 0 B holds no training; give an amount with its unit, such as 12GiB, or leave it out to plan for the card that is here"},
		{"--vram 12", "--vram 12: 12 B holds no training"},
		{"--memory 0", "leave it out to set no limit"},
		{"--memory 10MiB", "--memory 10MiB: 10.0 MiB holds no training"},
		{"--vram --json", "--vram needs an amount of memory, such as --vram 8GiB"},
		{"--reserve --", "--reserve needs an amount of memory"},
		{"--vram much", `"much" is not an amount of memory`},
		{"--vram 8GiB --memory 8GiB", "leave one of them out"},
		{"--vram 8GiB --device cpu", "there it is --memory"},
		{"--reserve 0", ""},
		{"--vram=", ""},
		{"--vram 64MiB --reserve 12", ""},
	} {
		f := pflag.NewFlagSet("launch", pflag.ContinueOnError)
		addFlags(f)
		f.Bool("json", false, "")
		args := strings.Fields(tt.args)
		if err := f.Parse(args); err != nil {
			t.Fatalf("%s: %v", tt.args, err)
		}
		_, err := readSettings(f, dir)
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%s: %v", tt.args, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want one sentence that says %q", tt.args, err, tt.says)
		}
	}
}

// A text that says neither yes nor no, or no number, is not taken for no or nothing: from the environment or a file as little as
// from a flag.
func TestSettingsThatSayNothing(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, tt := range []struct{ env, file, says string }{
		{"LAUNCH_ANYWAY=maybe", "", `--anyway: "maybe" is not true or false`},
		{"LAUNCH_GPUS=two", "", `--gpus: "two" is not a whole number of at least 0`},
		{"LAUNCH_GPUS=-1", "", `--gpus: "-1" is not a whole number of at least 0`},
		{"LAUNCH_GRACE=5", "", `--grace: "5" is not a time, such as 30s`},
		{"", "quiet: sometimes\n", `--quiet: "sometimes" is not true or false`},
		{"", "receipts: false\ngpus: 2\ngrace: 5s\n", ""},
		{"LAUNCH_ANYWAY=1", "quiet: true\n", ""},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ".launch.yaml"), []byte(tt.file), 0o644); err != nil {
			t.Fatal(err)
		}
		if name, value, ok := strings.Cut(tt.env, "="); ok {
			t.Setenv(name, value)
		}
		f := pflag.NewFlagSet("launch", pflag.ContinueOnError)
		addFlags(f)
		s, err := readSettings(f, dir)
		switch {
		case tt.says != "" && (err == nil || err.Error() != tt.says):
			t.Errorf("%s %s: %v, want %q", tt.env, tt.file, err, tt.says)
		case tt.says == "" && (err != nil || tt.env != "" && !(s.Anyway && s.Quiet) || tt.env == "" && (s.Receipts || s.GPUs != 2)):
			t.Errorf("%s %s: %+v, %v", tt.env, tt.file, s, err)
		}
		if name, _, ok := strings.Cut(tt.env, "="); ok {
			os.Unsetenv(name)
		}
	}
}
