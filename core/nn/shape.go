package nn

import (
	"fmt"
	"slices"
)

// view is a result that shares its input's storage and gives it its own gradient, or a view of it.
func (t *Tape) view(name string, x, shape Tensor) Tensor {
	o := t.op(name, x)
	shape.store = x.store
	y := o.result(shape)
	return o.ends(y, func() {
		o.gradient(x, 0, 0)
		t.grads[len(t.grads)-1].flip = shape.contiguous() != x.contiguous()
	}, x)
}

// View is x.view(shape) and x.reshape(shape): the same storage, or a contiguous copy of what cannot be seen that
// way. One size may be -1. It panics where the shape has another number of elements, as PyTorch stops there.
func (t *Tape) View(x Tensor, shape ...int64) Tensor {
	numel, n := x.Numel(), int64(1)
	shape = infer(numel, shape)
	for _, d := range shape {
		n *= d
	}
	if n != numel {
		panic(fmt.Sprintf("shape %v is invalid for a tensor of %v", append([]int64(nil), shape...), x.Shape()))
	}
	y, ok := x.viewed(shape...)
	if !ok {
		x = t.Clone(x)
		y = x.resized(shape...)
	}
	return t.view("Tensor.view", x, y)
}

// Reshape is View.
func (t *Tape) Reshape(x Tensor, shape ...int64) Tensor { return t.View(x, shape...) }

func infer(numel int64, shape []int64) []int64 {
	known, open := int64(1), -1
	for i, d := range shape {
		if d == -1 {
			open = i
			continue
		}
		known *= d
	}
	if open < 0 {
		return shape
	}
	s := append([]int64(nil), shape...)
	s[open] = numel / max(known, 1)
	return s
}

// Permute is x.permute(dims): the same storage, no longer contiguous.
func (t *Tape) Permute(x Tensor, dims ...int) Tensor {
	return t.view("Tensor.permute", x, x.permuted(dims...))
}

func (x Tensor) permuted(dims ...int) Tensor {
	y, from, to := x, x.stride(), layout{}
	for i, d := range dims {
		y.shape[i], to[i] = x.shape[d], from[d]
	}
	return y.laid(to)
}

// Transpose is x.transpose(i, j): the same storage.
func (t *Tape) Transpose(x Tensor, i, j int) Tensor {
	i, j = (i+int(x.dims))%int(x.dims), (j+int(x.dims))%int(x.dims)
	y, s := x, x.stride()
	y.shape[i], y.shape[j] = x.shape[j], x.shape[i]
	s[i], s[j] = s[j], s[i]
	return t.view("Tensor.transpose", x, y.laid(s))
}

// Contiguous is x.contiguous(): x itself, or a copy of what is not. Saved: nothing (derivatives.yaml, clone).
func (t *Tape) Contiguous(x Tensor) Tensor {
	if x.contiguous() {
		return x
	}
	return t.Clone(x)
}

// Clone is x.clone(), contiguous here. Saved: nothing; the gradient is the result's own (derivatives.yaml, clone).
func (t *Tape) Clone(x Tensor) Tensor {
	o := t.op("Tensor.contiguous", x)
	y := o.out(x.dense())
	return o.ends(y, func() { o.gradient(x, 0, 0) }, x)
}

// Narrow is x[..., a:b, ...] with n elements left in dimension dim: a view. Backward makes a tensor of the whole
// size, zero elsewhere (derivatives.yaml, slice.Tensor).
func (t *Tape) Narrow(x Tensor, dim int, n int64) Tensor {
	if x.Dim(dim) == n {
		return x
	}
	o := t.op("Tensor.slice", x)
	y := o.result(x.narrowed(dim, n))
	return o.ends(y, func() { o.gradient(x, x.bytes(), 0) }, x)
}

// Split is torch.split or chunk along dim: views. Backward joins their gradients (derivatives.yaml,
// split_with_sizes).
func (t *Tape) Split(x Tensor, dim int, sizes ...int64) []Tensor {
	all := int64(0)
	for _, n := range sizes {
		all += n
	}
	if all != x.Dim(dim) {
		panic(fmt.Sprintf("nn: %v is not split along %d into %v", x, dim, slices.Clone(sizes)))
	}
	o := t.op("torch.split", x)
	ys := make([]Tensor, len(sizes))
	recording := t.recording(x)
	for i, n := range sizes {
		ys[i] = o.result(x.narrowed(dim, n))
		ys[i].grad = recording
	}
	if recording {
		o.gradient(x, x.bytes(), 0)
	}
	o.end()
	return ys
}

// Cat is torch.cat along dim, at the widest type of its inputs. The result is contiguous unless all of them are channels
// last (cat_compute_output_memory_format in TensorShape.cpp). Saved: nothing (derivatives.yaml, cat); the inputs' gradients
// are views of the result's.
func (t *Tape) Cat(dim int, xs ...Tensor) Tensor {
	y, n := xs[0], int64(0)
	for _, x := range xs {
		if x.with(dim, y.Dim(dim)).shape != y.shape {
			panic(fmt.Sprintf("nn: %v and %v are not joined along %d", y, x, dim))
		}
		n += x.Dim(dim)
		y.dtype = promote(y.dtype, x.dtype)
	}
	o := t.op("torch.cat", xs...)
	y = y.with(dim, n)
	if !slices.ContainsFunc(xs, func(x Tensor) bool { return !x.channelsLast() }) {
		y = y.suggested(xs[0])
	}
	y = o.out(y)
	return o.ends(y, func() {
		for _, x := range xs {
			switch {
			case !x.grad:
			case x.dtype != y.dtype:
				o.gradient(x, x.bytes(), 0)
			default:
				o.gradient(x, 0, 0)
			}
		}
	}, xs...)
}

// Stack is torch.stack of n equal tensors along a new first dimension.
func (t *Tape) Stack(xs ...Tensor) Tensor {
	ys := make([]Tensor, len(xs))
	for i, x := range xs {
		ys[i] = t.View(x, append([]int64{1}, x.Shape()...)...)
	}
	return t.Cat(0, ys...)
}

// Expand is x.expand(shape): a view; backward sums.
func (t *Tape) Expand(x Tensor, shape ...int64) Tensor {
	o := t.op("Tensor.expand", x)
	y := x.resized(shape...)
	off := int(y.dims) - int(x.dims)
	from, to := x.stride(), layout{}
	for i := range int(y.dims) {
		if i >= off && x.shape[i-off] == y.shape[i] {
			to[i] = from[i-off]
		}
	}
	y = o.result(y.laid(to))
	return o.ends(y, func() { o.gradient(x, x.bytes(), 0) }, x)
}

// Copy is an op that writes a new tensor of that shape from x and saves nothing but sizes: repeat, roll, gather by
// a fixed index, repeat_interleave. Backward makes a tensor of x's size.
func (t *Tape) Copy(name string, x Tensor, shape ...int64) Tensor {
	return t.copied(name, x, x.resized(shape...))
}

func (t *Tape) copied(name string, x, shape Tensor) Tensor {
	o := t.op(name, x)
	y := o.out(shape)
	return o.ends(y, func() { o.gradient(x, x.bytes(), 0) }, x)
}

// Roll is torch.roll. Saved: nothing (derivatives.yaml, roll).
func (t *Tape) Roll(x Tensor) Tensor { return t.Copy("torch.roll", x, x.Shape()...) }

// Pad is torch.nn.functional.pad of the last two dimensions of (n, c, h, w), by bottom and right amounts in all.
// A pad of nothing is a copy in constant mode (constant_pad_nd clones).
//
// Saved by constant mode: nothing (derivatives.yaml, constant_pad_nd). By reflect: the input (reflection_pad2d).
func (t *Tape) Pad(x Tensor, h, w int64, reflect bool) Tensor {
	return t.PadTo(x, reflect, x.Dim(0), x.Dim(1), x.Dim(2)+h, x.Dim(3)+w)
}

// PadTo is torch.nn.functional.pad to a shape. A constant keeps the input's memory format (constant_pad_nd in
// native/PadNd.cpp); reflect gives a contiguous result, and CUDA's kernel wants a contiguous input (ReflectionPad.cu).
func (t *Tape) PadTo(x Tensor, reflect bool, shape ...int64) Tensor {
	z := x.resized(shape...)
	if !reflect {
		z = z.suggested(x)
	}
	y := t.copied("torch.nn.functional.pad", x, z)
	if reflect {
		recorder{t, len(t.ops) - 1}.kernel(x, false)
	}
	if reflect && y.grad {
		o := &t.ops[len(t.ops)-1]
		if t.stores[x.store].kind != isParam {
			t.saves = append(t.saves, x.store)
			o.save1 = int32(len(t.saves))
		}
	}
	return y
}

// PixelShuffle is torch.nn.PixelShuffle(r), whose result is contiguous but on a CPU (math_pixel_shuffle in
// aten/src/ATen/native/PixelShuffle.cpp). Saved: nothing (derivatives.yaml, pixel_shuffle).
func (t *Tape) PixelShuffle(x Tensor, r int64) Tensor {
	return t.Copy("torch.pixel_shuffle", x, x.Dim(0), x.Dim(1)/(r*r), x.Dim(2)*r, x.Dim(3)*r)
}

// PixelUnshuffle is torch.pixel_unshuffle(x, r), contiguous as PixelShuffle's result is. Saved: nothing
// (derivatives.yaml, pixel_unshuffle).
func (t *Tape) PixelUnshuffle(x Tensor, r int64) Tensor {
	return t.Copy("torch.pixel_unshuffle", x, x.Dim(0), x.Dim(1)*r*r, x.Dim(2)/r, x.Dim(3)/r)
}

// Interpolate is torch.nn.functional.interpolate to h×w, in any mode. The result is laid out as the input (the meta
// functions in aten/src/ATen/native/UpSampleNearest2d.cpp and its neighbours). Saved: nothing but sizes
// (derivatives.yaml, upsample_nearest2d, upsample_bilinear2d, upsample_bicubic2d).
func (t *Tape) Interpolate(x Tensor, h, w int64) Tensor {
	if !t.UpsampleLow {
		x = t.toFull(x)
	}
	y := x.with(2, h).with(3, w).suggested(x)
	return t.copied("torch.nn.functional.interpolate", x, y)
}

// Upsample is Interpolate by an integer factor in mode nearest. With the channels last and fewer than four of them,
// CUDA works on a contiguous copy of the input and copies from a contiguous result
// (upsample_nearest2d_out_cuda_template in aten/src/ATen/native/cuda/UpSampleNearest2d.cu).
func (t *Tape) Upsample(x Tensor, by int64) Tensor {
	y := t.Interpolate(x, x.Dim(2)*by, x.Dim(3)*by)
	if t.Card && y.channelsLast() && y.Dim(1) < 4 {
		recorder{t, len(t.ops) - 1}.tmp(x.bytes() + y.bytes())
	}
	return y
}

// Bilinear is Interpolate by an integer factor in mode bilinear, whose kernel reads and writes any strides.
func (t *Tape) Bilinear(x Tensor, by int64) Tensor { return t.Interpolate(x, x.Dim(2)*by, x.Dim(3)*by) }

// GridSample is torch.nn.functional.grid_sample to h×w. Autocast promotes to the widest input.
//
// Saved: input and grid (derivatives.yaml, grid_sampler_2d).
func (t *Tape) GridSample(x, grid Tensor) Tensor {
	if t.auto {
		d := promote(x.dtype, grid.dtype)
		x, grid = t.cast(x, d), t.cast(grid, d)
	}
	o := t.op("torch.nn.functional.grid_sample", x, grid)
	y := o.out(x.resized(x.Dim(0), x.Dim(1), grid.Dim(1), grid.Dim(2)))
	return o.ends(y, func() {
		o.save(x, grid)
		o.fresh(x, x)
		o.fresh(grid, grid)
	}, x, grid)
}

// WriteSlice is base[slice] += x, and base[slice] = x where add is false, as Python carries them out: the base's
// storage is changed, and its place in the graph (CopySlices in autograd/functions/tensor.cpp). Backward copies the
// base's gradient whole, and the slice's once more.
func (t *Tape) WriteSlice(base, x Tensor, add bool) Tensor {
	y := base
	for range writes(add) {
		o := t.op("Tensor.__setitem__", y, x)
		z := o.result(y)
		if t.recording(y, x) {
			z.grad = true
			o.btmp(x.bytes())
			if y.grad {
				o.gradient(y, y.bytes(), 0)
			} else {
				o.btmp(y.bytes())
			}
			if x.grad {
				o.gradient(x, x.bytes(), 0)
			}
		}
		o.end()
		y = z
		x.grad = false
	}
	return y
}

// writes is how often Python writes: a[s] += b adds in place to a view and then assigns that view to itself.
func writes(add bool) int {
	if add {
		return 2
	}
	return 1
}

// Unbind is x[0], x[1], …: views, each of whose gradients backward puts into a tensor of the whole size
// (derivatives.yaml, select.int).
func (t *Tape) Unbind(x Tensor) []Tensor {
	ys := make([]Tensor, x.Dim(0))
	for i := range ys {
		o := t.op("Tensor.select", x)
		y := x.resized(x.Shape()[1:]...)
		from, to := x.stride(), layout{}
		copy(to[:], from[1:])
		ys[i] = o.result(y.laid(to))
		if t.recording(x) {
			ys[i].grad = true
			o.gradient(x, x.bytes(), 0)
		}
		o.end()
	}
	return ys
}

// Select is x.select(dim, i): a view without that dimension. Backward makes a tensor of the whole size
// (derivatives.yaml, select.int).
func (t *Tape) Select(x Tensor, dim int) Tensor {
	if dim < 0 {
		dim += int(x.dims)
	}
	o := t.op("Tensor.select", x)
	y, s := x, x.stride()
	copy(y.shape[dim:], x.shape[dim+1:])
	copy(s[dim:], s[dim+1:])
	y.dims--
	y = o.result(y.laid(s))
	return o.ends(y, func() { o.gradient(x, x.bytes(), 0) }, x)
}

// StackLast is torch.stack(xs, dim=-1) of equal tensors.
func (t *Tape) StackLast(xs ...Tensor) Tensor {
	ys := make([]Tensor, len(xs))
	for i, x := range xs {
		ys[i] = t.View(x, append(x.Shape(), 1)...)
	}
	return t.Cat(-1, ys...)
}
