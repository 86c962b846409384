package lm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// Figures are of transformers 5.23.0 and accelerate 1.15.0; 5.16.1, and 1.14.0, 1.13.0, 1.12.0 and 1.8.1, have the same
// but where it is said.

// layerClasses are the layers of a decoder (_no_split_modules of its class), which FSDP wraps where nothing names them.
var layerClasses = map[string]string{"gpt2": "GPT2Block", "phi": "PhiDecoderLayer", "gemma": "GemmaDecoderLayer",
	"llama": "LlamaDecoderLayer", "mistral": "MistralDecoderLayer", "qwen2": "Qwen2DecoderLayer",
	"qwen3": "Qwen3DecoderLayer", "arcee": "ArceeDecoderLayer", "seed_oss": "SeedOssDecoderLayer",
	"smollm3": "SmolLM3DecoderLayer", "granite": "GraniteDecoderLayer", "olmo2": "Olmo2DecoderLayer",
	"olmo3": "Olmo3DecoderLayer", "phi3": "Phi3DecoderLayer", "gemma2": "Gemma2DecoderLayer",
	"gemma3_text": "Gemma3DecoderLayer", "glm": "GlmDecoderLayer", "glm4": "Glm4DecoderLayer",
	"hunyuan_v1_dense": "HunYuanDenseV1DecoderLayer", "exaone4": "Exaone4DecoderLayer",
	"ernie4_5": "Ernie4_5DecoderLayer", "starcoder2": "Starcoder2DecoderLayer", "ministral": "MinistralDecoderLayer",
	"mixtral": "MixtralDecoderLayer", "qwen2_moe": "Qwen2MoeDecoderLayer",
	"qwen3_moe": "Qwen3MoeDecoderLayer", "olmoe": "OlmoeDecoderLayer"}

// asksFSDP reports whether the program's own settings turn FSDP on. Among the arguments "--fsdp" without a value does,
// and one that is empty does not (training_args.py:1447, 2776).
func asksFSDP(s *settings) bool {
	v, set := s.get("fsdp")
	args := s.prog.Args
	switch at := slices.Index(args, "--fsdp"); {
	case s.is(axolotl):
		return s.given("fsdp") || s.given("fsdp_config") || optionsFSDP(s)
	case s.script != nil || s.is(llamaFactory) || s.filed("fsdp"):
		return set && v != "" && v != "None" && !strings.EqualFold(v, "false")
	case at >= 0:
		return at+1 == len(args) || args[at+1] != ""
	}
	return set && v != ""
}

// optionsFSDP reports whether options of axolotl set something of FSDP.
func optionsFSDP(s *settings) bool {
	return slices.ContainsFunc(s.prog.Args, func(a string) bool { return strings.HasPrefix(a, "--fsdp") })
}

// readFSDP reads PyTorch's FSDP, after the precision, the optimizer and activation checkpointing are known.
func readFSDP(s *settings, t *training) string {
	if !usesFSDP(s, t) {
		return ""
	}
	at := "accelerate's settings of FSDP"
	switch own := asksFSDP(s); {
	case t.ranks < 2:
		return "FSDP of one process has no formula"
	case own && t.wrapping != nil:
		return s.address("fsdp").Path + " beside accelerate's settings of FSDP has no formula"
	case s.has("deepspeed") || t.sharding != nil:
		return "FSDP beside DeepSpeed is refused by the Trainer (trainer.py:473)"
	case s.is(axolotl) && t.wrapping == nil:
		at = "fsdp_config"
	case own:
		at = s.address("fsdp").Path
	}
	if v := assume(s, t, "accelerate"); len(v) < 2 || v[0] < 1 || v[0] == 1 && v[1] < 8 {
		return "FSDP has a formula with accelerate from 1.8 on, and the command's Python has " +
			orNone(s.version("accelerate"))
	}
	if v := assume(s, t, "torch"); v[0] < 2 || v[0] == 2 && v[1] < 7 {
		return fmt.Sprintf("FSDP has a formula with torch from 2.7 on, and this is %d.%d", v[0], v[1])
	}
	b, f := &wrapBlock{}, &arch.FSDP{}
	switch {
	case t.wrapping != nil:
		*b = *t.wrapping
		accelerateFSDP(s, t, b, f)
	case s.is(axolotl):
		axolotlFSDP(s, t, b, f)
	default:
		trainerFSDP(s, t, b, f)
	}
	storesFSDP(s, t, b, f)
	wrapUnits(s, t, b, f)
	if b.why != "" {
		return at + ": " + b.why
	}
	wrap(s, t, f)
	return ""
}

// storesFSDP says why quantised weights have no formula. In version 2 accelerate divides those alone that are stored as
// floating numbers (fsdp2_prepare_model in accelerate/utils/fsdp_utils.py:801), and any are loaded onto each card first
// (update_device_map in transformers/quantizers/quantizer_bnb_4bit.py:94). LLaMA-Factory stores them in the type of the
// computation (model/model_utils/quantization.py:178 of 0.9.5), and trl in uint8 (trl/trainer/model_config.py:158).
func storesFSDP(s *settings, t *training, b *wrapBlock, f *arch.FSDP) {
	q := t.step.Quant
	if q == nil {
		return
	}
	storage := s.text("bnb_4bit_quant_storage", "uint8")
	switch {
	case q.Bits == 8:
		b.refuse("weights of 8 bits have no formula")
	case f.Version == 2 && !s.is(llamaFactory) && (storage == "uint8" || storage == "int8"):
		b.refuse("weights of 4 bits with bnb_4bit_quant_storage of %s stay whole on each card: accelerate divides "+
			"those of a floating type alone; they have no formula", storage)
	default:
		b.refuse("weights of 4 bits have no formula: each process loads all of them onto its card at first")
	}
}

// wrapFile takes accelerate's file, which its launcher makes variables of (accelerate/commands/launch.py:513,
// utils/launch.py:304): an option that is not there has its default.
func wrapFile(root config.Value) *wrapBlock {
	b := &wrapBlock{}
	text := "{}"
	if node := root.Get("fsdp_config"); node.Kind() == config.Map {
		text = rendered(node)
	}
	b.load([]byte(text), fsdpAccelerate)
	for _, other := range []string{"dynamo_config", "fp8_config"} {
		if root.Get(other).Len() > 0 {
			b.refuse("%s beside it has no formula", other)
		}
	}
	b.loads = true // fsdp_cpu_ram_efficient_loading of the launcher (commands/launch.py:614)
	return b
}

// wrapVariables takes those of the environment, from which accelerate makes its settings (accelerator.py:388).
func wrapVariables(s *settings) *wrapBlock {
	b := &wrapBlock{block: map[string]any{}}
	for _, key := range fsdpVariables {
		if v := s.getenv("FSDP_" + key); v != "" {
			b.block[strings.ToLower(key)] = v
		}
	}
	if v, ok := b.block["transformer_cls_to_wrap"]; ok {
		b.block["transformer_layer_cls_to_wrap"] = v
	}
	if b.block["ignored_modules"] != nil {
		b.refuse("FSDP_IGNORED_MODULES has no formula")
	}
	return b
}

// accelerateFSDP reads what accelerate itself is told: in its file, or in the environment.
func accelerateFSDP(s *settings, t *training, b *wrapBlock, f *arch.FSDP) {
	if s.is(axolotl) {
		b.refuse("ACCELERATE_USE_FSDP without axolotl's fsdp_config has no formula")
	}
	f.Version = b.version("1")
	f.Original = f.Version == 1 && b.flag("use_orig_params", false)
	f.Offload = b.flag("offload_params", false)
	strategy := b.text("sharding_strategy", "FULL_SHARD")
	f.Keeps = b.strategy(strategy)
	reshard := b.text("reshard_after_forward", "true")
	switch {
	case f.Version == 2 && f.Keeps:
		b.refuse("sharding_strategy %s has no effect in version 2: reshard_after_forward has", strategy)
	case f.Version == 2:
		f.Keeps = !b.flag("reshard_after_forward", true)
	case !strings.EqualFold(reshard, "true") && !strings.EqualFold(reshard, "FULL_SHARD"):
		b.refuse("reshard_after_forward has no effect in version 1: sharding_strategy has (accelerator.py:1947)")
	}
	if b.flag("activation_checkpointing_offload", false) {
		b.refuse("activation_checkpointing_offload has no formula")
	}
	if s.is(llamaFactory) && !b.flag("cpu_ram_efficient_loading", b.loads) {
		b.refuse("without cpu_ram_efficient_loading LLaMA-Factory loads the whole model onto each card: no formula")
	}
	// model/adapter.py:363 leaves what was loaded
	if s.is(llamaFactory) && t.step.Autocast == nn.F32 && !s.on("pure_bf16") {
		b.refuse("LLaMA-Factory without mixed precision has no formula")
	}
	b.wraps("NO_WRAP", f)
}

// trainerFSDP reads --fsdp and --fsdp_config (_process_fsdp_args in training_args.py:2775), which have version 2 where
// nothing sets it.
func trainerFSDP(s *settings, t *training, b *wrapBlock, f *arch.FSDP) {
	if s.is(llamaFactory) {
		b.refuse("LLaMA-Factory has a formula for FSDP where accelerate's file turns it on")
	}
	if v := assume(s, t, "transformers"); v[0] < 5 || v[0] == 5 && v[1] < 16 {
		b.refuse("it has a formula with transformers from 5.16 on, and the command's Python has %s",
			s.version("transformers"))
	}
	text := []byte("{}")
	if name := s.text("fsdp_config", ""); strings.HasPrefix(name, "{") {
		text = []byte(name)
	} else if s.has("fsdp_config") {
		var err error
		if text, err = file.Read(file.In(s.prog.Dir, name), maxFile); err != nil {
			b.refuse("%v", err)
			text = []byte("{}")
		}
	}
	b.load(text, fsdpTrainer)
	f.Version = b.version("2")
	f.Original = f.Version == 1 && b.flag("use_orig_params", true)
	f.Offload = b.flag("cpu_offload", false)
	if b.flag("xla", false) {
		b.refuse("xla has no formula")
	}
	b.reshards(f)
	b.words(s.list("fsdp"), f)
	b.wraps("TRANSFORMER_BASED_WRAP", f)
}

// axolotlFSDP reads axolotl's fsdp_config (utils/schemas/fsdp.py of 0.19.0), with its variables (setup_fsdp_envs in
// utils/trainer.py:597), the Trainer's settings (core/builders/base.py:693), and version 1 where nothing sets it
// (utils/schemas/validation.py:1227). Its schema drops what it does not know.
func axolotlFSDP(s *settings, t *training, b *wrapBlock, f *arch.FSDP) {
	if optionsFSDP(s) {
		b.refuse("options in place of the file have no formula")
	}
	if !s.given("fsdp_config") {
		b.refuse("fsdp alone, without it, has no formula")
		return
	}
	b.load([]byte(rendered(s.tree.Root().Get("fsdp_config"))), fsdpAxolotl)
	if v, ok := s.get("fsdp_version"); ok {
		b.block["version"] = v
	}
	if t.step.LoRA != nil {
		b.refuse("adapters of axolotl have no formula with FSDP: each of their matrices is a unit of its own in " +
			"version 2 (monkeypatch/accelerate/fsdp2.py:385)")
	}
	f.Version = b.version("1")
	f.Offload = b.flag("offload_params", false)
	if b.strategy(b.text("sharding_strategy", "FULL_SHARD")) {
		b.refuse("sharding_strategy has no effect in axolotl 0.19, and so has no formula")
	}
	b.reshards(f)
	if s.given("fsdp") {
		b.words(s.list("fsdp"), f)
	}
	if !b.flag("cpu_ram_efficient_loading", false) { // loaders/model.py:576
		b.refuse("without cpu_ram_efficient_loading axolotl loads the whole model onto each card: no formula")
	}
	b.wraps("TRANSFORMER_BASED_WRAP", f)
}

// wrapUnits reads what all programs have alike: which layers are units, and their activation checkpointing, which is
// not reentrant (fsdp2_apply_ac in accelerate/utils/fsdp_utils.py:656, accelerator.py:1980).
func wrapUnits(s *settings, t *training, b *wrapBlock, f *arch.FSDP) {
	named := b.block["transformer_layer_cls_to_wrap"]
	names, several := named.([]any)
	if name, one := named.(string); one {
		for part := range strings.SplitSeq(name, ",") {
			names = append(names, strings.TrimSpace(part))
		}
	} else if named != nil && !several {
		b.refuse("transformer_layer_cls_to_wrap could not be read")
	}
	layer := layerClasses[t.model.Type]
	for _, name := range names {
		if f.Layers && name != layer {
			b.refuse("transformer_layer_cls_to_wrap %v has no formula: the layers of %s are %s", name, t.model.Type,
				layer)
		}
	}
	if f.Version == 1 && !b.flag("limit_all_gathers", true) {
		b.refuse("limit_all_gathers of false, which bounds nothing, has no formula")
	}
	if !b.flag("activation_checkpointing", false) {
		return
	}
	switch {
	case t.step.Checkpointing && s.is(llamaFactory):
		b.refuse("activation_checkpointing beside LLaMA-Factory's own has no formula (disable_gradient_checkpointing)")
	case t.step.Checkpointing:
		b.refuse("activation_checkpointing beside the Trainer's own is refused by it (trainer.py:879)")
	case !f.Layers:
		b.refuse("activation_checkpointing without layers that are units has no formula")
	}
	t.step.Checkpointing, t.step.Reentrant = true, false
}

// wrap divides the step's states. Under mixed precision accelerate makes what is trained float32 (accelerator.py:2037,
// fsdp_utils.py:818) and gathers in the type of the computation (MixedPrecision of set_mixed_precision,
// accelerate/utils/dataclasses.py:2109), adapters too. axolotl has its own fsdp2_prepare_model, which leaves parts as
// they were loaded and has one unit beside the layers (monkeypatch/accelerate/fsdp2.py:429 of 0.19.0), as accelerate
// had before 1.14. In version 2 accelerate until 1.12 made frozen weights float32, too, and 1.13 nothing: it casts and
// drops the result (fsdp_utils.py:740 of 1.13.0). Each of 1.8.1, 1.12.0, 1.13.0 and 1.14.0 was run, with one model.
func wrap(s *settings, t *training, f *arch.FSDP) {
	v := assume(s, t, "accelerate")
	accelerates := f.Version == 2 && !s.is(axolotl) // itself, and not axolotl's functions in its place
	from := func(minor int) bool { return v[0] > 1 || v[1] >= minor }
	f.Carved = accelerates && from(14)
	f.Master = t.step.Weights
	if f.Original = f.Original && t.step.LoRA != nil; t.step.LoRA != nil {
		f.Master, f.Frozen = t.step.LoRA.Type, t.step.Weights
		f.Layers = f.Layers || f.Version == 1 // peft's policy, whatever auto_wrap_policy is (trainer.py:1754)
	}
	loaded := t.step.Weights
	if compute := t.step.Autocast; compute != nn.F32 {
		switch {
		case accelerates && from(14), f.Version == 1:
			f.Master = nn.F32
		case accelerates && !from(13): // model.to(torch.float32)
			f.Master, f.Frozen = nn.F32, nn.F32
		}
		t.step.Weights = compute
		if t.step.LoRA != nil {
			l := *t.step.LoRA
			l.Type, l.Wide = compute, f.Original
			t.step.LoRA = &l
		}
		if f.Version == 2 {
			t.step.Autocast = nn.F32
		}
	}
	if t.step.Preference != nil && t.step.LoRA == nil { // whose reference nothing makes float32
		f.Frozen = loaded
	}
	if s.is(llamaFactory) && f.Version == 2 { // model/model_utils/checkpointing.py:158
		t.step.Reentrant = false
	}
	t.step.Upcast, t.inferred = false, false // loaders/model.py:441
	t.step.FSDP = f
	unmeasured(t, fmt.Sprintf("FSDP of version %d (what is gathered and reduced is counted at its largest)", f.Version))
	if t.split.Accumulation > 1 {
		warn(t, "with %s of %d each card keeps the whole gradients between the micro-batches of a step (no_sync of "+
			"FSDP): an accumulation of 1 keeps a part of them alone", s.address("gradient_accumulation_steps").Path,
			t.split.Accumulation)
	}
}

// usesFSDP reports whether FSDP is turned on, with a formula or without.
func usesFSDP(s *settings, t *training) bool { return t.wrapping != nil || asksFSDP(s) }
