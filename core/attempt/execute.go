package attempt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
	"github.com/launch-ml/launch/core/unit"
)

// Execute implements [run.Executor].
func (x *Executor) Execute(ctx context.Context, p *run.Plan) (out run.Outcome, err error) {
	defer func() { out, err = trialFailed(p, out, err) }()
	dir, err := x.folder(p.Attempt)
	inArgv := func(e config.Edit) bool { return e.At.Doc == config.ArgvDoc }
	if copies := !all(x.Job.With(p.Edits), inArgv); err != nil && (p.Trial != "" || copies) {
		return run.Outcome{}, err
	}
	if err != nil { // the plan needs no copies, so the training can run
		x.Report.Warn("the output of this attempt is printed but not saved: %v", err)
	}
	edits, err := WithPorts(p.Edits)
	if err != nil {
		return run.Outcome{}, err
	}
	started := x.asBegan()
	if p.Trial != "" {
		away, clear, err := x.away(started, dir, edits)
		defer clear()
		if err != nil {
			return run.Outcome{}, err
		}
		started = away
	} else if len(x.made) > 0 {
		x.putAside(p)
	}
	made, err := started.Rewrite(edits, dir)
	if err != nil {
		return run.Outcome{}, err
	}
	a := x.attemptOf(p, made.Command, started.Command.Dir, dir)
	x.asFirstRead(&a, started.Command)
	edits = x.Job.With(edits) // all that the program should report
	sources, clear, err := x.writeCopies(made, edits)
	defer clear()
	if err != nil {
		return run.Outcome{}, err
	}
	if err := x.hook(&a, sources); err != nil {
		return run.Outcome{}, fmt.Errorf("preparing the edited copies of Python source: %w", err)
	}
	if p.Attempt > 1 || len(p.Edits) > 0 {
		x.Report.Starting(p, x.began.IsZero())
	}
	out, err = x.run(ctx, a)
	if x.passing(dir) { // the folder is not part of a record
		defer os.RemoveAll(dir)
	}
	defer os.RemoveAll(a.hookDir)
	if err != nil {
		return out, err
	}
	if out.Program != nil {
		out.Program.Args = named(out.Program.Args, made.Files)
	}
	out.Confirmed = confirmed(x.roots, x.Job, made, out.Began)
	asSaved(&out, x.roots, x.Job, edits)
	if len(sources) > 0 {
		asBuilt(&out, a.overlay.Report(), edits)
		untaken(&out, a.overlay)
	}
	return out, nil
}

// asFirstRead has an attempt run the shell script of its command as launch first read it, should the file have
// changed since. typed is the command before it was rewritten.
func (x *Executor) asFirstRead(a *attempt, typed job.Command) {
	prog, err := typed.Prog()
	if err != nil {
		return
	}
	a.masked = prog.Masked
	path := prog.Changed()
	if path == "" {
		return
	}
	if slices.Equal(a.command.Args, prog.Typed) {
		a.command.Args = prog.Argv
	}
	x.Report.Warn("%s has changed: this attempt runs its text as launch first read it", path)
}

// all reports whether a condition holds for every edit.
func all(edits []config.Edit, holds func(config.Edit) bool) bool {
	return !slices.ContainsFunc(edits, func(e config.Edit) bool { return !holds(e) })
}

// attemptOf returns the attempt of a plan. c is the rewritten command, from the folder that its paths are relative to.
func (x *Executor) attemptOf(p *run.Plan, c job.Command, from, dir string) attempt {
	a := attempt{command: c, roots: x.roots.In(from), signs: x.Job.Signs, dir: dir, trial: p.Trial,
		batch: p.Batch, steps: x.Job.Rehearsal.Steps, status: x.planned(p)}
	a.signs.Lines = append(slices.Clip(a.signs.Lines), job.OwnSigns()...)
	if p.Trial == "" {
		a.total = totalOf(x.Job)
		if x.OnPressure == StepDown && x.Below != nil {
			a.below = x.Below(p)
		}
		a.resume, a.scale = p.Resume, p.Scale(x.Job.Signs)
		a.differs = func(s oom.State) string {
			return x.Differs(p, &run.Outcome{Settings: s.Settings, Total: s.Total})
		}
		if x.Deviates != nil && p.Attempt > 1 && p.Cost < ladder.Recipe {
			a.changed = func(s oom.State) []string {
				return x.Deviates(p, &run.Outcome{Settings: s.Settings, Total: s.Total, Rates: s.Rates,
					Updates: s.Updates})
			}
		}
	}
	if p.Resume != nil {
		x.enter([]string{p.Resume.Path})
	}
	if x.Priced != nil {
		a.priced = map[string]unit.Bytes{}
		for _, c := range p.Choices {
			a.priced[c.Phase] = 0
			if e := x.Priced.Ladder(c.Phase).Rungs[c.Rung].At(p.Shared.Rung); e.Known() {
				a.priced[c.Phase] = e.Total()
			}
		}
	}
	return a
}

// WithPorts returns the edits with a free port in place of each [job.FreePort].
func WithPorts(edits []config.Edit) ([]config.Edit, error) {
	edits = slices.Clone(edits)
	for i := range edits {
		if strings.Contains(edits[i].To, job.FreePort) {
			port, err := freePort()
			if err != nil {
				return nil, err
			}
			edits[i].To = strings.ReplaceAll(edits[i].To, job.FreePort, port)
		}
	}
	return edits, nil
}

// freePort finds a TCP port of this machine that is not in use.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// mostRecipe bounds a file of a recipe, in bytes.
const mostRecipe = 64 << 20

// asBegan returns the job with its recipe as it was when the run began, and prints which of its files have changed
// since: one run never reads two recipes.
func (x *Executor) asBegan() *job.Job {
	began, outdated := x.Job.AsBegan(func(path string) ([]byte, error) { return file.Read(path, mostRecipe) })
	for _, path := range outdated {
		x.Report.Warn("%s has changed since the run began: this attempt uses the text that it had then. To use the "+
			"changed one, start another run", path)
	}
	return began
}

// away returns the job of a trial, which writes into a scratch folder. It sets that folder in the edits. clear removes
// the folder.
func (x *Executor) away(from *job.Job, dir string, edits []config.Edit) (j *job.Job, clear func(), err error) {
	var undo []func()
	clear = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	scratch := filepath.Join(dir, record.Scratch)
	name := fmt.Sprintf("%s%d-%d", record.TrialPrefix, os.Getpid(), time.Now().UnixNano())
	forget, err := x.note(dir, scratch, name)
	if err != nil {
		return nil, clear, err
	}
	undo = append(undo, forget) // runs last, after everything was removed
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, clear, fmt.Errorf("making a folder for the trial: %w", err)
	}
	undo = append(undo, func() { os.RemoveAll(scratch) })
	for i := range edits {
		edits[i].To = strings.NewReplacer(job.Scratch, scratch, job.ScratchName, name).Replace(edits[i].To)
	}
	undo = append(undo, x.roots.Leaves(name))
	if err := states.Stage(scratch, x.Job.Rehearsal.Puts); err != nil {
		return nil, clear, err
	}
	return from.Away(scratch), clear, nil
}

// note records what a trial will leave, so that the next launch removes it if this one is killed.
func (x *Executor) note(dir, scratch, name string) (forget func(), err error) {
	leaves := []string{scratch}
	if x.passing(dir) {
		leaves = []string{dir}
	}
	for _, path := range x.Job.Rehearsal.Leaves {
		if strings.Contains(path, job.ScratchName) {
			leaves = append(leaves, file.In(x.Job.Command.Dir, strings.ReplaceAll(path, job.ScratchName, name)))
		}
	}
	return x.store().Note(leaves...)
}

// writeCopies writes the edited copies of the recipe. It returns those of Python source, which a hook serves instead.
// clear removes the copies that may be large.
func (x *Executor) writeCopies(made *job.Rewritten, edits []config.Edit) (sources []overlay.File, clear func(), err error) {
	var large []string
	clear = func() {
		for _, path := range large {
			os.Remove(path)
		}
	}
	for _, f := range made.Files {
		switch {
		case f.Served():
			sources = append(sources, overlay.File{Path: f.Path, SHA256: f.Source.SHA256, Text: f.Text, Names: edited(edits, f.Path)})
		case f.Format == job.Binary:
			if err = os.MkdirAll(filepath.Dir(f.Path), 0o700); err == nil {
				err = states.Copy(file.In(x.Job.Command.Dir, f.From), f.Path, f.Patches)
			}
			if err != nil {
				return nil, clear, fmt.Errorf("copying %s: %w", f.From, err)
			}
			large = append(large, f.Path)
		default:
			if err := writeCopy(f); err != nil {
				return nil, clear, fmt.Errorf("writing the edited copy of %s: %w", f.From, err)
			}
		}
	}
	return sources, clear, nil
}

// writeCopy writes an edited copy, and makes its folder.
func writeCopy(f job.File) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	return private.WriteFile(f.Path, f.Text, 0o600)
}

// folder makes the folder of an attempt: in its run's record or, if there is none, among the temporary files.
func (x *Executor) folder(attempt int) (string, error) {
	if x.Record != nil {
		if dir, err := x.Record.Attempt(attempt); err == nil && private.HasRoom(dir) {
			return dir, nil
		}
	}
	dir, err := private.Temp(record.AttemptPrefix, x.State)
	if err != nil {
		return "", fmt.Errorf("making a folder for the attempt: %w", err)
	}
	return dir, nil
}

// passing reports whether an attempt's folder is temporary: not part of the run's record.
func (x *Executor) passing(dir string) bool {
	return dir != "" && (x.Record == nil || !strings.HasPrefix(dir, x.Record.Dir+string(filepath.Separator)))
}

// trialFailed turns an error of launch in a trial into the trial's outcome, so that the run itself still starts.
func trialFailed(p *run.Plan, out run.Outcome, err error) (run.Outcome, error) {
	var start *proc.StartError
	var sooner *Interrupted
	if p.Trial == "" || err == nil || errors.As(err, &start) || errors.As(err, &sooner) {
		return out, err
	}
	return run.Outcome{Ending: run.Failed, Cause: err.Error(), Began: time.Now()}, nil
}
