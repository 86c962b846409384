package lm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// An unmade field is one of trl's classes that changes what a step keeps, with what it is where it changes nothing.
type unmade struct{ field, harmless string }

// unmadeTRL are those that its trainers share.
var unmadeTRL = []unmade{
	{"activation_offloading", "false"},
	{"model_init_kwargs", ""}, {"use_dora", "false"},
	{"lora_target_parameters", ""}, {"pad_to_multiple_of", "auto"}, {"chat_template_path", ""}, {"torch_dtype",
		""},
	{"quantization_config", ""},
}

// readSFT reads what trl's sft.py and SFTTrainer are given (trl 1.16.0).
func (t *training) readSFT() string {
	switch loss := t.text("loss_type", "nll"); loss { // sft_trainer.py:1042; chunked_nll is made nll (sft_config.py:314)
	case "nll", "chunked_nll", "None":
	case "dft":
		t.step.Weighted = true
	default:
		return "trl refuses the loss_type " + loss
	}
	if why := t.readTRL(nil); why != "" {
		return why
	}
	return t.packsSFT()
}

// readTRL reads the model, the adapters and the length, as trl's scripts and trainers have them.
func (t *training) readTRL(more []unmade) string {
	if v := t.assume("trl"); len(v) < 2 || v[0] != 1 || v[1] < 16 {
		return "the formula is of trl from 1.16 on, and the command's Python has " + orNone(t.env.Version("trl"))
	}
	if t.prog.Path() == "" && t.ranks > 1 {
		return "how trl starts a process for each card has no formula"
	}
	if passed := t.passedOn(); passed != "" {
		return passed + ", which trl passes on to accelerate launch, has no formula"
	}
	for _, f := range append(more, unmadeTRL...) {
		if v, ok := t.get(f.field); ok && v != f.harmless && v != "None" && !(f.harmless == "false" && !t.on(f.field)) {
			return t.address(f.field).Path + " has no formula"
		}
	}
	p, err := t.find(t.text("model_name_or_path", ""), t.text("model_revision", "main"))
	if err == nil {
		t.model, err = arch.Read(p.config)
	}
	if err != nil {
		return err.Error()
	}
	switch name := t.text("dtype", "float32"); name { // trl/trainer/model_config.py:89
	case "auto", "None":
		var ok bool
		if t.step.Weights, ok = t.weights(p); !ok {
			return "the type in which the model is loaded is not known: --dtype sets it"
		}
	default:
		t.step.Weights = weightTypes[name]
	}
	if why := t.readQuantSFT(); why != "" {
		return why
	}
	if why := t.attends(t.text("attn_implementation", "")); why != "" {
		return why
	}
	if t.untruncated("max_length") {
		return "sequences are not cut (max_length is null), and how long they get is not known"
	}
	if t.step.Length, err = t.count("max_length", 1024); err != nil { // sft_config.py:202, dpo_config.py:202
		return err.Error()
	}
	t.step.Fused, t.pads = true, true
	return t.readLoRA()
}

// passedOn is the first setting that the command trl does not know itself, and so passes on
// (trl/cli/commands/training.py, trl/cli/accelerate_config.py): of its arguments, or of its file. "" for none.
func (t *training) passedOn() string {
	if t.prog.Path() != "" {
		return ""
	}
	for _, arg := range t.argv.Unknown() {
		if strings.HasPrefix(arg, "--") {
			return arg
		}
	}
	for _, key := range strings.Fields("accelerate_config config_file num_processes num_machines mixed_precision " +
		"use_fsdp use_deepspeed multi_gpu dynamo_backend") {
		if t.tree != nil && t.tree.Root().Get(key).Exists() {
			return key
		}
	}
	return ""
}

func orNone(version string) string {
	if version == "" {
		return "none that is known"
	}
	return version
}

// targets are the layers that peft adapts where nothing names them (peft/utils/constants.py,
// TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING).
var targets = map[string][]string{"gpt2": {"c_attn"}, "phi": {"q_proj", "v_proj", "fc1", "fc2"}}

// layers are the names of linear layers, by the model's type.
var layers = map[string][]string{"gpt2": {"c_attn", "c_proj", "c_fc"}, "phi": {"q_proj", "k_proj", "v_proj", "dense",
	"fc1", "fc2"}}

var llamaLayers = []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}

// readLoRA is get_peft_config (trl/trainer/utils.py:280). Adapters are float32, whatever the model's type is
// (autocast_adapter_dtype of get_peft_model).
func (t *training) readLoRA() string {
	if !t.on("use_peft") {
		return ""
	}
	rank, err := t.count("lora_r", 16)
	if err != nil {
		return err.Error()
	}
	l := &arch.LoRA{Rank: rank, Targets: targets[t.model.Type], Dropout: 0.05, Type: nn.F32}
	l.Whole = arch.Whole{Names: t.names("lora_modules_to_save"), Type: t.step.Weights}
	if t.step.Quant != nil { // of all that is trained (sft_trainer.py:908, dpo_trainer.py:724)
		l.Type, l.Whole.Type = nn.BF16, nn.BF16
	}
	if l.Targets == nil {
		l.Targets = []string{"q_proj", "v_proj"}
	}
	if v, ok := t.get("lora_dropout"); ok {
		if l.Dropout, err = strconv.ParseFloat(v, 64); err != nil || !(l.Dropout >= 0 && l.Dropout < 1) {
			return fmt.Sprintf("lora_dropout is %q: it is a number from 0 to 1", v)
		}
	}
	switch named := t.has("lora_target_modules") || len(t.list("lora_target_modules")) > 0; {
	case named:
		l.Targets = t.list("lora_target_modules")
	case t.model.Experts != nil && t.model.Type != "mixtral": // which alone the mapping has
		return "peft chooses no layers of " + t.model.Type + " for adapters: lora_target_modules names them"
	}
	return t.adapt(l)
}

// names is a field of several names, without those that are empty.
func (s *settings) names(field string) []string {
	return slices.DeleteFunc(slices.Clone(s.list(field)), func(name string) bool {
		return name == "" || name == "null" || name == "~" || name == "None"
	})
}

// adapt adds adapters to the step, if every layer that they are for has a formula.
func (t *training) adapt(l *arch.LoRA) string {
	known := layers[t.model.Type]
	if known == nil {
		known = llamaLayers
	}
	for _, name := range l.Targets {
		if name != arch.AllLinear && !slices.Contains(known, name) {
			return fmt.Sprintf("adapters in %q have no formula", name)
		}
	}
	t.step.LoRA = l
	return ""
}
