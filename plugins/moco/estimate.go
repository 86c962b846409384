package moco

import (
	"context"
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/moco/arch"
)

// Estimate implements [plugin.Estimator]: a training step of one process. What a setting is when nobody says anything is the
// project's own default (main_moco.py of moco at 7397dfe and of moco-v3 at c349e6e; src/config_low.py of solar-ssl).
func (moco) Estimate(_ context.Context, q *plugin.Bare, d gpu.Device) ([]plugin.Phase, error) {
	transformer := strings.HasPrefix(q.Arch, "vit")
	project := q.OneOf("project", "v3", "v2", "v1", "solar", "solar-exp")
	s := arch.Step{Project: arch.V3, Dim: 256, MLPDim: 4096, Optimizer: "lars", FrozenStem: transformer, AMP: nn.F16}
	library, amp := arch.Torchvision, "fp16"
	switch project {
	case "v1", "v2":
		s = arch.Step{Project: arch.V2, Dim: 128, MLP: project == "v2", Optimizer: "sgd", K: 65536}
		amp = "off"
	case "solar":
		s = arch.Step{Project: arch.Solar, Dim: 256, MLPDim: 4096, Optimizer: "sgd", K: 65536, Queue: true, FrozenStem: true}
	case "solar-exp":
		s = arch.Step{Project: arch.SolarExp, Dim: 256, MLPDim: 4096, Optimizer: "sgd"}
	case "v3":
		if transformer {
			library, s.Optimizer = arch.VITs, "adamw"
		}
	}
	s.Batch, s.World, s.Image = q.Int("micro-batch", 32), q.Int("ranks", 1), q.Int("image", 224)
	s.DDP = q.Bool("ddp", project != "solar")
	s.Accumulate, s.Dim = q.Int("accumulation", 1), q.Int("dim", s.Dim)
	if s.MLPDim > 0 {
		s.MLPDim = q.Int("mlp-dim", s.MLPDim)
	}
	if s.K > 0 {
		s.K = q.Int("queue", s.K)
	}
	s.Optimizer = q.OneOf("optimizer", uniq(s.Optimizer, "sgd", "lars", "adamw")...)
	switch q.OneOf("amp", uniq(amp, "off", "bf16", "fp16")...) {
	case "fp16":
		s.AMP = nn.F16
	case "bf16":
		s.AMP = nn.BF16
	default:
		s.AMP = nn.F32
	}
	if err := q.Err(); err != nil {
		return nil, err
	}
	var err error
	for _, l := range []arch.Library{library, arch.Torchvision, arch.Timm, arch.VITs, arch.Small} { // the project's own first
		if s.Encoder, err = arch.Build(l, q.Arch); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if err := possible(q.Arch, s); err != nil {
		return nil, err
	}
	e := arch.Training(s)
	if !e.Known() {
		return nil, fmt.Errorf("there is no training of %s with these settings: %s", q.Arch, e.Unknown)
	}
	return []plugin.Phase{plugin.Price("training", e, d)}, nil
}

// possible says what upstream would stop at: an image of another size than a transformer's, a queue that the keys of a step
// do not divide (moco/builder.py:73 at 7397dfe), one sample for a projector's batch normalisation (torch.nn.BatchNorm1d).
func possible(name string, s arch.Step) error {
	keys := s.Batch * s.World
	switch {
	case s.Encoder.Image > 0 && s.Image != s.Encoder.Image:
		return fmt.Errorf("%s takes images of %d only, not of %d", name, s.Encoder.Image, s.Image)
	case s.Project == arch.V2 && s.K%keys != 0:
		return fmt.Errorf("a step enqueues %d keys, and they have to divide the queue: %d is no multiple of them, --queue %d is", keys, s.K, (s.K/keys+1)*keys)
	case s.MLPDim > 0 && keys < minMicro:
		return fmt.Errorf("%s does not train with a micro-batch of 1: batch normalisation in its projector has no variance of one sample; --micro-batch %d does", name, minMicro)
	}
	return nil
}

// uniq puts the first value, the default, in front of the others.
func uniq(first string, all ...string) []string {
	out := []string{first}
	for _, v := range all {
		if v != first {
			out = append(out, v)
		}
	}
	return out
}
