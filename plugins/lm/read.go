package lm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// read finds out what the training is made of. What cannot be known makes the estimate unknown, with the reason.
func (t *training) read() {
	t.output = t.text("output_dir", cmp.Or(t.kind.output, "trainer_output")) // training_args.py:771
	// which the rungs ask for, whatever else is unknown
	checkpointing := t.readCheckpointing()
	steps := []func() string{t.released, t.launched, t.foreign, func() string { return t.kind.read(t) }, t.readLiger,
		t.dated, t.readExperts, t.readPrecision, t.readOptimizer, func() string { return checkpointing },
		t.readShards, t.readFSDP}
	for _, step := range steps {
		if t.unknown = step(); t.unknown != "" {
			return
		}
	}
	t.predicted = t.evals > 0 && t.kind.own == nil && t.script == nil && !t.step.Fused &&
		(!t.kind.pairs || t.on("compute_accuracy") && t.stage() == "sft") &&
		!t.on("prediction_loss_only")
	t.step.Liger.Evaluates = t.step.Liger.Evaluates && !t.predicted // trainer.py:3265
	t.step.Model, t.step.World = t.model, t.ranks
	t.warnGathered()
	t.warnExperts()
}

// released says why the installed versions have no formula.
func (t *training) released() string {
	switch v := t.assume("transformers"); {
	case t.older() && len(t.kind.classes) > 0:
		return "the steps of trl are known with transformers 5, and the command's Python has " +
			t.env.Version("transformers")
	case v[0] != 5 && !t.older():
		return fmt.Sprintf("the formula is of transformers 4.57 and 5, and the command's Python has %s",
			t.env.Version("transformers"))
	}
	return ""
}

// older reports whether transformers is 4.57. Its Trainer makes the same steps, but for what its defaults are.
func (t *training) older() bool {
	v := t.release("transformers")
	return len(v) > 1 && v[0] == 4 && v[1] == 57
}

// dated says what has no formula in transformers 4.57: GPT-2 keeps keys and values in a cache, also in a training
// (modeling_gpt2.py, DynamicCache).
func (t *training) dated() string {
	if t.older() && t.model.Type == "gpt2" {
		return "GPT-2 has a formula with transformers 5, and the command's Python has " + t.env.Version("transformers")
	}
	return ""
}

// launched says what of how the command is started has no formula.
func (t *training) launched() string {
	if _, _, _, why := accelerateOptions(t.launching()); why != "" && t.kind.own != nil {
		return why
	}
	if t.replicas {
		return "one process uses all cards by torch.nn.DataParallel, which has no formula: a launcher such as torchrun " +
			"gives each card a process"
	}
	return ""
}

// switches are fields of TrainingArguments that change what a step keeps where they are on, and others are those that
// do where they are set.
var (
	switches = strings.Fields("torch_compile use_cache include_inputs_for_metrics batch_eval_metrics " +
		"bf16_full_eval fp16_full_eval use_mps_device adafactor use_kernels")
	others = strings.Fields("torch_compile_backend torch_compile_mode neftune_noise_alpha " +
		"label_smoothing_factor optim_target_modules optim_args parallelism_config accelerator_config include_for_metrics " +
		"sharded_ddp per_gpu_train_batch_size per_gpu_eval_batch_size kernel_config")
)

// foreign says which setting has no formula.
func (t *training) foreign() string {
	on := slices.IndexFunc(switches, t.on)
	set := slices.IndexFunc(others, func(field string) bool {
		v, ok := t.get(field)
		return ok && v != "" && v != "None" && v != "0" && v != "0.0"
	})
	switch {
	case on >= 0:
		return t.address(switches[on]).Path + " has no formula"
	case set >= 0:
		return t.address(others[set]).Path + " has no formula"
	}
	return ""
}

// readModel reads the model, the type of its weights, and the length of a sequence, as run_clm.py has them (main).
func (t *training) readModel() string {
	name, revision := t.text("model_name_or_path", ""), t.text("model_revision", "main")
	config := t.text("config_name", name)
	if name == "" {
		return t.scratch(config, revision)
	}
	p, err := t.find(name, revision)
	if err == nil {
		t.model, err = arch.Read(p.config)
	}
	if err != nil {
		return err.Error()
	}
	if config != name {
		return t.address("config_name").Path + " beside a model has no formula"
	}
	var ok bool
	if t.step.Weights, ok = t.weights(p); !ok {
		return "the type in which the model is loaded is not known: --dtype sets it"
	}
	return t.readLength(p)
}

// scratch is a model without weights: that of a configuration, or of model_type with config_overrides.
func (t *training) scratch(config, revision string) string {
	text := []byte(fmt.Sprintf(`{"model_type": %q}`, t.text("model_type", "")))
	if config != "" {
		p, err := t.find(config, revision)
		if err != nil {
			return err.Error()
		}
		text = p.config
	}
	text, err := overridden(text, t.text("config_overrides", ""))
	if err == nil {
		t.model, err = arch.Read(text)
	}
	if err != nil {
		return err.Error()
	}
	t.step.Weights = t.model.DType // from_config (modeling_utils.py:1402)
	tokenizer, err := t.find(t.text("tokenizer_name", ""), revision)
	if err != nil {
		return t.lengthOf(pretrained{})
	}
	return t.lengthOf(tokenizer)
}

// overridden is a configuration with fields of another value (PretrainedConfig.update_from_string):
// n_embd=10,n_layer=2.
func overridden(text []byte, overrides string) ([]byte, error) {
	if overrides == "" {
		return text, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("reading config.json: %w", err)
	}
	for part := range strings.SplitSeq(overrides, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("--config_overrides has %q: it is a list of NAME=VALUE", part)
		}
		v := strings.ToLower(value)
		if !json.Valid([]byte(v)) {
			v = fmt.Sprintf("%q", value)
		}
		fields[name] = json.RawMessage(v)
	}
	return json.Marshal(fields)
}

// weights is the type in which from_pretrained loads the model: that of --dtype, else that of its configuration, else
// that of its weights (modeling_utils.py:810, 4178).
func (t *training) weights(p pretrained) (nn.DType, bool) {
	if name := t.text("dtype", "auto"); name != "auto" && name != "None" {
		d, ok := weightTypes[name]
		return d, ok
	}
	if _, set := t.get("dtype"); t.older() && !set { // modeling_utils.py:1285 of 4.57.6
		return nn.F32, true
	}
	if typed(p.config) {
		return t.model.DType, true
	}
	return p.stored()
}

// typed reports whether a configuration names the type of its weights.
func typed(text []byte) bool {
	var config struct {
		DType      string `json:"dtype"`
		TorchDType string `json:"torch_dtype"`
	}
	return json.Unmarshal(text, &config) == nil && config.DType+config.TorchDType != ""
}

// readLength is the length of a block, with the model's tokenizer or another.
func (t *training) readLength(p pretrained) string {
	if name := t.text("tokenizer_name", ""); name != "" {
		other, err := t.find(name, t.text("model_revision", "main"))
		if err != nil {
			other = pretrained{}
		}
		return t.lengthOf(other)
	}
	return t.lengthOf(p)
}

// lengthOf is block_size: texts are joined and cut into blocks of it, so every sequence has this length, and nothing
// is padded. Without --block_size it is the tokenizer's model_max_length, or min(1024, max_position_embeddings) where
// that is longer than the model's positions.
func (t *training) lengthOf(p pretrained) string {
	longest := p.longest
	if longest == 0 {
		longest = 1 << 30 // the tokenizer's VERY_LARGE_INTEGER
	}
	if t.has("block_size") {
		n, err := t.count("block_size", 1)
		if err != nil {
			return err.Error()
		}
		t.step.Length = min(n, longest)
		return ""
	}
	if !p.tokenizer {
		return "the length of a sequence is not known: the tokenizer's settings are not on this machine, and " +
			"--block_size is not set"
	}
	if longest > t.model.Positions {
		longest = min(1024, t.model.Positions)
	}
	if t.step.Length = longest; longest > 1024 {
		t.warn("%s is not set, so every sequence has the tokenizer's model_max_length of %d tokens: 1024 would be its "+
			"length only if that were more than the model's max_position_embeddings", t.address("block_size").Path, longest)
	}
	return ""
}

// readPrecision is mixed precision: of the settings, else of accelerate (training_args.py:1614).
func (t *training) readPrecision() string {
	launched, why := t.accelerated()
	if why == "" {
		why = t.surrounded()
	}
	switch {
	case why != "":
		return why
	case t.bf16:
		t.step.Autocast = nn.BF16
	case t.on("fp16"):
		t.step.Autocast = nn.F16
	case t.on("bf16"): // of trl where neither is set (trl/trainer/base_config.py:108)
		t.step.Autocast = nn.BF16
	case launched == "fp16":
		t.step.Autocast = nn.F16
	case launched == "bf16":
		t.step.Autocast = nn.BF16
	case launched != "" && launched != "no":
		return fmt.Sprintf("mixed precision %q has no formula", launched)
	}
	if t.step.Autocast == nn.F16 && t.step.Weights != nn.F32 {
		return "fp16 with weights that are no float32 has no formula"
	}
	return ""
}

// readOptimizer is --optim, whose default the version of torch decides (training_args.py:806).
func (t *training) readOptimizer() string {
	torch := t.assume("torch")
	major, minor := torch[0], torch[1]
	t.step.Optimizer = "adamw_torch"
	if major > 2 || major == 2 && minor >= 8 {
		t.step.Optimizer = "adamw_torch_fused"
	}
	t.step.Optimizer = t.text("optim", t.step.Optimizer)
	if v, ok := t.get("weight_decay"); ok {
		rate, err := strconv.ParseFloat(v, 64)
		t.step.Decay = err != nil || rate != 0
	}
	if arch.Bitsandbytes(t.step.Optimizer) {
		t.unmeasured("the optimizer " + t.step.Optimizer)
	}
	if arch.Listed(t.step.Optimizer, t.step.Decay) {
		t.unmeasured("the copies of lists of the optimizer " + t.step.Optimizer)
	}
	grouped := t.model.KVHeads < t.model.Heads && t.model.KVHeads > 0
	if grouped && t.step.Weights == nn.F32 && t.step.Autocast == nn.F32 && (major < 2 || major == 2 && minor < 15) {
		return fmt.Sprintf("float32 attention with grouped heads has a formula from torch 2.15 on, and this is %d.%d",
			major, minor)
	}
	return ""
}

// checkpointing is the field that turns activation checkpointing on: gradient_checkpointing is its older name.
func (t *training) checkpointing() string {
	if t.kind.pairs {
		return "disable_gradient_checkpointing"
	}
	if t.has("activation_checkpointing") {
		return "activation_checkpointing"
	}
	return "gradient_checkpointing"
}

// readCheckpointing reads activation checkpointing, whose default is not reentrant (modeling_utils.py:3149), but for
// that of 4.57.6 (modeling_utils.py:3692).
func (t *training) readCheckpointing() string {
	if t.kind.pairs {
		v, ok := t.get("use_reentrant_gc") // True in LLaMA-Factory's hparams/model_args.py:149
		t.step.Checkpointing, t.step.Reentrant = !t.on(t.checkpointing()), !ok || strings.EqualFold(v, "true")
		return ""
	}
	if t.kind.own != nil {
		return t.recomputes()
	}
	t.step.Checkpointing, t.step.Reentrant = t.on(t.checkpointing()), t.older()
	for _, field := range []string{"activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"} {
		v, ok := t.get(field)
		if !ok || v == "None" {
			continue
		}
		var kwargs map[string]any
		if json.Unmarshal([]byte(v), &kwargs) != nil {
			return t.address(field).Path + " could not be read"
		}
		for name, value := range kwargs {
			on, is := value.(bool)
			if name != "use_reentrant" || !is {
				return fmt.Sprintf("%s with %s has no formula", t.address(field).Path, name)
			}
			t.step.Reentrant = on
		}
	}
	return ""
}
