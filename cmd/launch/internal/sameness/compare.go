package sameness

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// MixOf is the mix of a run that goes on from a saved state, nil for none, though something differs.
func MixOf(from *run.State, what []identity.Difference) (m run.Mix) {
	if from != nil {
		m.From, m.State = from.Steps(), filepath.Base(from.Path)
	}
	for _, d := range what {
		m.What = append(m.What, d.String())
	}
	return m
}

// mostChanges bounds how many changes one sentence names.
const mostChanges = 5

// SinceBegun names in one sentence what differs from the beginning of a run.
func SinceBegun(what []identity.Difference) string {
	var words []string
	for _, d := range what[:min(len(what), mostChanges)] {
		words = append(words, d.String())
	}
	if n := len(what) - mostChanges; n > 0 {
		words = append(words, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(words, ", ")
}

// ChangedSince is why a run does not go on.
func ChangedSince(run string, what []identity.Difference) string {
	return fmt.Sprintf("run %s is no longer what it began as: %s. To go on all the same, and to mark the run as mixed: "+
		"launch resume %s --%s", run, SinceBegun(what), run, settings.AcceptFlag)
}

// An UnlikeError is why launch does not go on with a run.
type UnlikeError struct {
	Run  string
	What []string
	text string
}

func (e *UnlikeError) Error() string { return e.text }

// Compare compares a recorded run with what is there now. A difference is an error or, with --accept, a mix; a run that
// starts over mixes nothing. now is the identity that counts from here on.
func Compare(h *record.History, r *run.Run, of identity.Subject, over, accept bool, say ui.Printer) (
	now *identity.Identity, mix *run.Mix, err error,
) {
	was := h.Identity()
	if was == nil { // recorded before launch kept it
		return nil, nil, nil
	}
	now = identity.Take(of, was.Salt)
	what := identity.Compare(was, now, h.Past())
	if unknown := identity.Unread(was, now); len(unknown) > 0 && !over && !say.Quiet {
		say.Line("run %s: launch could not compare %s with what it began as", h.ID, strings.Join(unknown, ", "))
	}
	if len(what) == 0 {
		return was, nil, nil
	}
	for _, d := range what {
		say.Warn("since run %s began: %-11s  %v", h.ID, d.Kind, d)
	}
	if over {
		return now, nil, nil
	}
	if !accept {
		return nil, nil, cli.NewExit(&UnlikeError{h.ID, MixOf(nil, what).What, ChangedSince(h.ID, what)}, run.OwnTrouble)
	}
	m := MixOf(r.Saved(), what)
	return now, &m, nil
}

// WithForeign adds to a mix that others have written saved states in the run's folder.
func WithForeign(mix *run.Mix, from *run.State, foreign []string) *run.Mix {
	if len(foreign) == 0 {
		return mix
	}
	if mix == nil {
		m := MixOf(from, nil)
		mix = &m
	}
	mix.What = append(mix.What, "others have written saved states in its folder: "+run.Few(foreign))
	return mix
}
