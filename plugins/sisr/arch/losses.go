package arch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// A Loss is one entry of train.losses.
type Loss struct {
	Project Project
	Type    string         // charbonnierloss, perceptualloss, …
	Name    string         // in the recipe: "losses.perceptualloss", "perceptual_opt"; "" where there is no recipe
	Weight  float64        // loss_weight; 0 switches the loss off
	Args    map[string]any // the other keys

	averaged bool // the training loop itself runs the averaged network for it
}

// A lossFunc is a loss's forward of the output against the target: a scalar, or its size in float32 for several.
type lossFunc func(t *nn.Tape, x, y nn.Tensor) nn.Tensor

type lossBuilder func(a *args) lossFunc

var losses catalog[lossBuilder]

// registerLoss enters names of traiNNer-redux's losses.
func registerLoss(b lossBuilder, names ...string) struct{} { return losses.add(Redux, b, names...) }

// LossNames lists the losses of a project that have a formula.
func LossNames(p Project) []string { return losses.names(p) }

// HasFormula reports whether the loss has one in its project.
func (l Loss) HasFormula() bool {
	_, ok := losses.find(l.Project, l.Type)
	return ok || l.IsGAN()
}

// Label is the loss's name in upstream's own log (loss_type_to_label in traiNNer/utils/misc.py shortens it further).
func (l Loss) Label() string { return strings.TrimSuffix(strings.ToLower(l.Type), "loss") }

// part is what a ledger calls the loss.
func (l Loss) part() string {
	if l.Name != "" {
		return l.Name
	}
	return "losses." + l.Label()
}

// build finds the loss's formula. A GAN loss has none of its own: the step runs the discriminator.
func (l Loss) build() (lossFunc, error) {
	b, ok := losses.find(l.Project, l.Type)
	if !ok {
		return nil, fmt.Errorf("loss %q: %w", l.Type, ErrUnknown)
	}
	a := &args{values: l.Args, used: map[string]bool{"type": true, "loss_weight": true}, swallow: true}
	a.ignore(schedule...)
	f, err := built(func() lossFunc { return b(a) })
	if err == nil {
		err = a.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("loss %q: %w", l.Type, err)
	}
	return f, nil
}

// IsGAN reports whether the loss is the adversarial one.
func (l Loss) IsGAN() bool {
	n := strings.ToLower(l.Type)
	return n == "ganloss" || n == "multiscaleganloss" || n == "gan_loss"
}

// schedule are the keys that build_loss takes for itself and wraps the loss for (traiNNer/losses/__init__.py of Phhofm's tree,
// lines 79 to 111 at 069b6d59). The wrapper computes the loss at every step, whatever it weighs.
var schedule = []string{
	"start_iter", "target_iter", "target_weight", "disable_after", "schedule_type", "warn_on_unused", "loss_decay", "loss_decay_inflection",
}

// Scheduled reports whether the loss is wrapped with a weight that changes.
func (l Loss) Scheduled() bool {
	return slices.ContainsFunc(schedule, func(key string) bool { _, ok := l.Args[key]; return ok })
}

// WantsFeatures reports whether the loss compares what the discriminator computes on its way, so that one is built for it
// alone: FeatureMatchingLoss of Phhofm's tree, which asks network_d for forward_with_features (models/sr_model.py, line 548 at
// 069b6d59).
func (l Loss) WantsFeatures() bool { return strings.EqualFold(l.Type, "featurematchingloss") }

// penalizes reports whether a GAN loss has gradient penalties, whose own graph is differentiated once more.
func (l Loss) penalizes() bool { return strings.EqualFold(fmt.Sprint(l.Args["gan_type"]), "r3gan") }

// float32Loss is torch.amp.custom_fwd(cast_inputs=torch.float32): autocast is off inside, and inputs are cast at the
// door.
func float32Loss(f lossFunc) lossFunc {
	return func(t *nn.Tape, x, y nn.Tensor) (z nn.Tensor) {
		t.Autocast(nn.F32, func() { z = f(t, t.To(x, nn.F32), t.To(y, nn.F32)) })
		return z
	}
}

// l1Loss is F.l1_loss(reduction="none") and its mean (loss_util.py, weighted_loss).
func l1Loss(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return t.L1Loss(x, y) }

func mseLoss(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return t.MSELoss(x, y) }

// charbonnierLoss is torch.sqrt((pred - target) ** 2 + eps).mean() (traiNNer/losses/basic_loss.py at 68629319). pow is
// on autocast's float32 list.
func charbonnierLoss(t *nn.Tape, pred, target nn.Tensor) nn.Tensor {
	return t.Mean(t.Sqrt(t.AddScalar(t.Pow(t.Sub(pred, target)))))
}

func criterion(name string) lossFunc {
	switch name {
	case "l1":
		return l1Loss
	case "l2", "mse":
		return mseLoss
	case "charbonnier":
		return charbonnierLoss
	}
	reject("criterion %q: %w", name, ErrUnknown)
	return nil
}

func plainLoss(f lossFunc) lossBuilder {
	return func(a *args) lossFunc { return f }
}

var _ = entry(func() {
	registerLoss(plainLoss(l1Loss), "l1loss", "l1_loss")
	registerLoss(plainLoss(mseLoss), "mseloss", "mse_loss")
	registerLoss(plainLoss(charbonnierLoss), "charbonnierloss", "charbonnier_loss")
})
