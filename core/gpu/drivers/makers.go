package drivers

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// The makers of cards, by the numbers that PCI knows them by.
const (
	amd   = "1002"
	intel = "8086"
)

// displays returns the folder of each card's files by its PCI address, of the cards of one maker.
func displays(maker string) map[string]string {
	out := map[string]string{}
	for _, name := range names("sys/class/drm") {
		dir := filepath.Join("sys/class/drm", name, "device")
		if !strings.HasPrefix(name, "card") || strings.Contains(name, "-") || text(dir, "vendor") != "0x"+maker {
			continue
		}
		if pci := pairs(text(dir, "uevent"), "=")["PCI_SLOT_NAME"]; pci != "" {
			out[pci] = dir
		}
	}
	return out
}

// pairs reads lines of a name and a value.
func pairs(text, between string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), between)
		out[name] = strings.TrimSpace(value)
	}
	return out
}

// amdCards returns the cards that ROCm's driver lists, in its order, which is that of HIP. A node that this user's
// cgroup hides cannot be read, and ROCm skips it too. Without /dev/kfd no program here can use them.
func amdCards() (out []card) {
	if _, err := os.Stat(filepath.Join(Root, "dev/kfd")); err != nil {
		return nil
	}
	const nodes = "sys/class/kfd/kfd/topology/nodes"
	dirs := displays(amd)
	index := 0
	var of []string // the node of each
	for _, node := range names(nodes) {
		p := pairs(text(nodes, node, "properties"), " ")
		if simd, err := strconv.Atoi(p["simd_count"]); err != nil || simd == 0 {
			continue // a processor
		}
		at := index
		index++
		pci, part := address(p, dirs)
		if dirs[pci] == "" { // it has gone
			continue
		}
		c := amdCard(dirs[pci], p)
		if c.Shared && !usable() { // a program runs on the processor then
			continue
		}
		c.Index, c.pci, c.kfd = at, pci, text(nodes, node, "gpu_id")
		c.UUID = "pci-" + pci
		if id, err := strconv.ParseUint(p["unique_id"], 10, 64); err == nil && id != 0 {
			c.UUID = fmt.Sprintf("GPU-%016x", id)
		}
		if mode := text(dirs[pci], "current_compute_partition"); partsOf[mode] > 0 {
			c.UUID += fmt.Sprintf("/%d", part)
		}
		of = append(of, filepath.Join(nodes, node))
		out = append(out, c)
	}
	count := map[string]int{}
	for _, c := range out {
		count[c.pci]++
	}
	for i := range out {
		dir := dirs[out[i].pci]
		mode := text(dir, "current_compute_partition")
		if n := max(count[out[i].pci], partsOf[mode]); n > 1 { // of some of them a cgroup may hide the nodes
			out[i].divide(mode, n, bank(of[i]))
		}
	}
	return out
}

// partsOf are the modes in which a card is more than one device, with how many it then is: of an MI300A and CPX it is
// 6, and then only the rest that nobody holds is shared out too thin (Linux, amdgpu/aqua_vanjaram.c).
var partsOf = map[string]int{"DPX": 2, "TPX": 3, "QPX": 4, "CPX": 8}

// bank is the memory that ROCm's driver gives a node; 0 if it is not known.
func bank(node string) (size unit.Bytes) {
	for _, name := range names(node, "mem_banks") {
		b := pairs(text(node, "mem_banks", name, "properties"), " ")
		if n, ok := bytesOf(b["size_in_bytes"]); ok && (b["heap_type"] == "1" || b["heap_type"] == "2") {
			size += n
		}
	}
	return size
}

// address is the PCI address of a node of ROCm's driver: its location_id has bus, device and function, and the
// function counts the partitions of a card that is cut: part.
func address(p, dirs map[string]string) (pci string, part uint64) {
	n := func(name string) uint64 { v, _ := strconv.ParseUint(p[name], 10, 32); return v }
	at := n("location_id")
	own := fmt.Sprintf("%04x:%02x:%02x.%d", n("domain"), at>>8&0xff, at>>3&0x1f, at&7)
	if dirs[own] != "" {
		return own, 0
	}
	return own[:len(own)-1] + "0", at & 7
}

// amdCard reads the files of amdgpu.
func amdCard(dir string, p map[string]string) card {
	c := card{Device: gpu.Device{Kind: gpu.HIP, Name: amdName(dir), Arch: arch(p["gfx_target_version"])}}
	c.Driver = "amdgpu " + cmp.Or(text("sys/module/amdgpu/version"), "of Linux "+text("proc/sys/kernel/osrelease"))
	c.Total, _ = amount(dir, "mem_info_vram_total")
	used, ok := amount(dir, "mem_info_vram_used")
	c.Used, c.blind = used, !ok
	c.regions = []string{"vram"}
	if busy, err := strconv.Atoi(text(dir, "gpu_busy_percent")); err == nil && busy >= 0 && busy <= 100 {
		c.Busy = &busy
	}
	gtt, ok := amount(dir, "mem_info_gtt_total")
	if integrated(c.Arch, strings.TrimPrefix(text(dir, "device"), "0x")) && (!ok || gtt > c.Total) {
		taken, _ := amount(dir, "mem_info_gtt_used")
		c.share(gtt, taken)
	}
	return c
}

// share makes the device one that takes the machine's memory: at most as much of it as the driver gives out.
func (c *card) share(most, taken unit.Bytes) {
	total, used := hostMemory()
	free := total - used
	if most > 0 && most < total {
		total, free = most, min(free, max(0, most-taken))
	}
	c.Shared, c.Total, c.Used = true, total, max(0, total-free)
	c.regions = append(c.regions, "gtt")
}

// divide makes the device one of n partitions. ROCm's driver tells how much each may take; else each has an equal part.
func (c *card) divide(mode string, n int, size unit.Bytes) {
	c.parts, c.whole = n, c.Used
	if size == 0 || size > c.Total {
		size = c.Total / unit.Bytes(n)
	}
	if !c.Shared {
		c.Total = size
	}
	c.Name += ", " + cmp.Or(mode, "a") + " partition"
}

// arch is AMD's name of an architecture, "gfx90a" of 90010: the last two numbers are hexadecimal digits.
func arch(version string) string {
	n, err := strconv.Atoi(version)
	if err != nil || n <= 0 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", n/10000, n/100%100, n%100)
}

// apus are the architectures of graphics in a processor (LLVM, AMDGPUUsage, "APU" in the table of processors).
var apus = []string{"gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1103", "gfx1150",
	"gfx1151", "gfx1152", "gfx1153"}

// integrated reports whether an AMD device is a part of a processor. An MI300A has the architecture of an MI300X.
func integrated(arch, device string) bool { return slices.Contains(apus, arch) || device == "74a0" }

// amdName is the name of an AMD device: servers' cards have one; of others libdrm's list may know it.
func amdName(dir string) string {
	if name := text(dir, "product_name"); name != "" {
		return name
	}
	device := strings.TrimPrefix(text(dir, "device"), "0x")
	revision := strings.TrimPrefix(text(dir, "revision"), "0x")
	for line := range strings.Lines(list("usr/share/libdrm/amdgpu.ids")) {
		f := strings.SplitN(line, ",", 3)
		if len(f) == 3 && strings.EqualFold(strings.TrimSpace(f[0]), device) &&
			strings.EqualFold(strings.TrimSpace(f[1]), revision) {
			return strings.TrimSpace(f[2])
		}
	}
	return cmp.Or(pciName(amd, device, "AMD"), "AMD GPU "+device)
}

// lists are the lists of names that were read, by their paths.
var lists sync.Map

// list returns the text of a list of names, which is read once.
func list(path string) string {
	path = filepath.Join(Root, path)
	if text, ok := lists.Load(path); ok {
		return text.(string)
	}
	text := ""
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() < 8<<20 {
		if b, err := os.ReadFile(path); err == nil {
			text = string(b)
		}
	}
	lists.Store(path, text)
	return text
}

// pciName is the name of a device in the list of all PCI devices, if this machine has it. Of "Navi 31 [Radeon RX 7900
// XTX]" the part in brackets is the card's.
func pciName(maker, device, brand string) string {
	for _, path := range []string{"usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids"} {
		own := false
		for line := range strings.Lines(list(path)) {
			switch {
			case !strings.HasPrefix(line, "\t"):
				own = strings.HasPrefix(line, maker)
			case own && strings.HasPrefix(line, "\t"+device):
				name := strings.TrimSpace(line[1+len(device):])
				if _, in, ok := strings.Cut(name, "["); ok {
					name = strings.TrimSuffix(in, "]")
				}
				return brand + " " + strings.TrimPrefix(name, brand+" ")
			}
		}
	}
	return ""
}

// intelCards returns Intel's cards that have memory of their own, in the order of the PCI bus, which is that of Level
// Zero. The graphics of a processor, which are on the first bus, are not listed: a program that runs there is rare, and
// one that uses the processor alone would be taken for it.
//
// No driver of Intel's tells everybody what a card holds: Used is what is seen of the processes. xe tells the size of
// each tile, with what it keeps; i915 tells none before 6.x's lmem_total_bytes. Else the size is what PyTorch sees of a
// card of that name, or is not known.
func intelCards() (out []card) {
	dirs := displays(intel)
	var order []string
	for pci := range dirs {
		if strings.Count(pci, ":") == 2 && !strings.HasPrefix(pci[strings.Index(pci, ":")+1:], "00:") {
			order = append(order, pci)
		}
	}
	slices.Sort(order)
	for _, pci := range order {
		dir := dirs[pci]
		module := pairs(text(dir, "uevent"), "=")["DRIVER"]
		device := strings.TrimPrefix(text(dir, "device"), "0x")
		c := card{pci: pci, blind: true, Device: gpu.Device{Kind: gpu.XPU, UUID: "pci-" + pci,
			Name:   cmp.Or(pciName(intel, device, "Intel"), "Intel GPU "+device),
			Driver: module + " of Linux " + text("proc/sys/kernel/osrelease")}}
		known, _ := gpu.Named(strings.TrimPrefix(c.Name, "Intel "))
		add := func(region string, size unit.Bytes) {
			c.Index, c.Total, c.regions = len(out), size, []string{region}
			if sees := known.Bytes(); sees > 0 && (size == 0 || sees < size) {
				c.Total = sees
			}
			out = append(out, c)
		}
		tiles := 0
		for i := range 8 {
			if size, ok := amount(dir, fmt.Sprintf("tile%d", i), "physical_vram_size_bytes"); ok && size > 0 {
				add(fmt.Sprintf("vram%d", i), size)
				tiles++
			}
		}
		if tiles > 0 {
			continue
		}
		size, _ := amount(dir, "..", "lmem_total_bytes")
		if module == "xe" {
			add("vram0", size)
		} else {
			add("local0", size)
		}
	}
	return out
}

// usable reports whether this user may open ROCm's driver.
func usable() bool { return unix.Access(filepath.Join(Root, "dev/kfd"), unix.R_OK|unix.W_OK) == nil }
