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

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/unit"
)

// ErrNotUnderstood says that a command is in no form that this package is sure of.
var ErrNotUnderstood = errors.New("command not understood")

func notUnderstood(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotUnderstood, fmt.Sprintf(format, args...))
}

// A Kind says how Python is told what to run.
type Kind uint8

const (
	Script    Kind = iota // a file
	Module                // -m
	Code                  // -c
	Installed             // a program that a Python package has installed: Prog.File
)

// A Launcher starts the program several times. A number that is not declared, or not as a number, is 0.
type Launcher struct {
	Name  string // "torchrun", "torch.distributed.launch", "accelerate", "deepspeed", "srun", "mpirun"
	Procs int    // on each node; of accelerate, srun and mpirun on all nodes together
	// Procs as written: "2", "gpu", "auto"; also "gpu" where accelerate or deepspeed takes all GPUs that it sees
	Spec  string
	Nodes int
}

// torchrunWords are what torchrun takes for a number of processes beside a number: determine_local_world_size in
// torch/distributed/run.py of PyTorch 1.13 and 2.15, and the name of a backend of another maker's.
var torchrunWords = []string{"gpu", "auto", "cpu", "xpu", "npu"}

// allGPUs is the number of processes of a launcher that starts one for each GPU.
const allGPUs = "gpu"

func (l Launcher) torchrun() bool {
	return l.Name == "torchrun" || l.Name == "torch.distributed.launch"
}

// PerNode is how many processes the launcher starts on a node whose programs see that many GPUs (below 1: that is not
// known); 0 where it does not say. asks says that how many GPUs there are decides it, and is not known.
func (l Launcher) PerNode(gpus int) (n int, asks bool) {
	switch {
	case l.torchrun() && (l.Spec == "gpu" || l.Spec == "auto"), l.Spec == allGPUs &&
		(l.Name == "deepspeed" || l.Nodes < 2):
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
	if !l.torchrun() && l.Name != "deepspeed" && l.Spec != allGPUs {
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
		"1, or gpu, auto or cpu", l.Name, Quote(l.Spec))
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
	// Argv is the whole command. The texts of the shell scripts that it names stand in it in place of the files.
	Argv []string
	// Typed is the command as typed where that names a shell script; else nil.
	Typed []string
	// Texts are the shell scripts that the command names, as they were first read.
	Texts []Text
	Kind  Kind
	// Script is the script's path, the module's name, the installed program's name, or the code, as typed. A path is
	// relative to Dir.
	Script string
	File   string // the path of an installed program; "" where it is not found
	// Starter is the path of the launcher that chooses the interpreter, such as torchrun; "" where none does or it is
	// not found.
	Starter string
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
	Bins          []string // folders that come before PATH on the way
	// Masked names what hides the exit code of a program that fails: "tee", in a pipe. Where it is not "", an exit
	// code of 0 proves nothing.
	Masked string
	Node   string // which node its launcher is told that this machine is: "0"; "" where it is not told
	Port   string // where its launcher has the ranks meet; "" where it chooses one itself or is not told
	words  []word // of Args
	all    []word // if Shell, all words of the command that runs the program
	env    []string
	start  string // the folder that the command is started in
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
	group      int // words of one number are what the shell makes of one word: "$@", $OPTIONS
}

// Path returns the path of the script, if it is one.
func (p Prog) Path() string {
	if p.Kind != Script || p.Script == "" {
		return ""
	}
	return resolve(p.Dir, p.Script)
}

func resolve(dir, path string) string { return filepath.Clean(file.In(dir, path)) }

// Program reads a command. env and dir are the environment and the folder that it is started in; env is looked at only
// where the command itself refers to it. The file of a shell script is read, unless it is among the texts: then it
// is taken as it was. So are the first lines of a program that is no script of a known name, and accelerate's
// configuration.
func Program(args, env []string, dir string, texts ...Text) (Prog, error) {
	r := &reader{prog: Prog{Argv: slices.Clone(args), InterpreterAt: -1, Dir: dir, First: len(args)}, env: env,
		texts: texts}
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

// Wrapped reports whether something stands before the program that may bring another environment along: a shell, uv,
// conda, srun. What starts the processes of a training does not.
func (p Prog) Wrapped() bool {
	return p.Shell || slices.ContainsFunc(p.Through, func(name string) bool {
		return !slices.Contains(replaced, name) && !slices.Contains(starters, name)
	})
}

// Elsewhere reports whether the program runs in an environment that was not found: behind conda run, uv run, the like.
func (p Prog) Elsewhere() bool {
	return len(p.Bins) == 0 && slices.ContainsFunc(p.Through, func(name string) bool {
		return strings.HasSuffix(name, " run")
	})
}

// starters are the launchers of torch, as Through names them.
var starters = []string{"torchrun", "torch.distributed.launch", "accelerate launch", "deepspeed"}

// WithArgs returns the command with other arguments for the script. In a shell's text only the words that differ are
// written anew, quoted; everything else keeps its bytes. With its own arguments the command is as typed.
func (p Prog) WithArgs(args []string) ([]string, error) {
	if slices.Equal(args, p.Args) && p.Typed != nil {
		return slices.Clone(p.Typed), nil
	}
	out := slices.Clone(p.Argv)
	if !p.Shell {
		return slices.Concat(out[:p.First], args), nil
	}
	text := p.Argv[p.First]
	out[p.First] = p.rewrite(text, args)
	if again, err := Program(out, p.env, p.start); err != nil || !slices.Equal(again.Args, args) {
		return nil, fmt.Errorf("the arguments cannot be put into the shell's command %q", unit.Clip(text, 200))
	}
	return out, nil
}

// A piece is what the shell makes one word of, and what it becomes.
type piece struct {
	word
	before  []string // texts that stay: the words up to the script
	args    []string
	left    int // arguments of it that were not matched yet
	changed bool
	then    []string // arguments that follow it
}

// rewrite returns a shell's text with other arguments.
func (p Prog) rewrite(text string, args []string) string {
	pieces := p.pieces()
	at := slices.IndexFunc(pieces, func(c piece) bool { return len(c.before) > 0 })
	for i, c := range pieces { // the one with the script's name
		if len(c.before) > 0 {
			at = i
		}
	}
	for _, m := range align(p.Args, args) {
		if m.from >= 0 {
			for pieces[at].left == 0 {
				at++
			}
		}
		c := &pieces[at]
		switch {
		case m.from < 0 && c.left > 0:
			c.args = append(c.args, args[m.to])
			c.changed = true
		case m.from < 0:
			c.then = append(c.then, args[m.to])
		default:
			c.left--
			if m.to >= 0 {
				c.args = append(c.args, args[m.to])
			}
			c.changed = c.changed || m.to < 0 || args[m.to] != p.Args[m.from]
		}
	}
	var b strings.Builder
	from := 0
	for _, c := range pieces {
		list := append(slices.Clone(c.before), c.args...)
		switch {
		case c.changed && len(list) == 0:
			start := c.start
			for start > from && (text[start-1] == ' ' || text[start-1] == '\t') {
				start--
			}
			b.WriteString(text[from:start])
			from = c.end
		case c.changed:
			b.WriteString(text[from:c.start] + quoteAll(list))
			from = c.end
		}
		b.WriteString(text[from:c.end])
		from = c.end
		if len(c.then) > 0 {
			b.WriteString(" " + quoteAll(c.then))
		}
	}
	return b.String() + text[from:]
}

// pieces are the words of the command that runs the program, as the shell's text has them.
func (p Prog) pieces() (out []piece) {
	arguments := len(p.all) - len(p.words)
	for i, w := range p.all {
		if len(out) == 0 || out[len(out)-1].group != w.group {
			out = append(out, piece{word: w})
		}
		c := &out[len(out)-1]
		if i < arguments {
			c.before = append(c.before, w.text)
		} else {
			c.left++
		}
	}
	return out
}

func quoteAll(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = Quote(a)
	}
	return strings.Join(quoted, " ")
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

// Quote is a word as a shell of POSIX reads it.
func Quote(s string) string {
	if reShellSafe.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// A reader unwraps a command from the outside in.
type reader struct {
	prog  Prog
	env   []string
	texts []Text // shell scripts that were read before
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
	p.Kind, p.Script, p.words = kind, words[0].text, words[1:]
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
