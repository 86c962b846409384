package lm

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// axolotlRecipe is a recipe of axolotl.
const axolotlRecipe = `base_model: model
datasets:
  - path: data.jsonl
    type: completion
val_set_size: 0.1
output_dir: ./out
adapter: lora
lora_r: 16
lora_dropout: 0.05
lora_model_dir:
lora_target_modules:
  - q_proj
  - o_proj
sequence_len: 500
micro_batch_size: 4
gradient_accumulation_steps: 2
evals_per_epoch: 4
gradient_checkpointing: true
attn_implementation: sdpa
bf16: auto
`

// axolotlAt makes axolotl beside the interpreter of a command, as pip installs it, and returns the command with other
// files, such as the recipe with lines in place of others.
func axolotlAt(t testing.TB, lines map[string]string, args ...string) job.Command {
	t.Helper()
	c := cmd(t, folder(t, map[string]string{"a.yaml": withLines(axolotlRecipe, lines)}))
	bin := filepath.Dir(c.Args[0])
	path := filepath.Join(bin, "axolotl")
	if err := os.WriteFile(path, []byte("#!"+c.Args[0]+"\nimport sys\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	packages := filepath.Join(bin, "../lib/python3.11/site-packages")
	if err := os.MkdirAll(filepath.Join(packages, "axolotl-0.19.0.dist-info"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.Args = append([]string{path}, args...)
	return c
}

// withLines is a recipe with other values of settings; "-" leaves a setting out.
func withLines(recipe string, values map[string]string) string {
	var lines []string
	for line := range strings.Lines(recipe) {
		name, _, _ := strings.Cut(line, ":")
		if _, other := values[name]; !other {
			lines = append(lines, line)
		}
	}
	for name, value := range values {
		if value != "-" {
			lines = append(lines, name+": "+value+"\n")
		}
	}
	return strings.Join(lines, "")
}

// What axolotl makes of a recipe and of its options, or why that has no formula.
func TestReadsAxolotl(t *testing.T) {
	for name, tt := range map[string]struct {
		lines   map[string]string
		args    []string
		read    func(r *recognized) bool
		unknown string
	}{
		"a recipe": {nil, nil, func(r *recognized) bool {
			l := r.step.LoRA
			return r.split == ladder.Split{Micro: 4, Accumulation: 2} && r.evals == 4 && r.coupled && r.step.Length == 512 &&
				r.step.Checkpointing && r.step.Reentrant && r.step.Autocast == nn.BF16 && r.step.Weights == nn.BF16 &&
				l.Type == nn.F32 && l.Rank == 16 && l.Dropout == 0.05 && slices.Equal(l.Targets, []string{"q_proj", "o_proj"}) &&
				r.pads && r.multiple && l.Kernels == arch.Kernels{QKV: true, O: true, MLP: true} && !r.step.Upcast && r.ranks == 1
		}, ""},
		"options outrank it": {nil, []string{"--micro-batch-size", "2", "--gradient-checkpointing=false", "--sequence-len",
			"64", "--eval-batch-size=1", "--lora-qkv-kernel"}, func(r *recognized) bool {
			return r.split == ladder.Split{Micro: 2, Accumulation: 2} && r.evals == 1 && !r.coupled &&
				!r.step.Checkpointing && r.step.Length == 64 && r.step.LoRA.Kernels == arch.Kernels{QKV: true}
		}, ""},
		"whole": {map[string]string{"adapter": "-", "gradient_checkpointing_kwargs": "{use_reentrant: false}"}, nil,
			func(r *recognized) bool {
				return r.step.LoRA == nil && r.step.Upcast && !r.step.Reentrant && r.step.Checkpointing && !r.step.InputGrad
			}, ""},
		"float32": {map[string]string{"bf16": ""}, nil, func(r *recognized) bool {
			return r.step.Weights == nn.F32 && r.step.Autocast == nn.F32
		}, ""},
		"an older flag": {map[string]string{"attn_implementation": "-", "eager_attention": "yes"}, nil,
			func(r *recognized) bool { return r.step.Eager }, ""},
		"no evaluation": {map[string]string{"val_set_size": "0"}, nil, func(r *recognized) bool { return r.evals == 0 }, ""},
		"no part of an epoch": {map[string]string{"evals_per_epoch": "1"}, nil,
			func(r *recognized) bool { return r.evals == 0 }, ""},
		"a batch that has no effect": {map[string]string{"gradient_accumulation_steps": "-", "batch_size": "32"}, nil,
			func(r *recognized) bool {
				return r.split == ladder.Split{Micro: 4, Accumulation: 1} &&
					slices.ContainsFunc(r.warnings, func(w string) bool { return strings.Contains(w, "batch_size: 32 has no effect") })
			}, ""},
		"a batch that has one": {map[string]string{"gradient_accumulation_steps": "", "batch_size": "32"}, nil,
			func(r *recognized) bool { return r.split == ladder.Split{Micro: 4, Accumulation: 8} }, ""},
		"every layer": {map[string]string{"lora_target_linear": "true"}, nil, func(r *recognized) bool {
			return slices.Contains(r.step.LoRA.Targets, arch.AllLinear)
		}, ""},
		"not padded to a multiple": {map[string]string{"pad_to_sequence_len": "false"}, nil,
			func(r *recognized) bool { return r.step.Length == 500 && !r.multiple }, ""},
		"offload": {map[string]string{"gradient_checkpointing": "offload"}, nil, nil,
			"gradient_checkpointing: offload"},
		"a plugin": {map[string]string{"plugins": "[axolotl.integrations.kd.KDPlugin]"}, nil, nil, "plugin"},
		"shards in a block": {map[string]string{"fsdp_config": "\n  fsdp_offload_params: true"}, nil, nil,
			"FSDP of one process"},
		"shards in a list": {map[string]string{"fsdp": "\n  - full_shard"}, nil, nil, "FSDP of one process"},
		"no shards": {map[string]string{"fsdp": "[]", "deepspeed": ""}, nil,
			func(*recognized) bool { return true }, ""},
		"no plugin": {map[string]string{"plugins": "[]"}, nil, func(*recognized) bool { return true }, ""},
		"four bits": {map[string]string{"adapter": "qlora", "load_in_4bit": "true"}, nil, func(r *recognized) bool {
			q := r.step.Quant
			return q.Bits == 4 && q.Nested && q.Loaded == nn.BF16 && r.step.LoRA.Kernels.QKV
		}, ""},
		"eight bits": {map[string]string{"load_in_8bit": "true"}, nil, func(r *recognized) bool {
			return r.step.Quant.Bits == 8 && r.step.LoRA.Kernels == arch.Kernels{}
		}, ""},
		"four bits of nothing": {map[string]string{"load_in_4bit": "true"}, nil, func(r *recognized) bool {
			return slices.ContainsFunc(r.warnings, func(w string) bool { return strings.Contains(w, "quantises nothing") })
		}, "load_in_4bit with adapter: lora"},
		"an older name": {map[string]string{"model_config": "{output_router_logits: true}"}, nil, nil, "model_config"},
		"preference":    {map[string]string{"rl": "dpo"}, nil, nil, "rl has no formula"},
		"in two":        {nil, []string{"--context-parallel-size", "2"}, nil, "context_parallel_size"},
		"sharded":       {map[string]string{"deepspeed": "zero2.json"}, nil, nil, "deepspeed"},
		"float16": {map[string]string{"bf16": "false", "fp16": "true"}, nil, func(r *recognized) bool {
			return r.step.Autocast == nn.F16 && r.step.Weights == nn.F16
		}, ""},
		"float16 without adapters": {map[string]string{"bf16": "false", "fp16": "true", "adapter": ""}, nil, nil,
			"GradScaler"},
		"other options": {nil, []string{"--", "--use_fsdp"}, nil, "--use_fsdp"},
		"another model": {map[string]string{"base_model": "nobody/nothing"}, nil, nil, "nobody/nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := recognised(t, axolotlAt(t, tt.lines, append([]string{"train", "a.yaml"}, tt.args...)...))
			if !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if tt.read != nil && !tt.read(r) {
				t.Errorf("read as %+v, validation %d, %+v with %+v, %q", r.split, r.evals, r.step, r.step.LoRA, r.warnings)
			}
		})
	}
}

// How many processes share a step, by what starts axolotl.
func TestAxolotlRanks(t *testing.T) {
	for name, tt := range map[string]struct {
		module bool
		args   []string
		ranks  int64
		spread bool
	}{
		"accelerate":        {false, []string{"train", "a.yaml"}, 2, false},
		"its option":        {false, []string{"train", "a.yaml", "--", "--num_processes", "4"}, 4, false},
		"an unknown option": {false, []string{"train", "a.yaml", "--num_processes", "3"}, 3, false},
		"torchrun": {false, []string{"train", "a.yaml", "--launcher", "torchrun", "--", "--nproc-per-node=2"}, 2,
			false},
		"torchrun alone":  {false, []string{"train", "a.yaml", "--launcher=torchrun"}, 1, false},
		"python":          {false, []string{"train", "a.yaml", "--launcher", "python"}, 1, true},
		"the module":      {true, []string{"a.yaml"}, 1, true},
		"behind torchrun": {true, nil, 2, false},
	} {
		c := axolotlAt(t, nil, tt.args...)
		c.Devices = 2
		python := filepath.Join(filepath.Dir(c.Args[0]), "python3")
		switch {
		case tt.args == nil:
			c.Args = []string{"torchrun", "--nproc_per_node", "2", "-m", axolotlModule, "a.yaml", "--micro_batch_size", "2"}
		case tt.module:
			c.Args = append([]string{python, "-m", axolotlModule}, tt.args...)
		}
		r := recognised(t, c)
		if r.ranks != tt.ranks || r.spread != tt.spread {
			t.Errorf("%s: %d processes, spread %t; want %d, %t", name, r.ranks, r.spread, tt.ranks, tt.spread)
		}
		if tt.args == nil && r.split.Micro != 2 {
			t.Errorf("%s: a micro-batch of %d, want the option's 2", name, r.split.Micro)
		}
	}
	var caution *plugin.Caution
	for _, args := range [][]string{{"train"}, {"train", "examples/"}, {"train", "a.yaml", "--sweep", "s.yaml"}} {
		if _, err := New().Recognize(t.Context(), axolotlAt(t, nil, args...)); !errors.As(err, &caution) {
			t.Errorf("%q: %v, want a caution", args, err)
		}
	}
	other := axolotlAt(t, nil, "preprocess", "a.yaml")
	if _, err := New().Recognize(t.Context(), other); !errors.Is(err, plugin.ErrNotMine) {
		t.Errorf("axolotl preprocess: %v", err)
	}
}

// Every rung of every ladder is priced as the job that it makes would be, where an evaluation follows the micro-batch
// and where it has its own.
func TestAxolotlPromises(t *testing.T) {
	for name, tt := range map[string]struct {
		lines  map[string]string
		device gpu.Device
	}{
		"coupled":       {nil, card},
		"its own batch": {map[string]string{"eval_batch_size": "2", "adapter": "-", "gradient_checkpointing": "false"}, card},
		"no evaluation": {map[string]string{"val_set_size": "0"}, card},
		"on a CPU": {map[string]string{"bf16": "false", "adapter": "-"}, gpu.Device{Kind: gpu.CPU,
			Total: 8 * unit.GiB}},
		"four bits": {map[string]string{"adapter": "qlora", "load_in_4bit": "true"}, card},
		"packed":    {map[string]string{"sample_packing": "true"}, card},
		"packed, its own batch": {map[string]string{"sample_packing": "true", "eval_sample_packing": "false",
			"eval_batch_size": "2"}, card},
		"packed into a row": {map[string]string{"sample_packing": "true", "attn_implementation": "flash_attention_2",
			"adapter": "qlora", "load_in_4bit": "true", "optimizer": "adamw_8bit"}, card},
		"unpadded, whole": {map[string]string{"attn_implementation": "flash_attention_2", "adapter": "-"}, card},
		"unknown":         {map[string]string{"rl": "dpo"}, card},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugintest.Check(t, New(), axolotlAt(t, tt.lines, "train", "a.yaml", "--lora-r", "8"), tt.device)
		})
	}
}

// A packed evaluation has no batch of its own: neither a knob nor a ladder.
func TestAxolotlPacks(t *testing.T) {
	warned := func(r *recognized, text string) bool {
		return slices.ContainsFunc(r.warnings, func(w string) bool { return strings.Contains(w, text) })
	}
	packed := map[string]string{"sample_packing": "true", "eval_batch_size": "1"}
	r := recognised(t, axolotlAt(t, packed, "train", "a.yaml"))
	if r.evals != 4 || !r.evalPacks || !r.coupled || !warned(r, "eval_batch_size: 1 has no effect") {
		t.Errorf("validation of %d, packed %t, coupled %t, %q", r.evals, r.evalPacks, r.coupled, r.warnings)
	}
	for _, k := range r.Job().Knobs {
		if k.Name == knobValidation {
			t.Error("it has a knob of the validation's batch, which nothing reads")
		}
	}
	set, err := r.Ladders(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	if v := set.Ladder(ladder.Validation); len(v.Rungs) != 1 || !v.Rungs[0].At(set.Shared.Asked).Known() {
		t.Errorf("the validation's ladder has %d rungs", len(v.Rungs))
	}
	if !warned(r, "varlen_attn") {
		t.Errorf("no warning of attention that no card has measured: %q", r.warnings)
	}
	packed["attn_implementation"] = "eager"
	if r := recognised(t, axolotlAt(t, packed, "train", "a.yaml")); warned(r, "varlen_attn") {
		t.Errorf("eager attention has a warning of another one: %q", r.warnings)
	}
	packed["attn_implementation"] = "flash_attention_2"
	flash := recognised(t, axolotlAt(t, packed, "train", "a.yaml"))
	if s := flash.step; !s.Flash || !warned(flash, "evaluates with that one") {
		t.Errorf("with FlashAttention: %+v, %q", s, flash.warnings)
	}
}

// Where an evaluation follows the micro-batch, that is on the ladder of both phases.
func TestAxolotlLadders(t *testing.T) {
	for name, lines := range map[string]map[string]string{"coupled": nil, "its own": {"eval_batch_size": "2"}} {
		set, err := recognised(t, axolotlAt(t, lines, "train", "a.yaml")).Ladders(t.Context(), card)
		if err != nil {
			t.Fatal(err)
		}
		shared := slices.ContainsFunc(set.Shared.Rungs, func(r ladder.Rung) bool {
			return r.Values[job.MicroBatch] == 1 && r.Values[job.Accumulation] == 8
		})
		if shared != (lines == nil) {
			t.Errorf("%s: the shared ladder has a micro-batch of 1: %t", name, shared)
		}
		if v := set.Ladder(ladder.Validation); len(v.Rungs) < 2 || v.Rungs[len(v.Rungs)-1].Values[knobValidation] != 1 {
			t.Errorf("%s: the validation's ladder has no batch of 1", name)
		}
	}
}

// From adapters of weights as they are, or of 8 bits, a rung leads to 4 bits, which axolotl names another adapter.
func TestAxolotlFourBits(t *testing.T) {
	for name, lines := range map[string]map[string]string{
		"adapters":    {},
		"of 8 bits":   {"load_in_8bit": "true", "load_in_4bit": "false"},
		"of 4 bits":   {"adapter": "qlora", "load_in_4bit": "true"},
		"no adapters": {"adapter": "-"},
	} {
		c := installed(t, axolotlAt(t, lines, "train", "a.yaml"), "bitsandbytes")
		set, err := recognised(t, c).Ladders(t.Context(), card)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(set.Shared.Rungs, func(r ladder.Rung) bool { return r.Name == "weights in 4 bits" })
		if want := name == "adapters" || name == "of 8 bits"; i >= 0 != want {
			t.Errorf("%s: a rung to 4 bits: %t, want %t", name, i >= 0, want)
		}
		if i < 0 {
			continue
		}
		changes := map[string]string{}
		for _, e := range set.Shared.Rungs[i].Edits {
			changes[e.At.Path] = e.To
		}
		want := map[string]string{"adapter": `"qlora"`, "load_in_4bit": "true"}
		if name == "of 8 bits" {
			want["load_in_8bit"] = "false"
		}
		if !maps.Equal(changes, want) || !set.Shared.Rungs[i].NewState || set.Shared.Rungs[i].Cost != ladder.Model {
			t.Errorf("%s: changes %v at the cost %v, want %v", name, changes, set.Shared.Rungs[i].Cost, want)
		}
		plugintest.Check(t, New(), c, card)
	}
	c := installed(t, axolotlAt(t, nil, "train", "a.yaml", "--adapter", "lora"), "bitsandbytes")
	r := recognised(t, c)
	if edits := (&builder{s: r.settings, t: r.training}).quantEdits(); edits != nil {
		t.Errorf("an option of adapter is changed in the file: %v", edits)
	}
}

// axolotl's program passes the kit over the wire, too.
func TestAxolotlProgram(t *testing.T) {
	plugintest.Program(t, "./launch-plugin-lm",
		kit.Case{Name: "axolotl", Command: axolotlAt(t, nil, "train", "a.yaml", "--micro-batch-size", "2")})
}

// A revision names which files of a model of the hub are read: a folder has one kind, and another revision of a public
// model may be another shape than the table's.
func TestReadsRevisionOfModel(t *testing.T) {
	r := recognised(t, axolotlAt(t, map[string]string{"revision_of_model": "6299b5a"}, "train", "a.yaml"))
	if r.unknown != "" {
		t.Errorf("of a folder: unknown because %q", r.unknown)
	}
	for revision, unknown := range map[string]string{"main": "", "6299b5a": "is not on this machine"} {
		r := recognised(t, axolotlAt(t, map[string]string{"base_model": "Qwen/Qwen3-8B", "revision_of_model": revision},
			"train", "a.yaml"))
		if !strings.Contains(r.unknown, unknown) || (r.unknown == "") != (unknown == "") {
			t.Errorf("%s: unknown because %q, want %q", revision, r.unknown, unknown)
		}
	}
}
