package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/explain"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// read reads a command by the settings: which plugin knows it, which ladders it has.
func read(ctx context.Context, s settings, args []string, ask func(intake.Plugins) intake.Asker) (*intake.Reading, error) {
	ps := s.plugins()
	r, err := intake.Read(ctx, intake.Options{
		Plugins: ps, Ask: ask(ps), Plugin: s.Plugin, AsTyped: s.AsTyped, Wish: s.Wish, GPUs: s.GPUs, Called: s, Learner: s.learner,
		Limits: run.Limits{Allow: s.Allow, AsAsked: s.AsAsked, Fill: s.Fill, Fast: s.Fast, Rehearse: s.Rehearse, Anyway: s.Anyway},
	}, args)
	if r != nil {
		r.Warnings = append(slices.Clone(s.Notes), r.Warnings...)
	}
	return r, err
}

// plugins are those to ask.
func (s settings) plugins() intake.Plugins { return intake.Plugins{Builtin: builtins, State: s.State} }

// here asks in this process, elsewhere in one of the plugin's own.
func here(ps intake.Plugins) intake.Asker      { return ps.Here }
func elsewhere(ps intake.Plugins) intake.Asker { return ps.Elsewhere }

// reporter is what prints launch's own lines while a command runs.
func reporter(s settings) ui.Printer {
	return ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr), Quiet: s.Quiet}
}

// wrap runs a command. It does not return when the command ran: launch ends as the command did.
func wrap(ctx context.Context, s settings, args []string) error {
	say := reporter(s)
	if err := checkJSONFile(s); err != nil {
		return err
	}
	p, err := read(ctx, s, args, elsewhere)
	if err != nil {
		return err
	}
	defer p.Close()
	clearLeftovers(s, say)
	if p.Err != nil {
		return p.Err
	}
	if p.Job != nil {
		if _, err := oom.NewDetector(p.Job.Signs); err != nil {
			p.Without("plugin %s: %v", p.Job.Plugin, err)
		}
	}
	if s.claim, err = claimMemory(s, say, p.Command, p.Job); err != nil {
		return err
	}
	defer s.claim.Release()
	if p.Job == nil {
		return asTyped(ctx, s, p, say)
	}
	return carry(ctx, s, p, say)
}

// clearLeftovers removes what trials of killed launches have left.
func clearLeftovers(s settings, say ui.Printer) {
	for _, path := range record.In(s.State).Tidy() {
		say.Line("removed what a trial that was killed had left: %s", path)
	}
}

// options are the settings that an attempt depends on.
func (s settings) options() attempt.Options {
	return attempt.Options{Inside: s.Inside, TTY: s.TTY, Quiet: s.Quiet, Grace: s.Grace, Sample: s.Sample, State: s.State}
}

// replaced writes the result of a run that goes on without launch.
func replaced(s settings, say ui.Printer, rec *record.Record, j *job.Job) func(string) {
	return func(why string) {
		writeResult(s, say, result{Version: 1, Run: id(rec), Ending: "not watched", Code: -1, Error: why, Job: j})
	}
}

// asTyped runs a command that no plugin recognised: one attempt, nothing edited, nothing set. An out-of-memory is
// explained.
func asTyped(ctx context.Context, s settings, p *intake.Reading, say ui.Printer) error {
	for _, w := range p.Warnings {
		say.Warn("%s", w)
	}
	if !p.AsksForHelp && !p.Explained && (s.Expects || !s.Quiet && p.NamesRecipe()) {
		say.Warn("this command is not recognised (%s): it runs as typed, once, and nothing is adjusted", p.Why())
	}
	rec, err := record.In(s.State).Create(time.Now())
	if err != nil {
		rec = nil
	} else {
		rec.Write(record.Event{Kind: record.Followed, Args: record.MaskArgs(p.Command.Args), Dir: p.Command.Dir, Limit: s.Limit()})
	}
	setup := attempt.Setup{Options: s.options(), Report: say, Record: rec, Settle: p.Close, Replaced: replaced(s, say, rec, nil)}
	if s.Device == "cpu" {
		setup.Room, _ = room.Find(ctx, s.Wish, nil)
	}
	x := attempt.New(setup)
	out, output, err := x.AsTyped(ctx, p.Command)
	if err != nil {
		if rec != nil {
			rec.Write(record.Event{Kind: record.Stopped, Stop: &run.Stop{Why: "not started: " + err.Error()}})
		}
		return started(err)
	}
	if rec != nil {
		rec.Write(record.Event{Kind: record.Ended, Outcome: &out})
		rec.Close()
	}
	explainTyped(s, p, say, x, out, output)
	code, whose := attempt.ExitCode(x.Exit.Status(), nil, &run.Stop{}, x.Trouble)
	writeResult(s, say, result{Version: 1, Ending: out.Ending, Code: code, Whose: whose, Outcome: &out, Run: id(rec)})
	s.tidy()
	if code != x.Exit.Status() {
		say.Line("exit code %d is %s", code, whose)
		return exitCode(code)
	}
	x.Exit.Become()
	return nil
}

// explainTyped prints why a command that ran as typed ran out of memory, and what became of the hook.
func explainTyped(s settings, p *intake.Reading, say ui.Printer, x *attempt.Executor, out run.Outcome, output string) {
	if out.Ending == run.OutOfMemory {
		x.BreakLine()
		e := ui.Explanation{Report: out.Report}
		if output != "" {
			e.Clues = explain.Clues(output)
		}
		e.Clues.Limit = s.Limit()
		e.Advise(nil)
		say.Unrecognised(e, out.Cause, p.Why())
	}
	if in := out.Inside; in != nil && (!s.Quiet || !in.Hook.Taken()) {
		x.BreakLine()
		say.Inside(in.Hook)
	}
}

// view is the first plan of a command, for a person or a script to see.
func view(p *intake.Reading) ui.View {
	v := ui.View{Run: p.Run, Device: p.Room.Device, Warnings: p.Warnings, Truths: p.Job.Truths}
	v.Plan, v.Stop = p.Run.First()
	return v
}

// carry plans and runs a job to its end.
func carry(ctx context.Context, s settings, p *intake.Reading, say ui.Printer) error {
	signals := collectSignals()
	defer signals.close()
	v := view(p)
	v.Truths = record.In(s.State).Unsaid(p.Job)
	switch {
	case !s.Quiet:
		say.Plan(v)
	case v.Stop != nil:
		say.Stop(p.Run, v.Stop)
	}
	if s.Quiet {
		for _, note := range s.Notes { // something may be left undone that its user expects
			say.Warn("%s", note)
		}
	}
	if v.Stop != nil {
		writeResult(s, say, result{Version: 1, Ending: "refused", Code: v.Stop.Code, Stop: v.Stop, Job: p.Job})
		return exitCode(v.Stop.Code)
	}
	rec, err := record.In(s.State).Create(time.Now())
	if err != nil {
		rec = nil
		say.Warn("%v: nothing is recorded, and the run cannot be resumed should launch itself be killed", err)
	}
	held, unlock, err := lockExperiment(s, p.Job, id(rec))
	defer unlock()
	if errors.Is(err, record.ErrBusy) {
		if rec != nil {
			rec.Close()
			os.RemoveAll(rec.Dir)
		}
		return later(s, "", p.Job, err)
	}
	if err != nil {
		say.Warn("%v: another launch in the same experiment would not be noticed", err)
	}
	if rec != nil {
		if err := rec.Write(record.Event{Kind: record.Started, Run: record.MaskRun(p.Run), Device: p.Room.Device, Limit: s.Limit()}); err != nil {
			say.Warn("%v", err)
		}
	}
	err = finish(ctx, s, p.Run, rec, say, attempt.Setup{Room: p.Room, Settle: p.Close, Held: held, Signals: signals})
	if ownTrouble(err) {
		say.Warn("%v: the command runs as typed, once, and nothing is adjusted", err)
		p.Warnings, p.Explained = nil, true
		return asTyped(ctx, s, p, say)
	}
	return err
}

// lockExperiment keeps other launches out of a job's experiment. It returns the folders of which it holds the lock.
func lockExperiment(s settings, j *job.Job, run string) (held []string, unlock func(), err error) {
	if j.Exclusive == "" {
		return nil, func() {}, nil
	}
	unlock, err = record.In(s.State).Lock(j.Exclusive, fmt.Sprintf("run %s (process %d)", run, os.Getpid()))
	if err != nil {
		return nil, func() {}, err
	}
	return []string{j.Exclusive}, unlock, nil
}

// later ends a run that has to wait for another launch.
func later(s settings, run string, j *job.Job, why error) error {
	say := reporter(s)
	say.Line("%v", why)
	writeResult(s, say, result{Version: 1, Run: run, Ending: notRun, Code: tryLater, Error: why.Error(), Job: j})
	return exitCode(tryLater)
}

const tryLater = run.TryLater

// finish carries a run to its end and ends as its last attempt did. It returns an error only where nothing ran. setup is what only
// the caller knows of how its attempts are made.
func finish(ctx context.Context, s settings, r *run.Run, rec *record.Record, say ui.Printer, setup attempt.Setup) error {
	setup.Options, setup.Job, setup.Priced, setup.Differs = s.options(), r.Job, cmp.Or(r.Priced, r.Ladders), r.Differs
	setup.Record, setup.Report, setup.Name, setup.Replaced = rec, say, "run "+id(rec), replaced(s, say, rec, r.Job)
	x := attempt.New(setup)
	defer x.Close()
	j := x.Journal(r, say, s.receipts())
	stop, err := r.Carry(ctx, x, j)
	var sooner *attempt.Interrupted
	if errors.As(err, &sooner) {
		return interrupted(s, r, rec, say, sooner)
	}
	if err != nil {
		var start *proc.StartError
		if errors.As(err, &start) || !slices.ContainsFunc(r.Attempts, func(a run.Attempt) bool { return a.Plan.Trial == "" }) {
			return started(err)
		}
		say.Line("%v", err) // launch's own trouble after an attempt: that attempt's code stands
		stop = &run.Stop{Why: err.Error()}
	}
	last := r.Last()
	code, whose := attempt.ExitCode(x.Exit.Status(), last, stop, x.Trouble)
	if rec != nil {
		rec.Write(record.Event{Kind: record.Stopped, Stop: stop})
		rec.Close()
	}
	say.Summary(r, stop, id(rec), code, whose)
	if state := r.Saved(); rec != nil && last != nil && state != nil { // else nothing would be lost by starting over
		d := &ui.RunDoc{ID: rec.ID, State: string(last.Outcome.Ending), SavedState: state}
		d.Continue(record.MaskRun(r), stop, &last.Outcome)
		say.GoOn(d)
	}
	res := result{Version: 1, Code: code, Whose: whose, Stop: stop, Job: r.Job, Attempts: r.Attempts, Run: id(rec)}
	if last != nil {
		res.Ending = last.Outcome.Ending
	}
	writeResult(s, say, res)
	s.tidy()
	if code != x.Exit.Status() {
		return exitCode(code)
	}
	x.Exit.Become()
	return nil
}

// interrupted ends a run that was interrupted while no program ran.
func interrupted(s settings, r *run.Run, rec *record.Record, say ui.Printer, by *attempt.Interrupted) error {
	stop := &run.Stop{Why: string(run.Interrupted), Code: 128 + number(by.Signal)}
	if rec != nil {
		rec.Write(record.Event{Kind: record.Stopped, Stop: stop})
		rec.Close()
	}
	say.Line("%v: run %s", by, id(rec))
	writeResult(s, say, result{Version: 1, Run: id(rec), Ending: run.Interrupted, Code: stop.Code, Whose: "launch's: " + by.Error(), Stop: stop, Job: r.Job, Attempts: r.Attempts})
	return exitCode(stop.Code)
}

func number(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return int(n)
}

// ownTrouble reports whether a run came to nothing for a reason of launch's own, so that the command can run as typed.
func ownTrouble(err error) bool {
	var code exitCode
	var own *ownExit
	return err != nil && !errors.As(err, &code) && !errors.As(err, &own)
}

// started says why a command could not be started, and hands its exit code on.
func started(err error) error {
	var start *proc.StartError
	if errors.As(err, &start) {
		return &ownExit{start, start.ExitCode()}
	}
	return err
}
