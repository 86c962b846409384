package sameness

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
)

// mostLooked bounds how many runs are compared with a command.
const mostLooked = 200

// A candidate is a recorded run of the command that --continue was given with.
type candidate struct {
	History *record.History
	What    []identity.Difference // what differs from what is there now
}

// Changed reports whether the run is not what the command would be now.
func (c *candidate) Changed(p *intake.Reading) bool {
	if c.History.Identity() == nil { // recorded before launch kept it
		return !sameRecipe(c.History.Run().Job, record.MaskRun(p.Run).Job)
	}
	return len(c.What) > 0
}

// LastOf returns the last run that is the same as a command, else the last run of that command; nil if there is none.
func LastOf(state string, p *intake.Reading) (*candidate, error) {
	all, err := candidates(state, record.MaskRun(p.Run).Job, p.Command, p.Job, p.Room)
	if len(all) == 0 || err != nil {
		return nil, err
	}
	if c := &all[len(all)-1]; len(c.What) == 0 {
		return c, nil
	}
	return &all[0], nil
}

// candidates lists the recorded runs of a job's command, the newest first, up to one that is the same in everything.
func candidates(
	state string, now *job.Job, c job.Command, asked *job.Job, seen room.Room,
) (all []candidate, err error) {
	store := record.In(state)
	ids, err := store.List()
	if err != nil {
		return nil, err
	}
	of := Subject(state, c, asked, seen)
	var mine *identity.Identity
	for i, id := range slices.Backward(ids) {
		if len(ids)-i > mostLooked {
			break
		}
		h, err := store.Read(id)
		if err != nil || h.Run() == nil || !sameCommand(h.Run().Job, now) {
			continue
		}
		was := h.Identity()
		if was == nil { // recorded before launch kept it
			return append(all, candidate{History: h}), nil
		}
		if mine == nil {
			mine = identity.Take(of, was.Salt)
		}
		found := candidate{h, identity.Compare(was, mine.Salted(of, was.Salt), h.Past())}
		if !reflect.DeepEqual(h.Run().Job.Asked, now.Asked) {
			continue
		}
		if all = append(all, found); len(found.What) == 0 {
			break
		}
	}
	return all, nil
}

// sameCommand reports whether two jobs are of one command.
func sameCommand(a, b *job.Job) bool {
	return a.Plugin == b.Plugin && a.Command.Dir == b.Command.Dir && slices.Equal(a.Command.Args, b.Command.Args)
}

// sameRecipe reports whether two jobs of one command have the same settings.
func sameRecipe(a, b *job.Job) bool {
	return reflect.DeepEqual(a.Asked, b.Asked) && slices.EqualFunc(a.Files, b.Files, func(a, b job.File) bool {
		if a.Source != nil && b.Source != nil && a.Source.SHA256 != b.Source.SHA256 {
			return false
		}
		return a.Path == b.Path && bytes.Equal(a.Text, b.Text)
	})
}
