package pack

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/launch-ml/launch/core/unit"
)

const gib = unit.GiB

func cards(totals ...unit.Bytes) (out []Card) {
	for i, t := range totals {
		out = append(out, Card{ID: string(rune('A' + i)), Total: t * gib})
	}
	return out
}

func waits(id int, need float64, length time.Duration) Trial {
	return Trial{ID: id, Need: unit.Bytes(need * float64(gib)), Certain: true, Length: length, Saves: true}
}

func uncertain(t Trial) Trial { t.Certain = false; return t }

func passed(t Trial) Trial { t.Passed = patience; return t }

func many(n int, need float64, length time.Duration) (out []Trial) {
	for i := range n {
		out = append(out, waits(i+1, need, length))
	}
	return out
}

func runs(t Trial, card string, started int) Running {
	return Running{Trial: t, Card: card, Started: started, Left: t.Length, Used: t.Need / 2}
}

func with[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

func measured(ratio float64) (s Slowed) {
	for range 50 {
		s.Add(1, 2, ratio)
	}
	return s
}

func TestPlace(t *testing.T) {
	const h = time.Hour
	others := func(b unit.Bytes) func(*Card) { return func(c *Card) { c.Others = b } }
	for name, tt := range map[string]struct {
		state State
		want  []Decision
	}{
		"the longest first, on the smallest card that holds it": {
			State{Cards: cards(24, 12), Waiting: []Trial{waits(1, 8, h), waits(2, 8, 2*h)}},
			[]Decision{{Trial: 2, Card: "B"}, {Trial: 1, Card: "A"}},
		},
		"what few cards can hold goes first": {
			State{Cards: cards(12, 12, 40), Policy: Policy{Most: 1}, Waiting: []Trial{
				waits(1, 8, 3*h), waits(2, 8, 3*h), waits(3, 8, 3*h),
				waits(4, 30, h), waits(5, 30, h), waits(6, 30, h), waits(7, 30, h),
			}},
			[]Decision{{Trial: 4, Card: "C"}, {Trial: 1, Card: "A"}, {Trial: 2, Card: "B"}},
		},
		"an unknown length is a typical one": {
			State{Cards: cards(24), Waiting: []Trial{waits(1, 20, h), waits(2, 20, 0), waits(3, 20, 3*h)}, Running: nil},
			[]Decision{{Trial: 3, Card: "A"}},
		},
		"two share when no card is empty": {
			State{Cards: cards(24), Waiting: []Trial{waits(1, 8, h), waits(2, 8, h), waits(3, 4, h)}, Slowed: Slowed{}},
			[]Decision{{Trial: 1, Card: "A"}, {Trial: 2, Card: "A"}},
		},
		"three share where that was measured to pay": {
			State{Cards: cards(24), Waiting: []Trial{waits(1, 8, h), waits(2, 8, h), waits(3, 4, h)}, Slowed: measured(1.1)},
			[]Decision{{Trial: 1, Card: "A"}, {Trial: 2, Card: "A"}, {Trial: 3, Card: "A"}},
		},
		"nobody shares where that pays nothing": {
			State{Cards: cards(24), Waiting: []Trial{waits(1, 8, h), waits(2, 8, h)}, Slowed: measured(2)},
			[]Decision{{Trial: 1, Card: "A"}},
		},
		"nobody shares if the user says so": {
			State{Cards: cards(24), Waiting: []Trial{waits(1, 8, h), waits(2, 8, h)}, Policy: Policy{Most: 1}},
			[]Decision{{Trial: 1, Card: "A"}},
		},
		"the headroom stays free": {
			State{Cards: cards(24), Waiting: []Trial{waits(1, 12, h), waits(2, 12, h)}},
			[]Decision{{Trial: 1, Card: "A"}},
		},
		"an estimate that is no upper bound counts twice beside another trial, and once alone": {
			State{Cards: cards(24), Waiting: []Trial{
				uncertain(waits(1, 7, h)), uncertain(waits(2, 7, h)),
			}},
			[]Decision{{Trial: 1, Card: "A"}},
		},
		"a measured peak replaces the estimate": {
			State{Cards: cards(24), Waiting: []Trial{waits(2, 15, h)}, Running: []Running{
				with(runs(waits(1, 16, h), "A", 1), func(r *Running) { r.Ramped, r.Used = true, 8*gib }),
			}},
			[]Decision{{Trial: 2, Card: "A"}},
		},
		"it does not before the ramp is over": {
			State{Cards: cards(24), Waiting: []Trial{waits(2, 15, h)}, Running: []Running{
				with(runs(waits(1, 16, h), "A", 1), func(r *Running) { r.Used = 8 * gib }),
			}},
			nil,
		},
		"an unknown need gets the largest card to itself": {
			State{Cards: cards(11, 24), Waiting: []Trial{waits(1, 0, h), waits(2, 4, h), waits(3, 4, h)}},
			[]Decision{{Trial: 1, Card: "B"}, {Trial: 2, Card: "A"}, {Trial: 3, Card: "A"}},
		},
		"a larger need than any card's gets the largest to itself": {
			State{Cards: cards(11, 24), Waiting: []Trial{waits(1, 30, h), waits(2, 4, h), waits(3, 4, h)}},
			[]Decision{{Trial: 1, Card: "B"}, {Trial: 2, Card: "A"}, {Trial: 3, Card: "A"}},
		},
		"what ran out of memory beside another one shares no longer": {
			State{Cards: cards(24), Waiting: []Trial{with(waits(1, 4, h), func(t *Trial) { t.Failed = true }), waits(2, 4, h)}},
			[]Decision{{Trial: 1, Card: "A"}},
		},
		"what was stopped twice shares no longer": {
			State{Cards: cards(24), Waiting: []Trial{with(waits(1, 4, h), func(t *Trial) { t.Stops = 2 }), waits(2, 4, h)}},
			[]Decision{{Trial: 1, Card: "A"}},
		},
		"what ran out of memory with 11 GiB needs more": {
			State{Cards: cards(11, 24), Waiting: []Trial{with(waits(1, 9, h), func(t *Trial) { t.AtLeast = 11 * gib })}},
			[]Decision{{Trial: 1, Card: "B"}},
		},
		"nothing shares a card with other people's processes": {
			State{Cards: []Card{with(cards(24)[0], others(6*gib))}, Waiting: []Trial{waits(1, 4, h), waits(2, 4, h)}},
			[]Decision{{Trial: 1, Card: "A"}},
		},
		"they may grow by half": {
			State{Cards: []Card{with(cards(24)[0], others(12*gib))}, Waiting: []Trial{waits(1, 6, h)}},
			nil,
		},
		"what fits only when they have left waits for that": {
			State{Cards: []Card{with(cards(24)[0], others(6*gib))}, Waiting: []Trial{waits(1, 20, h)}},
			nil,
		},
		"what a desktop leaves too little for is tried": {
			State{Cards: []Card{with(cards(24)[0], others(gib))}, Waiting: []Trial{waits(1, 23, h)}},
			[]Decision{{Trial: 1, Card: "A"}},
		},
		"a desktop is no reason": {
			State{Cards: []Card{with(cards(24)[0], others(gib))}, Waiting: []Trial{waits(1, 4, h), waits(2, 4, h)}},
			[]Decision{{Trial: 1, Card: "A"}, {Trial: 2, Card: "A"}},
		},
		"the youngest stops when the card fills, at once where it has still to grow": {
			State{Cards: []Card{with(cards(24)[0], others(8*gib))}, Running: []Running{
				runs(waits(1, 8, h), "A", 1), runs(waits(2, 8, h), "A", 2),
			}},
			[]Decision{{Trial: 2, Card: "A", Stop: true, Now: true}},
		},
		"it saves where it grows no more": {
			State{Cards: []Card{with(cards(24)[0], others(8*gib))}, Running: []Running{
				runs(waits(1, 8, h), "A", 1),
				with(runs(waits(2, 8, h), "A", 2), func(r *Running) { r.Ramped, r.Used = true, r.Need }),
			}},
			[]Decision{{Trial: 2, Card: "A", Stop: true}},
		},
		"an older one that can save goes before a younger one that cannot": {
			State{Cards: []Card{with(cards(24)[0], others(8*gib))}, Running: []Running{
				runs(waits(1, 8, h), "A", 1), with(runs(waits(2, 8, h), "A", 2), func(r *Running) { r.Saves = false }),
			}},
			[]Decision{{Trial: 1, Card: "A", Stop: true, Now: true}},
		},
		"no second one stops while the first is on its way": {
			State{Cards: []Card{with(cards(24)[0], others(8*gib))}, Running: []Running{
				runs(waits(1, 8, h), "A", 1), with(runs(waits(2, 8, h), "A", 2), func(r *Running) { r.Stopping = true }),
			}, Waiting: []Trial{waits(3, 2, h)}},
			nil,
		},
		"the last one that cannot save goes on": {
			State{Cards: []Card{with(cards(24)[0], others(16*gib))}, Running: []Running{
				with(runs(waits(1, 8, h), "A", 1), func(r *Running) { r.Saves = false }),
			}},
			nil,
		},
		"the last one that can makes room for other people": {
			State{Cards: []Card{with(cards(24)[0], others(16*gib))}, Running: []Running{runs(waits(1, 8, h), "A", 1)}},
			[]Decision{{Trial: 1, Card: "A", Stop: true, Now: true}},
		},
		"what it was seen to use counts more than the estimates of others": {
			State{Cards: []Card{with(cards(24)[0], others(8*gib))}, Running: []Running{
				with(runs(uncertain(waits(1, 4, h)), "A", 1), func(r *Running) { r.Seen = 5 * gib }),
				with(runs(uncertain(waits(2, 4, h)), "A", 2), func(r *Running) { r.Ramped, r.Used = true, 4*gib }),
			}, Peaks: Peaks{n: 10_000, worst: 3}},
			nil,
		},
		"and without that": {
			State{Cards: []Card{with(cards(24)[0], others(8*gib))}, Running: []Running{
				runs(uncertain(waits(1, 4, h)), "A", 1),
				with(runs(uncertain(waits(2, 4, h)), "A", 2), func(r *Running) { r.Ramped, r.Used = true, 4*gib }),
			}, Peaks: Peaks{n: 10_000, worst: 3}},
			[]Decision{{Trial: 2, Card: "A", Stop: true}},
		},
		"and not for a desktop": {
			State{Cards: []Card{with(cards(24)[0], others(gib))}, Running: []Running{runs(waits(1, 23, h), "A", 1)}},
			nil,
		},
		"and not for a want of its own": {
			State{Cards: cards(8), Running: []Running{runs(waits(1, 8, h), "A", 1)}},
			nil,
		},
		"own trials that outgrow their estimates make the youngest stop": {
			State{Cards: cards(24), Running: []Running{
				with(runs(waits(1, 8, h), "A", 1), func(r *Running) { r.Used = 14 * gib }), runs(waits(2, 9, h), "A", 2),
			}},
			[]Decision{{Trial: 2, Card: "A", Stop: true}},
		},
		"nothing starts on a card that fills": {
			State{Cards: cards(18), Slowed: measured(1.1), Waiting: []Trial{waits(3, 1, h)}, Running: []Running{
				with(runs(waits(1, 4, h), "A", 1), func(r *Running) { r.Certain, r.Used = false, 7*gib }),
				runs(waits(2, 8, h), "A", 2),
			}},
			[]Decision{{Trial: 2, Card: "A", Stop: true}},
		},
		"who was passed too often goes first": {
			State{Cards: cards(24), Waiting: []Trial{waits(1, 20, 9*h), passed(waits(2, 20, h))}},
			[]Decision{{Trial: 2, Card: "A"}},
		},
		"a card is kept for it": {
			State{Cards: cards(24, 24), Waiting: append(many(40, 4, h), passed(waits(99, 20, h))),
				Running: []Running{runs(waits(4, 8, 5*h), "A", 1), runs(waits(5, 8, 2*h), "B", 2)}},
			[]Decision{{Trial: 1, Card: "A"}},
		},
		"a trial that needs a card to itself is not left to the end": {
			State{Cards: cards(24), Waiting: append(many(40, 4, 2*h), waits(99, 0, h))},
			[]Decision{{Trial: 99, Card: "A"}},
		},
		"a card is emptied for it, the largest": {
			State{Cards: cards(24, 40), Waiting: append(many(40, 4, 2*h), waits(99, 0, h)), Running: []Running{
				runs(waits(97, 4, h), "A", 1), runs(waits(98, 4, h), "B", 2),
			}},
			[]Decision{{Trial: 1, Card: "A"}},
		},
		"a running trial that outgrows its estimate is a warning for others": {
			State{Cards: cards(8, 24), Waiting: []Trial{uncertain(waits(3, 6, h))}, Running: []Running{
				with(runs(waits(1, 2, h), "A", 1), func(r *Running) { r.Certain, r.Used = false, 7*gib }),
				runs(waits(2, 8, h), "B", 2),
			}, Peaks: Peaks{n: 10_000, worst: 1}},
			nil,
		},
		"and without it": {
			State{Cards: cards(8, 24), Waiting: []Trial{uncertain(waits(3, 6, h))}, Running: []Running{
				runs(waits(1, 7, 9*h), "A", 1), runs(waits(2, 8, 9*h), "B", 2),
			}, Peaks: Peaks{n: 10_000, worst: 1}},
			[]Decision{{Trial: 3, Card: "B"}},
		},
		"a card that the sweep does not have is nobody's": {
			State{Cards: cards(24), Running: []Running{runs(waits(1, 20, h), "X", 1)}, Waiting: []Trial{waits(2, 20, h)}},
			[]Decision{{Trial: 2, Card: "A"}},
		},
		"no cards": {State{Waiting: []Trial{waits(1, 1, h)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tt.state.Waiting)
			got := Place(tt.state)
			if d := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(Decision{}, "Why")); d != "" {
				t.Errorf("want -, got +:\n%s", d)
			}
			for _, d := range got {
				if d.Stop != strings.HasPrefix(d.Why, "the card fills: ") {
					t.Errorf("%+v", d)
				}
			}
			if d := cmp.Diff(got, Place(tt.state)); d != "" {
				t.Errorf("decided otherwise the second time:\n%s", d)
			}
			if !slices.Equal(before, tt.state.Waiting) {
				t.Error("Place changed what it was given")
			}
		})
	}
}

// Whatever the state: only what waits is started, once, on a card that there is; only what runs is stopped; and trials
// that share a card fit on it by their estimates.
func TestPromises(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := State{Cards: cards(11, 12, 24, 24, 40, 80)[:rng.IntN(7)], Slowed: measured(1 + rng.Float64())}
		trial := func(id int) Trial {
			return Trial{
				ID: id, Need: unit.Bytes(rng.Float64() * 30 * float64(gib) * float64(rng.IntN(5))), Certain: rng.IntN(3) > 0,
				Length: time.Duration(rng.IntN(4)) * time.Hour, Saves: rng.IntN(3) > 0,
				Stops: rng.IntN(3), Failed: rng.IntN(9) == 0, Passed: rng.IntN(30),
			}
		}
		waiting, running := map[int]Trial{}, map[int]bool{}
		for id := range rng.IntN(60) {
			s.Waiting = append(s.Waiting, trial(id))
			waiting[id] = s.Waiting[id]
		}
		own, claims := map[string]int{}, map[string]unit.Bytes{}
		for i := range s.Cards {
			c := &s.Cards[i]
			c.Others = unit.Bytes(rng.IntN(2)) * unit.Bytes(rng.Float64()*float64(c.Total))
			for range rng.IntN(3) {
				r := runs(trial(1000+len(s.Running)), c.ID, len(s.Running))
				s.Running, running[r.ID] = append(s.Running, r), true
				own[c.ID], claims[c.ID] = own[c.ID]+1, claims[c.ID]+r.Need
			}
		}
		for _, d := range Place(s) {
			trial, waits := waiting[d.Trial]
			switch at := slices.IndexFunc(s.Cards, func(c Card) bool { return c.ID == d.Card }); {
			case at < 0 || d.Stop && !running[d.Trial] || !d.Stop && !waits:
				t.Fatalf("seed %d: %+v", seed, d)
			case d.Stop:
				delete(running, d.Trial)
			default:
				delete(waiting, d.Trial)
				own[d.Card], claims[d.Card] = own[d.Card]+1, claims[d.Card]+trial.Need
				if room := s.Cards[at].Total - s.Cards[at].Others; own[d.Card] > 1 && claims[d.Card] > room {
					t.Fatalf("seed %d: %d trials of %v on %v: %+v", seed, own[d.Card], claims[d.Card], room, d)
				}
			}
		}
	}
}

// A rehearsal gives back what a trial had when it ends: its memory, and a card that it had to itself or that was kept.
func TestPlay(t *testing.T) {
	const h = time.Hour
	for name, tt := range map[string]struct {
		waiting []Trial
		held    bool
		most    int
		want    time.Duration
	}{
		"one after the other for want of memory": {[]Trial{waits(1, 20, h), waits(2, 20, h)}, false, 3, 4 * h},
		"or because their needs are unknown":     {[]Trial{waits(1, 0, h), waits(2, 0, h)}, false, 3, 4 * h},
		"three at once":                          {[]Trial{waits(1, 4, h), waits(2, 4, h)}, false, 3, 195 * time.Minute},
		"two at once":                            {[]Trial{waits(1, 4, h), waits(2, 4, h)}, false, 2, 3 * h},
		"none beside one on a card that is kept": {[]Trial{waits(1, 4, h), waits(2, 4, h)}, true, 2, 210 * time.Minute},
	} {
		b := newBoard(State{
			Cards: cards(24), Waiting: tt.waiting, Running: []Running{runs(waits(9, 8, 2*h), "A", 1)},
			Policy: Policy{Slowdown: 1.5}, Slowed: measured(1.5),
		})
		b.survey(tt.waiting)
		for i := range b.cards {
			b.cards[i].held = tt.held
		}
		b.rehearsed = true
		if got := b.copied().play(slices.Clone(tt.waiting), tt.most); (got - tt.want).Abs() > time.Second {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestPeaks(t *testing.T) {
	var p Peaks
	if got := p.Factor(); got != 2 {
		t.Errorf("before anything was measured: %v, want 2", got)
	}
	p.Add(0, gib)
	p.Add(gib, 0)
	if got := p.Factor(); got != 2 {
		t.Errorf("what is unknown teaches nothing: %v, want 2", got)
	}
	for range 10 {
		p.Add(10*gib, 9*gib)
	}
	if got := p.Factor(); math.Abs(got-0.9*1.5) > 1e-9 {
		t.Errorf("after ten of 0.9: %v, want 1.35", got)
	}
	p.Add(10*gib, 14*gib)
	for range 989 {
		p.Add(10*gib, 9*gib)
	}
	if got := p.Factor(); got < 1.4 || got > 1.42 {
		t.Errorf("one of 1.4 among a thousand: %v, want a little more than 1.4", got)
	}
}

func TestSlowed(t *testing.T) {
	var s Slowed
	if got := s.Factor(0); math.Abs(got-DefaultSlowdown) > 1e-9 {
		t.Errorf("before anything was measured: %v", got)
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		s.Add(1, 2, bad)
	}
	s.Add(2, 2, 1.5)
	s.Add(0, 2, 1.5)
	if s.n != 0 {
		t.Errorf("%d measurements that are none", s.n)
	}
	for range 100 {
		s.Add(3, 1, 1/(1.6*1.6)) // two others have left
	}
	if got := s.Factor(1.3); got < 1.58 || got > 1.6 {
		t.Errorf("after a hundred of 1.6: %v", got)
	}
	for k, want := range map[float64]int{1: 5, 1.3: 3, 1.6: 2, 1.85: 2, 1.95: 1, 3: 1} {
		if got := sharing(k, 5); got != want {
			t.Errorf("at a slowdown of %v %d share, want %d", k, got, want)
		}
	}
}
