package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// TSCUNet (aaf6aa): traiNNer/archs/tscunet_arch.py at 68629319. A batch of clips (b, t, c, h, w) is (b, t·c, h, w) here,
// which is as many numbers.
var _ = register(func(s Spec, a *args) Network {
	n := tscuNet{
		scale: s.Scale, in: a.int("in_nc", 3), out: a.int("out_nc", 3), frames: a.int("clip_size", 5), nb: a.int("nb", 2),
		dim: a.int("dim", 64), dropPath: a.float("drop_path_rate", 0), resolution: a.int("input_resolution", 256),
		residual: a.bool("residual", true),
	}
	a.onlyNone("state") // a state dict, which no recipe can hold
	refuse(a.bool("sigma", false), "sigma: what the network returns while training is no image")
	refuse(n.frames < 3 || n.frames%2 == 0, "clip_size must be odd, and of one frame no image comes out")
	refuse(n.scale < 1 || n.scale&(n.scale-1) != 0, "scale %d: the network upsamples by powers of two", n.scale)
	n.block().check()
	return Network{InCh: n.in * n.frames, Frames: n.frames, Forward: n.forward, Multiple: 64, MinLQ: 22}
}, "tscunet")

type tscuNet struct {
	scale, in, out, frames, nb, dim, resolution int64
	dropPath                                    float64
	residual                                    bool
}

func (n tscuNet) block() scuBlocks {
	return scuBlocks{
		config: slices.Repeat([]int64{n.nb}, 7), dim: n.dim, resolution: n.resolution, dropPath: n.dropPath, up: true,
	}
}

// toChannelsLast is x.to(memory_format=torch.channels_last): x itself, or a copy.
func toChannelsLast(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Permute(t.Contiguous(t.Permute(x, 0, 2, 3, 1)), 0, 3, 1, 2)
}

// forward is TSCUNet.forward. It keeps clips contiguous and hands its layers channels last, so there are copies.
func (n tscuNet) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	padH, padW := scuPadding(t, h), scuPadding(t, w)
	plain := func(out int64) nn.Module { return nn.Conv{Out: out, K: 3, NoBias: true}.Module() }

	padded := t.Call("", t.View(x, b*n.frames, n.in, h, w), func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return t.Pad(x, padH, padW, true)
	})
	head := t.Sequential("m_head", toChannelsLast(t, padded), plain(n.dim))
	x = t.Hold(t.Contiguous(head))
	clip, frames := t.View(x, b, n.frames*n.dim, h+padH, w+padW), n.frames
	for layer := range (n.frames - 1) / 2 {
		var temp []nn.Tensor
		for range frames - 2 {
			window := t.Narrow(clip, 1, 3*n.dim) // frames lie side by side: the reshape is a view
			y := t.Call(fmt.Sprint("m_layers.", layer), toChannelsLast(t, window), n.layer)
			temp = append(temp, t.Hold(t.Contiguous(y)))
		}
		y := t.Cat(1, temp...)               // torch.stack along the frames
		clip = t.Assign(layer == 0, clip, y) // x keeps the first
		if frames -= 2; frames > 1 {         // the next layer's list takes the name of this one's
			for _, x := range temp {
				t.Rebind(x, clip)
			}
		}
	}
	x1 := t.Rebind(clip, toChannelsLast(t, clip))
	if n.residual {
		center := t.Select(t.View(x, b, n.frames, n.dim, h+padH, w+padW), 1)
		x1 = t.Rebind(x1, t.Add(x1, t.Sequential("m_res", toChannelsLast(t, center), plain(n.dim))))
	}
	x1 = t.Rebind(x1, t.Sequential("m_upsample", x1, rrdbUpsample(2, n.scale)))
	x1 = t.Rebind(x1, t.Contiguous(t.Sequential("m_tail", x1, plain(n.out))))
	return t.Narrow(t.Narrow(x1, 2, h*n.scale), 3, w*n.scale)
}

// layer is TSCUNetBlock: three frames to the features of one.
func (n tscuNet) layer(t *nn.Tape, x0 nn.Tensor) nn.Tensor {
	plain := nn.Conv{Out: n.dim, K: 3, NoBias: true}.Module()
	x1 := t.Hold(t.Sequential("m_head", x0, plain))
	x := n.block().forward(t, x1)
	x = t.Rebind(x, t.Add(x, t.Sequential("m_res", x1, plain)))
	return t.Rebind(x, t.Sequential("m_tail", x, plain, (*nn.Tape).LeakyReLUInplace))
}
