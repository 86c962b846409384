package arch

import (
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/nn"
)

// A Generation says which EdgeMapProcessor a checkout has: its widths are in the code, not in the recipe.
type Generation int

const (
	NoEdge     Generation = iota
	EdgeBefore            // five layers of 1024 channels at full size, never committed; its text is in cea3b81's readme
	EdgeAfter             // cea3b81: three layers of 256 channels at half size
	EdgeTanh              // 5312b48: the same behind a tanh
	EdgeSmall             // from 8ed7c85 on: a backbone of 32 to 128 channels
)

// fuses reports whether the features are mixed into the latent by a convolution of the UNet's own (unet_with_edge.py:103 at
// cea3b81). From 5312b48 on they are only set beside it, and in_channels is 8 (unet_with_edge.py:152).
func (g Generation) fuses() bool { return g == EdgeBefore || g == EdgeAfter }

// differentiated reports whether the edge map requires a gradient (ddpm_with_edge.py:174 at cea3b81), which alone makes the
// frozen processor keep its activations; from 5312b48 on the line is a comment (ddpm_with_edge.py:194).
func (g Generation) differentiated() bool { return g.fuses() }

// compares reports whether the loss encodes the edge map to compare the UNet's result with it, whatever its weight
// (ddpm_with_edge.py:471-484 at 93e50cd, 7a61996 and 8ed7c85).
func (g Generation) compares() bool { return g == EdgeTanh || g == EdgeSmall }

func (g Generation) String() string {
	return [...]string{"none", "the one before cea3b81", "cea3b81's", "5312b48's", "the one from 8ed7c85 on"}[g]
}

var (
	edgeSmall = lazy.MustCompile(`self\.backbone\s*=\s*nn\.Sequential\(\s*nn\.Conv2d\(3, 32,[\s\S]*nn\.Conv2d\(128, 128,[\s\S]*self\.to_four\s*=\s*nn\.Conv2d\(128, 4`)
	edgeAfter = lazy.MustCompile(`self\.initial_conv\s*=[\s\S]*,\s*64,\s*4,\s*stride=2[\s\S]*\b256,\s*256,\s*3|self\.initial_conv\s*=[\s\S]*else 256, 256, 3,[\s\S]*stage2_channels\s*=\s*\[128, 64, 16, 4\]`)
	edgeTanh  = lazy.MustCompile(`torch\.tanh\(`)
	edgeFirst = lazy.MustCompile(`\b1024\b[\s\S]*range\(5\)[\s\S]*\[512, 256, 64, 16, 4\]`)
)

// EdgeOf tells the processor by the code of edge_processor.py, without comments.
func EdgeOf(source []byte) Generation {
	switch {
	case edgeSmall.Match(source):
		return EdgeSmall
	case edgeAfter.Match(source) && edgeTanh.Match(source):
		return EdgeTanh
	case edgeAfter.Match(source):
		return EdgeAfter
	case edgeFirst.Match(source):
		return EdgeBefore
	}
	return NoEdge
}

type edge struct {
	generation Generation
	in         int64 // edge_input_channels
}

// target is the side that every generation pools to, whatever the image's: target_size=64 (unet_with_edge.py:99).
const target = 64

// fuse is edge_processor and what follows it: (batch, channels+4, 64, 64), of which channels are the UNet's own input.
func (e edge) fuse(t *nn.Tape, s style, x, edgeMap nn.Tensor, channels int64) (fused nn.Tensor) {
	s.freeze(t, func() {
		t.Part(partEdge, func() {
			if x.Dim(3) != target {
				panic("the edge features are 64×64 and the latent is not: EdgeFusion stops at torch.cat")
			}
			features := t.Hold(t.Call("edge_processor", edgeMap, e.processor))
			if !e.generation.fuses() {
				fused = t.Cat(1, x, features)
				return
			}
			fused = t.Call("edge_fusion", t.Cat(1, x, features), func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				return convBNReLU(t, "fusion_conv", x, conv(channels+4, 3), true)
			})
		})
	})
	return fused
}

// processor is EdgeMapProcessor.forward.
func (e edge) processor(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(x)
	then := func(name string, c nn.Conv, relu bool) { x = t.Rebind(x, convBNReLU(t, name, x, c, relu)) }
	down := func(out int64) nn.Conv { return nn.Conv{Out: out, K: 4, Stride: 2, Pad: 1} }
	if e.generation == EdgeSmall {
		backbone := func(i int, c nn.Conv) {
			c.NoBias = true
			x = t.Rebind(x, t.Conv2d(named("backbone", i), x, c))
			x = t.Rebind(x, t.ReLUInplace(t.BatchNorm2d(named("backbone", i+1), x)))
		}
		backbone(0, conv(32, 3))
		backbone(3, nn.Conv{Out: 64, K: 3, Stride: 2})
		backbone(6, nn.Conv{Out: 128, K: 3, Stride: 2})
		backbone(9, conv(128, 3))
		x = t.Rebind(x, t.Conv2d("to_four", x, conv(4, 1)))
		return adaptivePool(t, x)
	}
	stage1, width, stage2 := 5, int64(1024), []int64{512, 256, 64, 16, 4}
	if e.generation != EdgeBefore {
		then("initial_conv", down(64), true)
		stage1, width, stage2 = 3, 256, []int64{128, 64, 16, 4}
	}
	for i := range stage1 {
		then(named("stage1_layers", i), conv(width, 3), true)
	}
	for i, out := range stage2 {
		then(named("stage2_layers", i), down(out), i < len(stage2)-1)
	}
	x = t.Rebind(x, adaptivePool(t, x))
	if e.generation == EdgeTanh { // edge_processor.py:96 at 5312b48
		x = t.MulScalar(t.Tanh(x))
	}
	return x
}

// convBNReLU is the Sequential of a convolution, a batch normalisation and ReLU(inplace=True).
func convBNReLU(t *nn.Tape, name string, x nn.Tensor, c nn.Conv, relu bool) nn.Tensor {
	ms := []nn.Module{c.Module(), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.BatchNorm2d("", x) }}
	if relu {
		ms = append(ms, (*nn.Tape).ReLUInplace)
	}
	return t.Sequential(name, x, ms...)
}

// adaptivePool is AdaptiveAvgPool2d((64, 64)), which saves its input; smaller images are repeated.
func adaptivePool(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if k := x.Dim(3) / target; k > 0 && x.Dim(3)%target == 0 && x.Dim(2) == x.Dim(3) {
		return t.AvgPool2d(x, k, k, 0)
	}
	return t.Interpolate(x, target, target)
}
