package arch

import (
	"math/bits"

	"github.com/launch-ml/launch/core/nn"
)

// An upsampler3 is UniUpsampleV3, with four groups and a kernel of one at the end, which nobody sets
// (traiNNer/archs/arch_util.py at 68629319, line 636).
type upsampler3 struct {
	kind            string
	scale, out, mid int64
}

// check finds what upstream's constructor, or the loss of the first step, stops at.
func (u upsampler3) check() {
	if u.scale == 1 {
		return
	}
	switch u.kind {
	case "pixelshuffledirect":
		if u.scale < 1 {
			upsamples(u.scale)
		}
	case "pixelshuffle", "nearest+conv", "pa_up":
		upsamples(u.scale)
	case "dysample":
		refuse(u.mid <= 4 || u.mid%4 != 0, "mid_dim %d does not divide among the 4 groups of dysample", u.mid)
	case "transpose+conv":
		refuse(u.scale < 2 || u.scale > 4, "scale %d is not supported by transpose+conv: 2, 3 and 4 are", u.scale)
	case "lda":
		reject("upsampler %q: %w", u.kind, ErrUnknown)
	case "conv":
		reject("upsampler %q leaves the image at its size, and the scale is %d", u.kind, u.scale)
	default:
		reject("upsampler %q is none of conv, pixelshuffledirect, pixelshuffle, nearest+conv, dysample, "+
			"transpose+conv, lda, pa_up", u.kind)
	}
}

func (u upsampler3) module(t *nn.Tape, x nn.Tensor) nn.Tensor {
	t.Buffer("MetaUpsample", nn.Bool, 7) // uint8, of one byte as well
	in, lrelu := x.Dim(1), nn.Module((*nn.Tape).LeakyReLUInplace)
	by, times := int64(2), bits.Len64(uint64(u.scale))-1
	if u.scale == 3 {
		by, times = 3, 1
	}
	nearest := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Upsample(x, by) }
	var ms []nn.Module
	add := func(more ...nn.Module) { ms = append(ms, more...) }
	c := func(out int64) nn.Module { return conv(out, 3).Module() }

	switch {
	case u.scale == 1:
		add(c(u.out))
	case u.kind == "pixelshuffledirect":
		add(c(u.out*u.scale*u.scale), shuffle(u.scale))
	case u.kind == "pixelshuffle":
		add(c(u.mid), lrelu)
		for range times {
			add(c(by*by*u.mid), shuffle(by))
		}
		add(c(u.out))
	case u.kind == "nearest+conv":
		for range times {
			add(c(in), nearest, lrelu)
		}
		add(c(in), lrelu, c(u.out))
	case u.kind == "dysample":
		if u.mid != in {
			add(c(u.mid), lrelu)
		}
		add(dySample(u.out, u.scale, 4, true))
	case u.kind == "transpose+conv":
		switch u.scale {
		case 3:
			add(nn.ConvTranspose{Out: u.out, K: 3, Stride: 3}.Module())
		case 4:
			add(nn.ConvTranspose{Out: in, K: 4, Stride: 2, Pad: 1}.Module(), (*nn.Tape).GELU)
			fallthrough
		default:
			add(nn.ConvTranspose{Out: u.out, K: 4, Stride: 2, Pad: 1}.Module())
		}
		add(c(u.out))
	case u.kind == "pa_up":
		pa := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.Mul(x, t.Sequential("conv", x, conv(u.mid, 1).Module(), (*nn.Tape).Sigmoid))
		}
		for range times {
			add(nearest, c(u.mid), pa, lrelu, c(u.mid), lrelu)
		}
		add(c(u.out))
	}
	return t.Sequential("", x, ms...)
}
