package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
)

// A ValConfig is the validation of one image: SRModel.test at batch 1.
type ValConfig struct {
	Net     Network
	H, W    int64    // the low-resolution image
	AMP     nn.DType // as in training
	Tile    int64    // val.tile_size; 0 for the whole image
	Overlap int64    // val.tile_overlap
	GT      bool     // the high-resolution image is there too
	Layout  Layout   // in which network and image are brought to the card
	// Step is the training around it, whose model states stay on the card; nil for none. States are those states if
	// they have been computed before (States below): a ladder of many images and tiles needs them once.
	Step     *StepConfig
	States   *mem.Tensors
	OldTorch bool
	Host     *Host // the validation runs on the CPU; nil for a card
	Neosr    bool  // it is neosr's
}

// A Layout is the memory format in which a trainer brings a network's parameters, and an image, to the card: channels
// last or contiguous.
type Layout struct{ NetworkLast, ImageLast bool }

// Validation is the estimate of one validation image. It follows SRModel.nondist_validation, test and infer_tiled
// (traiNNer/models/sr_model.py at 68629319). Metrics that run a network on the card (topiq, lpips, dists) are not in
// it.
func Validation(cfg ValConfig) (e mem.Tensors) {
	defer mem.Refused(&e, cfg.asked)
	if cfg.Neosr {
		return validationNeosr(cfg)
	}
	t := nn.NewTape()
	t.UpsampleLow, t.Torch1 = cfg.OldTorch, cfg.OldTorch
	t.CPU, t.OneDNN = cfg.Host != nil, cfg.Host != nil
	t.Training = false
	t.Card, t.ChannelsLast = cfg.Host == nil, cfg.Host == nil && cfg.Layout.NetworkLast
	ema := cfg.Step != nil && cfg.Step.EMA
	scale := cfg.Net.Scale

	var lq nn.Tensor
	t.Part("image", func() {
		lq = t.Hold(t.Images(t.ChannelsLast && cfg.Layout.ImageLast, nn.F32, 1, cfg.Net.InCh, cfg.H, cfg.W))
		if cfg.GT {
			t.Hold(t.Input(nn.F32, 1, cfg.Net.gtCh(), cfg.H*scale, cfg.W*scale))
		}
		if s := cfg.Step; s != nil { // self.output of the last training step, until this image's replaces it
			t.Hold(t.Zeros(nn.F32, s.gathered(), s.Net.gtCh(), s.LQ*scale, s.LQ*scale))
		}
	})
	var output nn.Tensor
	infer := func() {
		t.Part("network_g", func() {
			net := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Call("", x, cfg.Net.Forward) }
			if cfg.Tile > 0 {
				output = t.Hold(cfg.inferTiled(t, lq, net))
			} else {
				output = t.Hold(net(t, lq))
			}
		})
	}
	test := func() {
		t.Autocast(cfg.AMP, func() {
			if ema { // the copy's parameters require no gradient, so autocast does not cache their copies
				t.FreezeParams(infer)
			} else {
				infer()
			}
		})
	}
	t.NoGrad(func() {
		if cfg.Host == nil {
			test()
			return
		}
		t.Scope("", func() {
			cfg.before(t)
			test()
		})
		t.Hold(output)
		cfg.judge(t)
	})

	e = cfg.resident(t)
	peak := t.Peak()
	e.AddPeak(peak, "low- and high-resolution image in float32")
	e.Add(Workspace(peak)...)
	return e
}

// resident is what lies on the card beside the image.
func (cfg ValConfig) resident(t *nn.Tape) (e mem.Tensors) {
	switch {
	case cfg.States != nil:
		e.Unknown = cfg.States.Unknown
		e.Add(cfg.States.Items...)
	case cfg.Step != nil:
		e = States(*cfg.Step)
	default:
		e.Add(modelItems("network_g", t.Size("network_g"), cfg.Net.label())...)
	}
	return e
}

// asked is the validation in words.
func (cfg ValConfig) asked() string { return fmt.Sprintf("an image of %d × %d", cfg.H, cfg.W) }

// States is what a training keeps on the card from its first step on, between steps and during validation:
// parameters, optimizer states, the EMA copy, the networks of discriminator and losses.
func States(cfg StepConfig) (e mem.Tensors) {
	defer mem.Refused(&e, func() string { return "even a small step" })
	t := nn.NewTape()
	small := cfg
	// As small as the deepest loss allows: VGG's four poolings and MS-SSIM's four want 64 pixels of high resolution.
	m := cfg.Net.Multiple
	small.Batch, small.LQ = 1, (max(cfg.Net.MinLQ, 64/max(cfg.Net.Scale, 1))+m-1)/m*m
	if cfg.Disc.assertsSize() {
		small.LQ = cfg.LQ
	}
	t.NoGrad(func() { e.Unknown = small.record(t) })
	e.Add(cfg.resident(t)...)
	if m, _ := models.find(cfg.Project, cfg.Model); m.gradientsStay {
		for _, net := range []string{"network_g", "network_d"} {
			if n := t.Size(net).GradBytes; n > 0 {
				const from = "of the last step, cleared in the next"
				e.Add(mem.Item{Kind: mem.Gradients, What: net, Bytes: n, Count: int64(n) / 4, From: from})
			}
		}
	}
	return e
}

// inferTiled is SRModel.infer_tiled: tiles one after another, weighted into an output of the whole high-resolution
// image in float32.
func (cfg ValConfig) inferTiled(t *nn.Tape, lq nn.Tensor, net nn.Module) nn.Tensor {
	tile, scale := cfg.Tile, cfg.Net.Scale
	c, h, w := lq.Dim(1), lq.Dim(2), lq.Dim(3)
	if h <= tile && w <= tile {
		return net(t, lq)
	}
	padTo := func(n int64) int64 {
		if n > tile {
			return (n + tile - 1) / tile * tile
		}
		return n
	}
	hPad, wPad := padTo(h), padTo(w)
	lq = t.Hold(t.PadTo(lq, true, 1, c, hPad, wPad))

	output := t.Hold(t.Zeros(nn.F32, 1, cfg.Net.gtCh(), hPad*scale, wPad*scale))
	weightMap := t.Hold(t.ZerosLike(output))
	weight := t.Hold(t.Zeros(nn.F32, 1, 1, tile*scale, tile*scale))

	// All tiles are of one size but for an image narrower than a tile, and nothing of a tile outlives the next, so
	// two stand for all: in the second, what the loop's variables hold from the first is still there.
	ph, pw := min(tile, hPad), min(tile, wPad)
	var outPatch nn.Tensor
	for i := range 2 {
		lqPatch := t.Narrow(t.Narrow(lq, 2, ph), 3, pw)
		if ph < tile || pw < tile {
			lqPatch = t.Hold(t.PadTo(lqPatch, true, 1, c, min(tile, 2*ph-1), min(tile, 2*pw-1)))
		}
		patch := t.Call("", lqPatch, net)
		if i > 0 {
			patch = t.Rebind(outPatch, patch)
		}
		outPatch = t.Hold(patch)
		t.Line("output[:, :, out_y0:out_y1, out_x0:out_x1] += out_patch * w_patch")
		output = t.WriteSlice(output, t.Mul(outPatch, weight), true)
	}
	t.Line("out_final = output / weight_map.clamp(min=1e-6)")
	return t.Div(output, t.Clamp(weightMap))
}
