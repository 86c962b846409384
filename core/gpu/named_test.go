package gpu

import (
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

func TestNamed(t *testing.T) {
	for name, want := range map[string]unit.Bytes{
		"RTX 3060": 12, "nvidia geforce RTX 3060": 12, "A100 80GB": 80, "A100-40GB": 40, "Tesla T4": 15,
		"A100": 0, "V100": 0, "NVIDIA": 0, "": 0, "3060": 0, "RTX 3060 x": 0,
	} {
		got, ok := Named(name)
		if got != want*unit.GiB || ok != (want > 0) {
			t.Errorf("%q has %v, %v; want %d GiB", name, got, ok, want)
		}
	}
	for name, want := range map[string]unit.Bytes{"NVIDIA A10G": 23028, "GeForce RTX 3090": 24258} {
		if got, ok := Named(name); !ok || got != want*unit.MiB {
			t.Errorf("%s has %v, %v; want %d MiB", name, got, ok, want)
		}
	}
}
