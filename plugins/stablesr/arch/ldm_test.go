package arch

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
)

type dict = map[string]any

func ints(ns ...int64) (out []any) {
	for _, n := range ns {
		out = append(out, n)
	}
	return out
}

// ldmConfig is a section model of our own with the parts of latent diffusion's recipes.
func ldmConfig(unet, first, cond any, params dict) Config {
	p := dict{"timesteps": int64(1000), "log_every_t": int64(200),
		"unet_config":        dict{"target": "ldm.modules.diffusionmodules.openaimodel.UNetModel", "params": unet},
		"first_stage_config": first, "cond_stage_config": cond}
	maps.Copy(p, params)
	return Config{"target": "ldm.models.diffusion.ddpm.LatentDiffusion", "params": p}
}

// sdUNet has the sizes of Stable Diffusion 1's UNet.
func sdUNet(in, context int64) dict {
	return dict{"in_channels": in, "out_channels": int64(4), "model_channels": int64(320),
		"attention_resolutions": ints(4, 2, 1),
		"num_res_blocks":        int64(2), "channel_mult": ints(1, 2, 4, 4), "num_heads": int64(8),
		"use_spatial_transformer": true,
		"transformer_depth":       int64(1), "context_dim": context, "use_checkpoint": true, "legacy": false}
}

// with is a UNet of latent-diffusion's other recipes.
func ldmUNet(in, channels int64, attention, mult []any, more dict) dict {
	u := dict{"in_channels": in, "out_channels": int64(3), "model_channels": channels, "attention_resolutions": attention,
		"num_res_blocks": int64(2), "channel_mult": mult}
	maps.Copy(u, more)
	return u
}

func ddconfig(z, resolution int64, mult, attn []any) dict {
	return dict{"z_channels": z, "resolution": resolution, "in_channels": int64(3), "out_ch": int64(3), "ch": int64(128),
		"ch_mult":        mult,
		"num_res_blocks": int64(2), "attn_resolutions": attn}
}

func klStage() dict {
	return dict{"target": "ldm.models.autoencoder.AutoencoderKL", "params": dict{"embed_dim": int64(4),
		"ddconfig": ddconfig(4, 256, ints(1, 2, 4, 4), ints())}}
}

func vqStage(z, codes int64, mult, attn []any) dict {
	return dict{"target": "ldm.models.autoencoder.VQModelInterface", "params": dict{"embed_dim": z, "n_embed": codes,
		"ddconfig": ddconfig(z, 256, mult, attn)}}
}

func autoKL(z int64, mult, attn []any) Config {
	return Config{"target": "ldm.models.autoencoder.AutoencoderKL", "params": dict{"embed_dim": z,
		"ddconfig": ddconfig(z, 256, mult, attn),
		"lossconfig": dict{"target": "ldm.modules.losses.LPIPSWithDiscriminator", "params": dict{"disc_start": int64(50001),
			"kl_weight": 1e-6, "disc_weight": 0.5}}}}
}

func autoVQ(z, codes, layers int64, mult, attn []any, more dict) Config {
	dd := ddconfig(z, 256, mult, attn)
	maps.Copy(dd, more)
	return Config{"target": "ldm.models.autoencoder.VQModel", "params": dict{"embed_dim": z, "n_embed": codes,
		"ddconfig": dd,
		"lossconfig": dict{"target": "taming.modules.losses.vqperceptual.VQLPIPSWithDiscriminator",
			"params": dict{"disc_num_layers": layers}}}}
}

func stage(name string, params dict) dict {
	return dict{"target": "ldm.modules.encoders.modules." + name, "params": params}
}

// recipes are by the file of recordings and the row's name: numbers of the recipe that the row names, in our own words.
func recipes() map[string]struct {
	Config
	Code
} {
	type recipe = struct {
		Config
		Code
	}
	vq4 := func() dict { return vqStage(3, 8192, ints(1, 2, 4), ints()) }
	clip := func() dict { return stage("FrozenCLIPEmbedder", nil) }
	cond := func(more dict) dict {
		p := dict{"conditioning_key": "crossattn", "cond_stage_trainable": true, "use_ema": false}
		maps.Copy(p, more)
		return p
	}
	words := dict{"target": "ldm.modules.embedding_manager.EmbeddingManager",
		"params": dict{"placeholder_strings": []any{"*"}, "num_vectors_per_token": int64(1)}}
	inversion := func(context, size int64, c dict, unfrozen bool) Config {
		return ldmConfig(sdUNet(4, context), klStage(), c, cond(dict{"image_size": size, "personalization_config": words,
			"embedding_reg_weight": 0.0, "unfreeze_model": unfrozen}))
	}
	dreambooth := inversion(768, 64, clip(), true)
	hybrid := func(c dict) Config {
		return ldmConfig(sdUNet(8, 768), klStage(), c, dict{"conditioning_key": "hybrid", "image_size": int64(32)})
	}
	pairs := hybrid(clip())
	pairs["target"] = "ldm.models.diffusion.ddpm_edit.LatentDiffusion"
	bertParams := dict{"n_embed": int64(1280), "n_layer": int64(32)}
	heads := dict{"num_head_channels": int64(32)}
	celeba := ldmConfig(ldmUNet(3, 224, ints(8, 4, 2), ints(1, 2, 3, 4), heads), vq4(), unconditional,
		dict{"image_size": int64(64)})
	cin := ldmUNet(4, 256, ints(4, 2, 1), ints(1, 2, 4), dict{"out_channels": int64(4), "num_head_channels": int64(32),
		"use_spatial_transformer": true, "context_dim": int64(512)})
	churches := ldmUNet(4, 192, ints(1, 2, 4, 8), ints(1, 2, 2, 4, 4), dict{"out_channels": int64(4),
		"num_heads": int64(8), "use_scale_shift_norm": true, "resblock_updown": true})
	layout := ldmUNet(3, 128, ints(8, 4, 2), ints(1, 2, 3, 4), dict{"num_head_channels": int64(32),
		"use_spatial_transformer": true, "transformer_depth": int64(3), "context_dim": int64(512)})
	bboxes := stage("BERTEmbedder", dict{"n_embed": int64(512), "n_layer": int64(16), "vocab_size": int64(8192),
		"max_seq_len": int64(92), "use_tokenizer": false})
	kl8, vq := autoKL(4, ints(1, 2, 4, 4), ints()), autoVQ(3, 8192, 3, ints(1, 2, 4), ints(), nil)
	return map[string]recipe{
		"amp/kl-f8": {kl8, Code{}}, "amp/vq-f4": {vq, Code{}},
		"amp_inversion/unfrozen":  {inversion(768, 64, clip(), true), Code{Trainer: Embeddings, Kept: true}},
		"amp_inversion/inversion": {inversion(768, 64, clip(), false), Code{Trainer: Embeddings, Kept: true}},
		"pokemon/pokemon": {ldmConfig(sdUNet(4, 768), klStage(), clip(), dict{"conditioning_key": "crossattn",
			"image_size": int64(64)}), Code{}},
		"pix2pix/pix2pix":       {pairs, Code{Trainer: EditPairs}},
		"zero123/zero123":       {hybrid(stage("FrozenCLIPImageEmbedder", nil)), Code{Trainer: Views}},
		"dreambooth/dreambooth": {dreambooth, Code{Trainer: TwoBatches}}, "dreambooth_first/dreambooth": {dreambooth,
			Code{Trainer: TwoBatches, Kept: true}},
		"inversion/inversion": {inversion(768, 64, clip(), false), Code{Trainer: Embeddings, Kept: true}},
		"inversion/unfrozen":  {inversion(768, 64, clip(), true), Code{Trainer: Embeddings, Kept: true}},
		"inversion/bert": {inversion(1280, 32, stage("BERTEmbedder", bertParams), false), Code{Trainer: Embeddings,
			Kept: true}},
		"compvis/celebahq": {celeba, Code{}},
		"compvis/cin": {ldmConfig(cin, vqStage(4, 16384, ints(1, 2, 2, 4), ints(32)), stage("ClassEmbedder",
			dict{"embed_dim": int64(512)}),
			cond(dict{"image_size": int64(32)})), Code{}},
		"compvis/churches": {ldmConfig(churches, klStage(), unconditional, dict{"image_size": int64(32),
			"concat_mode": false}), Code{}},
		"compvis/bert": {ldmConfig(sdUNet(4, 1280), klStage(), stage("BERTEmbedder", bertParams),
			cond(dict{"image_size": int64(32)})), Code{}},
		"compvis/layout": {ldmConfig(layout, vq4(), bboxes, cond(dict{"image_size": int64(64)})), Code{}},
		"compvis/bsr": {ldmConfig(ldmUNet(6, 160, ints(16, 8), ints(1, 2, 2, 4), heads), vq4(),
			dict{"target": "torch.nn.Identity"},
			dict{"image_size": int64(64), "concat_mode": true}), Code{}},
		"compvis/landscapes": {ldmConfig(ldmUNet(6, 128, ints(32, 16, 8), ints(1, 4, 8), dict{"num_heads": int64(8)}), vq4(),
			stage("SpatialRescaler", dict{"n_stages": int64(2), "in_channels": int64(182), "out_channels": int64(3)}),
			dict{"image_size": int64(128), "concat_mode": true, "cond_stage_trainable": true}), Code{}},
		"autoencoders/kl-f8":  {autoKL(4, ints(1, 2, 4, 4), ints()), Code{}},
		"autoencoders/kl-f16": {autoKL(16, ints(1, 1, 2, 2, 4), ints(16)), Code{}},
		"autoencoders/kl-f4":  {autoKL(3, ints(1, 2, 4), ints()), Code{}},
		"autoencoders/kl-f32": {autoKL(64, ints(1, 1, 2, 2, 4, 4), ints(16, 8)), Code{}},
		"vq/vq-f4":            {autoVQ(3, 8192, 3, ints(1, 2, 4), ints(), nil), Code{}},
		"vq/vq-f8":            {autoVQ(4, 16384, 2, ints(1, 2, 2, 4), ints(32), nil), Code{}},
		"vq/vq-f16":           {autoVQ(8, 16384, 2, ints(1, 1, 2, 2, 4), ints(16), nil), Code{}},
		"vq/vq-f4-noattn":     {autoVQ(3, 8192, 3, ints(1, 2, 4), ints(), dict{"attn_type": "none"}), Code{}},
	}
}

type latentRow struct {
	Amp                 bool
	Name                string
	Size, Batch, Inputs int64
	Args, Log, Defaults dict
	Params              map[string]int64
	Trainable, Grads    int64
	Saved, Peak         int64
	ValPeak             int64  `json:"val_peak"`
	ImagePeak           int64  `json:"image_peak"`
	PeakOp              string `json:"peak_op"`
	ValOp               string `json:"val_op"`
	ImageOp             string `json:"image_op"`
}

// imagesOf are log_images' arguments: the code's defaults, and what the recipe says.
func (r latentRow) images(code Code) Images {
	get := func(name string, def float64) float64 {
		for _, m := range []dict{r.Log, r.Defaults} {
			switch v := m[name].(type) {
			case float64:
				return v
			case bool:
				if v {
					return 1
				}
				return 0
			}
		}
		return def
	}
	is := func(name string) bool { return get(name, 0) != 0 }
	return Images{N: int64(get("N", 8)), Rows: int64(get("n_row", 4)), Sample: is("sample"),
		Quantized: is("quantize_denoised"), Inpaint: is("inpaint"),
		DenoiseRows: is("plot_denoise_rows"), ProgressiveRows: is("plot_progressive_rows"),
		DiffusionRows: is("plot_diffusion_rows"),
		Guided:        get("unconditional_guidance_scale", 1) > 1 || code.Trainer == Embeddings || code.Trainer == TwoBatches,
		EMA:           get("use_ema_scope", 1) != 0}
}

// Training steps, validations and image logs of the projects' own classes and recipes, recorded by
// tools/capture/latent.py: parameters, what autograd keeps, the peak of live bytes.
func TestLatentDiffusion(t *testing.T) {
	files, _ := filepath.Glob("testdata/latent_*.json")
	seen, all := 0, recipes()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var recorded struct{ Rows []latentRow }
		if err := json.Unmarshal(text, &recorded); err != nil {
			t.Fatal(err)
		}
		project := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "latent_"), ".json")
		for _, r := range recorded.Rows {
			seen++
			known, ok := all[project+"/"+r.Name]
			if !ok {
				t.Errorf("%s: no recipe for %s", file, r.Name)
				continue
			}
			t.Run(project+"/"+r.Name, func(t *testing.T) { latent(t, r, known.Config, known.Code) })
		}
	}
	if seen < 27 {
		t.Errorf("%d rows are recorded", seen)
	}
}

func latent(t *testing.T, r latentRow, c Config, code Code) {
	own := maps.Clone(c["params"].(dict))
	if v, ok := r.Args["model.params.use_ema"]; ok {
		own["use_ema"] = v
	}
	m, err := Read(Config{"target": c["target"], "params": own}, code)
	if err != nil {
		t.Fatal(err)
	}
	m.LogsImages(r.images(code))
	s := Step{Model: m, Batch: r.Batch, Size: r.Size}
	if r.Amp {
		s.Amp = nn.BF16
	}
	e := s.Training()
	if !e.Known() {
		t.Fatal(e.Unknown)
	}
	var want, got, trained int64
	for _, n := range r.Params {
		want += n
	}
	for _, it := range e.Items {
		switch {
		case it.Kind == mem.Parameters && !strings.HasSuffix(it.What, EMA):
			got += it.Count
		case it.Kind == mem.Optimizer:
			trained += it.Count / 2
		}
	}
	if m.gan() && !m.loss.codes {
		got, trained = got+logvar, trained+logvar
	}
	if m.words > 0 && code.Trainer == Embeddings { // and as many that they began with
		got += r.Params["embedding_manager"] / 2
	}
	if got != want || trained != r.Grads {
		t.Errorf("%d parameters and %d trained, the project has %d and %d (%v)", got, trained, want, r.Grads, r.Params)
	}
	check := func(what string, got, want int64, moment string) {
		off := float64(got-want) / float64(want)
		t.Logf("%d at %d: %s %d, PyTorch %d (%+.3f %%) %s", r.Batch, r.Size, what, got, want, 100*off, moment)
		if off < -.02 || off > .02 {
			t.Errorf("%d at %d: %s %d, PyTorch %d (%+.2f %%), %s", r.Batch, r.Size, what, got, want, 100*off, moment)
		}
	}
	phase := func(f func(*nn.Tape)) nn.Peak {
		tape := nn.NewTape()
		tape.Dispatched = true
		f(tape)
		return tape.Peak()
	}
	p := phase(func(tape *nn.Tape) {
		if m.auto {
			s.autoencode(tape, tape.Backward)
			return
		}
		var loss nn.Tensor
		s.autocast(tape, func() { loss = s.loss(tape, true) })
		tape.Backward(loss)
	})
	check("saved", int64(p.Saved), r.Saved, "")
	check("peak", int64(p.Bytes)-r.Inputs, r.Peak, p.Moment+", "+r.PeakOp)
	p = phase(func(tape *nn.Tape) {
		tape.NoGrad(func() {
			s.autocast(tape, func() {
				if m.auto {
					s.autoencodeVal(tape)
					return
				}
				s.loss(tape, false)
			})
		})
	})
	inputs := r.Inputs
	if code.Trainer == TwoBatches {
		inputs /= 2
	}
	check("validation", int64(p.Bytes)-inputs, r.ValPeak, p.Moment+", "+r.ValOp)
	p = phase(func(tape *nn.Tape) {
		tape.NoGrad(func() {
			if m.auto {
				s.autoencodeImages(tape)
				return
			}
			s.logImages(tape)
		})
	})
	kept := int64(0)
	if m.EMA && m.images.EMA { // the copies of the log before
		kept = 4 * m.unetParams()
	}
	check("image logging", kept+int64(p.Bytes)-r.Inputs, r.ImagePeak, p.Moment+", "+r.ImageOp)
	all, _ := params(e)
	for phase, e := range map[string]mem.Tensors{"validation": s.Validation(), "image logging": s.Images()} {
		if n, _ := params(e); !e.Known() || n != all {
			t.Errorf("%s has %d parameters, training %d (%s)", phase, n, all, e.Unknown)
		}
	}
}

// Every image that is logged is held until all of them are written.
func TestImageLogHolds(t *testing.T) {
	known := recipes()["compvis/churches"]
	m := read(t, known.Config, NoEdge)
	most := func(change func(*Images)) int64 {
		g := Images{N: 4, Rows: 4, Sample: true}
		change(&g)
		m.LogsImages(g)
		tape := nn.NewTape()
		tape.NoGrad(func() { Step{Model: m, Batch: 6, Size: 256}.logImages(tape) })
		return int64(tape.Peak().Bytes)
	}
	const square = 3 * 256 * 256 * 4
	bare := most(func(*Images) {})
	for name, tt := range map[string]struct {
		change func(*Images)
		least  int64
	}{
		"inpainting and outpainting": {func(g *Images) { g.Inpaint = true }, 2 * 4 * square},
		"a row of six steps":         {func(g *Images) { g.ProgressiveRows = true }, 5 * 4 * square},
		"noise added in six steps":   {func(g *Images) { g.DiffusionRows = true }, 2 * 6 * 4 * square},
		"two more":                   {func(g *Images) { g.N = 6 }, 2 * 2 * square},
	} {
		if more := most(tt.change) - bare; more < tt.least {
			t.Errorf("%s: %d bytes more, want at least %d", name, more, tt.least)
		}
	}
}

// What a trainer of this kind stops at is an error of its own, and what has no formula is unknown.
func TestLatentDiffusionRefused(t *testing.T) {
	all := recipes()
	for name, tt := range map[string]struct {
		from    string
		code    Code
		set     dict
		unknown bool
	}{
		"two conditions in CompVis's trainer": {"pix2pix/pix2pix", Code{}, nil, true},
		"words in CompVis's trainer":          {"inversion/inversion", Code{}, nil, true},
		"attention alone":                     {"pokemon/pokemon", Code{}, dict{"unet_trainable": "attn"}, true},
		"another image encoder": {"zero123/zero123", Code{Trainer: Views},
			dict{"cond_stage_config": stage("FrozenCLIPImageEmbedder", dict{"model": "RN50"})}, true},
		"T5": {"pokemon/pokemon", Code{},
			dict{"cond_stage_config": stage("FrozenT5Embedder", nil)}, true},
		"nothing to train": {"dreambooth/dreambooth", Code{Trainer: TwoBatches},
			dict{"unfreeze_model": false}, false},
		"a latent wider than the UNet's input": {"compvis/bsr", Code{},
			dict{"unet_config": dict{"target": "x.UNetModel", "params": sdUNet(2, 768)}}, false},
		"another autoencoder's loss": {"autoencoders/kl-f8", Code{},
			dict{"lossconfig": dict{"target": "my.Loss"}}, true},
		"an argument that no constructor here knows": {"autoencoders/kl-f8", Code{}, dict{"my_own": int64(1)}, true},
	} {
		c := all[tt.from]
		params := maps.Clone(c.Config["params"].(dict))
		maps.Copy(params, tt.set)
		_, err := Read(Config{"target": c.Config["target"], "params": params}, tt.code)
		if err == nil || errors.Is(err, ErrUnknown) != tt.unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
}
