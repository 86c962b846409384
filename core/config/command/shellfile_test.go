package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// stub takes the place of Python: it writes its folder, a variable, and its arguments.
const stub = `#!/bin/sh
{ pwd -P; printf '%s\n' "$CUDA_VISIBLE_DEVICES"; for a; do printf '%s\0' "$a"; done; } > "$STUB_OUT"
exit 3
`

// scripts are shell scripts as projects have them. args are what Python gets of them, one string, or "" where
// launch does not understand them.
var scripts = []struct {
	name, text string
	typed      []string // how they are started
	args       []string
	masked     string
}{
	{name: "plain", text: "#!/bin/bash\npython train.py \\\n  --lr 0.1 \\\n  --name 'a b'  # trailing\n",
		args: []string{"train.py", "--lr", "0.1", "--name", "a b"}},
	{name: "variables", text: `#!/usr/bin/env bash
set -euo pipefail
export CUDA_VISIBLE_DEVICES=0
LR=${LR:-1e-4}
BATCH="${2:-8}"
OUT=out/$(basename "$1" .yaml)/b${BATCH}
mkdir -p "$OUT"
echo "training $1 into $OUT"
python train.py --config "$1" --batch-size $BATCH --lr="$LR" --out ${OUT} --steps $((BATCH * 10))
`, typed: []string{"bash", "run.sh", "conf/x.yaml", "16"},
		args: []string{"train.py", "--config", "conf/x.yaml", "--batch-size", "16",
			"--lr=1e-4", "--out", "out/x/b16", "--steps", "160"}},
	{name: "array", text: `ARGS=(--lr 0.1 --name "a b")
ARGS+=(--batch 4)
if [ -n "$EXTRA_NONE" ]; then ARGS+=(--extra "$EXTRA_NONE"); fi
[[ $# -gt 0 ]] && ARGS+=(--more)
python train.py "${ARGS[@]}" "$@" last
`, typed: []string{"bash", "run.sh", "x y", "z"},
		args: []string{"train.py", "--lr", "0.1", "--name", "a b", "--batch", "4", "--more", "x y", "z", "last"}},
	{name: "options in one variable", text: "OPTS=\"--lr 0.1   --batch 4\"\nOPTS=\"$OPTS --x\"\npython train.py " +
		"$OPTS $NOTHING --y\n",
		args: []string{"train.py", "--lr", "0.1", "--batch", "4", "--x", "--y"}},
	{name: "its own folder", text: `#!/bin/bash
SCRIPT_DIR="$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd )"
cd "$(dirname "$0")/sub"
python ${SCRIPT_DIR}/train.py --here "$BASH_SOURCE"
`, typed: []string{"bash", "./run.sh"}, args: []string{"{dir}/train.py", "--here", "./run.sh"}},
	{name: "executed", text: "#!/bin/bash -e\npython train.py $0 \"$@\"\n", typed: []string{"./run.sh", "a b"},
		args: []string{"train.py", "./run.sh", "a b"}},
	{name: "executed by env", text: "#!/usr/bin/env bash\npython train.py $0 \"$@\"\n",
		typed: []string{"./run.sh", "a b"}, args: []string{"train.py", "./run.sh", "a b"}},
	{name: "sh", text: "X=1\n. venv/bin/activate\nexec python train.py -x $X\n",
		typed: []string{"sh", "-e", "run.sh"}, args: []string{"train.py", "-x", "1"}},
	{name: "function", text: "die() { echo \"$1\" >&2; exit 1; }\n[ $# -ge 1 ] || die usage\nmain() {\n  local " +
		"n=$1; shift\n  python train.py --n $n \"$@\"\n}\nmain \"$@\"\n",
		typed: []string{"bash", "run.sh", "1", "a b"}, args: []string{"train.py", "--n", "1", "a b"}},
	{name: "options of its own", text: "LR=1\nwhile [[ $# -gt 0 ]]; do\n  case $1 in\n    --lr) LR=$2; shift 2;;\n " +
		"   --gpu=*) GPU=${1#*=}; shift;;\n    *) shift;;\n  esac\ndone\npython train.py --lr $LR --gpu $GPU\n",
		typed: []string{"bash", "run.sh", "--lr", "3", "x", "--gpu=1"}, args: []string{"train.py", "--lr", "3",
			"--gpu", "1"}},
	{name: "only messages in an if", text: "if [ ! -d data ]; then\n  echo 'no data'\n  D=1\nfi\npython train.py\n",
		args: []string{"train.py"}},
	{name: "an unknown variable of no use", text: "NOW=$(date +%s)\necho $NOW\npython train.py\n",
		args: []string{"train.py"}},
	{name: "case", text: "case \"$1\" in\n  small|tiny) B=1;;\n  big*) B=9;;\nesac\npython train.py $B\n",
		typed: []string{"bash", "run.sh", "bigger"}, args: []string{"train.py", "9"}},
	{name: "after it", text: "set -e\npython train.py a\necho done\n", args: []string{"train.py", "a"}},
	{name: "hidden by what follows", text: "python train.py a\necho done\n", args: []string{"train.py", "a"},
		masked: "what follows it"},
	{name: "hidden by tee", text: "python train.py a 2>&1 | tee log.txt\n", args: []string{"train.py", "a"},
		masked: "tee"},
	{name: "tee in a careful script", text: "set -o pipefail\npython train.py a 2>&1 | tee log.txt\n",
		args: []string{"train.py", "a"}},
	{name: "one round", text: "for seed in 7; do\n  python train.py --seed $seed\ndone\n",
		args: []string{"train.py", "--seed", "7"}},
	{name: "a default that is assigned", text: ": ${PORT:=29500}\npython train.py $PORT\n",
		args: []string{"train.py", "29500"}},
	{name: "the environment of one command", text: "CUDA_VISIBLE_DEVICES=1,0 python -u train.py a\n",
		args: []string{"-u", "train.py", "a"}},

	{name: "empty lists", text: "A=()\npython train.py \"$@\" \"${A[@]}\" \"${@:2}\" a\n",
		args: []string{"train.py", "a"}},
	{name: "a part of a list", text: "python train.py \"${@:2}\"\n",
		typed: []string{"bash", "run.sh", "x", "a b", "c"}, args: []string{"train.py", "a b", "c"}},

	{name: "two programs", text: "python a.py\npython b.py\n"},
	{name: "a loop", text: "for s in 1 2; do python train.py $s; done\n"},
	{name: "in the background", text: "python train.py &\nwait\n"},
	{name: "an unknown argument", text: "python train.py --out out_$(date +%s)\n"},
	{name: "an unknown part", text: "if [ -f state.pt ]; then R=--resume; fi\npython train.py $R\n"},
	{name: "a file that it may change", text: "rm -rf out\npython train.py\n"},
	{name: "settings that it writes", text: "cat > conf.yaml <<E\na: 1\nE\npython train.py conf.yaml\n"},
	{name: "settings that it echoes", text: "echo 'a: 1' > conf.yaml\npython train.py conf.yaml\n"},
	{name: "another shell script", text: "bash other.sh\n"},
	{name: "a sourced file", text: "source settings.sh\npython train.py\n"},
	{name: "the files of a folder", text: "python train.py *.sh\n"},
	{name: "who sourced it", text: "python train.py ${BASH_SOURCE[1]}\n"},
	{name: "no program", text: "echo hello\n"},
	{name: "a usage", text: "if [ $# -lt 1 ]; then echo usage; exit 1; fi\npython train.py\n"},
	{name: "one of two", text: "python train.py || python train.py --small\n"},
	{name: "of bash in sh", text: "A=(1 2)\npython train.py ${A[@]}\n", typed: []string{"sh", "run.sh"}},
	{name: "a line that goes on after the end", text: "python train.py a \\"},
	{name: "random", text: "python train.py --port $((20000 + RANDOM % 100))\n"},
}

// project makes a folder with a script, and returns the environment in which it runs.
func project(t *testing.T, text string) (dir string, env []string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree(t, dir, map[string]string{"run.sh": text, "bin/python": stub, "sub/x": "",
		"venv/bin/activate": "VIRTUAL_ENV=x\n"})
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, []string{"HOME=" + dir, "PATH=" + dir + "/bin:/usr/bin:/bin", "STUB_OUT=" + dir + "/got"}
}

// ran runs a command, and returns what the stub got and the exit code.
func ran(t *testing.T, dir string, env, argv []string) (got string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	os.Remove(filepath.Join(dir, "got"))
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Env = dir, env
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", argv, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "got"))
	if err != nil {
		t.Fatalf("%q did not run Python: %s", argv, out)
	}
	return string(text), c.ProcessState.ExitCode()
}

func TestShellScripts(t *testing.T) {
	for _, tt := range scripts {
		t.Run(tt.name, func(t *testing.T) {
			dir, env := project(t, tt.text)
			typed := tt.typed
			if typed == nil {
				typed = []string{"bash", "run.sh"}
			}
			p, err := Program(typed, env, dir)
			if tt.args == nil {
				if !errors.Is(err, ErrNotUnderstood) {
					t.Fatalf("understood: %q %q, %v", p.Script, p.Args, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Masked != tt.masked {
				t.Errorf("masked by %q, want %q", p.Masked, tt.masked)
			}
			want := slices.Clone(tt.args)
			for i := range want {
				want[i] = strings.ReplaceAll(want[i], "{dir}", dir)
			}
			i := slices.Index(want, p.Script)
			if i < 0 || !slices.Equal(p.Args, want[i+1:]) {
				t.Fatalf("%q %q, want %q", p.Script, p.Args, want)
			}
			same, err := p.WithArgs(p.Args)
			if err != nil || !slices.Equal(same, typed) {
				t.Errorf("with its own arguments: %q, %v", same, err)
			}
			bare, code := ran(t, dir, env, typed)
			if _, all, _ := strings.Cut(bare, "\n"); !strings.HasSuffix(all, "\n"+strings.Join(want, "\x00")+"\x00") {
				t.Errorf("the shell itself gives %q, want %q", bare, want)
			}
			gotDir, rest, _ := strings.Cut(bare, "\n")
			cards, _, _ := strings.Cut(rest, "\n")
			if gotDir != p.Dir || !slices.Contains(append(p.Environ(env), "CUDA_VISIBLE_DEVICES="),
				"CUDA_VISIBLE_DEVICES="+cards) {
				t.Errorf("it runs in %q with cards %q, and is read as in %q with %q", gotDir, cards, p.Dir, p.Env)
			}

			whole, wholeCode := ran(t, dir, env, p.Argv)
			if whole != bare || wholeCode != code {
				t.Errorf("as a text: %q, exit %d; as a file: %q, exit %d", whole, wholeCode, bare, code)
			}
			for _, args := range [][]string{append(slices.Clone(p.Args), "--more", "it's"),
				append([]string{"first"}, p.Args...), {}, {"only"}} {
				argv, err := p.WithArgs(args)
				if err != nil {
					t.Errorf("with %q: %v", args, err)
					continue
				}
				got, newCode := ran(t, dir, env, argv)
				if end := strings.Join(append(slices.Clone(want[:i+1]), args...), "\x00") + "\x00"; !strings.HasSuffix(got,
					"\n"+end) || newCode != code {
					t.Errorf("with %q: the shell gives %q, exit %d, not %d", args, got, newCode, code)
				}
			}
			if now, err := os.ReadFile(filepath.Join(dir, "run.sh")); err != nil || string(now) != tt.text {
				t.Errorf("the script is now %q, %v", now, err)
			}
		})
	}
}

// A script that was read before is taken as it was.
func TestShellScriptChanges(t *testing.T) {
	dir, env := project(t, "python train.py --batch 8\n")
	typed := []string{"bash", "run.sh"}
	p, err := Program(typed, env, dir)
	if err != nil || p.Changed() != "" || len(p.Texts) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	tree(t, dir, map[string]string{"run.sh": "python train.py --batch 99\n"})
	if p.Changed() != filepath.Join(dir, "run.sh") {
		t.Errorf("changed: %q", p.Changed())
	}
	again, err := Program(typed, env, dir, p.Texts...)
	if err != nil || !slices.Equal(again.Args, []string{"--batch", "8"}) {
		t.Errorf("read again: %q, %v", again.Args, err)
	}
	argv, err := again.WithArgs([]string{"--batch", "4"})
	if got, _ := ran(t, dir, env, argv); err != nil || !strings.HasSuffix(got, "\ntrain.py\x00--batch\x004\x00") {
		t.Errorf("%q, %v", got, err)
	}
	if got, _ := ran(t, dir, env, again.Argv); !strings.HasSuffix(got, "\ntrain.py\x00--batch\x008\x00") {
		t.Errorf("the text as it was gives %q", got)
	}
	if err := os.Remove(filepath.Join(dir, "run.sh")); err != nil {
		t.Fatal(err)
	}
	if again.Changed() == "" {
		t.Error("a script that is gone has not changed")
	}
}

func TestShellScriptUnread(t *testing.T) {
	dir, env := project(t, "#!/bin/zsh\npython train.py\n")
	tree(t, dir, map[string]string{"long.sh": strings.Repeat("#", maxShell+1), "zero.sh": "python train.py \x00\n",
		"noline.sh": "python train.py\n"})
	for _, typed := range [][]string{{"bash", "none.sh"}, {"bash", "sub"}, {"bash", "long.sh"},
		{"bash", "zero.sh"}, {"./noline.sh"}, {"./run.sh"},
		{"zsh", "run.sh"}, {"bash"}, {"bash", "-s", "x"}, {"bash", "-"}, {"bash", "-c", "bash run.sh"}} {
		if p, err := Program(typed, env, dir); !errors.Is(err, ErrNotUnderstood) {
			t.Errorf("%q: %+v, %v", typed, p, err)
		}
	}
	if _, err := Program([]string{"bash", "run.sh"}, env, ""); !errors.Is(err, ErrNotUnderstood) {
		t.Error("a script was found in no folder")
	}
}
