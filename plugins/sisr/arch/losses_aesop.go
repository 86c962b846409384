package arch

import (
	"fmt"
	"maps"

	"github.com/launch-ml/launch/core/nn"
)

// AESOP (Lee et al., 2025): traiNNer/losses/aesop_loss.py and archs/autoencoder_arch.py at 68629319, in float32 whatever
// autocast says: both images through a frozen autoencoder, whose decoder is a network of the recipe's choice. In Phhofm's tree at
// 069b6d59 the decoder is ESRGAN, and the loss as autocast has it.
var _ = registerLoss(func(a *args) lossFunc {
	a.ignore("pretrain_network_ae")
	scale := a.int("scale", 4)
	refuse(scale < 1 || aesopFilters%(scale*scale) != 0,
		"scale %d: %d channels do not divide by its square", scale, aesopFilters)
	opt, ours := a.get("decoder_opt")
	c := aesopCriterion(a.string("criterion", "charbonnier"), ours)
	l := aesopLoss{scale: scale, criterion: c}
	if !ours {
		l.decoder = rrdbnet{scale: scale, inNC: 3, outNC: 3, filters: aesopFilters, blocks: 23, grow: 32}.forward
		return l.helaman
	}
	table, ok := opt.(map[string]any)
	refuse(!ok, "decoder_opt: %v is not a table", opt)
	values := maps.Clone(table)
	delete(values, "type")
	values["scale"] = scale // build_network({**decoder_opt, "scale": scale})
	net, _, err := Build(Spec{Type: fmt.Sprint(table["type"]), Scale: scale, Args: values})
	refuse(err != nil, "decoder_opt: %w", err)
	l.decoder = net.Forward
	return float32Loss(l.forward)
}, "aesoploss")

// aesopCriterion is what compares the two images: l1 and charbonnier, beside which one constructor stops and the other, of
// 069b6d59, takes every name for MS-SSIM with L1.
func aesopCriterion(name string, ours bool) lossFunc {
	switch {
	case name == "l1" || name == "charbonnier":
		return criterion(name)
	case ours:
		reject("invalid criterion: %s", name)
	}
	build, _ := losses.find(Redux, "msssiml1loss")
	return build(&args{used: map[string]bool{}})
}

// aesopFilters is the autoencoder's nf.
const aesopFilters = 64

// An aesopLoss is AESOPLoss.
type aesopLoss struct {
	scale     int64
	decoder   nn.Module
	criterion lossFunc
}

func (l aesopLoss) forward(t *nn.Tape, sr, hr nn.Tensor) nn.Tensor {
	var aeHR nn.Tensor
	t.NoGrad(func() { aeHR = t.Hold(t.Call("ae", t.Detach(hr), l.autoencoder)) })
	aeSR := t.Hold(t.Call("ae", sr, l.autoencoder))
	return l.criterion(t, aeSR, aeHR)
}

// helaman is AESOPLoss.forward of 069b6d59, which looks at the output first: what the graph holds of it is there
// while the target goes through.
func (l aesopLoss) helaman(t *nn.Tape, sr, hr nn.Tensor) nn.Tensor {
	aeSR := t.Hold(t.Call("ae", sr, l.autoencoder))
	aeHR := t.Hold(t.Call("ae", t.Detach(hr), l.autoencoder))
	return l.criterion(t, aeSR, aeHR)
}

// autoencoder is AutoEncoder.forward: down to the low resolution and up again, in eval mode and frozen.
func (l aesopLoss) autoencoder(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	const filters = aesopFilters
	training := t.Training
	t.Training = false
	t.FreezeParams(func() {
		thin := conv(filters/(l.scale*l.scale), 3).Module()
		shuffle := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelUnshuffle(x, l.scale) }
		rrdb := rrdbnet{filters: filters, grow: 32}.rrdb
		part := func(ms ...nn.Module) nn.Module {
			return func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Sequential("", x, ms...) }
		}
		latent := t.Hold(t.Sequential("encoder", x, part(thin, thin), shuffle, part(rrdb, rrdb),
			part(conv(filters, 3).Module(), conv(3, 3).Module())))
		y = t.Hold(t.Call("decoder", latent, l.decoder))
	})
	t.Training = training
	return y
}
