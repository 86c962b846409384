package carry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// LockExperiment keeps other launches out of a job's experiment. It returns the folders that it locked.
func (c *Carrier) LockExperiment(j *job.Job, run string) (held []string, unlock func(), err error) {
	if at, err := c.Nodes.Place(j.Command); j.Exclusive == "" || err == nil && at.Node > 0 { // node 0 has locked it
		return nil, func() {}, nil
	}
	unlock, err = record.In(c.Options.State).Lock(j.Exclusive, fmt.Sprintf("run %s (process %d)", run, os.Getpid()))
	if err != nil {
		return nil, func() {}, err
	}
	return []string{j.Exclusive}, unlock, nil
}

// Finish makes a run's attempts and exits as the last one did. It returns an error only if nothing ran. setup has the
// values that only the caller knows.
func (c *Carrier) Finish(
	ctx context.Context, r *run.Run, rec *record.Record, who *sameness.Taken, setup attempt.Setup,
) error {
	setup.Options, setup.Job, setup.Priced, setup.Differs = c.Options, r.Job, cmp.Or(r.Priced, r.Ladders), r.Differs
	setup.Deviates, setup.Below = r.Changed, r.Below
	say := c.Say
	setup.Own = proc.NewPatient(say.W)
	say.W = setup.Own
	say = c.Share(say, &setup)
	id := records.ID(rec)
	setup.Record, setup.Report, setup.Name, setup.Replaced = rec, say, "run "+id, c.Results.Replaced(say, id, r.Job)
	at, err := c.Nodes.Place(r.Job.Command)
	if err != nil {
		return cli.NewExit(err, run.OwnTrouble)
	}
	if at.Nodes > 1 {
		setup.StopIn = stopIn
	}
	x := attempt.New(setup)
	defer x.Close()
	if last := r.Last(); last != nil && last.Plan.Trial == "" { // a run that stops again ends as it did before
		x.Exit = proc.Exit{Code: last.Outcome.Code, Signal: syscall.Signal(last.Outcome.Signal)}
	}
	j := &keeper{Journal: x.Journal(r, say, records.Receipts(c.Options.State)), began: who, rec: rec, run: r,
		say: say, accept: c.Accept,
		again: func() identity.Subject {
			return sameness.Subject(c.Options.State, r.Job.Command, r.Job, setup.Room)
		}}
	stop, err := c.carryOn(ctx, at, r, x, j, say)
	c.Claims.ReleaseCards() // the program has ended: others may wait for its card
	var sooner *attempt.Interrupted
	if errors.As(err, &sooner) {
		return c.interrupted(r, rec, say, sooner)
	}
	if err != nil {
		var start *proc.StartError
		if errors.As(err, &start) || !slices.ContainsFunc(r.Attempts, func(a run.Attempt) bool { return a.Plan.Trial == "" }) {
			return cli.Started(err)
		}
		say.Line("%v", err) // launch failed after an attempt: it exits with that attempt's code
		stop = &run.Stop{Why: err.Error()}
	}
	last := r.Last()
	code, whose := attempt.ExitCode(x.Exit.Status(), last, stop, c.Trouble(x))
	if rec != nil {
		rec.Write(record.Event{Kind: record.Stopped, Stop: stop, Code: &code})
		rec.Close()
	}
	if last == nil || last.Outcome.Ending != run.Succeeded {
		x.BreakLine()
	}
	cli.Fitted(say, os.Stderr, "never").Summary(r, stop, id, code, whose)
	c.finished(r, rec, say, stop, code, whose)
	c.Tidy()
	if code != x.Exit.Status() {
		return cli.ExitCode(code)
	}
	x.Exit.Become()
	return nil
}

// finished prints how the run continues, and writes its result.
func (c *Carrier) finished(
	r *run.Run, rec *record.Record, say ui.Printer, stop *run.Stop, code int, whose string,
) {
	res := result.Result{Code: code, Whose: whose, Stop: stop, Job: r.Job, Attempts: r.All(), Run: records.ID(rec)}
	for _, m := range r.Mixed {
		res.Mixed = append(res.Mixed, m.String())
	}
	if last := r.Last(); last != nil {
		res.Ending = last.Outcome.Ending
		// without a saved state, starting over loses nothing
		if state := r.Saved(); rec != nil && state != nil {
			d := &ui.RunDoc{ID: rec.ID, State: string(last.Outcome.Ending), SavedState: state}
			d.Continue(record.MaskRun(r), stop, &last.Outcome)
			say.GoOn(d)
		}
	}
	c.Results.Write(say, res)
}

// interrupted ends a run that was interrupted while no program was running.
func (c *Carrier) interrupted(r *run.Run, rec *record.Record, say ui.Printer, by *attempt.Interrupted) error {
	stop := &run.Stop{Why: string(run.Interrupted), Code: 128 + cli.Number(by.Signal)}
	if cli.Leaves(c.Options.Leave, by.Signal) {
		stop = &run.Stop{Why: by.Error(), Code: run.TryLater}
	}
	if rec != nil {
		rec.Write(record.Event{Kind: record.Stopped, Stop: stop, Code: &stop.Code})
		rec.Close()
	}
	say.Line("%v: run %s", by, records.ID(rec))
	c.Results.Write(say, result.Result{Run: records.ID(rec), Ending: run.Interrupted, Code: stop.Code,
		Whose: "launch's: " + by.Error(), Stop: stop, Job: r.Job, Attempts: r.All()})
	return cli.ExitCode(stop.Code)
}
