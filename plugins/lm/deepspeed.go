package lm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// A deepspeedFile is DeepSpeed's file of settings. Keys that are not here have no formula.
type deepspeedFile struct {
	Micro        json.RawMessage `json:"train_micro_batch_size_per_gpu"`
	Accumulation json.RawMessage `json:"gradient_accumulation_steps"`
	Global       json.RawMessage `json:"train_batch_size"`

	BF16 precisionBlock `json:"bf16"`
	FP16 precisionBlock `json:"fp16"`
	Zero map[string]any `json:"zero_optimization"`

	Optimizer *struct {
		Type   string         `json:"type"`
		Params map[string]any `json:"params"`
	} `json:"optimizer"`
}

type precisionBlock struct {
	Enabled any `json:"enabled"`
}

// The keys that are known, with those of blocks: what they do is in the formula, or costs no memory on the card.
var (
	deepspeedKeys = strings.Fields("_comment train_batch_size train_micro_batch_size_per_gpu " +
		"gradient_accumulation_steps gradient_clipping zero_allow_untested_optimizer " +
		"zero_force_ds_cpu_optimizer fp16 bf16 zero_optimization optimizer scheduler steps_per_print " +
		"wall_clock_breakdown comms_config monitor_config")
	deepspeedZero = strings.Fields("stage allgather_partitions allgather_bucket_size overlap_comm reduce_scatter " +
		"reduce_bucket_size contiguous_gradients round_robin_gradients sub_group_size stage3_prefetch_bucket_size " +
		"stage3_param_persistence_threshold stage3_max_live_parameters stage3_max_reuse_distance " +
		"stage3_gather_16bit_weights_on_model_save offload_optimizer offload_param " +
		// the fields' own names, of which those with stage3_ are aliases (zero/config.py:187)
		"prefetch_bucket_size param_persistence_threshold max_live_parameters max_reuse_distance " +
		"gather_16bit_weights_on_model_save")
	deepspeedHalf = strings.Fields("enabled auto_cast loss_scale loss_scale_window initial_scale_power hysteresis " +
		"min_loss_scale check_grad_overflow")
	deepspeedOffload = strings.Fields("device pin_memory")
)

// readShards reads DeepSpeed's settings, after the precision and the optimizer are known.
func readShards(s *settings, t *training) string {
	own := s.has("deepspeed") // which outranks accelerate's file (training_args.py:1706)
	if !own && t.sharding == nil {
		return ""
	}
	at := "accelerate's deepspeed_config"
	if own {
		at = s.address("deepspeed").Path
	}
	switch {
	case s.is(llamaFactory) && t.ranks == 1 && !forced(s):
		return "LLaMA-Factory refuses " + at + " with one card, unless FORCE_TORCHRUN=1 is set (hparams/parser.py:471)"
	case s.is(llamaFactory) && spreads(s, t):
		return "NNODES and NPROC_PER_NODE with " + at + " have no formula"
	case s.on("fp8"):
		return s.address("fp8").Path + " with " + at + " has no formula"
	}
	// its buckets, gradients and parts are the same since 0.17.1; what came before was not read
	if v := assume(s, t, "deepspeed"); len(v) < 2 || v[0] == 0 && v[1] < 17 {
		return "the formula is of DeepSpeed from 0.17 on, and the command's Python has " + s.version("deepspeed")
	}
	name, implied := s.text("deepspeed", ""), false
	if !own {
		name, implied = unquoted(t.sharding, "deepspeed_config.deepspeed_config_file"), true
	}
	var text []byte
	var why string
	if name == "" {
		text, why = accelerateShards(t)
	} else if strings.HasPrefix(name, "{") { // the settings themselves, in place of a file's name
		text = []byte(name)
	} else if read, err := file.Read(file.In(s.prog.Dir, name), maxFile); err != nil {
		why = err.Error()
	} else {
		text = read
	}
	if why != "" {
		return at + " could not be read: " + why
	}
	z, f, why := parseDeepspeed(t, text, implied)
	t.pinned = number(f.Micro) || number(f.Accumulation)
	if why == "" && t.step.Upcast && z.Stage == 3 { // of one type alone (__check_params in runtime/engine.py of 0.18)
		why = "stage 3 has no formula where axolotl makes the embedding and norms float32: with FlashAttention it does not"
	}
	if why == "" && !own && z.Stage == 3 && unquoted(t.sharding, "deepspeed_config.zero3_init_flag") != "true" {
		why = "stage 3 without zero3_init_flag, where each process has the whole model at first, has no formula"
	}
	if why != "" {
		return at + ": " + why
	}
	shard(t, z)
	if s.trl() && z.Stage == 3 && t.step.LoRA != nil { // trl/trainer/sft_trainer.py:872, dpo_trainer.py:696 of 1.16
		t.step.Reentrant = t.step.Checkpointing
	}
	return ""
}

// accelerateShards is the file that accelerate makes of its own keys (DeepSpeedPlugin in
// accelerate/utils/dataclasses.py:1302, 1.15.0). The accumulation is a number there, 1 unless it is set.
func accelerateShards(t *training) ([]byte, string) {
	get := func(key, otherwise string) string {
		return cmp.Or(unquoted(t.sharding, "deepspeed_config."+key), otherwise)
	}
	stage, err := strconv.Atoi(get("zero_stage", "2"))
	if err != nil {
		return nil, "zero_stage is no number"
	}
	var accumulation any = "auto"
	if v := get("gradient_accumulation_steps", "1"); v != "auto" {
		accumulation = 1 // whatever it is: it has to be the Trainer's
	}
	text, err := json.Marshal(map[string]any{"gradient_accumulation_steps": accumulation,
		"zero_optimization": map[string]any{"stage": stage,
			"offload_optimizer": map[string]any{"device": get("offload_optimizer_device", "none")},
			"offload_param":     map[string]any{"device": get("offload_param_device", "none")}}})
	if err != nil {
		return nil, err.Error()
	}
	return text, ""
}

// forced reports whether LLaMA-Factory starts torchrun for one card, too (launcher.py:60).
func forced(s *settings) bool {
	return slices.Contains([]string{"1", "y", "yes", "true", "on"}, strings.ToLower(s.getenv("FORCE_TORCHRUN")))
}

// spreads reports whether variables set another number of LLaMA-Factory's processes (launcher.py:64).
func spreads(s *settings, t *training) bool {
	nodes, each := s.getenv("NNODES"), s.getenv("NPROC_PER_NODE")
	return nodes != "" && nodes != "1" || each != "" && each != fmt.Sprint(t.ranks)
}

// shard divides the step's states. DeepSpeed casts all parameters (runtime/engine.py:1537 of 0.19.6).
func shard(t *training, z *arch.Shards) {
	t.step.Shards = z
	t.step.Weights, t.step.Autocast, t.inferred = t.step.Autocast, nn.F32, false
	t.step.Upcast = false
	if t.step.LoRA != nil {
		l := *t.step.LoRA
		l.Type = t.step.Weights
		t.step.LoRA = &l
	}
	unmeasured(t, fmt.Sprintf("DeepSpeed's ZeRO %d (buffers are counted at their largest)", z.Stage))
}

func number(m json.RawMessage) bool {
	return len(m) > 0 && string(m) != `"auto"` && string(m) != "null"
}

// parseDeepspeed reads DeepSpeed's file. Its "auto" is resolved as HfTrainerDeepSpeedConfig does
// (transformers/integrations/deepspeed.py:130 and 188, 5.23.0). implied says that a file without a type of halves has
// the training's (set_mixed_precision in accelerate/utils/dataclasses.py:1415).
func parseDeepspeed(t *training, text []byte, implied bool) (z *arch.Shards, f deepspeedFile, why string) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, f, err.Error()
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, f, err.Error()
	}
	for _, known := range []struct {
		keys  []string
		block string
	}{{deepspeedKeys, ""}, {deepspeedHalf, "bf16"}, {deepspeedHalf, "fp16"}, {deepspeedZero, "zero_optimization"}} {
		if key := foreignKey(keys, known.block, known.keys); key != "" {
			return nil, f, key + " has no formula"
		}
	}
	if o := f.Optimizer; o != nil {
		if !slices.Contains([]string{"adam", "adamw"}, strings.ToLower(o.Type)) || o.Params["torch_adam"] != nil {
			return nil, f, "the optimizer " + o.Type + " has no formula"
		}
		t.step.Optimizer = "adamw_torch_fused" // FusedAdam writes in place, too
	}
	if why := halves(t, f, implied); why != "" {
		return nil, f, why
	}
	b := zeroBlock{block: f.Zero}
	hidden := float64(t.model.Hidden)
	z = &arch.Shards{Stage: b.size("stage", 0, 0),
		Reduce:      b.size("reduce_bucket_size", 5e8, hidden*hidden), // config.py:80 and on
		Prefetch:    b.size("stage3_prefetch_bucket_size", 5e7, 0.9*hidden*hidden),
		Persistence: b.size("stage3_param_persistence_threshold", 1e5, 10*hidden),
		Reuse:       b.size("stage3_max_reuse_distance", 1e9, 0),
		SubGroup:    b.size("sub_group_size", 1e9, 0),
	}
	b.size("stage3_max_live_parameters", 1e9, 0) // bounds what is fetched ahead alone
	z.Overlap = b.flag("overlap_comm", z.Stage == 3)
	z.HostOptimizer, z.HostParams = b.host("offload_optimizer"), b.host("offload_param")
	switch {
	case b.why != "":
		return nil, f, b.why
	case !b.flag("contiguous_gradients", true):
		return nil, f, "contiguous_gradients of false has no formula"
	case !b.flag("reduce_scatter", true):
		return nil, f, "reduce_scatter of false has no formula"
	case z.HostParams && z.Stage != 3:
		return nil, f, "offload_param has an effect with stage 3 alone"
	case z.Stage == 0:
		return nil, f, "stage 0, which divides nothing, has no formula"
	}
	return z, f, b.why
}

// foreignKey is the first key of a block, "" for the file itself, that is not among those.
func foreignKey(keys map[string]json.RawMessage, block string, known []string) string {
	if block != "" {
		var inner map[string]json.RawMessage
		if json.Unmarshal(keys[block], &inner) != nil {
			return ""
		}
		keys, block = inner, block+"."
	}
	var foreign []string
	for key := range keys {
		if !slices.Contains(known, key) {
			foreign = append(foreign, block+key)
		}
	}
	slices.Sort(foreign)
	return strings.Join(foreign[:min(1, len(foreign))], "")
}

// halves says why the file's precision is none that has a formula: "auto" is that of the settings, and anything else
// has to be the same (trainer_config_process).
func halves(t *training, f deepspeedFile, implied bool) string {
	for _, half := range []struct {
		name  string
		block precisionBlock
		is    bool
	}{{"bf16", f.BF16, t.step.Autocast == nn.BF16}, {"fp16", f.FP16, t.step.Autocast == nn.F16}} {
		switch on, set := half.block.Enabled.(bool); {
		case set && on != half.is:
			return fmt.Sprintf("%s.enabled is %v, and the training's own setting is not", half.name, on)
		case half.is && half.block.Enabled == nil && !implied:
			return "it has no " + half.name + ".enabled, and float32 has no formula with DeepSpeed"
		}
	}
	if t.step.Autocast == nn.F32 {
		return "DeepSpeed without bf16 or fp16 has no formula"
	}
	return ""
}

// mostElements is more than any of its sizes is in a training that exists.
const mostElements = 1 << 45

// A zeroBlock reads zero_optimization. why is the first value that could not be read.
type zeroBlock struct {
	block map[string]any
	why   string
}

// size is a number of elements: otherwise without the key, and auto where it is "auto".
func (b *zeroBlock) size(key string, otherwise, auto float64) int64 {
	v, set := b.block[key]
	if name, alias := strings.CutPrefix(key, "stage3_"); alias && !set {
		// an "auto" under the field's own name is filled by nobody, and accelerate refuses it (fill_match in
		// accelerate/utils/dataclasses.py:1357)
		v, set = b.block[name]
		key, auto = name, 0
	}
	n, ok := v.(float64)
	switch s, text := v.(string); {
	case !set || v == nil:
		n, ok = otherwise, true
	case text && s == "auto" && auto > 0:
		n, ok = auto, true
	case text:
		var err error
		n, err = strconv.ParseFloat(s, 64)
		ok = err == nil
	}
	if (!ok || n < 0 || n > mostElements) && b.why == "" {
		b.why = fmt.Sprintf("%s could not be read", key)
	}
	if b.why != "" {
		return 0
	}
	return int64(n)
}

func (b *zeroBlock) flag(key string, otherwise bool) bool {
	v, set := b.block[key]
	if !set || v == nil {
		return otherwise
	}
	on, ok := v.(bool)
	if !ok && b.why == "" {
		b.why = key + " could not be read"
	}
	return on
}

// host reports whether a block moves something to host memory.
func (b *zeroBlock) host(key string) bool {
	v, set := b.block[key]
	if !set || v == nil {
		return false
	}
	block, _ := v.(map[string]any)
	device, _ := block["device"].(string)
	for name := range block {
		if !slices.Contains(deepspeedOffload, name) && b.why == "" {
			b.why = key + "." + name + " has no formula"
		}
	}
	if device != "cpu" && device != "none" && b.why == "" {
		b.why = fmt.Sprintf("%s.device %q has no formula", key, device)
	}
	return device == "cpu"
}
