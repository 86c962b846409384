package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// The two networks of examples/sisr/sisr/nets.py: attention over all pixels, and within windows.

var _ = entry(func() {
	register(buildAttnSR, "attnsr")
	register(buildWindowSR, "windowsr")
})

// exampleNet is _Net with its blocks.
type exampleNet struct {
	scale, feat, blocks int64
	window              int64 // 0: attention over all pixels
	checkpoint          bool
}

func buildAttnSR(s Spec, a *args) Network {
	n := exampleNet{scale: s.Scale, feat: a.int("num_feat", 16), blocks: a.int("num_block", 2), checkpoint: a.bool("use_checkpoint", false)}
	return Network{Forward: n.forward, CheckpointArg: "use_checkpoint", Checkpointing: n.checkpoint}
}

func buildWindowSR(s Spec, a *args) Network {
	n := exampleNet{scale: s.Scale, feat: a.int("num_feat", 32), blocks: a.int("num_block", 4), window: a.int("window_size", 8),
		checkpoint: a.bool("use_checkpoint", false)}
	refuse(n.window < 1, "window_size: %d", n.window)
	return Network{Forward: n.padded, CheckpointArg: "use_checkpoint", Checkpointing: n.checkpoint}
}

// padded is WindowSR.forward.
func (n exampleNet) padded(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	up := func(k int64) int64 { return (k + n.window - 1) / n.window * n.window }
	x = t.Rebind(x, t.PadTo(x, false, x.Dim(0), x.Dim(1), up(h), up(w)))
	y := n.forward(t, x)
	return t.Narrow(t.Narrow(y, 2, h*n.scale), 3, w*n.scale)
}

// forward is _Net.forward.
func (n exampleNet) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	feat := t.Hold(t.Conv2d("conv_first", x, conv(n.feat, 3)))
	for i := range n.blocks {
		name := fmt.Sprintf("blocks.%d", i)
		feat = t.Rebind(feat, t.CheckpointIf(n.checkpoint && !t.Inference(), name, feat, n.block))
	}
	out := t.Hold(t.Conv2d("conv_last", feat, conv(3*n.scale*n.scale, 3)))
	out = t.Rebind(out, t.PixelShuffle(out, n.scale))
	base := t.Hold(t.Upsample(x, n.scale))
	return t.Add(out, base)
}

// block is FullBlock.forward, and with windows WindowBlock.forward.
func (n exampleNet) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	if n.window == 0 {
		seq := t.Hold(t.Contiguous(t.Transpose(t.View(x, b, c, h*w), 1, 2)))
		seq = t.Rebind(seq, t.Call("attn", seq, n.attention))
		x = t.Add(x, t.Reshape(t.Transpose(seq, 1, 2), b, c, h, w))
		return t.Add(x, t.Call("ffn", x, n.feedForward))
	}
	p := n.window
	seq := t.Permute(t.View(x, b, c, h/p, p, w/p, p), 0, 2, 4, 3, 5, 1)
	seq = t.Hold(t.Reshape(seq, b*(h/p)*(w/p), p*p, c))
	seq = t.Rebind(seq, t.Call("attn", seq, n.attention))
	back := t.Permute(t.View(seq, b, h/p, w/p, p, p, c), 0, 5, 1, 3, 2, 4)
	x = t.Add(x, t.Reshape(back, b, c, h, w))
	return t.Add(x, t.Call("ffn", x, n.feedForward))
}

// attention is Attention.forward.
func (n exampleNet) attention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Rebind(x, t.LayerNorm("norm", t.To(x, nn.F32)))
	qkv := t.Split(t.Linear("qkv", x, 3*n.feat, true), 2, n.feat, n.feat, n.feat)
	q, k, v := t.Hold(qkv[0]), t.Hold(qkv[1]), t.Hold(qkv[2])
	q = t.Rebind(q, t.MulScalar(q))
	t.Line("attn = torch.bmm(q, k.transpose(1, 2))")
	attn := t.Hold(t.Bmm(q, t.Transpose(k, 1, 2)))
	t.Line("attn = torch.softmax(attn, dim=-1)")
	attn = t.Rebind(attn, t.Softmax(attn))
	t.Line("x = torch.bmm(attn, v)")
	x = t.Rebind(x, t.Bmm(attn, v))
	return t.Linear("proj", x, n.feat, true)
}

// feedForward is FeedForward.forward.
func (n exampleNet) feedForward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Rebind(x, t.Conv2d("conv1", x, conv(2*n.feat, 3)))
	x = t.Rebind(x, t.GELU(x))
	return t.Conv2d("conv2", x, conv(n.feat, 3))
}
