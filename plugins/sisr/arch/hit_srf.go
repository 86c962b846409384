package arch

// HiT-SRF (Zhang et al., 2024): traiNNer/archs/hit_srf_arch.py at 68629319. It is HiT-SIR with the convolution of SRFormer's
// feed-forward network in its own, and with images that may be smaller than half a window: see hit.
var _ = entry(func() { register(buildHiT(srf), "hit_srf") })
