package oom

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/job"
)

// heard writes a log in pieces of a size and returns the signs that were heard, each with its line.
func heard(t *testing.T, log string, piece int) (events []string, state State) {
	t.Helper()
	d := newDetector(t, trainer)
	d.OnEvent = func(e Event) {
		events = append(events, fmt.Sprintf("%s %s %d line %d", e.Kind, e.Phase, e.Iteration, e.Line.Number))
	}
	for at := 0; at < len(log); at += piece {
		write(t, d, Terminal, log[at:min(len(log), at+piece)])
	}
	return events, d.State()
}

func steps(from, to int, form string) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, form, i)
	}
	return b.String()
}

const (
	plainStep = "INFO: [epoch:  0, iter: %d, lr:(2.0e-04,)] l: 0.1\n"
	richStep  = "[11/21/26 21:00:00] INFO     [epoch:  0, iter: %d, lr:(2.0e-04,)] l: 0.1        train.py:26\n"
)

// TestFlood: however a flood of progress is cut into pieces, every sign of it is heard, in its place.
func TestFlood(t *testing.T) {
	for name, form := range map[string]string{"plain": plainStep, "rich": richStep} {
		t.Run(name, func(t *testing.T) {
			log := trainingLog + steps(1200, 2000, form) + "INFO: Saving 3 validation images\n" + "INFO: Validation x done\n" + steps(2000, 2500, form) +
				"INFO: Saving models and training states to experiments/y for epoch: 0, iter: 2499.\n" + "nothing\n" + steps(2500, 2600, form)
			each, want := heard(t, log, 1)
			all, got := heard(t, log, len(log))
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(State{})); diff != "" {
				t.Errorf("the state (-byte by byte +at once):\n%s", diff)
			}
			if diff := cmp.Diff(each, all); diff != "" || len(each) < 1400 {
				t.Errorf("%d signs were heard byte by byte, at once others:\n%s", len(each), diff)
			}
			var order []string
			for _, e := range all {
				if !strings.HasPrefix(e, "progress") || strings.Contains(e, " 1999 ") || strings.Contains(e, " 2499 ") || strings.Contains(e, " 2599 ") {
					order = append(order, e)
				}
			}
			want2 := []string{"setting  -1 line 1", "started  0 line 2", "memory  -1 line 3", "saved  1100 line 4", "progress  1999 line 804",
				"phase validation -1 line 805", "phase-end validation -1 line 806", "progress  2499 line 1306", "saved  2499 line 1307", "progress  2599 line 1408"}
			if diff := cmp.Diff(want2, order); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFloodKeepsWrapped: a record of rich's that is wrapped is read whole.
func TestFloodKeepsWrapped(t *testing.T) {
	log := trainingLog + steps(1200, 1400, richStep) +
		"[11/21/26 21:00:00] INFO     [epoch:  0, iter: 1,400,                  train.py:26\n                             lr:(2.0e-04,)] l: 0.1\n" + "done\n"
	if _, s := heard(t, log, len(log)); s.Iteration != 1400 {
		t.Errorf("iteration %d", s.Iteration)
	}
	v := newDetector(t, trainer)
	write(t, v, Terminal, trainingLog+steps(1200, 1400, plainStep)+"ERROR: Ran out of VRAM during training.\n")
	if s := v.State(); s.OutOfMemory != 1 || s.Iteration != 1399 || s.Phase != "training" {
		t.Errorf("the state is %+v", s)
	}
}

// TestFloodOrder: a sign after a flood finds the state that the flood has left.
func TestFloodOrder(t *testing.T) {
	flood := trainingLog + steps(1200, 1400, plainStep)
	t.Run("a failure", func(t *testing.T) {
		d := newDetector(t, trainer)
		write(t, d, Terminal, flood+"INFO: Saving 3 validation images\n"+strings.Repeat("nothing\n", 20)+fmt.Sprintf(plainStep, 1400)+"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
		if r := d.Report(Exit{}); r.Stage != "training" {
			t.Errorf("it failed in %q, after a step of training", r.Stage)
		}
	})
	t.Run("a record that is wrapped", func(t *testing.T) {
		log := flood + steps(1400, 1500, richStep) +
			"[11/21/26 21:00:00] INFO     Saving 3                               train.py:26\n                             validation images                      \n" + fmt.Sprintf(richStep, 1500)
		events, s := heard(t, log, len(log))
		if s.Phase != "training" || !strings.Contains(strings.Join(events, "\n"), "phase validation") {
			t.Errorf("in %q after %v", s.Phase, events[len(events)-3:])
		}
	})
}

// TestFloodMarks: of two signs that share a word both are heard.
func TestFloodMarks(t *testing.T) {
	signs := job.Signs{Lines: []job.Sign{
		{Kind: job.Progress, Pattern: `step (?P<iteration>\d+) of`},
		{Kind: job.Progress, Pattern: `global count (?P<iteration>\d+)`},
		{Kind: job.Progress, Pattern: `shared word (?P<iteration>\d+)`},
		{Kind: job.SavedState, Pattern: `shared word (?P<iteration>\d+)`},
	}}
	d := newDetector(t, signs)
	var last []string
	d.OnEvent = func(e Event) { last = append(last, strings.TrimSpace(e.Line.Text)) }
	write(t, d, Terminal, steps(0, 100, "step %d of\n")+"global count 700\n"+"step 100 of\n"+steps(101, 104, "shared word %d\n"))
	if got := strings.Join(last[len(last)-9:], ", "); got != "step 99 of, global count 700, step 100 of, "+
		"shared word 101, shared word 101, shared word 102, shared word 102, shared word 103, shared word 103" {
		t.Errorf("heard last: %s", got)
	}
}
