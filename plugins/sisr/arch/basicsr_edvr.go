package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// EDVR (Wang et al., 2019): basicsr/archs/edvr_arch.py at 8d56e3a0. A batch of clips (b, t, c, h, w) is (b, t·c, h,
// w) here.
var _ = networks.add(BasicSR, func(s Spec, a *args) Network {
	n := edvr{
		residualNet: residualNet{in: a.int("num_in_ch", 3), feat: a.int("num_feat", 64)},
		frames:      a.int("num_frame", 5), groups: a.int("deformable_groups", 8), extract: a.int("num_extract_block", 5),
		rebuild: a.int("num_reconstruct_block", 10), tsa: a.bool("with_tsa", true),
	}
	a.ignore("num_out_ch", "center_frame_idx")
	refuse(a.bool("hr_in", false) || a.bool("with_predeblur", false), "hr_in, with_predeblur: %w", ErrUnknown)
	refuse(s.Scale != 4, "scale is %d: the network enlarges by 4", s.Scale)
	refuse(n.frames < 1 || n.groups < 1 || n.feat%n.groups != 0,
		"num_frame %d, num_feat %d, deformable_groups %d", n.frames, n.feat, n.groups)
	return Network{InCh: n.in * n.frames, Frames: n.frames, Forward: n.forward, Multiple: 4}
}, "edvr")

type edvr struct {
	residualNet
	frames, groups, extract, rebuild int64
	tsa                              bool
}

func (n edvr) lrelu(t *nn.Tape, name string, x nn.Tensor, c nn.Conv) nn.Tensor {
	return t.LeakyReLUInplace(t.Conv2d(name, x, c))
}

// forward is EDVR.forward.
func (n edvr) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	x = t.View(x, b, n.frames, n.in, h, w)
	xCenter := t.Hold(t.Contiguous(t.Select(x, 1)))
	alignedFeat := n.aligned(t, x)
	var feat nn.Tensor
	if n.tsa {
		feat = t.Hold(t.Call("fusion", alignedFeat, n.fuse))
	} else {
		feat = t.Hold(t.Conv2d("fusion", t.View(alignedFeat, b, -1, h, w), conv(n.feat, 1)))
	}

	act := (*nn.Tape).LeakyReLUInplace
	out := t.Hold(t.Call("reconstruction", feat, n.body(n.rebuild, n.residualBlockNoBN)))
	out = t.Rebind(out, act(t, t.PixelShuffle(t.Conv2d("upconv1", out, conv(4*n.feat, 3)), 2)))
	out = t.Rebind(out, act(t, t.PixelShuffle(t.Conv2d("upconv2", out, conv(4*64, 3)), 2)))
	out = t.Rebind(out, n.lrelu(t, "conv_hr", out, conv(64, 3)))
	out = t.Rebind(out, t.Conv2d("conv_last", out, conv(3, 3)))
	base := t.Hold(t.Interpolate(xCenter, 4*h, 4*w))
	return t.AddInplace(out, base)
}

// aligned are the features of each frame of (b, t, c, h, w), aligned to one of them.
func (n edvr) aligned(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, h, w := x.Dim(0), x.Dim(3), x.Dim(4)
	c, half := conv(n.feat, 3), nn.Conv{Out: n.feat, K: 3, Stride: 2}
	l1 := t.Hold(n.lrelu(t, "conv_first", t.View(x, -1, n.in, h, w), c))
	l1 = t.Rebind(l1, t.Call("feature_extraction", l1, n.body(n.extract, n.residualBlockNoBN)))
	l2 := t.Hold(n.lrelu(t, "conv_l2_1", l1, half))
	l2 = t.Rebind(l2, n.lrelu(t, "conv_l2_2", l2, c))
	l3 := t.Hold(n.lrelu(t, "conv_l3_1", l2, half))
	l3 = t.Rebind(l3, n.lrelu(t, "conv_l3_2", l3, c))

	levels := [3]nn.Tensor{l1, l2, l3}
	for i := range levels {
		levels[i] = t.View(levels[i], b, n.frames, n.feat, h>>i, w>>i)
	}
	var ref, nbr [3]nn.Tensor
	for i := range ref {
		ref[i] = t.Hold(t.Clone(t.Select(levels[i], 1)))
	}
	aligned := make([]nn.Tensor, n.frames)
	for f := range aligned {
		for i := range nbr {
			if feat := t.Clone(t.Select(levels[i], 1)); f == 0 {
				nbr[i] = t.Hold(feat)
			} else {
				nbr[i] = t.Rebind(nbr[i], feat)
			}
		}
		t.Scope("pcd_align", func() { aligned[f] = n.align(t, nbr, ref) }, append(nbr[:], ref[:]...)...)
		aligned[f] = t.Hold(aligned[f])
	}
	stacked := t.StackSecond(aligned...) // (b, t, c, h, w)
	for _, old := range aligned {
		stacked = t.Rebind(old, stacked)
	}
	return stacked
}

// align is PCDAlignment.forward: from the smallest of three sizes on.
func (n edvr) align(t *nn.Tape, nbr, ref [3]nn.Tensor) nn.Tensor {
	c := conv(n.feat, 3)
	var offset, feat, upOffset, upFeat nn.Tensor
	set := func(v *nn.Tensor, x nn.Tensor) {
		*v = t.Assign(v.Dims() == 0, *v, x)
	}
	for i := 2; i >= 0; i-- {
		level := fmt.Sprint(".l", i+1)
		set(&offset, t.Cat(1, nbr[i], ref[i]))
		set(&offset, n.lrelu(t, "offset_conv1"+level, offset, c))
		if i == 2 {
			set(&offset, n.lrelu(t, "offset_conv2"+level, offset, c))
		} else {
			set(&offset, n.lrelu(t, "offset_conv2"+level, t.Cat(1, offset, upOffset), c))
			set(&offset, n.lrelu(t, "offset_conv3"+level, offset, c))
		}
		set(&feat, n.dcnPack(t, "dcn_pack"+level, nbr[i], offset))
		if i < 2 {
			set(&feat, t.Conv2d("feat_conv"+level, t.Cat(1, feat, upFeat), c))
		}
		if i > 0 {
			feat = t.LeakyReLUInplace(feat)
			set(&upOffset, t.MulScalar(t.Upsample(offset, 2)))
			set(&upFeat, t.Upsample(feat, 2))
		}
	}
	set(&offset, t.Cat(1, feat, ref[0]))
	set(&offset, n.lrelu(t, "cas_offset_conv2", n.lrelu(t, "cas_offset_conv1", offset, c), c))
	set(&feat, t.LeakyReLUInplace(n.dcnPack(t, "cas_dcnpack", feat, offset)))
	return feat
}

// dcnPack is DCNv2Pack.forward.
func (n edvr) dcnPack(t *nn.Tape, name string, x, feat nn.Tensor) nn.Tensor {
	return t.Within(name, func() nn.Tensor {
		c := x.Dim(1)
		w, b := t.Param("weight", n.feat, c, 3, 3), t.Param("bias", n.feat)
		points := n.groups * 9
		out := t.Hold(t.Conv2d("conv_offset", feat, conv(3*points, 3)))
		p := t.Split(out, 1, points, points, points)
		offset := t.Hold(t.Cat(1, p[0], p[1]))
		mask := t.Hold(t.Sigmoid(p[2]))
		t.Dead(func() { t.Hold(t.Mean(t.Abs(offset))) }) // offset_absmean
		return t.DeformConv(x, offset, mask, w, b, 1)
	}, x, feat)
}

// fuse is TSAFusion.forward of (b, t, c, h, w).
func (n edvr) fuse(t *nn.Tape, aligned nn.Tensor) nn.Tensor {
	b, frames, c, h, w := aligned.Dim(0), aligned.Dim(1), aligned.Dim(2), aligned.Dim(3), aligned.Dim(4)
	c1, c3 := conv(c, 1), conv(c, 3)
	ref := t.Hold(t.Conv2d("temporal_attn1", t.Clone(t.Select(aligned, 1)), c3))
	embedding := t.Hold(t.View(t.Conv2d("temporal_attn2", t.View(aligned, -1, c, h, w), c3), b, frames, c, h, w))
	corrs := make([]nn.Tensor, frames)
	for i := range corrs {
		corrs[i] = t.Hold(t.SumDim(t.Mul(t.Select(embedding, 1), ref), 1))
	}
	prob := t.Hold(t.Sigmoid(t.Cat(1, corrs...)))
	prob = t.Rebind(prob, t.Contiguous(t.Expand(t.View(prob, b, frames, 1, h, w), b, frames, c, h, w)))
	x := t.Hold(t.Mul(t.View(aligned, b, -1, h, w), t.View(prob, b, -1, h, w)))
	feat := t.Hold(n.lrelu(t, "feat_fusion", x, c1))

	attn := t.Hold(n.lrelu(t, "spatial_attn1", x, c1))
	pooledMax := t.Hold(t.MaxPool2dPadded(attn, 3, 2, 1))
	pooledAvg := t.Hold(t.AvgPool2d(attn, 3, 2, 1))
	attn = t.Rebind(attn, n.lrelu(t, "spatial_attn2", t.Cat(1, pooledMax, pooledAvg), c1))
	level := t.Hold(n.lrelu(t, "spatial_attn_l1", attn, c1))
	pooledMax = t.Rebind(pooledMax, t.MaxPool2dPadded(level, 3, 2, 1))
	pooledAvg = t.Rebind(pooledAvg, t.AvgPool2d(level, 3, 2, 1))
	level = t.Rebind(level, n.lrelu(t, "spatial_attn_l2", t.Cat(1, pooledMax, pooledAvg), c3))
	level = t.Rebind(level, n.lrelu(t, "spatial_attn_l3", level, c3))
	level = t.Rebind(level, t.Upsample(level, 2))

	attn = t.Rebind(attn, t.Add(n.lrelu(t, "spatial_attn3", attn, c3), level))
	attn = t.Rebind(attn, n.lrelu(t, "spatial_attn4", attn, c1))
	attn = t.Rebind(attn, t.Upsample(attn, 2))
	attn = t.Rebind(attn, t.Conv2d("spatial_attn5", attn, c3))
	add := t.Hold(t.Conv2d("spatial_attn_add2", n.lrelu(t, "spatial_attn_add1", attn, c1), c1))
	attn = t.Rebind(attn, t.Sigmoid(attn))
	return t.Add(t.MulScalar(t.Mul(feat, attn)), add)
}
