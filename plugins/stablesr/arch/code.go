package arch

// A Trainer is whose LatentDiffusion a checkout has: the classes have one name and other steps.
type Trainer int

// The trainers.
const (
	CompVis    Trainer = iota // ldm/models/diffusion/ddpm.py at a506df57, and justinpinkney's at c63ca47a
	EditPairs                 // ddpm_edit.py of timothybrooks/instruct-pix2pix at 0dffd1ee: an image and an edit of it
	Views                     // ddpm.py of cvlab-columbia/zero123 at f426883b: two views of an object
	Embeddings                // ddpm.py of rinongal/textual_inversion at 424192de: words are learned
	TwoBatches                // ddpm.py of XavierXiao/Dreambooth-Stable-Diffusion at 12fa9509: images to learn and to keep
)

// Blocks is when SpatialTransformer's blocks are computed again in the backward pass.
type Blocks int

// The blocks' activation checkpointing.
const (
	BlocksAlways Blocks = iota // BasicTransformerBlock's own default (attention.py:197 at a506df57)
	BlocksNever                // its default in StableSR's tree (attention.py:254 at 398ee938)
	BlocksAsked                // where use_checkpoint is handed on to them
)

// Code is what a checkout's source decides of a model, and its recipe does not say. Its zero value is CompVis's own.
type Code struct {
	Edge    Generation
	Trainer Trainer
	Blocks  Blocks
	// Kept says that checkpoint of util.py recomputes nothing, whatever a recipe asks for: its condition is "if False"
	// (rinongal/textual_inversion at 424192de, util.py:112).
	Kept bool
}

// Images are the arguments of log_images that cost memory (ldm/models/diffusion/ddpm.py:1251 at a506df57).
type Images struct {
	N, Rows                                     int64 // N and n_row
	Sample, Quantized, Inpaint                  bool
	DenoiseRows, ProgressiveRows, DiffusionRows bool
	// Guided says that a sampling has an unconditional copy of everything beside it: unconditional_guidance_scale above 1,
	// which only forks take, or always (ddpm.py:1360 of textual_inversion at 424192de).
	Guided bool
	EMA    bool // use_ema_scope
}

// CompVisImages are log_images' own defaults at a506df57.
func CompVisImages() Images {
	return Images{N: 8, Rows: 4, Sample: true, Quantized: true, Inpaint: true, ProgressiveRows: true,
		DiffusionRows: true, EMA: true}
}
