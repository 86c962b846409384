package sisr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// Estimate implements [plugin.Estimator]: a training step of the network, and the validation of an image if one is given,
// without the training's states if nothing is trained. What is no setting of the step is an argument of the network's
// own, as in network_g.
func (sisr) Estimate(_ context.Context, q *plugin.Bare, d gpu.Device) ([]plugin.Phase, error) {
	a, err := readAsked(q, d)
	if err != nil {
		return nil, err
	}
	if err := a.build(); err != nil {
		return nil, err
	}
	var phases []plugin.Phase
	if a.trains {
		phases = append(phases, plugin.Price("training", arch.Training(a.step), d))
		a.val.Step = &a.step
	}
	if a.val.H > 0 {
		a.val.Net = a.step.Net
		phases = append(phases, plugin.Price("validation", arch.Validation(a.val), d))
	}
	if len(phases) == 0 {
		return nil, errors.New("without a training and without an image there is nothing to price")
	}
	for _, p := range phases {
		if !p.Estimate.Known() {
			return nil, fmt.Errorf("there is no %s of %s with these settings: %s", p.Phase, q.Arch, p.Estimate.Unknown)
		}
	}
	phases[0].Warnings = a.warnings
	return phases, nil
}

// asked is what an estimate was asked for: a step whose network is not built yet, and a validation.
type asked struct {
	spec     arch.Spec
	step     arch.StepConfig
	val      arch.ValConfig
	disc     string // the discriminator's type
	trains   bool
	warnings []string
}

// readAsked reads the settings of an estimate.
func readAsked(q *plugin.Bare, d gpu.Device) (a asked, err error) {
	onCPU := d.Kind == gpu.CPU
	a.step = arch.StepConfig{
		Batch: q.Int("micro-batch", 1), LQ: q.Int("lq", 64), Accumulate: q.Int("accumulation", 1),
		AMP: precision(q.OneOf("amp", "off", "bf16", "fp16")), OptimG: q.Text("optimizer", "AdamW"),
		OptimD: q.Text("optimizer-d", "AdamW"), EMA: q.Bool("ema", true), CPU: onCPU, OneDNN: onCPU,
	}
	scale := q.Int("scale", 4)
	a.disc = q.Text("discriminator", "")
	a.trains = q.Bool("training", true)
	project, warnings := projectOf(q)
	a.step.Project, a.warnings = project, warnings
	losses := q.Text("losses", defaultLoss(project))
	a.val = validation(q, a.step)
	a.val.Neosr = project == arch.Neosr
	a.spec = arch.Spec{
		Project: project, Type: q.Arch, Scale: scale, Generation: q.Text("generation", ""), Frames: q.Int("frames", 0),
		Args: q.Rest(),
	}
	if !a.trains { // an image alone has neither losses nor a discriminator
		a.disc = ""
		return a, q.Err()
	}
	for l := range strings.SplitSeq(losses, ",") {
		a.step.Losses = append(a.step.Losses, arch.Loss{Project: project, Type: l, Weight: 1})
	}
	return a, q.Err()
}

// defaultLoss is the loss of an estimate that names none.
func defaultLoss(p arch.Project) string {
	if p == arch.Redux {
		return "charbonnierloss"
	}
	return "L1Loss"
}

// build finds the parts that were asked for. The error is the first that there is not, or that does not train.
func (a *asked) build() (err error) {
	optimizers := [][2]string{{"optimizer", a.step.OptimG}, {"optimizer-d", a.step.OptimD}}
	for _, o := range optimizers {
		if !arch.KnownOptimizer(o[1]) {
			return fmt.Errorf("%s is %q: it is one of %s", o[0], o[1], strings.Join(arch.OptimizerNames(), ", "))
		}
	}
	net, assumed, err := arch.Build(a.spec)
	switch {
	case errors.Is(err, arch.ErrUnknown) && len(arch.HoldersOf(a.spec.Type)) > 0:
		return fmt.Errorf("%w; %s", err, holders(a.spec.Type))
	case err != nil:
		return fmt.Errorf("%w; what is no setting of the step is taken for an argument of the network", err)
	}
	a.step.Net, a.warnings = net, append(a.warnings, assumed...)
	for _, l := range a.step.Losses {
		if !l.HasFormula() {
			return fmt.Errorf("losses has %q, which has no formula; those that have one are %s",
				l.Type, strings.Join(arch.LossNames(a.spec.Project), ", "))
		}
	}
	if a.val.Tile > 0 && a.val.Overlap >= a.val.Tile {
		return fmt.Errorf("tiles of %d do not overlap by %d: tile-overlap is less than tile", a.val.Tile, a.val.Overlap)
	}
	if err := discriminate(&a.step, a.spec.Project, a.disc); err != nil {
		return err
	}
	if a.trains && a.step.Batch < net.MinBatch {
		return fmt.Errorf("%s does not train with a micro-batch of %d: its batch normalisation sees one pixel of each "+
			"image, so it takes --micro-batch %d at least", a.spec.Type, a.step.Batch, net.MinBatch)
	}
	if a.trains && a.step.LQ < net.MinLQ {
		return fmt.Errorf("%s does not train on a low-resolution crop of %d: --lq %d is the least",
			a.spec.Type, a.step.LQ, net.MinLQ)
	}
	return nil
}

// projectOf is the project whose class is priced: the one that is asked for, or traiNNer-redux, or the first that has
// the network. The warning says which, where several projects have one of that name.
func projectOf(q *plugin.Bare) (p arch.Project, warnings []string) {
	have := arch.HoldersOf(q.Arch)
	usual := arch.Redux
	if len(have) > 0 && !slices.Contains(have, arch.Redux) {
		usual = have[0]
	}
	byFlag, flags := map[string]arch.Project{}, []string{projectFlag(usual)}
	for _, p := range arch.Projects {
		if byFlag[projectFlag(p)] = p; p != usual {
			flags = append(flags, projectFlag(p))
		}
	}
	p = arch.Owner(byFlag[q.OneOf("project", flags...)], q.Arch)
	if _, asked := q.Settings["project"]; !asked && len(have) > 1 {
		others := slices.DeleteFunc(have, func(o arch.Project) bool { return o == p })
		warnings = append(warnings, fmt.Sprintf("%s is priced as %v's class; set --project for another one: %s",
			q.Arch, p, flagsOf(others)))
	}
	return p, warnings
}

// projectFlag is the value of --project for a project.
func projectFlag(p arch.Project) string {
	if p == arch.Redux {
		return "redux"
	}
	return strings.ToLower(p.String())
}

// holders is a sentence of the projects that have a network of that name.
func holders(name string) string {
	return "projects with a network of that name: " + flagsOf(arch.HoldersOf(name))
}

// flagsOf lists projects by their values of --project.
func flagsOf(projects []arch.Project) string {
	var names []string
	for _, p := range projects {
		names = append(names, projectFlag(p))
	}
	return strings.Join(names, ", ")
}

// discriminate gives a step its discriminator, and the loss that needs one.
func discriminate(step *arch.StepConfig, p arch.Project, disc string) (err error) {
	switch gan := slices.ContainsFunc(step.Losses, arch.Loss.IsGAN); {
	case disc == "" && gan:
		return errors.New("an adversarial loss needs a discriminator, such as --set discriminator=dunet")
	case disc != "":
		if step.Disc, _, err = arch.BuildDiscriminator(arch.Spec{Project: p, Type: disc}); err != nil {
			return fmt.Errorf("%w; those that have one are %s", err, strings.Join(arch.DiscriminatorNames(p), ", "))
		}
		if !gan {
			name := cmp.Or(map[arch.Project]string{arch.Neosr: "gan_loss"}[p], "ganloss")
			step.Losses = append(step.Losses, arch.Loss{Project: p, Type: name, Weight: 1})
		}
	}
	return nil
}

// validation is that of the image, if one is given, without a network. Its memory format is by traiNNer-redux's option,
// which counts under mixed precision alone; BasicSR has none, and neosr lays out the network and not the image.
func validation(q *plugin.Bare, step arch.StepConfig) arch.ValConfig {
	val := arch.ValConfig{AMP: step.AMP, Tile: q.Int("tile", 0), Overlap: q.Int("tile-overlap", 0)}
	if step.CPU {
		val.Host = &arch.Host{}
	}
	last := q.Bool("use_channels_last", step.Project.Base() != arch.BasicSR) && step.AMP != nn.F32
	val.Layout = arch.Layout{NetworkLast: last, ImageLast: last && step.Project != arch.Neosr}
	val.H, val.W = q.Image("image", "")
	return val
}

// precision is autocast's type.
func precision(amp string) nn.DType {
	switch amp {
	case "fp16":
		return nn.F16
	case "bf16":
		return nn.BF16
	}
	return nn.F32
}
