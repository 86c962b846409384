/* What torch's CUDA build asks of a driver while a tracer runs without a card. The library is loaded before torch and
 * with its symbols visible, so that it answers in their place: c10::cuda::device_count() of torch itself, 0 until torch
 * has put its no-op device guard in place, and the call of the driver that each backward makes for its device. */
int launch_devices = 0;
signed char _ZN3c104cuda12device_countEv(void) { return (signed char)launch_devices; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
	(void)device;
	if (flags) *flags = 0;
	*active = 1;
	return 0;
}
