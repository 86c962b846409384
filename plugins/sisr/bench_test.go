package sisr

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// BenchmarkLadders is what a launch waits for before the program starts: a recipe recognised, and all rungs of it priced.
func BenchmarkLadders(b *testing.B) {
	for _, net := range []string{"compact", "paragonsr2_nano", "esrgan", "realplksr", "swinir_m", "hat_l"} {
		b.Run(net, func(b *testing.B) {
			dir := b.TempDir()
			recipe := strings.NewReplacer("type: compact", "type: "+net, "lq_size: 64", "lq_size: 128", "gpu: 8", "gpu: 16").Replace(recipeYAML)
			if err := os.WriteFile(filepath.Join(dir, "x.yml"), []byte(recipe), 0o644); err != nil {
				b.Fatal(err)
			}
			c := job.Command{Args: []string{"python", "train.py", "-opt", "x.yml"}, Dir: dir, Devices: -1}
			for b.Loop() {
				plugintest.Ladders(b, New(), c, gpu.Device{Kind: gpu.CUDA, Total: 12 * unit.GiB})
			}
		})
	}
}
