package lm

import (
	"context"
	"fmt"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// Estimate implements [plugin.Estimator]: a training step of one process and an evaluation of a public model, by the
// Trainer of transformers 5, or with the fused head of trl.
func (family) Estimate(_ context.Context, q *plugin.Bare, d gpu.Device) ([]plugin.Phase, error) {
	known := publics()[q.Arch]
	if known == nil {
		return nil, fmt.Errorf("the shape of %q is not known: %w", q.Arch, arch.ErrUnknown)
	}
	config, err := arch.Read(known.Config)
	if err != nil {
		return nil, err
	}
	s := arch.Step{Model: config, CPU: d.Kind == gpu.CPU}
	types := map[string]nn.DType{"fp32": nn.F32, "bf16": nn.BF16, "fp16": nn.F16, "off": nn.F32}
	s.Batch, s.Length = q.Int("micro-batch", 1), q.Int("length", min(1024, config.Positions))
	s.Accumulate, s.World = q.Int("accumulation", 1), q.Int("ranks", 1)
	s.Weights = types[q.OneOf("weights", "bf16", "fp32", "fp16")]
	s.Autocast = types[q.OneOf("amp", "off", "bf16", "fp16")]
	s.Eager = q.OneOf("attention", "sdpa", "eager") == "eager"
	s.Optimizer = q.OneOf("optimizer", "adamw_torch_fused", "adamw_torch")
	s.Checkpointing, s.Padded = q.Bool("checkpointing", false), q.Bool("padded", false)
	s.Fused = q.Bool("fused-head", false)
	if rank := q.Int("lora-rank", 0); rank > 0 {
		all, ok := config.AllTargets()
		if !ok {
			return nil, fmt.Errorf("adapters of %s have no formula", q.Arch)
		}
		s.LoRA = &arch.LoRA{Rank: rank, Targets: all}
	}
	evaluation := q.Int("eval-batch", s.Batch)
	if err := q.Err(); err != nil {
		return nil, err
	}
	training := arch.Training(s)
	s.Batch = evaluation
	validation := arch.Evaluation(s, false)
	for _, e := range []string{training.Unknown, validation.Unknown} {
		if e != "" {
			return nil, fmt.Errorf("there is no training of %s with these settings: %s", q.Arch, e)
		}
	}
	return []plugin.Phase{plugin.Price("training", training, d), plugin.Price("validation", validation, d)}, nil
}
