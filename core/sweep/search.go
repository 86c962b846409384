package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
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
