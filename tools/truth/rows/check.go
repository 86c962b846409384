package rows

import (
	"math"
)

// A Reporter is what a test is told by: *testing.T.
type Reporter interface {
	Helper()
	Errorf(format string, v ...any)
	Logf(format string, v ...any)
}

// Limits of a row: relative errors.
const (
	SavedOff  = 0.01 // of saved tensors, either way
	PeakUnder = 0.02 // of the peak of live bytes
	PeakOver  = 0.03
)

// Check holds launch's price of every row of a recording against it: parameters exact, saved tensors within [SavedOff], the
// peak of a step no more than [PeakUnder] under and [PeakOver] over. It reports how many rows it saw.
func Check(t Reporter, path string) (n int) {
	t.Helper()
	f, err := Read(path)
	if err != nil {
		t.Errorf("%v", err)
		return 0
	}
	worst, worstSaved := 0.0, 0.0
	for _, r := range f.Rows {
		p, err := r.Price()
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		n++
		if p.Params != r.Params {
			t.Errorf("%s, %s: %d parameters, PyTorch has %d", r.Name, r.Settings(), p.Params, r.Params)
		}
		off := func(got, want float64) float64 { return (got - want) / math.Max(want, 1) }
		if r.Saved != nil {
			o := off(float64(p.Saved), float64(*r.Saved))
			worstSaved = math.Max(worstSaved, math.Abs(o))
			if math.Abs(o) > SavedOff {
				t.Errorf("%s, %s: saves %v, PyTorch %v (%+.2f %%)", r.Name, r.Settings(), p.Saved, *r.Saved, 100*o)
			}
		}
		o := off(float64(p.Live()), float64(r.Peak))
		worst = math.Max(worst, math.Abs(o))
		if o < -PeakUnder || o > PeakOver {
			t.Errorf("%s, %s: peak %v, PyTorch %v (%+.2f %%; %s)", r.Name, r.Settings(), p.Live(), r.Peak, 100*o, r.Moment)
		}
	}
	t.Logf("%s: %d rows, worst of saved tensors %.2f %%, of peaks %.2f %%", f.Family, n, 100*worstSaved, 100*worst)
	return n
}
