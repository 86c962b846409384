package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// TemporalSPANv2: traiNNer/archs/temporal_span_v2_arch.py at 68629319. A batch of clips (b, t, c, h, w) is (b, t·c, h, w)
// here, which is as many numbers.
var _ = register(func(s Spec, a *args) Network {
	n := tspanV2{
		scale: s.Scale, in: a.int("num_in_ch", 3), out: a.int("num_out_ch", 3), frames: a.int("num_frames", 5),
		dim: a.int("feature_channels", 48), blocks: a.int("num_blocks", 6), residual: a.bool("residual", true),
		checkpointing: a.bool("use_checkpoint", false),
	}
	a.ignore("bias", "img_range") // SPAB does not pass its bias on
	refuse(n.frames < 3 || n.frames%2 == 0, "num_frames: clip_size must be odd, and of one frame no image comes out")
	refuse(n.blocks < 6, "num_blocks %d: the forward names six", n.blocks)
	return Network{
		InCh: n.in * n.frames, Frames: n.frames, Forward: n.forward, CheckpointArg: "use_checkpoint",
		Checkpointing: n.checkpointing, Multiple: 64, MinLQ: 22, // reflection wants more than it adds
	}
}, "temporalspanv2")

type tspanV2 struct {
	scale, in, out, frames, dim, blocks int64
	residual, checkpointing             bool
}

// forward is TSPANv2.forward.
func (n tspanV2) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	hPad, wPad := multiple(h, 64), multiple(w, 64)
	mean := t.Hold(t.Zeros(nn.F32, 1, n.in, 1, 1)) // of the object: no buffer
	x = t.View(x, b*n.frames, n.in, h, w)
	x = t.Hold(t.MulScalar(t.Sub(x, mean)))
	x = t.Rebind(x, t.Pad(x, hPad-h, wPad-w, true))
	x = t.Rebind(x, t.Conv2d("m_head", x, nn.Conv{Out: n.dim, K: 3, NoBias: true}))
	center := t.Hold(t.Select(t.View(x, b, n.frames, n.dim, hPad, wPad), 1))

	clip := t.View(x, b, n.frames*n.dim, hPad, wPad)
	frames := n.frames
	var seen nn.Tensor // what the last window of the layer before is a view of
	for layer := range (n.frames - 1) / 2 {
		out := t.Hold(t.Zeros(clip.DType(), b, (frames-2)*n.dim, hPad, wPad)) // torch.empty
		for range frames - 2 {
			window := t.Narrow(clip, 1, 3*n.dim) // frames lie side by side: the reshape is a view
			m := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x) }
			y := t.CheckpointIf(n.checkpointing && t.Training, fmt.Sprint("m_layers.", layer), window, m)
			out = t.WriteSlice(out, y, false)
		}
		if layer > 1 { // x_center keeps the first for good
			t.Rebind(seen, out)
		}
		seen, clip, frames = clip, out, frames-2
	}
	y := clip
	if n.residual {
		y = t.Rebind(y, t.Add(y, t.Conv2d("m_res", center, nn.Conv{Out: n.dim, K: 3, NoBias: true})))
	}
	y = t.Rebind(y, t.Sequential("m_upsample", y, conv(n.dim*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
	y = t.Rebind(y, t.Conv2d("m_tail", y, nn.Conv{Out: n.out, K: 3, NoBias: true}))
	y = t.Narrow(t.Narrow(y, 2, h*n.scale), 3, w*n.scale)
	return t.Add(t.DivScalar(y), mean)
}

// block is TemporalSPANBlock: three frames to the features of one. Of more than six blocks the others are never reached.
func (n tspanV2) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	outFeature := t.Hold(t.Call("m_head", x, conv3XC(n.dim)))
	out, outB1 := outFeature, outFeature
	var mid, att nn.Tensor
	for i := range n.blocks {
		if i >= 6 {
			t.Scope(fmt.Sprint("blocks.", i), func() {
				for _, name := range [...]string{"c1_r", "c2_r", "c3_r"} {
					conv3XCParams(t, name, n.dim, n.dim)
				}
			})
			continue
		}
		out = t.Hold(t.Call(fmt.Sprint("blocks.", i), out, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // SPAB
			out1 := t.SiLUInplace(t.Hold(t.Call("c1_r", x, conv3XC(n.dim))))
			out2 := t.SiLUInplace(t.Hold(t.Call("c2_r", out1, conv3XC(n.dim))))
			out3 := t.Hold(t.Call("c3_r", out2, conv3XC(n.dim)))
			simAtt := t.Hold(t.AddScalar(t.Sigmoid(out3)))
			mid, att = out1, simAtt
			return t.Mul(t.Add(out3, x), simAtt)
		}))
		if i == 0 {
			outB1 = out
		}
	}
	t.Hold(mid)
	t.Hold(att) // by the name _
	out = t.Rebind(out, t.Call("conv_post", out, conv3XC(n.dim)))
	y := t.Hold(t.Conv2d("conv_cat", t.Cat(1, outFeature, out, outB1, mid), conv(n.dim, 1)))
	tail := nn.Conv{Out: n.dim, K: 3, NoBias: true}.Module()
	return t.Rebind(y, t.Sequential("m_tail", y, tail, (*nn.Tape).LeakyReLUInplace))
}
