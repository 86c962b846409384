package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"github.com/launch-ml/launch/core/ladder"
	"os"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

func newResume() *cobra.Command {
	var fromStart bool
	c := &cobra.Command{
		Use: "resume RUN [-- COMMAND ...]", Short: "go on with a run that was cut off, stopped, or needs a higher --allow", Args: runAndCommand,
		Long: `resume goes on with a run from its newest saved state, on the rung that it had come to: a run of which launch itself was
killed, that was interrupted, that failed for a reason that is mended now, or for which no allowed rung was left. A cost is
raised by --allow alone; what the run was allowed when it began stands otherwise. A run that has left no saved state, or whose
program cannot resume, is started over only with --from-start.

Secrets of a command are not recorded. A run whose command has one is resumed by giving the whole command again.`,
		Example: "  launch resume last\n  launch resume last --allow recipe\n  launch resume last --from-start\n  launch resume last -- python train.py --wandb-token \"$TOKEN\"",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			if !c.Flags().Changed("allow") { // the user's word for this run stands
				s.Allow = ladder.None
			}
			return told(s, resume(c.Context(), s, args[0], args[1:], fromStart))
		},
	}
	c.Flags().BoolVar(&fromStart, "from-start", false, "start the run over, whatever it has saved")
	return c
}

// resume takes a run up where its record ends. command is the run's, given again; or nil.
func resume(ctx context.Context, s settings, name string, command []string, fromStart bool) error {
	store := record.In(s.State)
	id, err := store.Resumable(name)
	if err != nil {
		return err
	}
	rec, life, j, err := takeRun(store, id)
	if errors.Is(err, record.ErrBusy) {
		return later(s, id, j, err)
	}
	if err != nil {
		return err
	}
	defer rec.Close()
	taken := false
	defer func() {
		if !taken { // the run has ended when it did, not now
			rec.Untake(life)
		}
	}()
	h, err := store.Read(id) // after it was taken: the launch that had it may have ended just before
	if err != nil {
		return err
	}
	r := h.Run()
	if err := giveAgain(r, id, command); err != nil {
		return err
	}
	if err := returnTo(r, id); err != nil {
		return err
	}
	say := reporter(s)
	if r.Host {
		s.Device = "cpu"
		s.Memory = cmp.Or(s.Memory, h.Limit()) // as it was; a run without a limit has none
	}
	clearLeftovers(s, say)
	found, err := room.Find(ctx, s.Wish, r.Job.Command.Env)
	if err != nil {
		return s.deviceError(err)
	}
	if s.claim, err = claimMemory(s, say, r.Job.Command, r.Job); err != nil {
		return err
	}
	defer s.claim.Release()
	past, err := takeUp(s, h, r, life, fromStart, say)
	if err != nil {
		return err
	}
	held, unlock, err := lockExperiment(s, r.Job, id)
	defer unlock()
	if errors.Is(err, record.ErrBusy) {
		return later(s, id, r.Job, err)
	}
	if err := rec.Write(record.Event{Kind: record.Resumed, Limit: s.Limit()}); err != nil {
		return err
	}
	taken = true
	signals := collectSignals()
	defer signals.close()
	return finish(ctx, s, r, rec, say, attempt.Setup{Room: found, Held: held, Past: past, Signals: signals})
}

// takeRun opens a run's record, so that no other launch can take the run. It returns how the run lived until now, and its job.
func takeRun(store record.Store, id string) (*record.Record, record.Life, *job.Job, error) {
	h, err := store.Read(id)
	if err != nil {
		return nil, record.Life{}, nil, err
	}
	life := h.Life()
	rec, err := store.Append(id)
	return rec, life, h.Run().Job, err
}

// giveAgain fills the secrets of a run's command in from the whole command, given again.
func giveAgain(r *run.Run, id string, command []string) error {
	switch recorded := r.Job.Command.Args; {
	case len(command) > 0:
		if err := record.Restore(r, command); err != nil {
			return fmt.Errorf("run %s is of another command: %w", id, err)
		}
	case record.HasMask(recorded):
		return fmt.Errorf("run %s has a secret in its command, which was not recorded. Give the whole command again:\nlaunch resume %s -- %s", id, id, ui.Quote(recorded))
	}
	return nil
}

// takeUp prepares a run for its next attempt, and reports where it goes on from.
func takeUp(s settings, h *record.History, r *run.Run, life record.Life, fromStart bool, say ui.Printer) (attempt.Past, error) {
	if err := r.Again(s.Allow); err != nil && h.Stop() != nil {
		return attempt.Past{}, fmt.Errorf("run %s is over: %w", h.ID, err)
	}
	r.Limits.Anyway = r.Limits.Anyway || s.Anyway
	past, strange := attempt.TakeUp(h, r, life, record.In(s.State).Locks())
	for _, path := range strange {
		say.Warn("%s is newer than the run's last attempt, but nothing shows that this run wrote it: launch does not resume from it", path)
	}
	if fromStart { // on the rung that the run had come to
		r.Left = nil
		for i := range r.Attempts {
			r.Attempts[i].Outcome.Saved = nil
		}
	}
	return past, whence(h, r, fromStart, say)
}

// returnTo goes to the folder of a run. Its environment is the one of now.
func returnTo(r *run.Run, id string) error {
	c := &r.Job.Command
	c.Env = os.Environ()
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("the folder of run %s is gone: %s", id, c.Dir)
	}
	if err := os.Chdir(c.Dir); err != nil {
		return fmt.Errorf("going to the run's folder: %w", err)
	}
	return nil
}

// whence reports where a run goes on from. Its error says that there is nothing to go on from.
func whence(h *record.History, r *run.Run, fromStart bool, say ui.Printer) error {
	id := h.ID
	_, cut := h.CutOff()
	state, why := r.Saved(), "it left no complete saved state"
	if none := r.Job.Resume.None; none != "" {
		why = none
	}
	switch {
	case state == nil && !fromStart:
		return fmt.Errorf("run %s has nothing to go on from: %s; launch resume %s --from-start starts it over", id, why, id)
	case say.Quiet:
	case state == nil:
		say.Line("run %s: it starts over", id)
	case cut:
		say.Line("run %s: its last attempt was cut off; it goes on from %v", id, state)
	default:
		say.Line("run %s: it goes on from %v", id, state)
	}
	return nil
}

// runAndCommand is cobra's check of a run's name that may be followed by -- and the run's command.
func runAndCommand(c *cobra.Command, args []string) error {
	before := args
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		before = args[:dash]
	}
	return takes(1, 1, "one run, which launch runs lists, or the word last; a command goes after --")(c, before)
}
