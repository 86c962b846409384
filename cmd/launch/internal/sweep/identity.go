package sweep

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
)

// ofSweep is the identity of a sweep: of its command without the values of its rows. It is nil where each row has a
// command of its own.
func ofSweep(state string, spec *sweep.Spec, command []string) *identity.Identity {
	if len(command) == 0 {
		return nil
	}
	salt := ""
	if spec.Identity != nil {
		salt = spec.Identity.Salt
	}
	return identity.Take(sameness.Subject(state, sweptCommand(spec, command), nil, room.Room{}), salt)
}

func sweptCommand(spec *sweep.Spec, command []string) job.Command {
	return job.Command{Args: command, Dir: cmp.Or(spec.Snapshot, spec.Dir), Env: os.Environ()}
}

// unlike lists what differs from what a sweep began as. at is until when its rows have written files. Without data it
// compares what a row cannot have changed.
func unlike(state string, h *sweep.History, command []string, data bool) (
	now *identity.Identity, what []identity.Difference,
) {
	was := h.Spec.Identity
	if was == nil || len(command) == 0 {
		return nil, nil
	}
	now = ofSweep(state, &h.Spec, command)
	past := identity.Past{Until: h.At}
	for _, r := range h.Rows {
		for _, at := range []time.Time{r.Begun, r.Over} {
			if at.After(past.Until) {
				past.Until = at
			}
		}
		if r.State == sweep.Running { // it may have gone on until now, where another process or a batch system runs it
			past.Until = time.Now()
		}
	}
	what = identity.Compare(was, now, past)
	return now, slices.DeleteFunc(what, func(d identity.Difference) bool {
		return d.Kind == identity.Arguments || d.Kind == identity.Ranks || d.Kind == identity.Data && !data
	})
}

// sameCode is why a sweep starts no further row; "" if it does.
func sameCode(state string, h *sweep.History, command []string, accept bool) string {
	now, what := unlike(state, h, command, false)
	if len(what) == 0 || now == nil || accept {
		return ""
	}
	return fmt.Sprintf("since it began %s, and further rows would not compare with those before. `launch sweep resume %s "+
		"--%s` runs them all the same and marks them; --snapshot keeps a copy of the code", sameness.SinceBegun(what),
		h.Spec.Name,
		settings.AcceptFlag)
}

// sameSweep compares a sweep that goes on with what is there now. With --accept, e gets what differs.
func (d *driver) sameSweep(h *sweep.History, command []string, e *sweep.Event) error {
	now, what := unlike(d.state, h, command, true)
	if len(what) == 0 {
		return nil
	}
	for _, diff := range what {
		d.say.Warn("since sweep %s began: %-11s  %v", h.Spec.Name, diff.Kind, diff)
	}
	if !d.accept {
		return cli.NewExit(fmt.Errorf("sweep %s does not go on: since it began %s. `launch sweep resume %s --%s` goes on "+
			"all the same, and marks the rows that run from now on", h.Spec.Name, sameness.SinceBegun(what), h.Spec.Name,
			settings.AcceptFlag), run.OwnTrouble)
	}
	e.Identity, e.Mixed = now, sameness.MixOf(nil, what).What
	return nil
}
