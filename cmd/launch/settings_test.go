package main

import (
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
