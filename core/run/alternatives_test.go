package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// A plan's alternatives are all rungs but those that it takes and the job as asked, each with the reason.
func TestAlternatives(t *testing.T) {
	grows := func(b unit.Bytes) mem.Estimate { return sure(g, b*g/4, 0) } // 5 GiB at 16
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	text := func(r *Run) string {
		p, _ := r.First()
		var out []string
		for _, a := range r.Alternatives(p) {
			s := fmt.Sprintf("%s/%s %v: %s", a.Phase, a.Name, a.Estimate.Total(), a.Why)
			if a.Near {
				s += " (near)"
			}
			out = append(out, s)
		}
		return strings.Join(out, "\n")
	}
	const rest = `
validation/tiles of 256 2.00 GiB: not needed: what is planned fits (near)
validation/tiles of 128 2.00 GiB: not needed: what is planned fits
validation/tiles of 64 2.00 GiB: not needed: what is planned fits`
	for _, tt := range []struct {
		name string
		make func(*Run)
		want string
	}{
		{"as asked", func(*Run) {}, `training/8 × 2 3.00 GiB: not needed: what is planned fits (near)
training/4 × 4 2.00 GiB: not needed: what is planned fits
training/2 × 8 1.50 GiB: not needed: what is planned fits
training/crop 64 1.25 GiB: --allow recipe allows it` + rest},
		{"in less", func(r *Run) { r.Room = 2 * g }, `training/8 × 2 3.00 GiB: cannot fit (near)
training/2 × 8 1.50 GiB: not needed: what is planned fits (near)
training/crop 64 1.25 GiB: --allow recipe allows it` + rest},
		{"in too little", func(r *Run) { r.Room = g + 1 }, `training/8 × 2 3.00 GiB: cannot fit
training/4 × 4 2.00 GiB: cannot fit (near)
training/crop 64 1.25 GiB: cannot fit; --allow recipe allows it (near)
validation/tiles of 256 2.00 GiB: cannot fit
validation/tiles of 128 2.00 GiB: cannot fit (near)`},
		{"as typed", func(r *Run) { r.Room, r.Limits.AsAsked = 2*g, true },
			`training/8 × 2 3.00 GiB: --as-asked changes nothing before an out-of-memory (near)
training/4 × 4 2.00 GiB: --as-asked changes nothing before an out-of-memory
training/2 × 8 1.50 GiB: --as-asked changes nothing before an out-of-memory
training/crop 64 1.25 GiB: --allow recipe allows it
validation/tiles of 256 2.00 GiB: --as-asked changes nothing before an out-of-memory (near)
validation/tiles of 128 2.00 GiB: --as-asked changes nothing before an out-of-memory
validation/tiles of 64 2.00 GiB: --as-asked changes nothing before an out-of-memory`},
	} {
		r := sr(training(grows), validation(small))
		tt.make(r)
		if got := text(r); got != tt.want {
			t.Errorf("%s: the alternatives are\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// Of the shared ladder each rung is priced as the only change, by the phase that is worst then.
func TestAlternativesShared(t *testing.T) {
	r := coupled(0)
	p, _ := r.First()
	seen := 0
	for _, a := range r.Alternatives(p) {
		if a.Phase != ladder.Shared {
			continue
		}
		seen++
		if a.Why == "" || !a.Near || a.Estimate.Total() == 0 {
			t.Errorf("%+v", a)
		}
	}
	if want := len(r.Ladders.Shared.Rungs) - 1; p.Shared.Rung == r.Ladders.Shared.Asked && seen != want ||
		p.Shared.Rung != r.Ladders.Shared.Asked && seen != want-1 {
		t.Errorf("%d shared rungs of %d", seen, want+1)
	}
}

// A rung above the job as asked is --fill's.
func TestAlternativesAbove(t *testing.T) {
	r := sr([]ladder.Rung{rung("as asked", ladder.None, "", "", sure(g, g, 0))}, nil)
	r.Ladders.Phases = r.Ladders.Phases[:1]
	l := &r.Ladders.Phases[0]
	l.Rungs = []ladder.Rung{rung("32", ladder.Speed, "micro-batch", "32", sure(g, 3*g, 0)),
		rung("as asked", ladder.None, "", "", sure(g, g, 0))}
	l.Asked = 1
	p, _ := r.First()
	if got := r.Alternatives(p); len(got) != 1 || got[0].Why != "it uses more of the card; --fill takes it" {
		t.Errorf("%+v", got)
	}
}
