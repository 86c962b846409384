package trace

import (
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// Rungs lie on the line through two traces where these are fullest at the same moment, and are in proportion to one of
// them where they are not: a rung with a smaller micro-batch never needs more.
func TestBetween(t *testing.T) {
	of := func(model, saved, working unit.Bytes) mem.Estimate {
		return mem.Estimate{Items: []mem.Item{{Kind: mem.Parameters, Bytes: model}, {Kind: mem.Saved, Bytes: saved},
			{Kind: mem.Transients, Bytes: working}}}
	}
	for name, tt := range map[string]struct {
		a, b             mem.Estimate
		at, other, micro int64
		want             unit.Bytes
		guess            bool
	}{
		"on the line":              {of(100, 1600, 160), of(100, 800, 80), 16, 8, 4, 100 + 400 + 40, false},
		"a larger one":             {of(100, 1600, 160), of(100, 800, 80), 16, 8, 32, 100 + 3200 + 320, false},
		"another moment, smaller":  {of(100, 11500, 9), of(100, 48, 5760), 512, 256, 128, 100 + 24 + 2880, true},
		"another moment, smallest": {of(100, 11500, 9), of(100, 48, 5760), 512, 256, 1, 100 + 0 + 22, true},
		"another moment, larger":   {of(100, 11500, 9), of(100, 48, 5760), 512, 256, 1024, 100 + 23000 + 18, true},
		"the larger one is second": {of(100, 48, 5760), of(100, 11500, 9), 256, 512, 128, 100 + 24 + 2880, true},
		"between them":             {of(100, 48, 5760), of(100, 11520, 12), 128, 512, 256, 100 + 5760 + 6, true},
		"a rounding":               {of(100, 1600, 10), of(100, 800, 12), 16, 8, 4, 100 + 400 + 13, false},
	} {
		got := between(tt.a, tt.b, tt.at, tt.other, tt.micro)
		if got.Total() != tt.want || got.Items[len(got.Items)-1].Guess != tt.guess {
			t.Errorf("%s: %d, want %d: %+v", name, got.Total(), tt.want, got.Items)
		}
	}
}

// A trace that had no time to train says what gives it more.
func TestTimeOver(t *testing.T) {
	for why, want := range map[string]string{
		"its 60 s" + timeOver: `its 60 s of CPU time were over before it had trained; it printed "bye"; ` +
			`--trace-time 5m gives it longer`,
		"ValueError: 3": `ValueError: 3 before it had trained; it printed "bye"`,
	} {
		if got := (&Trace{End: End{Why: why, Failed: true}, Output: "hello\nbye\n"}).problem().Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
