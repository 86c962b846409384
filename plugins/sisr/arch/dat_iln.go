package arch

// DAT with i-LN: traiNNer/archs/dat_iln_arch.py at 68629319. It is DAT with other norms, whose deviations its branches are
// multiplied with, and without the mean of an image: see dat.
var _ = entry(func() {
	register(buildDAT(6, 6, 180, 4, []int64{8, 32}, "1conv", true), "dat_iln")
	register(buildDAT(6, 6, 180, 2, []int64{8, 16}, "1conv", true), "dat_iln_s")
	register(buildDAT(6, 6, 180, 2, []int64{8, 32}, "1conv", true), "dat_iln_2")
	register(buildDAT(1, 18, 60, 2, []int64{8, 32}, "3conv", true), "dat_iln_light")
})
