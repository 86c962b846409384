package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
)

// The configurations of a phase are its rungs, the shared ones, and the plan: one is the job as asked, one the plan's.
func TestConfigurations(t *testing.T) {
	both := func(r ladder.Rung, values map[string]int64, there mem.Estimate) ladder.Rung {
		r.Estimates, r.Values = append(r.Estimates, there), values
		return r
	}
	r := sr([]ladder.Rung{
		both(rung("as asked", ladder.None, "", "", sure(g, 8*g, 0)), nil, sure(g, 4*g, 0)),
		both(rung("8 × 2", ladder.Speed, "micro-batch", "8", sure(g, 4*g, 0)),
			map[string]int64{job.MicroBatch: 8, job.Accumulation: 2}, sure(g, 2*g, 0)),
	}, nil)
	r.Ladders.Phases = r.Ladders.Phases[:1]
	r.Ladders.Shared.Rungs = append(r.Ladders.Shared.Rungs, ladder.Rung{Name: "bf16", Cost: ladder.Numerics})
	r.Ladders.Values = map[string]int64{job.MicroBatch: 16, job.Accumulation: 1}
	text := func() string {
		p, _ := r.First()
		var out []string
		for _, c := range r.Configurations(ladder.Training, p) {
			s := fmt.Sprintf("%s %v %v %v %d × %d", c.Name, c.Estimate.Total(), c.Verdict, c.Cost, c.Batch.Micro,
				c.Batch.Accumulation)
			for mark, on := range map[string]bool{" asked": c.Asked, " not allowed": !c.Allowed} {
				if on {
					s += mark
				}
			}
			if c.Taken {
				s += " taken"
			}
			out = append(out, s)
		}
		return strings.Join(out, "\n")
	}
	for _, tt := range []struct {
		name string
		make func()
		want string
	}{
		{"with room", func() {}, `as asked 9.00 GiB fits none 16 × 1 asked taken
8 × 2 5.00 GiB fits speed 8 × 2
bf16 5.00 GiB fits numerics 16 × 1`},
		{"both changed", func() { r.Room = 4 * g }, `as asked 9.00 GiB cannot fit none 16 × 1 asked
8 × 2 5.00 GiB cannot fit speed 8 × 2
bf16 5.00 GiB cannot fit numerics 16 × 1
bf16; 8 × 2 3.00 GiB fits numerics 8 × 2 taken`},
		{"without a device", func() { r.Room, r.Limits.Allow = 0, ladder.Speed },
			`as asked 9.00 GiB unknown none 16 × 1 asked taken
8 × 2 5.00 GiB unknown speed 8 × 2
bf16 5.00 GiB unknown numerics 16 × 1 not allowed`},
	} {
		tt.make()
		if got := text(); got != tt.want {
			t.Errorf("%s: the configurations are\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}
