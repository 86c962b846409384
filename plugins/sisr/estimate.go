package sisr

import (
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
// without the training's states if nothing is trained. What is no setting of the step is an argument of the network's own, as in network_g.
func (sisr) Estimate(_ context.Context, q *plugin.Bare, d gpu.Device) ([]plugin.Phase, error) {
	step := arch.StepConfig{
		Batch: q.Int("micro-batch", 1), LQ: q.Int("lq", 64), Accumulate: q.Int("accumulation", 1), AMP: precision(q.OneOf("amp", "off", "bf16", "fp16")),
		OptimG: q.Text("optimizer", "AdamW"), OptimD: q.Text("optimizer-d", "AdamW"), EMA: q.Bool("ema", true), CPU: d.Kind == gpu.CPU, OneDNN: d.Kind == gpu.CPU,
	}
	scale, disc := q.Int("scale", 4), q.Text("discriminator", "")
	val := arch.ValConfig{AMP: step.AMP, Tile: q.Int("tile", 0), Overlap: q.Int("tile-overlap", 0)}
	if step.CPU {
		val.Host = &arch.Host{}
	}
	val.H, val.W = q.Image("image", "")
	project, warnings := projectOf(q)
	trains, lossNames := q.Bool("training", true), q.Text("losses", usualLoss(project))
	if project == arch.Neosr {
		step.Neosr, val.Neosr = &arch.NeosrStep{}, true
	}
	spec := arch.Spec{Project: project, Type: q.Arch, Scale: scale, Args: q.Rest()}
	for _, l := range strings.Split(lossNames, ",") {
		step.Losses = append(step.Losses, arch.Loss{Project: spec.Project, Type: l, Weight: 1})
	}
	if err := q.Err(); err != nil {
		return nil, err
	}
	assumed, err := build(&step, spec)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, assumed...)
	if val.Tile > 0 && val.Overlap >= val.Tile {
		return nil, fmt.Errorf("tiles of %d do not overlap by %d: tile-overlap is less than tile", val.Tile, val.Overlap)
	}
	if err := discriminate(&step, spec.Project, disc); err != nil {
		return nil, err
	}
	var phases []plugin.Phase
	if trains && step.Batch < step.Net.MinBatch {
		return nil, fmt.Errorf("%s does not train with a micro-batch of %d: its batch normalisation sees one pixel of each image, so it takes --micro-batch %d at least", q.Arch, step.Batch, step.Net.MinBatch)
	}
	if trains && step.LQ < step.Net.MinLQ {
		return nil, fmt.Errorf("%s does not train on a low-resolution crop of %d: --lq %d is the least", q.Arch, step.LQ, step.Net.MinLQ)
	}
	if trains {
		phases = append(phases, plugin.Price("training", arch.Training(step), d))
		val.Step = &step
	}
	if val.H > 0 {
		val.Net = step.Net
		phases = append(phases, plugin.Price("validation", arch.Validation(val), d))
	}
	if len(phases) == 0 {
		return nil, errors.New("without a training and without an image there is nothing to price")
	}
	for _, p := range phases {
		if !p.Estimate.Known() {
			return nil, fmt.Errorf("there is no %s of %s with these settings: %s", p.Phase, q.Arch, p.Estimate.Unknown)
		}
	}
	phases[0].Warnings = warnings
	return phases, nil
}

// usualLoss is the loss of a step that names none.
func usualLoss(p arch.Project) string {
	if p == arch.Neosr {
		return "L1Loss"
	}
	return "charbonnierloss"
}

// build finds the network of a step, and sees whether its optimizers and its losses are known. The warnings say
// what was assumed.
func build(step *arch.StepConfig, spec arch.Spec) (warnings []string, err error) {
	for name, value := range map[string]string{"optimizer": step.OptimG, "optimizer-d": step.OptimD} {
		if !arch.KnownOptimizer(value) {
			return nil, fmt.Errorf("%s is %q: it is one of %s", name, value, strings.Join(arch.OptimizerNames(), ", "))
		}
	}
	step.Net, warnings, err = arch.Build(spec)
	switch {
	case errors.Is(err, arch.ErrUnknown) && len(arch.HoldersOf(spec.Type)) > 0:
		return nil, fmt.Errorf("%w; %s", err, holders(spec.Type))
	case err != nil:
		return nil, fmt.Errorf("%w; what is no setting of the step is taken for an argument of the network", err)
	}
	for _, l := range step.Losses {
		if !l.HasFormula() {
			return nil, fmt.Errorf("losses has %q, which has no formula; those that have one are %s",
				l.Type, strings.Join(arch.LossNames(spec.Project), ", "))
		}
	}
	return warnings, nil
}

// projectOf is the project whose class is priced: the one that is asked for, or traiNNer-redux, or the one that
// has the network.
// The warning says which, where several projects have one of that name.
func projectOf(q *plugin.Bare) (p arch.Project, warnings []string) {
	names := []string{"redux", "basicsr", "neosr"}
	have := arch.HoldersOf(q.Arch)
	first := 0
	if len(have) > 0 && !slices.Contains(have, arch.Redux) {
		first = slices.IndexFunc(names, func(n string) bool { return projects[n] == have[0] })
	}
	names[0], names[first] = names[first], names[0]
	p = projects[q.OneOf("project", names...)]
	if _, asked := q.Settings["project"]; !asked && len(have) > 1 {
		warnings = append(warnings, fmt.Sprintf("this is %v's %s; %s; --project chooses", p, q.Arch, holders(q.Arch)))
	}
	return p, warnings
}

// holders is a sentence of the projects that have a network of that name.
func holders(name string) string {
	var names []string
	for _, p := range arch.HoldersOf(name) {
		names = append(names, p.String())
	}
	return "projects with a network of that name: " + strings.Join(names, ", ")
}

// projects are the projects by the name that --project takes.
var projects = map[string]arch.Project{"redux": arch.Redux, "basicsr": arch.BasicSR, "neosr": arch.Neosr}

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
			name := map[arch.Project]string{arch.Neosr: "gan_loss"}[p]
			if name == "" {
				name = "ganloss"
			}
			step.Losses = append(step.Losses, arch.Loss{Project: p, Type: name, Weight: 1})
		}
	}
	return nil
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
