// Package result tells others how a launch ended: by the document of --json-file, and by notices.
package result

import (
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// Version is the version of [Result]. Fields are added within a version and never change their meaning.
const Version = 1

// Result is the document of --json-file.
type Result struct {
	Version int `json:"version"`
	// Summary has the main figures, one level deep.
	Summary  resultSummary `json:"summary"`
	Run      string        `json:"run,omitempty"`
	Ending   run.Ending    `json:"ending"`
	Code     int           `json:"exit_code"`       // launch's
	Error    string        `json:"error,omitempty"` // why launch started nothing
	Whose    string        `json:"whose,omitempty"`
	Stop     *run.Stop     `json:"stop,omitempty"`
	Job      *job.Job      `json:"job,omitempty"`
	Attempts []run.Attempt `json:"attempts,omitempty"`
	Outcome  *run.Outcome  `json:"outcome,omitempty"` // of a command that no plugin recognised
	// Metrics are those of the training as a whole; each attempt has its own, too.
	Metrics metric.Set `json:"metrics,omitempty"`
	// Mixed is from where the run is no longer what it began as, one line each; absent if it is.
	Mixed []string `json:"mixed,omitempty"`
	// Unlike lists what is no longer as when the run began, where launch for that reason did not go on with it.
	Unlike []string `json:"unlike,omitempty"`
	// Checklist is what the training should have reached at its end.
	Checklist []job.CheckResult `json:"checklist,omitempty"`
	// Infeasible is set if the command needs more memory than there is, at every cost that was allowed.
	Infeasible *run.Infeasible `json:"infeasible,omitempty"`
}

// resultSummary is the short form of a [Result]. Its fields are those of a sweep's row. null: not known.
type resultSummary struct {
	Ending   run.Ending `json:"ending"`
	ExitCode int        `json:"exit_code"` // launch's
	Cause    string     `json:"cause"`     // why it ended so, in one line; "" after a success
	// Doubtful is why a success is doubtful; "" if it is not.
	Doubtful string `json:"doubtful"`
	// Resume is what became of the last attempt's resume: "resumed", "restarted" or "not checked"; "" if it had none.
	Resume string `json:"resume"`
	// Verdict is that of the last plan: "fits", "may not fit", "cannot fit", or "unknown" if there was none.
	Verdict  string      `json:"verdict"`
	Cost     *string     `json:"cost"`     // the highest cost of that plan's changes
	Changes  string      `json:"changes"`  // of that plan, from the job as asked
	Attempts int         `json:"attempts"` // that were made, without rehearsals and timings
	Short    int         `json:"out_of_memory"`
	Micro    *int64      `json:"micro_batch"` // of the last attempt, as the following
	Accum    *int64      `json:"accumulation"`
	Global   *int64      `json:"global_batch"`
	Peak     *unit.Bytes `json:"peak_bytes"`
	PeakIs   string      `json:"peak_is"` // which quantity the peak is
	Steps    *int64      `json:"steps"`   // the last step that was reported
}

// summary is the short form of what is known at the end.
func (r Result) summary() resultSummary {
	s := resultSummary{Ending: r.Ending, ExitCode: r.Code, Cause: r.Error, Verdict: ladder.Unknown.String()}
	if r.Stop != nil {
		s.Cause = r.Stop.Why
		if r.Stop.Refused != nil {
			s.plan(r.Stop.Refused)
		}
	}
	last := r.Outcome
	if last != nil {
		s.Attempts = 1
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Plan.Trial != "" {
			continue
		}
		s.Attempts++
		if a.Outcome.Ending == run.OutOfMemory {
			s.Short++
		}
		s.plan(&a.Plan)
		s.Micro, s.Accum = known(a.Plan.Batch.Micro), known(a.Plan.Batch.Accumulation)
		s.Global = known(a.Plan.Batch.Global())
		last = &a.Outcome
	}
	if last == nil {
		return s
	}
	if s.Doubtful = last.Doubtful; last.Resumption != nil {
		s.Resume = last.Resumption.State
	}
	s.Peak, s.PeakIs, s.Steps = known(last.Peak), last.PeakIs, known(last.Iteration)
	if s.Cause == "" || last.Cause != "" {
		s.Cause = last.Cause
	}
	switch {
	case r.Ending == run.Succeeded && r.Code == 0:
		s.Cause = ""
	case s.Cause == "": // the program succeeded, and launch lost some of its output
		s.Cause = r.Whose
	}
	return s
}

// plan takes over the figures of a plan.
func (s *resultSummary) plan(p *run.Plan) {
	cost := p.Cost.String()
	s.Verdict, s.Cost, s.Changes = p.Verdict().String(), &cost, p.Changes()
}

// known returns a pointer to a value, or nil if it is zero.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// NotRun is the ending of a command that launch could not run.
const NotRun run.Ending = "not run"

// NotWatched is the ending of a program that took the place of launch.
const NotWatched run.Ending = "not watched"
