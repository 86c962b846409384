package ladder

import (
	"slices"

	"github.com/launch-ml/launch/core/mem"
)

// What the families of models share in building their ladders.

// AsAsked is the rung of the job as it was typed, with its estimates; on the shared ladder it has none.
func AsAsked(estimates ...mem.Estimate) Rung {
	return Rung{Name: "as asked", Slowdown: 1, Estimates: estimates}
}

// Idle makes s the ladders of a job that takes nothing of the card it is priced for: its phases run as asked, and their estimates are
// unknown for that reason.
func (s *Set) Idle(why string, phases ...string) {
	s.Shared = Ladder{Phase: Shared, Rungs: []Rung{AsAsked()}}
	s.Phases = nil
	for _, p := range phases {
		s.Phases = append(s.Phases, Ladder{Phase: p, Rungs: []Rung{AsAsked(mem.Estimate{Unknown: why})}})
	}
}

// DropShared takes a rung off the shared ladder, and its prices off the others.
func (s *Set) DropShared(i int) {
	s.Shared.Rungs = slices.Delete(s.Shared.Rungs, i, i+1)
	if i < s.Shared.Asked {
		s.Shared.Asked--
	}
	for _, l := range s.Phases {
		for k := range l.Rungs {
			l.Rungs[k].Estimates = slices.Delete(slices.Clone(l.Rungs[k].Estimates), i, i+1)
		}
	}
}

// DropUseless drops the rungs below the job as asked from the shared ladder that cost something and with which no phase as asked needs
// less.
func (s *Set) DropUseless() {
	for i := len(s.Shared.Rungs) - 1; i > s.Shared.Asked; i-- {
		if s.Shared.Rungs[i].Cost != None && !slices.ContainsFunc(s.Phases, func(l Ladder) bool {
			here, asked := l.Rungs[l.Asked].At(i), l.Rungs[l.Asked].At(s.Shared.Asked)
			return !here.Known() || here.Total() < asked.Total()
		}) {
			s.DropShared(i)
		}
	}
}

// MaxBatch bounds the global batches, of one rank, of which every division is looked at: nobody trains these networks with more.
const MaxBatch = 1 << 14

// A Split is one way to make up a global batch on one rank: samples in a forward pass, and passes before an optimizer step.
type Split struct{ Micro, Accumulation int64 }

// Others are the other ways to make up the same global batch of which takes is true, each from the largest micro-batch down: those
// with a larger micro-batch, and those with a smaller. Of a batch that is not known or larger than [MaxBatch] there are none.
func (s Split) Others(takes func(Split) bool) (larger, smaller []Split) {
	if s.Micro <= 0 || s.Accumulation <= 0 || s.Micro > MaxBatch || s.Accumulation > MaxBatch/s.Micro {
		return nil, nil
	}
	global := s.Micro * s.Accumulation
	for micro := global; micro >= 1; micro-- {
		o := Split{micro, global / micro}
		switch {
		case global%micro != 0 || micro == s.Micro || !takes(o):
		case micro > s.Micro:
			larger = append(larger, o)
		default:
			smaller = append(smaller, o)
		}
	}
	return larger, smaller
}

// Divides reports whether one of two splits' micro-batches is a multiple of the other's.
func (s Split) Divides(o Split) bool { return s.Micro%o.Micro == 0 || o.Micro%s.Micro == 0 }

// SplitSlowdown is the time expected of a step in so many times as many pieces, relative to the step as asked: a smaller piece fills a
// card worse. It orders the rungs of one cost and promises nothing.
func SplitSlowdown(times float64) float64 {
	if times <= 1 {
		return 1 / (1 + 0.02*(1/times-1))
	}
	return 1 + 0.02*(times-1)
}
