package drivers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// plant makes a recorded tree of the kernel's files the one that is read.
func plant(t *testing.T, tree string) string {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", "trees", tree+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir, before := t.TempDir(), Root
	Root = dir
	t.Cleanup(func() { Root = before })
	for _, f := range a.Files {
		write(t, dir, f.Name, strings.TrimSuffix(string(f.Data), "\n"))
	}
	return dir
}

// write writes a file of a tree: a link, where the kernel has one, and with zero bytes for "|" in the device tree.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	err := error(nil)
	switch {
	case filepath.Base(filepath.Dir(path)) == "fd":
		err = os.Symlink(text, path)
	case strings.Contains(name, "device-tree"):
		err = os.WriteFile(path, []byte(strings.ReplaceAll(text, "|", "\x00")), 0o644)
	default:
		err = os.WriteFile(path, []byte(text+"\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The cards of each tree, and who holds what of them.
func TestTrees(t *testing.T) {
	const kib, mib, gib = unit.KiB, unit.MiB, unit.GiB
	percent := func(n int) *int { return &n }
	linux := "6.8.0-45-generic"
	mi300 := gpu.Device{Kind: gpu.HIP, UUID: "GPU-e3aa140f9a5f9e31", Name: "AMD Instinct MI300X OAM", Arch: "gfx942",
		Driver: "amdgpu 6.10.5", Busy: percent(0)}
	for tree, want := range map[string][]gpu.Device{
		"rx7900xtx": {{Kind: gpu.HIP, UUID: "pci-0000:03:00.0", Name: "AMD Radeon RX 7900 XTX", Arch: "gfx1100",
			Driver: "amdgpu of Linux " + linux, Total: 24560 * mib, Used: 3 * gib, Busy: percent(37),
			Processes: []gpu.Process{{PID: 1200, Used: 512 * mib, Name: "Xorg"}, {PID: 4711, Used: 2 * gib, Name: "python3"}}}},
		"mi210": {{Kind: gpu.HIP, UUID: "GPU-1901ead3a2ecd4a6", Name: "AMD Instinct MI210", Arch: "gfx90a",
			Driver: "amdgpu 6.7.0", Total: 65520 * mib, Used: 32 * gib, Busy: percent(99),
			Processes: []gpu.Process{{PID: 31337, Used: 34348793856, Name: "python"}}},
			{Kind: gpu.HIP, Index: 1, UUID: "GPU-51276ac12ce05db3", Name: "AMD Instinct MI210", Arch: "gfx90a",
				Driver: "amdgpu 6.7.0", Total: 65520 * mib, Used: 10950656, Busy: percent(0)}},
		"mi300x-spx": {with(mi300, func(d *gpu.Device) { d.Total, d.Used = 196592*mib, 300552192 })},
		"mi300x-cpx": partitions(8, mi300, 3, 9663676416, (9961472000-9663676416)/8),
		"arc-a770": {{Kind: gpu.XPU, UUID: "pci-0000:03:00.0", Name: "Intel Arc A770", Driver: "i915 of Linux " + linux,
			Total: 15473 * mib, Used: 5396348 * kib,
			Processes: []gpu.Process{{PID: 4242, Used: 5396348 * kib, Name: "llama-server"}}}},
		"arc-b580": {{Kind: gpu.XPU, UUID: "pci-0000:03:00.0", Name: "Intel Arc B580", Driver: "xe of Linux " + linux,
			Total: 12215 * mib, Used: 23992 * kib,
			Processes: []gpu.Process{{PID: 685, Used: 23992 * kib, Name: "python3"}}}},
		"jetson-orin": {{Kind: gpu.CUDA, UUID: "soc", Name: "NVIDIA Jetson AGX Orin Developer Kit", Capability: "8.7",
			Shared: true, Unlisted: true, Total: 62840 * mib, Used: 62840*mib - 56*gib}},
		"gb10": nil, // its card is NVML's
	} {
		t.Run(tree, func(t *testing.T) {
			plant(t, tree)
			got := new(files).devices()
			for i := range got {
				for j := range got[i].Processes {
					got[i].Processes[j].User = "" // who wrote the tree
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func with(d gpu.Device, change func(*gpu.Device)) gpu.Device {
	change(&d)
	return d
}

// partitions are n equal parts of the card, of which one is held by a process, and each a part of what nobody holds.
func partitions(n int, whole gpu.Device, at int, held, rest unit.Bytes) (out []gpu.Device) {
	for i := range n {
		out = append(out, with(whole, func(d *gpu.Device) {
			d.Index, d.UUID = i, fmt.Sprintf("%s/%d", whole.UUID, i)
			d.Name += ", CPX partition"
			d.Total, d.Used = 196592*unit.MiB/8, rest
			if i == at {
				d.Used += held
				d.Processes = []gpu.Process{{PID: 900, Used: held, Name: "python"}}
			}
		}))
	}
	return out
}

// Files that are not there, not for this user, or not what they should be, make a card unknown, never the program fail.
func TestHostileTrees(t *testing.T) {
	const card, node = "sys/class/drm/card1/device/", "sys/class/kfd/kfd/topology/nodes/1/"
	for name, tt := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"as it is": {func(*testing.T, string) {}, "24560 3072 2"},
		"no size": {func(_ *testing.T, dir string) { os.Remove(filepath.Join(dir, card, "mem_info_vram_total")) },
			"0 3072 2"},
		"no use": {func(_ *testing.T, dir string) { os.Remove(filepath.Join(dir, card, "mem_info_vram_used")) },
			"24560 2560 2"},
		"not a size": {func(t *testing.T, dir string) { write(t, dir, card+"mem_info_vram_total", "-1") }, "0 3072 2"},
		"a huge size": {func(t *testing.T, dir string) {
			write(t, dir, card+"mem_info_vram_total", "99999999999999999999")
		}, "0 3072 2"},
		"more used than there is": {func(t *testing.T, dir string) {
			write(t, dir, card+"mem_info_vram_used", "99999999999999")
		}, "24560 24560 2"},
		"a folder for a file": {func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, card, "mem_info_vram_used"))
			write(t, dir, card+"mem_info_vram_used/x", "")
		}, "24560 2560 2"},
		"an endless file": {func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, card, "mem_info_vram_used"))
			if err := os.Symlink("/dev/zero", filepath.Join(dir, card, "mem_info_vram_used")); err != nil {
				t.Fatal(err)
			}
		}, "24560 2560 2"},
		"a node that the cgroup hides": {func(t *testing.T, dir string) { write(t, dir, node+"properties", "") }, "none"},
		"the card has gone": {func(_ *testing.T, dir string) {
			os.RemoveAll(filepath.Join(dir, "sys/class/drm/card1"))
		}, "none"},
		"no /dev/kfd": {func(_ *testing.T, dir string) { os.Remove(filepath.Join(dir, "dev/kfd")) }, "none"},
		"processes of others": {func(_ *testing.T, dir string) { // neither their files nor ROCm's list
			os.RemoveAll(filepath.Join(dir, "proc/1200/fd"))
			os.RemoveAll(filepath.Join(dir, "proc/4711/fd"))
			os.RemoveAll(filepath.Join(dir, "proc/4712/fd"))
			os.RemoveAll(filepath.Join(dir, "sys/class/kfd/kfd/proc"))
		}, "24560 3072 0"},
		"a client that lies": {func(t *testing.T, dir string) {
			write(t, dir, "proc/1200/fdinfo/12",
				"drm-client-id:\t99\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t9999999999999 GiB")
			write(t, dir, "proc/1200/fdinfo/13", "drm-client-id:\t98\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\tmany KiB")
		}, "24560 3072 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := plant(t, "rx7900xtx")
			tt.change(t, dir)
			got := "none"
			for _, d := range new(files).devices() {
				if !d.Shared {
					got = fmt.Sprint(int64(d.Total/unit.MiB), int64(d.Used/unit.MiB), len(d.Processes))
				}
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// The graphics of a processor are a device where there is no other: with the memory of the machine.
func TestAPU(t *testing.T) {
	dir := plant(t, "rx7900xtx")
	write(t, dir, "sys/class/kfd/kfd/topology/nodes/1/properties", "")
	all := new(files).devices()
	if len(all) != 1 || !all[0].Shared || all[0].Total != 33538617344 || all[0].Used != 52428800 ||
		all[0].Arch != "gfx1036" {
		t.Errorf("%+v", all)
	}
	write(t, dir, "proc/meminfo", "MemTotal: 65434256 kB\nMemAvailable: 1024 kB")
	if all := new(files).devices(); len(all) != 1 || all[0].Free() != unit.MiB {
		t.Errorf("with 1 MiB available: %+v", all)
	}
	write(t, dir, "sys/class/drm/card2/device/mem_info_vram_total", "68719476736") // set aside in the firmware
	if all := new(files).devices(); len(all) != 1 || all[0].Shared || all[0].Total != 64*unit.GiB {
		t.Errorf("with memory of its own: %+v", all)
	}
}

// A container may have one of a card's partitions: it is the same one outside, and no larger.
func TestOnePartition(t *testing.T) {
	dir := plant(t, "mi300x-cpx")
	for _, n := range []int{2, 3, 4, 6, 7, 8, 9} {
		write(t, dir, fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/properties", n), "")
	}
	all := new(files).devices()
	if len(all) != 1 || all[0].Index != 0 || all[0].UUID != "GPU-e3aa140f9a5f9e31/3" ||
		all[0].Total != 196592*unit.MiB/8 || all[0].Used != 9663676416+(9961472000-9663676416)/8 {
		t.Errorf("%+v", all)
	}
}

// List and Watch go on to the kernel's files where there is no NVIDIA card, and a card that goes is seen to go.
func TestOthers(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "/nonexistent")
	t.Setenv("PATH", t.TempDir())
	dir := plant(t, "mi210")
	all, err := List(t.Context())
	if err != nil || len(all) != 2 || all[0].Kind != gpu.HIP {
		t.Fatalf("%+v, %v", all, err)
	}
	var counts []int
	ctx, cancel := context.WithCancel(t.Context())
	err = Watch(ctx, time.Millisecond, func(_ time.Time, all []gpu.Device) {
		counts = append(counts, len(all))
		switch len(counts) {
		case 1:
			os.RemoveAll(filepath.Join(dir, "sys/class/drm/card1"))
		case 2:
			os.RemoveAll(filepath.Join(dir, "sys/class/drm/card2"))
		case 3:
			cancel()
		}
	})
	if diff := cmp.Diff([]int{2, 1, 0}, counts); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// On a busy machine what reads files is waited for past its deadline, and what hangs is not.
func TestMoving(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	slow := func() []gpu.Device {
		for range 15 {
			time.Sleep(still / 5)
			text("etc/hostname")
		}
		return []gpu.Device{{Index: 7}}
	}
	if all, err := moving(late, slow); err != nil || len(all) != 1 {
		t.Errorf("what still read was given up: %v, %v", all, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := moving(gone, func() []gpu.Device { select {} }); !errors.Is(err, context.Canceled) {
		t.Errorf("what was cancelled: %v", err)
	}
}

// What hangs is given up. It runs alone: other tests read files.
func TestHangs(t *testing.T) {
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := moving(late, func() []gpu.Device { select {} }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("what hangs: %v", err)
	}
}
