package arch

import (
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
)

// validationNeosr is image.nondist_validation (neosr/models/image.py:861 at 31c7022): without autocast. tile_val
// (line 788) keeps its tiles and their results on the CPU, and one of each on the card, beside the padded image.
func validationNeosr(cfg ValConfig) (e mem.Tensors) {
	t := nn.NewTape()
	t.UpsampleLow, t.Torch1 = cfg.OldTorch, cfg.OldTorch
	t.CPU, t.OneDNN = cfg.Host != nil, cfg.Host != nil
	t.Training = false
	scale := cfg.Net.Scale
	var lq nn.Tensor
	t.Part("image", func() {
		lq = t.Hold(t.Input(nn.F32, 1, cfg.Net.InCh, cfg.H, cfg.W))
		if cfg.GT {
			t.Hold(t.Input(nn.F32, 1, cfg.Net.gtCh(), cfg.H*scale, cfg.W*scale))
		}
		if s := cfg.Step; s != nil { // self.output of the last training step
			t.Hold(t.Zeros(nn.F32, s.gathered(), s.Net.gtCh(), s.LQ*scale, s.LQ*scale))
		}
	})
	t.NoGrad(func() {
		t.FreezeParams(func() {
			t.Part("network_g", func() { cfg.inferNeosr(t, lq) })
		})
	})
	e = cfg.resident(t)
	e.AddPeak(t.Peak(), "low- and high-resolution image in float32")
	return e
}

// inferNeosr is what the network is called with: the whole image, or its tiles one after another.
func (cfg ValConfig) inferNeosr(t *nn.Tape, lq nn.Tensor) {
	if cfg.Tile <= 0 {
		t.Hold(t.Call("", lq, cfg.Net.Forward))
		return
	}
	h, w := multiple(cfg.H, cfg.Tile), multiple(cfg.W, cfg.Tile)
	t.Hold(t.PadTo(lq, true, 1, cfg.Net.InCh, h, w))
	batch := t.Hold(t.Zeros(nn.F32, 1, cfg.Net.InCh, cfg.Tile, cfg.Tile))
	t.Hold(t.Call("", batch, cfg.Net.Forward))
}
