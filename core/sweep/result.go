package sweep

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A Result is how a start of a trial ended: the part of launch's --json-file that a sweep keeps.
type Result struct {
	Ending run.Ending `json:"ending"`
	Code   int        `json:"exit_code"`
	Why    string     `json:"why,omitempty"`
	Run    string     `json:"run,omitempty"`
	// Known: a plugin recognised the command. Without that nothing is known of cost, batch and length.
	Known bool `json:"recognised"`
	// Doubtful is why a success is doubtful: the program exited 0, and its own reports contradict a success.
	Doubtful string `json:"doubtful,omitempty"`
	// Cost is the cost of the rung on which the trial ended; nil if unknown.
	Cost     *ladder.Cost  `json:"cost,omitempty"`
	Changes  string        `json:"changes,omitempty"` // what that rung changes; "": nothing
	Attempts int           `json:"attempts,omitempty"`
	Short    int           `json:"out_of_memory,omitempty"` // how many attempts ran out of memory
	Asked    job.Batch     `json:"batch_asked,omitzero"`
	Batch    job.Batch     `json:"batch,omitzero"` // of the last attempt
	Peak     unit.Bytes    `json:"peak_bytes,omitempty"`
	PeakIs   string        `json:"peak_is,omitempty"`
	Length   int64         `json:"steps,omitempty"` // of the whole training; 0: unknown
	Rate     float64       `json:"samples_per_second,omitempty"`
	Took     time.Duration `json:"took_ns,omitempty"` // all attempts together
	Metrics  metric.Set    `json:"metrics,omitempty"`
	// Mixed is from where the row's run is no longer what it began as, one line each.
	Mixed []string `json:"mixed,omitempty"`
	// Unlike lists what is no longer as when the row's run began: launch did not go on with it.
	Unlike []string `json:"unlike,omitempty"`
	// Program is the process that trained; nil: not seen.
	Program *run.Program `json:"program,omitempty"`
	// NotProven are the keys of the row whose values the training is not known to have got.
	NotProven []string `json:"not_proven,omitempty"`
	// Printed are those that only its output shows.
	Printed []string `json:"proven_by_output,omitempty"`
	// Need is what a trial that does not fit needs at least, and Room what there was; 0: not known.
	Need unit.Bytes `json:"need_bytes,omitempty"`
	Room unit.Bytes `json:"room_bytes,omitempty"`

	edits []config.Edit // of the plan of the last attempt
}

// Endings of a trial beside those of a run.
const (
	NotRun  run.Ending = "not run" // launch could not start the command
	Refused run.Ending = "refused" // it cannot fit at the allowed cost
	Lost    run.Ending = "lost"    // the trial's launch ended without a result
)

// document is what a sweep takes of --json-file.
type document struct {
	Version  int             `json:"version"`
	Run      string          `json:"run"`
	Ending   run.Ending      `json:"ending"`
	Code     int             `json:"exit_code"`
	Error    string          `json:"error"`
	Stop     *run.Stop       `json:"stop"`
	Job      *job.Job        `json:"job"`
	Attempts []run.Attempt   `json:"attempts"`
	Outcome  *run.Outcome    `json:"outcome"`
	Metrics  metric.Set      `json:"metrics"`
	Mixed    []string        `json:"mixed"`
	Unlike   []string        `json:"unlike"`
	Short    *run.Infeasible `json:"infeasible"`
}

// ReadResult reads a document of --json-file.
func ReadResult(doc []byte) (Result, error) {
	var d document
	if err := json.Unmarshal(doc, &d); err != nil {
		return Result{}, fmt.Errorf("reading a trial's result: %w", err)
	}
	if d.Version != 1 || d.Ending == "" {
		return Result{}, fmt.Errorf("a trial's result has version %d and ending %q: another launch wrote it", d.Version,
			d.Ending)
	}
	r := Result{Ending: d.Ending, Code: d.Code, Why: d.Error, Run: d.Run, Known: d.Job != nil, Metrics: d.Metrics,
		Mixed: d.Mixed, Unlike: d.Unlike}
	if d.Stop != nil && len(d.Stop.Unlike) > 0 {
		r.Unlike = d.Stop.Unlike
	}
	last := d.Outcome
	for i := range d.Attempts {
		a := &d.Attempts[i]
		if a.Plan.Trial != "" { // a rehearsal, or a short run that measures speed
			continue
		}
		r.Attempts++
		r.Took += a.Outcome.Took
		if a.Outcome.Ending == run.OutOfMemory {
			r.Short++
		}
		last = &a.Outcome
		cost := a.Plan.Cost
		r.edits = a.Plan.Edits
		r.Cost, r.Batch, r.Changes, r.Room = &cost, a.Plan.Batch, changesOf(&a.Plan), a.Plan.Room
	}
	if d.Job != nil {
		r.Asked, r.Length = d.Job.Batch, d.Job.Steps
	}
	if last != nil {
		r.Peak, r.PeakIs, r.Rate, r.Doubtful = last.Peak, last.PeakIs, last.Rate, last.Doubtful
		r.Length, r.Program = max(r.Length, last.Total), last.Program
		r.Why = cmp.Or(r.Why, last.Cause, last.Doubtful)
		if d.Outcome != nil {
			r.Attempts, r.Took = 1, last.Took
		}
	}
	if s := d.Short; s != nil && s.Peak != nil {
		r.Need = *s.Peak
	}
	if s := d.Short; s != nil && s.Room != nil {
		r.Room = *s.Room
	}
	if d.Stop != nil && d.Ending != run.Succeeded && d.Stop.Why != "" && d.Stop.Why != string(d.Ending) {
		r.Why = d.Stop.Why
	}
	return r, nil
}

// changesOf describes what a plan changes; "" if nothing. Edits alone do not tell: those of a resume change no setting.
func changesOf(p *run.Plan) string {
	if text := p.Changes(); len(p.Edits) > 0 && text != run.AsAsked {
		return text
	}
	return ""
}

// Down reports whether the trial ran with other settings than asked.
func (r *Result) Down() bool { return r != nil && r.Changes != "" }

// Beyond reports whether the trial's row cannot be compared with the others as it stands: its rung cost more than
// rounding.
func (r *Result) Beyond() bool { return r != nil && r.Cost != nil && *r.Cost > ladder.Numerics }
