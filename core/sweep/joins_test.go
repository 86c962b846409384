package sweep

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/python"
)

// An option that the command has not is added as the program reads options, or as the command's others are typed.
func TestJoins(t *testing.T) {
	globals := python.Options{Options: []python.Option{{Names: []string{"--batch_size"}, How: python.ByGlobals}}}
	for _, tt := range []struct {
		args  string
		known python.Options
		want  string
	}{
		{"config/a.py", globals, "config/a.py --lr=1e-3"},
		{"config/a.py", python.Options{}, "config/a.py --lr 1e-3"},
		{"--compile=False --n=2", python.Options{}, "--compile=False --n=2 --lr=1e-3"},
		{"--compile=False --n 2", python.Options{}, "--compile=False --n 2 --lr 1e-3"},
		{"--verbose", python.Options{}, "--verbose --lr 1e-3"},
		{"--lr 1", globals, "--lr 1e-3"}, // as it is typed
		{"-b=2", python.Options{}, "-b=2 --lr 1e-3"},
	} {
		got, err := setOption(strings.Fields(tt.args), "--lr", "1e-3", tt.known)
		if s := strings.Join(got, " "); err != nil || s != tt.want {
			t.Errorf("%s: %q, want %q: %v", tt.args, s, tt.want, err)
		}
	}
}
