package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// A Model is the section model of a recipe: a LightningModule and its stages.
type Model struct {
	Target string // its class
	// UnfrozenDiff says that the whole UNet is trained, not SPADE alone.
	UnfrozenDiff bool
	EMA          bool // use_ema, which is on where the recipe does not say
	// Checkpointing is unet_config's use_checkpoint. It cannot train a StableSR: CheckpointFunction differentiates frozen
	// parameters (util.py:139), and struct_cond is a dict (openaimodel.py:1539). Memory is counted without it there.
	Checkpointing bool
	// BatchNorm says that the edge processor's batch normalisation sees the micro-batch.
	BatchNorm bool
	// Unknown, if not empty, says which part of a training step has no formula.
	Unknown string

	stableSR      bool    // with structcond, SPADE and degradations made on the card
	edgeStep      bool    // ddpm_with_edge.py's training_step: it encodes twice and decodes
	edgeLoss      float64 // edge_loss_weight of b73597f
	unet          *unet
	structcond    *encoder
	vae           *vae
	text          *text
	loss          *lossConfig // of the second stage
	control       *control    // of stm233's second stage, for its edges
	freezeDec     bool        // of the second stage: only its fusion is trained
	trainableText bool
	rescaler      *rescaler // a condition of the latent's size, which is set beside it
}

// Read reads a recipe's section model. gen is which edge processor the checkout has. The error is ErrUnknown for classes
// without a formula, and otherwise says what upstream would stop at.
func Read(model Config, gen Generation) (*Model, error) {
	p, _ := model["params"].(map[string]any)
	a := model.params()
	m := &Model{Target: model.Target(), EMA: a.bool("use_ema", true), UnfrozenDiff: a.bool("unfrozen_diff", false)}
	switch m.Target {
	case "AutoencoderKLResi":
		if err := m.readResi(p, a); err != nil {
			return nil, err
		}
		return m, a.err
	case "LatentDiffusionSRTextWT", "LatentDiffusionSRTextWTFFHQ",
		"LatentDiffusionSRTextWTFFHQl1": // caixin98's, which compares loss_type and sets nothing (ddpm.py:3357 at 515034d)
		m.stableSR = true
	case "LatentDiffusionSRTextWTWithEdge":
		m.stableSR, m.edgeStep = true, true
	case "LatentDiffusion":
		m.UnfrozenDiff = true
	default:
		return nil, model.unknown("model")
	}
	unetConfig := section(p["unet_config"])
	if m.edgeStep && a.bool("use_edge_processing", false) { // ddpm_with_edge.py:62 sets both in the UNet's section
		unetConfig = unetConfig.with("UNetModelDualcondV2WithEdge", map[string]any{
			"use_edge_processing": true, "edge_input_channels": a.int("edge_input_channels", 3)})
	}
	m.edgeLoss = a.float("edge_loss_weight", 0)
	names := ddpmArgs
	switch {
	case m.edgeStep:
		names = edgeArgs
	case m.stableSR:
		names = stableSRArgs
	}
	if err := known(p, names); err != nil {
		return nil, err
	}
	var err error
	if m.unet, err = readUNet(unetConfig, gen); err != nil {
		return nil, err
	}
	if m.stableSR {
		if m.structcond, err = readEncoder(section(p["structcond_stage_config"])); err != nil {
			return nil, err
		}
	}
	if m.vae, err = readVAE(section(p["first_stage_config"])); err != nil {
		return nil, err
	}
	m.trainableText = a.bool("cond_stage_trainable", false)
	if err := m.readCondition(p, a); err != nil {
		return nil, err
	}
	if m.Checkpointing = m.unet.checkpoint; m.stableSR { // it never gets beyond the first backward: see Checkpointing
		m.unet.checkpoint = false
	}
	m.BatchNorm = m.unet.edge != nil
	if a.err != nil {
		return nil, fmt.Errorf("model: %w", a.err)
	}
	return m, nil
}

// readResi reads the second stage: the controllable feature wrapping.
func (m *Model) readResi(p map[string]any, a *args) (err error) {
	m.EMA = false
	if err := known(p, resiArgs); err != nil {
		return err
	}
	if m.vae, err = readVAE(Config{"target": m.Target, "params": p}); err != nil {
		return err
	}
	m.freezeDec = a.bool("freeze_dec", true)
	if m.loss, err = readLoss(p["lossconfig"]); err != nil {
		return err
	}
	if a.bool("use_canny_cfw", false) {
		if m.control, err = readControl(section(p["canny_controlnet_stage_config"])); err != nil {
			return err
		}
	}
	if a.bool("synthesis_data", false) {
		m.Unknown = fmt.Sprintf("synthesis_data, which keeps a pool of its own: %v", ErrUnknown)
	}
	return nil
}

// readCondition reads what the latents are denoised by.
func (m *Model) readCondition(p map[string]any, a *args) (err error) {
	key := a.text("conditioning_key", "")
	if key == "" && p["cond_stage_config"] != unconditional && a.bool("concat_mode", true) {
		key = "concat" // ddpm.py:581
	}
	switch {
	case key == "hybrid", key == "adm", key == "concat" && m.stableSR:
		return fmt.Errorf("conditioning_key %s: %w", key, ErrUnknown)
	case key == "concat":
		m.rescaler, err = readRescaler(section(p["cond_stage_config"]))
	default:
		m.text, err = readText(p["cond_stage_config"])
	}
	return err
}

// with is the section with another class and more arguments.
func (c Config) with(target string, more map[string]any) Config {
	p, _ := c["params"].(map[string]any)
	params := map[string]any{}
	for _, m := range []map[string]any{p, more} {
		for k, v := range m {
			params[k] = v
		}
	}
	return Config{"target": target, "params": params}
}

// StableSR reports whether the model is a StableSR: frozen around SPADE, with a pool of degraded pairs.
func (m *Model) StableSR() bool { return m.stableSR }

// Edge is which edge processor runs in the UNet.
func (m *Model) Edge() Generation {
	if m.unet == nil || m.unet.edge == nil {
		return NoEdge
	}
	return m.unet.edge.generation
}

// Resi reports whether the model is the controllable feature wrapping: AutoencoderKLResi.
func (m *Model) Resi() bool { return m.vae != nil && m.vae.fusion }

// Factor is how much smaller than the image the latent is.
func (m *Model) Factor() int64 { return m.vae.factor() }

// Multiple is what the image's side must be a multiple of, so that every skip of the UNet meets its own size.
func (m *Model) Multiple() int64 {
	if m.unet == nil {
		return m.vae.factor()
	}
	return m.vae.factor() << (len(m.unet.mult) - 1)
}

// The names that a ledger has for the stages: the recipe's sections in words, and of the losses the modules' own names.
const (
	partBatch   = "batch"
	partUNet    = "unet"
	partSPADE   = "spade"
	partStruct  = "structcond"
	partVAE     = "first stage"
	partText    = "text encoder"
	partCond    = "cond stage"
	partEdge    = "edge processor"
	partFusion  = "fusion"
	partControl = "canny controlnet"
	partLPIPS   = "loss.perceptual_loss"
	partDisc    = "loss.discriminator"
	partLoss    = "loss"
)

// stages are the parts that have parameters, in the order of a ledger.
var stages = []string{partUNet, partSPADE, partStruct, partVAE, partText, partCond, partEdge, partFusion, partControl, partLPIPS, partDisc}

// trainable lists the parts whose parameters have gradients.
func (m *Model) trainable() (parts []string) {
	switch {
	case m.Resi() && m.freezeDec:
		return []string{partFusion, partDisc}
	case m.Resi():
		return []string{partVAE, partFusion, partDisc}
	case m.UnfrozenDiff:
		parts = append(parts, partUNet, partEdge)
	}
	parts = append(parts, partSPADE, partStruct)
	if m.trainableText {
		parts = append(parts, partText, partCond)
	}
	return parts
}

// encode is encode_first_stage and get_first_stage_encoding, under no_grad.
func (s Step) encode(t *nn.Tape, x nn.Tensor) (z nn.Tensor) {
	t.Part(partVAE, func() {
		t.NoGrad(func() {
			t.FreezeParams(func() {
				moments := s.vae().encoder(t, x, nil)
				if s.Model.vae.codes == 0 { // the mean, or a sample, of the posterior
					moments = t.Narrow(moments, 1, moments.Dim(1)/2)
				}
				z = t.MulScalar(moments)
			})
		})
	})
	return z
}

// decode is decode_first_stage, under no_grad.
func (s Step) decode(t *nn.Tape, z nn.Tensor) (x nn.Tensor) {
	t.Part(partVAE, func() {
		t.NoGrad(func() {
			t.FreezeParams(func() { x = s.vae().decoder(t, t.MulScalar(z), nil, nil) })
		})
	})
	return x
}

// vae is the first stage, computed as the program's environment has it.
func (s Step) vae() *vae {
	v := *s.Model.vae
	v.xformers = s.Xformers
	return &v
}

// condition is cond_stage_model: (batch, context, width), or the zero Tensor.
func (s Step) condition(t *nn.Tape, batch int64) (c nn.Tensor) {
	if s.Model.text == nil {
		return c
	}
	run := func() { c = s.Model.text.forward(t, batch) }
	t.Part(partText, func() {
		if s.Model.trainableText {
			run()
			return
		}
		t.NoGrad(func() { t.FreezeParams(run) })
	})
	return c
}

// structure is structcond_stage_model.
func (s Step) structure(t *nn.Tape, z nn.Tensor) (cond map[int64]nn.Tensor) {
	if s.Model.structcond == nil {
		return nil
	}
	t.Part(partStruct, func() { cond = s.Model.structcond.forward(t, style{xformers: s.Xformers}, z) })
	return cond
}

// diffuse is the UNet.
func (s Step) diffuse(t *nn.Tape, x, c nn.Tensor, cond map[int64]nn.Tensor, edgeMap nn.Tensor) (y nn.Tensor) {
	t.Part(partUNet, func() {
		y = s.Model.unet.forward(t, style{xformers: s.Xformers, frozen: !s.Model.UnfrozenDiff}, x, c, cond, edgeMap)
	})
	return y
}
