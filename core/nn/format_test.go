package nn

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// formats are the operations of tools/capture/formats.py, under the same names.
func formats(t *Tape) map[string]func() Tensor {
	const c, h, w = 16, 8, 12
	x, y := t.Images(true, F16, 2, c, h, w), t.Images(true, F16, 2, c, h, w)
	n := t.Images(false, F16, 2, c, h, w)
	image := t.Images(true, F32, 1, 3, h, w)
	p := t.Split(x, 1, c/2, c/2)
	part, rest := p[0], p[1]
	one, perChannel, perPixel := t.Zeros(F16, 2, c, 1, 1), t.Zeros(F16, c, 1, 1), t.Zeros(F16, 2, 1, h, w)
	grid := t.Zeros(F16, 2, w, h)
	grid = t.View(t.Transpose(grid, 1, 2), 1, 2, 1, h, w)
	offsets := func(last bool) Tensor { return t.View(t.Images(last, F16, 1, c, h, w), 1, 2, -1, h, w) }
	conv := func(x Tensor, k, groups int64, last bool) Tensor {
		out := int64(32)
		if groups > 1 {
			out = c
		}
		return t.ConvWeight(x, t.Images(last, F16, out, c/groups, k, k), Tensor{}, Conv{Out: out, K: k, Groups: groups})
	}
	transposed := func(x Tensor) (y Tensor) {
		t.Autocast(F16, func() { y = ConvTranspose{Out: 4, K: 2, Stride: 2, NoBias: true}.Module()(t, x) })
		return y
	}
	return map[string]func() Tensor{
		"conv of x":                   func() Tensor { return conv(x, 3, 1, false) },
		"conv of n":                   func() Tensor { return conv(n, 3, 1, false) },
		"conv of n, weight last":      func() Tensor { return conv(n, 3, 1, true) },
		"1x1 conv of n, weight last":  func() Tensor { return conv(n, 1, 1, true) },
		"depthwise of x":              func() Tensor { return conv(x, 3, c, false) },
		"depthwise of n, weight last": func() Tensor { return conv(n, 3, c, true) },
		"transposed conv of x":        func() Tensor { return transposed(x) },
		"pixel shuffle":               func() Tensor { return t.PixelShuffle(x, 2) },
		"nearest":                     func() Tensor { return t.Upsample(x, 2) },
		"nearest of an image":         func() Tensor { return t.Upsample(image, 2) },
		"bilinear":                    func() Tensor { return t.Interpolate(x, 4, 6) },
		"layer norm of permuted":      func() Tensor { return t.LayerNorm("ln", t.Permute(x, 0, 2, 3, 1)) },
		"batch norm":                  func() Tensor { return t.BatchNorm2d("bn", x) },
		"average pool":                func() Tensor { return t.AvgPool2d(x, 2, 2, 0) },
		"max pool":                    func() Tensor { return t.MaxPool2d(x, 2, 2) },
		"max pool of a part":          func() Tensor { return t.MaxPool2d(part, 2, 2) },
		"constant pad":                func() Tensor { return t.Pad(x, 1, 1, false) },
		"reflection pad":              func() Tensor { return t.Pad(x, 1, 1, true) },
		"cat of x and y":              func() Tensor { return t.Cat(1, x, y) },
		"cat of x and n":              func() Tensor { return t.Cat(1, x, n) },
		"cat of parts":                func() Tensor { return t.Cat(1, rest, part) },
		"x + n":                       func() Tensor { return t.Add(x, n) },
		"n + x":                       func() Tensor { return t.Add(n, x) },
		"x * one":                     func() Tensor { return t.Mul(x, one) },
		"one * x":                     func() Tensor { return t.Mul(one, x) },
		"per channel * x":             func() Tensor { return t.Mul(perChannel, x) },
		"per pixel * x":               func() Tensor { return t.Mul(perPixel, x) },
		"x > 0 ? n : y":               func() Tensor { return t.Where(t.Compare(x, x), n, y) },
		"part * rest":                 func() Tensor { return t.Mul(part, rest) },
		"gelu of a part":              func() Tensor { return t.GELU(part) },
		"part in float32":             func() Tensor { return t.To(part, F32) },
		"x in float32":                func() Tensor { return t.To(x, F32) },
		"weight of 1x1 in float32":    func() Tensor { return t.To(t.Images(true, F16, 8, c, 1, 1), F32) },
		"x contiguous":                func() Tensor { return t.Contiguous(x) },
		"softmax":                     func() Tensor { return t.Softmax(x) },
		"prelu":                       func() Tensor { return t.PReLU("prelu", x, c) },
		"roll":                        func() Tensor { return t.Roll(x) },
		"zeros like":                  func() Tensor { return t.ZerosLike(x) },
		"grid sample":                 func() Tensor { return t.GridSample(x, t.Zeros(F16, 2, h, w, 2)) },
		"normalize":                   func() Tensor { return t.NormalizeDim(x, 1) },
		"grid + offsets of x":         func() Tensor { return t.Add(grid, offsets(true)) },
		"grid + offsets of n":         func() Tensor { return t.Add(grid, offsets(false)) },
	}
}

// TestFormats compares the strides of results with those that PyTorch gives them on a card. Strides of dimensions of
// size one mean nothing.
func TestFormats(t *testing.T) {
	text, err := os.ReadFile("testdata/formats_215.json")
	if err != nil {
		t.Fatal(err)
	}
	var rec struct {
		Rows []struct {
			Name          string
			Shape, Stride []int64
		}
	}
	if err := json.Unmarshal(text, &rec); err != nil {
		t.Fatal(err)
	}
	tape := NewTape()
	tape.Card = true
	fs := formats(tape)
	if len(rec.Rows) != len(fs) {
		t.Errorf("%d operations are recorded, and %d are here", len(rec.Rows), len(fs))
	}
	for _, r := range rec.Rows {
		f, ok := fs[r.Name]
		if !ok {
			t.Errorf("%s is not here", r.Name)
			continue
		}
		y := f()
		s := y.stride()
		got := slices.Clone(s[:y.Dims()])
		for i, n := range r.Shape {
			if n == 1 {
				got[i], r.Stride[i] = 0, 0
			}
		}
		if !slices.Equal(y.Shape(), r.Shape) || !slices.Equal(got, r.Stride) {
			t.Errorf("%s: %v with strides %v, and PyTorch has %v with %v", r.Name, y.Shape(), got, r.Shape, r.Stride)
		}
	}
}

// A convolution in lower precision of contiguous maps has copies of them as NHWC in cuDNN's workspace, which
// max_memory_allocated shows: 75.071 MiB of an RTX 4090 for 64 → 64 channels of 480 × 640 (see convolved).
func TestConvolutionCopies(t *testing.T) {
	const mib = float64(unit.MiB)
	for _, c := range []struct {
		name         string
		last, weight bool
		d            DType
		conv         Conv
		cudnn, torch float64 // MiB
	}{
		{name: "contiguous", d: F16, conv: Conv{Out: 64, K: 3}, cudnn: 75.0703125},
		{name: "channels last", d: F16, last: true, weight: true, conv: Conv{Out: 64, K: 3}},
		{name: "a weight with its channels last", d: F16, weight: true, conv: Conv{Out: 64, K: 3}, torch: 37.5},
		{name: "a map with its channels last", d: F16, last: true, conv: Conv{Out: 64, K: 3}, torch: 0.0703125},
		{name: "1×1", d: F16, conv: Conv{Out: 64, K: 1}},
		{name: "depthwise", d: F16, conv: Conv{Out: 64, K: 3, Groups: 64}},
		{name: "float32", d: F32, conv: Conv{Out: 64, K: 3}},
	} {
		tape := NewTape()
		tape.Card = true
		tape.NoGrad(func() {
			x := tape.Hold(tape.Images(c.last, c.d, 1, 64, 480, 640))
			w := tape.Hold(tape.Images(c.weight, c.d, 64, 64/max(c.conv.Groups, 1), c.conv.K, c.conv.K))
			tape.Hold(tape.ConvWeight(x, w, Tensor{}, c.conv))
		})
		p := tape.Peak()
		for _, part := range p.Parts {
			got, want := float64(part.Transients)/mib, c.cudnn
			if part.Part != CuDNN { // beside the result
				want, got = c.torch, got-float64(64*480*640*c.d.Size())/mib
			}
			if got != want {
				t.Errorf("%s: %q has %g MiB of copies, want %g", c.name, part.Part, got, want)
			}
		}
		if got := float64(p.Copies.Input+p.Copies.Result+p.Copies.Weight) / mib; got != c.cudnn {
			t.Errorf("%s: the copies are %g MiB, want %g", c.name, got, c.cudnn)
		}
		unseen := 0.0
		if c.d == F32 {
			unseen = 2 * 75.0703125
		}
		if more, where := p.Unseen(); float64(more) != unseen*mib || more > 0 && where != "torch.nn.functional.conv2d" {
			t.Errorf("%s: %v more in %q", c.name, more, where)
		}
	}
}
