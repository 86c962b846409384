package arch

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
)

// landscapes is a section model of our own with the sizes of latent-diffusion's semantic synthesis
// (models/ldm/semantic_synthesis512/config.yaml).
func landscapes(channels int64) Config {
	return Config{"target": "ldm.models.diffusion.ddpm.LatentDiffusion", "params": map[string]any{
		"image_size": int64(128), "channels": int64(3), "concat_mode": true, "cond_stage_trainable": true, "loss_type": "l1",
		"unet_config": map[string]any{"target": "ldm.modules.diffusionmodules.openaimodel.UNetModel", "params": map[string]any{
			"image_size": int64(128), "in_channels": int64(6), "out_channels": int64(3), "model_channels": channels, "num_heads": int64(8),
			"attention_resolutions": []any{int64(32), int64(16), int64(8)}, "num_res_blocks": int64(2), "channel_mult": []any{int64(1), int64(4), int64(8)},
		}},
		"first_stage_config": map[string]any{"target": "ldm.models.autoencoder.VQModelInterface", "params": map[string]any{
			"embed_dim": int64(3), "n_embed": int64(8192), "ddconfig": map[string]any{
				"double_z": false, "z_channels": int64(3), "resolution": int64(256), "in_channels": int64(3), "out_ch": int64(3), "ch": int64(128),
				"ch_mult": []any{int64(1), int64(2), int64(4)}, "num_res_blocks": int64(2), "attn_resolutions": []any{},
			}}},
		"cond_stage_config": map[string]any{"target": "ldm.modules.encoders.modules.SpatialRescaler", "params": map[string]any{
			"n_stages": int64(2), "in_channels": int64(182), "out_channels": int64(3)}},
	}}
}

// A step of plain latent diffusion with a VQ first stage and a map beside the latent, of the project's own classes,
// recorded by tools/capture/stablesr.py.
func TestLatentDiffusionWithConcat(t *testing.T) {
	text, err := os.ReadFile("testdata/ldm.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Rows []struct {
			Size, Batch int64
			Args        map[string]int64
			UNet, Cond  int64
			FirstStage  int64 `json:"first_stage"`
			Saved, Peak int64
		}
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	if len(recorded.Rows) < 2 {
		t.Fatalf("%d rows", len(recorded.Rows))
	}
	for _, r := range recorded.Rows {
		m := read(t, landscapes(r.Args["model_channels"]), NoEdge)
		s := Step{Model: m, Batch: r.Batch, Size: r.Size}
		e := s.Training()
		if !e.Known() {
			t.Fatal(e.Unknown)
		}
		_, by := params(e)
		if by[partUNet] != r.UNet || by[partVAE] != r.FirstStage || by[partCond] != r.Cond {
			t.Errorf("parameters %v, the project has %d, %d and %d", by, r.UNet, r.FirstStage, r.Cond)
		}
		var averages int64
		for _, it := range e.Items {
			if it.Kind == mem.Parameters && it.What == partUNet+EMA {
				averages = it.Count
			}
		}
		if averages != r.UNet {
			t.Errorf("the averages have %d numbers, want %d: use_ema is on where a recipe does not say", averages, r.UNet)
		}
		tape := nn.NewTape()
		tape.Dispatched = true
		tape.Backward(s.loss(tape, true))
		p := tape.Peak()
		batch := 2 * r.Batch * (3 + 182) * r.Size * r.Size * 4
		for what, c := range map[string][2]int64{"saved": {int64(p.Saved), r.Saved}, "peak": {int64(p.Bytes) - batch, r.Peak}} {
			off := float64(c[0]-c[1]) / float64(c[1])
			t.Logf("%d at %d: %s %d, PyTorch %d (%+.3f %%)", r.Batch, r.Size, what, c[0], c[1], 100*off)
			if off < -.005 || off > .03 || what == "saved" && off > .005 {
				t.Errorf("%d at %d: %s %d, PyTorch %d (%+.2f %%), %s", r.Batch, r.Size, what, c[0], c[1], 100*off, p.Moment)
			}
		}
	}
}
