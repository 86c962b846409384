package run

import (
	"testing"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
)

// A run that is refused names the mildest rung of a package that would make it fit, and no other.
func TestAbsent(t *testing.T) {
	const distribution = "bitsandbytes"
	at := func(shared []ladder.Rung, needs ...unit.Bytes) *ladder.Set {
		asked := ladder.Rung{Name: AsAsked}
		for _, n := range needs {
			asked.Estimates = append(asked.Estimates, sure(n, 0, 0))
		}
		return &ladder.Set{Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: shared},
			Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{asked}}}}
	}
	plain := []ladder.Rung{{Name: AsAsked}, {Name: "shorter", Cost: ladder.Recipe}}
	rungs := append(plain[:1:1], ladder.Rung{Name: "paged", Cost: ladder.Speed}, plain[1],
		ladder.Rung{Name: "4 bits", Cost: ladder.Model})
	for name, tt := range map[string]struct {
		needs, with []unit.Bytes
		learned     bool
		want        Absent
	}{
		"it fits": {[]unit.Bytes{11, 6}, []unit.Bytes{11, 9, 6, 5}, false, Absent{}},
		"the mildest": {[]unit.Bytes{20, 18}, []unit.Bytes{20, 11, 18, 5}, false,
			Absent{distribution, "paged", ladder.Speed, 11 * g}},
		"another model": {[]unit.Bytes{20, 18}, []unit.Bytes{20, 19, 18, 5}, false,
			Absent{distribution, "4 bits", ladder.Model, 5 * g}},
		"none of them":     {[]unit.Bytes{20, 18}, []unit.Bytes{20, 19, 18, 13}, false, Absent{}},
		"a rung it has":    {[]unit.Bytes{20, 8}, []unit.Bytes{20, 19, 8, 5}, false, Absent{}},
		"what was learned": {[]unit.Bytes{20, 18}, []unit.Bytes{20, 11, 18, 5}, true, Absent{}},
	} {
		r := sr(nil, nil)
		scale := func(gib []unit.Bytes) (out []unit.Bytes) {
			for _, n := range gib {
				out = append(out, n*g)
			}
			return out
		}
		r.Ladders = at(plain, scale(tt.needs)...)
		r.Ladders.Absent = &ladder.Absent{Package: distribution, Set: at(rungs, scale(tt.with)...)}
		if tt.learned {
			r.Priced = r.Ladders
		}
		p, stop := r.Next()
		var got Absent
		if p == nil && stop.Absent != nil {
			got = *stop.Absent
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
