package stablesr

import (
	"context"
	"fmt"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

// Estimate implements [plugin.Estimator]: a training step, a validation and an image logging of a model with the sizes of
// Stable Diffusion 2.1.
func (stablesr) Estimate(_ context.Context, q *plugin.Bare, d gpu.Device) ([]plugin.Phase, error) {
	s := arch.Step{
		Batch: q.Int("micro-batch", 1), Size: q.Int("image", 512), Queue: q.Int("queue", 180), Xformers: q.Bool("xformers", false),
		DDP: q.Bool("ddp", true), Foreach: q.Bool("foreach", false),
	}
	params, edge := map[string]any{"use_ema": q.Bool("ema", false)}, arch.NoEdge
	switch q.OneOf("edge", "off", "before", "after", "small") { // the edge processor's width, which is in the code
	case "before":
		edge = arch.EdgeBefore
	case "after":
		edge = arch.EdgeAfter
	case "small":
		edge = arch.EdgeSmall
	}
	if edge != arch.NoEdge {
		params["use_edge_processing"] = true
	}
	if err := q.Err(); err != nil {
		return nil, err
	}
	model, err := arch.Read(arch.Stock(q.Arch, params), arch.Code{Edge: edge})
	if err != nil {
		return nil, fmt.Errorf("the sizes of %s are in a recipe, which launch plan -- python main.py --base RECIPE … prices; without one there is LatentDiffusionSRTextWT", q.Arch)
	}
	s.Model, s.Swaps = model, true
	if s.Queue%s.Batch != 0 {
		return nil, fmt.Errorf("the first batch asserts that the pool is a multiple of the micro-batch: %d is none of %d, --queue %d is", s.Queue, s.Batch, (s.Queue/s.Batch+1)*s.Batch)
	}
	var phases []plugin.Phase
	for _, p := range []struct {
		name  string
		price func() mem.Tensors
	}{{"training", s.Training}, {"validation", s.Validation}, {images, s.Images}} {
		e := p.price()
		switch {
		case e.Known():
		case s.Size%model.Multiple() != 0:
			return nil, fmt.Errorf("%s does not take --image %d: the UNet's halves need a multiple of %d, such as %d", q.Arch, s.Size, model.Multiple(), (s.Size/model.Multiple()+1)*model.Multiple())
		default:
			return nil, fmt.Errorf("there is no %s of %s with these settings: %s", p.name, q.Arch, e.Unknown)
		}
		phases = append(phases, plugin.Price(p.name, e, d))
	}
	return phases, nil
}
