package sweep

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// Version of the journal. A reader accepts older ones and refuses newer ones.
const Version = 1

// The kinds of event in a journal.
const (
	Began   = "sweep"    // the sweep, with its Spec
	Listed  = "trials"   // trials that the searcher has listed
	Priced  = "priced"   // what the trials need, estimated before they run
	Started = "started"  // a trial is about to be started
	Ended   = "ended"    // a start of a trial is over
	PutBack = "put back" // a running trial is about to be stopped, to be run again later
	// Continued: the run of a row that had not succeeded was continued by hand, and has; with its Result.
	Continued = "continued"
	Taken     = "taken"   // another process drives the sweep from here on
	Stopped   = "stopped" // the process that drove the sweep has stopped
)

// An Event is one line of a journal.
type Event struct {
	Version int       `json:"v"`
	Time    time.Time `json:"time"`
	Kind    string    `json:"event"`
	Spec    *Spec     `json:"spec,omitempty"`
	Trials  []Trial   `json:"trials,omitempty"`
	Quotes  []Quote   `json:"quotes,omitempty"`
	Done    bool      `json:"done,omitempty"`   // no more trials will be listed
	Trial   int       `json:"trial,omitempty"`  // of Started, Ended, PutBack
	Start   int       `json:"start,omitempty"`  // which start of the trial this is, from 1
	Resume  string    `json:"resume,omitempty"` // the run that this start resumes; "": it starts from the beginning
	Card    *Card     `json:"card,omitempty"`   // of Started: on which the trial runs
	Result  *Result   `json:"result,omitempty"`
	// Identity, of Taken, is what the sweep is from here on, and Mixed what of it is not as it began.
	Identity *identity.Identity `json:"identity,omitempty"`
	Mixed    []string           `json:"mixed,omitempty"`
	Again    bool               `json:"again,omitempty"`     // of Taken: rows that did not succeed run again
	Why      string             `json:"why,omitempty"`       // of Stopped and PutBack
	Code     int                `json:"exit_code,omitempty"` // of Stopped: launch's
	PID      int                `json:"pid,omitempty"`       // of Began and Taken: the process that drives the sweep
}

// A Spec is a sweep as asked.
type Spec struct {
	Name    string   `json:"name"`
	ID      string   `json:"id,omitempty"`      // of this sweep alone; "": it is older than marks
	Command []string `json:"command,omitempty"` // secrets masked
	Dir     string   `json:"dir"`               // where the sweep was started
	Flags   []string `json:"flags,omitempty"`   // launch's, given to every trial
	Space   Space    `json:"space"`
	Jobs    int      `json:"jobs"` // how many run at the same time; 0, with Pack: as many as the cards take
	// Pack places the trials on this machine's cards.
	Pack bool `json:"pack,omitempty"`
	// Engine is what runs the trials: nil is this machine.
	Engine *Engine `json:"on,omitempty"`
	Search *Search `json:"search,omitempty"` // nil: the space is a list
	// Shared are settings of the one plan of --same-plan, for every trial.
	Shared     Assignment   `json:"same_plan,omitempty"`
	SharedCost *ladder.Cost `json:"same_plan_cost,omitempty"` // nil: without --same-plan
	Tree       *Tree        `json:"tree,omitempty"`           // the code that the sweep began with; nil: not under git
	Snapshot   string       `json:"snapshot,omitempty"`       // the folder of a copy of the code, in which the trials run
	// Identity is what the sweep began as, without the values of its rows; nil: not recorded.
	Identity *identity.Identity `json:"identity,omitempty"`
}

// Mark is what the record of a run has that a start of a trial began or resumed: no other row ever has the same.
func (s Spec) Mark(trial, start int) string {
	return fmt.Sprintf("%s/%d/%d/%s", s.Name, trial, start, s.ID)
}

// An Engine is a batch system that runs the trials.
type Engine struct {
	Name     string        `json:"engine"`             // "slurm"
	Options  []string      `json:"options,omitempty"`  // its own, as the user gave them
	Throttle int           `json:"throttle,omitempty"` // how many trials may run at the same time; 0: no limit of launch's
	Memory   unit.Bytes    `json:"memory_bytes,omitempty"`
	GPUs     int           `json:"gpus,omitempty"`
	Before   time.Duration `json:"before_ns"` // how long before its time limit a trial is asked to save
}

// A Card is where a trial runs.
type Card struct {
	UUID  string `json:"uuid"`
	Index int    `json:"index"` // in the driver's order
}

func (c *Card) String() string {
	if strings.HasPrefix(c.UUID, "MIG-") { // the slices of a card have its index
		return c.UUID
	}
	return strconv.Itoa(c.Index)
}

// A Tree identifies the code that a sweep runs.
type Tree struct {
	Root    string `json:"root"`
	Commit  string `json:"commit"`            // "" before the first commit
	Changes string `json:"changes,omitempty"` // a hash of what differs from the commit; "": nothing
}

// A State is the state of a row.
type State string

// The states of a row. Those of a trial that has ended come from its ending and exit code.
const (
	Waiting     State = "waiting"
	Running     State = "running"
	Succeeded   State = "succeeded"
	Doubtful    State = run.Doubtful // it exited 0, and its own reports contradict a success
	Failed      State = "failed"
	OutOfMemory State = "out of memory"
	CannotFit   State = "cannot fit"
	NoRoom      State = "no room"
	Interrupted State = "interrupted"
	Died        State = "lost"
)

// state is the state of a row whose last start ended so.
func (r *Result) state() State {
	switch {
	case r.Ending == Lost:
		return Died
	case r.Ending == run.Interrupted:
		return Interrupted
	case r.Code == run.TryLater && r.Ending != run.Succeeded:
		return NoRoom
	case r.Ending == Refused:
		return CannotFit
	case r.Ending == run.Succeeded && r.Code == 0 && r.Doubtful != "":
		return Doubtful
	case r.Ending == run.Succeeded && r.Code == 0:
		return Succeeded
	case r.Ending == run.OutOfMemory:
		return OutOfMemory
	}
	return Failed
}

// A Row is a trial and what came of it.
type Row struct {
	Trial
	State  State
	Starts int
	Resume string    // the run that its present start resumes
	Begun  time.Time // of the last start
	Over   time.Time // of its end; zero while it runs
	Quote  *Quote    // nil: it was not priced
	Result *Result   // of the last start that ended with a result; nil: none
	Card   *Card     // of the last start; nil: the trial found its own
	Stays  []Stay    // of all starts on cards, the last one without its end while it runs
	// Order numbers the starts of the sweep: the youngest trial has the highest number.
	Order int
	// Stops counts how often the trial was asked to stop and was put back, and PutBack is why the last time.
	Stops   int
	PutBack string
	// Crowded counts how often the trial ran out of memory while others held a part of its card, and Shared is true if a
	// trial of this sweep was among them.
	Crowded int
	Shared  bool
	AtLeast unit.Bytes // what it had the last time; 0: not known

	// Mixed lists what was no longer as when the sweep began when the row started; nil: nothing.
	Mixed []string

	runs    []tally
	lost    int  // starts in a row that ended without a result
	fresh   bool // its run cannot be resumed
	putBack bool // it was asked to stop, and runs again later
	ends    int  // how many ends of other trials had been seen when this one found no room
}

// A tally is what one run of a row took so far.
type tally struct {
	run             string
	attempts, short int
	took            time.Duration
}

// A Stay is the time of one start of a trial on a card.
type Stay struct {
	Card     string // its UUID
	From, To time.Time
}

// Stopping reports whether the running trial was asked to stop, to be run again later.
func (r *Row) Stopping() bool { return r.putBack && r.State == Running }

// StartsOver reports whether the run of the trial's last start could not be resumed.
func (r *Row) StartsOver() bool { return r.fresh && r.Resume != "" }

// MostCrowded is how often a trial that ran out of memory beside others runs again at once. After that it waits until
// another one has ended.
const MostCrowded = 3

// MostLost is how many times in a row a trial may end without a result before it counts as failed.
const MostLost = 3

// Run is the run that the row's next start can resume; "" if it has to start from the beginning.
func (r *Row) Run() string {
	if r.fresh || r.Result == nil || !r.Result.Known || r.Result.Ending == Refused {
		return ""
	}
	return r.Result.Run
}

// Left is the run of a row that has ended without a success; "" if there is none.
func (r *Row) Left() string {
	if r.Result == nil || r.State == Succeeded || r.State == Doubtful || r.State == Running {
		return ""
	}
	return r.Result.Run
}

// A History is a sweep as its journal has it.
type History struct {
	Spec   Spec
	Rows   []*Row // row i is trial i+1
	quotes map[int]*Quote
	Done   bool   // the searcher lists no more trials
	Over   *Event // the last [Stopped]; nil while a process drives the sweep, or if it was killed
	PID    int    // of the process that drove the sweep last
	At     time.Time
	Torn   bool // a line could not be read

	// Mixed lists what is no longer as when the sweep began, since its user accepted that.
	Mixed []string

	ends   int // of trials that had found room
	starts int // of trials
}

// Replay builds a history from its events. Events that contradict what came before are skipped.
func Replay(events []Event) (*History, error) {
	h := &History{}
	for i := range events {
		if events[i].Version > Version {
			return nil, fmt.Errorf("the sweep was recorded by a newer launch (version %d, this one reads %d)",
				events[i].Version, Version)
		}
		h.Apply(events[i])
	}
	return h, nil
}

// Row returns the row of a trial, or nil.
func (h *History) Row(trial int) *Row {
	if trial < 1 || trial > len(h.Rows) {
		return nil
	}
	return h.Rows[trial-1]
}

// Apply adds an event to the history.
func (h *History) Apply(e Event) {
	row := h.Row(e.Trial)
	switch {
	case e.Kind == Began && e.Spec != nil:
		h.Spec, h.PID, h.At = *e.Spec, e.PID, e.Time
	case e.Kind == Listed:
		for _, t := range e.Trials {
			if t.Number == len(h.Rows)+1 {
				h.Rows = append(h.Rows, &Row{Trial: t, State: Waiting, Quote: h.quotes[t.Number]})
			}
		}
		h.Done = h.Done || e.Done
	case e.Kind == Priced:
		h.priced(e.Quotes)
	case e.Kind == Taken:
		h.Over, h.PID = nil, e.PID
		if e.Identity != nil {
			h.Spec.Identity, h.Mixed = e.Identity, append(h.Mixed, e.Mixed...)
		}
		if e.Again {
			h.again()
		}
	case e.Kind == Stopped:
		h.Over = &e
	case row == nil:
	case e.Kind == Started && e.Start == row.Starts+1:
		row.Starts, row.State, row.Resume = e.Start, Running, e.Resume
		row.Begun, row.Over, row.putBack, row.PutBack = e.Time, time.Time{}, false, ""
		row.Mixed = h.Mixed
		h.starts++
		if row.Card, row.Order = e.Card, h.starts; e.Card != nil {
			row.Stays = append(row.Stays, Stay{Card: e.Card.UUID, From: e.Time})
		}
	case e.Kind == Continued && e.Result != nil && row.Left() != "" && e.Result.Run == row.Left():
		row.take(e.Result)
		row.State, row.Over = e.Result.state(), e.Time
	case e.Kind == PutBack && row.State == Running:
		row.putBack, row.PutBack = true, e.Why
	case e.Kind == Ended && e.Result != nil && e.Start == row.Starts && row.State == Running:
		h.ended(row, e)
	}
}

// priced keeps quotes; they may come before their trials are listed.
func (h *History) priced(quotes []Quote) {
	if h.quotes == nil {
		h.quotes = map[int]*Quote{}
	}
	for i, q := range quotes {
		h.quotes[q.Trial] = &quotes[i]
		if row := h.Row(q.Trial); row != nil {
			row.Quote = &quotes[i]
		}
	}
}

// ended gives a row the result of its last start.
func (h *History) ended(row *Row, e Event) {
	row.Over = e.Time
	if n := len(row.Stays); n > 0 && row.Card != nil {
		row.Stays[n-1].To = e.Time
	}
	now := e.Result.state()
	if row.Resume != "" && e.Result.Ending == NotRun && now == Failed && len(e.Result.Unlike) == 0 {
		// the run cannot be resumed: it starts over
		row.State, row.fresh = Waiting, true
		return
	}
	if row.lost++; now != Died {
		row.lost = 0
	}
	if row.State = now; now == Died && row.lost >= MostLost {
		row.State = Failed
	}
	if row.putBack && (now == Interrupted || now == Died || now == NoRoom) {
		row.State, row.lost = Waiting, 0
		row.Stops++
	}
	if len(e.Result.Unlike) > 0 && e.Result.Ending == NotRun { // its next start may resume the run, with --accept
		e.Result.Run, e.Result.Known = row.Resume, true
	}
	row.take(e.Result)
	if now == NoRoom && e.Result.Ending == run.OutOfMemory && row.Card != nil {
		h.crowded(row, e)
	}
	if now == NoRoom {
		row.ends = h.ends
		return
	}
	h.ends++
}

// take gives a row a result, with the attempts and the time of the row as a whole: a result has those of its own run
// alone, and none where its launch left nothing.
func (row *Row) take(of *Result) {
	res := *of // the event stays as it was written
	own := tally{run: res.Run, attempts: res.Attempts, short: res.Short, took: res.Took}
	if n := len(row.runs) - 1; n >= 0 && own.run != "" && row.runs[n].run == own.run {
		was := row.runs[n]
		row.runs = row.runs[:n]
		own.attempts, own.short = max(own.attempts, was.attempts), max(own.short, was.short)
		own.took = max(own.took, was.took)
	}
	row.runs = append(row.runs, own)
	res.Attempts, res.Short, res.Took = 0, 0, 0
	for _, t := range row.runs {
		res.Attempts, res.Short, res.Took = res.Attempts+t.attempts, res.Short+t.short, res.Took+t.took
	}
	row.Result = &res
}

// crowded is for a row that ran out of memory while others held a part of its card. That is no result.
func (h *History) crowded(row *Row, e Event) {
	if e.Result.PeakIs == run.Used {
		row.AtLeast = max(row.AtLeast, e.Result.Peak)
	}
	for _, o := range h.Rows {
		beside := o != row && o.Card != nil && o.Card.UUID == row.Card.UUID && o.Starts > 0 &&
			(o.State == Running || e.Time.Sub(o.Over) < lingers && o.Over.After(row.Begun))
		row.Shared = row.Shared || beside
	}
	if row.Crowded++; row.Crowded <= MostCrowded {
		row.State = Waiting
	}
}

// lingers is how long after its end a trial may be the reason why another one ran out of memory: programs take their
// time to end.
const lingers = time.Minute

// again makes rows that did not succeed wait again. One that is doubtful came to its own end, and would do so again. In
// a search a failure is an answer, which it knows already.
// Rows that are running stay: their launch may live.
func (h *History) again() {
	for _, r := range h.Rows {
		settled := h.Spec.Search != nil && (r.State == CannotFit || r.State == OutOfMemory || r.State == Failed)
		if r.State != Succeeded && r.State != Doubtful && r.State != Running && !settled {
			r.State, r.lost, r.fresh, r.Crowded = Waiting, 0, false, 0
		}
	}
}

// Waiting lists the rows that may be started now. A trial that found no room waits until another one has ended.
func (h *History) Waiting() (rows []*Row) {
	for _, r := range h.Rows {
		if r.State == Waiting || r.State == Died || r.State == NoRoom && r.ends < h.ends {
			rows = append(rows, r)
		}
	}
	return rows
}

// Running lists the rows that are running.
func (h *History) Running() (rows []*Row) {
	for _, r := range h.Rows {
		if r.State == Running {
			rows = append(rows, r)
		}
	}
	return rows
}

// Count returns how many rows have each state.
func (h *History) Count() map[State]int {
	n := map[State]int{}
	for _, r := range h.Rows {
		n[r.State]++
	}
	return n
}

// Code is the exit code of the sweep: 0 if every row succeeded, 1 if one failed or is doubtful; if the others only did
// not run, 75 or 78. 75 comes before 78: there is something to gain by another try. What a
// search found to be infeasible is one of its answers.
func (h *History) Code() int {
	n := h.Count()
	if h.Spec.Search != nil && n[Succeeded] > 0 {
		delete(n, CannotFit)
		delete(n, OutOfMemory)
	}
	switch {
	case n[Failed]+n[OutOfMemory]+n[Died]+n[Doubtful] > 0:
		return 1
	case n[NoRoom] > 0:
		return run.TryLater
	case n[CannotFit] > 0:
		return run.CannotFit
	case n[Waiting]+n[Running]+n[Interrupted] == 0 && h.Done:
		return 0
	}
	return 1
}
