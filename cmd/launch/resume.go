package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

func newResume() *cobra.Command {
	var fromStart bool
	c := &cobra.Command{
		Use: "resume RUN [-- COMMAND ...]", Short: "continue a run that was interrupted, that stopped, or whose " +
			"launch was killed", Args: runAndCommand,
		Long: `resume continues a run from its newest saved state, on the rung that the run had reached. It takes a
run that was interrupted, that failed for a reason which is fixed now, that stopped because no allowed
rung was left, or whose launch was killed. The cost that the run was allowed when it began still holds,
unless --allow gives another one. The run goes on only as what it began: if its code, arguments, data,
environment, Python or packages have changed since, resume lists what and ends with 125; --accept goes
on all the same and marks the run as mixed. A changed recipe is no hindrance: the run keeps the one that
it began with. A run without a saved state, or whose program cannot resume, starts over only with
--from-start.

Secrets of a command are not recorded. To resume such a run, type the whole command again after --.`,
		Example: "  launch resume last\n  launch resume last --allow recipe\n  launch resume last --from-start\n  launch resume last -- python train.py --wandb-token \"$TOKEN\"",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			if c.Flags().Changed(setFlag) {
				return fmt.Errorf("a run keeps the settings that it began with; `launch --%s` starts another run", setFlag)
			}
			s.Accept, _ = c.Flags().GetBool(acceptFlag)
			s.AllowTyped = c.Flags().Changed("allow") // else the cost that the run began with holds
			over := never
			if fromStart {
				over = always
			}
			return withResult(s, resume(c.Context(), s, args[0], args[1:], over))
		},
	}
	addSet(c.Flags())
	addAccept(c.Flags())
	c.Flags().Lookup(setFlag).Hidden = true // for its error only
	c.Flags().BoolVar(&fromStart, "from-start", false, "start the run over, even if it has a saved state")
	return sameExits(c, runExits)
}

// resume continues a recorded run. command is the run's command, typed again; nil if it was not.
func resume(ctx context.Context, s settings, name string, command []string, over restart) error {
	store := record.In(s.State)
	id, err := store.Resumable(name)
	if err != nil {
		return err
	}
	rec, life, j, err := takeRun(s, store, id)
	if errors.Is(err, record.ErrBusy) {
		return endBusy(s, id, j, err)
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
	say := reporter(s)
	if r.Host {
		s.Device = "cpu"
		s.Memory = cmp.Or(s.Memory, h.Limit()) // as before; 0 if the run had no limit
	}
	clearLeftovers(s, say)
	found, err := room.Find(ctx, s.Wish, r.Job.Command.Env)
	if err != nil {
		return s.deviceError(err)
	}
	past, who, mix, err := s.whatGoesOn(h, r, life, found, over, say)
	if err != nil {
		return err
	}
	defer func() { s.release() }()
	if err := s.claimAgain(ctx, say, &found, r); err != nil {
		return err
	}
	held, unlock, err := lockExperiment(s, r.Job, id)
	defer unlock()
	if errors.Is(err, record.ErrBusy) {
		return endBusy(s, id, r.Job, err)
	}
	if err := rec.Write(record.Event{Kind: record.Resumed, FromStart: over == always, Limit: s.Limit()}); err != nil {
		return err
	}
	recordIdentity(rec, r, who, mix, over, say)
	keepDiff(ctx, rec, s.subject(r.Job.Command, r.Job, found), who)
	taken = true
	signals := collectSignals(s.Leave)
	defer signals.close()
	return finish(ctx, s, r, rec, say, already(who), attempt.Setup{Room: found, Hold: s.hold, Held: held, Past: past,
		Signals: signals})
}

// whatGoesOn prepares a run for its next attempt, compares it with what it began as, and prints where it resumes. who
// is what it is from here on, and mix what of that is another experiment's.
func (s settings) whatGoesOn(
	h *record.History, r *run.Run, life record.Life, seen room.Room, over restart, say ui.Printer,
) (past attempt.Past, who *identity.Identity, mix *run.Mix, err error) {
	past, foreign, err := takeUp(s, h, r, life, over, say)
	if err != nil {
		return past, nil, nil, err
	}
	if who, mix, err = s.same(h, r, seen, over, say); err != nil {
		return past, nil, nil, err
	}
	return past, who, withForeign(mix, r.Saved(), foreign), reportResume(h, r, over, say)
}

// recordIdentity records what a run is from here on, where that is not what it was.
func recordIdentity(
	rec *record.Record, r *run.Run, who *identity.Identity, mix *run.Mix, over restart, say ui.Printer,
) {
	switch {
	case mix != nil:
		r.Mixed = append(r.Mixed, *mix)
		rec.Write(record.Event{Kind: record.Mixed, Identity: who, Mix: mix})
		say.Warn("%v", *mix)
	case over == always && who != nil:
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
func (s settings) allowed(r *run.Run) ladder.Cost {
	if s.AllowTyped {
		return s.Allow
	}
	return r.Limits.Allow
}

// takeRun opens a run's record, so that no other launch can take the run. It returns the record's state before that,
// and the job.
func takeRun(s settings, store record.Store, id string) (*record.Record, record.Life, *job.Job, error) {
	h, err := store.Read(id)
	if err != nil {
		return nil, record.Life{}, nil, err
	}
	life := h.Life()
	rec, err := store.Append(id)
	if err == nil {
		s.carryRow(rec)
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
func takeUp(
	s settings, h *record.History, r *run.Run, life record.Life, over restart, say ui.Printer,
) (past attempt.Past, foreign []string, err error) {
	var standing attempt.Standing
	if over != always {
		standing = attempt.Stand(h)
		r.Forget(standing.Lost)
	}
	if err := r.Again(s.allowed(r)); err != nil && h.Stop() != nil {
		return attempt.Past{}, nil, fmt.Errorf("run %s is over: %w", h.ID, err)
	}
	r.Limits.Anyway = r.Limits.Anyway || s.Anyway
	past, strange := attempt.TakeUp(h, r, life, record.In(s.State).Locks())
	if over != always {
		standing = standing.Now(r.Saved())
		if err := standing.Decide(h.ID); err != nil && (!s.Accept || standing.From == nil) {
			return attempt.Past{}, nil, err
		}
		foreign = standing.Newer
		for _, line := range standing.Lines() {
			say.Warn("%s", line)
		}
	}
	for _, path := range strange {
		say.Warn("%s is newer than the run's last attempt, but nothing shows that this run wrote it: launch does not resume from it", path)
	}
	if over == always { // the attempts stay, so that the run stays on its rung
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
		say.Line("run %s: it starts over, because the next rung cannot read the state of %v", id, state)
	case cut:
		say.Line("run %s: launch was killed during its last attempt; it resumes from %v", id, state)
	default:
		say.Line("run %s: it resumes from %v", id, state)
	}
	return nil
}

// runAndCommand checks the arguments of resume: a run, and after -- the run's command.
func runAndCommand(c *cobra.Command, args []string) error {
	before := args
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		before = args[:dash]
	}
	return takes(1, 1, "one run, which launch runs lists, or the word last; a command goes after --")(c, before)
}
