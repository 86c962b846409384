// Package run carries a job through its attempts.
//
// The thinking is in one pure method, [Run.Next]; the doing is in [Run.Carry], which asks Next for a plan, has it
// carried out, writes down what happened, and asks again. So a whole run is rehearsed in a table, replayed from its
// journal, and shown before it starts.
package run

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// The exit codes that are launch's own, and no program's (DESIGN section 5).
const (
	TryLater   = 75  // no room now: elsewhere, or later
	CannotFit  = 78  // at the allowed cost; nothing was started
	OwnTrouble = 125 // launch itself failed
)

// An Ending is how an attempt ended, once its output, its exit and its signs were weighed.
type Ending = oom.Ending

// The endings.
const (
	Succeeded   = oom.Succeeded
	Failed      = oom.Failed
	OutOfMemory = oom.OutOfMemory
	Interrupted = oom.Interrupted
)

// The quantities that a measured peak can be.
const (
	Used      = mem.Used      // what the driver sees of the job's processes
	Allocated = mem.Allocated // live tensors, by the program's own account
	Resident  = mem.Resident  // pages of the largest process, libraries included: a limit on data does not count them all
)

// A State is what a resume reads.
type State struct {
	Path      string     `json:"path,omitempty"`
	Iteration int64      `json:"iteration"`
	Bytes     unit.Bytes `json:"bytes,omitempty"`
}

// An Outcome is what an attempt came to.
type Outcome struct {
	Ending  Ending                `json:"ending"`
	Code    int                   `json:"code"`                 // the program's own
	Signal  int                   `json:"signal,omitempty"`     // that killed it; Code then means nothing
	Cause   string                `json:"cause,omitempty"`      // one line for a person; empty after a success
	Lied    bool                  `json:"lied,omitempty"`       // it exited 0 though it failed
	Silent  bool                  `json:"silent,omitempty"`     // it exited 0, and what says that it succeeded never came
	Doubt   string                `json:"doubt,omitempty"`      // what speaks against a success that only the exit code says
	Untaken string                `json:"untaken,omitempty"`    // why launch ended it: it ran without the settings it was to have
	Report  oom.Report            `json:"report"`               // the evidence, whatever the ending
	Phase   string                `json:"phase,omitempty"`      // the ladder's name of the phase it ended in
	Peak    unit.Bytes            `json:"peak_bytes,omitempty"` // the largest seen in use by the job; absent in JSON if nothing was measured
	PeakIs  string                `json:"peak_is,omitempty"`    // which of the quantities below it is
	Peaks   map[string]unit.Bytes `json:"peaks,omitempty"`      // the same by phase
	// Measured is what was measured of each phase, and Passed are the phases that were gone through completely: receipts
	// are made of it.
	Measured  map[string][]mem.Measurement `json:"measured,omitempty"`
	Passed    []string                     `json:"passed,omitempty"`
	Saved     *State                       `json:"saved,omitempty"`   // the newest complete state that this attempt wrote
	Strange   []string                     `json:"strange,omitempty"` // newer states of which nothing shows that this run wrote them
	Torn      []string                     `json:"torn,omitempty"`    // states that this attempt began and did not complete
	Made      []string                     `json:"made,omitempty"`    // files that it left, which a next attempt would overwrite or stumble over
	Blocked   string                       `json:"blocked,omitempty"` // a file that an earlier attempt of this run made, at which this one stopped
	Iteration int64                        `json:"iteration"`         // the last one reported
	Stepped   bool                         `json:"stepped,omitempty"` // a step was reported
	Varied    bool                         `json:"-"`                 // different iterations were
	Figures   bool                         `json:"-"`                 // a step's own figures were
	Total     int64                        `json:"total,omitempty"`   // of how many, by the program's own report
	Claimed   bool                         `json:"claimed,omitempty"` // it reported steps, and its success, whatever its end
	Short     string                       `json:"short,omitempty"`   // what speaks against a success: it reported fewer steps than it has
	// Rate is how many samples of the global batch it trained in a second, from its first report of progress to its last;
	// absent where it reported too little.
	Rate      float64           `json:"samples_per_second,omitempty"`
	Settings  map[string]string `json:"settings,omitempty"`  // of knobs, as the program printed them
	Confirmed []string          `json:"confirmed,omitempty"` // documents of which the program kept the very text it was given
	Began     time.Time         `json:"began"`
	Took      time.Duration     `json:"took_ns"`
	// Inside is what a hook within the program said; nil where none was wanted.
	Inside *oom.Inside `json:"inside,omitempty"`
}

// A Choice is where a phase stands on its ladder.
type Choice struct {
	Phase    string         `json:"phase"`
	Rung     int            `json:"rung"`
	Name     string         `json:"name"`
	Cost     ladder.Cost    `json:"cost"`
	Estimate mem.Estimate   `json:"estimate"` // corrected by what this run has measured
	Verdict  ladder.Verdict `json:"verdict"`
}

// A Plan is what one attempt will be, decided and complete.
type Plan struct {
	Attempt int           `json:"attempt"` // counted from 1
	Trial   Trial         `json:"trial,omitempty"`
	Shared  Choice        `json:"shared"`
	Choices []Choice      `json:"choices"`
	Host    *HostChoice   `json:"host,omitempty"` // nil where the plugin knows nothing of the host's memory
	Edits   []config.Edit `json:"edits,omitempty"`
	Batch   job.Batch     `json:"batch"`
	Room    unit.Bytes    `json:"room_bytes"`
	Cost    ladder.Cost   `json:"cost"` // the highest of what it takes
	Why     string        `json:"why"`
	Resume  *State        `json:"resume,omitempty"` // what it goes on from; nil: from the beginning
}

// Verdict is the worst of the plan's phases.
func (p *Plan) Verdict() ladder.Verdict {
	worst := ladder.Fits
	for _, c := range p.Choices {
		worst = max(worst, c.Verdict)
	}
	return worst
}

// Choice returns where the phase stands, or nil.
func (p *Plan) Choice(phase string) *Choice {
	for i := range p.Choices {
		if p.Choices[i].Phase == phase {
			return &p.Choices[i]
		}
	}
	return nil
}

// An Attempt is a plan carried out.
type Attempt struct {
	Plan    Plan    `json:"plan"`
	Outcome Outcome `json:"outcome"`
}

// String names the state as a person knows it: by its iteration, or by its file where its name has none.
func (s State) String() string {
	if s.Iteration > 0 || s.Path == "" {
		return fmt.Sprintf("iteration %d", s.Iteration)
	}
	return filepath.Base(s.Path)
}

// A Stop is why there is no next plan.
type Stop struct {
	Why string `json:"why"`
	// Code is launch's own exit code, or 0 where the last attempt's stands.
	Code int `json:"code,omitempty"`
	// Beyond is the first rung that was not allowed and might help; nil where there is none.
	Beyond *Beyond `json:"beyond,omitempty"`
	// Refused is the plan that was not allowed to start; nil where an attempt was made.
	Refused *Plan `json:"refused,omitempty"`
}

// Beyond is a rung, or several of different phases, that the user has not allowed.
type Beyond struct {
	Name string      `json:"name"`
	Cost ladder.Cost `json:"cost"`
	Flag string      `json:"flag"` // that allows it
}

// Limits are how far a run may go: the user's word.
type Limits struct {
	Allow   ladder.Cost `json:"allow"`
	AsAsked bool        `json:"as_asked,omitempty"` // a phase is changed only after it ran out of memory, whatever is estimated
	Fill    bool        `json:"fill,omitempty"`     // start from the top of the ladder
	Anyway  bool        `json:"anyway,omitempty"`   // run what would be refused
	// Fast, with Fill, times a few sizes first and takes the fastest.
	Fast bool `json:"fast,omitempty"`
	// Rehearse tries every phase in a short run first.
	Rehearse bool `json:"rehearse,omitempty"`
}

// A Run is a job on its way: what is fixed about it, the room there is now, and its attempts so far.
type Run struct {
	Job     *job.Job    `json:"job"`
	Ladders *ladder.Set `json:"ladders"`
	// Priced is the ladders as the plugin priced them, where receipts have corrected Ladders; nil where none did.
	Priced *ladder.Set `json:"priced,omitempty"`
	Limits Limits      `json:"limits"`
	// Room is what the job may take on its fullest device, measured again before every attempt; 0 where there is no
	// device that launch can see.
	Room unit.Bytes `json:"room_bytes"`
	// Empty is what the job could take if nobody else were on that device.
	Empty unit.Bytes `json:"empty_bytes,omitempty"`
	// Host says that the room is the host's memory.
	Host bool `json:"host,omitempty"`
	// Rooms are those of the host beside a card's, measured again before every attempt.
	Rooms ladder.HostRooms `json:"rooms"`
	// Left is the state that an attempt left of which the end was not seen, because launch itself was killed.
	Left *State `json:"left,omitempty"`
	// Cut is how far attempts came that do not count any more: that one, and those that were interrupted or failed before the run
	// was resumed. nil where there is none.
	Cut      *Progress `json:"cut,omitempty"`
	Attempts []Attempt `json:"attempts,omitempty"`
}

// Progress is how far an attempt came, by the program's own reports.
type Progress struct {
	Iteration int64 `json:"iteration"`
	Total     int64 `json:"total,omitempty"`
	Succeeded bool  `json:"succeeded,omitempty"` // it reported its success
}

// Further is the one that came further, of each.
func (p *Progress) Further(q Progress) *Progress {
	if p == nil {
		return &q
	}
	return &Progress{max(p.Iteration, q.Iteration), max(p.Total, q.Total), p.Succeeded || q.Succeeded}
}

// Last returns the last attempt, or nil.
func (r *Run) Last() *Attempt {
	if len(r.Attempts) == 0 {
		return nil
	}
	return &r.Attempts[len(r.Attempts)-1]
}

// Changes names the rungs that the plan stands on beside the job as asked, in one line.
func (p *Plan) Changes() string {
	switch device := p.onDevice(); {
	case p.Host.rung() == 0:
		return device
	case device == asAsked:
		return p.Host.Name
	default:
		return device + "; " + p.Host.Name
	}
}

// onDevice names those of the ladders by which the device's memory is taken.
func (p *Plan) onDevice() string {
	var names []string
	for _, c := range append([]Choice{p.Shared}, p.Choices...) {
		if c.Name != asAsked {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return asAsked
	}
	return strings.Join(names, "; ")
}
