package nn

import "github.com/launch-ml/launch/core/unit"

// CuDNN is the part under which a peak has the copies that cuDNN makes: see [Tape.Card].
const CuDNN = "cuDNN"

// Copies are what cuDNN holds of one convolution's tensors as NHWC while it runs.
type Copies struct{ Input, Result, Weight unit.Bytes }

// convolved makes a convolution's result on a card, and enters what is copied meanwhile.
//
// PyTorch lays the result out with its channels last where the input or the weight is, and copies whichever of the two
// is laid out otherwise (cudnn_conv_suggest_memory_format in aten/src/ATen/native/ConvUtils.h,
// determine_backend_memory_format in Convolution.cpp, cudnn_convolution_forward_out in cudnn/ConvShared.cpp). Both
// copies go when the convolution has run.
//
// cuDNN's kernels for tensor cores read and write NHWC. Of contiguous tensors it makes copies in its workspace: the
// input, the result and the weight (cuDNN's developer guide, "Tensor Transformations": NCHW tensors are converted
// before and after). RTX 4090, Windows 11, torch of early 2025, cudnn.benchmark, autocast to float16, 480 × 640,
// max_memory_allocated of contiguous less that of channels last (traiNNer-redux, docs/source/resources/benchmark1x.csv
// at 3ebe5d23): Compact and UltraCompact, 64 → 64 channels, 75.071 MiB, which is two maps of 37.5 and a weight of
// 0.070. A 1×1 convolution is a matrix product of contiguous tensors as they are: SPANPlus joins 128 → 32 channels in
// 0.01 MiB, not in 93.75. No card has shown float32 (see [Peak.Unseen]), grouped convolutions, or a backward: they
// have no copies here.
func (t *Tape) convolved(o recorder, y, x, w Tensor, groups int64) Tensor {
	last := x.channelsLast() || w.channelsLast()
	o.tmp(x.formatted(last) + w.formatted(last))
	if last {
		return o.out(y.lastChannels())
	}
	y = o.out(y.dense())
	if groups == 1 && w.Dim(2)*w.Dim(3) > 1 {
		o.temp().copies = cudnn{x.bytes(), y.bytes(), w.bytes(), t.partOf(CuDNN), x.dtype == F32}
		t.unseen = t.unseen || x.dtype == F32
	}
	return y
}

// Unseen is by how much the peak would be higher if cuDNN made its copies in float32 too, as it may under TF32, and at
// which moment that peak would be; 0 where it would not be higher. No card has shown them.
func (p Peak) Unseen() (more unit.Bytes, moment string) {
	if p.tape == nil || !p.tape.unseen {
		return 0, ""
	}
	r := newReplay(p.tape)
	defer r.done()
	r.unseen = true
	r.list(p.tape.ops, 0)
	if more = unit.Bytes(r.peak) - p.Bytes; more <= 0 {
		return 0, ""
	}
	return more, p.tape.where(r.peakOp)
}

// copiesAt are an op's, none without an op.
func (t *Tape) copiesAt(o *op) cudnn {
	if o == nil {
		return cudnn{}
	}
	return t.temps[o.temp].copies
}

// Images puts a batch of images on the tape, which lives as long as it is held, with its channels last or contiguous.
func (t *Tape) Images(last bool, d DType, shape ...int64) Tensor {
	x := t.Input(d, shape...)
	if last {
		x = x.lastChannels()
	}
	return x
}

// lastChannels is x of four dimensions with the strides of torch.channels_last.
func (x Tensor) lastChannels() Tensor {
	return x.permuted(0, 2, 3, 1).dense().permuted(0, 3, 1, 2)
}

// formatted is what x.contiguous(memory_format=…) takes, channels last or not: nothing where x is laid out so already.
func (x Tensor) formatted(last bool) int64 {
	if last && x.permuted(0, 2, 3, 1).contiguous() || !last && x.contiguous() {
		return 0
	}
	return x.bytes()
}

// preserved is x as a copy with torch.preserve_format lays it out: with x's strides, or where these leave gaps in the
// order of the dimensions (_to_copy in aten/src/ATen/native/TensorConversions.cpp).
func (x Tensor) preserved() Tensor {
	if x.strides == nil || x.packed() {
		return x
	}
	return x.like(x)
}

// packed is Tensor.is_non_overlapping_and_dense: sorted by stride, each dimension begins where the one before ends
// (compute_non_overlapping_and_dense in c10/core/Contiguity.h).
func (x Tensor) packed() bool {
	n, all := int64(1), x.Numel()
	for range int(x.dims) {
		for i := range int(x.dims) {
			if x.shape[i] != 1 && x.strides[i] == n && n < all {
				n *= int64(x.shape[i])
				break
			}
		}
	}
	return n == all
}

// iterated is y laid out as TensorIterator lays out the result of an elementwise operation on xs: its dimensions are
// ordered by the strides of the first of them that is broadcast along neither of two (reorder_dimensions in
// aten/src/ATen/TensorIterator.cpp).
func (y Tensor) iterated(xs ...Tensor) Tensor {
	plain := true
	for _, x := range xs {
		plain = plain && x.contiguous()
	}
	if plain {
		return y.dense()
	}
	n := int(y.dims)
	var order [maxDims]int // from the innermost dimension
	for i := range n {
		order[i] = n - 1 - i
	}
	for i := range n {
		at := i
		for k := i - 1; k >= 0; k-- { // an insertion sort that looks past what does not tell
			c := y.outside(order[k], order[at], xs)
			if c < 0 {
				break
			}
			if c > 0 {
				order[k], order[at] = order[at], order[k]
				at = k
			}
		}
	}
	var s layout
	size := int64(1)
	for _, d := range order[:n] {
		s[d] = size
		size *= int64(y.shape[d])
	}
	return y.laid(s)
}

// outside is 1 where dimension i of y comes outside of j, -1 where it comes inside, and 0 where xs do not tell.
func (y Tensor) outside(i, j int, xs []Tensor) int {
	for _, x := range xs {
		switch a, b := x.along(y, i), x.along(y, j); {
		case a == 0 || b == 0:
		case a < b:
			return -1
		case a > b, y.shape[i] > y.shape[j]:
			return 1
		}
	}
	return 0
}

// along is x's stride along dimension i of y, 0 where x is broadcast.
func (x Tensor) along(y Tensor, i int) int64 {
	k := i - int(y.dims) + int(x.dims)
	if k < 0 || x.shape[k] == 1 && y.shape[i] != 1 {
		return 0
	}
	return x.stride()[k]
}
