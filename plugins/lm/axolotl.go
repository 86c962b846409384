package lm

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// Figures are of axolotl 0.19.0 as on PyPI, src/axolotl/…:line. What its documentation says otherwise is a warning.

// axolotlModule is the module that every launcher of axolotl starts (cli/utils/train.py).
const axolotlModule = "axolotl.cli.train"

// axolotlNames are its names of fields of TrainingArguments (core/builders/base.py:660).
var axolotlNames = map[string]string{"per_device_train_batch_size": "micro_batch_size",
	"per_device_eval_batch_size": "eval_batch_size", "optim": "optimizer"}

//go:embed axolotl.txt
var axolotlText string

// axolotlOptions are the options of `axolotl train`. Its module reads them by fire, which takes an underscore for a
// dash.
var axolotlOptions = sync.OnceValue(func() (all []config.Option) {
	add := func(names string, takes config.Takes) {
		for name := range strings.FieldsSeq(names) {
			spelled := []string{"--" + name}
			if under := strings.ReplaceAll(name, "-", "_"); under != name {
				spelled = append(spelled, "--"+under)
			}
			all = append(all, config.Option{Names: spelled, Takes: takes})
		}
	}
	_, text, _ := strings.Cut(axolotlText, "---\n")
	values, flags, _ := strings.Cut(text, "---\n")
	add(values, config.One)
	add(flags, config.Maybe)
	return all
})

// named reads the file that is axolotl's argument. The options outrank it (cli/config.py, load_cfg).
func (s *settings) named() error {
	words := s.argv.Positionals()
	if s.prog.Kind == command.Installed {
		words = words[min(1, len(words)):] // train
	}
	if len(words) == 0 {
		return &plugin.Caution{Why: "axolotl is given no file of settings"}
	}
	switch filepath.Ext(words[0]) {
	case ".yaml", ".yml", ".json":
	default: // a folder, from which a person chooses, or an address
		return &plugin.Caution{Why: "axolotl's settings are known from a file alone, and " + words[0] + " is none"}
	}
	if strings.Contains(words[0], "://") {
		return &plugin.Caution{Why: "axolotl downloads its settings, and launch reads files alone"}
	}
	for _, field := range []string{"cloud", "sweep", "use_ray"} {
		if s.has(field) {
			name := strings.ReplaceAll(field, "_", "-")
			return &plugin.Caution{Why: "axolotl with --" + name + " starts the training elsewhere"}
		}
	}
	return s.parse(job.File{Path: words[0], Format: "yaml", Argument: true})
}

// axolotlEnv is the environment with the allocator's settings that `axolotl train` adds where they are not there
// (utils/__init__.py:81).
func axolotlEnv(e python.Environment, env []string) []string {
	major, minor, ok := e.Torch()
	name, value := "PYTORCH_ALLOC_CONF", "expandable_segments:True"
	switch {
	case !ok: // it wants torch 2.11
	case major != 2 || minor < 2:
		return env
	case minor < 9:
		name, value = "PYTORCH_CUDA_ALLOC_CONF", value+",roundup_power2_divisions:16"
	}
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
		return env
	}
	return append(slices.Clone(env), name+"="+value)
}

// nothing reports whether the file sets a field to null, which for axolotl is not the same as a field that it has not.
func (s *settings) nothing(field string) bool {
	field = s.called(field)
	return s.filed(field) && s.tree.Root().Get(field).IsNull()
}

// launching are the arguments that `axolotl train` passes to accelerate or torchrun: what it does not know, and what
// follows "--" (cli/main.py, train).
func (t *training) launching() (args []string) {
	if i := slices.Index(t.prog.Args, "--"); i >= 0 {
		return t.prog.Args[i+1:]
	}
	for i, arg := range t.prog.Args {
		if slices.Contains(t.argv.Unknown(), arg) {
			return t.prog.Args[i:]
		}
	}
	return nil
}

// divideAxolotl is how axolotl divides the global batch (utils/config/__init__.py:202): batch_size counts only where
// gradient_accumulation_steps is null, because that has a default of 1 (utils/schemas/training.py:71).
func (t *training) divideAxolotl() (err error) {
	t.packs = t.on("sample_packing")
	if t.split.Micro, err = t.count("micro_batch_size", 1); err != nil {
		return err
	}
	if t.split.Accumulation, err = t.count("gradient_accumulation_steps", 1); err != nil {
		return err
	}
	batch, err := t.count("batch_size", 0)
	switch {
	case err != nil:
		return err
	case batch > 0 && t.nothing("gradient_accumulation_steps"):
		t.split.Accumulation = max(1, batch/t.split.Micro)
	case batch > 0 && !t.has("gradient_accumulation_steps"):
		t.warn("batch_size: %d has no effect: axolotl sets gradient_accumulation_steps to its default of 1 before it reads "+
			"batch_size (utils/config/__init__.py:202), and so an optimizer step has %d sequences of a card",
			batch, t.split.Micro)
	}
	return t.evaluates()
}

// evaluates finds out whether and with what batch axolotl evaluates (core/builders/base.py:536,
// core/trainers/base.py:131).
func (t *training) evaluates() (err error) {
	part, _ := strconv.ParseFloat(t.text("val_set_size", "0"), 64)
	switch {
	case part <= 0 && !t.given("test_datasets"):
		return nil
	case !t.has("eval_steps") && !t.everyEpoch() && t.text("eval_strategy", t.text("evaluation_strategy", "no")) == "no":
		return nil
	}
	if t.evals, err = t.count("eval_batch_size", t.split.Micro); err != nil {
		return err
	}
	t.coupled = !t.has("eval_batch_size")
	if t.packs && (t.on("eval_sample_packing") || !t.set("eval_sample_packing")) { // utils/schemas/validation.py:141
		if t.evals != t.split.Micro {
			t.warn("eval_batch_size: %d has no effect: with eval_sample_packing axolotl evaluates with micro_batch_size "+
				"(core/trainers/base.py:131)", t.evals)
		}
		t.evals, t.coupled, t.evalPacks = t.split.Micro, true, true
	}
	return nil
}

// everyEpoch reports whether evals_per_epoch makes evaluations: not of one in one epoch, which is no part of the
// training (utils/config/__init__.py, normalize_config).
func (t *training) everyEpoch() bool {
	n, _ := strconv.ParseFloat(t.text("evals_per_epoch", "0"), 64)
	epochs, err := strconv.ParseFloat(t.text("num_epochs", "1"), 64)
	return err == nil && n*epochs > 1
}

// given reports whether a field has a value that is true in Python.
func (s *settings) given(field string) bool {
	v, ok := s.get(field)
	if s.filed(s.called(field)) {
		if node := s.tree.Root().Get(s.called(field)); node.Kind() == config.Seq || node.Kind() == config.Map {
			return node.Len() > 0
		}
	}
	return ok && !slices.Contains([]string{"", "false", "False", "None", "0", "0.0", "[]", "{}"}, v)
}

// set reports whether a field has a value.
func (s *settings) set(field string) bool {
	_, ok := s.get(field)
	return ok
}

// worldAxolotl is how many processes `axolotl train` starts: accelerate's or torchrun's, or one alone.
func (t *training) worldAxolotl() (n int64, err error) {
	devices := t.command.Devices
	if t.prog.Kind != command.Installed || t.text("launcher", "accelerate") == "python" {
		if devices == 0 {
			return 0, &plugin.Need{Devices: true}
		}
		t.spread = devices > 1
		return 1, nil
	}
	_, path, processes, why := accelerateOptions(t.launching())
	switch {
	case why != "": // of which read gives the reason
		return 1, nil
	case processes == "" && t.text("launcher", "accelerate") == "accelerate":
		get, _, _ := t.accelerateFile(path)
		processes = get("num_processes")
	case processes == "": // torchrun's --nproc-per-node
		return 1, nil
	}
	if n, err := strconv.ParseInt(processes, 10, 64); err == nil && n > 0 {
		return n, nil
	}
	if devices == 0 {
		return 0, &plugin.Need{Devices: true}
	}
	return max(1, int64(devices)), nil
}

// axolotlSwitches are its settings without a formula that change what a step keeps where they are on, axolotlOthers
// those that do where they are set, and axolotlOnes those that do where they are more than 1.
var (
	axolotlSwitches = strings.Fields("reward_model process_reward_model gptq relora use_pose fp8 chunked_cross_entropy " +
		"tiled_mlp flash_optimum flash_attn_cross_entropy flash_attn_cross_entropy_loss flash_attn_fuse_mlp " +
		"flash_attn_rms_norm s2_attention peft_use_dora layer_offloading use_onebitllms quantize_moe_experts " +
		"scaling_softmax fused_attn_kernel batch_flattening resize_token_embeddings_to_32x shrink_embeddings fp32_norms " +
		"embeddings_skip_upcast streaming generate_samples do_bench_eval do_causal_lm_eval lora_on_cpu use_eaft " +
		"ple_cpu_offload sequence_parallel reinit_weights low_cpu_mem_usage torch_compile float16 deepcompile")
	axolotlOthers = strings.Fields("rl lora_target_parameters lora_model_dir peft_ensure_weight_tying " +
		"unfrozen_parameters peft peft_layers_to_transform peft_layer_replication peft_trainable_token_indices " +
		"lora_rank_pattern lora_exclude_modules pretraining_dataset tokens added_tokens_overrides gpu_memory_limit " +
		"max_memory device_map overrides_of_model_config overrides_of_model_kwargs model_quantization_config " +
		"dynamic_checkpoint " +
		"lisa_step_interval trainer_cls noisy_embedding_alpha qat activation_offloading selective_checkpointing " +
		"bnb_config_kwargs eval_table_size revision_of_model base_model_config optim_args " +
		"model_config model_kwargs model_revision") // other names of three of these (utils/schemas/deprecated.py:149)
	axolotlOnes = strings.Fields("tensor_parallel_size context_parallel_size sequence_parallel_degree dp_shard_size " +
		"dp_replicate_size expert_parallel_size")
)

// readAxolotl reads a fine-tuning of axolotl, whole or with LoRA.
func (t *training) readAxolotl() string {
	if v := t.assume("axolotl"); len(v) < 2 || v[0] != 0 || v[1] < 19 {
		return "the formula is of axolotl from 0.19 on, and the command's Python has " + orNone(t.env.Version("axolotl"))
	}
	for _, why := range []string{t.foreignAxolotl(), t.pluginsAxolotl()} {
		if why != "" {
			return why
		}
	}
	p, err := t.find(t.text("base_model", ""), "main")
	if err == nil {
		t.model, err = arch.Read(p.config)
	}
	if err != nil {
		return err.Error()
	}
	if t.step.Length, err = t.count("sequence_len", 512); err != nil { // utils/schemas/config.py:671
		return err.Error()
	}
	if n, err := t.count("eval_sequence_len", t.step.Length); err != nil || n != t.step.Length {
		return "eval_sequence_len has no formula"
	}
	t.precise()
	for _, why := range []string{t.readAttention(), t.readAdapter()} {
		if why != "" {
			return why
		}
	}
	return ""
}

// foreignAxolotl says which setting of axolotl has no formula.
func (t *training) foreignAxolotl() string {
	many := func(field string) bool {
		n, err := t.count(field, 1)
		return err != nil || n > 1
	}
	kind := t.text("model_type", "AutoModelForCausalLM")
	switch {
	case t.spread:
		return "one process spreads the layers over all cards (device_map: auto), which has no formula: the launchers " +
			"accelerate and torchrun give each card a process"
	case slices.ContainsFunc(axolotlSwitches, t.on):
		return axolotlSwitches[slices.IndexFunc(axolotlSwitches, t.on)] + " has no formula"
	case slices.ContainsFunc(axolotlOthers, t.given):
		return axolotlOthers[slices.IndexFunc(axolotlOthers, t.given)] + " has no formula"
	case slices.ContainsFunc(axolotlOnes, many):
		return axolotlOnes[slices.IndexFunc(axolotlOnes, many)] + " has no formula"
	case !strings.HasSuffix(kind, "ForCausalLM"):
		return "model_type " + kind + " has no formula"
	}
	return ""
}

// precise is resolve_dtype (utils/config/__init__.py): the type in which the model is loaded. bf16 is "auto" where
// nothing sets it, which a card that has bfloat16 makes true, and a CPU or an older card makes fp16.
//
// Without adapters and FlashAttention the embedding, the norms and lm_head are float32 then (loaders/model.py:430).
func (t *training) precise() {
	t.bf16 = t.on("bf16") || t.on("bfloat16")
	if t.text("bf16", "auto") == "auto" && !t.nothing("bf16") {
		t.bf16 = t.bf16 || !t.on("fp16")
	}
	t.step.Weights = nn.F32
	switch {
	case t.bf16:
		t.step.Weights = nn.BF16
	case t.on("fp16"):
		t.step.Weights = nn.F16
	}
	if t.on("bfloat16") {
		t.warn("bfloat16: true is documented as without automatic mixed precision; axolotl turns it on all the same " +
			"(core/builders/base.py:426)")
	}
}

// recomputes reads activation checkpointing, which is reentrant where nothing says otherwise
// (utils/config/__init__.py:375).
func (t *training) recomputes() string {
	t.step.Checkpointing, t.step.Reentrant = t.on("gradient_checkpointing"), true
	if how := t.text("gradient_checkpointing", ""); strings.HasPrefix(how, "offload") || how == "unsloth" {
		return "gradient_checkpointing: " + how + " has no formula"
	}
	if !t.set("gradient_checkpointing_kwargs") && !t.given("gradient_checkpointing_kwargs") {
		return ""
	}
	t.step.Reentrant = false
	if !t.filed("gradient_checkpointing_kwargs") {
		return "gradient_checkpointing_kwargs among the options has no formula"
	}
	kwargs := t.tree.Root().Get("gradient_checkpointing_kwargs")
	for _, name := range kwargs.Keys() {
		on, is := kwargs.Get(name).Bool()
		if name != "use_reentrant" || !is {
			return "gradient_checkpointing_kwargs with " + name + " has no formula"
		}
		t.step.Reentrant = on
	}
	return ""
}

// attentions are the older flags of attn_implementation, in the order in which axolotl asks for them
// (utils/schemas/enums.py:125).
var attentions = []struct{ flag, how string }{{"xformers_attention", "xformers"}, {"sage_attention", "sage"},
	{"flex_attention", "flex_attention"}, {"flash_attention", "flash_attention_2"}, {"sdp_attention", "sdpa"},
	{"eager_attention", "eager"}}

// attention is attn_implementation; "" for none, which leaves it to transformers.
func (t *training) attention() string {
	how := t.text("attn_implementation", "")
	for _, a := range attentions {
		if how == "" && t.on(a.flag) {
			how = a.how
		}
	}
	return how
}

// readAttention reads attention, and how sequences lie in a batch. Without packing a batch is padded to a multiple of
// 64 tokens, or of sequence_len (core/builders/causal.py:381), so that even one sequence has a mask.
//
// With packing and FlashAttention a micro-batch is one row of micro_batch_size × sequence_len tokens. With other
// attention it is micro_batch_size rows, and their sequences are told apart by a mask (multipack_real_batches, line
// 284), or by torch's varlen_attn where that can (loaders/patch_manager.py:786).
func (t *training) readAttention() string {
	how := t.attention()
	switch how {
	case "", "sdpa":
	case "eager":
		t.step.Eager = true
	case "flash_attention_2", "flash_attention_3":
		t.step.Flash = true
		t.unmeasured("flash-attn")
	default:
		return "attn_implementation " + how + " has no formula"
	}
	multiple, err := t.count("pad_to_multiple_of", 64)
	if err != nil {
		return err.Error()
	}
	t.pads = true
	if t.multiple = !t.set("pad_to_sequence_len") || t.on("pad_to_sequence_len"); t.multiple {
		t.step.Length = (t.step.Length + multiple - 1) / multiple * multiple
	}
	t.step.Upcast = t.text("adapter", "") == "" && t.step.Weights != nn.F32 && !t.step.Flash &&
		!t.step.Cut // loaders/model.py:480
	if t.packs && (t.set("multipack_real_batches") || t.set("sdpa_varlen")) {
		return "multipack_real_batches and sdpa_varlen have no formula where they are set"
	}
	if t.step.Flash && t.evalPacks {
		t.warn("a run that goes on from a state of another micro-batch evaluates with that one (core/trainers/base.py:139 " +
			"with transformers' trainer.py:1577): eval_sample_packing: false evaluates with eval_batch_size")
	}
	return ""
}

// pack puts a packed micro-batch into a step (readAttention).
func (b *builder) pack(s *arch.Step) {
	switch {
	case s.Flash:
		s.Packed, s.Padded = true, false
	case b.varlen(*s):
		s.Varlen, s.Padded = true, false
	default:
		s.Padded = true
	}
}

// varlen reports whether torch's varlen_attn tells the packed sequences of a step apart (loaders/patch_manager.py:786).
func (t *training) varlen(s arch.Step) bool {
	half := s.Weights != nn.F32 || s.Autocast != nn.F32
	torch := t.assume("torch")
	return t.kind.own != nil && t.attention() == "sdpa" && !s.CPU && half && s.Model.HeadDim <= 256 &&
		s.Model.Window == 0 && (torch[0] > 2 || torch[0] == 2 && torch[1] >= 10)
}

// kernels are axolotl's functions of autograd for adapters, which are on where none of their settings is there
// (utils/schemas/config.py:1976).
func (t *training) kernels(adapter string, eight bool) (k arch.Kernels) {
	fields := []string{"lora_qkv_kernel", "lora_o_kernel", "lora_mlp_kernel", "lora_embedding_kernel"}
	on := t.on
	if !slices.ContainsFunc(fields, t.set) && !t.on("trust_remote_code") &&
		(adapter != "lora" || !eight) {
		on = func(string) bool { return true }
	}
	return arch.Kernels{QKV: on(fields[0]), O: on(fields[1]), MLP: on(fields[2])}
}

// readAdapter is load_lora (loaders/adapter.py:332) and _build_peft_lora_config (line 159). Adapters are float32,
// whatever the model's type is (autocast_adapter_dtype of get_peft_model).
func (t *training) readAdapter() string {
	adapter, four, eight := t.text("adapter", ""), t.on("load_in_4bit"), t.on("load_in_8bit")
	switch {
	case adapter == "" && !four && !eight:
		return ""
	case adapter == "qlora" && four && !eight: // loaders/model.py:801
		t.quantised(arch.Quant{Bits: 4, Nested: true, Compute: t.step.Weights})
	case adapter == "lora" && eight && !four:
		t.quantised(arch.Quant{Bits: 8, Compute: t.step.Weights})
	case adapter == "lora" && four:
		t.warn("load_in_4bit with adapter: lora quantises nothing, and makes the linear layers float32 " +
			"(loaders/model.py:801, 1143): adapter: qlora keeps them in 4 bits")
		return "load_in_4bit with adapter: lora has no formula"
	case adapter == "lora":
	default:
		return fmt.Sprintf("adapter %q with load_in_4bit %t and load_in_8bit %t has no formula", adapter, four, eight)
	}
	rank, err := t.count("lora_r", 1)
	if err != nil || !t.has("lora_r") {
		return "lora_r is not known"
	}
	l := &arch.LoRA{Rank: rank, Type: nn.F32, Kernels: t.kernels(adapter, eight),
		Targets: t.list("lora_target_modules"),
		Whole:   arch.Whole{Names: t.names("lora_modules_to_save"), Type: t.step.Weights}}
	if v, ok := t.get("peft_autocast_adapter_dtype"); ok && v == "false" {
		l.Type = t.step.Weights
	}
	if v, ok := t.get("lora_dropout"); ok {
		if l.Dropout, err = strconv.ParseFloat(v, 64); err != nil || !(l.Dropout >= 0 && l.Dropout < 1) {
			return fmt.Sprintf("lora_dropout is %q: it is a number from 0 to 1", v)
		}
	}
	if t.on("lora_target_linear") {
		all, ok := t.model.AllTargets()
		if !ok || t.model.Type == "gpt2" { // whose layers are no torch.nn.Linear
			return "lora_target_linear of " + t.model.Type + " has no formula"
		}
		l.Targets = append(slices.Clone(l.Targets), all...)
	}
	if l.Targets = slices.DeleteFunc(l.Targets, func(name string) bool { return name == "" }); len(l.Targets) == 0 {
		return "no layers are named for the adapters (lora_target_modules, lora_target_linear)"
	}
	t.step.InputGrad = true // load_adapter, line 437
	if l.QKV || l.O || l.MLP {
		t.unmeasured("axolotl's functions for adapters")
	}
	return t.adapt(l)
}

// axolotlSigns are what axolotl prints beside the Trainer: its settings as they are after its checks (cli/config.py),
// and the steps of a training (core/trainers/base.py, train.py). After Ctrl-C it saves the model and exits 0
// (train.py:176).
//
// An evaluation that follows the micro-batch prints its own batch, which no knob has then.
func (t *training) axolotlSigns() []job.Sign {
	lines := []job.Sign{
		{Kind: job.Started, Pattern: `\[axolotl\.train\] Starting trainer\.\.\.`},
		{Kind: job.Succeeded, Pattern: `Training completed! Saving trained model to `},
		{Kind: job.Setting, Knob: job.MicroBatch, Pattern: `^  "micro_batch_size": (?P<value>\d+)`},
		{Kind: job.Setting, Knob: job.Accumulation, Pattern: `^  "gradient_accumulation_steps": (?P<value>\d+)`},
		// torch.cuda.max_memory_allocated (utils/bench.py:46), which is 0 on a CPU
		{Kind: job.Memory, Pattern: `'memory/max_allocated \((?P<unit>GiB)\)': '(?P<bytes>[1-9][\d.]*|0\.\d*[1-9]\d*)'`},
	}
	if !t.has("batch_size") { // which is printed as it was set, also where it has no effect
		lines = append(lines, job.Sign{Kind: job.Setting, Knob: job.GlobalBatch,
			Pattern: `^  "batch_size": (?P<value>\d+)`})
	}
	if t.evals > 0 && !t.coupled {
		lines = append(lines, job.Sign{Kind: job.Setting, Knob: knobValidation,
			Pattern: `^  "eval_batch_size": (?P<value>\d+)`})
	}
	if t.evals > 0 {
		lines = append(lines,
			job.Sign{Kind: job.Phase, Phase: ladder.Validation, Pattern: `Running evaluation step\.\.\.`},
			job.Sign{Kind: job.PhaseEnd, Phase: ladder.Validation, Pattern: `'eval_runtime'`})
	}
	return lines
}

// axolotlRehearsal writes into a folder of launch's and reports to nobody.
func (t *training) axolotlRehearsal() job.Rehearsal {
	r := job.Rehearsal{Steps: 20, Edits: []config.Edit{
		t.editText("rehearse", "output_dir", job.Scratch, ladder.None, "writes into a folder of launch's")}}
	for _, tracker := range []string{"use_wandb", "use_mlflow", "use_comet", "use_trackio", "use_otel_metrics"} {
		r.Edits = append(r.Edits, t.edit("rehearse", tracker, "false", ladder.None, "reports to nobody"))
	}
	if t.has("hub_model_id") {
		r.Edits = append(r.Edits, t.editText("rehearse", "hub_model_id", "", ladder.None, "uploads nothing"))
	}
	return r
}

// axolotlIgnored are settings of axolotl that do not change the memory.
var axolotlIgnored = strings.Fields("learning_rate seed output_dir max_steps num_epochs logging_steps save_steps " +
	"saves_per_epoch save_strategy save_total_limit warmup_steps warmup_ratio weight_decay lr_scheduler max_grad_norm " +
	"dataset_prepared_path wandb_project wandb_name wandb_entity lora_alpha loss_watchdog_threshold " +
	"loss_watchdog_patience dataset_num_proc dataset_processes")
