package arch

import "maps"

// Stock is the section "model" that stands for a network where no recipe does: Stable Diffusion 2.1's sizes and those of
// StableSR's encoder of structure (configs/stableSRNew/v2-finetune_text_T_512.yaml at 398ee93). params come before them.
func Stock(target string, params map[string]any) Config {
	p := map[string]any{
		"use_ema": false, "conditioning_key": "crossattn",
		"unet_config": map[string]any{"target": "ldm.modules.diffusionmodules.openaimodel.UNetModelDualcondV2", "params": map[string]any{
			"in_channels": int64(4), "out_channels": int64(4), "model_channels": int64(320), "attention_resolutions": []any{int64(4), int64(2), int64(1)},
			"num_res_blocks": int64(2), "channel_mult": []any{int64(1), int64(2), int64(4), int64(4)}, "num_head_channels": int64(64),
			"use_spatial_transformer": true, "use_linear_in_transformer": true, "transformer_depth": int64(1), "context_dim": int64(1024),
			"use_checkpoint": false, "legacy": false, "semb_channels": int64(256),
		}},
		"first_stage_config": map[string]any{"target": "ldm.models.autoencoder.AutoencoderKL", "params": map[string]any{
			"embed_dim": int64(4), "ddconfig": map[string]any{
				"z_channels": int64(4), "resolution": int64(512), "in_channels": int64(3), "out_ch": int64(3), "ch": int64(128),
				"ch_mult": []any{int64(1), int64(2), int64(4), int64(4)}, "num_res_blocks": int64(2), "attn_resolutions": []any{},
			}}},
		"cond_stage_config": map[string]any{"target": "ldm.modules.encoders.modules.FrozenOpenCLIPEmbedder", "params": map[string]any{"layer": "penultimate"}},
		"structcond_stage_config": map[string]any{"target": "ldm.modules.diffusionmodules.openaimodel.EncoderUNetModelWT", "params": map[string]any{
			"in_channels": int64(4), "model_channels": int64(256), "out_channels": int64(256), "num_res_blocks": int64(2),
			"attention_resolutions": []any{int64(4), int64(2), int64(1)}, "channel_mult": []any{int64(1), int64(1), int64(2), int64(2)},
			"num_heads": int64(4), "num_head_channels": int64(-1), "use_checkpoint": false,
		}},
	}
	maps.Copy(p, params)
	return Config{"target": "ldm.models.diffusion.ddpm." + target, "params": p}
}
