// Package pack places the trials of a sweep on the cards of a machine, several on one card where that is safe and pays.
//
// [Place] is a pure function of what is known now: it starts no process, reads no clock and asks no driver. Its caller
// carries the decisions out, and calls again when something has changed: for a sweep on this machine that is
// [Admission]. docs/large-sweeps.md has the rules, the model of slowdown, and what a simulation of them comes to.
package pack

import (
	"math"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// A Card is a card, or the part of it that the sweep may use.
type Card struct {
	ID    string
	Total unit.Bytes
	// Others is what the processes hold that are not of this sweep, as measured now.
	Others unit.Bytes
}

// A Trial waits to be started.
type Trial struct {
	ID int
	// Need is the estimate of what the driver will report at the trial's peak, with its CUDA context and slack. 0 is
	// unknown: the trial gets a card to itself.
	Need unit.Bytes
	// Certain is true if Need is an upper bound. Otherwise Need is corrected by what other trials were measured at.
	Certain bool
	// Seen is the most that an earlier start of the trial was seen to use, before it was stopped. 0 is unknown.
	Seen unit.Bytes
	// AtLeast is what the trial is known to need more than: it ran out of memory with so much. 0 is unknown.
	AtLeast unit.Bytes
	// Length is the time that the trial takes alone on a card. 0 is unknown.
	Length time.Duration
	// Saves is true if the trial can be stopped and go on later from a saved state.
	Saves bool
	// Stops counts how often the trial was stopped and put back.
	Stops int
	// Failed is true if the trial ran out of memory beside another one of the sweep. It gets a card to itself.
	Failed bool
	// Passed counts the trials that came later and were started earlier.
	Passed int
}

// A Running trial is on a card.
type Running struct {
	Trial
	Card string
	// Started numbers the starts of a sweep: the youngest trial has the highest number.
	Started int
	// Used is the most that the driver reported for the trial so far. 0 is unknown.
	Used unit.Bytes
	// Ramped is true if the trial has reached its peak: every phase that it has was seen once.
	Ramped bool
	// Left is the time that the trial still takes if it is alone on its card. 0 is unknown.
	Left time.Duration
	// Stopping is true after the trial was asked to stop. It holds its memory until it is gone.
	Stopping bool
}

// A Policy is what the user may set.
type Policy struct {
	// Slowdown is the factor by which a trial is expected to slow down beside one other: 1.3 if each step takes 30 %
	// longer. 0 means [DefaultSlowdown]. Measured slowdowns outweigh it.
	Slowdown float64
	// Most is how many trials may share a card. 1 places them exclusively, 0 sets no limit.
	Most int
	// Headroom stays free on each card. 0 means [DefaultHeadroom].
	Headroom unit.Bytes
}

const (
	// DefaultSlowdown is assumed until slowdowns of this sweep were measured. Two on a card shorten a long sweep by 35 %
	// then, as much as CARMA reports of its trainings on A100s (arXiv 2508.19073v3, abstract).
	DefaultSlowdown = 1.3
	// DefaultHeadroom is about a CUDA context, of a neighbour that starts unannounced.
	DefaultHeadroom = 512 * unit.MiB

	gain        = 1.05 // a further trial on a card has to raise what the card gets done by 5 %
	doubt       = 1.0  // beside another trial an uncertain estimate counts twice, before anything was measured
	doubtHalves = 10   // and half of that is added after as many measurements
	grown       = 1.03 // what a trial may still grow by after its ramp: fragmentation
	surprised   = 1.50 // what a trial may still grow by that uses more than its estimate, and has not reached its peak
	again       = 1.10 // what a trial needs that ran out of memory, as a multiple of what it had
	othersGrow  = 0.5  // what other people's processes may still grow by, as a share of what they hold
	idle        = 0.10 // other people's processes are a desktop if they hold less than this share of a card
	patience    = 16   // a trial that so many later ones have passed goes first
	rollouts    = 16   // the tail of a sweep is rehearsed: when fewer trials wait for each card
	stopsAlone  = 2    // a trial that was stopped so often gets a card to itself
)

// A State is all that a decision depends on.
type State struct {
	Policy  Policy
	Cards   []Card
	Waiting []Trial
	Running []Running
	Peaks   Peaks
	Slowed  Slowed
}

// Peaks sums up how this sweep's estimates compared with what was measured.
type Peaks struct {
	n     int
	worst float64
}

// Add adds a trial that was measured to its peak, or that ran out of memory with so much.
func (p *Peaks) Add(need, used unit.Bytes) {
	if need <= 0 || used <= 0 {
		return
	}
	p.n++
	p.worst = max(p.worst, float64(used)/float64(need))
}

// Factor is what an uncertain estimate is multiplied by: the worst ratio of measured to estimate so far, and a doubt
// that fades with the number of measurements. After n of them the chance that the next one is worse is 1/(n+1), if
// the trials are alike. With enough of them it may be below 1.
func (p Peaks) Factor() float64 {
	worst := p.worst
	if p.n == 0 {
		worst = 1
	}
	return worst * (1 + doubt*doubtHalves/float64(p.n+doubtHalves))
}

// Slowed sums up by how much trials of this sweep slowed down when they shared a card.
type Slowed struct {
	n    int
	logs float64
}

// Add adds what was measured of one trial: its steps took ratio times as long with b trials on its card as with a.
func (s *Slowed) Add(a, b int, ratio float64) {
	if a < 1 || b < 1 || a == b || ratio <= 0 || math.IsInf(ratio, 0) || math.IsNaN(ratio) {
		return
	}
	s.n++
	s.logs += math.Log(ratio) / float64(b-a)
}

// Factor is the slowdown for two on a card: the geometric mean of what was measured, in which the expected one counts
// as three measurements.
func (s Slowed) Factor(expected float64) float64 {
	const weight = 3
	if expected <= 0 {
		expected = DefaultSlowdown
	}
	return max(1, math.Exp((s.logs+weight*math.Log(expected))/float64(s.n+weight)))
}

// Speed is the speed of each of k trials on a card, as a share of its speed alone. Every further trial makes the steps
// of all others longer by the same factor.
func Speed(slowdown float64, k int) float64 { return math.Pow(slowdown, -float64(k-1)) }

// sharing is how many trials on a card get the most done, by the slowdown.
func sharing(slowdown float64, most int) int {
	k := 1
	for (most == 0 || k < most) && float64(k+1)*Speed(slowdown, k+1) >= gain*float64(k)*Speed(slowdown, k) {
		k++
	}
	return k
}

// A Decision is one thing to do now: start a trial on a card, or ask a running one to save and stop.
type Decision struct {
	Trial int
	Card  string
	Stop  bool
	Now   bool   // of a stop: other people's processes may run out of memory meanwhile. It gets no time to save
	Why   string // of a stop: for people
}
