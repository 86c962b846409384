package declared

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/python"
)

// olderPackages makes the job start over where the packages of the command's Python cannot go on from a state at
// another micro-batch. Where a version is not known, the job has a warning: most Pythons have a newer one.
func (r *reading) olderPackages() {
	resume := &r.job.Resume
	if !resume.Automatic && len(resume.Edits) == 0 {
		return
	}
	older := func(name, since, unknown, known string) bool {
		version := r.python().Version(name)
		if version == "" {
			r.warn("the version of %s is not known; before %s %s", name, since, unknown)
		}
		if version == "" || !python.Older(version, since) {
			return false
		}
		resume.None = fmt.Sprintf("%s %s %s; since %s it does not", name, version, known, since)
		resume.Edits, resume.Automatic = nil, false
		return true
	}
	for _, need := range r.ResumeSince {
		if older(need.name, need.value, "it ignores a saved state and starts over", "ignores a saved state and starts over") {
			return
		}
	}
	for _, need := range r.ResumeNeeds {
		older(need.name, need.value, "a resumed run takes the micro-batch of its saved state",
			"resumes with the micro-batch of the saved state")
	}
}

// lacks is why the command's Python has not these packages in these versions or newer ones; "" if it has.
func (r *reading) lacks(needs named[string]) string {
	for _, need := range needs {
		switch version := r.python().Version(need.name); {
		case version == "":
			return fmt.Sprintf("the version of %s is not known, and only from %s on a setting does that", need.name, need.value)
		case python.Older(version, need.value):
			return fmt.Sprintf("%s %s has no setting for that; %s has", need.name, version, need.value)
		}
	}
	return ""
}

// installed reports whether the command's Python has all these packages. Where it is not known, it has not: what needs
// them could fail.
func (r *reading) installed(packages []string) bool {
	return !slices.ContainsFunc(packages, func(name string) bool { return !r.python().Has(name) })
}

func (r *reading) python() python.Environment { return python.Of(r.prog.Prog, r.command.Env) }
