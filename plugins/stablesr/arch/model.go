package arch

import (
	"errors"
	"fmt"
	"maps"

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
	cond          condition   // what the UNet's attention looks at; nil without one
	loss          *lossConfig // of the second stage, and of an autoencoder
	auto          bool        // an autoencoder in training: AutoencoderKL, VQModel
	control       *control    // of stm233's second stage, for its edges
	freezeDec     bool        // of the second stage: only its fusion is trained
	trainableText bool
	rescaler      *rescaler // a condition of the latent's size, which is set beside it
	low           int64     // channels of an image of the latent's size, which is; 0 without one

	trainer Trainer
	words   int64 // vectors that are learned in place of words; 0 without
	// frozenAround says that nothing but those is trained.
	frozenAround bool
	imageSize    int64  // of the latents that log_images samples
	logged       int64  // steps that a row of images has
	images       Images // of log_images
}

// Read reads a recipe's section model. code is what the checkout's source says. The error is ErrUnknown for classes
// without a formula, and otherwise says what upstream would stop at.
func Read(model Config, code Code) (*Model, error) {
	p, _ := model["params"].(map[string]any)
	a := model.params()
	m := &Model{Target: model.Target(), EMA: a.bool("use_ema", true), UnfrozenDiff: a.bool("unfrozen_diff", false)}
	switch m.Target {
	case "AutoencoderKLResi":
		if err := m.readResi(p, a); err != nil {
			return nil, err
		}
		return m, a.err
	case "AutoencoderKL", "VQModel":
		return m, m.readAutoencoder(p, a)
	case "LatentDiffusionSRTextWT", "LatentDiffusionSRTextWTFFHQ",
		"LatentDiffusionSRTextWTFFHQl1": // caixin98's, which compares loss_type and sets nothing (ddpm.py:3357 at 515034d)
		m.stableSR = true
	case "LatentDiffusionSRTextWTWithEdge":
		m.stableSR, m.edgeStep = true, true
	case "LatentDiffusion":
		m.UnfrozenDiff, m.trainer = true, code.Trainer
	default:
		return nil, model.unknown("model")
	}
	unetConfig := section(p["unet_config"])
	if m.edgeStep && a.bool("use_edge_processing", false) { // ddpm_with_edge.py:62 sets both in the UNet's section
		unetConfig = unetConfig.with("UNetModelDualcondV2WithEdge", map[string]any{
			"use_edge_processing": true, "edge_input_channels": a.int("edge_input_channels", 3)})
	}
	m.edgeLoss = a.float("edge_loss_weight", 0)
	if err := known(p, m.argNames()); err != nil {
		return nil, err
	}
	var err error
	if m.unet, err = readUNet(unetConfig, code); err != nil {
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
	if !m.stableSR {
		if err := m.readTrainer(p, a); err != nil {
			return nil, err
		}
	}
	if m.Checkpointing = m.unet.checkpoint; m.stableSR { // it never gets beyond the first backward: see Checkpointing
		m.unet.checkpoint, m.unet.blocks = false, false
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

// readAutoencoder reads a first stage that is trained itself.
func (m *Model) readAutoencoder(p map[string]any, a *args) (err error) {
	m.EMA, m.auto = a.bool("use_ema", false), true
	if err := known(p, autoArgs); err != nil {
		return err
	}
	if m.EMA {
		return fmt.Errorf("model.params.use_ema: %w", ErrUnknown)
	}
	if m.vae, err = readVAE(Config{"target": m.Target, "params": p}); err != nil {
		return err
	}
	if m.loss, err = readLoss(p["lossconfig"]); err != nil {
		return err
	}
	return a.err
}

// readCondition reads what the latents are denoised by.
func (m *Model) readCondition(p map[string]any, a *args) (err error) {
	key := a.text("conditioning_key", "")
	if key == "" && p["cond_stage_config"] != unconditional && a.bool("concat_mode", true) {
		key = "concat" // ddpm.py:581
	}
	switch {
	case p["cond_stage_config"] == unconditional && !m.stableSR: // whatever else is said (ddpm.py:441)
		return nil
	case key == "hybrid" && (m.trainer == EditPairs || m.trainer == Views):
		m.cond, err = readCross(p["cond_stage_config"])
	case m.trainer == EditPairs, m.trainer == Views: // get_input gives both conditions
		return fmt.Errorf("conditioning_key %s in a trainer of two conditions: %w", key, ErrUnknown)
	case key == "hybrid", key == "adm", key == "hybrid-adm", key == "concat" && m.stableSR:
		return fmt.Errorf("conditioning_key %s: %w", key, ErrUnknown)
	case key == "concat" && section(p["cond_stage_config"]).Target() == "Identity": // an image of the latent's size
		if m.low = m.unet.in - m.vae.embed; m.low < 1 {
			return fmt.Errorf("unet_config: in_channels %d leave no room for a condition beside a latent of %d", m.unet.in,
				m.vae.embed)
		}
	case key == "concat":
		m.rescaler, err = readRescaler(section(p["cond_stage_config"]))
	default:
		m.cond, err = readCross(p["cond_stage_config"])
	}
	return err
}

// readTrainer reads what the trainers of plain latent diffusion say of their own.
func (m *Model) readTrainer(p map[string]any, a *args) error {
	m.imageSize = a.size("image_size", 256)                               // ddpm.py:58
	steps, every := a.size("timesteps", 1000), a.size("log_every_t", 100) // ddpm.py:47, :60
	for k := range steps {
		if k%every == 0 || k == steps-1 {
			m.logged++
		}
	}
	if v, given := p["unet_trainable"]; given && v != true && v != "all" {
		return fmt.Errorf("unet_trainable %v: %w", v, ErrUnknown)
	}
	switch m.trainer {
	case Embeddings:
		if n := section(p["personalization_config"]); n.Target() != "EmbeddingManager" {
			return n.unknown("personalization_config")
		} else if strings, ok := n.params().values["placeholder_strings"].([]any); ok {
			m.words = int64(len(strings)) * n.params().size("num_vectors_per_token", 1)
		}
		m.words = max(1, m.words)
		m.setWords()
		m.UnfrozenDiff = a.bool("unfreeze_model", false)
		if !m.UnfrozenDiff { // both networks are frozen, and their graph is kept for the words (ddpm.py:485)
			m.frozenAround = true
		}
	case TwoBatches:
		if !a.bool("unfreeze_model", false) { // ddpm.py:488 freezes all there is; nothing is left to be trained
			return errors.New("unfreeze_model is not true, and this trainer learns no embeddings: " +
				"the first backward pass stops (element 0 of tensors does not require grad)")
		}
	case Views:
		if m.cond == nil || m.unet.contextDim != 768 {
			return fmt.Errorf("a pose beside another image encoder than CLIP's ViT-L/14: %w", ErrUnknown)
		}
	case CompVis, EditPairs:
	}
	return nil
}

// setWords tells the text encoder which words are learned.
func (m *Model) setWords() {
	switch n := m.cond.(type) {
	case *clipText:
		n.learned = m.words
	case *bert:
		n.learned = m.words
	}
}

// argNames are the arguments that the constructor takes.
func (m *Model) argNames() []string {
	switch {
	case m.edgeStep:
		return edgeArgs
	case m.stableSR:
		return stableSRArgs
	case m.trainer == EditPairs:
		return pairArgs
	case m.trainer == Embeddings, m.trainer == TwoBatches:
		return wordArgs
	}
	return ldmArgs
}

// with is the section with another class and more arguments.
func (c Config) with(target string, more map[string]any) Config {
	p, _ := c["params"].(map[string]any)
	params := map[string]any{}
	for _, m := range []map[string]any{p, more} {
		maps.Copy(params, m)
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

// Autoencoder reports whether a first stage is trained by itself, with its discriminator.
func (m *Model) Autoencoder() bool { return m.auto }

// Recomputes reports whether the backward pass of the UNet computes anything again: attention always, unless it is
// switched off in the source.
func (m *Model) Recomputes() bool { return m.unet != nil && !m.unet.kept }

// gan says that there are two optimizers: of an autoencoder and of its discriminator.
func (m *Model) gan() bool { return m.auto || m.Resi() }

// LogsImages gives the model the arguments of log_images.
func (m *Model) LogsImages(g Images) { m.images = g }

// LogsAverages reports whether log_images swaps the averages of use_ema in.
func (m *Model) LogsAverages() bool { return m.stableSR || m.images.EMA }

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
	partImage   = "image encoder"
	partWords   = "learned words"
)

// stages are the parts that have parameters, in the order of a ledger.
var stages = []string{partUNet, partSPADE, partStruct, partVAE, partText, partImage, partCond, partWords, partEdge,
	partFusion, partControl, partLPIPS, partDisc}

// trainable lists the parts whose parameters have gradients.
func (m *Model) trainable() (parts []string) {
	switch {
	case m.auto:
		return []string{partVAE, partDisc}
	case m.Resi() && m.freezeDec:
		return []string{partFusion, partDisc}
	case m.Resi():
		return []string{partVAE, partFusion, partDisc}
	case m.frozenAround:
		return []string{partWords}
	case m.UnfrozenDiff:
		parts = append(parts, partUNet, partEdge)
	}
	parts = append(parts, partSPADE, partStruct, partWords)
	if m.trainer == Views {
		parts = append(parts, partCond)
	}
	if m.trainableText {
		parts = append(parts, partText, partImage, partCond)
	}
	return parts
}

// latent is how many channels a latent has.
func (m *Model) latent() int64 { return m.vae.embed }

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
			t.FreezeParams(func() {
				v := s.vae()
				z := t.MulScalar(z)
				if v.codes > 0 { // VQModelInterface.decode (autoencoder.py:271)
					z = v.quantize(t, z)
				}
				x = v.decoder(t, z, nil, nil)
			})
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

// condition is cond_stage_model: (batch, context, width), or the zero Tensor. x is the image that it sees.
func (s Step) condition(t *nn.Tape, batch int64, x nn.Tensor) (c nn.Tensor) {
	if s.Model.cond == nil {
		return c
	}
	run := func() { c = s.Model.cond.forward(t, batch, x) }
	t.Part(s.Model.cond.part(), func() {
		switch {
		case s.Model.trainableText && !s.Model.frozenAround:
			run()
		case s.Model.frozenAround:
			t.FreezeParams(run)
		default:
			t.NoGrad(func() { t.FreezeParams(run) })
		}
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
