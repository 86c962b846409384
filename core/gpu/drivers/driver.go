//go:build cgo && !carried

package drivers

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// driver is the library, initialised.
type driver struct{ version string }

func open() (*driver, error) {
	switch r := nvml.Init(); r {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("%w: %v", ErrNoDriver, r)
	default: // such as a version mismatch after an upgrade without a reboot
		return nil, fmt.Errorf("%v", r)
	}
	d := &driver{}
	if has("nvmlSystemGetDriverVersion") {
		d.version, _ = nvml.SystemGetDriverVersion()
	}
	return d, nil
}

// has guards every call: a symbol that the installed library lacks would end this process.
func has(symbol string) bool { return nvml.Extensions().LookupSymbol(symbol) == nil }

func (d *driver) devices() ([]gpu.Device, error) {
	n, r := nvml.DeviceGetCount()
	if r != nvml.SUCCESS {
		return nil, fmt.Errorf("counting the GPUs: %v", r)
	}
	var all []gpu.Device
	for i := range n {
		h, r := nvml.DeviceGetHandleByIndex(i)
		if r != nvml.SUCCESS { // a lost card keeps its index, and the others go on
			continue
		}
		card := d.describe(h, i)
		all = append(all, card)
		if card.MIG {
			all = append(all, d.slices(h, card)...)
		}
	}
	return all, nil
}

func (d *driver) describe(h nvml.Device, index int) gpu.Device {
	c := gpu.Device{Kind: gpu.CUDA, Index: index, Driver: d.version}
	c.Name, _ = h.GetName()
	c.UUID, _ = h.GetUUID()
	occupied(h, &c)
	if has("nvmlDeviceGetCudaComputeCapability") {
		if major, minor, r := h.GetCudaComputeCapability(); r == nvml.SUCCESS {
			c.Capability = fmt.Sprintf("%d.%d", major, minor)
		}
	}
	if has("nvmlDeviceGetUtilizationRates") { // not for MIG slices, and not for a card that is cut into them
		if u, r := h.GetUtilizationRates(); r == nvml.SUCCESS && u.Gpu <= 100 {
			busy := int(u.Gpu)
			c.Busy = &busy
		}
	}
	if has("nvmlDeviceGetMigMode") {
		if now, _, r := h.GetMigMode(); r == nvml.SUCCESS {
			c.MIG = now == nvml.DEVICE_MIG_ENABLE
		}
	}
	return c
}

// looks is how often a card is read again whose memory changes meanwhile.
const looks = 4

// occupied reads what a card holds, and who holds it. The driver tells these one after the other. Memory of a process
// that ends or starts in between would be nobody's, so both are read until the memory has stayed the same.
func occupied(h nvml.Device, c *gpu.Device) {
	memory(h, c)
	for range looks {
		before := c.Used
		c.Processes = processes(h)
		if memory(h, c); c.Used == before {
			return
		}
	}
}

func memory(h nvml.Device, c *gpu.Device) {
	if has("nvmlDeviceGetMemoryInfo_v2") {
		if m, r := h.GetMemoryInfo_v2(); r == nvml.SUCCESS {
			reserved := unit.Bytes(m.Reserved)
			c.Reserved, c.Total, c.Used = &reserved, unit.Bytes(m.Total)-reserved, unit.Bytes(m.Used)
			return
		}
	}
	// version 1 counts the driver's reserve as used
	switch m, r := h.GetMemoryInfo(); r {
	case nvml.SUCCESS:
		c.Reserved, c.Total, c.Used = nil, unit.Bytes(m.Total), unit.Bytes(m.Used)
	case nvml.ERROR_NOT_SUPPORTED: // GB10, Jetson
		c.Shared = true
	}
}

func processes(h nvml.Device) (all []gpu.Process) {
	if !has("nvmlDeviceGetComputeRunningProcesses_v3") && !has("nvmlDeviceGetComputeRunningProcesses_v2") {
		return nil
	}
	ps, r := h.GetComputeRunningProcesses()
	if r != nvml.SUCCESS {
		return nil
	}
	for _, p := range ps {
		used := unit.Bytes(-1)
		if p.UsedGpuMemory != ^uint64(0) {
			used = unit.Bytes(p.UsedGpuMemory)
		}
		all = append(all, process(int(p.Pid), used))
	}
	return all
}

func (d *driver) slices(h nvml.Device, card gpu.Device) (out []gpu.Device) {
	if !has("nvmlDeviceGetMaxMigDeviceCount") || !has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return nil
	}
	n, r := h.GetMaxMigDeviceCount()
	if r != nvml.SUCCESS {
		return nil
	}
	for i := range n {
		s, r := h.GetMigDeviceHandleByIndex(i)
		if r != nvml.SUCCESS { // an empty place
			continue
		}
		slice := d.describe(s, card.Index)
		slice.MIG, slice.Parent, slice.Capability = true, card.UUID, card.Capability
		out = append(out, slice)
	}
	return out
}
