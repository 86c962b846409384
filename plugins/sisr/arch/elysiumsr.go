package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// ElysiumSR: traiNNer/archs/elysiumsr_arch.py of Phhofm/traiNNer-redux at 069b6d59, whose four sizes read nothing but the scale.
var _ = entry(func() {
	elysium := func(feat, blocks int64, dropPath float64) builder {
		return func(s Spec, a *args) Network {
			a.swallow = true
			n := elysiumSR{scale: s.Scale, feat: feat, blocks: blocks, dropPath: dropPath}
			return Network{Forward: n.forward}
		}
	}
	register(elysium(64, 10, 0), "elysiumsr_s")
	register(elysium(80, 16, 0.05), "elysiumsr_m")
	register(elysium(128, 24, 0.1), "elysiumsr_l")
	register(elysium(160, 32, 0.1), "elysiumsr_xl")
})

type elysiumSR struct {
	scale, feat, blocks int64
	dropPath            float64
}

// forward is ElysiumSR.forward, in the module model.
func (n elysiumSR) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Call("model", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		shallow := t.Hold(t.Conv2d("conv_in", x, conv(n.feat, 3)))
		out := shallow
		for i := range n.blocks {
			y := t.Call(fmt.Sprint("blocks.", i), out, n.block)
			out = t.Assign(i == 0, out, y)
			out = t.Rebind(out, dropPathOf(t, out, n.dropPath*float64(i)/float64(n.blocks-1)))
		}
		out = t.Rebind(out, t.Add(t.Conv2d("conv_fuse", out, conv(n.feat, 3)), shallow))
		out = t.Rebind(out, t.Sequential("upsampler", out, conv(n.feat*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
		return t.Rebind(out, t.Conv2d("conv_out", out, conv(3, 3)))
	})
}

// block is ResidualBlock.
func (n elysiumSR) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	out := t.Hold(t.ReLUInplace(t.Conv2d("conv1", x, conv(n.feat, 3))))
	out = t.Rebind(out, t.Conv2d("conv2", out, conv(n.feat, 3)))
	return t.Add(out, x)
}
