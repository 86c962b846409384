package slurm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
)

// An order is what a row's job has to do: one start of a trial. It lies in the trial's folder.
type order struct {
	Start  int           `json:"start"`
	Launch string        `json:"launch"` // the program
	Flags  []string      `json:"flags"`  // launch's
	Args   []string      `json:"args"`   // the command
	Env    []string      `json:"env,omitempty"`
	Dir    string        `json:"dir"`
	Resume string        `json:"resume,omitempty"`
	State  string        `json:"state"`  // launch's state folder
	Before time.Duration `json:"before"` // how long before the time limit Slurm sends SIGUSR2
	Kill   time.Duration `json:"kill"`   // how long after SIGTERM Slurm kills what it preempts
}

// progress is what the allocations of a start have come to so far.
type progress struct {
	Run string `json:"run,omitempty"` // the run to resume
	// the launch that runs, or was killed: its process, where, and since when
	PID   int            `json:"pid,omitempty"`
	On    record.Carrier `json:"on,omitzero"`
	Since time.Time      `json:"since,omitzero"`
	Saved string         `json:"saved,omitempty"` // the newest saved state
	Idle  int            `json:"idle,omitempty"`  // allocations in a row that saved nothing newer
}

// mostIdle is how many allocations in a row may end without a newer saved state before the row fails: requeued for
// ever, it would waste the cluster's time.
const mostIdle = 3

const (
	orderFile    = "order.json"
	progressFile = "progress.json"
	stopFile     = "stop"
)

// ResultFile is the file of the result of a trial's start.
func ResultFile(folder string, start int) string {
	if start == 1 {
		return filepath.Join(folder, "result.json")
	}
	return filepath.Join(folder, fmt.Sprintf("result-%d.json", start))
}

func readJSON(path string, into any) error {
	text, err := private.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return err
}

func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return private.Save(path, append(text, '\n'))
}

// A row carries out one trial inside its job.
type row struct {
	folder string // the trial's
	order  order
	past   progress
	task   string // the job's name for scontrol: ARRAY_TASK
}

// Row runs the trial of the array task that this process is: it starts launch, passes signals on to it, and has Slurm
// run the task again if the trial was stopped because Slurm takes the machine. It returns the exit code.
func Row(ctx context.Context, folder string) (int, error) {
	task := os.Getenv("SLURM_ARRAY_TASK_ID")
	if n, err := strconv.Atoi(task); err != nil || n < 1 {
		return run.OwnTrouble, errors.New("a row runs in the task of a Slurm array: SLURM_ARRAY_TASK_ID has no number")
	}
	// the last task's own SLURM_JOB_ID is that of the whole array, and would requeue all of it
	r := &row{folder: filepath.Join(folder, "trials", task), task: os.Getenv("SLURM_ARRAY_JOB_ID") + "_" + task}
	if err := readJSON(filepath.Join(r.folder, orderFile), &r.order); err != nil {
		return run.OwnTrouble, fmt.Errorf("reading what trial %s has to do: %w", task, err)
	}
	if os.Getenv("SLURM_RESTART_COUNT") != "" {
		_ = readJSON(r.progressPath(), &r.past) // where there is none, the task was ended before it began
	}
	return r.carry(ctx)
}

// progressPath is the file of this start's progress.
func (r *row) progressPath() string {
	return filepath.Join(r.folder, fmt.Sprintf("%d-%s", r.order.Start, progressFile))
}

// result is the file of the start's end. The sweep may read it as soon as it is there.
func (r *row) result() string { return ResultFile(r.folder, r.order.Start) }

// ended is where launch writes how one allocation has ended, which may not be the end of the start.
func (r *row) ended() string {
	return filepath.Join(r.folder, fmt.Sprintf("%d-ended.json", r.order.Start))
}

// carry runs launch once, and decides what comes after it.
func (r *row) carry(ctx context.Context) (int, error) {
	if r.past.Run == "" && r.past.PID != 0 {
		r.past.Run = record.In(r.order.State).BegunBy(r.past.PID, r.past.On, r.past.Since)
	}
	os.Remove(r.ended()) // of an allocation whose row was killed
	code, err := r.launch(ctx)
	if err != nil {
		return run.OwnTrouble, err
	}
	var doc struct {
		Run      string        `json:"run"`
		Attempts []run.Attempt `json:"attempts"`
		Outcome  *run.Outcome  `json:"outcome"`
	}
	if err := readJSON(r.ended(), &doc); err != nil {
		return code, nil // launch was killed: the task ends without a result, and the sweep decides
	}
	if !taken(doc.Attempts, doc.Outcome) || r.stopped() {
		return code, os.Rename(r.ended(), r.result())
	}
	return r.again(doc.Run, savedIn(doc.Attempts))
}

// taken reports whether the trial was stopped because a scheduler takes the machine.
func taken(attempts []run.Attempt, typed *run.Outcome) bool {
	if len(attempts) > 0 {
		typed = &attempts[len(attempts)-1].Outcome
	}
	return typed != nil && typed.Left != "" && typed.Ending != run.Succeeded
}

// savedIn identifies the newest state that the attempts have saved.
func savedIn(attempts []run.Attempt) string {
	for _, a := range slices.Backward(attempts) {
		if s := a.Outcome.Saved; s != nil {
			return fmt.Sprintf("%s %d", s.Path, s.Iteration)
		}
	}
	return ""
}

// again has Slurm run the task once more.
func (r *row) again(id, saved string) (int, error) {
	if r.past.Idle++; saved != "" && saved != r.past.Saved {
		r.past.Saved, r.past.Idle = saved, 0
	}
	if r.past.Idle >= mostIdle {
		why := fmt.Sprintf("%d allocations in a row saved no newer state: give each more time (--sbatch=--time=…)", mostIdle)
		return 1, writeJSON(r.result(), map[string]any{"version": 1, "run": id, "ending": run.Failed, "exit_code": 1,
			"error": why})
	}
	r.past.Run, r.past.PID = id, 0
	if err := writeJSON(r.progressPath(), r.past); err != nil {
		return run.OwnTrouble, err
	}
	if err := os.Rename(r.ended(), filepath.Join(r.folder, "requeued.json")); err != nil {
		return run.OwnTrouble, err
	}
	fmt.Printf("requeue %s: run %s\n", r.task, id)
	// Where Slurm has preempted the job it requeues it by itself, and refuses this. RequeueExit would do the same, but
	// is the administrator's (slurm.conf(5)).
	if out, err := private.Command(context.Background(), "scontrol", "requeue", r.task).CombinedOutput(); err != nil {
		fmt.Printf("scontrol requeue %s: %v: %s\n", r.task, err, out)
	}
	return run.TryLater, nil
}

// stopped reports whether the user has stopped the trial.
func (r *row) stopped() bool {
	_, err := os.Stat(filepath.Join(r.folder, stopFile))
	return err == nil
}

// launch runs launch to its end and passes on the signals that Slurm sends to the task.
func (r *row) launch(ctx context.Context) (code int, err error) {
	out, err := private.Open(filepath.Join(r.folder, "output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("opening the output of the trial: %w", err)
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, r.order.Launch)
	cmd.Args = append([]string{"launch"}, r.args()...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.order.Dir, out, out
	cmd.Env = append(os.Environ(), r.order.Env...)
	signals, release := passable()
	defer release()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting launch: %w", err)
	}
	r.past.PID, r.past.On, r.past.Since = cmd.Process.Pid, record.Here(), time.Now()
	if err := writeJSON(r.progressPath(), r.past); err != nil {
		fmt.Println("after a kill the trial would start over:", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			cmd.Process.Signal(sig)
		case err = <-ended:
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
					return 128 + int(s.Signal()), nil
				}
				return exit.ExitCode(), nil
			}
			return 0, err
		}
	}
}

// args are launch's arguments.
func (r *row) args() []string {
	o := r.order
	flags := slices.Concat(o.Flags, []string{
		"--json-file=" + r.ended(),
		SaveOn(o.Before, o.Kill),
	})
	id := cmp.Or(r.past.Run, o.Resume)
	if id == "" {
		return slices.Concat(flags, []string{"--"}, o.Args)
	}
	args := append([]string{"resume", id}, flags...)
	args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "--set=") }) // the run has them
	if record.HasMask(record.MaskArgs(o.Args)) {                                                  // the record has none
		args = slices.Concat(args, []string{"--"}, o.Args)
	}
	return args
}

// endOf is the result of a start that ended without one.
func endOf(folder string, start int, runs record.Store, why string) sweep.Result {
	var p progress
	lost := sweep.Result{Ending: sweep.Lost, Why: why}
	path := filepath.Join(folder, fmt.Sprintf("%d-%s", start, progressFile))
	if err := readJSON(path, &p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		lost.Why = err.Error()
	}
	if lost.Run = p.Run; lost.Run == "" && p.PID != 0 {
		lost.Run = runs.BegunBy(p.PID, p.On, p.Since)
	}
	lost.Known = lost.Run != ""
	return lost
}

// passable are the signals that a row passes on to its launch.
func passable() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	return ch, func() { signal.Stop(ch) }
}
