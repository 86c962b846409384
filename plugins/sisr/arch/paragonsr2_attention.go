package arch

import "github.com/launch-ml/launch/core/nn"

// fullAttention is EfficientSelfAttention at da033d99, and LocalWindowAttention._full_attention at 069b6d59: every
// pixel attends to every pixel, so the matrix of line 436 has (h·w)² elements.
func (n paragon) fullAttention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	q, k, v := n.qkv(t, x)
	t.Line("attn = torch.bmm(q, k)")
	attn := t.Hold(t.Bmm(q, k))
	t.Line("attn = F.softmax(attn / (H * W) ** 0.5, dim=-1)")
	attn = t.Rebind(attn, t.Softmax(t.DivScalar(attn)))
	t.Line("out = torch.bmm(v, attn.permute(0, 2, 1))")
	out := t.Hold(t.View(t.Bmm(v, t.Permute(attn, 0, 2, 1)), b, c, h, w))
	t.Line("return x + self.gamma * out")
	return t.Add(x, t.Mul(t.Param("gamma", 1), out))
}

func (n paragon) qkv(t *nn.Tape, x nn.Tensor) (q, k, v nn.Tensor) {
	b, c, tokens := x.Dim(0), x.Dim(1), x.Dim(2)*x.Dim(3)
	reduced := max(1, c/8)
	q = t.Hold(t.Permute(t.View(t.Conv2d("query", x, conv(reduced, 1)), b, -1, tokens), 0, 2, 1))
	k = t.Hold(t.View(t.Conv2d("key", x, conv(reduced, 1)), b, -1, tokens))
	v = t.Hold(t.View(t.Conv2d("value", x, conv(c, 1)), b, -1, tokens))
	return q, k, v
}

// windowAttention is LocalWindowAttention at 069b6d59: a Python loop over overlapping windows, whose weighted results
// are added into one tensor in place.
func (n paragon) windowAttention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const windowSize, overlap = 32, 8
	h, w := x.Dim(2), x.Dim(3)
	if h <= windowSize && w <= windowSize {
		return n.fullAttention(t, x)
	}

	windowH, windowW := min(windowSize, h), min(windowSize, w)
	overlapH, overlapW := min(overlap, windowH/4, h/4), min(overlap, windowW/4, w/4)
	numWindowsH := (h + overlapH - 1) / (windowH - overlapH)
	numWindowsW := (w + overlapW - 1) / (windowW - overlapW)

	output := t.Hold(t.ZerosLike(x))
	count := t.Hold(t.ZerosLike(x))

	var last []nn.Tensor // what the loop's variables hold until they are assigned anew
	for i := range numWindowsH {
		for j := range numWindowsW {
			if t.Inference() && (i > 0 || j > 1) { // the first two are as large as any, and stand for all
				continue
			}
			hStart, wStart := i*(windowH-overlapH), j*(windowW-overlapW)
			hEnd, wEnd := min(h, hStart+windowH), min(w, wStart+windowW)
			window := t.Narrow(t.Narrow(x, 2, hEnd-hStart), 3, wEnd-wStart)

			processedWindow := t.Within("", func() nn.Tensor { return n.windowSelfAttention(t, window) })
			weight := t.ZerosLike(processedWindow)
			for _, v := range last {
				t.Rebind(v, v)
			}
			last = []nn.Tensor{processedWindow, weight}

			t.Line("output[:, :, h_start:h_end, w_start:w_end] += weight * processed_window")
			output = t.WriteSlice(output, t.Mul(weight, processedWindow), true)
			t.Line("count[:, :, h_start:h_end, w_start:w_end] += weight")
			count = t.WriteSlice(count, weight, true)
		}
	}
	t.HoldAll(last...)

	t.Line("output = output / (count + 1e-8)")
	output = t.Rebind(output, t.Div(output, t.AddScalar(count)))
	t.Line("return x + self.gamma * output")
	return t.Add(x, t.Mul(t.Param("gamma", 1), output))
}

// windowSelfAttention is LocalWindowAttention._window_self_attention. It divides before it binds, so the softmax
// runs while the quotient lives and the product does not.
func (n paragon) windowSelfAttention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	q, k, v := n.qkv(t, x)
	t.Line("attn = torch.bmm(q, k) / (num_tokens) ** 0.5")
	attn := t.Hold(t.DivScalar(t.Bmm(q, k)))
	t.Line("attn = F.softmax(attn, dim=-1)")
	attn = t.Rebind(attn, t.Softmax(attn))
	t.Line("out = torch.bmm(v, attn.permute(0, 2, 1))")
	return t.View(t.Bmm(v, t.Permute(attn, 0, 2, 1)), b, c, h, w)
}
