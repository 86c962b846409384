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

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

func TestMain(m *testing.M) {
	ChildMain()
	os.Exit(m.Run())
}

// fakeTool puts an nvidia-smi on the PATH that prints these tables. It knows the fields of a driver; all: "".
func fakeTool(t *testing.T, unknown, cards, apps string, exit int) {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
for field in %s; do
	case "$1" in --query-gpu=*$field*) printf 'Field "%%s" is not a valid field to query.\n\n' $field; exit 2;; esac
done
[ "$2" = --format=csv,noheader,nounits ] || exit 3
case "$1" in
--query-gpu=*) cat <<'.'
%s
.
	exit %d;;
--query-compute-apps=gpu_uuid,pid,used_memory) printf '%%s' '%s';;
*) exit 4;;
esac
`, unknown, cards, exit, apps)
	if err := os.WriteFile(filepath.Join(dir, tool), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

const (
	noReserve = "memory.reserved compute_cap"
	v100      = "0, GPU-0a1b, Tesla V100-SXM2-16GB, 470.182.03, 16160, 1234, 7, N/A"
)

// What nvidia-smi prints: its notation as bug reports quote it, of the drivers 418, 470, 535 and 550.
func TestTool(t *testing.T) {
	gone := 1 << 30 // no process has this number
	busy := func(n int) *int { return &n }
	card := gpu.Device{Kind: gpu.CUDA, UUID: "GPU-0a1b", Name: "Tesla V100-SXM2-16GB", Driver: "470.182.03",
		Total: 16160 * unit.MiB, Used: 1234 * unit.MiB, Busy: busy(7), Asked: tool}
	older, holds := card, card
	older.Driver = "418.87"
	holds.Processes = []gpu.Process{{PID: gone, Used: 1000 * unit.MiB}, {PID: gone + 1, Used: -1}}
	for name, tt := range map[string]struct {
		unknown, cards, apps string
		exit                 int
		want                 []gpu.Device
		err                  string
	}{
		"550": {cards: "1, GPU-9f, NVIDIA H100 80GB HBM3, 550.90.07, 81559, 3, 0, Disabled, 551, 9.0",
			want: []gpu.Device{{Kind: gpu.CUDA,
				Index: 1, UUID: "GPU-9f", Name: "NVIDIA H100 80GB HBM3", Driver: "550.90.07", Total: 81008 * unit.MiB,
				Used:     3 * unit.MiB,
				Reserved: new(551 * unit.MiB), Capability: "9.0", Busy: busy(0), Asked: tool}}},
		"470": {unknown: noReserve, cards: v100, want: []gpu.Device{card}},
		"418": {unknown: "mig.mode.current " + noReserve, cards: "0, GPU-0a1b, Tesla V100-SXM2-16GB, 418.87, 16160, 1234, 7",
			want: []gpu.Device{older}},
		"processes": {unknown: noReserve, cards: v100, want: []gpu.Device{holds},
			apps: fmt.Sprintf("GPU-0a1b, %d, 1000\nGPU-0a1b, %d, [N/A]\nGPU-other, 5, 1\n", gone, gone+1)},
		"not known": {cards: "0, GPU-0a1b, NVIDIA GeForce RTX 3060, 535.54.03, 12288, 300, " +
			"[Not Supported], [N/A], [N/A], [N/A]",
			want: []gpu.Device{{Kind: gpu.CUDA, UUID: "GPU-0a1b", Name: "NVIDIA GeForce RTX 3060", Driver: "535.54.03",
				Total: 12288 * unit.MiB, Used: 300 * unit.MiB, Asked: tool}}},
		"no card": {cards: "No devices were found", exit: 6},
		"slices": {cards: "0, GPU-0a1b, NVIDIA A100-SXM4-40GB, 535.54.03, 40960, 25, [N/A], Enabled, 600, 8.0",
			err: "card 0 is cut into MIG slices"},
		"shared memory": {cards: "0, GPU-0a1b, NVIDIA GB10, 580.65.06, [N/A], [N/A], 0, [N/A], [N/A], 12.1",
			want: []gpu.Device{{Kind: gpu.CUDA, UUID: "GPU-0a1b", Name: "NVIDIA GB10", Driver: "580.65.06",
				Capability: "12.1", Busy: busy(0), Asked: tool, Shared: true}}},
		"lost": {cards: "0, GPU-0a1b, Tesla V100-SXM2-16GB, 550.90.07" +
			strings.Repeat(", [GPU is lost]", 6), err: "memory of card 0 is unknown"},
		"no driver": {cards: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", exit: 9,
			err: "exit status 9: NVIDIA-SMI has failed"},
		"other text": {cards: "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.",
			err: "a line that is no card"},
		"unknown always": {unknown: "uuid", cards: v100, err: "not a valid field"},
	} {
		t.Run(name, func(t *testing.T) {
			fakeTool(t, tt.unknown, tt.cards, tt.apps, tt.exit)
			got, err := byTool(t.Context(), errors.New("the library is not here"))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && (!strings.Contains(err.Error(), tt.err) ||
				!strings.Contains(err.Error(), "not here")) {
				t.Errorf("the error is %v, want %q", err, tt.err)
			}
		})
	}
}

// The library goes first. Where it cannot be loaded the tool is asked, and where there is neither, the error is the
// library's.
func TestWithoutTheLibrary(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libnvidia-ml.so.1"), nil, 0o644); err != nil { // not an ELF file
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	t.Setenv("PATH", dir)
	if all, err := List(t.Context()); !errors.Is(err, ErrNoDriver) || all != nil {
		t.Errorf("with neither: %+v, %v", all, err)
	}
	if err := Watch(t.Context(), time.Second, nil); !errors.Is(err, ErrNoDriver) {
		t.Errorf("watching with neither: %v", err)
	}
	fakeTool(t, noReserve, v100, "", 0)
	all, err := List(t.Context())
	if err != nil || len(all) != 1 || all[0].UUID != "GPU-0a1b" || all[0].Asked != tool {
		t.Errorf("by the tool: %+v, %v", all, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	err = Watch(ctx, time.Millisecond, func(_ time.Time, all []gpu.Device) {
		if looks++; looks == 3 || len(all) != 1 {
			cancel()
		}
	})
	if err != nil || looks != 3 {
		t.Errorf("watching by the tool: %d looks, %v", looks, err)
	}
}
