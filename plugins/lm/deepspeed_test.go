package lm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// zero3 is a file of DeepSpeed's as recipes have it.
const zero3 = `{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
"gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto", "loss_scale": 0},
"zero_optimization": {"stage": 3, "overlap_comm": false, "contiguous_gradients": true, "sub_group_size": 1e9,
"reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto",
"stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9}}`

// with2 is a file of DeepSpeed's with another block of ZeRO.
func with2(zero string) string {
	return `{"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "zero_optimization": {` + zero + `}}`
}

// behindTorchrun is run_clm.py in two processes with that file of DeepSpeed's.
func behindTorchrun(t *testing.T, ds string, args ...string) job.Command {
	t.Helper()
	c := cmd(t, folder(t, map[string]string{"ds.json": ds}), append(asked[:len(asked):len(asked)],
		append([]string{"--deepspeed", "ds.json"}, args...)...)...)
	c.Args, c.Devices = append([]string{"torchrun", "--nproc_per_node", "2"}, c.Args[1:]...), 2
	return c
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What is made of DeepSpeed's file, or why that has no formula.
func TestReadsDeepspeed(t *testing.T) {
	for name, tt := range map[string]struct {
		file    string
		args    []string
		want    *arch.Shards
		unknown string
	}{
		"stage 3": {zero3, []string{"--bf16"}, &arch.Shards{Stage: 3, Reduce: 512 * 512, Prefetch: 235_929, Persistence: 5120,
			Reuse: 1e9, SubGroup: 1e9}, ""},
		"defaults": {with2(`"stage": 3`), []string{"--bf16"}, &arch.Shards{Stage: 3, Reduce: 5e8, Prefetch: 5e7,
			Persistence: 1e5, Reuse: 1e9, SubGroup: 1e9, Overlap: true}, ""},
		"stage 2": {with2(`"stage": 2, "reduce_bucket_size": "2e8", "overlap_comm": true, ` +
			`"offload_optimizer": {"device": "cpu", "pin_memory": true}`), []string{"--fp16"}, &arch.Shards{Stage: 2,
			Reduce: 2e8, Prefetch: 5e7, Persistence: 1e5, Reuse: 1e9, SubGroup: 1e9, Overlap: true, HostOptimizer: true}, ""},
		"stage 0": {with2(`"stage": 0`), []string{"--bf16"}, nil, "stage 0"},
		"another type": {strings.Replace(zero3, `"auto"}, "fp16"`, `false}, "fp16"`, 1), []string{"--bf16"}, nil,
			"bf16.enabled"},
		"no type":   {`{"zero_optimization": {"stage": 2}}`, []string{"--bf16"}, nil, "no bf16.enabled"},
		"to a disk": {with2(`"stage": 3, "offload_param": {"device": "nvme"}`), []string{"--bf16"}, nil, `"nvme"`},
		"no such stage": {with2(`"stage": 3, "zero_hpz_partition_size": 8`), []string{"--bf16"}, nil,
			"zero_hpz_partition_size"},
		"tensors, too": {strings.Replace(zero3, "{", `{"tensor_parallel": {"autotp_size": 2},`, 1), []string{"--bf16"}, nil,
			"tensor_parallel"},
		"another number": {with2(`"stage": 3, "reduce_bucket_size": "much"`), []string{"--bf16"}, nil, "reduce_bucket_size"},
		"another optimizer": {strings.Replace(zero3, "{", `{"optimizer": {"type": "Lamb"},`, 1), []string{"--bf16"}, nil,
			"Lamb"},
		"scattered": {with2(`"stage": 2, "contiguous_gradients": false`), []string{"--bf16"}, nil, "contiguous_gradients"},
		"no JSON":   {"zero", []string{"--bf16"}, nil, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			r := recognised(t, behindTorchrun(t, tt.file, tt.args...))
			if !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if tt.want == nil {
				return
			}
			if r.step.Shards == nil || *r.step.Shards != *tt.want {
				t.Errorf("read as %+v, want %+v", r.step.Shards, tt.want)
			}
			if r.step.Autocast != nn.F32 || r.step.Weights == nn.F32 {
				t.Errorf("weights are %v under %v, want halves without autocast", r.step.Weights, r.step.Autocast)
			}
			if all := strings.Join(r.warnings, "\n"); !strings.Contains(all, "DeepSpeed's ZeRO") {
				t.Errorf("the warnings are %q, want one of DeepSpeed", all)
			}
		})
	}
}

// Accelerate's file turns DeepSpeed on with keys of its own, or with a file of DeepSpeed's.
func TestAccelerateDeepspeed(t *testing.T) {
	const on = "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 4\ndeepspeed_config:\n"
	for name, tt := range map[string]struct {
		file    string
		want    arch.Shards
		unknown string
	}{
		"keys": {on + "  zero_stage: 2\n  offload_optimizer_device: cpu\n", arch.Shards{Stage: 2, Reduce: 5e8,
			Prefetch: 5e7, Persistence: 1e5, Reuse: 1e9, SubGroup: 1e9, HostOptimizer: true}, ""},
		"stage 3": {on + "  zero_stage: 3\n  zero3_init_flag: true\n", arch.Shards{Stage: 3, Reduce: 5e8,
			Prefetch: 5e7, Persistence: 1e5, Reuse: 1e9, SubGroup: 1e9, Overlap: true}, ""},
		"whole at first": {on + "  zero_stage: 3\n  zero3_init_flag: false\n", arch.Shards{}, "zero3_init_flag"},
		"a disk":         {on + "  offload_optimizer_device: nvme\n", arch.Shards{}, "nvme"},
		"a file": {on + "  deepspeed_config_file: ds.json\n  zero3_init_flag: true\n", arch.Shards{Stage: 3,
			Reduce: 512 * 512, Prefetch: 235_929, Persistence: 5120, Reuse: 1e9, SubGroup: 1e9}, ""},
		"no such file": {on + "  deepspeed_config_file: none.json\n", arch.Shards{}, "none.json"},
	} {
		c := cmd(t, folder(t, map[string]string{"a.yaml": tt.file, "ds.json": zero3}))
		path := filepath.Join(filepath.Dir(c.Args[0]), "accelerate")
		if err := os.WriteFile(path, []byte("#!"+c.Args[0]+"\nimport sys\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		c.Args = append([]string{path, "launch", "--config_file", "a.yaml"}, append(asked[:len(asked):len(asked)],
			"--bf16")...)
		c.Devices = 4
		r := recognised(t, c)
		switch {
		case !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == ""):
			t.Errorf("%s: unknown because %q, want %q", name, r.unknown, tt.unknown)
		case tt.unknown == "" && (*r.step.Shards != tt.want || r.ranks != 4):
			t.Errorf("%s: read as %+v in %d processes, want %+v in 4", name, r.step.Shards, r.ranks, tt.want)
		}
	}
}

// LLaMA-Factory starts torchrun, for one card only where that is asked for. Its adapters become half.
func TestFactoryDeepspeed(t *testing.T) {
	for name, tt := range map[string]struct {
		devices int
		env     []string
		args    []string
		unknown string
	}{
		"several cards":  {2, nil, []string{"finetuning_type=full"}, ""},
		"one card":       {1, nil, []string{"finetuning_type=full"}, "FORCE_TORCHRUN"},
		"forced":         {1, []string{"FORCE_TORCHRUN=1"}, []string{"finetuning_type=full"}, ""},
		"several nodes":  {2, []string{"NNODES=2"}, []string{"finetuning_type=full"}, "NNODES"},
		"adapters":       {2, nil, nil, ""},
		"4 bits":         {2, nil, []string{"quantization_bit=4"}, "quantised weights with ZeRO 3"},
		"4 bits below":   {2, nil, []string{"quantization_bit=4", "deepspeed=two.json"}, ""},
		"adapters below": {2, nil, []string{"deepspeed=two.json"}, ""},
		"a copy":         {2, nil, []string{"finetuning_type=full", "stage=dpo"}, "reference model"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"a.yaml", "deepspeed=ds.json", "bf16=true"}, tt.args...)
			c := factory(t, args...)
			write(t, c.Dir, map[string]string{"ds.json": zero3, "two.json": with2(`"stage": 2`)})
			c.Devices, c.Env = tt.devices, append(c.Env, tt.env...)
			r := recognised(t, c)
			why := r.unknown
			if why == "" {
				set, err := r.Ladders(t.Context(), card)
				if err != nil {
					t.Fatal(err)
				}
				why = set.Phases[0].Rungs[set.Phases[0].Asked].Estimates[0].Unknown
			}
			if !strings.Contains(why, tt.unknown) || (why == "") != (tt.unknown == "") {
				t.Errorf("unknown because %q, want %q", why, tt.unknown)
			}
			if l := r.step.LoRA; l != nil && r.step.Shards != nil && l.Type != nn.BF16 {
				t.Errorf("adapters are %v, want bfloat16", l.Type)
			}
		})
	}
}

// A number in DeepSpeed's file has to agree with the Trainer's: no rung changes that then.
func TestDeepspeedPins(t *testing.T) {
	for file, want := range map[string]int{zero3: 1, strings.Replace(zero3, `"train_micro_batch_size_per_gpu": "auto"`,
		`"train_micro_batch_size_per_gpu": 8`, 1): 0} {
		set, err := recognised(t, behindTorchrun(t, file, "--bf16")).Ladders(t.Context(), card)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range set.Shared.Rungs {
			if strings.Contains(r.Name, "AdamW") {
				t.Errorf("with DeepSpeed there is a rung %q", r.Name)
			}
		}
		changed := 0
		for _, r := range set.Phases[0].Rungs {
			for _, e := range r.Edits {
				if e.Knob == job.MicroBatch {
					changed = 1
				}
			}
		}
		if changed != want {
			t.Errorf("with %.60s… the micro-batch changes: %d, want %d", file, changed, want)
		}
	}
}

func TestDeepspeedPromises(t *testing.T) {
	offload := with2(`"stage": 2, "offload_optimizer": {"device": "cpu"}`)
	for _, file := range []string{zero3, offload} {
		c := behindTorchrun(t, file, "--bf16")
		plugintest.Check(t, New(), c, card)
		set, err := recognised(t, c).Ladders(t.Context(), gpu.Device{Kind: gpu.CUDA, Total: card.Total, Capability: "8.9"})
		if err != nil || (set.Host != nil) != (file == offload) {
			t.Errorf("the ladder of the host is %v (%v)", set.Host, err)
		}
	}
}

// DeepSpeed's settings may stand in the recipe itself, in place of the name of their file.
func TestDeepspeedInline(t *testing.T) {
	c := factory(t, "a.yaml", "finetuning_type=full")
	recipe := factoryRecipe + "deepspeed:\n  bf16:\n    enabled: auto\n  zero_optimization:\n    stage: 3\n" +
		"  train_micro_batch_size_per_gpu: auto\n"
	if err := os.WriteFile(filepath.Join(c.Dir, "a.yaml"), []byte(recipe), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Env, c.Devices = append(c.Env, "FORCE_TORCHRUN=1"), 8
	if r := recognised(t, c); r.unknown != "" || r.step.Shards == nil || r.step.Shards.Stage != 3 {
		t.Errorf("unknown because %q, read as %+v", r.unknown, r.step.Shards)
	}
}

// axolotl's files name fields of stage 3 without its prefix, too. It makes adapters and norms half again.
func TestAxolotlDeepspeed(t *testing.T) {
	const zero3 = `{"zero_optimization": {"stage": 3, "overlap_comm": true, "contiguous_gradients": true,
"sub_group_size": 0, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
"stage3_param_persistence_threshold": "auto", "max_live_parameters": 0, "max_reuse_distance": 0,
"gather_16bit_weights_on_model_save": true}, "bf16": {"enabled": true}, "train_batch_size": "auto",
"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}`
	whole := map[string]string{"adapter": "-", "deepspeed": "ds.json"}
	flash := map[string]string{"adapter": "-", "deepspeed": "ds.json", "attn_implementation": "flash_attention_2"}
	for name, tt := range map[string]struct {
		lines   map[string]string
		file    string
		want    arch.Shards
		unknown string
	}{
		"stage 3": {flash, zero3, arch.Shards{Stage: 3, Reduce: 512 * 512, Prefetch: 235_929, Persistence: 5120,
			Overlap: true}, ""},
		"float32 norms": {whole, zero3, arch.Shards{}, "FlashAttention"},
		"stage 1": {whole, `{"zero_optimization": {"stage": 1, "overlap_comm": true}, "bf16": {"enabled": "auto"},
"fp16": {"enabled": "auto", "auto_cast": false}, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}`,
			arch.Shards{Stage: 1, Reduce: 5e8, Prefetch: 5e7, Persistence: 1e5, Reuse: 1e9, SubGroup: 1e9, Overlap: true}, ""},
		"adapters": {map[string]string{"deepspeed": "ds.json"}, with2(`"stage": 2`), arch.Shards{Stage: 2, Reduce: 5e8,
			Prefetch: 5e7, Persistence: 1e5, Reuse: 1e9, SubGroup: 1e9}, ""},
		"auto of nobody": {flash, strings.Replace(zero3, "stage3_prefetch", "prefetch", 1), arch.Shards{},
			"prefetch_bucket_size"},
		"compiled": {map[string]string{"adapter": "-", "deepspeed": "ds.json", "deepcompile": "true"}, zero3, arch.Shards{},
			"deepcompile"},
		"no file": {map[string]string{"deepspeed": "none.json"}, zero3, arch.Shards{}, "none.json"},
	} {
		t.Run(name, func(t *testing.T) {
			c := axolotlAt(t, tt.lines, "train", "a.yaml")
			write(t, c.Dir, map[string]string{"ds.json": tt.file})
			c.Devices = 4
			r := recognised(t, c)
			if !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if tt.unknown != "" {
				return
			}
			if r.step.Shards == nil || *r.step.Shards != tt.want || r.ranks != 4 {
				t.Errorf("read as %+v in %d processes, want %+v in 4", r.step.Shards, r.ranks, tt.want)
			}
			if r.step.Upcast || r.step.Weights != nn.BF16 || r.step.LoRA != nil && r.step.LoRA.Type != nn.BF16 {
				t.Errorf("not all of the model is half: %+v", r.step)
			}
			set, err := r.Ladders(t.Context(), card)
			if err != nil || set.Phases[0].Rungs[set.Phases[0].Asked].Estimates[0].Unknown != "" {
				t.Errorf("without an estimate: %+v (%v)", set, err)
			}
		})
	}
}

// trl makes checkpoints of adapters reentrant in stage 3, whatever is asked; without adapters they stay as asked.
func TestReentrantAdapters(t *testing.T) {
	for name, tt := range map[string]struct {
		file, peft string
		want       bool
	}{
		"stage 3": {zero3, "true", true}, "stage 2": {with2(`"stage": 2`), "true", false},
		"all weights": {zero3, "false", false},
	} {
		c := cmd(t, folder(t, map[string]string{"ds.json": tt.file}), "sft.py", "--config", "sft.yaml", "--bf16", "true",
			"--gradient_checkpointing", "true", "--use_peft", tt.peft, "--deepspeed", "ds.json")
		c.Args, c.Devices = append([]string{"torchrun", "--nproc_per_node", "2"}, c.Args[1:]...), 2
		r := recognised(t, c)
		if r.unknown != "" || r.step.Shards == nil {
			t.Fatalf("%s: unknown because %q", name, r.unknown)
		}
		if r.step.Reentrant != tt.want {
			t.Errorf("%s: reentrant is %t, want %t", name, r.step.Reentrant, tt.want)
		}
	}
}
