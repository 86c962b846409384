package ladder_test

import (
	"fmt"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

func estimate(bytes unit.Bytes) (e mem.Estimate) {
	e.Add(mem.Item{Kind: mem.Saved, What: "net", Bytes: bytes, From: "an example"})
	return e
}

// The divisions of a global batch of 12 that a program which takes even micro-batches accepts.
func ExampleSplit_Others() {
	larger, smaller := ladder.Split{Micro: 4, Accumulation: 3}.Others(func(s ladder.Split) bool { return s.Micro%2 == 0 })
	fmt.Println(larger, smaller)
	// Output: [{12 1} {6 2}] [{2 6}]
}

// Descend orders rungs by cost and then by slowdown, and drops those that save nothing.
func ExampleDescend() {
	rungs := ladder.Descend(ladder.AsAsked(estimate(8*unit.GiB)), []ladder.Rung{
		{Name: "bfloat16", Cost: ladder.Numerics, Slowdown: 0.8, Estimates: []mem.Estimate{estimate(5 * unit.GiB)}},
		{Name: "half the batch", Cost: ladder.Speed, Slowdown: 1.1, Estimates: []mem.Estimate{estimate(6 * unit.GiB)}},
		{Name: "a smaller queue", Cost: ladder.Recipe, Slowdown: 1, Estimates: []mem.Estimate{estimate(7 * unit.GiB)}},
	}, 0)
	for _, r := range rungs {
		fmt.Println(r.Name, r.At(0).Total())
	}
	// Output:
	// as asked 8.00 GiB
	// half the batch 6.00 GiB
	// bfloat16 5.00 GiB
}

// Fit takes the first rung that fits and that the user allows.
func ExampleLadder_Fit() {
	l := ladder.Ladder{Phase: ladder.Training, Rungs: []ladder.Rung{
		ladder.AsAsked(estimate(8 * unit.GiB)),
		{Name: "half the batch", Cost: ladder.Speed, Estimates: []mem.Estimate{estimate(6 * unit.GiB)}},
		{Name: "a smaller crop", Cost: ladder.Recipe, Estimates: []mem.Estimate{estimate(3 * unit.GiB)}},
	}}
	for _, allow := range []ladder.Cost{ladder.Speed, ladder.Recipe} {
		p, ok := l.Fit(ladder.Query{Room: 4 * unit.GiB, Allow: allow})
		fmt.Println(allow, ok, l.Rungs[p.Rung].Name, p.Verdict == ladder.Fits)
	}
	// Output:
	// speed true half the batch false
	// recipe true a smaller crop true
}

// An invariant binds every plan that costs less than its Until.
func ExampleInvariant() {
	global := ladder.Invariant{Name: "global batch", Factors: []string{"micro-batch", "accumulation"}, Equals: 16,
		Until: ladder.Recipe}
	fmt.Println(global.Holds(map[string]int64{"micro-batch": 4, "accumulation": 4}))
	fmt.Println(global.Holds(map[string]int64{"micro-batch": 8, "accumulation": 1}))
	fmt.Println(global.Binds(ladder.Speed), global.Binds(ladder.Recipe))
	// Output:
	// true
	// false
	// true false
}
