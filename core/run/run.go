// Package run carries a job through its attempts.
//
// The pure method [Run.Next] decides. [Run.Carry] acts: it asks Next for a plan, has the plan carried out, records what
// happened, and asks again. So a whole run can be tested in a table, replayed from its journal, and printed before it
// starts.
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
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// launch's own exit codes (DESIGN section 5).
const (
	TryLater   = 75  // not enough free memory now; retry later or on another machine
	CannotFit  = 78  // it cannot fit at the allowed cost; nothing was started
	OwnTrouble = 125 // launch itself failed
)

// An Ending is how an attempt ended, by its output, its exit and its signs.
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
	Used      = mem.Used      // the job's processes as the driver counts them
	Allocated = mem.Allocated // live tensors, as the program counts them
	// pages of the largest process; libraries are included, so this is not what a limit on data counts
	Resident = mem.Resident
	Data     = mem.Data // of the process that held the most, as the kernel counts it for a limit on data
)

// A State is what a resume reads.
type State struct {
	Path      string     `json:"path,omitempty"`
	Iteration int64      `json:"iteration"`
	Bytes     unit.Bytes `json:"bytes,omitempty"`
	// Digest identifies its content; "" where it was not taken, as in the records of older launches.
	Digest string `json:"digest,omitempty"`
	// Rungs are the rungs of the attempt that saved it with which a state has another form ([ladder.Rung.NewState]): only
	// an attempt on the same ones can read it.
	Rungs []string `json:"rungs,omitempty"`
	// At are the counts of the program when it saved the state; if not Exact, at the end of the attempt.
	At    []Course `json:"at,omitempty"`
	Exact bool     `json:"exact,omitempty"`
	// Zero: the program calls the first step of a training 0.
	Zero bool `json:"from_zero,omitempty"`
	// Accumulation is that of the attempt that saved it; 0: not known.
	Accumulation int64 `json:"accumulation,omitempty"`
	// Before is how many steps were trained before the count by which it was saved: the program did not resume, and
	// began to count again.
	Before int64 `json:"steps_before,omitempty"`
	// Astray is why the training that saved it is not the one that its run was to be; "" if it is.
	Astray string `json:"astray,omitempty"`
}

// An Outcome is the result of an attempt.
type Outcome struct {
	Ending Ending `json:"ending"`
	Code   int    `json:"code"`             // the program's own
	Signal int    `json:"signal,omitempty"` // the signal that killed it; then Code has no meaning
	Cause  string `json:"cause,omitempty"`  // one line for a person; empty after a success
	Lied   bool   `json:"lied,omitempty"`   // it exited 0 though it failed
	Silent bool   `json:"silent,omitempty"` // it exited 0, but never printed its success line
	// evidence against a success that only the exit code reports
	Doubt string `json:"doubt,omitempty"`
	// the error with which its output ends, though it exited 0
	Broken string `json:"broken,omitempty"`
	// how it differed from the plan's settings; launch then ends it
	Untaken string `json:"untaken,omitempty"`
	// why launch asked it to save its state and stopped it, although it had not ended: a scheduler takes the machine
	Left string `json:"left,omitempty"`
	// Asked is who stopped it by a signal, though its output shows a success
	Asked string `json:"-"`
	// it ran out of memory while others held a part of the card, and its sweep runs it again elsewhere
	Beside bool       `json:"beside,omitempty"`
	Report oom.Report `json:"report"`          // the evidence, for every ending
	Phase  string     `json:"phase,omitempty"` // the phase that it ended in, as its ladder names it
	// the largest seen in use by the job; absent in JSON if nothing was measured
	Peak unit.Bytes `json:"peak_bytes,omitempty"`
	// the quantity of Peak: Used, Allocated, Resident or Data
	PeakIs string `json:"peak_is,omitempty"`
	// what is in Peak that the job does not need: mem.Trials
	PeakWith string                `json:"peak_with,omitempty"`
	Peaks    map[string]unit.Bytes `json:"peaks,omitempty"` // the same by phase
	// Measured are the measurements of each phase, and Passed the phases that were completed: receipts
	// are made of it.
	Measured map[string][]mem.Measurement `json:"measured,omitempty"`
	Passed   []string                     `json:"passed,omitempty"`
	// Retries are requests that the card refused and the allocator tried again, by phase, "" where it is unknown: evidence
	// of a full card, and no failure.
	Retries map[string]oom.Retries `json:"retries,omitempty"`
	Saved   *State                 `json:"saved,omitempty"` // the newest complete state that this attempt wrote
	// LastWords is what became of the state that a process was to save when an out-of-memory ended it; nil if none did,
	// or launch knows no way for its program.
	LastWords *LastWords `json:"last_words,omitempty"`
	// Pressure is what it showed of memory that ran short while it trained; nil if it showed none.
	Pressure *Pressure `json:"pressure,omitempty"`
	// Earlier are complete states that it wrote before Saved, the newest first: for the case that Saved gets lost.
	Earlier []State `json:"saved_earlier,omitempty"`
	// newer states that nothing shows to be this run's
	Strange []string `json:"strange,omitempty"`
	Torn    []string `json:"torn,omitempty"` // states that this attempt left incomplete
	// files that it left, and that the next attempt would overwrite or stop at
	Made      []string `json:"made,omitempty"`
	Blocked   string   `json:"blocked,omitempty"` // a file that an earlier attempt of this run made, at which this one stopped
	Iteration int64    `json:"iteration"`         // the last one reported
	Stepped   bool     `json:"stepped,omitempty"` // a step was reported
	Varied    bool     `json:"-"`                 // different iterations were reported
	Figures   bool     `json:"-"`                 // figures of a step were reported
	// the steps of the whole training, as the program reports them
	Total int64 `json:"total,omitempty"`
	// it reported steps and its success, even if it ended otherwise
	Claimed bool `json:"claimed,omitempty"`
	// evidence against a success: it reported too few steps
	Short string `json:"short,omitempty"`
	// Early is the line in which it printed why it ended before its last step.
	Early string `json:"stopped_early,omitempty"`
	// Courses are its reports of progress, by counter.
	Courses []Course `json:"courses,omitempty"`
	// Resumption is what became of its resume; nil if it began from the beginning.
	Resumption *Resumption `json:"resumption,omitempty"`
	// WentOn is how its count shows that it did not begin from the beginning, though it was to start over.
	WentOn string `json:"went_on,omitempty"`
	// Trained is how many steps were trained in all, where the program began to count again after a resume; else absent.
	Trained int64 `json:"trained_steps,omitempty"`
	// Doubtful is why its success is doubtful.
	Doubtful string `json:"doubtful,omitempty"`
	// Rate is the speed in samples of the global batch per second, from its first report of progress to its last;
	// absent if there were too few reports.
	Rate     float64           `json:"samples_per_second,omitempty"`
	Settings map[string]string `json:"settings,omitempty"` // of knobs, as the program printed them
	Metrics  metric.Set        `json:"metrics,omitempty"`  // as the program reported them
	// Rates are learning rates, as the program reported them.
	Rates *metric.Track `json:"learning_rates,omitempty"`
	// Updates is how many optimizer steps its training has, as the program reported it before the first one.
	Updates *metric.Track `json:"optimizer_steps,omitempty"`
	// Changed is how its training differs from that of an earlier attempt, by the program's own reports, though the plan
	// did not ask for that: its cost was then [ladder.Recipe].
	Changed   []string `json:"changed,omitempty"`
	Confirmed []string `json:"confirmed,omitempty"` // edited documents whose text the program has saved
	// Program is the process that trained; nil: it was not looked for, or not seen.
	Program *Program      `json:"program,omitempty"`
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took_ns"`
	// Checked are the values of the checks of the plugin, in their order; nil before any.
	Checked []job.CheckValues `json:"checked,omitempty"`
	// Survived is the first line about an out-of-memory, or another failure, after which the program went on.
	Survived string `json:"survived,omitempty"`
	// Advice is what its user should change, the weightiest first.
	Advice []job.Advice `json:"advice,omitempty"`
	// Inside is the report of a hook in the program; nil if no hook was wanted.
	Inside *oom.Inside `json:"inside,omitempty"`
}

// A Choice is the rung of a phase.
type Choice struct {
	Phase    string         `json:"phase"`
	Rung     int            `json:"rung"`
	Name     string         `json:"name"`
	Cost     ladder.Cost    `json:"cost"`
	Why      string         `json:"why,omitempty"` // the reason of its cost; [ladder.Rung.Why]
	Estimate mem.Estimate   `json:"estimate"`      // corrected by what this run has measured
	Verdict  ladder.Verdict `json:"verdict"`
}

// A Plan describes one attempt completely.
type Plan struct {
	Attempt int           `json:"attempt"` // counted from 1
	Trial   Trial         `json:"trial,omitempty"`
	Shared  Choice        `json:"shared"`
	Choices []Choice      `json:"choices"`
	Host    *HostChoice   `json:"host,omitempty"` // nil if the plugin does not price host memory
	Edits   []config.Edit `json:"edits,omitempty"`
	Batch   job.Batch     `json:"batch"`
	Room    unit.Bytes    `json:"room_bytes"`
	Cost    ladder.Cost   `json:"cost"` // the highest cost of its rungs
	Why     string        `json:"why"`
	Resume  *State        `json:"resume,omitempty"` // it resumes from this state; nil: it starts from the beginning
	// Order, of a rehearsal, is whether the largest batch comes first; "" where there is nothing to order.
	Order string `json:"order,omitempty"`
}

// Verdict is the worst verdict of the plan's phases.
func (p *Plan) Verdict() ladder.Verdict {
	worst := ladder.Fits
	for _, c := range p.Choices {
		worst = max(worst, c.Verdict)
	}
	return worst
}

// Need is what the plan is estimated to take of the device in its largest phase; 0 if a phase is not known.
func (p *Plan) Need() (most unit.Bytes) {
	for _, c := range p.Choices {
		if !c.Estimate.Known() {
			return 0
		}
		most = max(most, c.Estimate.Total())
	}
	return most
}

// Choice returns the choice of a phase, or nil.
func (p *Plan) Choice(phase string) *Choice {
	for i := range p.Choices {
		if p.Choices[i].Phase == phase {
			return &p.Choices[i]
		}
	}
	return nil
}

// An Attempt is a plan and its outcome.
type Attempt struct {
	Plan    Plan    `json:"plan"`
	Outcome Outcome `json:"outcome"`
}

// String names the state by its iteration, or by its file if that is unknown.
func (s State) String() string {
	if s.Iteration > 0 || s.Path == "" {
		return fmt.Sprintf("iteration %d", s.Iteration)
	}
	return filepath.Base(s.Path)
}

// A Stop is why there is no next plan.
type Stop struct {
	Why string `json:"why"`
	// Code is launch's own exit code; 0: launch exits with the last attempt's code.
	Code int `json:"code,omitempty"`
	// Beyond is the first rung that was not allowed but might help; nil if there is none.
	Beyond *Beyond `json:"beyond,omitempty"`
	// Absent is the first rung that would fit if a package were installed; nil if there is none.
	Absent *Absent `json:"absent,omitempty"`
	// Unlike lists what is no longer as when the run began, where that is why there is no further attempt.
	Unlike []string `json:"unlike,omitempty"`
	// Refused is the plan that was not allowed to start; nil if an attempt was made.
	Refused *Plan `json:"refused,omitempty"`
	// By is who asked for the end: "launch stop", or the signal of a scheduler; "" where nobody did.
	By string `json:"by,omitempty"`
}

// Ended is the end of a run whose program was stopped because someone asked for it: [Outcome.Left].
func (o *Outcome) Ended() *Stop {
	by, _, _ := strings.Cut(strings.TrimSuffix(o.Left, " ended the program"), ":")
	return &Stop{Why: o.Left, Code: TryLater, By: by}
}

// Beyond is a rung, or several of different phases, that the user has not allowed.
type Beyond struct {
	Name string      `json:"name"`
	Cost ladder.Cost `json:"cost"`
	Flag string      `json:"flag"` // the flag that allows it
	// Why is the reason of the cost, where the rung has one.
	Why string `json:"why,omitempty"`
	// Over: it starts over, because the newest state of the run cannot be read with it.
	Over bool `json:"starts_over,omitempty"`
}

// Limits are the user's limits on a run.
type Limits struct {
	Allow   ladder.Cost `json:"allow"`
	AsAsked bool        `json:"as_asked,omitempty"` // ignore estimates: change a phase only after it ran out of memory
	Fill    bool        `json:"fill,omitempty"`     // start from the top of the ladder
	Anyway  bool        `json:"anyway,omitempty"`   // run even if it is certain not to fit
	// Fast, with Fill, times a few sizes first and takes the fastest.
	Fast bool `json:"fast,omitempty"`
	// Rehearse tries every phase in a short run first.
	Rehearse bool `json:"rehearse,omitempty"`
}

// A Run is a job, its ladders and limits, the present room, and its attempts so far.
type Run struct {
	Job     *job.Job    `json:"job"`
	Ladders *ladder.Set `json:"ladders"`
	// Priced are the ladders as the plugin priced them, if receipts have corrected Ladders; else nil.
	Priced *ladder.Set `json:"priced,omitempty"`
	Limits Limits      `json:"limits"`
	// Room is the memory that the job may take on its fullest device, measured again before every attempt; 0 if no
	// device is visible.
	Room unit.Bytes `json:"room_bytes"`
	// Empty is the memory that the job could take if it had that device alone.
	Empty unit.Bytes `json:"empty_bytes,omitempty"`
	// Host: the room is host memory.
	Host bool `json:"host,omitempty"`
	// Shared: the device has no memory of its own, and its room is a part of host memory.
	Shared bool `json:"shared,omitempty"`
	// Rooms are host memory and /dev/shm, measured again before every attempt.
	Rooms ladder.HostRooms `json:"rooms"`
	// Left is the state that was left by an attempt whose launch was killed.
	Left *State `json:"left,omitempty"`
	// Cut is the progress of attempts that no longer count: one whose launch was killed, and those that were
	// interrupted or failed before the run was resumed. nil if there are none.
	Cut      *Progress `json:"cut,omitempty"`
	Attempts []Attempt `json:"attempts,omitempty"`
	// Gone are attempts from before the run was taken up again that no longer count for what is planned.
	Gone []Attempt `json:"-"`
	// Mixed are the moments from which the run is no longer the one that it began as.
	Mixed []Mix `json:"-"`
	// Numbered is the highest number of an attempt that was planned before the run was taken up again. The next one is
	// higher, so that no two attempts have the same number.
	Numbered int `json:"numbered,omitempty"`
	// Over: the user has told it to start over, so that no state from before is its own.
	Over bool `json:"-"`
	// Begun are the courses of attempts from the beginning that no longer count.
	Begun [][]Course `json:"-"`
}

// A Mix is a moment from which a run has gone on although something was not what it began with: its result is that of
// two experiments.
type Mix struct {
	From  int64    `json:"from"`            // the step of the state that it resumed from; 0: unknown, or none
	State string   `json:"state,omitempty"` // the name of that state
	What  []string `json:"what"`            // what differs, one line each
}

// String is "mixed from step 3: train.py has changed".
func (m Mix) String() string {
	from := "mixed"
	switch {
	case m.From > 0:
		from = fmt.Sprintf("mixed from step %d", m.From)
	case m.State != "":
		from = "mixed from " + m.State
	}
	return from + ": " + strings.Join(m.What, "; ")
}

// Progress is how far an attempt came, by the program's own reports.
type Progress struct {
	Iteration int64 `json:"iteration"`
	Total     int64 `json:"total,omitempty"`
	Succeeded bool  `json:"succeeded,omitempty"` // it reported its success
}

// Further returns, field by field, the larger progress of the two.
func (p *Progress) Further(q Progress) *Progress {
	if p == nil {
		return &q
	}
	return &Progress{max(p.Iteration, q.Iteration), max(p.Total, q.Total), p.Succeeded || q.Succeeded}
}

// number returns the number of the next attempt.
func (r *Run) number() int {
	n := r.Numbered
	if last := r.Last(); last != nil {
		n = max(n, last.Plan.Attempt, len(r.Attempts))
	}
	return n + 1
}

// Last returns the last attempt, or nil.
func (r *Run) Last() *Attempt {
	if len(r.Attempts) == 0 {
		return nil
	}
	return &r.Attempts[len(r.Attempts)-1]
}

// Metrics returns the metrics of a training that several attempts have carried out. An attempt that starts over forgets
// those before it; one that resumes goes on from what was reported up to its saved state.
func Metrics(attempts []Attempt) (all metric.Set) {
	for i := range attempts {
		switch a := &attempts[i]; {
		case a.Plan.Trial != "":
		case a.Plan.Resume == nil:
			all = a.Outcome.Metrics
		default:
			all = a.Outcome.Metrics.Continued(all, a.Plan.Resume.Iteration)
		}
	}
	return all
}

// Changes names, in one line, the rungs of the plan that differ from the job as asked.
func (p *Plan) Changes() string {
	switch device := p.onDevice(); {
	case p.Host.rung() == 0:
		return device
	case device == AsAsked:
		return p.Host.Name
	default:
		return device + "; " + p.Host.Name
	}
}

// CostsBecause is the reason why the plan costs what it does, where a rung has one.
func (p *Plan) CostsBecause() string {
	for _, c := range append([]Choice{p.Shared}, p.Choices...) {
		if c.Why != "" && c.Cost == p.Cost {
			return c.Why
		}
	}
	return ""
}

// onDevice names the rungs of the ladders for the device's memory.
func (p *Plan) onDevice() string {
	var names []string
	for _, c := range append([]Choice{p.Shared}, p.Choices...) {
		if c.Name != AsAsked {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return AsAsked
	}
	return strings.Join(names, "; ")
}
