package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/launch-ml/launch/cmd/launch/internal/carry"
	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// A restart is when a run that is resumed starts over.
type restart int

const (
	never       restart = iota // the run has to have a saved state
	whereNeeded                // if it has none
	always
)

// A resumption continues a recorded run.
type resumption struct {
	*carry.Carrier
	row        string // the mark of the sweep's row that this launch is; "": none
	limits     run.Limits
	allowTyped bool // the cost of limits is what the user wants now, be it lower than before, and no default
	over       restart
	foresee    reading.Foresight
}

// resume continues the run. command is the run's command, typed again; nil if it was not.
func (a *resumption) resume(ctx context.Context, name string, command []string) error {
	store := record.In(a.Options.State)
	id, err := store.Resumable(name)
	if err != nil {
		return err
	}
	rec, life, j, err := a.takeRun(store, id)
	if errors.Is(err, record.ErrBusy) {
		return a.Results.Busy(a.Say, id, j, err)
	}
	if err != nil {
		return err
	}
	defer rec.Close()
	taken := false
	defer func() {
		if !taken { // the time of the run's end stays as it was
			rec.Untake(life)
		}
	}()
	h, err := store.Read(id) // only after taking it: another launch may have written to it until then
	if err != nil {
		return err
	}
	r := h.Run()
	if err := prepareAgain(r, id, command); err != nil {
		return err
	}
	found, err := a.room(ctx, h, r)
	if err != nil {
		return err
	}
	past, who, mix, err := a.whatGoesOn(h, r, life, found)
	if err != nil {
		return err
	}
	defer a.Claims.Release()
	if err := a.claim(ctx, &found, r); err != nil {
		return err
	}
	held, unlock, err := a.LockExperiment(r.Job, id)
	defer unlock()
	if errors.Is(err, record.ErrBusy) {
		return a.Results.Busy(a.Say, id, r.Job, err)
	}
	again := record.Event{Kind: record.Resumed, FromStart: a.over == always, Limit: a.Claims.Room.Limit()}
	if err := rec.Write(again); err != nil {
		return err
	}
	a.recordIdentity(rec, r, who, mix)
	sameness.KeepDiff(ctx, rec, sameness.Subject(a.Options.State, r.Job.Command, r.Job, found), who)
	taken = true
	signals := cli.Collect(a.Options.Leave)
	defer signals.Close()
	return a.Finish(ctx, r, rec, sameness.Already(who), attempt.Setup{Room: found, Hold: a.Claims.Hold(), Held: held,
		Past: past, Signals: signals, Foresee: a.foresee})
}

// room measures the room of a run, on the host if it ran there.
func (a *resumption) room(ctx context.Context, h *record.History, r *run.Run) (room.Room, error) {
	where := &a.Claims.Room
	if r.Host {
		where.Device = "cpu"
		where.Memory = cmp.Or(where.Memory, h.Limit()) // as before; 0 if the run had no limit
	}
	records.ClearLeftovers(a.Options.State, a.Say)
	found, err := room.Find(ctx, where.Wish, r.Job.Command.Env)
	if err != nil {
		return found, where.DeviceError(err)
	}
	return found, nil
}

// claim claims what a run needs that is taken up again. An exit code was printed already.
func (a *resumption) claim(ctx context.Context, found *room.Room, r *run.Run) error {
	c := r.Job.Command
	if err := a.Claims.Memory(ctx, c, r.Job); err != nil {
		return err
	}
	err := a.Claims.Cards(ctx, found, c.Env, r.Job, reading.Cards(a.Claims.Room.GPUs, c, r.Job), reading.Shares(r))
	r.Job.Command.Env = a.Claims.Hold().Env(r.Job.Command.Env)
	return err
}

// whatGoesOn prepares a run for its next attempt, compares it with what it began as, and prints where it resumes. who
// is what it is from here on, and mix what of that is another experiment's.
func (a *resumption) whatGoesOn(
	h *record.History, r *run.Run, life record.Life, seen room.Room,
) (past attempt.Past, who *identity.Identity, mix *run.Mix, err error) {
	past, foreign, err := a.takeUp(h, r, life)
	if err != nil {
		return past, nil, nil, err
	}
	of := sameness.Subject(a.Options.State, r.Job.Command, r.Job, seen)
	if who, mix, err = sameness.Compare(h, r, of, a.over == always, a.Accept, a.Say); err != nil {
		return past, nil, nil, err
	}
	return past, who, sameness.WithForeign(mix, r.Saved(), foreign), reportResume(h, r, a.over, a.Say)
}

// recordIdentity records what a run is from here on, where that is not what it was.
func (a *resumption) recordIdentity(rec *record.Record, r *run.Run, who *identity.Identity, mix *run.Mix) {
	switch {
	case mix != nil:
		r.Mixed = append(r.Mixed, *mix)
		rec.Write(record.Event{Kind: record.Mixed, Identity: who, Mix: mix})
		a.Say.Warn("%v", *mix)
	case a.over == always && who != nil:
		rec.Write(record.Event{Kind: record.Identified, Identity: who})
	}
}

// prepareAgain gives a recorded run what its record does not have, and changes to its folder.
func prepareAgain(r *run.Run, id string, command []string) error {
	if err := restoreSecrets(r, id, command); err != nil {
		return err
	}
	return enterFolder(r, id)
}

// allowed is the cost that a run is allowed from now on.
func (a *resumption) allowed(r *run.Run) ladder.Cost {
	if a.allowTyped {
		return a.limits.Allow
	}
	return r.Limits.Allow
}

// takeRun opens a run's record, so that no other launch can take the run. It returns the record's state before that,
// and the job.
func (a *resumption) takeRun(store record.Store, id string) (*record.Record, record.Life, *job.Job, error) {
	h, err := store.Read(id)
	if err != nil {
		return nil, record.Life{}, nil, err
	}
	life := h.Life()
	rec, err := store.Append(id)
	if err == nil {
		records.CarryRow(rec, a.row)
	}
	return rec, life, h.Run().Job, err
}

// restoreSecrets takes the secrets of a run's command from the command that the user typed again.
func restoreSecrets(r *run.Run, id string, command []string) error {
	switch recorded := r.Job.Command.Args; {
	case len(command) > 0:
		if err := record.Restore(r, command); err != nil {
			return fmt.Errorf("run %s has another command: %w", id, err)
		}
	case record.HasMask(recorded):
		return fmt.Errorf("the command of run %s has a secret, which launch did not record. Type the whole command "+
			"again:\nlaunch resume %s -- %s", id, id, ui.Quote(recorded))
	}
	return nil
}

// takeUp prepares a run for its next attempt. foreign are saved states that others have written in its folder since,
// where the user accepts that.
func (a *resumption) takeUp(
	h *record.History, r *run.Run, life record.Life,
) (past attempt.Past, foreign []string, err error) {
	var standing attempt.Standing
	if a.over != always {
		standing = attempt.Stand(h)
		r.Forget(standing.Lost)
	}
	if err := r.Again(a.allowed(r)); err != nil && h.Stop() != nil {
		return attempt.Past{}, nil, fmt.Errorf("run %s is over: %w", h.ID, err)
	}
	r.Limits.Anyway = r.Limits.Anyway || a.limits.Anyway
	past, strange := attempt.TakeUp(h, r, life, record.In(a.Options.State).Locks())
	if a.over != always {
		standing = standing.Now(r.Saved())
		if err := standing.Decide(h.ID); err != nil && (!a.Accept || standing.From == nil) {
			return attempt.Past{}, nil, err
		}
		foreign = standing.Newer
		for _, line := range standing.Lines() {
			a.Say.Warn("%s", line)
		}
	}
	for _, path := range strange {
		a.Say.Warn("%s is newer than the run's last attempt, but nothing shows that this run wrote it: launch does "+
			"not resume from it", path)
	}
	if a.over == always { // the attempts stay, so that the run stays on its rung
		r.ForgetAll()
		r.Over = true
	}
	return past, foreign, nil
}

// enterFolder changes to the folder of a run. The run takes the current environment.
func enterFolder(r *run.Run, id string) error {
	c := &r.Job.Command
	c.Env = os.Environ()
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("the working directory of run %s no longer exists: %s", id, c.Dir)
	}
	if err := os.Chdir(c.Dir); err != nil {
		return fmt.Errorf("changing to the run's folder: %w", err)
	}
	return nil
}

// reportResume prints where a run resumes. It returns an error if the run cannot resume.
func reportResume(h *record.History, r *run.Run, over restart, say ui.Printer) error {
	id := h.ID
	_, cut := h.CutOff()
	state, why := r.Saved(), "it left no complete saved state"
	if none := r.Job.Resume.None; none != "" {
		why = none
	}
	switch {
	case state == nil && over == never:
		return fmt.Errorf("run %s cannot resume: %s; launch resume %s --from-start starts it over", id, why, id)
	case say.Quiet:
	case state == nil:
		say.Line("run %s: it starts over", id)
	case h.Stop() != nil && h.Stop().Beyond != nil && h.Stop().Beyond.Over && r.Limits.Allow >= h.Stop().Beyond.Cost:
		say.Line("run %s: it starts over, because the next change cannot read the state of %v", id, state)
	case cut:
		say.Line("run %s: launch was killed during its last attempt; it resumes from %v", id, state)
	default:
		say.Line("run %s: it resumes from %v", id, state)
	}
	return nil
}
