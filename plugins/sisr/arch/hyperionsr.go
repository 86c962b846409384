package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// HyperionSR: traiNNer/archs/hyperionsr_arch.py of Phhofm/traiNNer-redux at 2f64430b, which the same author took out again
// in December 2025.
var _ = entry(func() {
	hyperion := func(feat, groups, blocks int64) builder {
		return func(s Spec, a *args) Network {
			a.swallow = true
			n := hyperionSR{scale: s.Scale, feat: feat, groups: groups, blocks: blocks}
			return Network{Forward: n.forward}
		}
	}
	register(hyperion(48, 3, 3), "hyperionsr_s")
	register(hyperion(64, 4, 4), "hyperionsr_m")
	register(hyperion(128, 5, 5), "hyperionsr_l")
	register(hyperion(160, 6, 6), "hyperionsr_xl")
})

type hyperionSR struct{ scale, feat, groups, blocks int64 }

// forward is HyperionSR.forward, in the module model.
func (n hyperionSR) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Call("model", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		shallow := t.Hold(t.Conv2d("conv_in", x, conv(n.feat, 3)))
		deep := t.Hold(t.Sequential("body", shallow, nn.Repeat(n.group, n.groups)...))
		fused := t.Hold(t.Add(t.Conv2d("fusion", deep, conv(n.feat, 3)), shallow))
		out := t.Hold(t.Sequential("upsampler", fused, conv(n.feat*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
		return t.Rebind(out, t.Conv2d("conv_out", out, conv(3, 3)))
	})
}

// group is ResidualGroup.
func (n hyperionSR) group(t *nn.Tape, x nn.Tensor) nn.Tensor {
	blocks := nn.Repeat(n.block, n.blocks)
	return t.Add(x, t.Sequential("blocks", x, blocks...))
}

// block is HyperionBlock.
func (n hyperionSR) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	res := x
	x = t.Hold(t.GroupNorm("norm1", x, 1))
	x = t.Rebind(x, t.Call("attn", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // SpatialAttentionGate
		return t.Mul(x, t.Sigmoid(t.Conv2d("spatial_gate", x, conv(1, 1))))
	}))
	x = t.Rebind(x, t.Call("ca", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ChannelAttention
		return t.Mul(x, t.Sequential("conv_du", t.AvgPoolAll(x), conv(n.feat/16, 1).Module(), (*nn.Tape).GELU,
			conv(n.feat, 1).Module(), (*nn.Tape).Sigmoid))
	}))
	x = t.Rebind(x, t.Add(x, res))
	res = t.Hold(x)
	x = t.Hold(t.GroupNorm("norm2", x, 1))
	x = t.Rebind(x, t.Call("ffn", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // GatedFFN
		hidden := 2 * n.feat
		p := t.Split(t.Hold(t.Conv2d("project_in", x, conv(2*hidden, 1))), 1, hidden, hidden)
		return t.Conv2d("project_out", t.Mul(t.GELU(p[0]), p[1]), conv(n.feat, 1))
	}))
	return t.Add(x, res)
}
