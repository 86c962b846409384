package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// ESRGAN+ and nESRGAN+ (Rakotonirina and Rasoanaivo, 2020): traiNNer/archs/esrganplus_arch.py of chebum/traiNNer-redux at
// db513eb6. No other fork registers the name.
var _ = register(func(s Spec, a *args) Network {
	n := esrganPlus{
		scale: s.Scale, inCh: a.int("in_nc", 3), outCh: a.int("out_nc", 3), filters: a.int("num_filters", 64),
		blocks: a.int("num_blocks", 23), grow: a.int("growth_channels", 32), sigma: a.float("noise_sigma", 0.1),
		mode: a.string("noise_mode", "train"), noiseAfter: a.bool("noise_after_rrdb", false),
	}
	style, gain := a.string("noise_style", "multiplicative"), a.float("noise_init_gain", 0.001)
	if v, ok := a.get("rrdrb_residual_path_init_gain"); ok && v != nil {
		n.pathGain = true
	}
	n.learned = style == "learned_additive"
	refuse(n.scale != 1 && n.scale != 2 && n.scale != 3 && n.scale != 4 && n.scale != 8,
		"scale: ESRGANPlus supports scale 1, 2, 3, 4, or 8")
	refuse(n.mode != "train" && n.mode != "always" && n.mode != "disabled",
		"noise_mode: %q is none of train, always, disabled", n.mode)
	refuse(!n.learned && style != "multiplicative", "noise_style: %q is none of multiplicative, learned_additive", style)
	refuse(gain < 0, "noise_init_gain must be non-negative")
	return Network{InCh: n.inCh, Forward: n.forward}
}, "esrganplus")

type esrganPlus struct {
	scale, inCh, outCh, filters, blocks, grow int64
	sigma                                     float64
	mode                                      string
	learned, noiseAfter, pathGain             bool
}

func (n esrganPlus) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Sequential("model", x, esrganModel(n.scale, n.filters, n.outCh, n.blocks, n.rrdb)...)
}

// rrdb is RRDBPlus.
func (n esrganPlus) rrdb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	out := t.Call("RDB1", x, n.rdb)
	out = t.Call("RDB2", out, n.rdb)
	out = t.Hold(t.Call("RDB3", out, n.rdb))
	y := t.Add(x, t.MulScalar(out))
	if n.noiseAfter {
		y = t.Call("noise", y, n.noise)
	}
	return y
}

// rdb is ResidualDenseBlock5C.
func (n esrganPlus) rdb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	convOf := func(name string, x nn.Tensor) nn.Tensor {
		return t.Sequential(name, x, conv(n.grow, 3).Module(), (*nn.Tape).LeakyReLUInplace)
	}
	scaled := func(extra nn.Tensor) nn.Tensor {
		if n.pathGain {
			return t.Mul(extra, t.Param("residual_path_gain", 1, n.grow, 1, 1))
		}
		return extra
	}
	x1 := t.Hold(convOf("conv1", x))
	extra := t.Hold(t.Conv2d("conv1x1", x, nn.Conv{Out: n.grow, K: 1, NoBias: true}))
	extra = t.Rebind(extra, scaled(extra))
	x2 := t.Hold(t.Add(convOf("conv2", t.Cat(1, x, x1)), extra))
	x3 := t.Hold(convOf("conv3", t.Cat(1, x, x1, x2)))
	extra = t.Rebind(extra, scaled(x2))
	x4 := t.Hold(t.Add(convOf("conv4", t.Cat(1, x, x1, x2, x3)), extra))
	x5 := t.Hold(t.Sequential("conv5", t.Cat(1, x, x1, x2, x3, x4), conv(n.filters, 3).Module()))
	return t.Call("noise", t.Add(x, t.MulScalar(x5)), n.noise)
}

// noise is GaussianNoise.
func (n esrganPlus) noise(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if n.learned { // the gain is there whether it is used or not
		gain := t.Param("gain", 1, n.filters, 1, 1)
		if n.noisy(t) {
			return t.Add(x, t.Mul(t.ZerosLike(x), gain))
		}
		return x
	}
	if !n.noisy(t) || n.sigma == 0 {
		return x
	}
	scale := t.Hold(t.MulScalar(x))
	return t.Add(x, t.Mul(t.ZerosLike(x), scale))
}

func (n esrganPlus) noisy(t *nn.Tape) bool {
	return n.mode == "always" || n.mode == "train" && t.Training
}
