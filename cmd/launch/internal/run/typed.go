package run

import (
	"context"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/report"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// typed runs a command that no plugin recognised: one attempt, without edits or settings. It explains an
// out-of-memory.
func (l *launch) typed(ctx context.Context, p *intake.Reading) error {
	say, limit := l.Say, l.reader.Room.Limit()
	for _, w := range p.Warnings {
		say.Warn("%s", w)
	}
	if !p.AsksForHelp && !p.Explained && (l.expects || !say.Quiet && p.NamesRecipe()) {
		say.Warn("launch does not recognise this command (%s): it runs as typed, once, without changes", p.Why())
		if hint := reading.DeclareHint(p); hint != "" {
			say.Line("%s", hint)
		}
	}
	settle := func() {}
	rec, err := records.New(l.Options.State, l.row)
	if err != nil {
		rec = nil
	} else {
		who := sameness.Identify(l.Options.State, p.Command, nil, p.Room)
		rec.Write(record.Event{Kind: record.Followed, Args: record.MaskArgs(p.Command.Args), Dir: p.Command.Dir,
			Limit: limit})
		settle = who.Record(rec)
	}
	own := proc.NewPatient(say.W)
	say.W = own
	setup := attempt.Setup{Options: l.Options, Record: rec, Own: own,
		Replaced: l.Results.Replaced(say, records.ID(rec), nil), Settle: func() {
			p.Close()
			settle()
		}}
	if l.Shows.Any() {
		say = l.Share(say, &setup)
	}
	setup.Report = say
	if l.reader.Room.Device == "cpu" {
		setup.Room, _ = room.Find(ctx, l.reader.Room.Wish, nil)
	}
	x := attempt.New(setup)
	out, output, err := x.AsTyped(ctx, p.Command)
	if err != nil {
		if rec != nil {
			rec.Write(record.Event{Kind: record.Stopped, Stop: &run.Stop{Why: "not started: " + err.Error()}})
		}
		return cli.Started(err)
	}
	stop := &run.Stop{}
	if out.Left != "" {
		stop = out.Ended()
	}
	code, whose := attempt.ExitCode(x.Exit.Status(), nil, stop, l.Trouble(x))
	if rec != nil {
		rec.Write(record.Event{Kind: record.Ended, Outcome: &out, Code: &code})
		rec.Close()
	}
	explainTyped(say, p, limit, x, out, output)
	l.Results.Write(say, result.Result{Ending: out.Ending, Code: code, Whose: whose, Outcome: &out, Run: records.ID(rec)})
	l.Tidy()
	if code != x.Exit.Status() {
		say.Line("exit code %d is %s", code, whose)
		return cli.ExitCode(code)
	}
	x.Exit.Become()
	return nil
}

// explainTyped prints why a command that ran as typed ran out of memory, and whether the hook reported.
func explainTyped(
	say ui.Printer, p *intake.Reading, limit unit.Bytes, x *attempt.Executor, out run.Outcome, output string,
) {
	if out.Ending == run.OutOfMemory {
		x.BreakLine()
		e := ui.Explanation{Report: out.Report}
		if output != "" {
			e.Clues = report.Clues(output)
		}
		e.Clues.Limit = limit
		e.Advise(nil)
		say.Unrecognised(e, out.Cause, p.Why())
		if hint := reading.DeclareHint(p); hint != "" {
			say.Line("%s", hint)
		}
	}
	if in := out.Inside; in != nil && (!say.Quiet || !in.Hook.Taken()) {
		x.BreakLine()
		say.Inside(in.Hook)
	}
}
