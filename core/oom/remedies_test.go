package oom_test

import (
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/oom"
)

// Every kind of memory in every phase, and everything that is none, has remedies, the mildest cost first, of costs that
// exist.
func TestRemediesInOrder(t *testing.T) {
	costs := []string{"none", "speed", "numerics", "metrics", "recipe", "model"}
	reports := []oom.Report{}
	for _, k := range []oom.Kind{oom.GPUCapacity, oom.GPUFragmentation, oom.GPUContention, oom.GPUUnspecified,
		oom.HostOOM, oom.SharedMemory, oom.CPUAlloc} {
		for _, p := range []oom.Phase{oom.Build, oom.Data, oom.TrainForward, oom.TrainBackward, oom.Optimizer,
			oom.Validation, oom.Checkpoint, oom.Unknown} {
			reports = append(reports, oom.Report{OOM: true, Fatal: true, Kind: k, Phase: p})
		}
	}
	for _, name := range oom.RuleNames() {
		reports = append(reports, oom.Report{Fatal: true, Kind: oom.NoMemory, NotMemory: name})
	}
	everything := advice.Clues{Uses: []string{"torch", "transformers", "lightning", "deepspeed", "accelerate", "jax",
		"tensorflow"}, Slurm: "7", Notebook: true}
	for _, r := range reports {
		for _, c := range []advice.Clues{{}, everything} {
			all := advice.Remedies(r, c)
			if len(all) == 0 {
				t.Errorf("%s %s %s: nothing would have helped", r.Kind, r.Phase, r.NotMemory)
			}
			if !slices.IsSortedFunc(all, func(a, b advice.Remedy) int {
				return slices.Index(costs, a.Cost) - slices.Index(costs, b.Cost)
			}) || slices.ContainsFunc(all, func(m advice.Remedy) bool {
				return !slices.Contains(costs, m.Cost) || m.What == ""
			}) {
				t.Errorf("%s %s %s: not in the order of cost: %+v", r.Kind, r.Phase, r.NotMemory, all)
			}
		}
	}
}
