package attempt

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
)

// A command may lose the arguments that it is given: a shell script does not pass them on, a launcher takes them for
// its own. What counts is what the process that trains got, and that is looked up while it runs.

// A process of a program's family, as it was seen.
type process struct {
	pid, parent int
	start       string // with pid: this process and no later one of its number
	args        []string
	exe         string // the file that it runs
	dir         string
	env         []string // NAME=value, of those that were asked for
	from, to    time.Time
	used        time.Duration // of the processor, when it was last seen
}

// A family is what was seen of the processes of one attempt.
type family struct {
	typed process  // the command, as it is started
	names []string // of variables
	all   []*process
	root  chan int
	stop  chan struct{}
	over  chan struct{}
}

// prove has the processes of an attempt looked at from its first moment on; nil if nobody asks for that.
func (x *Executor) prove(a attempt, spec *proc.Spec) *family {
	if !x.Prove || a.trial != "" {
		return nil
	}
	f := &family{names: x.Env, root: make(chan int, 1), stop: make(chan struct{}), over: make(chan struct{})}
	f.typed = process{args: a.command.Args, exe: interpreter(a.command), dir: a.command.Dir,
		env: f.named(a.command.Env)}
	started := spec.Started
	spec.Started = func(pid int) {
		f.look(pid) // at once: the program may be over in a moment
		f.root <- pid
		started(pid)
	}
	go f.follow()
	return f
}

// How often the family is looked at: at first often, because a shell's program may live for a moment, then seldom. A
// look takes at most this share of the time.
const (
	oftenFor  = 500 * time.Millisecond
	often     = 3 * time.Millisecond
	soonFor   = 10 * time.Second
	soon      = 20 * time.Millisecond
	later     = time.Second
	lookShare = 20
)

func (f *family) follow() {
	defer close(f.over)
	var pid int
	select {
	case pid = <-f.root:
	case <-f.stop:
		return
	}
	began := time.Now()
	for {
		now := time.Now()
		f.look(pid)
		pause := later
		switch since := now.Sub(began); {
		case since < oftenFor:
			pause = often
		case since < soonFor:
			pause = max(soon, lookShare*time.Since(now))
		default:
			pause = max(later, lookShare*time.Since(now))
		}
		select {
		case <-f.stop:
			return
		case <-time.After(pause):
		}
	}
}

// end stops looking, and returns the process that trained; nil if none was seen.
func (f *family) end() *run.Program {
	if f == nil {
		return nil
	}
	close(f.stop)
	<-f.over
	p, own := trained(f.all)
	if k, at := kindOf(&f.typed); p == nil && k == trains { // it was over before anybody looked
		p, own = &f.typed, at
	}
	shell := p == nil
	if shell {
		if p = &f.typed; len(f.all) > 0 {
			p = f.all[0]
		}
		if !slices.Contains(shellNames, filepath.Base(p.exe)) && !slices.Contains(shellNames, filepath.Base(p.args[0])) {
			return nil
		}
	}
	return &run.Program{Args: record.MaskArgs(p.args), Own: own, Dir: p.dir, Env: p.env, Shell: shell}
}

// named returns the arguments of a program with the user's own files in the place of their edited copies: a value that
// is part of a file's name has arrived with its copy.
func named(args []string, files []job.File) []string {
	args = slices.Clone(args)
	for _, f := range files {
		if f.From == "" {
			continue
		}
		for i, arg := range args {
			if rest, ok := strings.CutSuffix(arg, f.Path); ok && (rest == "" || strings.HasSuffix(rest, "=")) {
				args[i] = rest + f.From
			}
		}
	}
	return args
}

// look adds what the family is now.
func (f *family) look(root int) {
	now := time.Now()
	for _, pid := range proc.Family(root) {
		dir := "/proc/" + strconv.Itoa(pid) + "/"
		text, _ := os.ReadFile(dir + "stat")
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		line, _ := os.ReadFile(dir + "cmdline")
		if len(fields) < 20 || len(line) == 0 {
			continue // it has ended
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		f.add(process{pid: pid, parent: parent, start: string(fields[19]), used: ticks(fields[11]) + ticks(fields[12]),
			args: strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), from: now, to: now}, dir)
	}
}

// ticks is a time as the kernel writes it, in hundredths of a second.
func ticks(field []byte) time.Duration {
	n, _ := strconv.ParseInt(string(field), 10, 64)
	return time.Duration(n) * 10 * time.Millisecond
}

// add takes up a process that was seen, or what is new of it. One that names itself anew keeps its arguments.
func (f *family) add(p process, dir string) {
	for _, was := range f.all {
		if was.pid != p.pid || was.start != p.start {
			continue
		}
		was.to, was.used = p.to, p.used
		if slices.Equal(was.args, p.args) || isPython(was.args) && !isPython(p.args) {
			return
		}
		was.args, was.from = p.args, p.from
		f.fill(was, dir)
		return
	}
	f.fill(&p, dir)
	f.all = append(f.all, &p)
}

func (f *family) fill(p *process, dir string) {
	p.exe, _ = os.Readlink(dir + "exe")
	p.dir, _ = os.Readlink(dir + "cwd")
	p.env = nil
	if len(f.names) == 0 {
		return
	}
	text, _ := os.ReadFile(dir + "environ")
	p.env = f.named(strings.Split(string(text), "\x00"))
}

// named are the variables that were asked for.
func (f *family) named(env []string) (out []string) {
	for _, kv := range env {
		if name, _, ok := strings.Cut(kv, "="); ok && slices.Contains(f.names, name) {
			out = append(out, kv)
		}
	}
	return out
}

// interpreter is the program that the kernel starts for a command whose file is a script.
func interpreter(c job.Command) string {
	path, err := proc.Find(c.Args, c.Dir, c.Env)
	if err != nil {
		return ""
	}
	if first, ok := command.ReadShebang(path); ok {
		return first.Name
	}
	return path
}

var (
	pythonName = lazy.MustCompile(`^(?:python|pypy)[0-9.]*[a-z]?$`)
	shellNames = []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox", "fish"}
	// starters start the process that trains, and are none.
	starters = []string{"torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate",
		"accelerate.commands.launch", "accelerate.commands.accelerate_cli", "deepspeed", "deepspeed.launcher.launch",
		"deepspeed.launcher.runner", "horovodrun", "poetry", "pipenv", "hatch", "pdm", "uv", "conda", "mamba",
		"micromamba", "pixi", "env", "nice", "ionice", "nohup", "time", "timeout", "stdbuf", "numactl", "taskset", "chrt",
		"setsid", "script", "make", "gmake", "just", "task", "xvfb-run", "srun", "mpirun", "mpiexec", "docker", "podman",
		"apptainer", "singularity", "ssh", "sudo", "runuser", "su", "unshare", "launch"}
	// remote are starters whose program is no process of this family. They pass its arguments on as they are.
	remote = []string{"srun", "mpirun", "mpiexec"}
)

func isPython(args []string) bool {
	return len(args) > 0 && pythonName.MatchString(strings.TrimPrefix(filepath.Base(args[0]), "-"))
}

// script finds what a Python's arguments run, and where the script's own arguments begin.
func script(args []string) (name string, own int) {
	for i := 1; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-m" || a == "-c":
			if i+1 < len(args) {
				return args[i+1], i + 2
			}
			return "", len(args)
		case a == "-W" || a == "-X" || a == "-Q" || a == "--check-hash-based-pycs":
			i++
		case strings.HasPrefix(a, "-m") && len(a) > 2:
			return a[2:], i + 1
		case strings.HasPrefix(a, "-") && a != "-":
		default:
			return filepath.Base(a), i + 1
		}
	}
	return "", len(args)
}

// kind is what a process is to the training.
type kind int

const (
	trains  kind = iota // it may be the training itself
	starts              // a shell, a launcher, an environment manager
	assists             // a process of Python's own: of multiprocessing
)

func kindOf(p *process) (k kind, own int) {
	if len(p.args) == 0 {
		return assists, 0
	}
	if isPython(p.args) {
		name, own := script(p.args)
		switch {
		case strings.Contains(name, "multiprocessing"):
			return assists, own
		case slices.Contains(starters, strings.TrimSuffix(name, ".py")):
			return starts, own
		}
		return trains, own
	}
	base, exe := strings.TrimPrefix(filepath.Base(p.args[0]), "-"), filepath.Base(p.exe)
	for _, name := range []string{base, exe} {
		if slices.Contains(starters, name) || slices.Contains(shellNames, name) {
			return starts, 1
		}
	}
	return trains, 1
}

// trained chooses the process that trained: a Python that no other one has started, launchers aside; of several, one
// after the other, the one that was seen for the longest time, unless it only waited: a monitor. Without any it is
// another program that is no shell. own is where its own arguments begin.
func trained(all []*process) (best *process, own int) {
	by := map[int]*process{}
	for _, p := range all {
		by[p.pid] = p
	}
	below := func(p *process, is func(*process) bool) bool {
		for range 100 {
			parent := by[p.parent]
			if parent == nil || parent == p {
				return false
			}
			if is(parent) {
				return true
			}
			p = parent
		}
		return false
	}
	for _, of := range []func(*process) bool{
		func(p *process) bool { k, _ := kindOf(p); return k == trains && isPython(p.args) },
		func(p *process) bool { k, _ := kindOf(p); return k == trains && !isPython(p.args) },
	} {
		mine := slices.DeleteFunc(slices.Clone(all), func(p *process) bool { return !of(p) || below(p, of) })
		best = longest(mine)
		if best != nil && best.waited() {
			busier := func(p *process) bool { return p.used > best.used && !p.waited() }
			best = cmp.Or(longest(slices.DeleteFunc(mine, func(p *process) bool { return !busier(p) })), best)
		}
		if best != nil {
			_, own = kindOf(best)
			return best, own
		}
	}
	return passedOn(all)
}

// longest is the process that was seen for the longest time.
func longest(all []*process) (best *process) {
	for _, p := range all {
		if best == nil || p.to.Sub(p.from) > best.to.Sub(best.from) {
			best = p
		}
	}
	return best
}

// waited reports whether a process did next to nothing for a second or more.
func (p *process) waited() bool {
	lived := p.to.Sub(p.from)
	return lived >= time.Second && p.used < lived/20
}

// passedOn is for a command whose program is no process of this machine, or whose launcher trains itself.
func passedOn(all []*process) (*process, int) {
	for _, p := range all {
		if isPython(p.args) {
			if k, own := kindOf(p); k == starts {
				return p, own
			}
		}
	}
	for _, p := range all {
		base := filepath.Base(p.args[0])
		prog, err := command.Program(p.args, nil, p.dir)
		if err == nil && !prog.Shell && slices.Contains(remote, base) && prog.First <= len(p.args) {
			return p, prog.First
		}
	}
	return nil, 0
}
