package nn

import "cmp"

// A Conv describes a torch.nn.Conv2d. The zero values of Stride, Dilation and Groups stand for 1, and the zero value
// of Pad for the padding that keeps the size at stride 1, which nearly every network here uses.
type Conv struct {
	Out, K   int64
	KW       int64 // the kernel's width where it is not K
	Stride   int64
	Dilation int64
	Groups   int64
	Pad      int64 // of both sides; see Valid for none
	Valid    bool  // padding=0
	NoBias   bool
	Frozen   bool // requires_grad=False
	Spectral bool // torch.nn.utils.spectral_norm
	// Parametrized is torch.nn.utils.parametrizations.spectral_norm, which keeps no weight between forwards.
	Parametrized bool
}

// Module is the layer as a module of its own name.
func (c Conv) Module() Module { return func(t *Tape, x Tensor) Tensor { return t.conv2d(x, c) } }

// Conv2d is torch.nn.Conv2d under that name.
func (t *Tape) Conv2d(name string, x Tensor, c Conv) Tensor {
	defer t.under(name)()
	return t.conv2d(x, c)
}

func (t *Tape) conv2d(x Tensor, c Conv) Tensor {
	groups := max(c.Groups, 1)
	kw := cmp.Or(c.KW, c.K)
	var w, b Tensor
	switch {
	case c.Spectral, c.Parametrized:
		w = t.spectral(c.Spectral, c.Out, x.Dim(1)/groups, c.K, kw)
	case c.Frozen:
		w = t.FrozenParam("weight", c.Out, x.Dim(1)/groups, c.K, kw)
	default:
		w = t.Param("weight", c.Out, x.Dim(1)/groups, c.K, kw)
	}
	if !c.NoBias {
		b = t.param("bias", c.Frozen, []int64{c.Out})
	}
	return t.ConvWeight(x, w, b, c)
}

// ConvWeight is torch.nn.functional.conv2d with a weight, and a bias unless it is the zero Tensor.
//
// Saved: input and weight, whichever of them requires a gradient (derivatives.yaml, convolution). Backward makes
// all gradients in one call (convolution_backward).
//
// On a CPU oneDNN computes in float32 on copies whose channels come in blocks (mkldnn_convolution in
// aten/src/ATen/native/mkldnn/Conv.cpp of 1.13 and 2.15: the copy of the input goes before the result is brought back,
// that of the result after), except where the images are laid out with their channels last, which no recipe asks for on a CPU, and for small
// 1×1 convolutions (ConvParams::use_mkldnn in Convolution.cpp, one thread). VmData of one convolution, torch 1.13 and 2.15, a CPU
// with AVX-512, MiB: 64 → 64 channels of 512 × 512 take 128 beside the input of 64, 24 → 24 take 64 and 64 → 12 take 80; their
// backward 192, 88 and 144.
func (t *Tape) ConvWeight(x, w, b Tensor, c Conv) Tensor {
	stride, dilation := max(c.Stride, 1), max(c.Dilation, 1)
	x, w = t.toLow(x), t.toLow(w)
	if b.dims > 0 {
		b = t.toLow(b)
	}
	size := func(n, k int64) int64 {
		pad := c.Pad
		if pad == 0 && !c.Valid {
			pad = dilation * (k - 1) / 2
		}
		return (n+2*pad-dilation*(k-1)-1)/stride + 1
	}
	o := t.op("torch.nn.functional.conv2d", x, w, b)
	y := x.resized(x.Dim(0), w.Dim(0), size(x.Dim(2), w.Dim(2)), size(x.Dim(3), w.Dim(3)))
	if t.Card {
		y = t.convolved(o, y, x, w, max(c.Groups, 1))
	} else {
		y = o.out(y.suggested(x)) // cudnn_conv_suggest_memory_format
	}
	if t.recording(x, w, b) {
		y.grad = true
		o.save(x, w)
		o.fresh(x, x)
		o.fresh(w, w)
		if b.dims > 0 {
			o.fresh(b, b)
		}
		o.dense()
	}
	if t.OneDNN && y.dtype == F32 && (w.Dim(2) > 1 || w.Dim(3) > 1 || stride > 1 || dilation > 1 || x.Dim(0) >= 16) {
		o.temp().blocked = blocked{inBlocks(x), inBlocks(y), t.partOf(Blocks)}
	}
	o.end()
	return y
}

// spectral is the weight that torch.nn.utils.spectral_norm computes before each forward: weight_orig divided by its
// largest singular value. It is an attribute of the module, so it outlives the forward; it is no leaf, so autocast
// does not cache its copy (cached_cast in autocast_mode.cpp).
//
// Saved: nothing of its size beside the parameter itself (derivatives.yaml, div.Tensor and dot), and the two singular
// vectors: of mv the right one, in autocast's type, of dot the left one, which autocast promotes to float32.
func (t *Tape) spectral(keep bool, out, in, kh, kw int64) Tensor {
	w := t.Param("weight_orig", out, in, kh, kw)
	t.Buffer("weight_u", F32, out)
	t.Buffer("weight_v", F32, in*kh*kw)
	o := t.op("torch.nn.utils.spectral_norm", w)
	y := o.out(w)
	if t.recording(w) {
		y.grad = true
		u, v := Tensor{}.resized(out), Tensor{}.resized(in*kh*kw)
		if t.auto {
			v.dtype = t.low
		}
		o.save(o.out(u), o.out(v))
		// -grad * ((weight_orig / sigma) / sigma) for sigma: three intermediates and their product.
		o.btmp(3 * w.bytes())
		o.fresh(w, w)
	}
	o.end()
	if keep {
		t.keep(y)
	}
	return y
}

// keep holds x as an attribute of the module: until the next one, or for good.
func (t *Tape) keep(x Tensor) {
	if old, ok := t.attrs[t.node]; ok {
		t.touch(old)
	}
	t.attrs[t.node] = x.store
}

// MaxPool2d is torch.nn.MaxPool2d without padding.
//
// Saved: input, and the int64 index of each maximum (derivatives.yaml, max_pool2d_with_indices).
func (t *Tape) MaxPool2d(x Tensor, k, stride int64) Tensor {
	return t.maxPool("torch.nn.functional.max_pool2d", x, (x.Dim(2)-k)/stride+1, (x.Dim(3)-k)/stride+1)
}

// AdaptiveMaxPool2d is torch.nn.functional.adaptive_max_pool2d to h×w. Saved: as MaxPool2d (derivatives.yaml,
// adaptive_max_pool2d).
func (t *Tape) AdaptiveMaxPool2d(x Tensor, h, w int64) Tensor {
	return t.maxPool("torch.nn.functional.adaptive_max_pool2d", x, h, w)
}

func (t *Tape) maxPool(name string, x Tensor, h, w int64) Tensor {
	o := t.op(name, x)
	y := x.with(2, h).with(3, w).like(x)
	idx := y
	idx.dtype = I64
	y = o.out(y)
	o.kernel(x, x.channelsLast())
	idx = o.out(idx)
	return o.ends(y, func() {
		o.save(x, idx)
		o.fresh(x, x)
	}, x)
}

// Blocks is the part under which a peak has the copies of [Tape.OneDNN].
const Blocks = "oneDNN copies"

// inBlocks is x in float32 with its channels in blocks of sixteen, as AVX-512 has them (nChw16c; eight with AVX2 alone); 0 for
// an image of up to three, which is read as it is.
func inBlocks(x Tensor) int64 {
	const block = 16
	c := x.Dim(1)
	if c <= 3 {
		return 0
	}
	return x.bytes() / c * ((c + block - 1) / block * block)
}
