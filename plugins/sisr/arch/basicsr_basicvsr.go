package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// BasicVSR (Chan et al., 2021) with its SPyNet: basicsr/archs/basicvsr_arch.py and spynet_arch.py at 8d56e3a0. A
// batch of clips (b, n, c, h, w) is (b, n·c, h, w) here, which is as many numbers, and so is what comes out: every
// frame is compared.
var _ = entry(func() {
	networks.add(BasicSR, func(s Spec, a *args) Network {
		n := basicVSR{feat: a.int("num_feat", 64), blocks: a.int("num_block", 15), frames: s.Frames}
		a.ignore("spynet_path")
		refuse(s.Scale != 4, "scale is %d: the network enlarges by 4", s.Scale)
		refuse(n.frames < 2, "how many frames a clip has is not known")
		return Network{InCh: 3 * n.frames, Forward: n.forward, MinLQ: spyMin}
	}, "basicvsr")
	networks.add(BasicSR, func(s Spec, a *args) Network {
		n := basicVSR{
			feat: a.int("num_feat", 64), blocks: a.int("num_block", 15), frames: s.Frames,
			stride: a.int("keyframe_stride", 5), pad: a.int("temporal_padding", 2),
		}
		a.ignore("spynet_path", "edvr_path")
		refuse(s.Scale != 4, "scale is %d: the network enlarges by 4", s.Scale)
		refuse(n.frames < 2, "how many frames a clip has is not known")
		refuse(n.stride < 1 || n.pad < 2 || n.pad > 3 || n.frames < 2*n.pad+1 || n.feat%8 != 0,
			"keyframe_stride %d, temporal_padding %d, num_feat %d with %d frames", n.stride,
			n.pad, n.feat, n.frames)
		return Network{InCh: 3 * n.frames, Forward: n.icon, Multiple: 4, MinLQ: spyMin}
	}, "iconvsr")
})

type basicVSR struct {
	feat, blocks, frames int64
	stride, pad          int64 // of IconVSR: of its keyframes, and of frames before and after them
}

// forward is BasicVSR.forward.
func (n basicVSR) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	x = t.View(x, b, n.frames, 3, h, w)
	flowsForward, flowsBackward := n.flows(t, x)
	t.Hold(flowsForward)
	t.Hold(flowsBackward)
	frame := func() nn.Tensor { return t.Select(x, 1) }
	warped := func(feat, flows nn.Tensor) nn.Tensor {
		return t.Rebind(feat, flowWarp(t, feat, t.Permute(t.Select(flows, 1), 0, 2, 3, 1)))
	}

	outs := make([]nn.Tensor, n.frames)
	featProp := t.Hold(t.Zeros(x.DType(), b, n.feat, h, w))
	for i := n.frames - 1; i >= 0; i-- {
		if i < n.frames-1 {
			featProp = warped(featProp, flowsBackward)
		}
		featProp = t.Rebind(featProp, t.Cat(1, frame(), featProp))
		featProp = t.Rebind(featProp, t.Call("backward_trunk", featProp, n.trunk))
		outs[i] = t.Hold(featProp)
	}

	lrelu := (*nn.Tape).LeakyReLUInplace
	var base nn.Tensor
	featProp = t.Hold(t.Zeros(x.DType(), b, n.feat, h, w))
	for i := range n.frames {
		if i > 0 {
			featProp = warped(featProp, flowsForward)
		}
		featProp = t.Rebind(featProp, t.Cat(1, frame(), featProp))
		featProp = t.Rebind(featProp, t.Call("forward_trunk", featProp, n.trunk))

		out := t.Hold(t.Cat(1, outs[i], featProp))
		out = t.Rebind(out, lrelu(t, t.Conv2d("fusion", out, conv(n.feat, 1))))
		out = t.Rebind(out, lrelu(t, t.PixelShuffle(t.Conv2d("upconv1", out, conv(4*n.feat, 3)), 2)))
		out, base = n.enlarge(t, out, base, frame, i == 0)
		outs[i] = t.Rebind(outs[i], out)
	}
	return t.View(t.StackSecond(outs...), b, 3*n.frames, 4*h, 4*w)
}

// enlarge makes an image of what follows upconv1, and adds it to its frame's own enlargement, which it also returns.
func (n basicVSR) enlarge(t *nn.Tape, out, base nn.Tensor, frame func() nn.Tensor, first bool) (nn.Tensor, nn.Tensor) {
	lrelu := (*nn.Tape).LeakyReLUInplace
	out = t.Rebind(out, lrelu(t, t.PixelShuffle(t.Conv2d("upconv2", out, conv(4*64, 3)), 2)))
	out = t.Rebind(out, lrelu(t, t.Conv2d("conv_hr", out, conv(64, 3))))
	out = t.Rebind(out, t.Conv2d("conv_last", out, conv(3, 3)))
	small := frame()
	base = t.Assign(first, base, t.Interpolate(small, 4*small.Dim(2), 4*small.Dim(3)))
	return t.AddInplace(out, base), base
}

// icon is IconVSR.forward: BasicVSR with features of EDVR at each keyframe.
func (n basicVSR) icon(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, hIn, wIn := x.Dim(0), x.Dim(2), x.Dim(3)
	h, w := multiple(hIn, 4), multiple(wIn, 4)
	x = t.Hold(t.PadTo(t.View(x, -1, 3, hIn, wIn), true, b*n.frames, 3, h, w)) // a copy even where nothing is added
	x = t.View(x, b, n.frames, 3, h, w)
	flowsForward, flowsBackward := n.flows(t, x)
	t.Hold(flowsForward)
	t.Hold(flowsBackward)
	keys := n.keyframes(t, x)
	frame := func() nn.Tensor { return t.Select(x, 1) }
	step := func(feat, flows nn.Tensor, i int64, first bool, name string) nn.Tensor {
		if !first {
			feat = t.Rebind(feat, flowWarp(t, feat, t.Permute(t.Select(flows, 1), 0, 2, 3, 1)))
		}
		if key, ok := keys[i]; ok {
			feat = t.Rebind(feat, t.Cat(1, feat, key))
			feat = t.Rebind(feat, t.Conv2d(name, feat, conv(n.feat, 3)))
		}
		return feat
	}

	outs := make([]nn.Tensor, n.frames)
	featProp := t.Hold(t.Zeros(x.DType(), b, n.feat, h, w))
	for i := n.frames - 1; i >= 0; i-- {
		featProp = step(featProp, flowsBackward, i, i == n.frames-1, "backward_fusion")
		featProp = t.Rebind(featProp, t.Cat(1, frame(), featProp))
		featProp = t.Rebind(featProp, t.Call("backward_trunk", featProp, n.trunk))
		outs[i] = t.Hold(featProp)
	}
	lrelu := (*nn.Tape).LeakyReLUInplace
	var base nn.Tensor
	featProp = t.Hold(t.Zeros(x.DType(), b, n.feat, h, w))
	for i := range n.frames {
		featProp = step(featProp, flowsForward, i, i == 0, "forward_fusion")
		featProp = t.Rebind(featProp, t.Cat(1, frame(), outs[i], featProp))
		featProp = t.Rebind(featProp, t.Call("forward_trunk", featProp, n.trunk))

		out := t.Hold(lrelu(t, t.PixelShuffle(t.Conv2d("upconv1", featProp, conv(4*n.feat, 3)), 2)))
		out, base = n.enlarge(t, out, base, frame, i == 0)
		outs[i] = t.Rebind(outs[i], out)
	}
	return t.View(t.StackSecond(outs...), b, 3*n.frames, 4*h, 4*w)
}

// keyframes is get_keyframe_feature: of every so many frames, and of the last.
func (n basicVSR) keyframes(t *nn.Tape, x nn.Tensor) map[int64]nn.Tensor {
	extractor := edvr{residualNet: residualNet{in: 3, feat: n.feat}, frames: 2*n.pad + 1, groups: 8, extract: 5}
	keys := map[int64]nn.Tensor{}
	t.Scope("", func() {
		border := func() nn.Tensor { return t.Hold(t.Contiguous(t.Narrow(x, 1, n.pad))) }
		x = t.Hold(t.Cat(1, border(), x, border()))
		for i := int64(0); i < n.frames; i++ {
			if i%n.stride != 0 && i != n.frames-1 {
				continue
			}
			window := t.Contiguous(t.Narrow(x, 1, extractor.frames))
			keys[i] = t.Hold(t.Call("edvr", window, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				return t.Call("fusion", extractor.aligned(t, x), extractor.fuse)
			}))
		}
	}, x)
	for i := range n.frames {
		if k, ok := keys[i]; ok {
			t.Hold(k)
		}
	}
	return keys
}

// trunk is ConvResidualBlocks.
func (n basicVSR) trunk(t *nn.Tape, x nn.Tensor) nn.Tensor {
	blocks := residualNet{feat: n.feat}
	body := blocks.body(n.blocks, blocks.residualBlockNoBN)
	return t.Sequential("main", x, conv(n.feat, 3).Module(), (*nn.Tape).LeakyReLUInplace, body)
}

// flows is get_flow: between each two frames, both ways.
func (n basicVSR) flows(t *nn.Tape, x nn.Tensor) (forward, backward nn.Tensor) {
	t.Scope("", func() {
		b, h, w := x.Dim(0), x.Dim(3), x.Dim(4)
		x1 := t.Hold(t.Reshape(t.Narrow(x, 1, n.frames-1), -1, 3, h, w))
		x2 := t.Hold(t.Reshape(t.Narrow(x, 1, n.frames-1), -1, 3, h, w))
		net := func(ref, supp nn.Tensor) (flow nn.Tensor) {
			t.Scope("spynet", func() { flow = spyNet(t, ref, supp) }, ref, supp)
			return t.View(flow, b, n.frames-1, 2, h, w)
		}
		backward = t.Hold(net(x1, x2))
		forward = net(x2, x1)
	}, x)
	return forward, backward
}

// spyMin is the least side of an image for SpyNet, whose smallest of six sizes is halved once more.
const spyMin = 33

// spyNet is SpyNet.forward: the flow of six sizes of the images, from the smallest on.
func spyNet(t *nn.Tape, ref, supp nn.Tensor) nn.Tensor {
	h, w := ref.Dim(2), ref.Dim(3)
	hFloor, wFloor := multiple(h, 32), multiple(w, 32)
	ref, supp = t.Hold(t.Interpolate(ref, hFloor, wFloor)), t.Hold(t.Interpolate(supp, hFloor, wFloor))
	flow := t.Within("", func() nn.Tensor { return spyProcess(t, ref, supp) }, ref, supp)
	flow = t.Hold(t.Interpolate(flow, h, w))
	for range 2 { // flow[:, 0] *= …, flow[:, 1] *= …
		flow = t.WriteSlice(flow, t.Narrow(flow, 1, 1), true)
	}
	return flow
}

// spyProcess is SpyNet.process.
func spyProcess(t *nn.Tape, ref, supp nn.Tensor) nn.Tensor {
	mean, std := t.Buffer("mean", nn.F32, 1, 3, 1, 1), t.Buffer("std", nn.F32, 1, 3, 1, 1)
	preprocess := func(x nn.Tensor) []nn.Tensor { return []nn.Tensor{t.Hold(t.Div(t.Sub(x, mean), std))} }
	refs, supps := preprocess(ref), preprocess(supp)
	for range 5 {
		refs = append(refs, t.Hold(t.AvgPool2d(refs[len(refs)-1], 2, 2, 0)))
		supps = append(supps, t.Hold(t.AvgPool2d(supps[len(supps)-1], 2, 2, 0)))
	}
	small := refs[5]
	flow := t.Hold(t.Zeros(nn.F32, small.Dim(0), 2, small.Dim(2)/2, small.Dim(3)/2))
	var upsampled nn.Tensor
	for level := range 6 {
		ref, supp := refs[5-level], supps[5-level]
		up := t.MulScalar(t.Interpolate(flow, 2*flow.Dim(2), 2*flow.Dim(3)))
		if up.Dim(2) != ref.Dim(2) || up.Dim(3) != ref.Dim(3) {
			up = t.PadTo(up, true, up.Dim(0), 2, ref.Dim(2), ref.Dim(3))
		}
		upsampled = t.Assign(level == 0, upsampled, up)
		x := t.Cat(1, ref, flowWarp(t, supp, t.Permute(upsampled, 0, 2, 3, 1)), upsampled)
		flow = t.Rebind(flow, t.Add(t.Call(fmt.Sprint("basic_module.", level), x, spyModule), upsampled))
	}
	return flow
}

// spyModule is BasicModule.
func spyModule(t *nn.Tape, x nn.Tensor) nn.Tensor {
	var ms []nn.Module
	for _, out := range []int64{32, 64, 32, 16} {
		ms = append(ms, conv(out, 7).Module(), (*nn.Tape).ReLU)
	}
	return t.Sequential("basic_module", x, append(ms, conv(2, 7).Module())...)
}

// flowWarp is flow_warp (arch_util.py) of an image by a flow (b, h, w, 2).
func flowWarp(t *nn.Tape, x, flow nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		h, w := x.Dim(2), x.Dim(3)
		grid := t.Hold(t.Zeros(nn.F32, h, w, 2))
		vgrid := t.Hold(t.Add(grid, flow))
		axis := func() nn.Tensor { return t.Hold(t.AddScalar(t.DivScalar(t.MulScalar(t.Select(vgrid, 3))))) }
		vgridX, vgridY := axis(), axis()
		scaled := t.Hold(t.StackLast(vgridX, vgridY))
		return t.GridSample(x, scaled)
	}, x, flow)
}
