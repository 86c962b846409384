package ladder

import (
	"errors"
	"fmt"
	"math"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// Bounds of what a plugin may answer, so that no sum overflows and no check takes long. The largest set of the built-in
// families has some hundred rungs.
const (
	maxRungs      = 20_000 // of all ladders
	maxPhases     = 64
	maxShared     = 1000
	maxInvariants = 100
	maxPerRung    = 1000                // edits, values, lines
	maxAmount     = unit.Bytes(1) << 46 // 64 TiB, of one estimate
	maxPerSample  = unit.Bytes(1) << 36 // 64 GiB, of one rung of the host's
	maxSlowdown   = 1e6
)

// bounds reports the first number of s that is out of proportion.
func (s *Set) bounds() error {
	rungs := len(s.Shared.Rungs)
	for _, l := range s.Phases {
		rungs += len(l.Rungs)
	}
	if s.Host != nil {
		rungs += len(s.Host.Rungs)
	}
	if rungs > maxRungs || len(s.Phases) > maxPhases || len(s.Shared.Rungs) > maxShared || len(s.Invariants) > maxInvariants || len(s.Values) > maxPerRung {
		return fmt.Errorf("it has %d rungs, %d shared ones, %d phases and %d invariants", rungs, len(s.Shared.Rungs), len(s.Phases), len(s.Invariants))
	}
	phases := map[string]bool{Shared: true}
	for _, l := range s.Phases {
		if phases[l.Phase] || l.Phase == "" {
			return fmt.Errorf("phase %.100q has two ladders, or no name", l.Phase)
		}
		phases[l.Phase] = true
	}
	for _, l := range append([]Ladder{s.Shared}, s.Phases...) {
		for _, r := range l.Rungs {
			if err := r.bounds(); err != nil {
				return fmt.Errorf("%.100s ladder: rung %.100q: %w", l.Phase, r.Name, err)
			}
		}
	}
	for _, in := range s.Invariants {
		if len(in.Factors) > maxPerRung {
			return fmt.Errorf("the invariant %.100q has %d factors", in.Name, len(in.Factors))
		}
	}
	if s.Host == nil {
		return nil
	}
	for _, r := range s.Host.Rungs {
		total, perSample := unit.Bytes(0), unit.Bytes(0)
		err := edits(r.Edits)
		if len(r.Lines) > maxPerRung {
			err = errors.New("it has too many lines")
		}
		if err != nil {
			return fmt.Errorf("host ladder: rung %.100q: %w", r.Name, err)
		}
		for _, line := range r.Lines {
			if abs(line.Bytes) > maxAmount || abs(line.PerSample) > maxPerSample {
				return fmt.Errorf("host ladder: rung %.100q: %.100s is %v, and %v a sample", r.Name, line.What, line.Bytes, line.PerSample)
			}
			total, perSample = total+abs(line.Bytes), perSample+abs(line.PerSample)
		}
		if total > maxAmount || perSample > maxPerSample {
			return fmt.Errorf("host ladder: rung %.100q needs %v, and %v a sample", r.Name, total, perSample)
		}
	}
	return nil
}

func (r Rung) bounds() error {
	if !(r.Slowdown >= 0 && r.Slowdown <= maxSlowdown) { // nor NaN
		return fmt.Errorf("it takes %g times as long", r.Slowdown)
	}
	if len(r.Values) > maxPerRung {
		return fmt.Errorf("it sets %d knobs", len(r.Values))
	}
	for _, e := range r.Estimates {
		if err := amounts(e); err != nil {
			return err
		}
	}
	return edits(r.Edits)
}

func edits(list []config.Edit) error {
	if len(list) > maxPerRung {
		return fmt.Errorf("it makes %d edits", len(list))
	}
	for _, e := range list {
		if err := e.Check(); err != nil {
			return err
		}
	}
	return nil
}

func amounts(e mem.Estimate) error {
	total := unit.Bytes(0)
	for _, it := range e.Items {
		if abs(it.Bytes) > maxAmount {
			return fmt.Errorf("%s of %.100s is %v", it.Kind, it.What, it.Bytes)
		}
		if total += abs(it.Bytes); total > maxAmount {
			return fmt.Errorf("it needs more than %v", maxAmount)
		}
	}
	for _, a := range e.Allocs {
		if a.Bytes < 0 || a.Bytes > maxAmount {
			return fmt.Errorf("%.100s asks for %d bytes", a.What, a.Bytes)
		}
	}
	if e.Reserved < 0 || e.Reserved > maxAmount {
		return fmt.Errorf("it reserves %d bytes", e.Reserved)
	}
	return nil
}

// abs is the amount without its sign; of the one that has none without it, more than any bound.
func abs(b unit.Bytes) unit.Bytes {
	switch {
	case b >= 0:
		return b
	case -b < 0:
		return math.MaxInt64
	}
	return -b
}
