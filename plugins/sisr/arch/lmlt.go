package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// LMLT (Kim et al., 2024): traiNNer/archs/lmlt_arch.py at 68629319.
var _ = entry(func() {
	lmlt := func(dim int64) builder {
		return func(s Spec, a *args) Network {
			n := lmlt{
				scale: s.Scale, blocks: a.int("n_blocks", 8), ffn: a.float("ffn_scale", 2),
				drop: a.float("drop_rate", 0), attnDrop: a.float("attn_drop_rate", 0),
			}
			n.dim = a.int("dim", dim)
			a.ignore("drop_path_rate") // which no block reads
			refuse(n.dim < 4 || n.dim%4 != 0, "dim %d does not divide among 4 levels", n.dim)
			return Network{Forward: n.forward, Multiple: 64}
		}
	}
	register(lmlt(36), "lmlt_tiny")
	register(lmlt(60), "lmlt_base")
	register(lmlt(84), "lmlt_large")
})

type lmlt struct {
	scale, dim, blocks  int64
	ffn, drop, attnDrop float64
}

const (
	lmltLevels = 4
	lmltWindow = 8
)

// forward is LMLT.forward.
func (n lmlt) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	const side = lmltWindow * 8
	x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), multiple(h, side), multiple(w, side))) // check_img_size
	x = t.Rebind(x, t.Conv2d("to_feat", x, conv(n.dim, 3)))
	x = t.Rebind(x, t.Add(t.Sequential("feats", x, nn.Repeat(n.attBlock, n.blocks)...), x))
	x = t.Rebind(x, t.Narrow(t.Narrow(x, 2, h), 3, w))
	return t.Sequential("to_img", x, conv(3*n.scale*n.scale, 3).Module(), shuffle(n.scale))
}

// attBlock is AttBlock.
func (n lmlt) attBlock(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return safmnBlock(t, x, "lhsb", n.lhsb, n.dim, n.ffn)
}

// lhsb is LHSB: attention at four sizes, from the smallest to the largest.
func (n lmlt) lhsb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w, chunk := x.Dim(2), x.Dim(3), n.dim/lmltLevels
	feats := t.Split(x, 1, chunk, chunk, chunk, chunk)
	for i := 1; i < lmltLevels; i++ {
		feats[i] = t.Hold(t.AdaptiveMaxPool2d(feats[i], h>>i, w>>i))
	}
	var out []nn.Tensor
	var s, up nn.Tensor
	for i := lmltLevels - 1; i >= 0; i-- {
		y := t.Call(fmt.Sprint("mfr.", i), feats[i], n.downsampleViT)
		s = t.Assign(i == lmltLevels-1, s, y)
		y = t.Upsample(s, 2)
		up = t.Assign(i == lmltLevels-1, up, y)
		if i > 1 { // the list holds each: what was there goes
			feats[i-1] = t.Rebind(feats[i-1], t.Add(feats[i-1], up))
		} else if i == 1 {
			feats[0] = t.Hold(t.Add(feats[0], up))
		}
		out = append(out, t.Hold(t.Interpolate(s, h, w)))
	}
	y := t.Conv2d("aggr", t.Cat(1, out...), conv(n.dim, 1))
	for _, o := range out { // the name of the list is the result's
		t.Rebind(o, y)
	}
	return t.Mul(t.GELU(y), x)
}

// downsampleViT is DownsampleViT: attention within windows, without heads.
func (n lmlt) downsampleViT(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const ws = lmltWindow
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	x = t.Permute(x, 0, 2, 3, 1)
	xWindow := t.Hold(windows(t, x, ws))
	qkv := t.Hold(t.Linear("qkv", xWindow, 3*c, true))
	p := t.Split(qkv, -1, c, c, c)
	q, k := p[0], p[1]
	v, lepe := n.lepe(t, p[2])
	t.Hold(v)
	t.Hold(lepe)

	attn := t.Hold(t.MulScalar(t.Matmul(q, t.Transpose(k, -2, -1))))
	attn = t.Rebind(attn, t.Softmax(attn))
	attn = t.Rebind(attn, t.Dropout(attn, n.attnDrop))
	y := t.Hold(t.Add(t.Matmul(attn, v), lepe))
	y = t.Rebind(y, t.Linear("proj", y, c, true))
	y = t.Rebind(y, t.Dropout(y, n.drop))
	y = t.Rebind(y, windowReverse(t, t.View(y, -1, ws, ws, c), ws, b, h, w))
	return t.Permute(y, 0, 3, 1, 2)
}

// lepe is get_lepe, called with the values of one window each.
func (n lmlt) lepe(t *nn.Tape, x nn.Tensor) (v, lepe nn.Tensor) {
	t.Scope("", func() {
		const ws = lmltWindow
		b, c := x.Dim(0), x.Dim(2)
		x := t.View(t.Contiguous(t.Transpose(x, -2, -1)), b, c, ws, ws)
		// of a window that is the whole image the view as windows is contiguous already
		y := t.Hold(t.Conv2d("get_v", t.Hold(x), depthwise(c, 3)))
		lepe = t.Rebind(y, t.Contiguous(t.Permute(t.View(y, -1, c, ws*ws), 0, 2, 1)))
		v = t.Contiguous(t.Permute(t.View(x, -1, c, ws*ws), 0, 2, 1))
	}, x)
	return v, lepe
}
