package attempt

import (
	"errors"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
)

// A Voice prints how an attempt ended.
type Voice interface {
	Ended(*run.Attempt)
}

// Journal returns a journal that writes what happens to the run's record and to the receipts, and prints it. A full
// disk must not stop a training: launch warns once, and the run continues without a complete record.
func (x *Executor) Journal(r *run.Run, voice Voice, receipts record.Receipts) run.Journal {
	room := x.Setup.Room
	return &journal{x: x, run: r, voice: voice, receipts: receipts, subject: record.SubjectOf(r.Job, room.Device,
		room.Limit() > 0)}
}

type journal struct {
	x        *Executor
	run      *run.Run
	voice    Voice
	subject  record.Subject
	receipts record.Receipts
	warned   bool
}

// Planned implements [run.Journal].
func (j *journal) Planned(p *run.Plan) error {
	if err := j.x.claim(p); err != nil {
		return err
	}
	if j.x.Record != nil {
		j.warn(j.x.Record.Planned(p))
	}
	return nil
}

// replans is how often launch plans again because other launches were faster.
const replans = 5

// claim makes the run's claims on its cards those of the plan.
func (x *Executor) claim(p *run.Plan) error {
	err := x.Hold.Plan(&x.Setup.Room, p.Need())
	if errors.Is(err, room.ErrGone) && x.gone < replans {
		x.gone++
		return run.ErrRoom
	}
	x.gone = 0
	if err != nil { // the training matters more than the claim
		x.Report.Warn("%v: other launches may count less memory for this one than it takes", err)
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
	if !j.x.Quiet { // then the lines about an attempt are printed at the end, and only if it comes to a bad one
		j.x.BreakLine()
	}
	j.voice.Ended(a)
	return nil
}

func (j *journal) warn(err error) {
	if err != nil && !j.warned {
		j.warned = true
		j.x.Report.Warn("%v: the run continues, but its record is incomplete", err)
	}
}
