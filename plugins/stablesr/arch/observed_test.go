package arch

import (
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// What users have reported of their cards: what fits and what does not, in any phase. Only figures that name recipe,
// batch and card are here, with where they were read.
func TestObserved(t *testing.T) {
	all := recipes()
	pokemon := Images{N: 4, Rows: 4, Sample: true, Guided: true, EMA: true}
	edits := Images{N: 4, Rows: 4, Sample: true, EMA: true}
	words := Images{N: 8, Rows: 4, Sample: true, Guided: true, EMA: true}
	for _, tt := range []struct {
		from        string
		recipe      string
		batch, size int64
		images      Images
		card        unit.Bytes
		fits        bool
	}{
		{"justinpinkney/stable-diffusion issue 30: batch 1 on an RTX 3090", "pokemon/pokemon", 1, 512, pokemon,
			24453 * unit.MiB, false},
		{"LambdaLabsML/examples issue 12: batch 1 on an A10G", "pokemon/pokemon", 1, 512, pokemon, 22731 * unit.MiB, false},
		{"XavierXiao/Dreambooth-Stable-Diffusion issue 67: 1 + 1 on an RTX 3090, nothing recomputed",
			"dreambooth_first/dreambooth", 1, 512, words, 24 * unit.GiB, false},
		{"XavierXiao/Dreambooth-Stable-Diffusion issue 14: 1 + 1 on a V100 of 32 GB",
			"dreambooth_first/dreambooth", 1, 512, words, 32510 * unit.MiB, true},
		{"timothybrooks/instruct-pix2pix issue 84: batch 1 on a card of 24 GB", "pix2pix/pix2pix", 1, 256, edits,
			24 * unit.GiB, false},
		{"timothybrooks/instruct-pix2pix issue 82: batch 32 on an A100 of 40 GB", "pix2pix/pix2pix", 32, 256, edits,
			40536 * unit.MiB, true},
		{"timothybrooks/instruct-pix2pix issue 84: batch 64 on an A40", "pix2pix/pix2pix", 64, 256, edits, 46068 * unit.MiB,
			true},
		{"CompVis/latent-diffusion issue 132: batch 16 on an RTX A6000", "compvis/bert", 16, 256, CompVisImages(),
			48685 * unit.MiB, true},
	} {
		known := all[tt.recipe]
		m, err := Read(known.Config, known.Code)
		if err != nil {
			t.Fatal(err)
		}
		m.LogsImages(tt.images)
		s := Step{Model: m, Batch: tt.batch, Size: tt.size, DDP: true, Swaps: m.EMA}
		card := gpu.Device{Kind: gpu.CUDA, Total: tt.card}
		var most unit.Bytes
		for _, e := range []mem.Tensors{s.Training(), s.Validation(), s.Images()} {
			if !e.Known() {
				t.Fatal(e.Unknown)
			}
			most = max(most, e.OnCard(card, mem.Caching{}).Total())
		}
		t.Logf("%s: %v of %v", tt.from, most, tt.card)
		if fits := most <= tt.card; fits != tt.fits {
			t.Errorf("%s: %v are estimated for %v, and it fits: %v", tt.from, most, tt.card, tt.fits)
		}
	}
}
