package packtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/sweep/pack"
	"github.com/launch-ml/launch/core/unit"
)

// Exclusive places one trial on a card.
var Exclusive = pack.Policy{Most: 1}

// Slowdowns are those that the tables have.
var Slowdowns = []float64{1.0, 1.3, 1.6}

// all simulates several setups on all cores.
func all(setups []Setup) []Report {
	out := make([]Report, len(setups))
	var wg sync.WaitGroup
	for i, s := range setups {
		wg.Go(func() { out[i] = Simulate(s) })
	}
	wg.Wait()
	return out
}

// A Table is one of docs/large-sweeps.md.
type Table struct{ Name, Text string }

// Tables are those that docs/large-sweeps.md shows. The first one has so many trials.
func Tables(trials int) []Table {
	return []Table{{"makespan", makespans(trials)}, {"models", models()}, {"trouble", trouble()}, {"small", smallSweeps()}}
}

func shorter(r, alone Report) string {
	return fmt.Sprintf("%+.1f %%", 100*(float64(r.Makespan)/float64(alone.Makespan)-1))
}

func inHours(r Report) string { return fmt.Sprintf("%.1f h", r.Makespan.Hours()) }

// head is the head of a table in Markdown.
func head(b *strings.Builder, columns ...string) {
	fmt.Fprintf(b, "| %s |\n%s|\n", strings.Join(columns, " | "), strings.Repeat("|---", len(columns)))
}

// makespans compares packing with exclusive placement.
func makespans(trials int) string {
	var b strings.Builder
	head(&b, "trials", "cards, GiB", "slowdown of two", "exclusive", "at most two on a card", "as many as pay",
		"most on a card", "out of memory")
	for _, c := range []struct {
		n     int
		cards []pack.Card
		name  string
	}{{trials, Mixed, "11, 12, 24, 24, 40, 80"}, {0, DGX, "40, 40, 40, 40"}} {
		jobs := Trials(CARMA, c.n, Doubts{}, 1)
		setups := []Setup{{Jobs: jobs, Cards: c.cards, Policy: Exclusive, Slowdown: 1}} // nobody is slowed down
		for _, s := range Slowdowns {
			for _, p := range []pack.Policy{{Most: 2}, {}} {
				setups = append(setups, Setup{Jobs: jobs, Cards: c.cards, Policy: p, Slowdown: s})
			}
		}
		r := all(setups)
		for i, s := range Slowdowns {
			alone, two, more := r[0], r[1+2*i], r[2+2*i]
			fmt.Fprintf(&b, "| %d | %s | %.1f | %s | %s, %s | %s, %s | %d | %d |\n", len(jobs), c.name, s, inHours(alone),
				inHours(two), shorter(two, alone), inHours(more), shorter(more, alone), more.Crowd, alone.OOMs+two.OOMs+more.OOMs)
		}
	}
	return b.String()
}

// models compares what packing comes to where the slowdown is not as it assumes.
func models() string {
	var b strings.Builder
	head(&b, "slowdown of two", "each further one: times it", "each further one: plus as much", "a third gains nothing")
	jobs := Trials(CARMA, 1000, Doubts{}, 1)
	for _, s := range []float64{1.0, 1.3, 1.6, 1.9, 2.5} {
		setups := []Setup{{Jobs: jobs, Cards: Mixed, Policy: Exclusive, Slowdown: s}}
		for _, m := range []Model{Geometric, Linear, Full} {
			setups = append(setups, Setup{Jobs: jobs, Cards: Mixed, Slowdown: s, Model: m})
		}
		r := all(setups)
		fmt.Fprintf(&b, "| %.1f | %s | %s | %s |\n", s, shorter(r[1], r[0]), shorter(r[2], r[0]), shorter(r[3], r[0]))
	}
	return b.String()
}

// trouble is what wrong estimates and other people come to.
func trouble() string {
	const n, seeds = 1000, 3
	var b strings.Builder
	head(&b, "estimates", "other people's processes", "makespan", "trials out of memory", "because they shared",
		"others out of memory", "stopped and put back", "work done twice", "others found no room")
	for _, d := range []struct {
		name string
		Doubts
	}{
		{"upper bounds", Doubts{}},
		{"10 % of them 25 % off", Doubts{Wrong: 0.1, By: 0.25}},
		{"10 % of them 100 % off", Doubts{Wrong: 0.1, By: 1}},
		{"10 % of them unknown", Doubts{Unknown: 0.1}},
		{"no length known", Doubts{NoTime: 1}},
	} {
		for _, others := range []int{0, 200} {
			var setups []Setup
			for seed := range uint64(seeds) {
				s := Setup{
					Jobs: Trials(CARMA, n, d.Doubts, seed), Others: Others(Mixed, others, 45*time.Hour, seed),
					Cards: Mixed, Policy: Exclusive, Slowdown: 1.3,
				}
				setups = append(setups, s)
				s.Policy = pack.Policy{}
				setups = append(setups, s)
			}
			var alone, packed Report
			for i, r := range all(setups) {
				if i%2 == 0 {
					alone = sum(alone, r)
				} else {
					packed = sum(packed, r)
				}
			}
			fmt.Fprintf(&b, "| %s | %d | %s | %d, %d | %d | %d, %d | %d | %.1f %% | %d, %d |\n", d.name, seeds*others,
				shorter(packed, alone), alone.OOMs, packed.OOMs, packed.Caused, alone.Theirs, packed.Theirs, packed.Stops,
				100*packed.Lost.Seconds()/work(setups).Seconds(), alone.Away, packed.Away)
		}
	}
	return b.String()
}

func sum(a, b Report) Report {
	a.Makespan, a.Lost = a.Makespan+b.Makespan, a.Lost+b.Lost
	a.OOMs, a.Caused, a.Theirs = a.OOMs+b.OOMs, a.Caused+b.Caused, a.Theirs+b.Theirs
	a.Stops, a.Away = a.Stops+b.Stops, a.Away+b.Away
	return a
}

// work is what all trials of every second setup take alone.
func work(setups []Setup) (d time.Duration) {
	for i := 0; i < len(setups); i += 2 {
		for _, j := range setups[i].Jobs {
			d += j.Time
		}
	}
	return d
}

// Small is a sweep of 1 to 20 trials of any length, all of which fit two on a card. If exact, their lengths are known
// as they are.
func Small(seed uint64, exact bool) []Job {
	rng := rand.New(rand.NewPCG(seed, 3))
	jobs := Trials(CARMA, 1+rng.IntN(20), Doubts{}, seed)
	alike := rng.IntN(3) == 0
	for i := range jobs {
		j := &jobs[i]
		off := float64(j.Length) / float64(j.Time)
		j.Peak = min(j.Peak, 9*unit.GiB)
		j.Need, j.Time = j.Peak, time.Duration((1+60*rng.ExpFloat64())*float64(time.Minute))
		if alike {
			j.Time = time.Hour
		}
		j.Length = j.Time
		if !exact {
			j.Length = time.Duration(float64(j.Time) * off)
		}
	}
	return jobs
}

// smallSweeps is how packing does where there is little to pack.
func smallSweeps() string {
	const n = 300
	var b strings.Builder
	head(&b, "slowdown of two", "lengths", "shorter", "as long", "longer", "at worst", "on average")
	for _, s := range []float64{1.0, 1.3, 1.6, 1.9} {
		for _, exact := range []bool{true, false} {
			lengths := map[bool]string{true: "known", false: "predicted"}[exact]
			var less, equal, more int
			worst, mean := 0.0, 0.0
			for seed := range uint64(n) {
				setup := Setup{Jobs: Small(seed, exact), Cards: DGX, Policy: pack.Policy{Slowdown: s}, Slowdown: s}
				packed := Simulate(setup)
				setup.Policy = Exclusive
				alone := Simulate(setup)
				ratio := packed.Makespan.Seconds()/alone.Makespan.Seconds() - 1
				switch d := packed.Makespan - alone.Makespan; {
				case d < -2*time.Second:
					less++
				case d > 2*time.Second:
					more++
				default:
					equal++
				}
				worst, mean = max(worst, ratio), mean+ratio/n
			}
			fmt.Fprintf(&b, "| %.1f | %s | %d | %d | %d | %+.1f %% | %+.1f %% |\n", s, lengths,
				less, equal, more, 100*worst, 100*mean)
		}
	}
	return b.String()
}
