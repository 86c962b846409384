package arch

import "github.com/launch-ml/launch/core/nn"

// Peak replays one step as [Training] prices it, for comparison with what PyTorch saves.
func Peak(cfg StepConfig) nn.Peak {
	t := nn.NewTape()
	cfg.record(t)
	return t.Peak()
}
