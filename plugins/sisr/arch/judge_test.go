package arch

import (
	"math"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// What traiNNer-redux at 68629319 took for a validation on a CPU beyond what it had before, in MiB of VmData: torch 2.15.0, one
// thread, images of 512 × 512, scale 2.
func TestValidationOnCPU(t *testing.T) {
	const psnr, ssim = "calculate_psnr", "calculate_ssim"
	for _, r := range []struct {
		net      string
		host     Host
		tile     int64
		measured float64
	}{
		{"compact", Host{Metrics: []string{psnr}}, 0, 15 + 193},
		{"superultracompact", Host{}, 0, 15 + 89},
		{"superultracompact", Host{Several: true}, 0, 33 + 15 + 88},
		{"superultracompact", Host{Metrics: []string{psnr}}, 64, 33 + 71},
		{"superultracompact", Host{Several: true, Metrics: []string{psnr, ssim}}, 0, 33 + 141},
	} {
		e := Validation(ValConfig{Net: build(t, Spec{Type: r.net, Scale: 2}), H: 512, W: 512, GT: true, Tile: r.tile, Overlap: 16, Host: &r.host})
		if got := float64(e.Growing()) / float64(unit.MiB); math.Abs(got-r.measured) > 0.025*r.measured {
			t.Errorf("%s %+v in tiles of %d: %.1f MiB, measured %.0f", r.net, r.host, r.tile, got, r.measured)
		}
	}
	net := build(t, Spec{Type: "compact", Scale: 2})
	card := Validation(ValConfig{Net: net, H: 512, W: 512, GT: true})
	guess := card.Of(mem.Workspace) // copies of that layer's input and output, and of its weight, should cuDNN make them
	if got := (card.Growing() - guess) / unit.MiB; got != 15+128 || guess/unit.MiB != 128 {
		t.Errorf("on a card: %d MiB and %v of copies; want the inputs, and a layer's input and output", got, guess)
	}
}
