package sweep

import (
	"testing"
	"time"

	"github.com/launch-ml/launch/core/run"
)

// A run that was continued by hand, and has succeeded, is its row's result: the row does not run again.
func TestContinued(t *testing.T) {
	short := Result{Ending: run.OutOfMemory, Code: 1, Run: "R1", Known: true}
	good := Result{Ending: run.Succeeded, Run: "R1", Known: true, Mixed: []string{"mixed from step 2"}}
	other := Result{Ending: run.Succeeded, Run: "R2"}
	for name, tt := range map[string]struct {
		result Result
		want   State
	}{"its run": {good, Succeeded}, "another run": {other, Waiting}} {
		h, err := Replay([]Event{{Kind: Listed, Trials: []Trial{{Number: 1}}, Done: true},
			{Kind: Started, Trial: 1, Start: 1},
			{Kind: Ended, Trial: 1, Start: 1, Result: &short}, {Kind: Continued, Trial: 1, Result: &tt.result},
			{Kind: Taken, Again: true}})
		if err != nil || h.Rows[0].State != tt.want || tt.want == Succeeded && len(h.Rows[0].Result.Mixed) != 1 {
			t.Errorf("%s: %+v, %v", name, h.Rows[0], err)
		}
	}
}

// A row's attempts and their time are of all its starts: a result has those of its own run, and none if its launch left
// nothing.
func TestWhole(t *testing.T) {
	of := func(run string, attempts, short int, took time.Duration) Result {
		return Result{Ending: "interrupted", Code: 130, Run: run, Known: true, Attempts: attempts, Short: short, Took: took}
	}
	lost := Result{Ending: Lost, Run: "R1", Known: true}
	for name, tt := range map[string]struct {
		starts []Result
		want   tally
	}{
		"resumed":                 {[]Result{of("R1", 2, 1, 5), of("R1", 3, 1, 9)}, tally{attempts: 3, short: 1, took: 9}},
		"another run":             {[]Result{of("R1", 2, 1, 5), of("R2", 1, 0, 4)}, tally{attempts: 3, short: 1, took: 9}},
		"not recorded":            {[]Result{of("", 1, 0, 5), of("", 1, 0, 4)}, tally{attempts: 2, took: 9}},
		"a launch without result": {[]Result{of("R1", 2, 1, 5), lost}, tally{attempts: 2, short: 1, took: 5}},
		"and resumed": {[]Result{of("R1", 2, 1, 5), lost, of("R1", 4, 1, 8)}, tally{attempts: 4, short: 1,
			took: 8}},
	} {
		events := []Event{{Kind: Listed, Trials: []Trial{{Number: 1}}, Done: true}}
		for i := range tt.starts {
			events = append(events, Event{Kind: Started, Trial: 1, Start: i + 1, Resume: tt.starts[i].Run},
				Event{Kind: Ended, Trial: 1, Start: i + 1, Result: &tt.starts[i]}, Event{Kind: Taken, Again: true})
		}
		before := tt.starts[len(tt.starts)-1]
		h, err := Replay(events)
		if err != nil {
			t.Fatal(err)
		}
		res := h.Rows[0].Result
		if got := (tally{attempts: res.Attempts, short: res.Short, took: res.Took}); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
		if after := tt.starts[len(tt.starts)-1]; after.Attempts != before.Attempts {
			t.Errorf("%s: the event was changed", name)
		}
	}
}
