package overlay

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config/command"
)

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		args []string
		says string // "" if the overlay may reach the program
	}{
		{[]string{"python", "train.py", "-E", "-I"}, ""},
		{[]string{"python3", "-u", "-X", "dev", "-W", "ignore", "-m", "pkg.train", "-S"}, ""},
		{[]string{"python", "-XE", "-WI", "train.py"}, ""},
		{[]string{"torchrun", "--nproc_per_node", "2", "train.py"}, ""},
		{[]string{"env", "A=1", "python", "-s", "train.py"}, ""},
		{[]string{"srun", "--export=ALL", "-n", "2", "python", "train.py"}, ""},
		{[]string{"bash", "-c", "python -u train.py -E"}, ""},
		{[]string{"bash", "-c", `PYTHONPATH=src:$PYTHONPATH python train.py`}, ""},
		{[]string{"python", "-E", "train.py"}, "-E"},
		{[]string{"python", "-uI", "train.py"}, "-I"},
		{[]string{"python", "-X", "dev", "-BS", "-m", "train"}, "-S"},
		{[]string{"bash", "-c", "cd /tmp && python -E train.py"}, "-E"},
		{[]string{"env", "-i", "PATH=/bin", "python", "train.py"}, "env -i"},
		{[]string{"env", "-u", "PYTHONPATH", "python", "train.py"}, "PYTHONPATH away"},
		{[]string{"env", "PYTHONPATH=src", "python", "train.py"}, "sets PYTHONPATH itself"},
		{[]string{"bash", "-c", "PYTHONPATH=src python train.py"}, "sets PYTHONPATH itself"},
		{[]string{"srun", "--export=NONE", "python", "train.py"}, "--export=NONE"},
		{[]string{"srun", "--export", "NONE", "python", "train.py"}, "--export NONE"},
		{[]string{"pixi", "run", "--clean-env", "python", "train.py"}, "--clean-env"},
	} {
		prog, err := command.Program(tt.args, []string{"PATH=/bin", "PYTHONPATH=/y"}, "/")
		if err != nil {
			t.Errorf("%q: %v", tt.args, err)
			continue
		}
		if got := Refused(prog); (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.says)
		}
	}
	for _, args := range [][]string{{"sudo", "-E", "python", "train.py"}, {"docker", "run", "x", "python", "train.py"}} {
		if got := Refused(command.Prog{Argv: args, First: 4, InterpreterAt: 2, Interpreter: "python"}); !strings.HasPrefix(got, args[0]) {
			t.Errorf("%q: %q", args, got)
		}
	}
	if got := Refused(command.Prog{Argv: []string{"train.py"}, InterpreterAt: -1}); got != "" {
		t.Error(got)
	}
}
