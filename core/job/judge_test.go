package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/metric"
)

func ptr(f float64) *float64 { return &f }

// values adds "step value" or "series step value" points.
func values(c Check, text string) (v CheckValues) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		f, series := strings.Fields(line), ""
		if len(f) == 3 {
			series, f = f[0], f[1:]
		}
		step := int64(metric.NoStep)
		fmt.Sscan(f[0], &step)
		v.Add(c, series, CheckPoint{Value: f[1], Step: step, Line: line})
	}
	return v
}

// Each rule and each window has values that meet it, near misses, and values that show nothing.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name        string
		check       Check
		met, not    string // values, separated by commas
		unchecked   string
		seen, notIs string
	}{
		{"finite", Check{Rule: Finite}, "1 0.5,2 1e9,3 -4", "1 0.5,2 nan,3 0.4", "", "-4 at step 3",
			"nan at step 2, which is no finite number"},
		{"finite at the end", Check{Rule: Finite, Last: 1}, "1 nan,2 0.5", "1 0.5,2 inf", "", "0.5 at step 2",
			"inf at step 2"},
		{"within", Check{Rule: Within, Min: ptr(6), Max: ptr(70)}, "1 6,2 70", "1 6,2 70.0001", "", "70 at step 2",
			"70.0001 at step 2, which is not from 6 to 70"},
		{"within, below", Check{Rule: Within, Min: ptr(6)}, "1 6", "1 5.999", "", "6 at step 1",
			"5.999 at step 1, which is not at least 6"},
		{"within, above", Check{Rule: Within, Max: ptr(6)}, "1 -6", "1 6.001", "", "-6 at step 1",
			"which is not at most 6"},
		{"within is finite", Check{Rule: Within, Min: ptr(0)}, "1 0", "1 nan", "", "0 at", "no finite number"},
		{"within the last two", Check{Rule: Within, Min: ptr(0), Last: 2}, "1 -1,2 1,3 1", "1 1,2 -1,3 1", "",
			"1 at step 3", "-1 at step 2"},
		{"moving", Check{Rule: Moving}, "1 28.1,2 28.1,3 28.2", "1 28.1,2 28.1,3 28.10", "1 28.1",
			"28.1 at step 1, then 28.2 at step 3", "it stayed the same: 28.10"},
		{"moving in the last two", Check{Rule: Moving, Last: 2}, "1 3,2 3,3 4", "1 3,2 4,3 4", "1 3",
			"3 at step 2, then 4 at step 3", "the last 2 values are the same: 4"},
		{"moving with at least three", Check{Rule: Moving, Least: 3}, "1 3,2 4,3 4", "1 3,2 3,3 3", "1 3,2 4",
			"3 at step 1, then 4 at step 2", "stayed the same"},
		{"moving after a step", Check{Rule: Moving, After: 101}, "1 2,100 3,101 4,102 5", "1 2,100 3,101 4,102 4",
			"1 2,100 3", "4 at step 101, then 5 at step 102", "stayed the same: 4"},
		{"a figure that becomes NaN does not move", Check{Rule: Moving}, "1 2,2 3", "1 2,2 2,3 nan", "1 2,2 nan",
			"then 3", "stayed the same: 2"},
		{"one of several series moves", Check{Rule: Moving}, "a 1 1.0,b 1 1.0,a 2 1.0,b 2 1.01",
			"a 1 1.0,b 1 2.0,a 2 1.0,b 2 2.0", "a 1 1,b 1 2", "b 1.0 at step 1, then 1.01 at step 2",
			"stayed the same: a 1.0, b 2.0"},
		{"each of several series is within", Check{Rule: Within, Max: ptr(2)}, "a 1 1.0,b 1 2.0", "a 1 1.0,b 1 2.5",
			"", "b 2.0", "b 2.5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := func(s string) string { return strings.ReplaceAll(s, ",", "\n") }
			met, not := Judge(tt.check, values(tt.check, lines(tt.met))), Judge(tt.check, values(tt.check, lines(tt.not)))
			if met.State != Met || !strings.Contains(met.Seen, tt.seen) || met.Evidence == "" {
				t.Errorf("it is met: %+v", met)
			}
			if not.State != NotMet || !strings.Contains(not.Seen, tt.notIs) || not.Evidence == "" {
				t.Errorf("it is not met: %+v", not)
			}
			few := Judge(tt.check, values(tt.check, lines(tt.unchecked)))
			if few.State != NotChecked || few.Seen == "" {
				t.Errorf("it could not be checked: %+v", few)
			}
		})
	}
}

// A rule that this launch does not know could not be checked, and is never met.
func TestUnknownRule(t *testing.T) {
	c := Check{Rule: "rising"}
	if it := Judge(c, values(c, "1 1\n2 2")); it.State != NotChecked || !strings.Contains(it.Seen, `"rising"`) {
		t.Errorf("%+v", it)
	}
}

// What is kept is bounded, whatever is printed.
func TestBounded(t *testing.T) {
	c := Check{Rule: Moving, Last: 100}
	var v CheckValues
	for i := range 10_000 {
		v.Add(c, fmt.Sprint(i%1000), CheckPoint{Value: fmt.Sprint(i), Step: int64(i), Line: strings.Repeat("x", 5000)})
	}
	points, bytes := 0, 0
	for _, s := range v.Series {
		points += len(s.Last)
		for _, p := range s.Last {
			bytes += len(p.Line)
		}
	}
	if len(v.Series) > maxSeries || points > maxSeries*c.Last || bytes > maxSeries*c.Last*(maxLine+4) {
		t.Errorf("%d series, %d points, %d bytes", len(v.Series), points, bytes)
	}
}

// A training that resumed goes on with the values from before; one that starts over does not (run.Checklist).
func TestContinued(t *testing.T) {
	c := Check{Rule: Moving}
	before, after := values(c, "100 28.1"), values(c, "200 28.3")
	if it := Judge(c, after); it.State != NotChecked {
		t.Errorf("one value: %+v", it)
	}
	if it := Judge(c, after.Continued(c, before)); it.State != Met || it.Seen != "28.1 at step 100, then 28.3 at step "+
		"200" {
		t.Errorf("both: %+v", it)
	}
	if it := Judge(c, values(c, "200 28.1").Continued(c, before)); it.State != NotMet {
		t.Errorf("alike: %+v", it)
	}
	last := Check{Rule: Within, Min: ptr(0), Last: 2}
	joined := values(last, "3 1\n4 1").Continued(last, values(last, "1 -1\n2 -1"))
	if it := Judge(last, joined); it.State != Met {
		t.Errorf("the window goes on: %+v", it)
	}
	if len(before.Series[0].Last) != 1 {
		t.Error("the earlier values were changed")
	}
}

// The end of a run reports what is open, and what no other line reports.
func TestOpen(t *testing.T) {
	all := []CheckResult{{Name: "a", State: Met, Declared: true}, {Name: "b", State: NotMet}, {Name: "c",
		State: NotChecked},
		{Name: "d", State: NotChecked, Declared: true}, {Name: "e", State: NotMet, Elsewhere: true}}
	names := ""
	for _, it := range OpenChecks(all) {
		names += it.Name
	}
	if names != "bd" {
		t.Errorf("open are %q", names)
	}
}

// Of more figures than are kept, those that were left out may show the opposite: they could not be checked.
func TestLeftOut(t *testing.T) {
	finite, moving := Check{Rule: Finite}, Check{Rule: Moving}
	for _, tt := range []struct {
		check Check
		n     int
		end   string
		want  CheckState
	}{
		{finite, maxSeries, "", Met}, {finite, maxSeries + 1, "", NotChecked}, {finite, maxSeries + 1, "0 9 nan", NotMet},
		{moving, maxSeries, "", NotMet}, {moving, maxSeries + 1, "", NotChecked}, {moving, maxSeries + 1, "0 9 7", Met},
		{finite, 1, strings.Repeat("s", maxSeriesName+1) + " 1 0.5", NotChecked},
	} {
		text := ""
		for i := range tt.n {
			text += fmt.Sprintf("%d 1 0.5\n%d 2 0.5\n", i, i)
		}
		text += tt.end
		if got := Judge(tt.check, values(tt.check, text)); got.State != tt.want {
			t.Errorf("%s of %d, %.20q: %+v", tt.check.Rule, tt.n, tt.end, got)
		}
		whole := values(tt.check, text).Continued(tt.check, CheckValues{})
		half := values(tt.check, text).Continued(tt.check, values(tt.check, "x 1 0.5\nx 2 0.5\n"))
		if got := Judge(tt.check, whole); got.State != tt.want {
			t.Errorf("%s of %d, continued: %+v", tt.check.Rule, tt.n, got)
		}
		if got := Judge(tt.check, half); tt.n == maxSeries && tt.end == "" && got.State != NotChecked {
			t.Errorf("%s of %d in two attempts: %+v", tt.check.Rule, tt.n, got)
		}
	}
}

// A number with many digits is a number.
func TestLongValue(t *testing.T) {
	c := Check{Rule: Within, Min: ptr(0), Max: ptr(1)}
	got := Judge(c, values(c, "1 0."+strings.Repeat("3", 100)))
	if got.State != Met || len(got.Seen) > 60 {
		t.Errorf("%+v", got)
	}
}
