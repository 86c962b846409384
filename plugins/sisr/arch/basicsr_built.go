package arch

import "maps"

// The networks of projects that are built on BasicSR and compute what traiNNer-redux's of another name do, by other
// defaults: HAT (hat/archs/hat_arch.py at 1638a9a) and DAT (basicsr/archs/dat_arch.py at 1645c64). Both drop what
// they do not read.
func init() {
	four := func(n int64) []any { return []any{n, n, n, n} }
	hat := map[string]any{"window_size": int64(7), "mlp_ratio": int64(4), "upsampler": ""}
	networks.add(HAT, buildHAT(96, 4, 3, 30, false).of(hat), "hat")
	dat := map[string]any{"num_heads": four(2)}
	networks.add(DAT, buildDAT(4, 2, 180, 4, []int64{2, 4}, "1conv", false).of(dat), "dat")

	// hat_model.py, realhatmse_model.py and realhatgan_model.py, dat_model.py: BasicSR's loops.
	sr := model{record: basicLoop{sections: pixelSections}.record, gradientsStay: true}
	models.add(HAT, sr, "hatmodel", "realhatmsemodel")
	gan := basicLoop{sections: ganSections, sharpened: true}
	models.add(HAT, model{record: gan.record, gradientsStay: true}, "realhatganmodel")
	models.add(DAT, sr, "datmodel")
}

// of is the builder of a class of the same arguments with other defaults, with an argument "upscale" of its own,
// which drops what it does not read.
func (b builder) of(defaults map[string]any) builder {
	return func(s Spec, a *args) (Network, error) {
		var err error
		if s.Scale, err = a.upscale("upscale", s); err != nil {
			return Network{}, err
		}
		all := maps.Clone(defaults)
		maps.Copy(all, a.values)
		a.values, a.swallow = all, true
		return b(s, a)
	}
}
