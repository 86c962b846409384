package dualattn

import (
	"context"
	"fmt"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/dualattn/arch"
)

// Estimate implements [plugin.Estimator]: a training step of one micro-batch, and a batch of the validation. What a setting
// is when nobody says anything is upstream's for CUB-200-2011 (config.py at 6a4e6b6).
func (dualattn) Estimate(_ context.Context, q *plugin.Bare, d gpu.Device) ([]plugin.Phase, error) {
	n := arch.Net{
		Patch: q.Int("patch", 16), Classes: q.Int("classes", 200), Dim: q.Int("dim", 768), Heads: q.Int("heads", 12),
		Layers: q.Int("layers", 12), Dropout: q.Float("dropout", .1), TopK: q.Float("top-k", .1),
	}
	n.Height, n.Width = q.Image("image", "448")
	n.Hidden = q.Int("hidden", 4*n.Dim)
	if q.Bool("glca", true) {
		n.Local = 1
	}
	switch q.OneOf("code", "three-streams", "last-pairs", "recomputed") { // at 9b6147a, 6a4e6b6, 227722e
	case "last-pairs":
		n.Loop = arch.LastPairs
	case "recomputed":
		n.Loop = arch.Recomputed
	}
	cfg := arch.StepConfig{Net: n, Batch: q.Int("micro-batch", 2), Accumulate: q.Int("accumulation", 8), SGD: q.OneOf("optimizer", "adam", "sgd") == "sgd"}
	if q.OneOf("amp", "fp16", "off") == "fp16" {
		cfg.AMP = nn.F16
	}
	if err := q.Err(); err != nil {
		return nil, err
	}
	switch { // what upstream would stop at (attention_modules.py:50 at 6a4e6b6; torch.nn.Dropout; torch.topk), or never sees
	case n.Dim%n.Heads != 0:
		return nil, fmt.Errorf("dim is %d and heads is %d: each head takes an equal part, so heads divides dim", n.Dim, n.Heads)
	case !(n.Dropout >= 0 && n.Dropout < 1):
		return nil, fmt.Errorf("dropout is %v: it is a share of at least 0 and below 1", n.Dropout)
	case !(n.TopK > 0 && n.TopK <= 1):
		return nil, fmt.Errorf("top-k is %v: it is a share above 0 and of at most 1", n.TopK)
	case n.Height < n.Patch || n.Width < n.Patch:
		return nil, fmt.Errorf("an image of %d × %d has no patch of %d: --image %d is the least", n.Height, n.Width, n.Patch, n.Patch)
	}
	phases := []plugin.Phase{plugin.Price("training", arch.Training(cfg), d), plugin.Price("validation", arch.Validation(cfg), d)}
	for _, p := range phases {
		if !p.Estimate.Known() {
			return nil, fmt.Errorf("there is no %s of %s with these settings: %s", p.Phase, q.Arch, p.Estimate.Unknown)
		}
	}
	return phases, nil
}
