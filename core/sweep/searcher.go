package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/unit"
)

// A Searcher lists the next trials from what happened so far. It is a pure function: the same history gives the same
// trials. done means that no more trials will come. No trials and not done means: ask again when a trial has ended.
type Searcher interface {
	Next(*History) (next []Trial, done bool)
}

// Rows is a searcher with a fixed list of trials.
type Rows []Trial

// Next implements [Searcher].
func (r Rows) Next(h *History) (next []Trial, done bool) {
	if n := len(h.Rows); n < len(r) {
		next = slices.Clone(r[n:])
	}
	return next, true
}

// A Verdict is what a search learns of a trial.
type Verdict int

// The verdicts.
const (
	Open       Verdict = iota // it has not ended, or it may run again: it found no room, or was interrupted
	Scored                    // it has a value
	Bad                       // it failed, or its metric did
	Infeasible                // it needs more memory than there is, at every cost that is allowed; that is no value
)

// A Score is the verdict on a trial with its reason.
type Score struct {
	Verdict   Verdict
	Value     float64 // of Scored: the best value
	Direction metric.Direction
	Why       string // of Bad and Infeasible
	// Peak is the memory that the trial took or, if it was refused or ran out of memory, needs at the least; Room is what
	// there was. 0: not known.
	Peak, Room unit.Bytes
}

// Score judges a row by a metric.
func (r *Row) Score(name string) Score {
	res := r.Result
	switch r.State {
	case Waiting, Running, NoRoom, Interrupted, Died:
		return Score{}
	}
	if res == nil {
		return Score{Verdict: Bad, Why: string(r.State)}
	}
	s := Score{Verdict: Bad, Why: res.Why, Peak: max(res.Peak, res.Need), Room: res.Room}
	if s.Why == "" {
		s.Why = string(r.State)
	}
	switch r.State {
	case CannotFit, OutOfMemory:
		s.Verdict = Infeasible
		return s
	case Failed, Doubtful:
		return s
	}
	m, err := res.metric(name)
	switch {
	case err != nil:
		s.Why = err.Error()
	case m.Diverged || m.Best == nil:
		s.Why = m.Name + " is no finite number"
	default:
		s.Verdict, s.Value, s.Direction, s.Why = Scored, m.Best.Value, m.Direction, ""
	}
	return s
}

// metric returns a metric of a result, or why there is none.
func (r *Result) metric(name string) (metric.Metric, error) {
	names := r.Metrics.Names()
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	m, ok := r.Metrics[name]
	switch {
	case ok:
		return m, nil
	case len(names) == 0 && !r.Known:
		return m, errors.New("it reported no metric: no plugin recognised the command, and .launch-job.yaml describes " +
			"none. " +
			"To declare its settings: launch init -- COMMAND")
	case len(names) == 0:
		return m, errors.New("it reported no metric")
	case name == "":
		return m, fmt.Errorf("it reported several metrics (%s): choose one with --metric", strings.Join(names, ", "))
	}
	return m, fmt.Errorf("it reported no metric %q, but %s", name, strings.Join(names, ", "))
}
