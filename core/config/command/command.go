// Package command reads what stands before the arguments of a Python script on a command line: interpreters,
// environment managers, launchers of several processes, and shells with one simple command.
//
// It reads and never guesses: what it does not know, down to a single option, makes the whole command
// [ErrNotUnderstood], and such a command is run as typed.
package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// ErrNotUnderstood says that a command is in no form that this package is sure of.
var ErrNotUnderstood = errors.New("command not understood")

func notUnderstood(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotUnderstood, fmt.Sprintf(format, args...))
}

// A Kind says how Python is told what to run.
type Kind uint8

const (
	Script Kind = iota // a file
	Module             // -m
	Code               // -c
)

// A Launcher starts the program several times. A number that is not declared, or not as a number, is 0.
type Launcher struct {
	Name  string // "torchrun", "torch.distributed.launch", "accelerate", "deepspeed", "srun", "mpirun"
	Procs int    // on each node; of accelerate, srun and mpirun on all nodes together
	Spec  string // Procs as written: "2", "gpu", "auto"
	Nodes int
}

// torchrunWords are what torchrun takes for a number of processes beside a number: determine_local_world_size in
// torch/distributed/run.py of PyTorch 1.13 and 2.15, and the name of a backend of another maker's.
var torchrunWords = []string{"gpu", "auto", "cpu", "xpu", "npu"}

func (l Launcher) torchrun() bool {
	return l.Name == "torchrun" || l.Name == "torch.distributed.launch"
}

// PerNode is how many processes the launcher starts on a node whose programs see that many GPUs (below 1: that is not
// known); 0 where it does not say. asks says that how many GPUs there are decides it, and is not known.
func (l Launcher) PerNode(gpus int) (n int, asks bool) {
	switch {
	case l.torchrun() && (l.Spec == "gpu" || l.Spec == "auto"):
		return max(0, gpus), gpus < 1
	case l.torchrun() && l.Spec == "cpu":
		return runtime.NumCPU(), false
	case l.torchrun(), l.Name == "deepspeed", l.Name == "accelerate" && l.Nodes == 0:
		return l.Procs, false
	case l.Nodes > 0:
		return (l.Procs + l.Nodes - 1) / l.Nodes, false
	}
	return 0, false
}

// Ranks is how many processes the launcher starts on all nodes together, with PerNode's words for what is not known.
func (l Launcher) Ranks(gpus int) (n int, asks bool) {
	if !l.torchrun() && l.Name != "deepspeed" {
		return l.Procs, false
	}
	n, asks = l.PerNode(gpus)
	return n * max(1, l.Nodes), asks
}

// Refuses says why the launcher stops before it starts anything, or "".
func (l Launcher) Refuses() string {
	if !l.torchrun() || l.Procs > 0 || slices.Contains(torchrunWords, l.Spec) {
		return ""
	}
	return fmt.Sprintf("%s will stop before it starts anything: --nproc_per_node is %s, and it takes a number from "+
		"1, or gpu, auto or cpu", l.Name, quote(l.Spec))
}

// Refuses says why a launcher of the command stops before it starts anything, or "".
func (p Prog) Refuses() string {
	for _, l := range p.Launchers {
		if why := l.Refuses(); why != "" {
			return why
		}
	}
	return ""
}

// A Prog is a command that runs a Python program.
type Prog struct {
	Argv []string // the whole command
	Kind Kind
	// Script is the script's path, the module's name, or the code, as typed. A path is relative to Dir.
	Script string
	// Args are the script's own arguments. In Argv they begin at First; if Shell, all of them stand in the one
	// argument Argv[First], a string that a shell reads.
	Args  []string
	First int
	Shell bool
	// Interpreter is the Python as typed, and stands in Argv[InterpreterAt]; it is empty and -1 where a launcher or the
	// script's own first line chooses one. If Shell, that argument is the shell's string.
	Interpreter   string
	InterpreterAt int
	Dir           string   // where the program runs
	Env           []string // assignments on the way, NAME=value, in order
	Unset         []string // variables taken away on the way
	ClearEnv      bool     // env -i
	Through       []string // what was unwrapped, outermost first: "env", "uv run", "torchrun"
	Launchers     []Launcher
	Node          string // which node its launcher is told that this machine is: "0"; "" where it is not told
	Port          string // where its launcher has the ranks meet; "" where it chooses one itself or is not told
	words         []word // of Args
	end           int    // if Shell, the offset in Argv[First] behind the script's name
	env           []string
	start         string // the folder that the command is started in
}

// Environ is what the program is started with where the command is started with env; of a name the last counts.
func (p Prog) Environ(env []string) []string {
	if p.ClearEnv {
		return slices.Clone(p.Env)
	}
	return append(slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(p.Unset, name)
	}), p.Env...)
}

// A word is an argument, and where in the command it stands.
type word struct {
	text       string
	arg        int // in Argv
	start, end int // the bytes of Argv[arg], if a shell reads it
}

// Path returns the path of the script, if it is one.
func (p Prog) Path() string {
	if p.Kind != Script || p.Script == "" {
		return ""
	}
	return resolve(p.Dir, p.Script)
}

func resolve(dir, path string) string {
	if filepath.IsAbs(path) || dir == "" {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// Program reads a command. env and dir are the environment and the folder that it is started in; env is looked at only
// where the command itself refers to it.
func Program(args, env []string, dir string) (Prog, error) {
	r := &reader{prog: Prog{Argv: slices.Clone(args), InterpreterAt: -1, Dir: dir, First: len(args)}, env: env}
	words := make([]word, len(args))
	for i, a := range args {
		if strings.ContainsRune(a, 0) {
			return Prog{}, notUnderstood("argument %d holds a zero byte", i)
		}
		words[i] = word{text: a, arg: i}
	}
	if err := r.command(words); err != nil {
		return Prog{}, err
	}
	r.prog.env, r.prog.start = env, dir
	return r.prog, nil
}

// Direct reports whether the process that the command starts is the script's own: nothing stands before it, or only
// what replaces itself by it. A launcher, a shell and the like stay, and start the script as another process.
func (p Prog) Direct() bool {
	return len(p.Launchers) == 0 && !p.Shell && !slices.ContainsFunc(p.Through, func(name string) bool {
		return !slices.Contains(replaced, name)
	})
}

// replaced are the programs that execute another one in their own place.
var replaced = []string{"env", "nice", "ionice", "nohup", "taskset", "chrt", "numactl", "stdbuf", "exec"}

// WithArgs returns the command with other arguments for the script. In a shell's string only the words that differ are
// written anew, quoted; everything else keeps its bytes.
func (p Prog) WithArgs(args []string) ([]string, error) {
	out := slices.Clone(p.Argv)
	if !p.Shell {
		return slices.Concat(out[:p.First], args), nil
	}
	text := p.Argv[p.First]
	var b strings.Builder
	at := 0
	put := func(start, end int, s string) {
		b.WriteString(text[at:start])
		b.WriteString(s)
		at = end
	}
	last := p.end
	for _, m := range align(p.Args, args) {
		switch {
		case m.from < 0:
			put(last, last, " "+quote(args[m.to]))
		case m.to < 0:
			start := p.words[m.from].start
			for start > at && (text[start-1] == ' ' || text[start-1] == '\t') {
				start--
			}
			put(start, p.words[m.from].end, "")
		case args[m.to] != p.Args[m.from]:
			put(p.words[m.from].start, p.words[m.from].end, quote(args[m.to]))
		}
		if m.from >= 0 {
			last = p.words[m.from].end
		}
	}
	b.WriteString(text[at:])
	out[p.First] = b.String()

	if again, err := Program(out, p.env, p.start); err != nil || !slices.Equal(again.Args, args) {
		return nil, fmt.Errorf("the arguments cannot be put into the shell's command %q", text)
	}
	return out, nil
}

// A match pairs a word of one list with a word of another; -1 stands for none.
type match struct{ from, to int }

// align pairs the words of two lists: first what is equal at both ends, then what is between in order.
func align(a, b []string) []match {
	head, tail := 0, 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var ms []match
	for i := range head {
		ms = append(ms, match{i, i})
	}
	da, db := len(a)-head-tail, len(b)-head-tail
	for i := range max(da, db) {
		m := match{-1, -1}
		if i < da {
			m.from = head + i
		}
		if i < db {
			m.to = head + i
		}
		ms = append(ms, m)
	}
	for i := range tail {
		ms = append(ms, match{len(a) - tail + i, len(b) - tail + i})
	}
	return ms
}

var reShellSafe = lazy.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func quote(s string) string {
	if reShellSafe.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// A reader unwraps a command from the outside in.
type reader struct {
	prog  Prog
	env   []string
	vars  map[string]string // a shell's own variables
	depth int
}

func (r *reader) through(name string) { r.prog.Through = append(r.prog.Through, name) }

func (r *reader) chdir(dir string) error {
	if dir == "" || r.prog.Dir == "" && !filepath.IsAbs(dir) {
		return notUnderstood("launch cannot tell which folder %q is", dir)
	}
	r.prog.Dir = resolve(r.prog.Dir, dir)
	return nil
}

// assign notes NAME=value in the program's environment.
func (r *reader) assign(assignment string) { r.prog.Env = append(r.prog.Env, assignment) }

// getenv returns a variable as the program will have it.
func (r *reader) getenv(name string) (string, bool) {
	for _, e := range slices.Backward(r.prog.Env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v, true
		}
	}
	if r.prog.ClearEnv || slices.Contains(r.prog.Unset, name) {
		return "", false
	}
	for _, e := range slices.Backward(r.env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// run notes that a Python program has been found, and its arguments.
func (r *reader) run(kind Kind, words []word) error {
	if len(words) == 0 || words[0].text == "" {
		return notUnderstood("no script")
	}
	p := &r.prog
	p.Kind, p.Script, p.words, p.end = kind, words[0].text, words[1:], words[0].end
	p.First = words[0].arg
	if !p.Shell {
		p.First++
	}
	p.Args = []string{}
	for _, w := range p.words {
		p.Args = append(p.Args, w.text)
	}
	return nil
}
