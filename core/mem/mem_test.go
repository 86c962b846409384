package mem

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

func TestEstimate(t *testing.T) {
	var e Estimate
	e.Add(
		Item{Kind: Parameters, Bytes: 100}, Item{Kind: Saved, Bytes: 1000}, Item{Kind: Transients, Bytes: 50, Guess: true},
		Item{Kind: Workspace, Bytes: 30, Guess: true}, Item{Kind: Context, Bytes: 7, Guess: true}, Item{Kind: Buffers}, // nothing: no line
	)
	if len(e.Items) != 5 {
		t.Errorf("%d lines, want 5: a line of nothing is none", len(e.Items))
	}
	for name, tt := range map[string]struct{ got, want unit.Bytes }{
		"total": {e.Total(), 1187}, "certain": {e.Certain(), 1100}, "growing": {e.Growing(), 1080},
	} {
		if tt.got != tt.want {
			t.Errorf("%s is %d, want %d", name, tt.got, tt.want)
		}
	}
}

// The running maxima are enough to say, for any room, which request fails first.
func TestFirstFailing(t *testing.T) {
	var e Estimate
	for _, n := range []unit.Bytes{10, 128, 64, 128, 256, 20} {
		e.Largest(Alloc{Bytes: n, What: n.String()})
	}
	if len(e.Allocs) != 3 {
		t.Errorf("kept %v, want the running maxima 10, 128, 256", e.Allocs)
	}
	for room, want := range map[unit.Bytes]unit.Bytes{5: 10, 10: 128, 127: 128, 128: 256} {
		if f := e.FirstFailing(room); f == nil || f.Bytes != want {
			t.Errorf("in a room of %d fails %v, want %d", room, f, want)
		}
	}
	if f := e.FirstFailing(256); f != nil {
		t.Errorf("in a room of 256 fails %v", f)
	}
}

// The order of size that the sources give: nothing of this is measured here.
func TestOverheads(t *testing.T) {
	small, large, hopper := CUDAContext("NVIDIA GeForce RTX 3060", 12*unit.GiB), CUDAContext("Tesla V100", 32*unit.GiB), CUDAContext("NVIDIA H100 PCIe", 80*unit.GiB)
	if !(small.Bytes < large.Bytes && large.Bytes < hopper.Bytes) || !small.Guess {
		t.Errorf("contexts: %v, %v, %v", small.Bytes, large.Bytes, hopper.Bytes)
	}
	for capability, want := range map[string]unit.Bytes{"": 8519680, "8.6": 8519680, "9.0": 32 * unit.MiB, "12.0": 32 * unit.MiB} {
		if got := BLASWorkspace(gpu.Device{Capability: capability}).Bytes; got != want {
			t.Errorf("cuBLAS at capability %q: %v, want %v", capability, got, want)
		}
	}
	small, large = BLASLtWorkspace(gpu.Device{Capability: "8.6"}), BLASLtWorkspace(gpu.Device{Capability: "9.0"})
	if small.Bytes != unit.MiB || large.Bytes != 32*unit.MiB || !small.Guess {
		t.Errorf("cuBLASLt: %v, from Hopper on %v", small.Bytes, large.Bytes)
	}
	// Another maker's libraries have other names, and all that is said of them is a guess.
	for _, tt := range []struct {
		d    gpu.Device
		want string
	}{
		{gpu.Device{Kind: gpu.HIP, Name: "AMD Radeon RX 7900 XTX", Arch: "gfx1100", Total: 24 * unit.GiB},
			"hipBLAS 32.0 MiB, hipBLASLt 76.0 MiB, HIP context 300 MiB, RCCL 128 MiB"},
		{gpu.Device{Kind: gpu.HIP, Name: "AMD Instinct MI300X OAM", Arch: "gfx942", Total: 192 * unit.GiB},
			"hipBLAS 128 MiB, hipBLASLt 76.0 MiB, HIP context 500 MiB, RCCL 128 MiB"},
		{gpu.Device{Kind: gpu.XPU, Name: "Intel Arc A770", Total: 15 * unit.GiB},
			"oneMKL 8.12 MiB, oneDNN 1.00 MiB, Level Zero context 300 MiB, oneCCL 128 MiB"},
	} {
		var got []string
		for _, it := range append([]Item{BLASWorkspace(tt.d), BLASLtWorkspace(tt.d), DeviceContext(tt.d)},
			Collectives(tt.d, 2)...) {
			if got = append(got, fmt.Sprint(it.What, " ", it.Bytes)); !it.Guess {
				t.Errorf("%s: no guess: %+v", tt.d.Name, it)
			}
		}
		if s := strings.Join(got, ", "); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.d.Name, s, tt.want)
		}
	}
	// What a build took by itself, MiB of VmData after a step, and with what a trainer imports (overheads.go). The line
	// is above the one and not far above the other.
	for _, tt := range []struct {
		major          int
		cuda           string
		alone, trainer unit.Bytes
	}{
		{1, NoCUDA, 148, 213}, {1, "", 148, 213}, {1, "11.7", 338, 403}, {2, "13.2", 806, 1025}, {2, "", 806, 1025}, {0, "", 806, 1025},
		{2, NoCUDA, 806 - 383, 1025 - 383}, {0, NoCUDA, 806 - 383, 1025 - 383},
	} {
		it := RuntimeOf(tt.major, tt.cuda)
		if tt.alone, tt.trainer = tt.alone*unit.MiB, tt.trainer*unit.MiB; it.Bytes < tt.alone || it.Bytes > tt.trainer*5/4 || it.Bytes < tt.trainer*9/10 || !it.Guess || it.From == "" {
			t.Errorf("torch %d for CUDA %q: %v %q, where %v were measured alone and %v in a trainer", tt.major, tt.cuda, it.Bytes, it.From, tt.alone, tt.trainer)
		}
	}
	if HostRuntime(1) != RuntimeOf(1, "") || HostRuntime(0).Bytes != unit.GiB {
		t.Errorf("of an unknown build: %v, %v", HostRuntime(1), HostRuntime(0))
	}
	if got := HostProcesses(4, RuntimeOf(1, NoCUDA)).Bytes; got != 4*192*unit.MiB {
		t.Errorf("four processes: %v", got)
	}
}

func TestSums(t *testing.T) {
	e := Estimate{Items: []Item{{Kind: Saved, Bytes: 3}, {Kind: Runtime, Bytes: 50}, {Kind: Saved, Bytes: 4}}}
	if e.Of(Saved) != 7 || e.Of(Runtime) != 50 || e.Of(Slack) != 0 {
		t.Errorf("%d saved, %d of the runtime, %d slack", e.Of(Saved), e.Of(Runtime), e.Of(Slack))
	}
}
