package trace

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// Package formula counts what a PyTorch module of a plugin's author keeps and needs: it runs the module on
// PyTorch's meta device, where nothing is computed, in the command's own Python.
//
// The process sees no GPU, has a limit of memory and a deadline, writes nothing, and ends with its process group. It
// imports one file: of the plugin's own, or below the folder of the command or of its script, and one that nobody but
// the user and root can write. An answer is kept until a file changes that it was made from.

//go:embed count.py
var script []byte

const (
	// Deadline is how long formulas may take unless the user sets another: torch alone takes 2 to 10 s to import.
	FormulaDeadline = 20 * time.Second
	// memory is how much the process may have for its data. A CUDA build of torch 2.15 takes 0.8 GiB.
	memory = 4 * unit.GiB
	// maxAnswer bounds what is read of the process.
	maxAnswer = 16 << 20
	// grace is how long a process that was told to die may hold its pipes open.
	formulaGrace = 500 * time.Millisecond
)

// A Runner runs formulas in the Python of a command.
type Formulas struct {
	Interpreter string   // "" if unknown
	Env         []string // of the program
	Dir         string   // where the program runs
	Script      string   // the program's path; "" for a module or code
	Roots       []string // folders that a formula's file may lie in
	Cache       string   // folder of the answers; "" keeps nothing
	Deadline    time.Duration
	// Foreign reports what is not started or imported: the project's own where its command is only looked at. nil:
	// anything may be.
	Foreign func(path string) bool
}

// Run returns one answer for each formula, in order. One that could not be run says why in its Problem.
func (r Formulas) Run(ctx context.Context, formulas []job.Formula) []job.Counted {
	out := make([]job.Counted, len(formulas))
	var open []int
	for i, f := range formulas {
		out[i].Formula = f
		if err := r.allowed(f); err != nil {
			out[i].Problem = fmt.Sprintf("%s is not run: %v", f.File, err)
		} else if !r.get(&out[i]) {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return out
	}
	asked := make([]job.Formula, len(open))
	for k, i := range open {
		asked[k] = formulas[i]
	}
	answers, err := r.ask(ctx, asked)
	for k, i := range open {
		if k < len(answers) {
			answers[k].Counted.Formula = formulas[i]
			out[i] = answers[k].Counted
			r.put(answers[k])
		} else {
			out[i].Problem = err.Error()
		}
	}
	return out
}

// allowed reports why a formula's file is not imported.
func (r Formulas) allowed(f job.Formula) error {
	if err := f.Check(); err != nil {
		return err
	}
	path, err := filepath.EvalSymlinks(f.File)
	if err != nil {
		return errors.Unwrap(err)
	}
	below := func(root string) bool {
		root, err := filepath.EvalSymlinks(root)
		if err != nil {
			return false
		}
		rel, err := filepath.Rel(root, path)
		return err == nil && filepath.IsLocal(rel)
	}
	if !slices.ContainsFunc(r.Roots, below) {
		return errors.New("it lies neither beside its plugin nor in the folder of the command or its script")
	}
	if r.Foreign != nil && r.Foreign(path) {
		return errors.New("it may be the project's own, which is run with the program only")
	}
	return private.CheckFile(path)
}

// request is what the process reads.
type formulaRequest struct {
	Memory   unit.Bytes    `json:"memory"`
	Seconds  int           `json:"seconds"`
	Path     []string      `json:"path"`
	Formulas []job.Formula `json:"formulas"`
}

// An answer is one line of the process.
type answer struct {
	Counted job.Counted `json:"counted"`
	Files   []string    `json:"files"` // what it was made from
}

// ask runs the formulas in one process. err is why there are fewer answers than formulas.
func (r Formulas) ask(ctx context.Context, formulas []job.Formula) (answers []answer, err error) {
	if r.Interpreter == "" {
		return nil, errors.New("it is not known which Python the command uses")
	}
	if r.Deadline <= 0 {
		return nil, errors.New("formulas are switched off (formula-time)")
	}
	if r.Foreign != nil && r.Foreign(r.Interpreter) {
		return nil, fmt.Errorf("%s may be the project's own, which launch starts with the program only", r.Interpreter)
	}
	bounded, cancel := context.WithTimeout(ctx, r.Deadline)
	defer cancel()
	ask := formulaRequest{Memory: memory, Seconds: int(r.Deadline/time.Second) + 2, Path: []string{}, Formulas: formulas}
	dir, env := r.Dir, environ(r.Env)
	switch {
	case r.Foreign != nil: // nothing is imported from the project
		dir, env = "/", append(env, "PYTHONPATH="+outside(env, r.Foreign), "PYTHONHOME=")
	case r.Script != "":
		ask.Path = append(ask.Path, filepath.Dir(r.Script))
	default:
		ask.Path = append(ask.Path, r.Dir)
	}
	input, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	// The script comes on standard input, before the request: wrappers such as conda run break an argument of several
	// lines.
	cmd := exec.CommandContext(bounded, r.Interpreter, "-B", "-X", "utf8", "-W", "ignore", "-c",
		"import sys; exec(sys.stdin.buffer.read(int(sys.argv[1])))", strconv.Itoa(len(script)))
	cmd.Env, cmd.Dir = env, dir
	cmd.Stdin = io.MultiReader(bytes.NewReader(script), bytes.NewReader(input))
	out, complaint := &head{most: maxAnswer}, &head{most: maxAnswer}
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = end, formulaGrace
	err = cmd.Run()
	if cmd.Process != nil {
		_ = end() // what the module's code has started
	}
	lines := bufio.NewScanner(&out.text)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() && len(answers) < len(formulas) {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			break
		}
		answers = append(answers, a)
	}
	return answers, r.why(ctx, bounded, err, complaint.text.String())
}

// why is the reason that a process has given too few answers.
func (r Formulas) why(ctx, bounded context.Context, err error, complaint string) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return fmt.Errorf("it took longer than %v (formula-time)", r.Deadline)
	case err == nil:
		err = errors.New("it gave no answer")
	}
	complaint = strings.TrimSpace(complaint)
	if last := complaint[strings.LastIndexByte(complaint, '\n')+1:]; last != "" {
		err = fmt.Errorf("%w: %.300s", err, last)
	}
	return fmt.Errorf("%s: %w", r.Interpreter, err)
}

// environ is the program's environment in a process that sees no GPU and uses one core.
func environ(env []string) []string {
	return append(slices.Clone(env), "CUDA_VISIBLE_DEVICES=", "HIP_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=",
		"OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONSAFEPATH=", "PYTHONINSPECT=")
}

// outside is the PYTHONPATH of an environment without what is relative or foreign.
func outside(env []string, foreign func(string) bool) string {
	var dirs []string
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PYTHONPATH="); ok {
			dirs = slices.DeleteFunc(filepath.SplitList(path), func(d string) bool { return !filepath.IsAbs(d) || foreign(d) })
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// head keeps the beginning of what is written.
type head struct {
	text bytes.Buffer
	most int
}

func (h *head) Write(p []byte) (int, error) {
	h.text.Write(p[:min(len(p), max(0, h.most-h.text.Len()))])
	return len(p), nil
}

// Roots are the folders in which formulas of a command and of a plugin's program may lie. program is the plugin's
// path, or "": a program in a folder bin belongs to the folder above it, as in a virtual environment.
func Roots(dir, script, program string) []string {
	roots := []string{dir}
	if script != "" {
		roots = append(roots, filepath.Dir(script))
	}
	if real, err := filepath.EvalSymlinks(program); program != "" && err == nil {
		own := filepath.Dir(real)
		if filepath.Base(own) == "bin" {
			own = filepath.Dir(own)
		}
		roots = append(roots, own)
	}
	return slices.DeleteFunc(roots, func(root string) bool { return root == "" || root == string(os.PathSeparator) })
}
