package arch

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// ESC of neosr: neosr/archs/esc_arch.py at 31c7022. Its blocks are those of traiNNer-redux's ESC-Real.
var _ = entry(func() {
	esc := func(blocks int64, expand float64) builder {
		return func(s Spec, a *args) Network {
			ownScale(s, a, "upscaling_factor")
			n := escNeosr{escReal: escReal{
				scale: s.Scale, dim: a.int("dim", 64), part: a.int("pdim", 16), kernel: a.int("kernel_size", 13),
				blocks: a.int("n_blocks", blocks), convs: a.int("conv_blocks", 5), window: a.int("window_size", 32),
				heads: a.int("num_heads", 4), expand: a.float("exp_ratio", expand), indexed: true, plain: !a.bool("realsr", true),
			}, dysample: a.bool("use_dysample", true)}
			switch name := a.string("attn_type", "sdpa"); strings.ToLower(name) {
			case "sdpa":
				n.attention = "SDPA"
				refuse(n.window%4 != 0, "attn_type %s and window_size %d: %w", name, n.window, ErrUnknown)
			case "naive":
				n.attention = "Naive"
			default: // flex is not compiled here (line 507)
				reject("attn_type %q: %w", name, ErrUnknown)
			}
			refuse(a.bool("is_fp", false), "is_fp: %w", ErrUnknown)
			refuse(n.plain && n.dysample, "use_dysample: DySample can only be enabled on esc_real")
			refuse(n.heads < 1 || n.window < 1 || n.dim < 1 || n.dim%n.heads != 0 || n.part < 2 || n.part > n.dim ||
				n.kernel%2 == 0, "dim %d, pdim %d, kernel_size %d, window_size %d, num_heads %d", n.dim, n.part,
				n.kernel, n.window, n.heads)
			return Network{Forward: n.forward, Multiple: n.window, MinLQ: max(n.window/2+1, 4)}
		}
	}
	networks.add(Neosr, esc(5, 1.25), "esc")
	networks.add(Neosr, esc(3, 1.25), "esc_light")
	networks.add(Neosr, esc(10, 2), "esc_large")
})

type escNeosr struct {
	escReal
	dysample bool
}

// forward is esc.forward (line 585).
func (n escNeosr) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	feat := t.Hold(t.Conv2d("proj", x, conv(n.dim, 3)))
	skip := feat
	filter := t.Hold(t.Call("", t.Param("plk_filter", n.part, n.part, n.kernel, n.kernel), geoEnsemble))
	for i := range n.blocks {
		next := t.Call(fmt.Sprint("blocks.", i), feat, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x, filter) })
		feat = t.Assign(i == 0, feat, next)
	}
	sum := t.Hold(t.Add(t.Conv2d("last", feat, conv(n.dim, 3)), skip))
	if n.plain {
		y := t.Conv2d("to_img", sum, conv(3*n.scale*n.scale, 3))
		many := t.Copy("torch.repeat_interleave", x, x.Dim(0), 3*n.scale*n.scale, x.Dim(2), x.Dim(3))
		return t.PixelShuffle(t.Add(y, many), n.scale)
	}
	wide := 2 * n.dim
	around := func(t *nn.Tape, x nn.Tensor) nn.Tensor { // padding_mode="reflect"
		return t.Conv2d("", t.Pad(x, 6, 6, true), nn.Conv{Out: wide, K: 7, Groups: wide, Valid: true})
	}
	y := t.Sequential("skip", x, conv(wide, 1).Module(), around, (*nn.Tape).LeakyReLUInplace, conv(n.dim, 1).Module())
	return t.Call("to_img", t.Add(sum, y), n.toImage)
}

// toImage is to_img of ESC-Real (line 548).
func (n escNeosr) toImage(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if n.dysample {
		return dySample(3, n.scale, 4, true)(t, x)
	}
	lrelu, wide := nn.Module((*nn.Tape).LeakyReLUInplace), conv(n.dim, 3).Module()
	var ms []nn.Module
	for range bits.Len64(uint64(n.scale)) - 1 {
		up := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Upsample(x, 2) }
		ms = append(ms, up, wide, lrelu, wide, lrelu)
	}
	return t.Sequential("", x, append(ms, conv(3, 3).Module())...)
}
