package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/report"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/screen"
	"github.com/launch-ml/launch/core/ui"
)

// read finds the plugin and the ladders of a command.
func read(ctx context.Context, s settings, args []string, ask func(intake.Plugins) intake.Asker) (*intake.Reading, error) {
	ps := s.plugins()
	r, err := intake.Read(ctx, intake.Options{
		Plugins: ps, Ask: ask(ps), Plugin: s.Plugin, AsTyped: s.AsTyped, Wish: s.Wish, GPUs: s.GPUs, Set: s.Set,
		Called: s, Learner: s.learner, FormulaTime: s.FormulaTime, Trace: s.Trace, Runs: s.runs,
		Limits: run.Limits{Allow: s.Allow, AsAsked: s.AsAsked, Fill: s.Fill, Fast: s.Fast, Rehearse: s.Rehearse, Anyway: s.Anyway},
	}, args)
	if r != nil {
		r.Warnings = append(slices.Clone(s.Notes), r.Warnings...)
	}
	return r, err
}

// plugins returns the plugins that launch may ask.
// here asks a plugin in this process, elsewhere in the plugin's own process.
func here(ps intake.Plugins) intake.Asker      { return ps.Here }
func elsewhere(ps intake.Plugins) intake.Asker { return ps.Elsewhere }

// reporter prints launch's own lines while a command runs.
func reporter(s settings) ui.Printer {
	return ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr), Quiet: s.Quiet, Verbose: s.Verbose,
		Kept: &bytes.Buffer{}}
}

// wrap runs a command. It returns only if nothing ran: after a program, launch exits as the program did.
func wrap(ctx context.Context, s settings, args []string) error {
	say := reporter(s)
	if err := checkJSONFile(s); err != nil {
		return err
	}
	s.runs = true
	p, err := read(ctx, s, args, elsewhere)
	if err != nil {
		return err
	}
	defer func() { p.Close() }()
	if why := missingScript(p.Command); why != nil {
		say.Warn("%v", why)
	}
	clearLeftovers(s, say)
	if p.Err != nil {
		return p.Err
	}
	if p.Job != nil {
		if _, err := oom.NewDetector(p.Job.Signs); err != nil {
			if len(s.Set) > 0 {
				return fmt.Errorf("plugin %s: %w", p.Job.Plugin, err)
			}
			p.Without("plugin %s: %v", p.Job.Plugin, err)
		}
	}
	if done, err := goOn(ctx, s, p, args, say); done || err != nil {
		return err
	}
	if s.claim, err = claimMemory(ctx, s, say, p.Command, p.Job); err != nil {
		return err
	}
	defer s.claim.Release()
	p, err = claimCards(ctx, &s, say, p, args)
	defer s.hold.Release()
	if err != nil {
		return err
	}
	if p.Job == nil {
		return asTyped(ctx, s, p, say)
	}
	return carry(ctx, s, p, say)
}

// clearLeftovers removes the files of trials whose launch was killed.
func clearLeftovers(s settings, say ui.Printer) {
	for _, path := range record.In(s.State).Tidy() {
		say.Line("removed files that a killed rehearsal had left: %s", path)
	}
}

// options returns the settings that an attempt uses.
func (s settings) options() attempt.Options {
	return attempt.Options{
		Inside: s.Inside, TTY: s.TTY, Quiet: s.Quiet, Grace: s.Grace, Sample: s.Sample, State: s.State, Leave: s.Leave,
		Yield: s.Yield, Wait: s.Wait, Prove: s.Row != "", Env: s.RowEnv,
	}
}

// replaced returns the function that writes the result of a program that runs in place of launch.
func replaced(s settings, say ui.Printer, rec *record.Record, j *job.Job) func(string) {
	return func(why string) {
		writeResult(s, say, result{Run: id(rec), Ending: notWatched, Code: -1, Error: why, Job: j})
	}
}

// asTyped runs a command that no plugin recognised: one attempt, without edits or settings. It explains an
// out-of-memory.
func asTyped(ctx context.Context, s settings, p *intake.Reading, say ui.Printer) error {
	for _, w := range p.Warnings {
		say.Warn("%s", w)
	}
	if !p.AsksForHelp && !p.Explained && (s.Expects || !s.Quiet && p.NamesRecipe()) {
		say.Warn("launch does not recognise this command (%s): it runs as typed, once, without changes", p.Why())
		if hint := declareHint(p); hint != "" {
			say.Line("%s", hint)
		}
	}
	settle := func() {}
	rec, err := s.newRecord()
	if err != nil {
		rec = nil
	} else {
		who := s.identify(p.Command, nil, p.Room)
		rec.Write(record.Event{Kind: record.Followed, Args: record.MaskArgs(p.Command.Args), Dir: p.Command.Dir, Limit: s.Limit()})
		settle = who.record(rec)
	}
	own := screen.NewPatient(say.W)
	say.W = own
	setup := attempt.Setup{Options: s.options(), Record: rec, Replaced: replaced(s, say, rec, nil), Own: own,
		Settle: func() {
			p.Close()
			settle()
		}}
	if s.Shows.Any() {
		say = s.share(say, &setup)
	}
	setup.Report = say
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
	stop := &run.Stop{}
	if out.Left != "" {
		stop = &run.Stop{Why: out.Left, Code: run.TryLater}
	}
	code, whose := attempt.ExitCode(x.Exit.Status(), nil, stop, s.trouble(x))
	if rec != nil {
		rec.Write(record.Event{Kind: record.Ended, Outcome: &out, Code: &code})
		rec.Close()
	}
	explainTyped(s, p, say, x, out, output)
	writeResult(s, say, result{Ending: out.Ending, Code: code, Whose: whose, Outcome: &out, Run: id(rec)})
	s.tidy()
	if code != x.Exit.Status() {
		say.Line("exit code %d is %s", code, whose)
		return exitCode(code)
	}
	x.Exit.Become()
	return nil
}

// explainTyped prints why a command that ran as typed ran out of memory, and whether the hook reported.
func explainTyped(s settings, p *intake.Reading, say ui.Printer, x *attempt.Executor, out run.Outcome, output string) {
	if out.Ending == run.OutOfMemory {
		x.BreakLine()
		e := ui.Explanation{Report: out.Report}
		if output != "" {
			e.Clues = report.Clues(output)
		}
		e.Clues.Limit = s.Limit()
		e.Advise(nil)
		say.Unrecognised(e, out.Cause, p.Why())
		if hint := declareHint(p); hint != "" {
			say.Line("%s", hint)
		}
	}
	if in := out.Inside; in != nil && (!s.Quiet || !in.Hook.Taken()) {
		x.BreakLine()
		say.Inside(in.Hook)
	}
}

// view returns the first plan of a command, for printing.
func view(p *intake.Reading) ui.View {
	v := ui.View{Run: p.Run, Device: p.Room.Device, Limit: p.Room.Limit(), Warnings: p.Warnings, Truths: p.Job.Truths,
		Declaration: p.Declaration, Missing: missingScript(p.Command)}
	v.Plan, v.Stop = p.Run.First()
	return v
}

// carry plans and runs a job to its end.
func carry(ctx context.Context, s settings, p *intake.Reading, say ui.Printer) error {
	signals := collectSignals(s.Leave)
	defer signals.close()
	at, err := s.place(p.Command)
	if err != nil {
		return &ownExit{err, run.OwnTrouble}
	}
	who := s.identify(p.Command, p.Job, p.Room)
	v := view(p)
	v.Verbose, v.Truths = s.Verbose, record.In(s.State).Unsaid(p.Job)
	switch {
	case at.Node > 0:
		say.Line("node %d of %d: the launch of node 0 at %s decides", at.Node, at.Nodes, at.Address)
	case !s.Quiet:
		s.screen(say, os.Stderr).Plan(v)
	case v.Stop != nil:
		say.Stop(p.Run, v.Stop)
	}
	if s.Quiet {
		for _, note := range s.Notes { // even with --quiet: a setting that the user expects may be ignored
			say.Warn("%s", note)
		}
	}
	if v.Stop != nil && at.Nodes < 2 { // the launches of other nodes have to learn it too
		writeResult(s, say, result{Ending: "refused", Code: v.Stop.Code, Stop: v.Stop, Job: p.Job})
		return exitCode(v.Stop.Code)
	}
	rec, err := s.newRecord()
	if err != nil {
		rec = nil
		say.Warn("%v: launch records nothing. If it is killed, the run cannot be resumed", err)
	}
	held, unlock, err := lockExperiment(s, p.Job, id(rec))
	defer unlock()
	if errors.Is(err, record.ErrBusy) {
		if rec != nil {
			rec.Close()
			os.RemoveAll(rec.Dir)
		}
		return endBusy(s, "", p.Job, err)
	}
	if err != nil {
		say.Warn("%v: launch would not notice another launch in the same experiment", err)
	}
	if rec != nil {
		if err := rec.Write(record.Event{Kind: record.Started, Run: record.MaskRun(p.Run), Device: p.Room.Device, Limit: s.Limit()}); err != nil {
			say.Warn("%v", err)
		}
	}
	settle := who.record(rec)
	setup := attempt.Setup{Room: p.Room, Hold: s.hold, Held: held, Signals: signals, Settle: func() {
		p.Close()
		settle()
	}}
	err = finish(ctx, s, p.Run, rec, say, who, setup)
	if ownTrouble(err) && len(s.Set) == 0 { // as typed, the program would use other settings than the user asks for
		say.Warn("%v: the command runs as typed, once, without changes", err)
		p.Warnings, p.Explained = nil, true
		return asTyped(ctx, s, p, say)
	}
	return err
}

// lockExperiment keeps other launches out of a job's experiment. It returns the folders that it locked.
func lockExperiment(s settings, j *job.Job, run string) (held []string, unlock func(), err error) {
	if at, err := s.place(j.Command); j.Exclusive == "" || err == nil && at.Node > 0 { // node 0 has locked it
		return nil, func() {}, nil
	}
	unlock, err = record.In(s.State).Lock(j.Exclusive, fmt.Sprintf("run %s (process %d)", run, os.Getpid()))
	if err != nil {
		return nil, func() {}, err
	}
	return []string{j.Exclusive}, unlock, nil
}

// endBusy reports that another launch has the run, and exits with 75.
func endBusy(s settings, name string, j *job.Job, why error) error {
	say := reporter(s)
	say.Line("%v", why)
	writeResult(s, say, result{Run: name, Ending: notRun, Code: run.TryLater, Error: why.Error(), Job: j})
	return exitCode(run.TryLater)
}

// finish makes a run's attempts and exits as the last one did. It returns an error only if nothing ran. setup has the
// values that only the caller knows.
func finish(
	ctx context.Context, s settings, r *run.Run, rec *record.Record, say ui.Printer, who *identified, setup attempt.Setup,
) error {
	setup.Options, setup.Job, setup.Priced, setup.Differs = s.options(), r.Job, cmp.Or(r.Priced, r.Ladders), r.Differs
	setup.Deviates = r.Changed
	setup.Own = screen.NewPatient(say.W)
	say.W = setup.Own
	say = s.share(say, &setup)
	setup.Record, setup.Report, setup.Name, setup.Replaced = rec, say, "run "+id(rec), replaced(s, say, rec, r.Job)
	at, err := s.place(r.Job.Command)
	if err != nil {
		return &ownExit{err, run.OwnTrouble}
	}
	if at.Nodes > 1 {
		setup.StopIn = stopIn
	}
	x := attempt.New(setup)
	defer x.Close()
	if last := r.Last(); last != nil && last.Plan.Trial == "" { // a run that stops again ends as it did before
		x.Exit = proc.Exit{Code: last.Outcome.Code, Signal: syscall.Signal(last.Outcome.Signal)}
	}
	j := &keeper{Journal: x.Journal(r, say, s.receipts()), began: who, rec: rec, run: r, say: say, accept: s.Accept,
		again: func() identity.Subject { return s.subject(r.Job.Command, r.Job, setup.Room) }}
	stop, err := carryOn(ctx, s, at, r, x, j, say)
	s.hold.Release() // the program has ended: others may wait for its card
	var sooner *attempt.Interrupted
	if errors.As(err, &sooner) {
		return interrupted(s, r, rec, say, sooner)
	}
	if err != nil {
		var start *proc.StartError
		if errors.As(err, &start) || !slices.ContainsFunc(r.Attempts, func(a run.Attempt) bool { return a.Plan.Trial == "" }) {
			return started(err)
		}
		say.Line("%v", err) // launch failed after an attempt: it exits with that attempt's code
		stop = &run.Stop{Why: err.Error()}
	}
	last := r.Last()
	code, whose := attempt.ExitCode(x.Exit.Status(), last, stop, s.trouble(x))
	if rec != nil {
		rec.Write(record.Event{Kind: record.Stopped, Stop: stop, Code: &code})
		rec.Close()
	}
	if last == nil || last.Outcome.Ending != run.Succeeded {
		x.BreakLine()
	}
	say.Summary(r, stop, id(rec), code, whose)
	finished(s, r, rec, say, stop, code, whose)
	s.tidy()
	if code != x.Exit.Status() {
		return exitCode(code)
	}
	x.Exit.Become()
	return nil
}

// finished prints how the run continues, and writes its result.
func finished(s settings, r *run.Run, rec *record.Record, say ui.Printer, stop *run.Stop, code int, whose string) {
	res := result{Code: code, Whose: whose, Stop: stop, Job: r.Job, Attempts: r.Attempts, Run: id(rec)}
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
	writeResult(s, say, res)
}

// interrupted ends a run that was interrupted while no program was running.
func interrupted(s settings, r *run.Run, rec *record.Record, say ui.Printer, by *attempt.Interrupted) error {
	stop := &run.Stop{Why: string(run.Interrupted), Code: 128 + number(by.Signal)}
	if s.leavesOn(by.Signal) {
		stop = &run.Stop{Why: by.Error(), Code: run.TryLater}
	}
	if rec != nil {
		rec.Write(record.Event{Kind: record.Stopped, Stop: stop, Code: &stop.Code})
		rec.Close()
	}
	say.Line("%v: run %s", by, id(rec))
	writeResult(s, say, result{Run: id(rec), Ending: run.Interrupted, Code: stop.Code,
		Whose: "launch's: " + by.Error(), Stop: stop, Job: r.Job, Attempts: r.Attempts})
	return exitCode(stop.Code)
}

// leavesOn reports whether a signal announces the end of the run (--save-on): the run goes on elsewhere or later.
func (s settings) leavesOn(sig os.Signal) bool {
	return slices.ContainsFunc(s.Leave, func(n attempt.Notice) bool { return n.Signal == sig })
}

func number(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return int(n)
}

// ownTrouble reports whether launch itself failed before the program ran, so that the command can run as typed.
func ownTrouble(err error) bool {
	var code exitCode
	var own *ownExit
	return err != nil && !errors.As(err, &code) && !errors.As(err, &own)
}

// started gives the error of a program that could not be started its exit code, 126 or 127.
func started(err error) error {
	var start *proc.StartError
	if errors.As(err, &start) {
		return &ownExit{start, start.ExitCode()}
	}
	return err
}

// claimMemory claims what --memory promises to a command, for as long as this launch lives. If the memory is not
// available, nothing is started, except with --anyway. An exitCode error was printed already.
func claimMemory(ctx context.Context, s settings, say ui.Printer, c job.Command, j *job.Job) (*room.Claim, error) {
	ctx, signals := s.untilSignal(ctx)
	held, warnings, err := room.PromiseOf(s.Limit(), c, j).Take(ctx, s.memoryCalled(), s.Anyway, s.patience(say))
	if by := signals.close(); by != nil {
		held.Release()
		return nil, endWaiting(s, say, j, by)
	}
	for _, w := range warnings {
		say.Warn("%s", w)
	}
	var refused *room.Refusal
	switch {
	case !errors.As(err, &refused):
		return held, err
	case s.Anyway:
		say.Warn("%s", refused.Why)
		return held, nil
	}
	return nil, refuse(s, say, refused, j)
}

// memoryCalled is how errors name the limit.
func (s settings) memoryCalled() string { return s.Value("memory", s.Memory.String()) }
