package oom

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/unit"
)

// A State is what the signs have shown so far.
type State struct {
	Phase       string // the current one: of the last Phase sign that has not ended; "training" once started; "" before
	Iteration   int64  // the highest; -1 before any
	Moved       bool   // there was a Progress sign other than of iteration 0, which a bar shows before training begins
	Varied      bool   // Progress signs had different iterations
	Figures     bool   // a Progress sign was on a line with what only a step has: its loss
	Total       int64  // of the last Progress sign that had one
	Saved       *Event // the last saved state
	Resumed     *Event
	Started     bool
	Succeeded   bool
	Failed      bool
	Interrupted bool
	OutOfMemory int // OutOfMemory signs
	Survived    int // Survived signs
	Peak        unit.Bytes
	Settings    map[string]string // knob: value, as the program confirmed it
	Metrics     metric.Set
	Rates       *metric.Track // the learning rate
	Updates     *metric.Track // how many optimizer steps the training has
	Events      int
	outer       string // the phase to which PhaseEnd returns
	Announced   int64  // the total of a Started sign; 0 for none
	restarts    bool   // Progress counts from the beginning again, as a bar does that has an epoch's steps

	// Checks are the values of the plugin's checks, in their order; nil before any.
	Checks []job.CheckValues
	// SurvivedLine is the first line with a Survived sign.
	SurvivedLine string
}

// another reports whether a bar counts something else than the steps of the training: the program has announced their
// number, and this is another one.
func (t *State) another(e Event) bool {
	return e.Kind == job.Progress && e.Total > 0 && t.Announced > 0 && e.Total != t.Announced
}

func (t *State) take(e Event) {
	if t.Events == 0 {
		t.Iteration = -1
	}
	t.Events++
	switch e.Kind {
	case job.Started:
		t.Started = true
		if e.Total > 0 {
			t.Total, t.Announced = e.Total, e.Total
		}
		t.Phase, t.outer = "training", "training"
	case job.Progress:
		t.restarts = t.restarts || e.Iteration < t.Iteration
		t.Varied = t.Varied || t.Moved && e.Iteration != t.Iteration
		t.Moved = t.Moved || e.Iteration != 0
		t.Figures = t.Figures || e.Figures()
		if e.Total > 0 {
			t.Total = e.Total
		}
		t.Iteration = max(t.Iteration, e.Iteration)
		t.Phase, t.outer = "training", "training"
	case job.SavedState:
		t.Saved = &e
	case job.Resumed:
		t.Resumed = &e
		t.Iteration = max(t.Iteration, e.Iteration)
	case job.Phase:
		if t.Phase != e.Phase {
			t.outer, t.Phase = t.Phase, e.Phase
		}
	case job.PhaseEnd:
		if t.Phase == e.Phase {
			t.Phase = t.outer
		}
	case job.Memory:
		t.Peak = max(t.Peak, e.Bytes)
	case job.OutOfMemory:
		t.OutOfMemory++
	case job.Survived:
		if t.Survived++; t.Survived == 1 {
			t.SurvivedLine = e.Line.Text
		}
	case job.Interrupted:
		t.Interrupted = true
	case job.Succeeded:
		t.Succeeded = true
	case job.Failed:
		t.Failed = true
	case job.Setting:
		if t.Settings == nil {
			t.Settings = map[string]string{}
		}
		t.Settings[e.Knob] = e.Value
	case job.Metric:
		t.measure(e)
	case job.Rate, job.Updates:
		t.compared(e)
	}
}

// compared keeps a value by which attempts are compared.
func (t *State) compared(e Event) {
	switch {
	case e.Kind == job.Rate:
		t.Rates = t.track(t.Rates, e)
	case !t.Moved: // later it may be how many updates were made
		t.Updates = t.track(t.Updates, e)
	}
}

// track adds a value by its step. Where steps count from the beginning again, as in an epoch's bar, it has no place.
func (t *State) track(to *metric.Track, e Event) *metric.Track {
	v, err := metric.Parse(e.Value)
	step := e.Step
	if !t.Moved && step <= 0 {
		step = metric.NoStep
	}
	if err != nil || t.restarts || t.Moved && step == metric.NoStep {
		return to
	}
	if to == nil {
		to = &metric.Track{}
	}
	to.Add(metric.Point{Value: v, Step: step})
	return to
}

// measure adds a value of a metric. What is no number is none: a pattern may match more than its author meant.
func (t *State) measure(e Event) {
	v, err := metric.Parse(e.Value)
	if err != nil {
		return
	}
	t.Metrics.Add(e.Name, e.Direction, metric.Point{Value: v, Step: e.Step})
}

// value takes a value of a check.
func (t *State) value(checks []job.Check, e Event) {
	if t.Checks == nil {
		t.Checks = make([]job.CheckValues, len(checks))
	}
	t.Checks[e.Check].Add(checks[e.Check], e.Series, job.CheckPoint{Value: e.Value, Step: e.Step,
		Line: strings.TrimSpace(e.Line.Text)})
}

// values adds those of a stream, whose values count if it is the log, or if no stream before had any.
func (t *State) values(of []job.CheckValues, isLog bool) {
	for i, v := range of {
		if t.Checks == nil {
			t.Checks = make([]job.CheckValues, len(of))
		}
		if has := len(v.Series) > 0 || v.Early > 0; has && (isLog || len(t.Checks[i].Series) == 0) {
			t.Checks[i] = v
		}
	}
}

// trainedOn reports whether a step was made since the last state was saved: what was printed of that is over.
func (t *State) trainedOn() bool {
	return t.Saved != nil && t.Saved.Step >= 0 && t.Iteration > t.Saved.Step && !t.restarts
}

// fine reports whether the signs allow a success.
func (t *State) fine(mustSucceed bool) bool {
	return !t.Failed && !t.Interrupted && (t.Succeeded || !mustSucceed && t.OutOfMemory <= t.Survived)
}

// Stepped reports whether the program reported a step. For a program whose success is shown by progress alone, each report is
// of a finished step, the one of iteration 0 as well.
func (t *State) Stepped(signs job.Signs) bool {
	if t.Moved {
		return true
	}
	return t.Succeeded && slices.ContainsFunc(signs.Lines, func(s job.Sign) bool {
		return s.Kind == job.Succeeded && slices.ContainsFunc(signs.Lines, func(p job.Sign) bool { return p.Kind == job.Progress && p.Pattern == s.Pattern })
	})
}
