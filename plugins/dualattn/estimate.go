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
	phases := []plugin.Phase{plugin.Price("training", arch.Training(cfg), d), plugin.Price("validation", arch.Validation(cfg), d)}
	for _, p := range phases {
		if !p.Estimate.Known() {
			return nil, fmt.Errorf("%s of %s: %s", p.Phase, q.Arch, p.Estimate.Unknown)
		}
	}
	return phases, nil
}
