package arch

import (
	"maps"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// An optimizer keeps states of the size of the parameters, in float32, and needs more while it steps.
type optimizer struct {
	states int64 // float32 tensors per parameter tensor, kept from the first step on
	temps  int64 // float32 tensors per parameter tensor while the step runs, in the foreach form that CUDA defaults to
}

// The states are those that each class makes at its first step; the temporaries are the lists that the foreach form
// makes: the root of the second moment (torch/optim/adam.py, _multi_tensor_adam: exp_avg_sq_sqrt).
var optimizers = map[string]optimizer{
	"adam":              {2, 1}, // torch/optim/adam.py: exp_avg, exp_avg_sq
	"adamw":             {2, 1},
	"nadam":             {2, 2}, // torch/optim/nadam.py: the same, and the update's two numerators
	"sgd":               {1, 0}, // torch/optim/sgd.py: momentum_buffer
	"adamwschedulefree": {2, 1}, // traiNNer/optimizers/adamwschedulefree_optim.py at 68629319: z, exp_avg_sq
	"adan":              {4, 1}, // adan_optim.py: exp_avg, exp_avg_sq, exp_avg_diff, neg_pre_grad
	"adanschedulefree":  {5, 1}, // adanschedulefree_optim.py: z, exp_avg, exp_avg_sq, exp_avg_diff, neg_pre_grad
	"adan_sf":           {5, 1}, // neosr's name for it
	"adamw_sf":          {2, 1}, // neosr's name for AdamWScheduleFree
	// neosr/optimizers/adamw_win.py at 31c7022, win2: exp_avg, exp_avg_sq, x, y; one parameter at a time
	"adamw_win":   {4, 0},
	"stableadamw": {2, 1}, // pytorch_optimizer 3: exp_avg, exp_avg_sq
	"adopt":       {2, 1}, // pytorch_optimizer 3: exp_avg, exp_avg_sq
	"lion":        {1, 1}, // exp_avg
	"rmsprop":     {1, 1}, // torch/optim/rmsprop.py: square_avg
	"asgd":        {1, 1}, // torch/optim/asgd.py: ax; the difference to it
	"rprop":       {2, 2}, // torch/optim/rprop.py: prev, step_size; the products with prev, and their signs
	"adamax":      {2, 1}, // torch/optim/adamax.py: exp_avg, exp_inf
	"lamb":        {2, 1}, // exp_avg, exp_avg_sq
}

// OptimizerNames lists the optimizers whose states are known.
func OptimizerNames() []string { return slices.Sorted(maps.Keys(optimizers)) }

// KnownOptimizer reports whether the states of the optimizer of that name are.
func KnownOptimizer(name string) bool {
	_, known := optimizerOf(name)
	return known
}

// optimizerOf is the optimizer of that name. An unknown one is taken for Adam, and known is false.
func optimizerOf(name string) (o optimizer, known bool) {
	o, known = optimizers[strings.ToLower(name)]
	if !known {
		o = optimizers["adam"]
	}
	return o, known
}

func (o optimizer) stateBytes(trainable unit.Bytes) unit.Bytes {
	return trainable * unit.Bytes(o.states)
}
func (o optimizer) tempBytes(trainable unit.Bytes) unit.Bytes { return trainable * unit.Bytes(o.temps) }
