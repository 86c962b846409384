package record

import (
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
)

// A speed is that of the same program with the same settings on the same machine, or none.
func TestSpeed(t *testing.T) {
	j := &job.Job{Plugin: "p", Command: job.Command{Args: []string{"python3", "train.py"}, Dir: "/x"},
		Knobs: []job.Knob{{Name: job.MicroBatch, Value: "16"}, {Name: "amp", Value: "true"}}}
	set := &ladder.Set{
		Values: map[string]int64{job.MicroBatch: 16},
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{{Name: "as asked"},
			{Name: "8 × 2", Values: map[string]int64{job.MicroBatch: 8}}}}},
	}
	card := &gpu.Device{Kind: gpu.CUDA, Name: "card", Total: 8 * unit.GiB, Driver: "1"}
	s := SubjectOf(j, card, false)
	made := func(rung int, rate float64, change func(*Receipt)) Receipt {
		r := Receipt{Job: s.key(set, ladder.Training, 0, rung), Machine: s.machine, Rate: rate}
		if change != nil {
			change(&r)
		}
		return r
	}
	all := []Receipt{made(0, 10, nil), made(1, 7, nil), made(0, 12, nil), made(0, 50, nil)}
	for rung, want := range []float64{12, 7} {
		if got := s.Speed(all, set, 0, rung); got != want {
			t.Errorf("rung %d: %v samples a second, want %v", rung, got, want)
		}
	}
	for name, change := range map[string]func(*Receipt){
		"another phase":   func(r *Receipt) { r.Job.Phase = ladder.Validation },
		"another program": func(r *Receipt) { r.Job.Program = "other" },
		"another setting": func(r *Receipt) { r.Job.Settings["amp"] = "false" },
		"another card":    func(r *Receipt) { r.Machine.Card = "other" },
		"another driver":  func(r *Receipt) { r.Machine.Driver = "2" },
		"of others":       func(r *Receipt) { r.Imported = true },
		"not measured":    func(r *Receipt) { r.Rate = 0 },
	} {
		if got := s.Speed([]Receipt{made(0, 10, change)}, set, 0, 0); got != 0 {
			t.Errorf("%s: %v samples a second", name, got)
		}
	}
	if got := SubjectOf(j, nil, false).Speed(all, set, 0, 0); got != 0 {
		t.Errorf("without a machine: %v samples a second", got)
	}
	workers := made(0, 10, func(r *Receipt) { r.Job.Settings["loader workers"] = "2" })
	if got := s.Speed([]Receipt{workers}, set, 0, 0); got != 10 {
		t.Errorf("with another number of loader workers: %v", got)
	}
}
