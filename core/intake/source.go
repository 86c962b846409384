package intake

import (
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/overlay"
)

// fixedSource returns why the program will not load edited Python source, as far as its command shows, or "".
func fixedSource(prog *command.Prog, j *job.Job) string {
	if prog == nil || !slices.ContainsFunc(j.Files, func(f job.File) bool { return f.Served() }) {
		return ""
	}
	return overlay.Refused(*prog)
}

// withoutSource removes the rungs that edit Python source.
func withoutSource(j *job.Job, set *ladder.Set) {
	inSource := func(edits []config.Edit) bool {
		return slices.ContainsFunc(edits, func(e config.Edit) bool {
			return slices.ContainsFunc(j.Files, func(f job.File) bool { return f.Served() && f.Path == e.At.Doc })
		})
	}
	for k := range set.Phases {
		l := &set.Phases[k]
		for i := len(l.Rungs) - 1; i >= 0; i-- {
			if inSource(l.Rungs[i].Edits) {
				l.Rungs = slices.Delete(l.Rungs, i, i+1)
				if i < l.Asked {
					l.Asked--
				}
			}
		}
	}
	withoutShared(set, inSource)
	set.Absent = nil // its rungs may edit source, too
	if set.Host != nil {
		set.Host.Rungs = slices.DeleteFunc(set.Host.Rungs, func(r ladder.HostRung) bool { return inSource(r.Edits) })
	}
	if inSource(j.Rehearsal.Largest) {
		j.Rehearsal.Largest, j.Rehearsal.Unordered = nil, "launch cannot change its settings in Python source"
	}
	if inSource(j.Rehearsal.Edits) {
		j.Rehearsal = job.Rehearsal{None: "launch cannot change its settings in Python source"}
	}
}

// withoutShared removes the rungs of the shared ladder that leave selects, and each phase's prices on them.
func withoutShared(set *ladder.Set, leave func([]config.Edit) bool) {
	for i := len(set.Shared.Rungs) - 1; i >= 0; i-- {
		if !leave(set.Shared.Rungs[i].Edits) {
			continue
		}
		set.Shared.Rungs = slices.Delete(set.Shared.Rungs, i, i+1)
		if i < set.Shared.Asked {
			set.Shared.Asked--
		}
		for k := range set.Phases {
			for n := range set.Phases[k].Rungs {
				r := &set.Phases[k].Rungs[n]
				r.Estimates = slices.Delete(slices.Clone(r.Estimates), i, i+1)
			}
		}
	}
}
