package stablesr

import (
	"runtime/debug"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// BenchmarkLadders is what a launch waits for before the program starts: a command recognised, and all rungs of the largest model
// here, the UNet of Stable Diffusion 2.1 with everything around it, priced in three phases.
func BenchmarkLadders(b *testing.B) {
	dir := checkoutDir(b, "checkout", map[string]func(string) string{"r.yaml": nil})
	j, err := recognize(dir, "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
	if err != nil {
		b.Fatal(err)
	}
	debug.SetGCPercent(-1) // as plugin.Serve does
	debug.SetMemoryLimit(512 << 20)
	for b.Loop() {
		plugintest.Ladders(b, New(), j.Command, gpu.Device{Kind: gpu.CUDA, Total: 24 * unit.GiB})
	}
}
