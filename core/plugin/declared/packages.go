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
	for _, need := range r.ResumeSince {
		version := r.python().Version(need.name)
		switch {
		case version == "":
			r.warn("the version of %s is not known; before %s it ignores a saved state and starts over", need.name,
				need.value)
		case python.Older(version, need.value):
			resume.None = fmt.Sprintf("%s %s ignores a saved state and starts over; since %s it does not", need.name,
				version, need.value)
			resume.Edits, resume.Automatic = nil, false
			return
		}
	}
	for _, need := range r.ResumeNeeds {
		version := r.python().Version(need.name)
		switch {
		case version == "":
			r.warn("the version of %s is not known; before %s a resumed run takes the micro-batch of its saved state",
				need.name, need.value)
		case python.Older(version, need.value):
			resume.None = fmt.Sprintf("%s %s resumes with the micro-batch of the saved state; since %s it does not",
				need.name, version, need.value)
			resume.Edits, resume.Automatic = nil, false
		}
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
