package attempt

import (
	"cmp"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// ended is everything that was observed of an attempt whose program has ended.
type ended struct {
	began, at time.Time
	exit      proc.Exit
	keeper    error  // not nil: the keeper was killed, and the end of the program is unknown
	why       string // why launch ended the program; ""
	peers     int    // ranks that launch ended, because they waited for one that ran out of memory
	limit     unit.Bytes
	onHost    bool

	verdict  oom.Verdict
	state    oom.State
	inside   *oom.Inside
	failure  string                // the first line by which the program reported that it failed
	peak     unit.Bytes            // observed from outside the program
	is       string                // the quantity of peak
	peaks    map[string]unit.Bytes // by phase
	hookPeak unit.Bytes            // allocated, as the hook reported it
}

// forVerdict returns the exit in the form that the verdict needs.
func (e ended) forVerdict() oom.Exit {
	by, code := asked(e.exit), e.exit.Code
	if e.peers > 0 && !e.exit.Interrupted && len(e.exit.Signals) == 0 {
		by, code = 0, max(1, code) // a launcher may well exit 0 after launch has ended its ranks
	}
	return oom.Exit{
		Known: true, Code: code, Signal: int(e.exit.Signal), Asked: by != 0 && e.why == "", AskedBy: int(by),
		OOMKills: max(0, e.exit.OOMKills), Counted: e.exit.OOMKills >= 0, Local: e.exit.Family,
	}
}

// outcome decides the outcome of an attempt.
func outcome(e ended, signs job.Signs) run.Outcome {
	v, state := e.verdict, e.state
	out := run.Outcome{
		Ending: v.Ending, Code: e.exit.Code, Signal: int(e.exit.Signal), Report: v.Report, Phase: v.Report.Stage,
		Peaks: e.peaks, Iteration: max(0, state.Iteration), Settings: state.Settings, Began: e.began, Took: e.exit.Took,
		Cause: v.Cause, Lied: v.Lied, Silent: v.Silent, Doubt: v.Doubt, Broken: v.Broken, Inside: e.inside,
	}
	out.Peak, out.PeakIs = e.measured()
	if e.failure != "" && out.Ending == run.Failed && v.Report.Cause == "" {
		out.Cause = e.failure
	}
	out.Lied = out.Lied || e.peers > 0 && out.Ending == run.OutOfMemory && e.exit.Code == 0 && e.exit.Signal == 0
	if e.peers > 0 && out.Ending == run.Failed {
		e.byHook(&out)
	}
	switch {
	case e.keeper != nil:
		out.Ending, out.Cause, out.Lied = run.Failed, e.keeper.Error(), false
	case e.why == enough && out.Ending != run.OutOfMemory:
		out.Ending, out.Cause, out.Lied = run.Succeeded, "", false
	case e.why != "" && e.why != enough:
		withoutSettings(&out, e.why)
	}
	if out.Ending == run.Failed { // the report has to agree with the outcome
		out.Report.Fatal = true
		out.Report.Cause = cmp.Or(out.Report.Cause, out.Cause)
	}
	out.Stepped, out.Varied, out.Figures, out.Total = state.Stepped(signs), state.Varied, state.Figures, state.Total
	out.Claimed, out.Metrics = out.Stepped && state.Succeeded, state.Metrics
	out.Rates, out.Updates = state.Rates, state.Updates
	out.Checked, out.Survived = state.Checks, state.SurvivedLine
	return out
}

// byHook makes a failure that the output does not explain an out-of-memory: launch has ended ranks only because one of
// them was certain to have run out of memory.
func (e ended) byHook(out *run.Outcome) {
	out.Ending, out.Cause = run.OutOfMemory, "a rank ran out of memory, by the report of its own process"
	r := &out.Report
	r.OOM, r.Fatal, r.Possible, r.Confidence, r.NotMemory, r.Cause, r.Kind = true, true, false, oom.Certain, "",
		out.Cause, oom.GPUUnspecified
	if e.onHost {
		r.Kind = oom.CPUAlloc
	}
}

// measured returns the attempt's peak, from the best source, and the quantity that it is; "" if nothing was measured.
func (e ended) measured() (peak unit.Bytes, is string) {
	switch {
	case e.peak > 0:
		return e.peak, e.is
	case e.onHost:
		peak, is = e.exit.MaxRSS, run.Resident
	default:
		peak, is = max(e.state.Peak, e.hookPeak), run.Allocated
	}
	if peak == 0 {
		is = ""
	}
	return peak, is
}

// beside is what the attempt's peak has in it that the job does not need, by the measurements of its phases; "" for
// nothing.
func beside(out run.Outcome) string {
	for _, ms := range out.Measured {
		for _, m := range ms {
			if m.With != "" && m.Is == out.PeakIs && m.Bytes == out.Peak {
				return m.With
			}
		}
	}
	return ""
}

// withoutSettings marks an outcome: the program ran without the settings of its plan.
func withoutSettings(out *run.Outcome, why string) {
	out.Ending, out.Cause, out.Untaken, out.Lied = run.Failed, "it ran without the settings of the plan: "+why, why,
		false
}
