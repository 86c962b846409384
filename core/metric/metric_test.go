package metric

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAdd(t *testing.T) {
	var s Set
	for i, v := range []float64{27, 29.5, math.NaN(), 28} {
		s.Add("psnr", Maximise, Point{v, int64(100 * i)})
	}
	s.Add("loss", Minimise, Point{3, 1})
	s.Add("loss", Minimise, Point{2, 2})
	s.Add("loss", Minimise, Point{math.Inf(1), 3})
	want := Set{
		"psnr": {Name: "psnr", Direction: Maximise, Last: &Point{28, 300}, Best: &Point{29.5, 100}},
		"loss": {Name: "loss", Direction: Minimise, Best: &Point{2, 2}, Diverged: true},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
}

// A resumed training has the best value from before its saved state, and not one that came after it and was lost.
func TestContinued(t *testing.T) {
	at := func(best, step float64) Set {
		return Set{"psnr": {Name: "psnr", Direction: Maximise, Best: &Point{best, int64(step)}, Last: &Point{best,
			int64(step)}}}
	}
	for name, tt := range map[string]struct {
		now, before Set
		from        int64
		best, last  float64
	}{
		"better before":          {at(28, 200), at(30, 100), 100, 30, 28},
		"better now":             {at(31, 200), at(30, 100), 100, 31, 31},
		"lost":                   {at(28, 200), at(30, 150), 100, 28, 28},
		"its step is unknown":    {at(28, 200), at(30, NoStep), 100, 30, 28},
		"nothing was said since": {nil, at(30, 100), 100, 30, 30},
	} {
		got := tt.now.Continued(tt.before, tt.from)["psnr"]
		if got.Best.Value != tt.best || got.Last.Value != tt.last {
			t.Errorf("%s: best %v, last %v", name, got.Best, got.Last)
		}
	}
	if got := (Set)(nil).Continued(at(30, 150), 100); len(got) != 0 {
		t.Errorf("lost values count: %v", got)
	}
}

func TestParseDirection(t *testing.T) {
	for text, want := range map[string]Direction{"maximize": Maximise, "min": Minimise, "maximise": Maximise} {
		if got, err := ParseDirection(text); got != want || err != nil {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	if _, err := ParseDirection("up"); err == nil {
		t.Error("up is a direction")
	}
}

func TestParse(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for text, want := range map[string]float64{"0.5": 0.5, "0.5,": 0.5, "1,234.5": 1234.5, "-12,345,678": -12345678,
		"1,23,456": 123456, "1e-4": 1e-4, "1e999": inf, "-1e999": -inf, "inf": inf, "nan": nan, "-nan": nan,
		"-nan(ind)": nan, "NaN": nan} {
		if got, err := Parse(text); err != nil || got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"0,5", "0,500", "1,5", "12,3456", "1,2,3", "nano", ""} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}
