package plugins

import (
	"testing"

	"github.com/launch-ml/launch/core/plugin"
)

// A mark is printed with all that a command must have for it.
func TestMarkText(t *testing.T) {
	mark := plugin.Mark{Script: "train*", Flags: []string{"-o", "--opt"}, Beside: []string{"x.py"},
		Contains: []string{"torch", "Trainer|SFT"}}
	const want = "script train*, option -o or --opt, beside it x.py, its source has torch, its source has Trainer or SFT"
	if got := markText(mark); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
