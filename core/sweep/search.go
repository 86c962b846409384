package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/unit"
)

// A Search is how a sweep chooses trials by what earlier ones reported.
type Search struct {
	// Metric is the name of the metric that counts; "": the one that a trial reports, if there is only one.
	Metric string `json:"metric,omitempty"`
	// Halve is successive halving; nil: without.
	Halve *Rungs `json:"halve,omitempty"`
	// Ask is the command of a program that chooses the trials; empty: none does.
	Ask []string `json:"ask,omitempty"`
	// Patience is how long that program may take for an answer; 0: as long as it wants.
	Patience time.Duration `json:"ask_timeout_ns,omitempty"`
}

// Rungs are the lengths of successive halving: the values of the key that sets how long a training is.
type Rungs struct {
	Key     string   `json:"key"`
	Lengths []string `json:"lengths"` // as written; they rise
}

// ParseRungs reads "KEY=LENGTH,LENGTH,…".
func ParseRungs(text string) (*Rungs, error) {
	d, err := ParseGrid(text)
	if err != nil {
		return nil, err
	}
	r := &Rungs{Key: d.Keys[0], Lengths: d.Values[0].List}
	return r, r.check()
}

func (r *Rungs) check() error {
	if len(r.Lengths) < 2 {
		return fmt.Errorf("%s: successive halving needs at least two lengths", r.Key)
	}
	for i, text := range r.Lengths {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n <= 0 {
			return fmt.Errorf("%s: %q is not a length", r.Key, text)
		}
		if i > 0 && n <= r.length(i-1) {
			return fmt.Errorf("%s: the lengths have to rise", r.Key)
		}
	}
	return nil
}

// length is the length of a rung as a number.
func (r *Rungs) length(rung int) float64 {
	n, _ := strconv.ParseFloat(r.Lengths[rung], 64)
	return n
}

// check returns an error if a search contradicts the space, which may be searched by one means alone.
func (s *Search) check(space Space, command []string) error {
	switch {
	case s == nil:
		return nil
	case s.Halve != nil && len(s.Ask) > 0:
		return errors.New("a searcher program decides itself how long a trial is: give it or successive halving")
	case len(command) == 0:
		return errors.New("a search needs a command: put it after --")
	case len(s.Ask) > 0 && len(space.Dimensions)+len(space.Seeds)+len(space.Where)+len(space.Only) > 0:
		return errors.New("a searcher program gives the trials their values: leave out the keys")
	case s.Patience < 0:
		return errors.New("--ask-timeout cannot be negative")
	case len(s.Ask) == 0 && s.Patience > 0:
		return errors.New("--ask-timeout is for --ask")
	case len(s.Ask) == 0 && s.Halve == nil && s.Metric != "":
		return errors.New("--metric is for a search: add --halve or --ask")
	case s.Halve == nil:
		return nil
	}
	if slices.Contains(reserved, s.Halve.Key) {
		return fmt.Errorf("%s cannot be the length: {%s} is the trial's own", s.Halve.Key, s.Halve.Key)
	}
	for _, d := range slices.Concat(space.Dimensions, space.Seeds) {
		if slices.Contains(d.Keys, s.Halve.Key) {
			return fmt.Errorf("%s has values twice", s.Halve.Key)
		}
	}
	return errors.Join(CheckKey(s.Halve.Key), s.Halve.check())
}

// CheckKey returns an error if a text cannot be a key.
func CheckKey(key string) error {
	switch {
	case strings.ContainsAny(key, "{}= \t\n\x00") || key == "env:" || strings.Trim(key, "-") == "":
		return fmt.Errorf("%q cannot be a key", key)
	}
	return nil
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
