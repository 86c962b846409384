// Package rows reads the training steps that tools/capture/steps.py has recorded, and prices each by the formulas of
// launch's plugins.
package rows

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
	lmarch "github.com/launch-ml/launch/plugins/lm/arch"
)

// A File is one recording: real PyTorch, on the meta device, with the classes of one family's projects.
type File struct {
	Family      string `json:"family"`
	Torch       string `json:"torch"`
	Torchvision string `json:"torchvision"`
	Timm        string `json:"timm"`
	// Of the language models.
	Transformers string `json:"transformers"`
	Peft         string `json:"peft"`
	Accelerate   string `json:"accelerate"`

	Recorded string            `json:"recorded"`
	Commits  map[string]string `json:"commits"`
	Rows     []Row             `json:"rows"`
}

// A Row is one training step: its arguments, as the family's capture module has them, and what PyTorch made of it.
type Row struct {
	Family string `json:"-"`
	// Transformers and Peft are the versions of a language model's row.
	Transformers, Peft string          `json:"-"`
	Name               string          `json:"name"`
	Args               json.RawMessage `json:"args"`

	Params    int64      `json:"params"`    // elements of all modules on the card
	Trainable int64      `json:"trainable"` // of them, that require a gradient when the step ends
	Model     unit.Bytes `json:"bytes"`     // parameters and buffers of all modules
	// Saved is what the graph holds when backward begins, without model and batch. Nil where no hook sees it: under
	// activation checkpointing.
	Saved  *unit.Bytes `json:"saved"`
	First  unit.Bytes  `json:"first"` // the peak of live bytes of the first step, without optimizer states
	Peak   unit.Bytes  `json:"peak"`  // and of a step with them: everything, parameters included
	Moment string      `json:"moment"`
	// Fake is the sum that a user of FakeTensor adds up (tools/capture/track.py, fake_sum); nil where torch does not let.
	Fake *unit.Bytes `json:"fake"`
}

// Settings are the row's arguments as a person reads them.
func (r Row) Settings() string {
	var a args
	if json.Unmarshal(r.Args, &a) != nil {
		return string(r.Args)
	}
	return a.String()
}

// A Price is launch's side of a row.
type Price struct {
	Params  int64
	Saved   unit.Bytes
	Tensors mem.Tensors
}

// Live is what the estimate says of tensors: all lines but those that no tensor stands behind.
func (p Price) Live() (sum unit.Bytes) {
	for _, it := range p.Tensors.Items {
		switch it.Kind {
		case mem.Workspace, mem.Context, mem.Slack, mem.Runtime, mem.Correction:
		default:
			sum += it.Bytes
		}
	}
	return sum
}

// Read reads one recording.
func Read(path string) (f File, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("read recording %s: %w", path, err)
	}
	for i := range f.Rows {
		r := &f.Rows[i]
		r.Family, r.Transformers, r.Peft = f.Family, f.Transformers, f.Peft
	}
	return f, nil
}

// All reads every recording of the repository at root, in the order of the families' names.
func All(root string) (files []File, err error) {
	paths, err := filepath.Glob(filepath.Join(root, "plugins", "*", "arch", "testdata", "steps_*.json"))
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		f, err := Read(p)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no recordings below %s: say where the repository is with -root", root)
	}
	return files, nil
}

// Price is what launch makes of the row. The error says that it has no formula.
func (r Row) Price() (Price, error) {
	var a args
	if err := json.Unmarshal(r.Args, &a); err != nil {
		return Price{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	a.Release, a.halfAdapters = release(r.Transformers), halfAdapters(r.Peft)
	price, ok := map[string]func(args) (Price, error){
		"moco": moco, "torchvision": torchvision, "sisr": sisr, "basicsr": sisr, "neosr": neosr, "stablesr": stableSR,
		"dualattn": dualAttention, "lm": languageModel, "lm_trainer": trainer,
		"lm_dpo": trainer, "lm_factory": trainer, "lm_forms": trainer, "lm_axolotl": trainer, "lm_sft": trainer,
		"lm_moe": languageModel, "lm_moe_trainer": trainer, "lm_whole": trainer, "lm_cut": trainer,
		"lm_half": languageModel, "lm_decoders": languageModel,
	}[r.Family]
	if !ok {
		return Price{}, fmt.Errorf("%s: no plugin prices the family %q", r.Name, r.Family)
	}
	p, err := price(a)
	if err == nil && !p.Tensors.Known() {
		err = fmt.Errorf("the estimate is unknown: %s", p.Tensors.Unknown)
	}
	if err != nil {
		return Price{}, fmt.Errorf("%s, %s: %w", r.Name, a, err)
	}
	for _, it := range p.Tensors.Items {
		if it.Kind == mem.Parameters {
			p.Params += it.Count
		}
	}
	return p, nil
}

// args are the arguments of all families' rows.
type args struct {
	Batch      int64  `json:"batch"`
	Size       int64  `json:"size"`
	Precision  string `json:"precision"`
	Optimizer  string `json:"optimizer"`
	Accumulate int64  `json:"accumulate"`

	Release      lmarch.Release `json:"-"` // lm
	halfAdapters bool
	// moco, torchvision
	Project string `json:"project"` // stablesr too
	Net     string `json:"net"`     // sisr too
	MLP     bool   `json:"mlp"`
	K       int64  `json:"k"`
	Queue   any    `json:"queue"` // moco: whether the loss reads it; stablesr: pairs

	// sisr
	Scale  int64          `json:"scale"`
	Args   map[string]any `json:"args"`
	LQ     int64          `json:"lq"`
	Losses []struct {
		Type   string         `json:"type"`
		Name   string         `json:"name"`
		Weight float64        `json:"weight"`
		Args   map[string]any `json:"args"`
	} `json:"losses"`
	Disc     string         `json:"disc"`
	DiscArgs map[string]any `json:"disc_args"`
	EMA      bool           `json:"ema"`
	Model    string         `json:"model"`  // model_type
	Frames   int64          `json:"frames"` // of a clip

	// stablesr
	Xformers bool `json:"xformers"`
	Unfrozen bool `json:"unfrozen"`

	// dualattn
	Version       string  `json:"version"`
	Height        int64   `json:"height"`
	Width         int64   `json:"width"`
	TopK          float64 `json:"topk"`
	Checkpointing bool    `json:"checkpointing"`
	Dim           int64   `json:"dim"`
	Heads         int64   `json:"heads"`
	Hidden        int64   `json:"hidden"`
	Layers        int64   `json:"layers"`
	Local         int64   `json:"local"`
	Dropout       float64 `json:"dropout"`
	DropPath      bool    `json:"drop_path"`
	Classes       int64   `json:"classes"`

	// lm
	Config    json.RawMessage `json:"config"`
	Length    int64           `json:"length"`
	Weights   string          `json:"weights"`
	Attention string          `json:"attention"`
	Padded    bool            `json:"padded"`
	Balanced  bool            `json:"balanced"` // with the loss that balances the experts
	Recompute string          `json:"recompute"`
	Math      bool            `json:"math"` // as on a card whose fused kernels take no groups of heads
	// Evaluation is "loss" or "predicted" of a row that is no training step.
	Evaluation string `json:"evaluation"`
	TRL        bool   `json:"trl"` // its SFTTrainer
	Axolotl    bool   `json:"axolotl"`
	Cut        bool   `json:"cut"`     // cut cross entropy
	Router     bool   `json:"router"`  // in float32
	Upcast     bool   `json:"upcast"`  // and embedding, norms and the last layer
	Kernels    bool   `json:"kernels"` // axolotl's, for adapters
	// Preference is a step of trl's DPOTrainer, Tile the columns of a tile of its fused head.
	Preference  bool  `json:"preference"`
	Precomputed bool  `json:"precomputed"`
	Tile        int64 `json:"tile"`
	// Factory is a stage of LLaMA-Factory, and Loss the kind of a preference loss.
	Factory string `json:"factory"`
	Loss    any    `json:"loss"`
	LoRA    *struct {
		Rank    int64    `json:"rank"`
		Targets []string `json:"targets"`
		Dropout float64  `json:"dropout"`
		Type    string   `json:"type"`
		Whole   []string `json:"whole"` // modules_to_save
		// WholeType is the type of those, where it is not the model's.
		WholeType string `json:"whole_type"`
	} `json:"lora"`
	Decay  float64 `json:"decay"`
	Packed bool    `json:"one_row"`
	Quant  *struct {
		Bits     int    `json:"bits"`
		Nested   bool   `json:"nested"`
		Compute  string `json:"compute"`
		Prepared bool   `json:"prepared"` // peft's prepare_model_for_kbit_training
	} `json:"quant"`
}

func (a args) String() string {
	size := a.Size
	if a.LQ > 0 {
		size = a.LQ
	}
	s := fmt.Sprintf("batch %d", a.Batch)
	switch {
	case a.Height > 0:
		s += fmt.Sprintf(", %d×%d", a.Height, a.Width)
	case size > 0:
		s += fmt.Sprintf(", %d²", size)
	case a.Length > 0:
		s += fmt.Sprintf(" × %d tokens, %s weights, %s", a.Length, a.Weights, a.Attention)
	}
	s += ", " + a.Precision + ", " + a.Optimizer
	if a.Accumulate > 1 {
		s += fmt.Sprintf(", accumulation %d", a.Accumulate)
	}
	for _, extra := range []struct {
		on   bool
		name string
	}{
		{a.MLP, "mlp"}, {a.K > 0 && a.K != 65536, fmt.Sprintf("queue of %d", a.K)}, {a.Queue == true, "queue read"}, {a.EMA, "EMA"},
		{len(a.Losses) > 1, fmt.Sprintf("%d losses", len(a.Losses))}, {a.Disc != "", a.Disc}, {a.Xformers, "xformers"},
		{a.Unfrozen, "UNet trained"}, {a.Checkpointing, "checkpointing"}, {a.Version != "" && a.Dropout == 0, "no dropout"},
		{a.Padded, "padded"}, {a.Math, "no fused attention"}, {a.Recompute != "", "checkpointing"},
		{a.Evaluation != "", "evaluation: " + a.Evaluation}, {a.LoRA != nil, "LoRA"}, {a.TRL, "SFTTrainer"},
		{a.Factory != "", "LLaMA-Factory " + a.Factory}, {a.Loss != nil, fmt.Sprint(a.Loss)},
		{a.Preference, "DPOTrainer"}, {a.Precomputed, "reference precomputed"},
		{a.Tile > 0, fmt.Sprintf("tiles of %d columns", a.Tile)},
		{a.DropPath, "stochastic depth"}, {a.Version != "" && a.Local == 0, "no GLCA"}, {a.Version != "" && a.Dim != 768, fmt.Sprintf("width %d", a.Dim)},
	} {
		if extra.on {
			s += ", " + extra.name
		}
	}
	if n, ok := a.Queue.(float64); ok && n > 0 {
		s += fmt.Sprintf(", pool of %.0f", n)
	}
	return s
}

func (a args) amp() nn.DType { return precision(a.Precision) }

func precision(name string) nn.DType {
	switch name {
	case "fp16":
		return nn.F16
	case "bf16":
		return nn.BF16
	}
	return nn.F32
}
