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
	if got, ok := Named("NVIDIA A10G"); !ok || got != 23028*unit.MiB {
		t.Errorf("an A10G has %v, %v", got, ok)
	}
}
