package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/internal/wire"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/trace"
)

// A crash is the error of a question in which the plugin's code failed.
type crash struct{ what string }

func (c *crash) Error() string { return c.what }

// The outcomes of a question.
const (
	recognised = "recognised"
	declined   = "declined"
	leftAlone  = "left alone"
	refused    = "refused"
	failed     = "failed"
)

// outcome is what an answer to Recognize amounts to.
func outcome(r plugin.Recognized, err error) string {
	var caution *plugin.Caution
	switch {
	case broken(err):
		return failed
	case errors.Is(err, plugin.ErrNotMine):
		return declined
	case errors.As(err, &caution):
		return leftAlone
	case err != nil:
		return refused
	case r == nil || r.Job() == nil:
		return failed
	}
	return recognised
}

// broken reports whether an error is no answer of the plugin's, but its failure.
func broken(err error) bool {
	return errors.Is(err, errHung) || errors.As(err, new(*crash)) || errors.Is(err, wire.ErrEnded) ||
		errors.Is(err, wire.ErrFailed) || errors.Is(err, wire.ErrMalformed)
}

// ask asks the plugin one question, within the deadline. After a crash or a missing answer the next question starts
// the plugin anew.
func ask[T any](t *tester, question func(context.Context, plugin.Plugin) (T, error)) (T, error) {
	var none T
	p, err := t.open()
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.Deadline)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	before := started(p.PID)
	answered := make(chan answer, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				stack := string(debug.Stack())
				if _, theirs, ok := strings.Cut(stack, "\npanic("); ok { // the frames above are the kit's
					_, stack, _ = strings.Cut(theirs, "\n\t")
				}
				answered <- answer{err: &crash{fmt.Sprintf("panic: %v\n%s", r, stack)}}
			}
		}()
		v, err := question(ctx, p.Plugin)
		answered <- answer{v, err}
	}()
	var a answer
	select {
	case a = <-answered:
		if a.err != nil && ctx.Err() != nil {
			a.err = fmt.Errorf("%w (%v)", errHung, t.Deadline)
		}
	case <-ctx.Done():
		select {
		case a = <-answered: // it was stopped in time
		case <-time.After(100 * time.Millisecond):
		}
		a.err = fmt.Errorf("%w (%v)", errHung, t.Deadline)
	}
	if !broken(a.err) {
		t.watch(p, before)
		return a.value, a.err
	}
	if errors.Is(a.err, errHung) {
		t.mu.Lock()
		t.hung++
		t.mu.Unlock()
	}
	t.close()
	return none, a.err
}

// children are the processes that a process has started: those that still exist, and the page faults of those that
// ended.
type children struct {
	faults int64
	pids   []string
}

// started returns what is known of the children of a process; pid 0: of none.
func started(pid int) (c children) {
	if pid == 0 {
		return c
	}
	stat := statOf(strconv.Itoa(pid))
	if len(stat) > 8 {
		c.faults, _ = strconv.ParseInt(stat[8], 10, 64) // cminflt: proc(5) counts it from the program's name
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		child := filepath.Base(proc)
		if s := statOf(child); len(s) > 1 && s[1] == strconv.Itoa(pid) {
			c.pids = append(c.pids, child)
		}
	}
	return c
}

// statOf returns the fields of /proc/PID/stat after the program's name: state, parent, …
func statOf(pid string) []string {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // the name may hold anything
}

// watch reports a process that the plugin has started while it was asked.
func (t *tester) watch(p *Opened, before children) {
	if p.PID == 0 {
		return
	}
	t.held(startsCheck)
	now := started(p.PID)
	var fresh []string
	for _, pid := range now.pids {
		if !slices.Contains(before.pids, pid) {
			name, _ := os.ReadFile("/proc/" + pid + "/comm")
			fresh = append(fresh, strings.TrimSpace(string(name)))
		}
	}
	if len(fresh) == 0 && now.faults == before.faults {
		return
	}
	t.mu.Lock()
	again := t.starts
	t.starts = true
	t.mu.Unlock()
	saw := "a process that it started has ended"
	if len(fresh) > 0 {
		saw = "it started " + strings.Join(fresh, ", ")
	}
	if !again {
		t.find(Finding{Check: startsCheck, Want: "no process started while the plugin was asked", Saw: saw})
	}
}

// heavy are libraries that take seconds to load, or open a device.
var heavy = []string{"libtorch_cpu", "libtorch_python", "libcuda.so", "libnvidia-ml.so"}

// loaded looks at what the plugin's process has loaded, after all questions.
func (t *tester) loaded() {
	p, err := t.open()
	if err != nil || p.PID == 0 || p.PID == os.Getpid() {
		return
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.PID))
	if err != nil {
		return
	}
	for _, lib := range heavy {
		if strings.Contains(string(maps), lib) {
			t.find(Finding{Check: startsCheck, Want: "a process that has loaded neither torch nor a GPU driver",
				Saw: "it has loaded " + lib})
		}
	}
}

// told is the command as the plugin is told of it.
func (t *tester) told(c job.Command) job.Command {
	c.Env = t.manifest.Environ(c.Env, c.Args)
	return c
}

// recognize asks what the plugin makes of a command, and answers what it needs to know, as launch does. The job is as
// launch has it; *c keeps the answers.
func (t *tester) recognize(c *job.Command) (plugin.Recognized, *job.Job, error) {
	r, err := plugin.Answer(t.ctx, func(ctx context.Context, c job.Command) (plugin.Recognized, error) {
		return ask(t, func(ctx context.Context, p plugin.Plugin) (plugin.Recognized, error) {
			return p.Recognize(ctx, t.told(c))
		})
	}, c, Finder{*c, t.temp})
	if err != nil {
		return nil, nil, err
	}
	if r == nil || r.Job() == nil {
		return nil, nil, &crash{"neither a job nor an error"}
	}
	j := *r.Job()
	j.Command, j.Plugin = *c, t.manifest.Name
	return r, &j, nil
}

// price asks for the ladders.
func (t *tester) price(r plugin.Recognized, d gpu.Device) (*ladder.Set, error) {
	set, err := ask(t, func(ctx context.Context, _ plugin.Plugin) (*ladder.Set, error) { return r.Ladders(ctx, d) })
	if err == nil && set == nil {
		err = &crash{"neither ladders nor an error"}
	}
	return set, err
}

// A Finder finds out what a plugin needs to know of a command: there is one GPU, and formulas may lie anywhere.
type Finder struct {
	Command job.Command
	Cache   string // a folder of what was found out before
}

// Devices implements [plugin.Finder].
func (Finder) Devices() int { return 1 }

// Sources implements [plugin.Finder].
func (f Finder) Sources(ctx context.Context, paths []string) []config.PythonSource {
	prog := f.program()
	python := python.Of(prog, f.Command.Env).Interpreter
	return overlay.Cache(filepath.Join(f.Cache, "sources")).Read(ctx, python, f.Command.Env, prog.Dir, paths, nil)
}

// Formulas implements [plugin.Finder].
func (f Finder) Formulas(ctx context.Context, formulas []job.Formula) []job.Counted {
	prog := f.program()
	return trace.Formulas{
		Interpreter: python.Of(prog, f.Command.Env).Interpreter, Env: prog.Environ(f.Command.Env), Dir: prog.Dir,
		Script: prog.Path(), Roots: []string{"/"}, Deadline: time.Minute, Cache: filepath.Join(f.Cache, "formulas"),
	}.Run(ctx, formulas)
}

func (f Finder) program() command.Prog {
	prog, err := command.Program(f.Command.Args, f.Command.Env, f.Command.Dir)
	if err != nil {
		return command.Prog{Dir: f.Command.Dir}
	}
	return prog
}
