package advice

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// looks are what a run shows, minute by minute, and when advice is given while it runs: minute and names.
func TestLive(t *testing.T) {
	mib := func(n float64) unit.Bytes { return unit.Bytes(n * float64(unit.MiB)) }
	curve := func(minute int, held func(int) unit.Bytes) Curve { return every(minute+1, mib(20000), held) }
	climbing := func(i int) unit.Bytes { return mib(8000 + 10*float64(i)) }
	text := func(parts ...string) func(int) Seen {
		written := NewText()
		return func(minute int) Seen {
			if minute < len(parts) {
				written.Write([]byte(parts[minute]))
			}
			return Seen{Text: written}
		}
	}
	need := []Need{{"validation", mib(9000), mib(12000)}}
	left := func(room float64) Seen { return Seen{Ahead: need, Card: Curve{Room: mib(room)}} }
	for name, tt := range map[string]struct {
		shows func(minute int) Seen
		at    map[int]string
	}{
		"a loss that is not finite": {text("loss: 0.1\n", "loss: nan\n", "loss: nan\nloss: nan\n", "loss: nan\n"),
			map[int]string{2: job.NotFinite}},
		"one that comes back": {text("loss: nan\nloss: nan\nloss: 0.1\nloss: nan\n"), nil},
		"one that comes back later": {text("loss: nan\nloss: nan\nloss: 0.1\nloss: nan\n", "loss: nan\n", "loss: nan\n"),
			map[int]string{2: job.NotFinite}},
		"another loss that is finite": {text(strings.Repeat("G_loss: nan\nD_loss: 0.1\n", 9)), nil},
		"the last value of a metric":  {func(int) Seen { return Seen{Diverged: []string{"psnr"}} }, nil},
		"a small /dev/shm":            {text("", logs["small-shm"].is), map[int]string{1: smallShm}},
		"a large one":                 {text("", logs["small-shm"].near), nil},
		"too many workers":            {text(logs["workers"].is), nil}, // it may wait
		"a full card": {func(minute int) Seen { return Seen{Retries: minute / 5} },
			map[int]string{5: FullCard}},
		// 10 MiB a minute: first seen after 35 minutes, and it still climbs after 44
		"a leak": {func(minute int) Seen { return Seen{Card: curve(minute, climbing)} }, map[int]string{44: leakName}},
		"a leak that no training reaches": {func(minute int) Seen {
			return Seen{Card: every(minute+1, 10000*unit.GiB, climbing)}
		}, nil},
		"a cache that fills": {func(minute int) Seen {
			return Seen{Card: curve(minute, func(i int) unit.Bytes { return climbing(min(i, 25)) })}
		}, nil},
		"host memory": {func(minute int) Seen { return Seen{Host: curve(minute, climbing)} },
			map[int]string{44: hostLeakName}},
		"others on the card": {func(minute int) Seen { return left(map[bool]float64{true: 12000, false: 8000}[minute < 4]) },
			map[int]string{6: crowdedName}},
		"others that go": {func(minute int) Seen { return left(map[bool]float64{true: 12000, false: 8000}[minute%2 == 0]) },
			nil},
		"others that leave enough": {func(int) Seen { return left(9000) }, nil},
		"what the plan printed": {func(int) Seen {
			return Seen{Ahead: []Need{{"validation", mib(13000), mib(12000)}}, Card: Curve{Room: mib(12000)}}
		}, nil},
		"a card that is not known": {func(int) Seen { return Seen{Ahead: need} }, nil},
	} {
		var l Live
		for minute := range 60 {
			var want []string
			if tt.at[minute] != "" {
				want = []string{tt.at[minute]}
			}
			got := l.Look(tt.shows(minute), time.Duration(minute)*time.Minute)
			if !slices.Equal(names(got), want) {
				t.Errorf("%s, minute %d: %q, want %q", name, minute, names(got), want)
			}
			if len(got) > 0 && !got[0].Told {
				t.Errorf("%s: not marked as told", name)
			}
		}
	}
}

// Of several at the same time, the weightiest comes first.
func TestLiveRanked(t *testing.T) {
	var l Live
	got := l.Look(Seen{Retries: 1, Text: read(logs["small-shm"].is+logs[job.NotFinite].is, 99)}, 0)
	if want := []string{job.NotFinite, smallShm, FullCard}; !slices.Equal(names(got), want) {
		t.Errorf("%q, want %q", names(got), want)
	}
}
