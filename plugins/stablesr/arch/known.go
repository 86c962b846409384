package arch

import (
	"fmt"
	"maps"
	"slices"
)

// What the constructors take (ldm/models/diffusion/ddpm.py:45 DDPM, :610 LatentDiffusion, :1563 LatentDiffusionSRTextWT,
// ldm/models/autoencoder.py:470 AutoencoderKLResi at 398ee938; ddpm_with_edge.py:30 LatentDiffusionSRTextWTWithEdge at
// cea3b81b and 5312b48, ddpm.py:1585 at b73597f). A name that is none of these is of somebody's fork, where it may be a
// whole network more (ControlNet, another edge processor): no formula has it.
var (
	ddpmArgs = []string{
		"unet_config", "timesteps", "beta_schedule", "loss_type", "ckpt_path", "ignore_keys", "load_only_unet", "monitor", "use_ema",
		"first_stage_key", "image_size", "channels", "log_every_t", "clip_denoised", "linear_start", "linear_end", "cosine_s",
		"given_betas", "original_elbo_weight", "v_posterior", "l_simple_weight", "conditioning_key", "parameterization",
		"scheduler_config", "use_positional_encodings", "learn_logvar", "logvar_init",
		"first_stage_config", "cond_stage_config", "num_timesteps_cond", "cond_stage_key", "cond_stage_trainable", "concat_mode",
		"cond_stage_forward", "scale_factor", "scale_by_std",
	}
	// ddpm.py:50 and :486 of justinpinkney/stable-diffusion at c63ca47a, and of zero123 at f426883b, have these more.
	ldmArgs = append(slices.Clone(ddpmArgs), "unet_trainable", "make_it_fit", "ucg_training")
	// ddpm_edit.py:77 of timothybrooks/instruct-pix2pix at 0dffd1ee.
	pairArgs = append(slices.Clone(ddpmArgs), "load_ema")
	// ddpm.py:68 and :438 of rinongal/textual_inversion at 424192de; ddpm.py:447 of XavierXiao's Dreambooth at 12fa9509.
	wordArgs = append(slices.Clone(ddpmArgs), "embedding_reg_weight", "unfreeze_model", "model_lr",
		"personalization_config", "reg_weight")
	autoArgs = []string{ // ldm/models/autoencoder.py:15 and :286 at a506df57
		"ddconfig", "lossconfig", "n_embed", "embed_dim", "ckpt_path", "ignore_keys", "image_key", "monitor",
		"scheduler_config",
		"lr_g_factor", "sane_index_shape", "use_ema",
	}
	stableSRArgs = append(slices.Clone(ddpmArgs), "structcond_stage_config", "unfrozen_diff", "random_size", "test_gt", "p2_gamma",
		"p2_k", "time_replace", "use_usm", "mix_ratio", "edge_loss_weight",
		"usm_prob", "init_sft") // the face recipe's (f807d50), which no code reads
	edgeArgs = append(slices.Clone(stableSRArgs), "use_edge_processing", "edge_input_channels", "edge_weight")
	resiArgs = []string{
		"ddconfig", "lossconfig", "embed_dim", "ckpt_path", "ignore_keys", "image_key", "colorize_nlabels", "monitor", "fusion_w",
		"freeze_dec", "synthesis_data", "use_usm", "test_gt",
		"use_canny_cfw", "canny_controlnet_stage_config", "controlnet_ckpt_path", // stm233's at a9548ad
	}
)

// known reports the first argument that no formula has, as an error that is ErrUnknown.
func known(params map[string]any, names []string) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if v := params[name]; !slices.Contains(names, name) && v != nil && v != false {
			return fmt.Errorf("model.params.%s: %w", name, ErrUnknown)
		}
	}
	return nil
}
