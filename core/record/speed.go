package record

import (
	"slices"

	"github.com/launch-ml/launch/core/ladder"
)

// Speed returns the samples of the global batch per second that this program reached in training, on these rungs and on
// this machine: the median of its newest receipts; 0 if there is none. Other programs, cards and settings count for
// nothing: a speed does not carry over as memory does.
func (s Subject) Speed(all []Receipt, set *ladder.Set, shared, rung int) float64 {
	if s.machine.Kind == "" || s.program == "" || set.Ladder(ladder.Training) == nil {
		return 0
	}
	want := s.key(set, ladder.Training, shared, rung)
	var rates []float64
	for _, r := range slices.Backward(all) {
		if r.Rate <= 0 || r.Imported || r.Job.Phase != ladder.Training || r.Job.Program != want.Program ||
			r.Job.Plugin != want.Plugin || r.Machine.near(s.machine) != sameAll || !has(r.Job.Settings, want.Settings) {
			continue
		}
		if rates = append(rates, r.Rate); len(rates) == perSize {
			break
		}
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// has reports whether settings have every wanted value. What else they have, such as the number of loader workers, was
// set for host memory.
func has(settings, wanted map[string]string) bool {
	for name, value := range wanted {
		if settings[name] != value {
			return false
		}
	}
	return true
}
