package lm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// Figures are of axolotl 0.19.0 as on PyPI, src/axolotl/…:line. What its documentation says otherwise is a warning.

// divideAxolotl is how axolotl divides the global batch (utils/config/__init__.py:202): batch_size counts only where
// gradient_accumulation_steps is null, because that has a default of 1 (utils/schemas/training.py:71).
func divideAxolotl(s *settings, t *training) (err error) {
	t.packs, t.whole = s.on("sample_packing"), s.on("pad_to_sequence_len") // core/builders/causal.py:387
	if t.split.Micro, err = s.count("micro_batch_size", 1); err != nil {
		return err
	}
	if t.split.Accumulation, err = s.count("gradient_accumulation_steps", 1); err != nil {
		return err
	}
	batch, err := s.count("batch_size", 0)
	switch {
	case err != nil:
		return err
	case batch > 0 && s.nothing("gradient_accumulation_steps"):
		t.split.Accumulation = max(1, batch/t.split.Micro)
	case batch > 0 && !s.has("gradient_accumulation_steps"):
		warn(t, "batch_size: %d has no effect: axolotl sets gradient_accumulation_steps to its default of 1 before it reads "+
			"batch_size (utils/config/__init__.py:202), and so an optimizer step has %d sequences of a card",
			batch, t.split.Micro)
	}
	if err := evaluates(s, t); err != nil {
		return err
	}
	t.ranks, err = startsAxolotl(s, t)
	return err
}

// evaluates finds out whether and with what batch axolotl evaluates (core/builders/base.py:536,
// core/trainers/base.py:131).
func evaluates(s *settings, t *training) (err error) {
	part, _ := strconv.ParseFloat(s.text("val_set_size", "0"), 64)
	switch {
	case part <= 0 && !s.given("test_datasets"):
		return nil
	case !s.has("eval_steps") && !everyEpoch(s) && s.text("eval_strategy", s.text("evaluation_strategy", "no")) == "no":
		return nil
	}
	if t.evals, err = s.count("eval_batch_size", t.split.Micro); err != nil {
		return err
	}
	t.coupled = !s.has("eval_batch_size")
	if t.packs && (s.on("eval_sample_packing") || !s.set("eval_sample_packing")) { // utils/schemas/validation.py:141
		if t.evals != t.split.Micro {
			warn(t, "eval_batch_size: %d has no effect: with eval_sample_packing axolotl evaluates with micro_batch_size "+
				"(core/trainers/base.py:131)", t.evals)
		}
		t.evals, t.coupled, t.evalPacks = t.split.Micro, true, true
	}
	return nil
}

// everyEpoch reports whether evals_per_epoch makes evaluations: not of one in one epoch, which is no part of the
// training (utils/config/__init__.py, normalize_config).
func everyEpoch(s *settings) bool {
	n, _ := strconv.ParseFloat(s.text("evals_per_epoch", "0"), 64)
	epochs, err := strconv.ParseFloat(s.text("num_epochs", "1"), 64)
	return err == nil && n*epochs > 1
}

// startsAxolotl is how many processes `axolotl train` starts: accelerate's or torchrun's, or one alone.
func startsAxolotl(s *settings, t *training) (n int64, err error) {
	if n, err := launched(s); n > 0 || err != nil {
		return n, err
	}
	if s.prog.Kind != command.Installed || s.text("launcher", "accelerate") == "python" {
		cards, err := devices(s)
		t.spread = cards > 1
		return min(1, cards), err
	}
	_, path, processes, why := accelerateOptions(launching(s))
	switch {
	case why != "": // which is the reason that there is no estimate
		return 1, nil
	case processes == "" && s.text("launcher", "accelerate") == "accelerate":
		tree, _ := s.accelerateFile(path)
		processes = unquoted(tree, "num_processes")
	case processes == "": // torchrun's --nproc-per-node
		return 1, nil
	}
	if n, err := strconv.ParseInt(processes, 10, 64); err == nil && n > 0 {
		return n, nil
	}
	return devices(s)
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
		"bnb_config_kwargs eval_table_size base_model_config optim_args " +
		"model_config model_kwargs model_revision") // and what these were called (utils/schemas/deprecated.py:149)
	axolotlOnes = strings.Fields("tensor_parallel_size context_parallel_size sequence_parallel_degree dp_shard_size " +
		"dp_replicate_size expert_parallel_size")
)

// readAxolotl reads a fine-tuning of axolotl, whole or with LoRA.
func readAxolotl(s *settings) (training, error) {
	return reader{divideAxolotl, recomputes, []fills{released, launchAxolotl, foreignTrainer, releaseAxolotl,
		settingsAxolotl, modelAxolotl, adaptAxolotl}, rowsAxolotl}.read(s)
}

// launchAxolotl says what of its launcher's options has no formula.
func launchAxolotl(s *settings, _ *training) string {
	_, _, _, why := accelerateOptions(launching(s))
	return why
}

func releaseAxolotl(s *settings, t *training) string {
	if v := assume(s, t, "axolotl"); len(v) < 2 || v[0] != 0 || v[1] < 19 {
		return "the formula is of axolotl from 0.19 on, and the command's Python has " + orNone(s.version("axolotl"))
	}
	return ""
}

// modelAxolotl reads the model, the length of a sequence, and the types.
func modelAxolotl(s *settings, t *training) string {
	if _, why := load(s, t, s.text("base_model", ""), s.text("revision_of_model", "main")); why != "" {
		return why
	}
	var err error
	if t.step.Length, err = s.count("sequence_len", 512); err != nil { // utils/schemas/config.py:671
		return err.Error()
	}
	if n, err := s.count("eval_sequence_len", t.step.Length); err != nil || n != t.step.Length {
		return "eval_sequence_len has no formula"
	}
	precise(s, t)
	return ""
}

// adaptAxolotl reads attention and the adapters, which warn whatever attention is.
func adaptAxolotl(s *settings, t *training) string {
	return cmp.Or(readAttention(s, t), readAdapter(s, t))
}

// settingsAxolotl reads its switches and its plugins, which warn whatever the switches are.
func settingsAxolotl(s *settings, t *training) string {
	return cmp.Or(foreignAxolotl(s, t), pluginsAxolotl(s, t))
}

// foreignAxolotl says which setting of axolotl has no formula.
func foreignAxolotl(s *settings, t *training) string {
	many := func(field string) bool {
		n, err := s.count(field, 1)
		return err != nil || n > 1
	}
	kind := s.text("model_type", "AutoModelForCausalLM")
	switch {
	case t.spread:
		return "one process spreads the layers over all cards (device_map: auto), which has no formula: the launchers " +
			"accelerate and torchrun give each card a process"
	case slices.ContainsFunc(axolotlSwitches, s.on):
		return axolotlSwitches[slices.IndexFunc(axolotlSwitches, s.on)] + " has no formula"
	case slices.ContainsFunc(axolotlOthers, s.given):
		return axolotlOthers[slices.IndexFunc(axolotlOthers, s.given)] + " has no formula"
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
func precise(s *settings, t *training) {
	t.bf16 = s.on("bf16") || s.on("bfloat16")
	if s.text("bf16", "auto") == "auto" && !s.nothing("bf16") {
		t.bf16 = t.bf16 || !s.on("fp16")
	}
	t.step.Weights = nn.F32
	switch {
	case t.bf16:
		t.step.Weights = nn.BF16
	case s.on("fp16"):
		t.step.Weights = nn.F16
	}
	if s.on("bfloat16") {
		warn(t, "bfloat16: true is documented as without automatic mixed precision; axolotl turns it on all the same "+
			"(core/builders/base.py:426)")
	}
}

// recomputes reads activation checkpointing, which is reentrant where nothing says otherwise
// (utils/config/__init__.py:375).
func recomputes(s *settings, t *training) string {
	t.step.Checkpointing, t.step.Reentrant = s.on("gradient_checkpointing"), true
	if how := s.text("gradient_checkpointing", ""); strings.HasPrefix(how, "offload") || how == "unsloth" {
		return "gradient_checkpointing: " + how + " has no formula"
	}
	if !s.set("gradient_checkpointing_kwargs") && !s.given("gradient_checkpointing_kwargs") {
		return ""
	}
	t.step.Reentrant = false
	if !s.filed("gradient_checkpointing_kwargs") {
		return "gradient_checkpointing_kwargs among the options has no formula"
	}
	kwargs := s.tree.Root().Get("gradient_checkpointing_kwargs")
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
func attention(s *settings) string {
	how := s.text("attn_implementation", "")
	for _, a := range attentions {
		if how == "" && s.on(a.flag) {
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
func readAttention(s *settings, t *training) string {
	how := attention(s)
	torch := s.release("torch")
	if torch == nil {
		torch = s.kind.newest("torch")
	}
	t.varlen = how == "sdpa" && (torch[0] > 2 || torch[0] == 2 && torch[1] >= 10)
	switch how {
	case "", "sdpa":
	case "eager":
		t.step.Eager = true
	case "flash_attention_2", "flash_attention_3":
		t.step.Flash = true
		unmeasured(t, "flash-attn")
	default:
		return "attn_implementation " + how + " has no formula"
	}
	multiple, err := s.count("pad_to_multiple_of", 64)
	if err != nil {
		return err.Error()
	}
	t.pads = true
	if t.multiple = !s.set("pad_to_sequence_len") || s.on("pad_to_sequence_len"); t.multiple {
		t.folds = multiple
		t.step.Length = (t.step.Length + multiple - 1) / multiple * multiple
	}
	t.step.Upcast = s.text("adapter", "") == "" && t.step.Weights != nn.F32 && !t.step.Flash &&
		!t.step.Cut // loaders/model.py:480
	if t.packs && (s.set("multipack_real_batches") || s.set("sdpa_varlen")) {
		return "multipack_real_batches and sdpa_varlen have no formula where they are set"
	}
	if t.step.Flash && t.evalPacks {
		warn(t, "a run that goes on from a state of another micro-batch evaluates with that one (core/trainers/base.py:139 "+
			"with transformers' trainer.py:1577): eval_sample_packing: false evaluates with eval_batch_size")
	}
	return ""
}

// kernelsAxolotl are axolotl's functions of autograd for adapters, which are on where none of their settings is there
// (utils/schemas/config.py:1976).
func kernelsAxolotl(s *settings, adapter string, eight bool) (k arch.Kernels) {
	fields := []string{"lora_qkv_kernel", "lora_o_kernel", "lora_mlp_kernel", "lora_embedding_kernel"}
	on := s.on
	if !slices.ContainsFunc(fields, s.set) && !s.on("trust_remote_code") &&
		(adapter != "lora" || !eight) {
		on = func(string) bool { return true }
	}
	return arch.Kernels{QKV: on(fields[0]), O: on(fields[1]), MLP: on(fields[2])}
}

// readAdapter is load_lora (loaders/adapter.py:332) and _build_peft_lora_config (line 159). Adapters are float32,
// whatever the model's type is (autocast_adapter_dtype of get_peft_model).
func readAdapter(s *settings, t *training) string {
	adapter, four, eight := s.text("adapter", ""), s.on("load_in_4bit"), s.on("load_in_8bit")
	switch {
	case adapter == "" && !four && !eight:
		return ""
	case adapter == "qlora" && four && !eight: // loaders/model.py:801
		quantised(t, arch.Quant{Bits: 4, Nested: true, Compute: t.step.Weights})
	case adapter == "lora" && eight && !four:
		quantised(t, arch.Quant{Bits: 8, Compute: t.step.Weights})
	case adapter == "lora" && four:
		warn(t, "load_in_4bit with adapter: lora quantises nothing, and makes the linear layers float32 "+
			"(loaders/model.py:801, 1143): adapter: qlora keeps them in 4 bits")
		return "load_in_4bit with adapter: lora has no formula"
	case adapter == "lora":
	default:
		return fmt.Sprintf("adapter %q with load_in_4bit %t and load_in_8bit %t has no formula", adapter, four, eight)
	}
	t.kernels = kernelsAxolotl(s, "qlora", false)
	rank, err := s.count("lora_r", 1)
	if err != nil || !s.has("lora_r") {
		return "lora_r is not known"
	}
	l := &arch.LoRA{Rank: rank, Type: nn.F32, Kernels: kernelsAxolotl(s, adapter, eight),
		Targets: s.list("lora_target_modules"),
		Whole:   arch.Whole{Names: s.names("lora_modules_to_save"), Type: t.step.Weights}}
	if v, ok := s.get("peft_autocast_adapter_dtype"); ok && v == "false" {
		l.Type = t.step.Weights
	}
	if why := dropout(s, l); why != "" {
		return why
	}
	if s.on("lora_target_linear") {
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
		unmeasured(t, "axolotl's functions for adapters")
	}
	return adapt(t, l)
}

// cutPlugin is axolotl's plugin of cut cross entropy, which is on where the plugin is named, unless cut_cross_entropy
// is false or null (integrations/cut_cross_entropy/args.py of axolotl 0.19.0).
const cutPlugin = "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"

// readCut reads whether the loss is cut cross entropy, or says why the training would stop with it.
func readCut(s *settings, t *training, plugins []string) string {
	const field, module = "cut_cross_entropy", "cut_cross_entropy"
	if !slices.Contains(plugins, cutPlugin) {
		if s.on(field) {
			warn(t, "%s has no effect: it is a setting of the plugin %s, which plugins does not name", field, cutPlugin)
		}
		return ""
	}
	if s.nothing(field) || s.set(field) && !s.on(field) {
		return ""
	}
	if s.env.Known() && len(s.release("transformers")) > 0 && !s.env.Has(module) {
		return "the package cut-cross-entropy is not installed, and the training stops without it"
	}
	t.step.Cut = true
	unmeasured(t, "cut cross entropy")
	return ""
}

// pluginsAxolotl says which of axolotl's plugins and of their settings has no formula.
func pluginsAxolotl(s *settings, t *training) string {
	plugins := slices.DeleteFunc(s.list("plugins"), func(name string) bool { return name == "" })
	for _, name := range plugins {
		if name != ligerPlugin && name != cutPlugin {
			return fmt.Sprintf("the plugin %s has no formula", name)
		}
	}
	ours := strings.Fields("liger_rope liger_rms_norm liger_layer_norm liger_glu_activation liger_swiglu " +
		"liger_cross_entropy liger_fused_linear_cross_entropy")
	if why := readCut(s, t, plugins); why != "" {
		return why
	}
	if !slices.Contains(plugins, ligerPlugin) {
		if i := slices.IndexFunc(ours, s.on); i >= 0 {
			warn(t, "%s has no effect: it is a setting of the plugin %s, which plugins does not name", ours[i], ligerPlugin)
		}
		return ""
	}
	switch {
	case t.step.Cut && (s.on("liger_cross_entropy") || s.on("liger_fused_linear_cross_entropy")):
		return "cut cross entropy beside a loss of Liger's has no formula"
	case s.on("liger_use_token_scaling"):
		return "liger_use_token_scaling has no formula"
	case s.has("liger_kernel_impl"):
		return "liger_kernel_impl has no formula"
	case s.on("liger_cross_entropy") && s.on("liger_fused_linear_cross_entropy"):
		return "axolotl refuses liger_cross_entropy beside liger_fused_linear_cross_entropy"
	}
	return ""
}
