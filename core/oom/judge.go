package oom

import (
	"fmt"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// Judge reports on what was read, and weighs it. Call it after the output was read to its end.
func (d *Detector) Judge(seen Seen, signs job.Signs) Verdict {
	state := d.State()
	v := d.Report(seen.Exit).Judge(seen, signs, state)
	switch {
	case v.Ending == Succeeded && signs.Has(job.Progress) && !state.Stepped(signs) && d.ranOut():
		// A trainer that swallows an out-of-memory goes on to its last line as if it had trained (torchtitan issue 2362).
		state.Failed, state.Succeeded = true, false
		r := d.Report(seen.Exit)
		r.Fatal = true // by what the output shows together with the signs
		v = r.Judge(seen, signs, state)
	case v.Ending == Succeeded && (!state.Succeeded || signs.Has(job.Progress)):
		// no step was reported after it: a program that catches every error prints the words alone, and ends
		text, steps := d.Report(Exit{}), signs.Has(job.Progress) && state.Stepped(signs)
		if text.OOM && text.Confidence == Certain && (text.Fatal || steps && !text.WentOn) {
			v.Doubt = text.Cause
		} else if !state.Succeeded {
			v.Broken = d.lastTrace()
		}
	case v.Ending == Failed && v.Report.Cause == "" && !v.Lied && seen.Exit.Signal == 0 && signs.Codes[seen.Exit.Code] == "":
		if last := d.lastWords(); last != "" {
			v.Cause = fmt.Sprintf("it exited %d; its last line: %s", seen.Exit.Code, last)
		}
	}
	return v
}

// ranOut reports whether the text alone shows that memory ran out, survived or not.
func (d *Detector) ranOut() bool {
	text := d.Report(Exit{})
	return text.OOM && text.Confidence == Certain
}

// lastWords is the last line that is not blank: of standard error, if that was read separately and has one.
func (d *Detector) lastWords() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range []string{Stderr, Terminal, Stdout} {
		for _, s := range d.streams {
			if s.name == name && s.lastLine() != "" {
				return unit.Clip(s.lastLine(), 200)
			}
		}
	}
	return ""
}

// Judge weighs a report together with everything else that was observed. The order of the rules matters:
//
//  1. A program that was asked to stop and did so is interrupted, and so is one that a scheduler ended; one that still
//     reports success succeeded.
//  2. A success is an exit of 0, or a code that the plugin lists as a success, that no sign contradicts; a program whose
//     signs include one of success must have shown it. What it printed before does not matter.
//  3. Memory is the cause of a failure if the program ended on it: by the first failing rank's last exception, by the
//     plugin's signs, by the exit and the kernel's counts, by observations from outside and from inside, as [Report.weigh]
//     lists them. An out-of-memory that the program survived proves nothing.
//  4. An unexplained SIGKILL is attributed to no one.
func (r Report) Judge(seen Seen, signs job.Signs, state State) Verdict {
	exit := seen.Exit
	fine := exit.fine(signs.Codes)
	failed := exit.Known && !(fine && state.fine(signs.MustSucceed)) ||
		!exit.Known && !state.Succeeded && (r.Fatal || state.Failed)
	deaf := !failed && exit.Asked && state.Succeeded
	if failed || exit.Asked {
		r.place(state, signs)
	}
	switch {
	case !deaf && exit.interrupted(signs.Codes), state.Interrupted, failed && (r.NotMemory == "interrupted" || r.ordered()):
		cause, why := r.stopped(exit)
		return Verdict{Ending: Interrupted, Report: r, Cause: cause, Why: why}
	case !failed:
		r.Survived = max(r.Survived, exit.OOMKills, seen.Inside.count()) // of its processes, some that it could do without
		return Verdict{Ending: Succeeded, Report: r, Why: "nothing shows that it failed"}
	}
	r = r.weigh(seen)
	v := Verdict{Ending: Failed, Report: r, Cause: r.Cause, Lied: exit.Known && fine}
	v.Silent = v.Lied && !state.Failed && !r.Fatal && state.OutOfMemory <= state.Survived
	switch {
	case r.OOM && r.Fatal:
		v.Ending = OutOfMemory
	case v.Silent && (r.Cause == "" || !r.Fatal):
		v.Cause = fmt.Sprintf("it exited %d but never printed its success line", exit.Code)
	case r.Cause == "", r.OOM, r.Possible && exit.Signal != 0:
		v.Cause = howEnded(exit, signs, v.Lied)
	}
	v.Retry, v.Why = v.retry()
	return v
}

// retry reports whether an attempt with less memory may help, and why.
func (v Verdict) retry() (bool, string) {
	r := v.Report
	switch {
	case v.Ending != OutOfMemory && (r.NotMemory == "" || r.NotMemory == byHand):
		return false, "nothing shows that memory ran out"
	case v.Ending != OutOfMemory:
		return false, "memory is not the cause"
	case r.Kind == HostOOM || r.Kind == CPUAlloc:
		return true, "less host memory may be used"
	case r.Kind == SharedMemory:
		return true, "fewer workers use less shared memory"
	case r.Kind == GPUContention:
		return true, "the room is smaller than it was: others hold a part of the card"
	}
	return true, "a setting that needs less may fit"
}

// howEnded describes the end of a program whose output gives no reason for it.
func howEnded(exit Exit, signs job.Signs, lied bool) string {
	switch {
	case lied:
		return fmt.Sprintf("it exited %d, but its own output shows no success", exit.Code)
	case exit.Signal == sigkill:
		return "killed by SIGKILL, sender unknown: the kernel, for lack of host memory, or a kill -9"
	case exit.Signal == sigterm:
		return "terminated by SIGTERM"
	case exit.Signal != 0:
		return fmt.Sprintf("killed by signal %d", exit.Signal)
	case !exit.Known:
		return "it did not succeed and printed no reason"
	}
	if s := signs.Codes[exit.Code]; s != "" {
		return s
	}
	return fmt.Sprintf("it exited %d and printed no reason", exit.Code)
}
