package observe

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// However long an attempt is, its curve is bounded, and has the largest and the smallest reading at their times.
func TestCurveKeepsPeaks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 999, 1001, 40_000} {
		began := time.Unix(1_000_000, 0)
		rec := newRecorder(began)
		now, most, least := began, unit.Bytes(-1), unit.Bytes(1<<62)
		var mostAt, leastAt time.Duration
		for range n {
			now = now.Add(time.Duration(20+r.IntN(60)) * time.Millisecond)
			held := unit.Bytes(r.Int64N(1 << 40))
			if held > most {
				most, mostAt = held, now.Sub(began)
			}
			if held < least {
				least, leastAt = held, now.Sub(began)
			}
			rec.enter(now, "training")
			rec.add(now, held)
		}
		c := rec.curve()
		for _, c := range []*Curve{c, c.Thin(100), c.Thin(1)} {
			if len(c.Spans) > CurveSpans {
				t.Fatalf("%d readings: %d spans", n, len(c.Spans))
			}
			high := slices.MaxFunc(c.Spans, func(a, b Span) int { return int(a.Most - b.Most) })
			low := slices.MinFunc(c.Spans, func(a, b Span) int { return int(a.Least - b.Least) })
			if high.Most != most || high.MostAt != mostAt || low.Least != least || low.LeastAt != leastAt {
				t.Errorf("%d readings, %d spans: the largest is %v at %v, want %v at %v; the smallest %v at %v, want %v at %v", n,
					len(c.Spans), high.Most, high.MostAt, most, mostAt, low.Least, low.LeastAt, least, leastAt)
			}
			text, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := ParseCurve(text); err != nil || len(back.Spans) != len(c.Spans) {
				t.Errorf("%d readings: it cannot be read again: %v", n, err)
			}
		}
		if n > CurveSpans && len(c.Spans) < CurveSpans/3 {
			t.Errorf("%d readings: only %d spans are left", n, len(c.Spans))
		}
	}
}

// A phase between two readings is on the curve, a time without readings is not, and before the first line no phase
// runs.
func TestCurvePhases(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	rec := newRecorder(began)
	if rec.curve() != nil {
		t.Error("a curve without a reading")
	}
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	rec.add(began, 1)
	rec.enter(at(1), "training")
	rec.add(at(1), 2)
	rec.pass("validation")
	rec.add(at(2), 3)
	rec.add(at(9), 4)
	c := rec.curve()
	if !slices.Equal(c.Phases, []string{"training", "validation"}) || len(c.Spans) != 4 {
		t.Fatalf("%+v", c)
	}
	for i, want := range [][]int{{}, {0}, {0, 1}, {0}} {
		if !slices.Equal(c.Spans[i].Phases, want) {
			t.Errorf("span %d has the phases %v, want %v", i, c.Spans[i].Phases, want)
		}
	}
	if got := rec.course().Phases; !slices.Equal(got, []string{"training", "validation"}) {
		t.Errorf("the phases that have begun are %q", got)
	}
	for i := range 100 { // a program may print any number of names
		rec.pass(string(rune('a' + i)))
	}
	if n := len(rec.curve().Phases); n != mostPhases {
		t.Errorf("%d phases are named", n)
	}
}

func TestParseCurve(t *testing.T) {
	for _, bad := range []string{
		``, `[]`, `{"version":2,"width_ns":1}`, `{"version":1,"width_ns":0}`,
		`{"version":1,"width_ns":1,"spans":[{"from_ns":5,"to_ns":4}]}`,
		`{"version":1,"width_ns":1,"spans":[{"from_ns":5,"to_ns":6},{"from_ns":1,"to_ns":2}]}`,
		`{"version":1,"width_ns":1,"spans":[{"most_bytes":1,"least_bytes":2}]}`,
		`{"version":1,"width_ns":1,"spans":[{"from_ns":1,"to_ns":2,"most_at_ns":3,"least_at_ns":1}]}`,
		`{"version":1,"width_ns":1,"phases":["a"],"spans":[{"phases":[1]}]}`,
		`{"version":1,"width_ns":1,"spans":[{"phases":[-1]}]}`,
	} {
		if _, err := ParseCurve([]byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
