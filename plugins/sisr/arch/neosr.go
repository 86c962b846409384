package arch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// The networks of neosr whose forward is line by line that of traiNNer-redux's class of the same or another name:
// neosr/archs at 31c7022 against traiNNer/archs at 68629319. Their defaults and the names of their arguments are
// neosr's own. Recordings of neosr's classes hold each (testdata/net_neosr*.json).
var _ = entry(func() {
	for _, l := range neosrLikes {
		networks.add(Neosr, l.build, strings.Fields(l.names)...)
	}
})

// A neosrLike is a class of neosr's by traiNNer-redux's.
type neosrLike struct {
	names    string         // neosr's, which differ in nothing
	of       string         // traiNNer-redux's
	takes    string         // the arguments that the class takes and this formula reads, or that cost nothing
	scale    string         // the argument that is the scale
	defaults map[string]any // where they differ from traiNNer-redux's
	fixed    map[string]any // arguments that no formula has with another value
	swallow  bool           // **kwargs
	buffer   string         // a buffer of one element that traiNNer-redux's class has not
	needs    string         // an argument that it has no default for
}

const (
	swinArgs = "img_size patch_size in_chans embed_dim depths num_heads window_size mlp_ratio qkv_bias qk_scale " +
		"drop_rate " +
		"attn_drop_rate drop_path_rate patch_norm img_range "
	hatArgs = swinArgs + "compress_ratio squeeze_factor conv_scale overlap_ratio upsampler resi_connection num_feat"
)

var neosrLikes = []neosrLike{
	{names: "compact", of: "compact", takes: "num_in_ch num_out_ch num_feat num_conv act_type", scale: "upscale",
		swallow: true},
	{names: "craft", of: "craft", scale: "upscale", swallow: true, fixed: map[string]any{"flash_attn": false},
		takes: "in_chans img_size window_size embed_dim depths num_heads split_size_0 split_size_1 mlp_ratio qkv_bias " +
			"qk_scale img_range resi_connection"},
	{names: "cugan", of: "realcugan", takes: "in_channels out_channels pro", scale: "scale",
		defaults: map[string]any{"pro": true}},
	{names: "dat_s", of: "dat_s", takes: datArgs, scale: "upscale", swallow: true},
	{names: "dat_m", of: "dat", takes: datArgs, scale: "upscale", swallow: true},
	{names: "dat_2", of: "dat_2", takes: datArgs, scale: "upscale", swallow: true},
	{names: "dctlsa", of: "dctlsa", takes: "in_nc nf num_modules out_nc num_head", scale: "upscale", swallow: true},
	{names: "drct", of: "drct", takes: drctArgs, scale: "upscale", swallow: true, fixed: drctFixed},
	{names: "drct_l", of: "drct_l", takes: drctArgs, scale: "upscale", swallow: true, fixed: drctFixed},
	{names: "drct_xl", of: "drct_xl", takes: drctArgs, scale: "upscale", swallow: true, fixed: drctFixed},
	{names: "drct_s", of: "drct", takes: drctArgs, scale: "upscale", swallow: true, fixed: drctFixed,
		defaults: map[string]any{"embed_dim": int64(48), "depths": ints(2, 2, 2, 2), "num_heads": ints(6, 6, 6, 6)}},
	{names: "eimn", of: "eimn_l",
		takes: "embed_dims depths mlp_ratios drop_rate drop_path_rate num_stages freeze_param", scale: "scale"},
	{names: "eimn_l", of: "eimn_l", takes: "scale"},
	{names: "eimn_a", of: "eimn_a", takes: "scale"},
	{names: "hat_s", of: "hat_s", takes: hatArgs, scale: "upscale", swallow: true},
	{names: "hat_m", of: "hat_m", takes: hatArgs, scale: "upscale", swallow: true},
	{names: "hat_l", of: "hat_l", takes: hatArgs, scale: "upscale", swallow: true},
	{names: "hit_srf", of: "hit_srf", takes: hitArgs, scale: "upscale", swallow: true, fixed: hitFixed},
	{names: "hit_srf_medium", of: "hit_srf", takes: hitArgs, scale: "upscale", swallow: true, fixed: hitFixed,
		defaults: hitSize(16, 6)},
	{names: "hit_srf_large", of: "hit_srf", takes: hitArgs, scale: "upscale", swallow: true, fixed: hitFixed,
		defaults: hitSize(24, 12)},
	{names: "lmlt", of: "lmlt_base", takes: lmltArgs, scale: "upscaling_factor",
		fixed: map[string]any{"window_size": int64(8)}},
	{names: "lmlt_tiny", of: "lmlt_tiny", takes: lmltArgs, scale: "upscaling_factor",
		fixed: map[string]any{"window_size": int64(8)}},
	{names: "lmlt_large", of: "lmlt_large", takes: lmltArgs, scale: "upscaling_factor",
		fixed: map[string]any{"window_size": int64(8)}},
	{names: "moesr", of: "moesr2", scale: "scale",
		takes: "in_ch out_ch dim n_blocks n_block expansion_factor expansion_msg upsampler upsample_dim"},
	{names: "omnisr", of: "omnisr", takes: "num_in_ch num_out_ch num_feat block_num pe window_size res_num bias",
		scale: "upsampling",
		needs: "upsampling", swallow: true, fixed: map[string]any{"ffn_bias": true}},
	{names: "plksr", of: "plksr", takes: plksrArgs, scale: "upscaling_factor", fixed: map[string]any{"is_coreml": false}},
	{names: "plksr_tiny", of: "plksr_tiny", takes: plksrArgs, scale: "upscaling_factor",
		fixed: map[string]any{"is_coreml": false}},
	{names: "rcan", of: "rcan", takes: "n_resgroups n_resblocks n_feats kernel_size reduction n_colors norm",
		scale: "scale", swallow: true,
		fixed: map[string]any{"act": nil}},
	{names: "realplksr", of: "realplksr", takes: realplksrArgs, scale: "upscaling_factor", swallow: true,
		defaults: realplksrPlain},
	{names: "realplksr_s", of: "realplksr_tiny", takes: realplksrArgs, scale: "upscaling_factor", swallow: true,
		defaults: realplksrPlain},
	{names: "realplksr_l", of: "realplksr_large", takes: realplksrArgs, scale: "upscaling_factor", swallow: true,
		defaults: realplksrPlain},
	{names: "rgt", of: "rgt", takes: rgtArgs, scale: "upscale", swallow: true},
	{names: "rgt_s", of: "rgt_s", takes: rgtArgs, scale: "upscale", swallow: true},
	{names: "safmn", of: "safmn", takes: "dim num_layers n_blocks ffn_scale", scale: "upscaling_factor", swallow: true,
		fixed: map[string]any{"bcie": false}},
	{names: "safmn_l", of: "safmn_l", takes: "dim num_layers n_blocks ffn_scale", scale: "upscaling_factor", swallow: true,
		fixed: map[string]any{"bcie": false}},
	{names: "spanplus", of: "spanplus", takes: spanplusArgs, scale: "upscale"},
	{names: "spanplus_s", of: "spanplus_s", takes: spanplusArgs, scale: "upscale"},
	{names: "spanplus_st", of: "spanplus_st", takes: spanplusArgs, scale: "upscale"},
	{names: "spanplus_sts", of: "spanplus_sts", takes: spanplusArgs, scale: "upscale"},
	{names: "srformer_light", of: "srformer_light", takes: swinArgs + "upsampler resi_connection ape", scale: "upscale",
		swallow:  true,
		defaults: map[string]any{"embed_dim": int64(60)}},
	{names: "srformer_medium", of: "srformer", takes: swinArgs + "upsampler resi_connection ape", scale: "upscale",
		swallow: true},
	{names: "swinir_small", of: "swinir_s", takes: swinArgs + "upsampler resi_connection ape", scale: "upscale",
		swallow: true},
	{names: "swinir_medium", of: "swinir_m", takes: swinArgs + "upsampler resi_connection ape", scale: "upscale",
		swallow: true},
	{names: "swinir_large", of: "swinir_l", takes: swinArgs + "upsampler resi_connection ape", scale: "upscale",
		swallow: true},
	{names: "atd", of: "atd", takes: atdArgs, scale: "upscale", swallow: true, fixed: map[string]any{"norm": false},
		buffer: "no_norm"},
	{names: "atd_light", of: "atd_light", takes: atdArgs, scale: "upscale", swallow: true,
		fixed: map[string]any{"norm": false}, buffer: "no_norm",
		defaults: map[string]any{"num_heads": ints(4, 4, 4, 4)}},
}

const (
	datArgs = "img_size in_chans embed_dim split_size depth num_heads expansion_factor qkv_bias qk_scale drop_rate " +
		"attn_drop_rate " +
		"drop_path_rate img_range resi_connection upsampler"
	drctArgs = "img_size in_chans embed_dim depths num_heads window_size mlp_ratio img_range upsampler " +
		"resi_connection conv_scale qk_scale"
	hitArgs = "img_size in_chans embed_dim depths num_heads base_win_size hier_win_ratios img_range upsampler " +
		"resi_connection"
	lmltArgs  = "dim n_blocks ffn_scale drop_rate attn_drop_rate drop_path_rate"
	plksrArgs = "dim n_blocks ccm_type kernel_size split_ratio lk_type use_max_kernel sparse_kernels " +
		"sparse_dilations with_idt use_ea"
	rgtArgs = "img_size in_chans embed_dim depth num_heads mlp_ratio qkv_bias qk_scale drop_rate " +
		"attn_drop_rate drop_path_rate use_chk img_range resi_connection split_size c_ratio"
	spanplusArgs = "num_in_ch num_out_ch blocks feature_channels drop_rate upsampler"
	atdArgs      = "img_size patch_size in_chans embed_dim depths num_heads window_size category_size num_tokens " +
		"reducted_dim " +
		"convffn_kernel_size mlp_ratio img_range upsampler resi_connection"
	realplksrArgs = "in_ch out_ch dim n_blocks kernel_size split_ratio use_ea norm_groups dropout dysample"
)

var (
	drctFixed = map[string]any{"patch_size": int64(1), "compress_ratio": int64(3), "squeeze_factor": int64(30),
		"overlap_ratio": 0.5, "qkv_bias": true,
		"drop_rate": 0.0, "attn_drop_rate": 0.0, "drop_path_rate": 0.1, "ape": false, "patch_norm": true, "gc": int64(32)}
	hitFixed = map[string]any{"patch_size": int64(1), "mlp_ratio": 2.0, "drop_rate": 0.0, "value_drop_rate": 0.0,
		"drop_path_rate": 0.0,
		"ape":            false, "patch_norm": true, "use_checkpoint": false}
	realplksrPlain = map[string]any{"layer_norm": false} // RealPLKSR's group norm
)

// hitSize are the defaults of the larger HiT-SRF (hitsrf_arch.py:1135 and 1148).
func hitSize(window, layers int64) map[string]any {
	six := slices.Repeat([]int64{6}, int(layers))
	return map[string]any{
		"base_win_size": ints(window,
			window), "depths": ints(six...), "num_heads": ints(six...), "embed_dim": int64(180), "upsampler": "pixelshuffle",
	}
}

// ints is a list as the YAML reader gives it.
func ints(ns ...int64) (list []any) {
	for _, n := range ns {
		list = append(list, n)
	}
	return list
}

// build is traiNNer-redux's class with neosr's defaults.
func (l neosrLike) build(s Spec, a *args) Network {
	ownScale(s, a, l.scale)
	_, given := a.values[l.needs]
	refuse(l.needs != "" && !given, "%s is missing: neosr's class has no default for it", l.needs)
	values := maps.Clone(l.defaults)
	if values == nil {
		values = map[string]any{}
	}
	takes := strings.Fields(l.takes)
	for _, name := range slices.Sorted(maps.Keys(a.values)) {
		want, isFixed := l.fixed[name]
		switch v := a.values[name]; {
		case isFixed && !sameValue(v, want):
			reject("%s: %v: %w", name, v, ErrUnknown)
		case slices.Contains(takes, name):
			values[name] = v
		case !isFixed:
			continue
		}
		a.used[name] = true
	}
	a.swallow = l.swallow
	if v, ok := values["dysample"]; ok { // RealPLKSR's: traiNNer-redux asks by the upsampler's name
		delete(values, "dysample")
		if v == true {
			values["upsampler"] = "dysample"
		}
	}
	b, ok := networks.find(Redux, l.of)
	refuse(!ok, "%w", ErrUnknown)
	inner := &args{values: values, used: map[string]bool{}}
	n, err := built(func() Network { return b(Spec{Type: l.of, Scale: s.Scale, Args: values}, inner) })
	inner.ignore(takes...)
	a.warnings = append(a.warnings, inner.warnings...)
	err = errors.Join(err, inner.finish())
	refuse(err != nil, "%w", err)
	n.CheckpointArg = keepsCheckpoint(n.CheckpointArg, takes)
	if l.buffer != "" {
		forward := n.Forward
		n.Forward = func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			t.Buffer(l.buffer, nn.F32, 1)
			return forward(t, x)
		}
	}
	return n
}

// keepsCheckpoint is the argument that switches activation checkpointing, if the class takes it.
func keepsCheckpoint(arg string, takes []string) string {
	if slices.Contains(takes, arg) {
		return arg
	}
	return ""
}

// ownScale reads the argument that is the network's own scale, which neosr takes from the recipe's by default
// (net_opt in arch_util.py:12).
func ownScale(s Spec, a *args, name string) {
	if name == "" || name == "scale" { // which Build has read
		return
	}
	own := a.int(name, s.Scale)
	refuse(own != s.Scale, "%s: %d is not the recipe's scale, %d", name, own, s.Scale)
}

// sameValue compares a value of a recipe with one of a table.
func sameValue(v, want any) bool {
	switch w := want.(type) {
	case float64, int64:
		return fmt.Sprint(v) == fmt.Sprint(w)
	case []any:
		return fmt.Sprint(v) == fmt.Sprint(w)
	}
	return v == want
}
