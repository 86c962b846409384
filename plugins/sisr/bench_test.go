package sisr

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// BenchmarkLadders is what a launch waits for before the program starts: all rungs of a recipe, priced.
func BenchmarkLadders(b *testing.B) {
	for _, net := range []string{"compact", "paragonsr2_nano", "esrgan", "realplksr", "swinir_m", "hat_l"} {
		b.Run(net, func(b *testing.B) {
			dir := b.TempDir()
			recipe := strings.NewReplacer("type: compact", "type: "+net, "lq_size: 64", "lq_size: 128", "gpu: 8", "gpu: 16").Replace(recipeYAML)
			j := &job.Job{Command: job.Command{Args: []string{"python", "train.py", "-opt", "x.yml"}, Dir: dir}, Files: []job.File{{Path: "x.yml", Text: []byte(recipe)}}}
			for b.Loop() {
				if _, err := New().Ladders(b.Context(), j, gpu.Device{Kind: gpu.CUDA, Total: 12 * unit.GiB}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
