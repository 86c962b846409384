package attempt

import (
	"github.com/launch-ml/launch/core/receipt"
	"github.com/launch-ml/launch/core/run"
)

// A Voice tells the user how an attempt ended.
type Voice interface {
	Ended(*run.Attempt)
}

// Journal keeps what happens to a run, in its record and as receipts, and then reports it. A disk that is full must not stop a
// training: that is one warning, and the run goes on unrecorded.
func (x *Executor) Journal(r *run.Run, voice Voice, receipts receipt.Store) run.Journal {
	room := x.Setup.Room
	return &journal{x: x, run: r, voice: voice, receipts: receipts, subject: receipt.Of(r.Job, room.Device, room.Limit() > 0)}
}

type journal struct {
	x        *Executor
	run      *run.Run
	voice    Voice
	subject  receipt.Subject
	receipts receipt.Store
	warned   bool
}

// Planned implements [run.Journal].
func (j *journal) Planned(p *run.Plan) error {
	if j.x.Record != nil {
		j.warn(j.x.Record.Planned(p))
	}
	return nil
}

// Ended implements [run.Journal].
func (j *journal) Ended(a *run.Attempt) error {
	name := "unrecorded-" + a.Outcome.Began.UTC().Format("20060102-150405.000")
	if j.x.Record != nil {
		name = j.x.Record.ID
		j.warn(j.x.Record.Ended(a))
	}
	if err := j.receipts.Append(j.subject.Receipts(name, j.run, a)...); err != nil && j.x.Record != nil {
		j.warn(err)
	}
	if a.Outcome.Ending != run.Succeeded || !j.x.Quiet {
		j.x.BreakLine()
	}
	j.voice.Ended(a)
	return nil
}

func (j *journal) warn(err error) {
	if err != nil && !j.warned {
		j.warned = true
		j.x.Report.Warn("%v: the run goes on, without a whole record", err)
	}
}
