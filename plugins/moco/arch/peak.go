package arch

import "github.com/launch-ml/launch/core/nn"

// Peak replays one step as [Training] prices it, for comparison with what PyTorch saves.
func Peak(s Step) nn.Peak {
	s.Queue = s.Queue || s.Project == V2
	t := nn.NewTape()
	s.record(t)
	return t.Peak()
}
