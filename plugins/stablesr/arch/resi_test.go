package arch

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
)

// second is a section model of the second stage with the sizes of configs/autoencoder/autoencoder_kl_64x64x4_resi.yaml.
func second(change ...map[string]any) Config {
	loss := map[string]any{"disc_start": int64(501), "kl_weight": int64(0), "disc_weight": 0.025, "disc_factor": 1.0}
	dd := map[string]any{
		"double_z": true, "z_channels": int64(4), "resolution": int64(512), "in_channels": int64(3), "out_ch": int64(3), "ch": int64(128),
		"ch_mult": []any{int64(1), int64(2), int64(4), int64(4)}, "num_res_blocks": int64(2), "attn_resolutions": []any{},
	}
	p := map[string]any{"embed_dim": int64(4), "freeze_dec": true, "ddconfig": dd,
		"lossconfig": map[string]any{"target": "ldm.modules.losses.LPIPSWithDiscriminator", "params": loss}}
	for _, c := range change {
		for k, v := range c {
			switch k {
			case "freeze_dec":
				p[k] = v
			case "use_canny_cfw":
				p[k] = v
				p["canny_controlnet_stage_config"] = map[string]any{"target": "ldm.modules.controlnet_cldm.ControlNet", "params": map[string]any{
					"in_channels": int64(4), "hint_channels": int64(3), "model_channels": int64(320), "num_res_blocks": int64(2),
					"attention_resolutions": []any{int64(4), int64(2), int64(1)}, "channel_mult": []any{int64(1), int64(2), int64(4), int64(4)},
					"num_head_channels": int64(64), "use_spatial_transformer": true, "use_linear_in_transformer": true,
					"transformer_depth": int64(1), "context_dim": int64(1024), "use_checkpoint": false, "legacy": false,
				}}
			case "ch":
				dd[k] = v
			default:
				loss[k] = v
			}
		}
	}
	return Config{"target": "ldm.models.autoencoder.AutoencoderKLResi", "params": p}
}

type resiRow struct {
	Name                                                          string
	Size, Batch                                                   int64
	Args                                                          map[string]any
	Params, Trainable, Fusion, Discriminator, Perceptual, Buffers int64
	Saved, Grads, Peak                                            int64
	Control                                                       int64
	PeakFirst                                                     int64 `json:"peak_first"`
	ValPeak                                                       int64 `json:"val_peak"`
}

// What the project's own classes keep and need, recorded by tools/capture/stablesr.py.
func TestSecondStage(t *testing.T) {
	var recorded struct{ Rows []resiRow }
	for _, name := range []string{"cfw.json", "cfw_canny.json"} { // of 398ee938, and of stm233's fork at a9548ad
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var more struct{ Rows []resiRow }
		if err := json.Unmarshal(text, &more); err != nil {
			t.Fatal(err)
		}
		recorded.Rows = append(recorded.Rows, more.Rows...)
	}
	if len(recorded.Rows) < 9 {
		t.Fatalf("%d rows", len(recorded.Rows))
	}
	for _, r := range recorded.Rows {
		for k, v := range r.Args { // as a recipe's reader has numbers
			if f, ok := v.(float64); ok && f == math.Trunc(f) {
				r.Args[k] = int64(f)
			}
		}
		m := read(t, second(r.Args), NoEdge)
		s := Step{Model: m, Batch: r.Batch, Size: r.Size, DDP: true}
		var trainable, buffers int64
		for _, it := range s.Training().Items {
			switch {
			case it.Kind == mem.Optimizer:
				trainable += it.Count / 2
			case it.Kind == mem.Buffers && it.What != "DDP buckets":
				buffers += it.Count
			}
		}
		all, by := params(s.Training())
		if all+logvar != r.Params || by[partFusion] != r.Fusion || by[partControl] != r.Control || by[partDisc] != r.Discriminator || by[partLPIPS] != r.Perceptual || buffers != r.Buffers {
			t.Errorf("%s: %d parameters (%v) and %d in buffers, the project has %+v", r.Name, all, by, buffers, r)
		}
		if m.freezeDec && trainable != r.Trainable {
			t.Errorf("%s: %d are trained, in the project %d", r.Name, trainable, r.Trainable)
		}

		tape := nn.NewTape()
		tape.Dispatched = true
		s.resi(tape, tape.Backward)
		p := tape.Peak()
		batch := int64(s.inputs())
		check := func(what string, got, want int64, under, over float64) {
			off := float64(got-want) / float64(want)
			t.Logf("%s of %d at %d: %s %d, PyTorch %d (%+.3f %%)", r.Name, r.Batch, r.Size, what, got, want, 100*off)
			if off < -under || off > over {
				t.Errorf("%s of %d at %d: %s %d, PyTorch %d (%+.2f %%), %s", r.Name, r.Batch, r.Size, what, got, want, 100*off, p.Moment)
			}
		}
		check("saved", int64(p.Saved), r.Saved, .01, .01)
		check("peak", int64(p.Bytes)-batch, r.Peak, .02, .03)
		if m.freezeDec { // of both optimizers' halves
			check("gradients", int64(p.Gradients), r.Grads, 0, 0)
		}

		tape = nn.NewTape()
		tape.Dispatched, tape.Training = true, false
		tape.NoGrad(func() {
			inputs, gts, latents := s.resiInput(tape)
			reconstructions := tape.Hold(s.resiForward(tape, inputs, latents, s.edges(tape, gts), true))
			for optimizer := range 2 {
				tape.Hold(s.resiLoss(tape, gts, reconstructions, optimizer))
			}
		})
		check("peak of a validation", int64(tape.Peak().Bytes)-batch, r.ValPeak, .02, .03)
	}
}

// logvar is LPIPSWithDiscriminator's parameter of one number, which no line of a ledger is worth.
const logvar = 1

// The whole step, as a ledger has it.
func TestSecondStageLedger(t *testing.T) {
	m := read(t, second(), NoEdge)
	e := Step{Model: m, Batch: 1, Size: 512, DDP: true}.Training()
	if !e.Known() {
		t.Fatal(e.Unknown)
	}
	var saved, decoder float64
	for _, it := range e.Items {
		if it.Kind == mem.Saved {
			saved += float64(it.Bytes)
			if it.What == partVAE || it.What == partFusion {
				decoder += float64(it.Bytes)
			}
		}
	}
	near(t, "saved bytes a pixel of decoder and fusion", decoder/(512*512), 47648, 0.01) // facts 6.3
	if saved <= decoder {
		t.Error("the losses save nothing")
	}
	val := Step{Model: m, Batch: 1, Size: 512, DDP: true}.Validation()
	images := Step{Model: m, Batch: 1, Size: 512, DDP: true}.Images()
	if !val.Known() || !images.Known() || val.Total() >= e.Total() || images.Total() > val.Total() {
		t.Errorf("training %v, validation %v (%s), image logging %v (%s)", e.Total(), val.Total(), val.Unknown, images.Total(), images.Unknown)
	}
}

// What the constructor or the loss takes and no formula has is unknown.
func TestSecondStageUnknown(t *testing.T) {
	other, noNet := second(), second(map[string]any{"use_canny_cfw": true})
	delete(noNet["params"].(map[string]any), "canny_controlnet_stage_config")
	other["params"].(map[string]any)["lossconfig"] = map[string]any{"target": "my.Loss"}
	for name, c := range map[string]Config{
		"another loss": other, "ActNorm": second(map[string]any{"use_actnorm": true}),
		"conditional": second(map[string]any{"disc_conditional": true}), "edges without a ControlNet": noNet,
	} {
		if _, err := Read(c, Code{}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
