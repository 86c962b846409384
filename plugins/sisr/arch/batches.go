package arch

import "github.com/launch-ml/launch/core/mem"

// Trainings are the estimates of one step at several micro-batches, in their order.
func Trainings(cfg StepConfig, batches ...int64) []mem.Tensors {
	return mem.AtBatches(func(n int64) mem.Tensors {
		c := cfg
		c.Batch = n
		return Training(c)
	}, batches...)
}
