package arch

import (
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// A Discriminator is network_d.
type Discriminator struct {
	Name    string
	forward nn.Module
	why     error // there is none
}

var discriminators catalog[func(s Spec, a *args) nn.Module]

// BuildDiscriminator finds the discriminator of a recipe's network_d, by the spec's type, arguments and source. The error is
// ErrUnknown for one without a formula, and otherwise says what upstream would stop at; a step with the discriminator that is
// returned with it is an unknown estimate.
func BuildDiscriminator(s Spec) (Discriminator, []string, error) {
	d := Discriminator{Name: strings.ToLower(s.Type)}
	b, ok := discriminators.find(s.Project, s.Type)
	a := &args{values: s.Args, used: map[string]bool{"type": true}}
	d.why = ErrUnknown
	if ok {
		d.forward, d.why = built(func() nn.Module { return b(s, a) })
	}
	if d.why == nil {
		d.why = a.finish()
	}
	if d.why != nil {
		d.forward, d.why = nil, fmt.Errorf("discriminator %q: %w", s.Type, d.why)
	}
	return d, a.warnings, d.why
}

// unknown says why a step with the discriminator has no estimate.
func (d Discriminator) unknown() string {
	why := d.why
	if why == nil { // the recipe names none
		why = ErrUnknown
	}
	return "network_d: " + why.Error()
}

// registerDiscriminator enters a name of traiNNer-redux's discriminators.
func registerDiscriminator(name string, b func(s Spec, a *args) nn.Module) struct{} {
	return discriminators.add(Redux, b, name)
}

// DiscriminatorNames lists the discriminators of a project that have a formula.
func DiscriminatorNames(p Project) []string { return discriminators.names(p) }

// ganLoss is GANLoss of the type "vanilla": binary cross entropy against a tensor of ones or zeros
// (traiNNer/losses/gan_loss.py at 68629319). The other types need less.
func ganLoss(t *nn.Tape, pred nn.Tensor) nn.Tensor {
	target := t.MulScalar(t.ZerosLike(pred))
	return t.BCEWithLogits(pred, target)
}

var _ = entry(func() {
	// basicsr/archs/discriminator_arch.py at 8d56e3a0
	discriminators.share(BasicSR, "unetdiscriminatorsn", "vggstylediscriminator")
	registerDiscriminator("unetdiscriminatorsn", func(_ Spec, a *args) nn.Module {
		d := unetDiscriminatorSN{feat: a.int("num_feat", 64), skip: a.bool("skip_connection", true)}
		a.ignore("num_in_ch")
		return d.forward
	})
	registerDiscriminator("dunet", func(_ Spec, a *args) nn.Module {
		a.ignore("num_in_ch")
		return dunet(a.int("num_feat", 64), func(c nn.Conv) nn.Conv { c.Parametrized = true; return c })
	})
	registerDiscriminator("patchgandiscriminatorsn", func(_ Spec, a *args) nn.Module {
		a.ignore("input_nc")
		return patchGAN(a.int("ndf", 64), a.int("n_layers", 3), a.bool("use_sigmoid", false))
	})
	registerDiscriminator("multiscalepatchgandiscriminatorsn", func(_ Spec, a *args) nn.Module {
		a.ignore("input_nc")
		num := a.int("num_d", 3)
		model := patchGAN(a.int("ndf", 64), a.int("n_layers", 3), a.bool("use_sigmoid", false))
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			var result []nn.Tensor
			inputDownsampled := x
			for i := range num {
				y := t.Call(fmt.Sprint("layers.", i), inputDownsampled, model)
				result = append(result, t.Hold(t.Mean(y)))
				if i != num-1 {
					inputDownsampled = t.Hold(t.Rebind(inputDownsampled, t.AvgPool2d(inputDownsampled, 3, 2, 1)))
				}
			}
			return t.Mean(t.Stack(result...))
		}
	})
})

// unetDiscriminatorSN is UNetDiscriminatorSN of Real-ESRGAN (traiNNer/archs/discriminator_arch.py at 68629319).
type unetDiscriminatorSN struct {
	feat int64
	skip bool
}

func (d unetDiscriminatorSN) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	n := d.feat
	norm := func(name string, x nn.Tensor, out, k, stride int64) nn.Tensor {
		return t.LeakyReLUInplace(t.Conv2d(name, x, nn.Conv{Out: out, K: k, Stride: stride, NoBias: true, Spectral: true}))
	}
	x0 := t.Hold(t.LeakyReLUInplace(t.Conv2d("conv0", x, conv(n, 3))))
	x1 := t.Hold(norm("conv1", x0, n*2, 4, 2))
	x2 := t.Hold(norm("conv2", x1, n*4, 4, 2))
	x3 := t.Hold(norm("conv3", x2, n*8, 4, 2))

	up := func(x nn.Tensor, name string, out int64, skip nn.Tensor) nn.Tensor {
		x = t.Rebind(x, t.Upsample(x, 2))
		y := t.Hold(norm(name, t.Hold(x), out, 3, 1))
		if d.skip {
			y = t.Rebind(y, t.Add(y, skip))
		}
		return y
	}
	x4 := up(x3, "conv4", n*4, x2)
	x5 := up(x4, "conv5", n*2, x1)
	x6 := up(x5, "conv6", n, x0)

	out := norm("conv7", x6, n, 3, 1)
	out = norm("conv8", out, n, 3, 1)
	return t.Conv2d("conv9", out, conv(1, 3))
}

// dunet is DUnet (traiNNer/archs/dunet_arch.py at 68629319), with DySample for upsampling.
// norm is the spectral norm of its convolutions.
func dunet(feat int64, norm func(nn.Conv) nn.Conv) nn.Module {
	down := func(dim int64) nn.Module {
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.Sequential("", x, norm(nn.Conv{Out: dim * 2, K: 3, Stride: 2}).Module(), (*nn.Tape).MishInplace)
		}
	}
	up := func(dim int64) nn.Module {
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.Sequential("", x, dySample(dim, 2, 4, false), norm(nn.Conv{Out: dim / 2, K: 3}).Module())
		}
	}
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x0 := t.Hold(t.Conv2d("in_to_dim", x, conv(feat, 3)))
		x1 := t.Hold(t.Call("e_x1", x0, down(feat)))
		x2 := t.Hold(t.Call("e_x2", x1, down(feat*2)))
		x3 := t.Hold(t.Call("e_x3", x2, down(feat*4)))
		x = t.Add(t.Call("up1", x3, up(feat*8)), x2)
		x = t.Rebind(x, t.Add(t.Call("up2", x, up(feat*4)), x1))
		x = t.Rebind(x, t.Add(t.Call("up3", x, up(feat*2)), x0))
		end := norm(nn.Conv{Out: feat, K: 3, NoBias: true}).Module()
		return t.Sequential("end_conv", x, end, (*nn.Tape).MishInplace, end, (*nn.Tape).MishInplace, conv(1, 3).Module())
	}
}

// patchGAN is PatchGANDiscriminatorSN (traiNNer/archs/patchgan_arch.py at 68629319).
func patchGAN(ndf, layers int64, sigmoid bool) nn.Module {
	norm := func(out, stride int64) nn.Module {
		return nn.Conv{Out: out, K: 4, Stride: stride, Spectral: true}.Module()
	}
	sequence := []nn.Module{norm(ndf, 2), (*nn.Tape).LeakyReLUInplace}
	nf := ndf
	for range layers - 1 {
		nf = min(nf*2, 512)
		sequence = append(sequence, norm(nf, 2), (*nn.Tape).LeakyReLUInplace)
	}
	nf = min(nf*2, 512)
	sequence = append(sequence, norm(nf, 1), (*nn.Tape).LeakyReLUInplace, norm(1, 1))
	if sigmoid {
		sequence = append(sequence, (*nn.Tape).Sigmoid)
	}
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Sequential("model", x, sequence...) }
}
