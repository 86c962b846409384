package sweep

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/run"
)

func TestProve(t *testing.T) {
	got := func(args string, env ...string) *run.Program {
		list := strings.Fields(args)
		own := 1
		if len(list) > 1 && strings.HasPrefix(list[0], "python") {
			own = 2
		}
		return &run.Program{Args: list, Own: own, Env: env, Dir: "/w/a-7"}
	}
	shell := &run.Program{Args: []string{"bash", "run.sh", "--lr", "0.5"}, Own: 1, Env: []string{"S=1"}, Shell: true}
	for name, tt := range map[string]struct {
		command, values string
		program         *run.Program
		output          string
		known           bool
		edits           []config.Edit
		want, printed   []string
	}{
		"an option": {command: "python t.py", values: "--lr=0.5",
			program: got("python t.py --lr 0.5")},
		"joined": {command: "python t.py", values: "--lr=0.5",
			program: got("python t.py --lr=5e-1 x")},
		"an underscore": {command: "python t.py", values: "--max-lr=1",
			program: got("python t.py --max_lr 1")},
		"another value": {command: "python t.py", values: "--lr=0.5", program: got("python t.py --lr 1"),
			want: []string{"--lr"}},
		"a later one counts": {command: "python t.py", values: "--lr=0.5", program: got("python t.py --lr 0.5 --lr 1"),
			want: []string{"--lr"}},
		"it is not there": {command: "bash r.sh", values: "--lr=0.5", program: got("python t.py --x 1"),
			want: []string{"--lr"}},
		"another name": {command: "bash r.sh", values: "--lr=0.5",
			program: got("python t.py --rate 0.5")},
		"nothing was seen": {command: "bash r.sh", values: "--lr=0.5", want: []string{"--lr"}},
		"a shell alone": {command: "bash run.sh", values: "--lr=0.5", program: shell,
			want: []string{"--lr"}},
		"a shell's variable": {command: "bash run.sh", values: "env:S=1", program: shell},
		"a shell's own text": {command: "sh|-c|echo {x}", values: "x=1", program: shell},
		"that starts a Python": {command: "sh|-c|echo {x}; python t.py $Z", values: "x=1", program: got("python t.py"),
			want: []string{"x"}},
		"a variable": {command: "python t.py", values: "env:S=1", program: got("python t.py", "S=1")},
		"another variable": {command: "python t.py", values: "env:S=1", program: got("python t.py", "S=2"),
			want: []string{"env:S"}},
		"a placeholder": {command: "python t.py lr={lr}", values: "lr=1",
			program: got("python t.py lr=1")},
		"in a longer word": {command: "python t.py runs/a-{lr}.pt", values: "lr=1",
			program: got("python t.py runs/a-1.pt")},
		"in a shell's variable": {command: "sh|-c|S={s} python t.py $Z", values: "s=3",
			program: got("python t.py", "S=3")},
		"in the folder": {command: "sh|-c|cd a-{s}; python t.py $Z", values: "s=7",
			program: got("python t.py")},
		"part of another number": {command: "python t.py {s}", values: "s=1", program: got("python t.py 10 21"),
			want: []string{"s"}},
		"a recipe's key": {command: "python t.py", values: "a.b=1",
			program: got("python t.py"), known: true},
		"of no recipe": {command: "python t.py", values: "a.b=1", program: got("python t.py"),
			want: []string{"a.b"}},
		"launch changed it": {command: "python t.py", values: "--bs=64", program: got("python t.py --bs 32"),
			edits: []config.Edit{{From: "64", To: "32"}}},
		"it is printed": {command: "bash r.sh", values: "--lr=0.5", program: got("python t.py"),
			output:  "x\nNamespace(lr=0.5, a=1)\n",
			printed: []string{"--lr"}},
		"another one is": {command: "bash r.sh", values: "--lr=0.5", program: got("python t.py"),
			output: "lr: 0.55\nmin_lr: 0.5\n--lr 0.5\n--lr=0.5\n",
			want:   []string{"--lr"}},
		"launch prints it": {command: "bash r.sh", values: "--lr=0.5", program: got("python t.py"),
			output: "launch: lr: 0.5\n", want: []string{"--lr"}},
	} {
		sep := " "
		if strings.Contains(tt.command, "|") {
			sep = "|"
		}
		key, value, _ := strings.Cut(tt.values, "=")
		inv, err := Template{Sweep: "s", Command: strings.Split(tt.command, sep), Dir: "/w"}.Render(Trial{Number: 1,
			Assignment: Assignment{{key, value}}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := &Result{Ending: run.Succeeded, Program: tt.program, Known: tt.known, edits: tt.edits}
		inv.Prove(r, func(key, value string) bool { return Printed(tt.output, key, value) })
		if d := cmp.Diff([][]string{tt.want, tt.printed}, [][]string{r.NotProven, r.Printed}); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		r.Ending = run.Failed
		if inv.Prove(r, nil); r.NotProven != nil {
			t.Errorf("%s: a row that failed is asked for a proof", name)
		}
	}
}

func TestTwins(t *testing.T) {
	h := &History{Spec: Spec{Name: "s", Command: []string{"bash", "r.sh"}, Dir: "/w"}}
	row := func(n int, args string, printed ...string) {
		h.Rows = append(h.Rows, &Row{Trial: Trial{Number: n, Assignment: Assignment{{"--lr", string(rune('0' + n))}}},
			State: Succeeded, Result: &Result{Ending: run.Succeeded, Printed: printed,
				Program: &run.Program{Args: strings.Fields(args)}}})
	}
	row(1, "python t.py")
	row(2, "python t.py --lr 2")
	row(3, "python t.py")
	row(4, "python t.py", "--lr")
	row(5, "python t.py --lr 2")
	if d := cmp.Diff(map[int]int{3: 1, 5: 2}, h.Twins()); d != "" {
		t.Error(d)
	}
}
