package drivers

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// Linux shows every card in files, and what each process holds of it. Nothing here was seen on a real card: the files
// are read as the kernel's documentation has them (gpu/amdgpu/driver-misc, gpu/drm-usage-stats) and as public reports
// show them (testdata in other tools, see the tests).

// Root is the folder in which the kernel's files are read. Tests change it.
var Root = "/"

const (
	longest = 64 << 10 // the most that is read of a file
	most    = 256      // the most cards that are listed
	tooMuch = 1 << 50  // no card has so many bytes
)

// reads counts the files and folders that were read.
var reads atomic.Int64

// text returns a file's text without the space around it; "" if it cannot be read.
func text(path ...string) string {
	defer reads.Add(1)
	f, err := os.OpenFile(filepath.Join(append([]string{Root}, path...)...), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil { // the card has gone meanwhile
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// amount returns a file's number of bytes. ok is false if there is none that can be true.
func amount(path ...string) (unit.Bytes, bool) { return bytesOf(text(path...)) }

func bytesOf(s string) (unit.Bytes, bool) {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || n < 0 || n >= tooMuch {
		return 0, false
	}
	return unit.Bytes(n), true
}

// names lists a folder, sorted; numbers as numbers.
func names(path ...string) (out []string) {
	defer reads.Add(1)
	entries, _ := os.ReadDir(filepath.Join(append([]string{Root}, path...)...))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	number := func(s string) int { n, _ := strconv.Atoi(strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyzD")); return n }
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return out
}

// files reads the kernel's files again and again. What a process has opened is searched for only now and then.
type files struct {
	clients  []string // the files of /proc/PID/fdinfo that are of a card
	searched time.Time
}

// A card is a device, and where its figures are.
type card struct {
	gpu.Device
	pci     string
	kfd     string     // ROCm's number of it; "" without
	regions []string   // of its memory in fdinfo: "vram"; "vram0"; "local0"
	parts   int        // of how many partitions of one card it is one; 0: it is the card
	whole   unit.Bytes // of a partition: what all of them hold, by the driver
	blind   bool       // the driver reports no use: it is the sum of what is seen of the processes
}

// devices returns the cards of one maker, and what the processes hold of them.
func (f *files) devices() []gpu.Device {
	cards := amdCards()
	if len(cards) == 0 {
		cards = intelCards()
	}
	if len(cards) == 0 {
		return tegra()
	}
	open, rocm := f.open(), rocmHolds()
	on := map[string]unit.Bytes{} // what processes hold of a card in all its partitions
	for _, c := range cards {
		for _, b := range rocm[c.kfd] {
			on[c.pci] += b
		}
	}
	var out []gpu.Device
	for _, c := range cards[:min(most, len(cards))] {
		held := maps.Clone(rocm[c.kfd])
		if held == nil {
			held = map[int]unit.Bytes{}
		}
		if c.parts == 0 {
			for pid, b := range open.of(c.pci, c.regions) {
				held[pid] = max(held[pid], b)
			}
		}
		out = append(out, c.with(held, on[c.pci]))
	}
	return separate(out)
}

// with is the device with the processes that hold memory of it. on is what they hold of all its partitions.
func (c card) with(held map[int]unit.Bytes, on unit.Bytes) gpu.Device {
	sum := unit.Bytes(0)
	for _, pid := range slices.Sorted(maps.Keys(held)) {
		sum += held[pid]
		c.Processes = append(c.Processes, process(pid, held[pid]))
	}
	switch {
	case c.Shared:
		return c.Device
	case c.blind:
		c.Used = sum
	case c.parts > 0: // what no process holds is shared out
		c.Used = sum + max(0, c.whole-on)/unit.Bytes(c.parts)
	}
	if c.Total > 0 {
		c.Used = min(c.Used, c.Total)
	}
	return c.Device
}

// separate makes each UUID that of one device: the partitions of a card have its UUID and their number. Where a card
// has memory of its own, the graphics of the processor are left out: their room would be taken for that of the card.
func separate(all []gpu.Device) []gpu.Device {
	if slices.ContainsFunc(all, func(d gpu.Device) bool { return !d.Shared }) {
		all = slices.DeleteFunc(all, func(d gpu.Device) bool { return d.Shared })
	}
	count, at := map[string]int{}, map[string]int{}
	for _, d := range all {
		count[d.UUID]++
	}
	for i := range all {
		if id := all[i].UUID; count[id] > 1 {
			all[i].UUID = fmt.Sprintf("%s/%d", id, at[id])
			at[id]++
		}
	}
	return all
}

// A holding is what one client of a card's driver holds in a region of memory.
type holding struct {
	pci, region string
	pid         int
	bytes       unit.Bytes
}

type holdings []holding

// of adds up what each process holds in these regions of a card.
func (h holdings) of(pci string, regions []string) map[int]unit.Bytes {
	by := map[int]unit.Bytes{}
	for _, c := range h {
		if c.pci == pci && slices.Contains(regions, c.region) && c.bytes > 0 {
			by[c.pid] += c.bytes
		}
	}
	return by
}

// searchEvery is how often all processes are searched for those that have opened a card.
const searchEvery = 2 * time.Second

// open reads what the processes hold, of those that this user may look at: the kernel's drm-usage-stats. A client of
// the driver that several files or processes share counts once.
func (f *files) open() (out holdings) {
	if time.Since(f.searched) > searchEvery {
		f.searched, f.clients = time.Now(), nil
		for _, pid := range names("proc") {
			if _, err := strconv.Atoi(pid); err != nil {
				continue
			}
			for _, fd := range names("proc", pid, "fd") {
				to, err := os.Readlink(filepath.Join(Root, "proc", pid, "fd", fd))
				if err == nil && strings.HasPrefix(to, "/dev/dri/") {
					f.clients = append(f.clients, filepath.Join("proc", pid, "fdinfo", fd))
				}
			}
		}
	}
	seen := map[string]bool{}
	for _, path := range f.clients {
		pid, _ := strconv.Atoi(strings.Split(path, "/")[1])
		pci, id, by := fdinfo(text(path))
		if id == "" || seen[pci+" "+id] {
			continue
		}
		seen[pci+" "+id] = true
		for region, b := range by {
			out = append(out, holding{pci, region, pid, b})
		}
	}
	return out
}

// fdinfo reads what a client of a DRM driver holds, by region. Of the words for an amount the one that is nearest to
// what lies in memory counts: resident, then amdgpu's older memory, then total.
func fdinfo(text string) (pci, client string, by map[string]unit.Bytes) {
	by = map[string]unit.Bytes{}
	rank := map[string]int{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "drm-pdev":
			pci = value
		case "drm-client-id":
			client = value
		}
		for i, word := range []string{"drm-total-", "drm-memory-", "drm-resident-"} {
			region, is := strings.CutPrefix(key, word)
			b, ok := drmAmount(value)
			if is && ok && i+1 > rank[region] {
				rank[region], by[region] = i+1, b
			}
		}
	}
	return pci, client, by
}

// drmAmount reads an amount of drm-usage-stats: bytes, or with the unit KiB or MiB.
func drmAmount(s string) (unit.Bytes, bool) {
	number, in, _ := strings.Cut(s, " ")
	factor, known := map[string]unit.Bytes{"": 1, "B": 1, "KiB": unit.KiB, "kB": unit.KiB, "MiB": unit.MiB,
		"GiB": unit.GiB}[in]
	b, ok := bytesOf(number)
	if !known || !ok || b > tooMuch/factor {
		return 0, false
	}
	return b * factor, true
}

// rocmHolds returns what ROCm's driver reports of all processes, which anyone may read: by its number of a card, and by
// process (/sys/class/kfd/kfd/proc/PID/vram_NUMBER).
func rocmHolds() map[string]map[int]unit.Bytes {
	const dir = "sys/class/kfd/kfd/proc"
	out := map[string]map[int]unit.Bytes{}
	for _, name := range names(dir) {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		for _, file := range names(dir, name) {
			id, is := strings.CutPrefix(file, "vram_")
			b, ok := amount(dir, name, file)
			if !is || !ok || b == 0 {
				continue
			}
			if out[id] == nil {
				out[id] = map[int]unit.Bytes{}
			}
			out[id][pid] = b
		}
	}
	return out
}

// hostMemory returns the machine's memory, and what of it cannot be had: all but what the kernel estimates that a new
// program can take.
func hostMemory() (total, used unit.Bytes) {
	free := unit.Bytes(0)
	for line := range strings.Lines(text("proc/meminfo")) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch b, _ := bytesOf(f[1]); f[0] {
		case "MemTotal:":
			total = b * unit.KiB
		case "MemAvailable:":
			free = b * unit.KiB
		}
	}
	return total, max(0, total-free)
}

// nvmap lists what the processes hold of a Jetson's memory as its card's: a table for root, with the columns that
// public monitors of a Jetson read: client, process, pid, size in KiB.
func nvmap() (all []gpu.Process) {
	for line := range strings.Lines(text("sys/kernel/debug/nvmap/iovmm/clients")) {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		pid, err := strconv.Atoi(f[2])
		kib, is := strings.CutSuffix(f[3], "K")
		if b, ok := bytesOf(kib); err == nil && is && ok {
			all = append(all, process(pid, b*unit.KiB))
		}
	}
	return all
}

// tegra returns the card of a Jetson whose NVML cannot be asked: by the names of the board that its firmware gives.
func tegra() []gpu.Device {
	const board = "proc/device-tree"
	d := gpu.Device{Kind: gpu.CUDA, UUID: "soc", Shared: true, Name: strings.Trim(text(board, "model"), "\x00")}
	capability := map[string]string{"nvidia,tegra210": "5.3", "nvidia,tegra186": "6.2", "nvidia,tegra194": "7.2",
		"nvidia,tegra234": "8.7"}
	for name := range strings.SplitSeq(text(board, "compatible"), "\x00") {
		if strings.HasPrefix(name, "nvidia,tegra") {
			d.Capability = capability[name]
			d.Name = cmp.Or(d.Name, name)
			d.Total, d.Used = hostMemory()
			d.Processes = nvmap()
			d.Unlisted = len(d.Processes) == 0
			return []gpu.Device{d}
		}
	}
	return nil
}
