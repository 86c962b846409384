package arch

import (
	"fmt"
	"maps"
	"slices"
)

// The networks of projects that are built on BasicSR and compute what traiNNer-redux's of another name do, by other
// defaults: HAT (hat/archs/hat_arch.py at 1638a9a), DAT (basicsr/archs/dat_arch.py at 1645c64), RGT (rgt_arch.py at
// 01b4379), SRFormer (srformer_arch.py at d0c2da6), ATD (atd_arch.py at d25fd84) and DRCT (drct/archs/DRCT_arch.py at
// c0a8b51). All drop what they do not read.
var _ = entry(func() {
	four := func(n int64) []any { return []any{n, n, n, n} }
	swin := map[string]any{
		"embed_dim": int64(96), "depths": four(6), "num_heads": four(6), "window_size": int64(7), "mlp_ratio": int64(4),
		"upsampler": "", "img_size": int64(64),
	}
	plain := map[string]any{"ape": false, "patch_norm": true, "qkv_bias": true, "patch_size": int64(1)}
	with := func(more map[string]any) map[string]any {
		all := maps.Clone(plain)
		maps.Copy(all, more)
		return all
	}
	networks.add(HAT, alike("hat_m", swin, nil), "hat")
	networks.add(DAT, alike("dat", map[string]any{
		"depth": four(2), "num_heads": four(2), "split_size": []any{int64(2), int64(4)}, "expansion_factor": int64(4),
	}, nil), "dat")
	networks.add(RGT, alike("rgt", map[string]any{
		"depth": four(2), "num_heads": four(2), "split_size": []any{int64(8), int64(8)}, "mlp_ratio": int64(4),
	}, nil), "rgt")
	networks.add(SRFormer, alike("srformer", swin, nil), "srformer")
	networks.add(ATD, alike("atd_light", map[string]any{
		"embed_dim": int64(90), "num_heads": four(6), "window_size": int64(8), "reducted_dim": int64(4),
		"convffn_kernel_size": int64(5), "mlp_ratio": int64(2), "upsampler": "",
	}, with(map[string]any{"use_checkpoint": false})), "atd")
	networks.add(DRCT, alike("drct", swin, with(map[string]any{
		"drop_rate": int64(0), "attn_drop_rate": int64(0), "drop_path_rate": 0.1, "gc": int64(32),
	})), "drct")

	// hat_model.py, realhatmse_model.py and realhatgan_model.py, dat_model.py and their likes: BasicSR's loops.
	sr := model{record: basicLoop{sections: pixelSections}.record, gradientsStay: true}
	gan := model{record: basicLoop{sections: ganSections, sharpened: true}.record, gradientsStay: true}
	models.add(HAT, sr, "hatmodel", "realhatmsemodel")
	models.add(HAT, gan, "realhatganmodel")
	models.add(DRCT, sr, "drctmodel", "realdrctmsemodel")
	models.add(DRCT, gan, "realdrctganmodel")
	models.add(DAT, sr, "datmodel")
	models.add(RGT, sr, "rgtmodel")
	models.add(ATD, sr, "atdmodel")
})

// alike is the builder of a class that computes what traiNNer-redux's of that name does, by defaults of its own. It has
// an argument "upscale", and drops what it does not read; of the arguments in only, the formula has no other values.
func alike(redux string, defaults, only map[string]any) builder {
	return func(s Spec, a *args) Network {
		s.Scale = a.upscale("upscale", s)
		for _, k := range slices.Sorted(maps.Keys(only)) {
			v, ok := a.get(k)
			refuse(ok && fmt.Sprint(v) != fmt.Sprint(only[k]), "%s %v: %w", k, v, ErrUnknown)
		}
		all := maps.Clone(defaults)
		maps.Copy(all, a.values)
		a.values, a.swallow = all, true
		// HAT's, which DRCT takes and does not use.
		a.ignore("compress_ratio", "squeeze_factor", "conv_scale", "overlap_ratio")
		b, _ := networks.find(Redux, redux)
		return b(s, a)
	}
}
