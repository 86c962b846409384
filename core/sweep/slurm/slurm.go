// Package slurm runs the trials of a sweep as array jobs of Slurm.
//
// Each task of an array is a process of launch's own, a [Row], which runs launch for its trial and, if Slurm takes the
// machine before the end, has Slurm run the task again; launch then resumes the run. So a sweep goes on without the
// process that submitted it. That process only submits, looks after the tasks, and collects the results from the
// sweep's folder, which every node must see.
package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/unit"
)

// Options are what an executor needs to submit trials.
type Options struct {
	Launch string   // the program launch, as every node sees it
	Dir    string   // where the trials run
	Flags  []string // launch's flags, the same for every trial
	// Mark is what the record of the run of a trial's start has as its row; nil: the sweep is older than marks.
	Mark     func(trial, start int) string
	Folder   string   // the sweep's
	State    string   // launch's state folder
	Sbatch   []string // the user's options of sbatch, which outrank ours
	Throttle int      // how many tasks may run at the same time; 0: as many as Slurm likes
	Memory   unit.Bytes
	GPUs     int           // of each task; 0: none
	Before   time.Duration // how long before the time limit a trial is asked to save
	Every    time.Duration // between two looks at the queue
	Env      []string      // of Slurm's commands; nil: this process's
}

// The defaults of Options.
const (
	DefaultBefore = 2 * time.Minute
	DefaultEvery  = 2 * time.Second
	gather        = 100 * time.Millisecond // trials that are started within this time become one array
)

// An Executor implements [sweep.Executor].
type Executor struct {
	Options
	ends chan sweep.End
	kill time.Duration // Slurm's KillWait

	mu      sync.Mutex
	submits sync.WaitGroup
	refused error              // the last refusal of sbatch
	pending []sweep.Start      // to be submitted together
	running map[int]*submitted // by trial
	cancel  context.CancelFunc // ends watching
	once    sync.Once
}

var _ sweep.Executor = (*Executor)(nil)

// submitted is a start that Slurm has.
type submitted struct {
	start sweep.Start
	job   string // ARRAY_TASK; "" until the queue showed it
	gone  int    // looks in a row that did not show it
	stop  bool   // the user asked it to stop
}

// New returns an executor. Close ends it; the tasks go on.
func New(ctx context.Context, o Options) (*Executor, error) {
	o.Before = cmp.Or(o.Before, DefaultBefore)
	o.Every = cmp.Or(o.Every, DefaultEvery)
	cluster, err := AskCluster(ctx, o.Env)
	if err != nil {
		return nil, err
	}
	x := &Executor{Options: o, ends: make(chan sweep.End, 64), running: map[int]*submitted{}, kill: cluster.Kill}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	x.cancel = cancel
	go x.watch(watching)
	return x, nil
}

// Close ends the watching of the tasks. The tasks go on.
func (x *Executor) Close() { x.once.Do(x.cancel) }

// Flush waits until everything that was started is submitted, and returns why not.
func (x *Executor) Flush() error {
	x.submits.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.refused
}

// Ends implements [sweep.Executor].
func (x *Executor) Ends() <-chan sweep.End { return x.ends }

// Start implements [sweep.Executor]. The trial is submitted together with others that are started at the same time.
func (x *Executor) Start(s sweep.Start) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.Begun {
		x.running[s.Trial] = &submitted{start: s}
		return nil
	}
	if err := x.write(s); err != nil {
		return err
	}
	if x.pending = append(x.pending, s); len(x.pending) == 1 {
		x.submits.Add(1)
		time.AfterFunc(gather, x.submit)
	}
	x.running[s.Trial] = &submitted{start: s, gone: -1 << 20} // not missed before it was submitted
	return nil
}

// write writes what the trial's task has to do.
func (x *Executor) write(s sweep.Start) error {
	folder := x.trial(s.Trial)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("making the folder of trial %d: %w", s.Trial, err)
	}
	os.Remove(filepath.Join(folder, stopFile))
	flags := slices.Clone(x.Flags)
	for _, set := range s.Invocation.Set {
		flags = append(flags, "--set="+set)
	}
	if x.Mark != nil {
		flags = append(flags, s.Invocation.MarkFlag(x.Mark(s.Trial, s.Number)))
	}
	o := order{Start: s.Number, Launch: x.Launch, Flags: flags, Args: s.Invocation.Args, Env: s.Invocation.Env, Dir: x.Dir,
		Resume: s.Resume, State: x.State, Before: x.Before, Kill: x.kill}
	if err := writeJSON(filepath.Join(folder, orderFile), o); err != nil {
		return fmt.Errorf("writing what trial %d has to do: %w", s.Trial, err)
	}
	return nil
}

func (x *Executor) trial(n int) string { return filepath.Join(x.Folder, "trials", strconv.Itoa(n)) }

// name is the name of the sweep's jobs. Two sweeps of one name in different state folders have different jobs.
func (x *Executor) name() string {
	h := fnv.New32a()
	h.Write([]byte(x.Folder))
	return fmt.Sprintf("launch-%s-%08x", filepath.Base(x.Folder), h.Sum32())
}

// submit submits the trials that wait for it, as one array.
func (x *Executor) submit() {
	defer x.submits.Done()
	x.mu.Lock()
	starts := x.pending
	x.pending = nil
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	cmd := x.exec(ctx, "sbatch", x.options(starts)...)
	cmd.Stdin = strings.NewReader(x.script())
	out, err := output(cmd)
	job := jobID(out)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range starts {
		r := x.running[s.Trial]
		if err == nil {
			r.job, r.gone = fmt.Sprintf("%s_%d", job, s.Trial), 0
			continue
		}
		delete(x.running, s.Trial)
		x.refused = err
		why := err.Error()
		if x.GPUs > 0 && strings.Contains(why, "gres") {
			why += "; launch asks for a card: --sbatch=--gres=none asks for none"
		}
		go func() {
			x.ends <- sweep.End{Trial: s.Trial, Start: s.Number, Result: sweep.Result{Ending: sweep.NotRun,
				Code: run.OwnTrouble, Why: why}}
		}()
	}
}

// jobID is the job's number in what sbatch prints: ID;CLUSTER on its last line. A site's own sbatch may print more
// before it, and may not know --parsable.
func jobID(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	id, _, _ := strings.Cut(strings.TrimSpace(lines[len(lines)-1]), ";")
	return strings.TrimPrefix(id, "Submitted batch job ")
}

// script is the batch script. exec: the signals that Slurm sends to the batch shell then reach launch.
func (x *Executor) script() string {
	launch, _ := syntax.Quote(x.Launch, syntax.LangPOSIX)
	folder, _ := syntax.Quote(x.Folder, syntax.LangPOSIX)
	return fmt.Sprintf("#!/bin/sh\nexec %s sweep row %s\n", launch, folder)
}

// options are those of sbatch. Of an option that is given twice, sbatch takes the last: the user's.
func (x *Executor) options(starts []sweep.Start) []string {
	trials := make([]int, len(starts))
	for i, s := range starts {
		trials[i] = s.Trial
	}
	array := ranges(trials)
	if x.Throttle > 0 {
		array += "%" + strconv.Itoa(x.Throttle)
	}
	args := []string{"--parsable", "--requeue", "--open-mode=append", "--job-name=" + x.name(), "--chdir=" + x.Dir,
		"--output=" + filepath.Join(x.Folder, "slurm-%a.out"), "--array=" + array}
	args = append(args, Needs{Memory: x.Memory, GPUs: x.GPUs, Before: x.Before}.Options()...)
	return append(args, x.Sbatch...)
}

// ranges writes numbers as sbatch reads them: 1-3,7.
func ranges(numbers []int) string {
	slices.Sort(numbers)
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// watch looks at the queue and the results until ctx is done.
func (x *Executor) watch(ctx context.Context) {
	tick := time.NewTicker(x.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			x.look(ctx)
		}
	}
}

// Tasks lists the sweep's tasks that Slurm knows and that have not ended, by trial.
func (x *Executor) Tasks(ctx context.Context) (map[int]Task, error) {
	out, err := x.command(ctx, "squeue", "-h", "-r", "--me", "-n", x.name(), "-o", "%F %K %T %r")
	if err != nil {
		return nil, err
	}
	tasks := map[int]Task{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		if n, err := strconv.Atoi(f[1]); err == nil {
			tasks[n] = Task{ID: f[0] + "_" + f[1], State: f[2], Why: strings.Join(f[3:], " ")}
		}
	}
	return tasks, nil
}

// A Task is a task of the sweep's arrays.
type Task struct {
	ID    string // ARRAY_TASK
	State string // Slurm's word: PENDING, RUNNING, …
	Why   string // why it is pending
}

// look delivers the ends that it finds.
func (x *Executor) look(ctx context.Context) {
	x.mu.Lock()
	idle := len(x.running) == 0
	x.mu.Unlock()
	if idle {
		return
	}
	tasks, err := x.Tasks(ctx)
	if err != nil { // the controller may be away for a while: that proves nothing about the tasks
		return
	}
	x.mu.Lock()
	var ended []sweep.End
	for n, r := range x.running {
		task, listed := tasks[n]
		if listed {
			r.job = task.ID
		}
		result, has := x.result(r.start)
		switch {
		case has:
		case listed:
			r.gone = 0
			continue
		default:
			if r.gone++; r.gone < 3 { // between two states a task may not be listed
				continue
			}
			result = x.without(ctx, r)
		}
		delete(x.running, n)
		ended = append(ended, sweep.End{Trial: n, Start: r.start.Number, Result: result})
	}
	x.mu.Unlock()
	for _, e := range ended {
		x.ends <- e
	}
}

// result reads the result of a start, if there is one.
func (x *Executor) result(s sweep.Start) (sweep.Result, bool) {
	text, err := private.ReadFile(ResultFile(x.trial(s.Trial), s.Number))
	if err != nil {
		return sweep.Result{}, false
	}
	r, err := sweep.ReadResult(text)
	if err != nil {
		return sweep.Result{Ending: sweep.NotRun, Code: run.OwnTrouble, Why: err.Error()}, true
	}
	return r, true
}

// Collect adds to a history the results of rows that no process has collected yet. It writes nothing.
func Collect(folder string, h *sweep.History) {
	for _, r := range h.Running() {
		text, err := private.ReadFile(ResultFile(filepath.Join(folder, "trials", strconv.Itoa(r.Number)), r.Starts))
		if err != nil {
			continue
		}
		if result, err := sweep.ReadResult(text); err == nil {
			h.Apply(sweep.Event{Version: sweep.Version, Time: time.Now(), Kind: sweep.Ended, Trial: r.Number,
				Start: r.Starts, Result: &result})
		}
	}
}

// without is the result of a task that has ended without one.
func (x *Executor) without(ctx context.Context, r *submitted) sweep.Result {
	why := "its job ended without a result"
	if out, err := x.command(ctx, "scontrol", "show", "job", "-o", r.job); err == nil && r.job != "" {
		if m := jobState.FindStringSubmatch(out); m != nil {
			why = "Slurm: " + m[1]
		}
	}
	result := endOf(x.trial(r.start.Trial), r.start.Number, record.In(x.State), why)
	if r.stop {
		result.Ending = run.Interrupted
	}
	return result
}

var jobState = lazy.MustCompile(`\bJobState=(\S+)`)

// Stop implements [sweep.Executor]. A task that has not begun is taken out of the queue.
func (x *Executor) Stop(trial int, now bool) {
	x.mu.Lock()
	r := x.running[trial]
	if r != nil {
		r.stop = true
	}
	x.mu.Unlock()
	if r != nil {
		x.End(trial, now)
	}
}

// End asks the task of a trial to stop, whoever has started it.
func (x *Executor) End(trial int, now bool) {
	job := ""
	x.mu.Lock()
	if r := x.running[trial]; r != nil {
		job = r.job
	}
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	if err := os.WriteFile(filepath.Join(x.trial(trial), stopFile), nil, 0o600); err != nil {
		now = true // the row would have itself requeued
	}
	if job == "" {
		tasks, _ := x.Tasks(ctx)
		job = tasks[trial].ID
	}
	if job == "" {
		return
	}
	// of a pending task the first command changes nothing, and the second ends it; a running one is not pending
	commands := [][]string{{"--signal=TERM", "--batch", job}, {"--state=PENDING", job}}
	if now {
		commands = [][]string{{job}}
	}
	for _, args := range commands {
		_, _ = x.command(ctx, "scancel", args...) // the task may have ended
	}
}

// exec returns one of Slurm's commands.
func (x *Executor) exec(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := private.Command(ctx, name, args...)
	cmd.Env = x.Env
	cmd.WaitDelay = time.Second
	return cmd
}

// command runs one of Slurm's commands and returns what it prints.
func (x *Executor) command(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	return output(x.exec(ctx, name, args...))
}

// ErrMissing is the error of a machine without Slurm.
var ErrMissing = errors.New("no sbatch here: --on slurm submits from a machine of the cluster")

// Here returns an error if this machine cannot submit jobs.
func Here() error {
	if _, err := private.Find("sbatch"); err != nil {
		return ErrMissing
	}
	return nil
}
