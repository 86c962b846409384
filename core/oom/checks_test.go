package oom

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// checking are the signs of a trainer with two checks: one with several values a line.
var checking = job.Signs{
	Lines: []job.Sign{{Kind: job.Progress, Pattern: `iter:\s*(?P<iteration>\d+)`}},
	Checks: []job.Check{
		{Name: "weights move", Rule: job.Moving, Pattern: `weight_(?P<series>\w+): (?P<value>[\d.]+)`},
		{Name: "psnr is finite", Rule: job.Finite, Pattern: `psnr: (?P<value>\S+)`},
	},
}

// The values of a check are read with their series, their step and their line, several of a line, and are no signs:
// they change no phase, no event count and no verdict.
func TestChecks(t *testing.T) {
	d := newDetector(t, checking)
	d.OnEvent = func(e Event) {
		if e.Kind != job.Progress {
			t.Errorf("an event %+v", e)
		}
	}
	write(t, d, Terminal, "psnr: 3\niter: 100 weight_a: 1.0 weight_b: 1.0\niter: 200 weight_a: 1.0 weight_b: 1.5\n")
	s := d.State()
	if s.Events != 2 || len(s.Checks) != 2 {
		t.Fatalf("%d events, checks %+v", s.Events, s.Checks)
	}
	weights := s.Checks[0].Series
	if len(weights) != 2 || weights[1].Name != "b" || weights[1].Other == nil || weights[1].Other.Step != 200 ||
		weights[1].Other.Line != "iter: 200 weight_a: 1.0 weight_b: 1.5" || weights[0].Other != nil {
		t.Errorf("%+v", weights)
	}
	if psnr := s.Checks[1].Series; len(psnr) != 1 || psnr[0].First.Step != -1 {
		t.Errorf("%+v", psnr)
	}
	if d := newDetector(t, checking); d.State().Checks != nil {
		t.Error("nothing was printed, and there are values")
	}
}

// The log's values count if it has any, and else the live stream's: the same line is in both.
func TestChecksOfStreams(t *testing.T) {
	d := newDetector(t, checking)
	write(t, d, Terminal, "psnr: 3\npsnr: 4\niter: 1 weight_a: 7\n")
	write(t, d, Log, "psnr: 5\n")
	s := d.State()
	if p := s.Checks[1].Series; p[0].Count != 1 || p[0].First.Value != "5" {
		t.Errorf("psnr is %+v", p)
	}
	early := newDetector(t, checking)
	write(t, early, Log, "psnr: 5\n")
	write(t, early, Terminal, "psnr: 3\n")
	if p := early.State().Checks[1].Series; p[0].First.Value != "5" {
		t.Errorf("the log first: psnr is %+v", p)
	}
	if w := s.Checks[0].Series; w[0].Count != 1 || w[0].First.Value != "7" {
		t.Errorf("the weights are %+v", w)
	}
}

// Values that rich has broken over several lines of a terminal are read, also of a record that is not complete.
func TestChecksOfRich(t *testing.T) {
	rich := "[11/22/26 14:45:07] INFO     [epoch:   0, iter:     6] weight_a:       logger.py:158\n" +
		"                             1.25 weight_b: 2.5                      \n"
	first := "[11/22/26 14:45:07] INFO     iter:     6 weight_a: 1.25 x       logger.py:158\n" +
		"                             weight_b: 2.5                      \n"
	for name, text := range map[string]string{"complete": rich + "End\n", "not complete": rich,
		"one in each line": first + "End\n"} {
		d := newDetector(t, checking)
		write(t, d, Terminal, text)
		s := d.State()
		if len(s.Checks) == 0 || len(s.Checks[0].Series) != 2 || s.Checks[0].Series[0].First.Value != "1.25" ||
			s.Checks[0].Series[1].First != (job.CheckPoint{Value: "2.5", Step: 6, Line: s.Checks[0].Series[1].First.Line}) {
			t.Errorf("%s: %+v", name, s.Checks)
		}
		if again := d.State(); fmt.Sprint(again.Checks) != fmt.Sprint(s.Checks) {
			t.Errorf("%s: asked again, %+v", name, again.Checks)
		}
	}
}

// The first line about a failure that the program survived is kept.
func TestSurvivedLine(t *testing.T) {
	d := newDetector(t, trainer)
	write(t, d, Log, strings.Repeat("OOM Recovery successful 1\n", 1)+"OOM Recovery successful 2\n")
	if s := d.State(); s.SurvivedLine != "OOM Recovery successful 1" || s.Survived != 2 {
		t.Errorf("%q, %d", s.SurvivedLine, s.Survived)
	}
}
