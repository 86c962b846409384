package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// A control is stm233's ControlNet (ldm/modules/controlnet_cldm.py at a9548ad), as its second stage has it: frozen, of
// which only the block that encodes the edges runs (autoencoder.py:600-627).
type control struct {
	unet
	hint int64 // hint_channels
}

func readControl(c Config) (*control, error) {
	if c.Target() != "ControlNet" {
		return nil, c.unknown("canny_controlnet_stage_config")
	}
	params, _ := c["params"].(map[string]any)
	n, err := readUNet(Config{"target": "UNetModelDualcondV2", "params": params}, Code{})
	if err != nil {
		return nil, fmt.Errorf("canny_controlnet_stage_config: %w", err)
	}
	n.semb = 0
	return &control{unet: *n, hint: c.params().size("hint_channels", 3)}, nil
}

// encodeHint is encode_hint_for_cfw (controlnet_cldm.py:244): features of the edges at a quarter and an eighth of their
// size, which the code looks for at sides of 128 and 64.
func (n *control) encodeHint(t *nn.Tape, hint nn.Tensor) (features []nn.Tensor) {
	if hint.Dim(3) != 512 {
		panic("the ControlNet's features are looked for at sides of 128 and 64: its images are 512 wide")
	}
	t.NoGrad(func() {
		t.FreezeParams(func() {
			t.Scope("", func() {
				t.Hold(timeEmbed(t, hint.Dim(0), n.channels))
				h, fea128, fea64 := t.Hold(hint), nn.Tensor{}, nn.Tensor{}
				for i, c := range n.hintBlock() {
					h = t.Rebind(h, t.Conv2d(named("input_hint_block", 2*i), h, c))
					if i < len(n.hintBlock())-1 {
						h = t.Rebind(h, t.SiLU(h))
					}
					switch {
					case h.Dim(3) == 128:
						fea128 = h
					case h.Dim(3) == 64 && h.Dim(1) == 256:
						fea64 = t.Hold(h)
					}
					if i == 5 { // the last at 128
						t.Hold(fea128)
					}
				}
				features = []nn.Tensor{
					t.Conv2d("cfw_hint_align.0", fea128, conv(128*n.mult[1], 1)), t.Conv2d("cfw_hint_align.1", fea64, conv(128*n.mult[2], 1)),
				}
			}, hint)
		})
	})
	return features
}

// hintBlock are the convolutions of input_hint_block (controlnet_cldm.py:98-114).
func (n *control) hintBlock() []nn.Conv {
	half := func(out int64) nn.Conv { return nn.Conv{Out: out, K: 3, Stride: 2} }
	return []nn.Conv{conv(16, 3), conv(16, 3), half(32), conv(32, 3), half(96), conv(96, 3), half(256), conv(n.channels, 3)}
}

// declare enters the parameters of the encoder that does not run here, by the smallest latent (controlnet_cldm.py:90-242).
func (n *control) declare(t *nn.Tape) {
	t.NoGrad(func() {
		t.FreezeParams(func() {
			emb := timeEmbed(t, 1, n.channels)
			side := int64(1) << (len(n.mult) - 1)
			w := &walk{n: &n.unet, t: t, emb: emb, context: t.Zeros(nn.F32, 1, 77, n.contextDim), heads: n.heads, ds: 1}
			zero := func(i int, h nn.Tensor) { t.Conv2d(named("zero_convs", i)+".0", h, conv(h.Dim(1), 1)) }
			h := t.Conv2d("input_blocks.0.0", t.Zeros(nn.F32, 1, n.in, side, side), conv(n.channels, 3))
			zero(0, h)
			block := 1
			for level, mult := range n.mult {
				for nr := range n.resBlocks[level] {
					w.at, w.k = named("input_blocks", block), 0
					h = w.attend(w.res(h, mult*n.channels, 0), level, nr, n.heads)
					zero(block, h)
					block++
				}
				if level != len(n.mult)-1 {
					w.at, w.k = named("input_blocks", block), 0
					h = w.down(h)
					zero(block, h)
					block++
					w.ds *= 2
				}
			}
			w.at, w.k = "middle_block", 0
			h = w.res(w.attention(w.res(h, h.Dim(1), 0), n.noMiddleSelf, w.heads), h.Dim(1), 0)
			t.Conv2d("middle_block_out.0", h, conv(h.Dim(1), 1))
		})
	})
}
