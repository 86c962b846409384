package lm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/plugins/lm/arch"
)

// The settings of FSDP that are known, without their prefix "fsdp_": those of all programs, and more of some.
var (
	fsdpKeys = strings.Fields("version auto_wrap_policy transformer_layer_cls_to_wrap min_num_params " +
		"cpu_ram_efficient_loading state_dict_type activation_checkpointing reshard_after_forward forward_prefetch " +
		"backward_prefetch use_orig_params sync_module_states limit_all_gathers")
	fsdpTrainer    = strings.Fields("cpu_offload xla")
	fsdpAccelerate = strings.Fields("offload_params sharding_strategy activation_checkpointing_offload")
	fsdpAxolotl    = strings.Fields("offload_params sharding_strategy final_state_dict_type cpu_offload_pin_memory")
	// fsdpVariables are accelerate's variables without "FSDP_" (FullyShardedDataParallelPlugin in
	// utils/dataclasses.py:1823), and fsdpHarmless those that nothing here reads.
	fsdpVariables = strings.Fields("VERSION SHARDING_STRATEGY RESHARD_AFTER_FORWARD OFFLOAD_PARAMS BACKWARD_PREFETCH " +
		"AUTO_WRAP_POLICY TRANSFORMER_CLS_TO_WRAP MIN_NUM_PARAMS USE_ORIG_PARAMS SYNC_MODULE_STATES FORWARD_PREFETCH " +
		"ACTIVATION_CHECKPOINTING ACTIVATION_CHECKPOINTING_OFFLOAD IGNORED_MODULES CPU_RAM_EFFICIENT_LOADING " +
		"STATE_DICT_TYPE")
	fsdpHarmless = strings.Fields("CPU_RAM_EFFICIENT_LOADING STATE_DICT_TYPE SYNC_MODULE_STATES")
)

// A wrapBlock is the settings of FSDP, without the prefix. why is the first thing that could not be read, or has no
// formula.
type wrapBlock struct {
	block map[string]any
	loads bool // the default of cpu_ram_efficient_loading
	why   string
}

func (b *wrapBlock) refuse(format string, a ...any) {
	if b.why == "" {
		b.why = fmt.Sprintf(format, a...)
	}
}

// load takes settings as JSON, and refuses those that are not known.
func (b *wrapBlock) load(text []byte, known []string) {
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		b.refuse("%v", err)
	}
	b.block = map[string]any{}
	var foreign []string
	for key, v := range keys {
		short := strings.TrimPrefix(key, "fsdp_")
		if b.block[short] = v; !slices.Contains(fsdpKeys, short) && !slices.Contains(known, short) {
			foreign = append(foreign, key)
		}
	}
	if slices.Sort(foreign); len(foreign) > 0 {
		b.refuse("%s has no formula", foreign[0])
	}
}

// text is a setting as Python's str has it, in lower case for values of bool.
func (b *wrapBlock) text(key, otherwise string) string {
	switch v := b.block[key].(type) {
	case nil:
		return otherwise
	case string:
		return v
	case bool, float64:
		return fmt.Sprint(v)
	}
	b.refuse("%s could not be read", key)
	return otherwise
}

// flag is a setting that is true or false (str_to_bool).
func (b *wrapBlock) flag(key string, otherwise bool) bool {
	switch strings.ToLower(b.text(key, strconv.FormatBool(otherwise))) {
	case "y", "yes", "t", "true", "on", "1":
		return true
	case "n", "no", "f", "false", "off", "0":
		return false
	}
	b.refuse("%s could not be read", key)
	return false
}

// strategy is ShardingStrategy of version 1, by its name or number (accelerate/utils/constants.py:38).
func (b *wrapBlock) strategy(name string) (keeps bool) {
	switch strings.ToUpper(name) {
	case "FULL_SHARD", "1":
		return false
	case "SHARD_GRAD_OP", "2":
		return true
	}
	b.refuse("the sharding strategy %s has no formula", name)
	return false
}

// reshards is reshard_after_forward as TrainingArguments reads it. In version 1 another one than full_shard has no
// effect: sharding_strategy outranks it (accelerator.py:1947).
func (b *wrapBlock) reshards(f *arch.FSDP) {
	switch how := b.text("reshard_after_forward", "full_shard"); {
	case f.Version == 2:
		f.Keeps = !b.flag("reshard_after_forward", true)
	case !strings.EqualFold(how, "full_shard"):
		b.refuse("reshard_after_forward of %q in version 1 has no formula", how)
	}
}

// words are the older values of fsdp (_apply_legacy_fsdp_to_config in training_args.py:2888), which fsdp_config
// outranks.
func (b *wrapBlock) words(values []string, f *arch.FSDP) {
	_, set := b.block["reshard_after_forward"]
	_, offload := b.block["cpu_offload"]
	for word := range strings.FieldsSeq(strings.Join(values, " ")) {
		switch word {
		case "full_shard", "auto_wrap", "true", "True":
		case "offload":
			f.Offload = f.Offload || !offload
		case "shard_grad_op":
			if f.Version != 2 {
				b.refuse("%s in version 1 has no formula", word)
			}
			f.Keeps = f.Keeps || !set
		default:
			b.refuse("%s has no formula", word)
		}
	}
}

func (b *wrapBlock) version(otherwise string) int64 {
	switch v := b.text("version", otherwise); v {
	case "1":
		return 1
	case "2":
		return 2
	default:
		b.refuse("version %s has no formula", v)
	}
	return 2
}

// wraps is auto_wrap_policy.
func (b *wrapBlock) wraps(otherwise string, f *arch.FSDP) {
	switch policy := b.text("auto_wrap_policy", otherwise); strings.ToUpper(policy) {
	case "TRANSFORMER_BASED_WRAP":
		f.Layers = true
	case "NO_WRAP":
	default:
		b.refuse("auto_wrap_policy %s has no formula", policy)
	}
}
