package rows

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	dualarch "github.com/launch-ml/launch/plugins/dualattn/arch"
	lmarch "github.com/launch-ml/launch/plugins/lm/arch"
	mocoarch "github.com/launch-ml/launch/plugins/moco/arch"
	sisrarch "github.com/launch-ml/launch/plugins/sisr/arch"
	srarch "github.com/launch-ml/launch/plugins/stablesr/arch"
)

// moco is a step of tools/capture/step_moco.py: one process, not wrapped.
func moco(a args) (p Price, err error) {
	s := mocoarch.Step{Batch: a.Batch, World: 1, Image: 224, Dim: 256, MLPDim: 4096, K: a.K, AMP: a.amp(), Optimizer: a.Optimizer, Accumulate: a.Accumulate}
	s.Queue, _ = a.Queue.(bool)
	library := mocoarch.Torchvision
	vit := len(a.Net) > 3 && a.Net[:3] == "vit"
	switch a.Project {
	case "v2":
		s.Project, s.Dim, s.MLP = mocoarch.V2, 128, a.MLP
	case "v3":
		s.Project, s.FrozenStem = mocoarch.V3, vit && a.Net != "vit_conv_small" && a.Net != "vit_conv_base"
		if vit {
			library = mocoarch.VITs
		}
	case "solar", "solark2":
		s.Project, s.FrozenStem = mocoarch.Solar, true
		if a.Project == "solark2" {
			s.Project = mocoarch.SolarK2
		}
		if vit {
			a.Net = "vit_b_16"
		}
	case "solarexp":
		s.Project, library, s.FrozenStem = mocoarch.SolarExp, mocoarch.Timm, vit
	default:
		return p, fmt.Errorf("project %q has no formula", a.Project)
	}
	if s.Encoder, err = mocoarch.Build(library, a.Net); err != nil {
		return p, err
	}
	return Price{Saved: mocoarch.Peak(s).Saved, Tensors: mocoarch.Training(s)}, nil
}

// torchvision is a classifier with its last layer, cross entropy and one optimizer: tools/capture/step_torchvision.py.
// No plugin has it as a job; its networks are those that moco builds on.
func torchvision(a args) (Price, error) {
	e, err := mocoarch.Build(mocoarch.Torchvision, a.Net)
	if err != nil {
		return Price{}, err
	}
	t := nn.NewTape()
	const net = "network"
	x := t.Hold(t.Input(nn.F32, a.Batch, 3, a.Size, a.Size))
	labels := t.Hold(t.Input(nn.I64, a.Batch))
	t.KeepGradients(net)
	var loss nn.Tensor
	t.Autocast(a.amp(), func() {
		var y nn.Tensor
		t.Part(net, func() { y = t.Call("", x, e.Module(mocoarch.Options{Head: nn.Linear{Out: 1000}.Module()})) })
		loss = t.Hold(t.CrossEntropy(y, labels))
	})
	t.ZeroGrad(net) // which stands between forward and backward
	t.Part(net, func() { t.Backward(loss) })
	states, temps := 2*t.Size(net).GradBytes, t.Size(net).GradBytes // Adam's root, or SGD's gradients with weight decay
	if a.Optimizer == "sgd" {
		states = t.Size(net).GradBytes
	}
	t.OptimizerStep(net, temps)
	size, peak := t.Size(net), t.Peak()
	var est mem.Tensors
	est.Add(mem.Item{Kind: mem.Parameters, What: net, Bytes: size.ParamBytes, Count: size.Params},
		mem.Item{Kind: mem.Buffers, What: net, Bytes: size.BufferBytes}, mem.Item{Kind: mem.Optimizer, What: net, Bytes: states})
	est.AddPeak(peak, "images in float32 and their classes")
	return Price{Saved: peak.Saved, Tensors: est}, nil
}

// neosr is a step of neosr: tools/capture/step_neosr.py.
func neosr(a args) (Price, error) {
	a.Project = string(sisrarch.Neosr)
	return sisr(a)
}

// sisr is a step of traiNNer-redux or of BasicSR: tools/capture/step_sisr.py, step_basicsr.py.
func sisr(a args) (p Price, err error) {
	project := sisrarch.Project(a.Project)
	spec := sisrarch.Spec{Project: project, Type: a.Net, Scale: a.Scale, Args: a.Args, Frames: a.Frames}
	n, _, err := sisrarch.Build(spec)
	if err != nil {
		return p, err
	}
	cfg := sisrarch.StepConfig{
		Project: project, Model: a.Model, Net: n, Batch: a.Batch, LQ: a.LQ, AMP: a.amp(), Accumulate: a.Accumulate,
		EMA: a.EMA, CPU: true, // where the rows are recorded
	}
	for _, l := range a.Losses {
		loss := sisrarch.Loss{Project: project, Type: l.Type, Name: l.Name, Weight: l.Weight, Args: l.Args}
		if project.ComputesAll() {
			loss.Weight = 1
		}
		cfg.Losses = append(cfg.Losses, loss)
	}
	if a.Disc != "" {
		spec := sisrarch.Spec{Project: project, Type: a.Disc, Args: a.DiscArgs}
		if cfg.Disc, _, err = sisrarch.BuildDiscriminator(spec); err != nil {
			return p, err
		}
	}
	return Price{Saved: sisrarch.Peak(cfg).Saved, Tensors: sisrarch.Training(cfg)}, nil
}

// stableSR is shared_step or the edge fork's training_step, as PyTorch 1 keeps gradients: tools/capture/step_stablesr.py.
func stableSR(a args) (p Price, err error) {
	edge := a.Project == "edge"
	gen, target := srarch.NoEdge, "LatentDiffusionSRTextWT"
	params := map[string]any{"unfrozen_diff": a.Unfrozen}
	if edge {
		gen, target = srarch.EdgeAfter, "LatentDiffusionSRTextWTWithEdge"
		params["use_edge_processing"] = true
	}
	m, err := srarch.Read(srarch.Stock(target, params), srarch.Code{Edge: gen})
	if err != nil {
		return p, err
	}
	s := srarch.Step{Model: m, Batch: a.Batch, Size: a.Size, Xformers: a.Xformers, Dispatched: true}
	if n, ok := a.Queue.(float64); ok {
		s.Queue = int64(n)
	}
	return Price{Saved: s.Saved(), Tensors: s.Training()}, nil
}

// dualAttention is the dual cross-attention ViT's step: tools/capture/step_dualattn.py.
func dualAttention(a args) (p Price, err error) {
	n := dualarch.Net{Height: a.Height, Width: a.Width, Patch: 16, Classes: a.Classes, Dim: a.Dim, Heads: a.Heads, Hidden: a.Hidden,
		Layers: a.Layers, Local: a.Local, Dropout: a.Dropout, TopK: a.TopK, DropPath: a.DropPath}
	switch a.Version {
	case "three":
		n.ExtraBlock = false
	case "last":
		n.Loop = dualarch.LastPairs
	case "again":
		n.Loop = dualarch.Recomputed
	default:
		return p, fmt.Errorf("version %q has no formula", a.Version)
	}
	cfg := dualarch.StepConfig{Net: n, Batch: a.Batch, Accumulate: a.Accumulate, AMP: a.amp(), SGD: a.Optimizer == "sgd",
		Dispatched: true}
	return Price{Saved: dualarch.Peak(cfg).Saved, Tensors: dualarch.Training(cfg)}, nil
}

// languageModel is a step of transformers' Trainer: tools/capture/step_lm.py.
func languageModel(a args) (Price, error) { return a.language(false) }

// trainer is a step of the Trainer itself on a CPU, or of LLaMA-Factory: step_lm_trainer.py and others in
// tools/capture.
func trainer(a args) (Price, error) { return a.language(true) }

func (a args) language(cpu bool) (p Price, err error) {
	config, err := lmarch.Read(a.Config)
	if err != nil {
		return p, err
	}
	s := lmarch.Step{
		Model: config, Batch: a.Batch, Length: a.Length, Accumulate: a.Accumulate, World: 1,
		Weights: precision(a.Weights), Autocast: a.amp(),
		Eager: a.Attention == "eager", Padded: a.Padded, Checkpointing: a.Recompute != "",
		Reentrant: a.Recompute == "reentrant",
		Optimizer: a.Optimizer, Dispatched: true, CPU: cpu, Fused: a.TRL, Balanced: a.Balanced,
		Decay: a.Decay > 0, Packed: a.Packed, Cut: a.Cut,
		Router: a.Router, Upcast: a.Upcast, Release: a.Release, Old: a.Math,
	}
	if l := a.LoRA; l != nil { // peft makes adapters of a half model in float32
		s.LoRA = &lmarch.LoRA{Rank: l.Rank, Targets: l.Targets, Dropout: l.Dropout, Type: precision(l.Type),
			Whole: lmarch.Whole{Names: l.Whole, Type: s.Weights}}
		if l.WholeType != "" {
			s.LoRA.Whole.Type = precision(l.WholeType)
		}
	}
	if s.LoRA != nil && a.halfAdapters {
		s.LoRA.Type = s.Weights
	}
	if a.Axolotl {
		s.InputGrad = true
		if a.Kernels {
			s.LoRA.Kernels = lmarch.Kernels{QKV: true, O: true, MLP: true}
		}
	}
	if q := a.Quant; q != nil {
		s.Quant = &lmarch.Quant{Bits: q.Bits, Nested: q.Nested, Compute: precision(q.Compute), Loaded: s.Weights}
		if q.Prepared {
			s.Weights = nn.F32
		}
	}
	if a.Preference {
		s.Fused, s.Preference = true, &lmarch.Preference{Precomputed: a.Precomputed, Tile: a.Tile}
	}
	if a.Factory == "dpo" {
		s.Preference = &lmarch.Preference{Precomputed: a.Loss == "orpo" || a.Loss == "simpo"}
	}
	if a.Evaluation != "" {
		return Price{Tensors: lmarch.Evaluation(s, a.Evaluation == "predicted")}, nil
	}
	return Price{Saved: lmarch.Saved(s), Tensors: lmarch.Training(s)}, nil
}

// release is a version of transformers 4 as the formulas have it.
func release(version string) lmarch.Release {
	parts := strings.Split(version, ".")
	if len(parts) < 2 || parts[0] != "4" {
		return 0
	}
	n, _ := strconv.Atoi(parts[1])
	return lmarch.Release(n)
}

// halfAdapters reports whether peft makes adapters of the type of the layers that they are in: from 0.6 to 0.11
// (update_layer in peft/tuners/lora/layer.py:99 of 0.7.1).
func halfAdapters(version string) bool {
	parts := strings.Split(version, ".")
	n, err := strconv.Atoi(parts[min(1, len(parts)-1)])
	return err == nil && parts[0] == "0" && 6 <= n && n < 12
}
