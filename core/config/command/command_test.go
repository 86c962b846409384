package command

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// fields splits a command at blanks; ' holds one argument together.
func fields(s string) []string {
	var out []string
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

var env = []string{"HOME=/home/u", "CFG=a b.yml", "ONE=one.yml", "OPTS=-x -y"}

func TestProgram(t *testing.T) {
	opt := []string{"-opt", "x.yml"}
	for _, tt := range []struct {
		command string
		want    Prog
	}{
		{"python train.py -opt x.yml", Prog{Script: "train.py", Interpreter: "python", Args: opt, First: 2}},
		{"/opt/venv/bin/python3.11 -u -X dev -W ignore -OO -m pkg.train -opt x.yml", Prog{
			Kind: Module, Script: "pkg.train", Interpreter: "/opt/venv/bin/python3.11", Args: opt, First: 9}},
		{"python -uOm pkg -opt x.yml", Prog{Kind: Module, Script: "pkg", Interpreter: "python", Args: opt, First: 3}},
		{"python -mpkg -opt x.yml", Prog{Kind: Module, Script: "pkg", Interpreter: "python", Args: opt, First: 2}},
		{"python -Wignore -Xdev -- train.py -- -opt", Prog{Script: "train.py", Interpreter: "python",
			Args: []string{"--", "-opt"}, First: 5}},
		{"python -c 'import x' -opt x.yml", Prog{Kind: Code, Script: "import x", Interpreter: "python", Args: opt,
			First: 3}},
		{"./train.py -opt x.yml", Prog{Script: "./train.py", InterpreterAt: -1, Args: opt, First: 1}},
		{"env A=b -u python t.py", Prog{}}, // env stops reading options at the first assignment
		{"env -u X A=b -- python t.py", Prog{}},
		{"env -u X -C sub -- A=b CUDA_VISIBLE_DEVICES=0 python t.py -opt x.yml", Prog{Script: "t.py",
			Interpreter:   "python",
			InterpreterAt: 8, Args: opt, First: 10, Dir: "/w/sub", Env: []string{"A=b", "CUDA_VISIBLE_DEVICES=0"},
			Unset: []string{"X"}, Through: []string{"env"}}},
		{"env - A=b python t.py", Prog{Script: "t.py", Interpreter: "python", InterpreterAt: 3, First: 5, ClearEnv: true,
			Env: []string{"A=b"}, Through: []string{"env"}}},
		{"torchrun --nproc-per-node 2 --master_port=29501 train.py --launcher pytorch", Prog{Script: "train.py",
			InterpreterAt: -1, Args: []string{"--launcher", "pytorch"}, First: 5, Through: []string{"torchrun"},
			Launchers: []Launcher{{"torchrun", 2, "2", 1}}, Port: "29501"}},
		{"torchrun --nnodes=2 --node-rank 1 --rdzv-endpoint=n0:29400 t.py", Prog{Script: "t.py", InterpreterAt: -1, First: 6,
			Through: []string{"torchrun"}, Launchers: []Launcher{{"torchrun", 1, "1", 2}}, Node: "1", Port: "29400"}},
		{"accelerate launch --num_machines 2 --machine_rank 1 --main_process_port 29600 t.py", Prog{Script: "t.py",
			InterpreterAt: -1,
			First:         9, Through: []string{"accelerate launch"}, Launchers: []Launcher{{"accelerate", 0, "", 2}}, Node: "1",
			Port: "29600"}},
		{"torchrun --standalone --nproc_per=gpu --nnodes 1:4 -m pkg.train", Prog{Kind: Module, Script: "pkg.train",
			InterpreterAt: -1, First: 7, Through: []string{"torchrun"}, Launchers: []Launcher{{"torchrun", 0, "gpu",
				0}}}},
		{"python -m torch.distributed.launch --nproc_per_node=4 --use_env train.py -opt x.yml", Prog{Script: "train.py",
			Interpreter: "python", Args: opt, First: 6, Through: []string{"torch.distributed.launch"},
			Launchers: []Launcher{{"torch.distributed.launch", 4, "4", 1}}}},
		{"torchrun --no-python ./train.py -opt x.yml", Prog{Script: "./train.py", InterpreterAt: -1, Args: opt, First: 3,
			Through: []string{"torchrun"}, Launchers: []Launcher{{"torchrun", 1, "1", 1}}}},
		{"accelerate launch --multi_gpu --num_processes 2 --mixed-precision=fp16 t.py -opt x.yml", Prog{Script: "t.py",
			InterpreterAt: -1, Args: opt, First: 7, Through: []string{"accelerate launch"},
			Launchers: []Launcher{{"accelerate", 2, "2", 0}}}},
		{"python -m accelerate.commands.launch t.py", Prog{Script: "t.py", Interpreter: "python", First: 4,
			Through: []string{"accelerate launch"}, Launchers: []Launcher{{"accelerate", 0, "gpu", 0}}}},
		{"deepspeed --num_gpus 2 t.py -opt x.yml", Prog{Script: "t.py", InterpreterAt: -1, Args: opt, First: 4,
			Through: []string{"deepspeed"}, Launchers: []Launcher{{"deepspeed", 2, "2", 1}}}},
		{"uv run --with rich -p 3.12 t.py -opt x.yml", Prog{Script: "t.py", InterpreterAt: -1, Args: opt, First: 7,
			Through: []string{"uv run"}}},
		{"uv run -m pkg.t -opt x.yml", Prog{Kind: Module, Script: "pkg.t", InterpreterAt: -1, Args: opt, First: 4,
			Through: []string{"uv run"}}},
		{"uv --directory sub run -- python t.py", Prog{Script: "t.py", Interpreter: "python", InterpreterAt: 5, First: 7,
			Dir: "/w/sub", Through: []string{"uv run"}}},
		{"poetry run python t.py", Prog{Script: "t.py", Interpreter: "python", InterpreterAt: 2, First: 4,
			Through: []string{"poetry run"}}},
		{"pdm run python t.py", Prog{Script: "t.py", Interpreter: "python", InterpreterAt: 2, First: 4,
			Through: []string{"pdm run"}}},
		{"conda run -n env --no-capture-output --cwd /d python t.py", Prog{Script: "t.py", Interpreter: "python",
			InterpreterAt: 7, First: 9, Dir: "/d", Through: []string{"conda run"}}},
		{"xvfb-run -a -s '-screen 0' hatch -e gpu run python -u t.py -opt x.yml", Prog{Script: "t.py", Interpreter: "python",
			InterpreterAt: 8, Args: opt, First: 11, Through: []string{"xvfb-run", "hatch run"}}},
		{"pixi run -e gpu python t.py", Prog{Script: "t.py", Interpreter: "python", InterpreterAt: 4, First: 6,
			Through: []string{"pixi run"}}},
		{"nice -n 5 nohup time -p nice -10 python t.py", Prog{Script: "t.py", Interpreter: "python", InterpreterAt: 8,
			First:   10,
			Through: []string{"nice", "nohup", "time", "nice"}}},
		{"timeout -k 5 2h stdbuf -oL taskset -c 0-3 python t.py", Prog{Script: "t.py", Interpreter: "python",
			InterpreterAt: 9, First: 11,
			Through: []string{"timeout", "stdbuf", "taskset"}}},
		{"srun -N 2 --ntasks-per-node=4 --gres=gpu:4 -D /d python -u t.py -opt x.yml", Prog{Script: "t.py",
			Interpreter:   "python",
			InterpreterAt: 7, Args: opt, First: 10, Dir: "/d", Through: []string{"srun"},
			Launchers: []Launcher{{"srun", 8, "4 per node", 2}}}},
		{"mpirun -np 4 -x A=b --bind-to none python t.py", Prog{Script: "t.py", Interpreter: "python",
			InterpreterAt: 7, First: 9,
			Env: []string{"A=b"}, Through: []string{"mpirun"}, Launchers: []Launcher{{"mpirun", 4, "4", 0}}}},
		{"sh -c 'cd x && python train.py -opt x.yml'", Prog{Script: "train.py", Interpreter: "python",
			InterpreterAt: 2, Args: opt,
			First: 2, Shell: true, Dir: "/w/x", Through: []string{"sh -c"}}},
		{"bash -lc 'source v/bin/activate; export A=b; cd x; cd y; C=d exec python t.py -opt \"x\".yml > log 2>&1'", Prog{
			Script: "t.py", Interpreter: "python", InterpreterAt: 2, Args: opt, First: 2, Shell: true, Dir: "/w/x/y",
			Env: []string{"A=b", "C=d"}, Bins: []string{"/w/v/bin"}, Through: []string{"bash -c", "activate", "exec"}}},
		{"bash -c 'time torchrun --nproc_per_node 2 t.py -opt \"$CFG\" $ONE ${HOME}/y'", Prog{Script: "t.py",
			InterpreterAt: -1,
			Args:          []string{"-opt", "a b.yml", "one.yml", "/home/u/y"}, First: 2, Shell: true,
			Through: []string{"bash -c", "time", "torchrun"}, Launchers: []Launcher{{"torchrun", 2, "2", 1}}}},
		{"sh -c 'C=c.yml; python t.py -opt $C a\\ b'", Prog{Script: "t.py", Interpreter: "python", InterpreterAt: 2,
			Args: []string{"-opt", "c.yml", "a b"}, First: 2, Shell: true, Through: []string{"sh -c"}}},
	} {
		got, err := Program(fields(tt.command), env, "/w")
		if tt.want.Script == "" {
			tt.want = got // tried for its own sake below
			if err != nil && !errors.Is(err, ErrNotUnderstood) {
				t.Errorf("%s: %v", tt.command, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.command, err)
			continue
		}
		tt.want.Argv = fields(tt.command)
		if tt.want.Dir == "" {
			tt.want.Dir = "/w"
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Prog{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.command, diff)
		}
		if same, err := got.WithArgs(got.Args); err != nil || !cmp.Equal(same, got.Argv) {
			t.Errorf("%s: with its own arguments it is %q, %v", tt.command, same, err)
		}
	}
}

func TestNotUnderstood(t *testing.T) {
	for _, command := range []string{
		"", "ls", "python", "python -", "python -V", "python --help", "python -m", "python -c", "python -W",
		"python -m pdb t.py", "python -m pip install x", "make train", "sudo python t.py", "docker run x python t.py",
		"env", "env A=b", "env -S 'python t.py'", "env 1=2 python t.py", "env -Z python t.py",
		"torchrun", "torchrun --new-option t.py", "torchrun --nproc-per-node", "torchrun --r t.py",
		"torchrun --standalone=1 t.py",
		"accelerate config", "accelerate launch --unheard-of 2 t.py", "uv pip install x", "uv run --what t.py",
		"uv run trainer",
		"uv run -", "poetry install", "conda activate x", "nice", "timeout 5", "nice --what python t.py",
		"srun --what python t.py", "srun --container-image x python t.py", "docker run x python t.py",
		"mpirun --what python t.py", "mpirun -np 4",
		"bash", "bash t.sh", "bash -i -c 'python t.py'", "bash -c", "bash -c ''", "sh -c 'python t.py'\x00",
		"bash -c 'python t.py | grep x'", "bash -c 'python t.py &'", "bash -c 'python t.py || true'",
		"bash -c '! python t.py'",
		"bash -c 'python t.py; python u.py'", "bash -c 'for i in 1 2; do python t.py; done'",
		"bash -c 'if [ -f x ]; then python t.py; fi'",
		"bash -c 'cd x || python t.py'", "torchrun --r x t.py", "bash -c 'A=$(cat x); python t.py $A'",
		"bash -c 'python t.py $(cat x)'", "bash -c 'python t.py `cat x`'", "bash -c 'python t.py *.yml'",
		"bash -uc 'python t.py $NOT_SET'", "bash -c 'source x/activate y; python t.py $NOT_SET'", "bash -c 'python " +
			"t.py $RANDOM'",
		"sh -c 'python t.py {a,b}'", "zsh -c 'python t.py $OPTS'", "bash -c 'cd $(mktemp) && python t.py'",
		"bash -c 'cd - && python t.py'",
		"bash -c 'cd && python t.py'", "bash -c 'make && python t.py'", "bash -c 'python t.py <<E\nx\nE'",
		"bash -c 'bash -c \"python t.py\"'", "bash -c 'python > log t.py'", "bash -c 'f() { f; }; f; python t.py'",
		"bash -c 'python t.py",
		"bash -c 'eval python t.py'", "bash -c 'A=(1 2); A[x]=3; python t.py ${A[@]}'", "bash -c 'export $ONE; python t.py'",
		"bash -c 'python t.py $((1+RANDOM))'", "bash -c 'export CUDA_VISIBLE_DEVICES=$(pick); python t.py'",
		strings.Repeat("env ", 100) + "python t.py",
	} {
		args := fields(command)
		if i := strings.Index(command, "-c '"); i >= 0 && strings.Count(command, "'") == 1 {
			args = []string{"bash", "-c", "'" + command[i+4:]} // a quote that is not closed
		}
		if p, err := Program(args, env, "/w"); !errors.Is(err, ErrNotUnderstood) {
			t.Errorf("%s: understood as %+v, %v", command, p, err)
		}
	}
	if _, err := Program(fields("env -C sub python t.py"), nil, ""); !errors.Is(err, ErrNotUnderstood) {
		t.Error("a relative folder was followed from nowhere")
	}
}

func TestWithArgs(t *testing.T) {
	for _, tt := range []struct {
		command, want []string
		args          []string
	}{
		{[]string{"nice", "python", "t.py", "-opt", "x"}, []string{"nice", "python", "t.py", "-opt", "y z", "--r"},
			[]string{"-opt", "y z", "--r"}},
		{[]string{"sh", "-c", `cd x  &&  A='1 2' python "t.py"  -opt 'x'   --b # c`},
			[]string{"sh", "-c", `cd x  &&  A='1 2' python "t.py"  -opt 'it'\''s'   --b # c`}, []string{"-opt",
				"it's", "--b"}},
		{[]string{"sh", "-c", "python t.py -opt x --b > log 2>&1"}, []string{"sh", "-c",
			"python t.py -opt x --b --auto_resume > log 2>&1"},
			[]string{"-opt", "x", "--b", "--auto_resume"}},
		{[]string{"sh", "-c", "python t.py -opt x --b > log"}, []string{"sh", "-c", "python t.py --b > log"},
			[]string{"--b"}},
		{[]string{"sh", "-c", "python t.py"}, []string{"sh", "-c", "python t.py '' a"}, []string{"", "a"}},
		{[]string{"sh", "-c", "python t.py -opt $ONE \"$CFG\""}, []string{"sh", "-c", "python t.py -opt /y \"$CFG\""},
			[]string{"-opt", "/y", "a b.yml"}},
		{[]string{"sh", "-c", "python t.py a \\\n  b"}, []string{"sh", "-c", "python t.py a \\\n  c"}, []string{"a",
			"c"}},
	} {
		p, err := Program(tt.command, env, "/w")
		if err != nil {
			t.Errorf("%q: %v", tt.command, err)
			continue
		}
		got, err := p.WithArgs(tt.args)
		if err != nil {
			t.Errorf("%q: %v", tt.command, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q with %q (-want +got):\n%s", tt.command, tt.args, diff)
		}
	}
}

func TestPath(t *testing.T) {
	for command, want := range map[string]string{
		"env -C sub python t.py": "/w/sub/t.py", "python /a/../t.py": "/t.py", "python -m pkg": "", "python -c x": "",
	} {
		p, err := Program(fields(command), nil, "/w")
		if err != nil || p.Path() != want {
			t.Errorf("%s: Path() = %q, %v, want %q", command, p.Path(), err, want)
		}
	}
}

// Whatever arguments are put into a shell's command, they are what it is then read to have.
func TestWithArgsReadsBack(t *testing.T) {
	arg := rapid.StringMatching(`[ -~é\n]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SliceOfN(arg, 0, 5).Draw(t, "from")
		to := rapid.SliceOfN(arg, 0, 5).Draw(t, "to")
		text := "cd x && python t.py"
		for _, a := range from {
			text += " " + Quote(a)
		}
		for _, lang := range []string{"sh", "bash"} {
			p, err := Program([]string{lang, "-c", text + " >log"}, nil, "/w")
			if err != nil || !cmp.Equal(p.Args, from, cmpopts.EquateEmpty()) {
				t.Fatalf("%q is read as %q, %v", text, p.Args, err)
			}
			out, err := p.WithArgs(to)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Program(out, nil, "/w")
			if err != nil || !cmp.Equal(again.Args, to, cmpopts.EquateEmpty()) || again.Dir != "/w/x" {
				t.Fatalf("%q reads back as %q, %v", out, again.Args, err)
			}
		}
	})
}

func FuzzProgram(f *testing.F) {
	for _, s := range []string{"python\x1ft.py\x1f-opt\x1fx", "sh\x1f-c\x1fcd x && python t.py -opt \"$A\"",
		"env\x1f-i\x1fA=b\x1ftorchrun\x1f-m\x1fx"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Split(s, "\x1f")
		p, err := Program(args, env, "/w")
		if err != nil {
			return
		}
		if same, err := p.WithArgs(p.Args); err != nil || !cmp.Equal(same, args) {
			t.Fatalf("%q with its own arguments is %q, %v", args, same, err)
		}
		if _, err := p.WithArgs(append([]string{"-opt", "a b'c"}, p.Args...)); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	})
}

// What torchrun takes for a number of processes, and what each launcher starts where so many GPUs are seen.
func TestProcesses(t *testing.T) {
	cpus := runtime.NumCPU()
	for _, tt := range []struct {
		command        string
		gpus           int
		perNode, ranks int
		asks           bool
		refuses        string
	}{
		{"torchrun --nproc_per_node 2 t.py", 0, 2, 2, false, ""},
		{"torchrun --nproc_per_node 2 --nnodes 3 t.py", 8, 2, 6, false, ""},
		{"torchrun --nproc_per_node gpu t.py", 0, 0, 0, true, ""},
		{"torchrun --nproc_per_node gpu t.py", -1, 0, 0, true, ""},
		{"torchrun --nproc_per_node gpu --nnodes 2 t.py", 4, 4, 8, false, ""},
		{"python -m torch.distributed.run --nproc-per-node=auto t.py", 2, 2, 2, false, ""},
		{"python -m torch.distributed.launch --nproc_per_node=auto t.py", 0, 0, 0, true, ""},
		{"torchrun --nproc_per_node cpu t.py", 2, cpus, cpus, false, ""},
		{"torchrun --nproc_per_node xpu t.py", 2, 0, 0, false, ""},
		{"torchrun t.py", 4, 1, 1, false, ""},
		{"torchrun --nproc_per_node abc t.py", 2, 0, 0, false, "--nproc_per_node is abc"},
		{"torchrun --nproc_per_node 0 t.py", 2, 0, 0, false, "--nproc_per_node is 0"},
		{"torchrun --nproc_per_node=-1 t.py", 2, 0, 0, false, "--nproc_per_node is -1"},
		{"srun -n 8 -N 2 python t.py", 1, 4, 8, false, ""},
		{"mpirun -np 4 python t.py", 1, 0, 4, false, ""},
		{"accelerate launch --num_processes 2 t.py", 1, 2, 2, false, ""},
		{"accelerate launch --num_processes 4 --num_machines 2 t.py", 1, 2, 4, false, ""},
		{"deepspeed --num_gpus 2 --num_nodes 2 t.py", 1, 2, 4, false, ""},
		{"deepspeed t.py", 4, 4, 4, false, ""},
		{"deepspeed --include localhost:1 t.py", 4, 0, 0, false, ""},
		{"accelerate launch t.py", 0, 0, 0, true, ""},
		{"accelerate launch t.py", 4, 4, 4, false, ""},
		{"accelerate launch --num_machines 2 t.py", 4, 0, 0, false, ""},
	} {
		p, err := Program(fields(tt.command), nil, "/w")
		if err != nil || len(p.Launchers) != 1 {
			t.Errorf("%s: %+v, %v", tt.command, p.Launchers, err)
			continue
		}
		perNode, asks := p.Launchers[0].PerNode(tt.gpus)
		ranks, asksToo := p.Launchers[0].Ranks(tt.gpus)
		if perNode != tt.perNode || ranks != tt.ranks || asks != tt.asks || asksToo != asks {
			t.Errorf("%s on %d GPUs: %d a node, %d in all, asks %v %v; want %+v", tt.command, tt.gpus, perNode, ranks, asks, asksToo, tt)
		}
		if why := p.Refuses(); !strings.Contains(why, tt.refuses) || (why == "") != (tt.refuses == "") {
			t.Errorf("%s: %q, want %q", tt.command, why, tt.refuses)
		}
	}
}

// A container is named as what it is, with the place where launch works.
func TestContainer(t *testing.T) {
	for _, tool := range []string{"docker", "podman", "/usr/bin/apptainer"} {
		_, err := Program([]string{tool, "run", "image", "python", "t.py"}, env, "/w")
		if err == nil || !strings.Contains(err.Error(), "a container has other files than this machine") {
			t.Errorf("%s: %v", tool, err)
		}
	}
}
