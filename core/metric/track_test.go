package metric

import "testing"

// Two attempts that report thousands of steps have steps in common, wherever the second begins.
func TestTrack(t *testing.T) {
	for _, tt := range []struct{ first, resumed, end int64 }{{20, 10, 40}, {1500, 1000, 100_000}, {70_000, 60_000,
		61_000}} {
		one, two := Track{}, Track{}
		for s := int64(1); s <= tt.first; s++ {
			one.Add(Point{float64(s), s})
		}
		for s := tt.resumed + 1; s <= tt.end; s++ {
			two.Add(Point{float64(s), s})
		}
		common := 0
		for _, p := range append(two.Early, two.Later...) {
			if v, ok := one.At(p.Step); ok && v == p.Value {
				common++
			}
		}
		if n := len(one.Early) + len(one.Later); common == 0 && tt.first < 70_000 || n > 2*mostPoints {
			t.Errorf("%v: %d values in common, %d kept", tt, common, n)
		}
	}
	var track Track
	for _, p := range []Point{{0.1, NoStep}, {0.2, 1}, {0.3, 1}, {0.4, NoStep}} {
		track.Add(p)
	}
	if v, _ := track.At(1); v != 0.3 || len(track.Before) != 1 || track.Last.Value != 0.3 {
		t.Errorf("%+v", track)
	}
}
