package arch

import "testing"

// The tape of the largest model here: the UNet of Stable Diffusion 2.1 with everything around it, by phase.
func BenchmarkTape(b *testing.B) {
	m, err := Read(Stock("LatentDiffusionSRTextWT", nil), Code{})
	if err != nil {
		b.Fatal(err)
	}
	s := Step{Model: m, Batch: 6, Size: 512, DDP: true, Queue: 180}
	for name, phase := range map[string]func(){
		"training":      func() { s.Training() },
		"validation":    func() { s.Validation() },
		"image logging": func() { s.Images() },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				phase()
			}
		})
	}
}
