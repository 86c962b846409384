package nn

// A ConvTranspose describes a torch.nn.ConvTranspose2d.
type ConvTranspose struct {
	Out, K, Stride, Pad int64
	NoBias              bool
}

// Module is the layer as a module of its own name.
//
// Saved: input and weight, whichever of them requires a gradient (derivatives.yaml, convolution, which it is with
// transposed=True). It is on autocast's list of lower precision.
func (c ConvTranspose) Module() Module {
	return func(t *Tape, x Tensor) Tensor {
		w := t.Param("weight", x.Dim(1), c.Out, c.K, c.K)
		var b Tensor
		if !c.NoBias {
			b = t.Param("bias", c.Out)
		}
		x, w = t.toLow(x), t.toLow(w)
		if !c.NoBias {
			b = t.toLow(b)
		}
		size := func(n int64) int64 { return (n-1)*c.Stride - 2*c.Pad + c.K }
		o := t.op("torch.nn.functional.conv_transpose2d", x, w, b)
		y := x.resized(x.Dim(0), c.Out, size(x.Dim(2)), size(x.Dim(3)))
		if t.Card {
			y = t.convolved(o, y, x, w, 1)
		} else {
			y = o.out(y.suggested(x))
		}
		return o.ends(y, func() {
			o.save(x, w)
			o.fresh(x, x)
			o.fresh(w, w)
			if !c.NoBias {
				o.fresh(b, b)
			}
			o.dense()
		}, x, w, b)
	}
}

// suggested is y laid out as kernels of images lay out their results for the input x: channels last where x says so,
// and contiguous otherwise (suggest_memory_format in c10/core/TensorImpl.h).
func (y Tensor) suggested(x Tensor) Tensor {
	if !x.channelsLast() {
		return y.dense()
	}
	return y.permuted(0, 2, 3, 1).dense().permuted(0, 3, 1, 2)
}

// channelsLast says whether the strides are like those of channels last (is_channels_last_strides_2d_s4 in
// c10/core/MemoryFormat.h). The batch's stride counts even where the batch is one: a view of tokens as one image may
// have a small one, and then is not seen as channels last.
func (x Tensor) channelsLast() bool {
	if x.dims != 4 || x.strides == nil && int64(x.shape[1])*int64(x.shape[2])*int64(x.shape[3]) > 1 {
		return false // nearly always
	}
	s := x.stride()
	if s[1] == 0 {
		return false
	}
	least := int64(0)
	for _, d := range [...]int{1, 3, 2, 0} {
		if x.shape[d] == 0 || s[d] < least || d == 0 && least == s[1] {
			return false
		}
		least = s[d] * int64(x.shape[d])
	}
	return true
}
