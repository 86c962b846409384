package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// A rescaler is SpatialRescaler (ldm/modules/encoders/modules.py:109): a map of the image's size, such as a segmentation,
// made as small as the latent.
type rescaler struct{ stages, in, out int64 }

func readRescaler(c Config) (*rescaler, error) {
	if c.Target() != "SpatialRescaler" {
		return nil, c.unknown("cond_stage_config")
	}
	a := c.params()
	if a.float("multiplier", 0.5) != 0.5 || a.bool("bias", false) {
		return nil, fmt.Errorf("cond_stage_config with another multiplier or a bias: %w", ErrUnknown)
	}
	n := &rescaler{stages: a.size("n_stages", 1), in: a.size("in_channels", 3), out: a.int("out_channels", 0)}
	if a.err != nil {
		return nil, fmt.Errorf("cond_stage_config: %w", a.err)
	}
	return n, nil
}

// forward is SpatialRescaler.forward (modules.py:128).
func (n *rescaler) forward(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	t.Scope("", func() {
		y = t.Hold(x)
		for range n.stages {
			y = t.Rebind(y, t.Interpolate(y, y.Dim(2)/2, y.Dim(3)/2))
		}
		if n.out > 0 {
			y = t.Conv2d("channel_mapper", y, nn.Conv{Out: n.out, K: 1, NoBias: true})
		}
	}, x)
	return y
}
