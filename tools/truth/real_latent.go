package main

import (
	"fmt"
	"maps"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	srarch "github.com/launch-ml/launch/plugins/stablesr/arch"
)

// A latentJob is a training by latent-diffusion's main.py, whose sizes are in a recipe and not in a network's name.
type latentJob struct {
	recipe      string
	batch, size int64
	unchecked   bool // without activation checkpointing
	torch1      bool
}

// latentJobs are the observations that are of one, by number. The batch is that of Dreambooth's two data sets together,
// where there are two; torch 1 is what their logs name, or what their checkouts ask for.
var latentJobs = map[int]latentJob{
	29: {"pokemon", 1, 512, false, true}, 30: {"pokemon", 1, 512, false, true},
	31: {"dreambooth", 1, 512, true, true}, 32: {"dreambooth", 1, 512, false, true},
	33: {"dreambooth", 1, 512, false, true}, 34: {"dreambooth", 1, 512, false, true},
	35: {"pairs", 1, 256, false, true}, 36: {"pairs", 1, 256, false, true}, 37: {"pairs", 64, 256, false, true},
	38: {"pairs", 32, 256, false, true}, 39: {"pairs", 1, 256, false, false},
	40: {"views", 192, 256, false, true}, 41: {"text", 16, 256, false, true},
}

func list(ns ...int64) (out []any) {
	for _, n := range ns {
		out = append(out, n)
	}
	return out
}

// latentModel is a recipe's section model with the sizes of Stable Diffusion 1, and who trains it.
func latentModel(j latentJob) (srarch.Config, srarch.Code) {
	type dict = map[string]any
	stage := func(name string, params dict) dict {
		return dict{"target": "ldm.modules.encoders.modules." + name, "params": params}
	}
	unet := dict{"in_channels": int64(4), "out_channels": int64(4), "model_channels": int64(320), "num_heads": int64(8),
		"attention_resolutions": list(4, 2, 1), "num_res_blocks": int64(2), "channel_mult": list(1, 2, 4, 4),
		"use_spatial_transformer": true, "transformer_depth": int64(1), "context_dim": int64(768),
		"use_checkpoint": !j.unchecked, "legacy": false}
	params := dict{"timesteps": int64(1000), "log_every_t": int64(200), "image_size": j.size / 8,
		"conditioning_key":  "crossattn",
		"cond_stage_config": stage("FrozenCLIPEmbedder", nil),
		"unet_config":       dict{"target": "ldm.modules.diffusionmodules.openaimodel.UNetModel", "params": unet},
		"first_stage_config": dict{"target": "ldm.models.autoencoder.AutoencoderKL", "params": dict{"embed_dim": int64(4),
			"ddconfig": dict{"z_channels": int64(4), "resolution": int64(256), "in_channels": int64(3), "out_ch": int64(3),
				"ch": int64(128), "ch_mult": list(1, 2, 4, 4), "num_res_blocks": int64(2), "attn_resolutions": list()}}}}
	code, target := srarch.Code{}, "ldm.models.diffusion.ddpm.LatentDiffusion"
	switch j.recipe {
	case "dreambooth":
		code.Trainer, code.Kept = srarch.TwoBatches, j.unchecked
		maps.Copy(params, dict{"use_ema": false, "cond_stage_trainable": true, "embedding_reg_weight": 0.0,
			"unfreeze_model": true, "personalization_config": dict{"target": "ldm.modules.embedding_manager.EmbeddingManager",
				"params": dict{"placeholder_strings": []any{"*"}, "num_vectors_per_token": int64(1)}}})
	case "pairs":
		code.Trainer, target, unet["in_channels"] = srarch.EditPairs, "ldm.models.diffusion.ddpm_edit.LatentDiffusion",
			int64(8)
		params["conditioning_key"] = "hybrid"
	case "views":
		code.Trainer, unet["in_channels"] = srarch.Views, int64(8)
		params["conditioning_key"], params["cond_stage_config"] = "hybrid", stage("FrozenCLIPImageEmbedder", nil)
	case "text":
		unet["context_dim"], params["cond_stage_trainable"], params["use_ema"] = int64(1280), true, false
		params["cond_stage_config"] = stage("BERTEmbedder", dict{"n_embed": int64(1280), "n_layer": int64(32)})
	}
	return srarch.Config{"target": target, "params": params}, code
}

// phases prices a job on a card: training, validation and image logging.
func (j latentJob) phases(d gpu.Device) (out []plugin.Phase, err error) {
	cfg, code := latentModel(j)
	m, err := srarch.Read(cfg, code)
	if err != nil {
		return nil, err
	}
	m.LogsImages(srarch.CompVisImages())
	s := srarch.Step{Model: m, Batch: j.batch, Size: j.size, DDP: true, Swaps: m.EMA, Torch1: j.torch1, Foreach: !j.torch1}
	for _, p := range []struct {
		name  string
		price func() mem.Tensors
	}{{"training", s.Training}, {"validation", s.Validation}, {"image logging", s.Images}} {
		e := p.price()
		if !e.Known() {
			return nil, fmt.Errorf("%s: %s", p.name, e.Unknown)
		}
		out = append(out, plugin.Price(p.name, e, d))
	}
	return out, nil
}
