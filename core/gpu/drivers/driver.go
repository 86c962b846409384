//go:build cgo && !carried

package drivers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// driver is the library, initialised.
type driver struct {
	version string
	cards   map[int]gpu.Device // as they answered last
}

func open() (*driver, error) {
	switch r := nvml.Init(); r {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("%w: %v", ErrNoDriver, r)
	default: // such as a version mismatch after an upgrade without a reboot
		return nil, fmt.Errorf("%v", r)
	}
	d := &driver{cards: map[int]gpu.Device{}}
	if has("nvmlSystemGetDriverVersion") {
		d.version, _ = nvml.SystemGetDriverVersion()
	}
	return d, nil
}

// has guards every call: a symbol that the installed library lacks would end this process.
func has(symbol string) bool { return nvml.Extensions().LookupSymbol(symbol) == nil }

func (d *driver) devices() ([]gpu.Device, error) {
	n, r := nvml.DeviceGetCount()
	var all []gpu.Device
	switch {
	case r != nvml.SUCCESS && len(d.cards) == 0:
		return nil, fmt.Errorf("counting the GPUs: %v", r)
	case r != nvml.SUCCESS:
		for _, i := range slices.Sorted(maps.Keys(d.cards)) {
			all = append(all, d.silent(i, gpu.Device{}, r))
		}
		return all, nil
	}
	for i := range n {
		h, r := nvml.DeviceGetHandleByIndex(i)
		var card gpu.Device
		if r == nvml.SUCCESS {
			card, r = d.describe(h, i)
		}
		switch {
		case faulty(r): // a lost card keeps its index, and the others go on
			all = append(all, d.silent(i, card, r))
			continue
		case card.Kind == "": // of a container that was given others
			continue
		}
		d.cards[i] = card
		all = append(all, card)
		if card.MIG {
			all = append(all, d.slices(h, card)...)
		}
	}
	return all, nil
}

// faulty reports whether a card that answers so is broken, or gone. The others are of a card that is well.
func faulty(r nvml.Return) bool {
	switch r {
	case nvml.SUCCESS, nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_NOT_FOUND,
		nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return false
	}
	return true
}

// silent is a card that does not answer: what tells it from others is as it answered last, or still does.
func (d *driver) silent(index int, now gpu.Device, r nvml.Return) gpu.Device {
	was := d.cards[index]
	return gpu.Device{Kind: gpu.CUDA, Index: index, UUID: cmp.Or(was.UUID, now.UUID, numbered(index)),
		Name: cmp.Or(was.Name, now.Name, unnamed), Driver: d.version, Fault: fmt.Sprint(r)}
}

const unnamed = "NVIDIA card"

// numbered is what tells a card from the others if its UUID is not known.
func numbered(index int) string { return fmt.Sprintf("nvml-%d", index) }

// describe is what the driver tells of a card. It returns why, if it does not tell its memory.
func (d *driver) describe(h nvml.Device, index int) (gpu.Device, nvml.Return) {
	c := gpu.Device{Kind: gpu.CUDA, Index: index, Driver: d.version}
	c.Name, _ = h.GetName()
	c.UUID, _ = h.GetUUID()
	c.Name, c.UUID = cmp.Or(c.Name, unnamed), cmp.Or(c.UUID, numbered(index))
	why := occupied(h, &c)
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
	c.Shared = why == nvml.ERROR_NOT_SUPPORTED && onSystem(c.Capability)
	return c, why
}

// looks is how often a card is read again whose memory changes meanwhile.
const looks = 4

// occupied reads what a card holds, and who holds it. The driver tells these one after the other. Memory of a process
// that ends or starts in between would be nobody's, so both are read until the memory has stayed the same.
func occupied(h nvml.Device, c *gpu.Device) nvml.Return {
	why := memory(h, c)
	for range looks {
		before := c.Used
		c.Processes, c.Unlisted = processes(h)
		if why = memory(h, c); c.Used == before {
			break
		}
	}
	return why
}

func memory(h nvml.Device, c *gpu.Device) nvml.Return {
	if has("nvmlDeviceGetMemoryInfo_v2") {
		if m, r := h.GetMemoryInfo_v2(); r == nvml.SUCCESS {
			reserved := unit.Bytes(m.Reserved)
			c.Reserved, c.Total, c.Used = &reserved, unit.Bytes(m.Total)-reserved, unit.Bytes(m.Used)
			return r
		}
	}
	m, r := h.GetMemoryInfo()
	if r == nvml.SUCCESS { // version 1 counts the driver's reserve as used
		c.Reserved, c.Total, c.Used = nil, unit.Bytes(m.Total), unit.Bytes(m.Used)
	}
	return r
}

// holders are the functions that list a card's processes, newest first, and what calls the newest that there is. The
// clients of MPS are in a list of their own.
var holders = []struct {
	names []string
	call  func(nvml.Device) ([]nvml.ProcessInfo, nvml.Return)
}{
	{[]string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
		"nvmlDeviceGetComputeRunningProcesses"}, nvml.Device.GetComputeRunningProcesses},
	{[]string{"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
		"nvmlDeviceGetMPSComputeRunningProcesses"}, nvml.Device.GetMPSComputeRunningProcesses},
}

// processes lists those that hold memory of a card. unknown: the driver does not list them.
func processes(h nvml.Device) (all []gpu.Process, unknown bool) {
	// The first drivers of R535 write longer entries than the interface has (github.com/XuehaiPan/nvitop, pull request
	// 79): they have this function, and not yet the other one.
	if has("nvmlDeviceGetConfComputeMemSizeInfo") && !has("nvmlDeviceGetRunningProcessDetailList") {
		return nil, true
	}
	at := map[uint32]int{}
	for i, list := range holders {
		ps, r := []nvml.ProcessInfo(nil), nvml.ERROR_FUNCTION_NOT_FOUND
		if slices.ContainsFunc(list.names, has) {
			ps, r = list.call(h)
		}
		unknown = unknown || i == 0 && r != nvml.SUCCESS
		for _, p := range ps {
			used := unit.Bytes(-1)
			if p.UsedGpuMemory != ^uint64(0) {
				used = unit.Bytes(p.UsedGpuMemory)
			}
			if k, is := at[p.Pid]; is {
				all[k].Used = max(all[k].Used, used)
				continue
			}
			at[p.Pid] = len(all)
			all = append(all, process(int(p.Pid), used))
		}
	}
	return all, unknown
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
		slice, r := d.describe(s, card.Index)
		if slice.UUID == numbered(card.Index) {
			slice.UUID = fmt.Sprintf("%s/%d", card.UUID, i)
		}
		if faulty(r) {
			slice.Fault = fmt.Sprint(r)
		}
		slice.MIG, slice.Parent, slice.Capability = true, card.UUID, card.Capability
		out = append(out, slice)
	}
	return out
}
