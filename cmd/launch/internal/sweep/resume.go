package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
)

func newResume() *cobra.Command {
	var jobs int
	c := &cobra.Command{
		Use: "resume [NAME] [-- COMMAND ...]", Short: "continue a sweep: run what failed or is missing, and that alone",
		Long: `resume continues a sweep that was killed or stopped, or in which rows failed. Trials that outlived the
process which drove the sweep are waited for. A row whose run can be resumed goes on from its saved
state; other rows start over. Rows that succeeded do not run again. If the code, the data, the environment
or the packages have changed since the sweep began, it lists what and ends with 125: rows that run now
would not compare with the others. --accept goes on, and marks the rows that run from then on.

launch's flags are those that the sweep began with; a flag given here outranks them. Secrets of a
command are not recorded: type the whole command again after --.`,
		Args: func(c *cobra.Command, args []string) error {
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				args = args[:dash]
			}
			return cli.Takes(0, 1, "one sweep, or none for the last one; a command goes after --")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			var command []string
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				args, command = args[:dash], args[dash:]
			}
			s, sweeps, name, err := openSweep(c, args)
			if err != nil {
				return err
			}
			return newDriver(s, settings.Accepted(c)).resume(c.Context(), sweeps, name, command, jobs, passedOn(c.Flags()))
		},
	}
	settings.AddAccept(c.Flags())
	c.Flags().IntVarP(&jobs, "jobs", "j", 0, "how many trials run at the same time (default: as before)")
	settings.Use(c, settings.All)
	return cli.SameExits(c, sweepExits)
}

// resume continues a sweep. command is its command, typed again; nil if it was not.
func (d *driver) resume(
	ctx context.Context, sweeps local.Folders, name string, command []string, jobs int, flags []string,
) error {
	if err := result.CheckFile(d.result); err != nil {
		return err
	}
	j, h, err := sweeps.Open(name)
	if errors.Is(err, local.ErrDriven) {
		return cli.NewExit(err, run.TryLater)
	}
	if err != nil {
		return err
	}
	t := h.Spec.Template()
	switch {
	case len(command) > 0:
		if err = record.Unmask(h.Spec.Command, command); err != nil {
			err = fmt.Errorf("sweep %s has another command: %w", name, err)
		}
		t.Command = command
	case record.HasMask(h.Spec.Command):
		err = fmt.Errorf("the command of sweep %s has a secret, which launch did not record: type the whole command again "+
			"after --", name)
	}
	if jobs > 0 {
		h.Spec.Jobs = jobs
	}
	if err == nil {
		err = os.Chdir(t.Dir)
	}
	if err != nil {
		j.Close()
		return err
	}
	continued(d.state, h, j)
	e := sweep.Event{Version: sweep.Version, Time: time.Now(), Kind: sweep.Taken, Again: true, PID: os.Getpid()}
	if err := d.sameSweep(h, t.Command, &e); err != nil {
		j.Close()
		return err
	}
	// What the identity compares is told by now: a file of the repository that no row runs is no change.
	if id := h.Spec.Identity; id == nil || slices.Contains(id.Unknown, "code") || len(e.Mixed) > 0 {
		d.warnChanged(ctx, h)
	}
	if h.Spec.Flags = append(h.Spec.Flags, flags...); d.accept {
		h.Spec.Flags = append(h.Spec.Flags, "--"+settings.AcceptFlag)
	}
	if err := j.Write(e); err != nil {
		j.Close()
		return fmt.Errorf("recording the sweep: %w", err)
	}
	h.Apply(e)
	return d.drive(ctx, j, h, nil, t, false)
}

// continued takes the results of rows whose runs have been continued by hand, as their last lines advise, and have
// succeeded: they are not trained again. What a search was told stays as it is.
func continued(state string, h *sweep.History, j *local.Journal) {
	for _, row := range h.Rows {
		if row.Left() == "" || h.Spec.Search != nil {
			continue
		}
		of, err := record.In(state).Read(row.Left())
		if err != nil {
			continue
		}
		r, ok := local.Recorded(of)
		if !ok || r.Ending != run.Succeeded || r.Code != 0 {
			continue
		}
		e := sweep.Event{Version: sweep.Version, Time: time.Now(), Kind: sweep.Continued, Trial: row.Number, Result: &r}
		if j.Write(e) == nil {
			h.Apply(e)
		}
	}
}
