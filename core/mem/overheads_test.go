package mem

import (
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// NCCL's buffers are a line wherever several ranks are on cards, and nowhere else.
func TestCollectives(t *testing.T) {
	for _, tt := range []struct {
		name  string
		on    gpu.Device
		ranks int64
		want  unit.Bytes
	}{
		{"two ranks", gpu.Device{Kind: gpu.CUDA, Name: "NVIDIA GeForce RTX 3060"}, 2, 128 * unit.MiB},
		{"with NVLink", gpu.Device{Kind: gpu.CUDA, Name: "NVIDIA A100-SXM4-80GB"}, 8, 600 * unit.MiB},
		{"one", gpu.Device{Kind: gpu.CUDA, Name: "NVIDIA A100-SXM4-80GB"}, 1, 0},
		{"not known how many", gpu.Device{Kind: gpu.CUDA}, 0, 0},
		{"gloo", gpu.Device{Kind: gpu.CPU}, 4, 0},
	} {
		var e Estimate
		e.Add(Collectives(tt.on, tt.ranks)...)
		if e.Total() != tt.want || tt.want > 0 && (!e.Items[0].Guess || e.Items[0].From == "") {
			t.Errorf("%s: %+v, want %v", tt.name, e.Items, tt.want)
		}
	}
}
