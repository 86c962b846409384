package arch

// HAT with i-LN: traiNNer/archs/hat_iln_arch.py at 68629319. It is HAT with other norms, whose deviations its branches are
// multiplied with, and without the mean of an image: see hat.
var _ = entry(func() {
	register(buildHAT(180, 12, 3, 30, true), "hat_iln_l")
	register(buildHAT(180, 6, 3, 30, true), "hat_iln_m")
	register(buildHAT(144, 6, 24, 24, true), "hat_iln_s")
	register(buildHAT(192, 12, 3, 30, true), "hat_iln_l_aligned")
	register(buildHAT(192, 6, 3, 30, true), "hat_iln_m_aligned")
})
