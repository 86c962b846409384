package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// ArtCNN: traiNNer/archs/artcnn_arch.py at 68629319.
var _ = entry(func() {
	artcnn := func(filters, blocks int64) builder {
		return func(s Spec, a *args) Network {
			n := artCNN{
				inCh: a.int("in_ch", 3), scale: s.Scale, filters: a.int("filters", filters), blocks: a.int("n_block", blocks),
				kernel: a.int("kernel_size", 3),
			}
			return Network{InCh: n.inCh, Forward: n.forward}
		}
	}
	register(artcnn(96, 16), "artcnn", "artcnn_r16f96")
	register(artcnn(64, 8), "artcnn_r8f64")
	register(artcnn(48, 8), "artcnn_r8f48")
	register(artcnn(48, 5), "artcnn_r5f48")
	register(artcnn(24, 8), "artcnn_r8f24")
	register(artcnn(24, 3), "artcnn_r3f24")
})

type artCNN struct{ inCh, scale, filters, blocks, kernel int64 }

func (n artCNN) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := conv(n.filters, n.kernel)
	x = t.Hold(t.Conv2d("conv0", x, c))
	ms := make([]nn.Module, n.blocks, n.blocks+1)
	for i := range ms {
		ms[i] = n.resBlock
	}
	x = t.Rebind(x, t.Add(t.Sequential("res_block", x, append(ms, c.Module())...), x))
	return t.Sequential("depth_to_space.upscale", x, conv(n.inCh*n.scale*n.scale, n.kernel).Module(), shuffle(n.scale))
}

func (n artCNN) resBlock(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := conv(n.filters, n.kernel)
	res := t.Call("conv", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		for i := range 2 {
			x = t.Sequential(fmt.Sprint(i), x, c.Module(), (*nn.Tape).ReLU)
		}
		return t.Conv2d("2", x, c)
	})
	return t.Add(x, res)
}
