package simulate

import (
	"reflect"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/sweep/pack"
	"github.com/launch-ml/launch/core/unit"
)

func hours(t *testing.T, r Report, want int) float64 {
	t.Helper()
	if r.Ended != want {
		t.Fatalf("%d of %d trials ended: %+v", r.Ended, want, r)
	}
	return r.Makespan.Hours()
}

// The simulator's own arithmetic, by hand: an hour is an hour, two on a card share it, and a process of other
// people's counts.
func TestByHand(t *testing.T) {
	job := func(id int, length time.Duration) Job {
		return Job{Peak: 2 * unit.GiB, Time: length, Trial: pack.Trial{
			ID: id, Need: 2 * unit.GiB, Certain: true, Length: length, Saves: true,
		}}
	}
	hour, two := job(1, time.Hour), job(2, 2*time.Hour)
	guest := []Other{{Card: "A", Stays: 130 * time.Minute, Use: 8 * unit.GiB}}
	for name, tt := range map[string]struct {
		Setup
		want time.Duration
	}{
		"alone":                  {Setup{Jobs: []Job{two}}, 120 * time.Minute},
		"one after the other":    {Setup{Jobs: []Job{hour, two}, Policy: Exclusive}, 180 * time.Minute},
		"1.3 h shared, 1 h left": {Setup{Jobs: []Job{hour, two}}, 138 * time.Minute},
		"at 1.3: 100 of 130 min": {Setup{Jobs: []Job{two}, Others: guest}, 150 * time.Minute},
		"linear, which is alike": {Setup{Jobs: []Job{hour, two}, Model: Linear}, 138 * time.Minute},
		"a third gains nothing":  {Setup{Jobs: []Job{hour, two}, Model: Full}, 138 * time.Minute},
	} {
		tt.Slowdown, tt.Cards = 1.3, Cards(24)
		if got := Simulate(tt.Setup); got.Makespan != tt.want {
			t.Errorf("%s: %v, want %v: %+v", name, got.Makespan, tt.want, got)
		}
	}
	full := job(3, time.Hour)
	full.Peak = 30 * unit.GiB // 18 GiB at once, 25.5 GiB after three minutes
	r := Simulate(Setup{Jobs: []Job{full}, Cards: Cards(24, 40), Policy: Exclusive, Slowdown: 1.3})
	if r.OOMs != 1 || r.Caused != 0 || r.Lost != 3*time.Minute || r.Makespan != 64*time.Minute {
		t.Errorf("a trial that outgrows its card, and goes on another one after a minute: %+v", r)
	}
}

// Ten thousand trials on six cards of five sizes: how much shorter the sweep gets, without running out of memory.
func TestTenThousand(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	jobs := Trials(CARMA, n, Doubts{}, 1)
	alone := hours(t, Simulate(Setup{Jobs: jobs, Cards: Mixed, Policy: Exclusive, Slowdown: 1.3}), n)
	for slowdown, atMost := range map[float64]float64{1.0: 0.35, 1.3: 0.75, 1.6: 0.85} {
		r := Simulate(Setup{Jobs: jobs, Cards: Mixed, Slowdown: slowdown})
		if got := hours(t, r, n) / alone; got > atMost {
			t.Errorf("slowdown %v: %.3f of exclusive placement's makespan, want at most %v", slowdown, got, atMost)
		}
		if r.OOMs != 0 || r.Stops != 0 || r.Starts != n {
			t.Errorf("slowdown %v: with upper bounds and nobody else nothing goes wrong: %+v", slowdown, r)
		}
	}
}

// At a slowdown of two sharing gets nothing done, and nobody shares.
func TestNoGain(t *testing.T) {
	jobs := Trials(CARMA, 300, Doubts{}, 2)
	alone := Simulate(Setup{Jobs: jobs, Cards: Mixed, Policy: Exclusive, Slowdown: 2})
	r := Simulate(Setup{Jobs: jobs, Cards: Mixed, Policy: pack.Policy{Slowdown: 2}, Slowdown: 2})
	if r.Hash != alone.Hash || r.Crowd != 1 {
		t.Errorf("packing differs from exclusive placement: %+v, %+v", r, alone)
	}
}

// The slowdown is learned: where the expected one is far too low, a long sweep stops sharing.
func TestSlowdownIsLearned(t *testing.T) {
	jobs := Trials(CARMA, 300, Doubts{}, 2)
	alone := Simulate(Setup{Jobs: jobs, Cards: Mixed, Policy: Exclusive, Slowdown: 2.5})
	r := Simulate(Setup{Jobs: jobs, Cards: Mixed, Policy: pack.Policy{Slowdown: 1.1}, Slowdown: 2.5})
	if got := hours(t, r, 300) / hours(t, alone, 300); got > 1.1 {
		t.Errorf("%.2f of exclusive placement's makespan", got)
	}
}

// What estimates get wrong, and what other people do, costs time and never memory that exclusive placement would have
// had.
func TestNoOOMIsCaused(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for name, d := range map[string]Doubts{
		"upper bounds":                 {},
		"a tenth 25 % off":             {Wrong: 0.1, By: 0.25},
		"a fifth 50 % off":             {Wrong: 0.2, By: 0.5},
		"a tenth 100 % off":            {Wrong: 0.1, By: 1},
		"half of them unknown":         {Unknown: 0.5},
		"no length is known":           {NoTime: 1},
		"all of it, and some unsaved ": {Wrong: 0.1, By: 0.25, Unknown: 0.05, NoTime: 0.3, Unsaved: 0.3},
	} {
		for _, others := range []int{0, 100} {
			for seed := range seeds {
				const n = 300
				s := Setup{
					Jobs: Trials(CARMA, n, d, seed), Others: Others(Mixed, others, 14*time.Hour, seed),
					Cards: Mixed, Slowdown: 1.3,
				}
				r := Simulate(s)
				hours(t, r, n)
				if r.Caused != 0 || r.Theirs != 0 {
					t.Errorf("%s, %d others, seed %d: %+v", name, others, seed, r)
				}
				if others == 0 && d == (Doubts{}) && r.OOMs != 0 {
					t.Errorf("%s: own trials alone fill a card: %+v", name, r)
				}
				if others > 0 && d == (Doubts{}) && r.Stops == 0 {
					t.Errorf("seed %d: nobody came in the way, so that nothing was tried", seed)
				}
				if seed > 0 {
					continue
				}
				if again := Simulate(s); !reflect.DeepEqual(r, again) {
					t.Errorf("%s, %d others, seed %d: not the same twice:\n%+v\n%+v", name, others, seed, r, again)
				}
			}
		}
	}
}

// Where sharing would make the sweep longer, nothing is shared, whatever the slowdown.
func TestNeverLonger(t *testing.T) {
	for _, slowdown := range []float64{1, 1.3, 1.6, 1.85, 2.5} {
		shorter := 0
		for seed := range uint64(150) {
			s := Setup{Jobs: Small(seed, true), Cards: DGX, Policy: pack.Policy{Slowdown: slowdown}, Slowdown: slowdown}
			r := Simulate(s)
			s.Policy = Exclusive
			alone := Simulate(s)
			switch by := r.Makespan - alone.Makespan; {
			case by > 2*time.Second: // rounding
				t.Errorf("slowdown %v, seed %d: %v, exclusive %v", slowdown, seed, r.Makespan, alone.Makespan)
			case by < 0:
				shorter++
			}
		}
		if slowdown < 1.7 && shorter == 0 {
			t.Errorf("slowdown %v: nothing was ever shared", slowdown)
		}
	}
}

// One trial that is longer than all the rest stays alone, however many wait.
func TestTheLongestStaysAlone(t *testing.T) {
	jobs := Trials(CARMA, 500, Doubts{}, 4)
	jobs[7].Time = 200 * time.Hour
	jobs[7].Length = jobs[7].Time
	r := Simulate(Setup{Jobs: jobs, Cards: Mixed, Slowdown: 1.6, Policy: pack.Policy{Slowdown: 1.6}})
	if r.Makespan > 201*time.Hour {
		t.Errorf("the sweep took %v, its longest trial %v", r.Makespan, jobs[7].Time)
	}
}

// In a stream of trials that never ends nobody waits for ever: neither the shortest, nor the largest on cards on which
// smaller ones always find room, nor one that needs a card to itself.
func TestNobodyStarves(t *testing.T) {
	var jobs []Job
	add := func(at time.Duration, need unit.Bytes, length time.Duration) {
		jobs = append(jobs, Job{At: at, Peak: max(need, unit.GiB), Time: length, Trial: pack.Trial{
			ID: len(jobs), Need: need, Certain: true, Length: length, Saves: true,
		}})
	}
	for i := range 600 { // a little more than two cards get done
		at := time.Duration(i) * 8 * time.Minute
		add(at, 3*unit.GiB, 30*time.Minute+time.Duration(i%7)*time.Minute)
		if i%100 == 3 {
			add(at, 3*unit.GiB, time.Minute)
			add(at, 22*unit.GiB, 20*time.Minute)
			add(at, 0, 20*time.Minute)
		}
	}
	for _, p := range []pack.Policy{Exclusive, {}, {Slowdown: 1}} {
		r := Simulate(Setup{Jobs: jobs, Cards: Cards(24, 24), Policy: p, Slowdown: 1.6})
		hours(t, r, len(jobs))
		if r.Latest > 40 {
			t.Errorf("%+v: %d trials that came later were started before one", p, r.Latest)
		}
	}
}
