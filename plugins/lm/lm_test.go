package lm

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// script declares the options of run_clm.py, and has the texts by which it is known.
const script = `
from dataclasses import dataclass, field
from typing import Optional
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments, default_data_collator

@dataclass
class ModelArguments:
    model_name_or_path: Optional[str] = field(default=None)
    model_type: Optional[str] = field(default=None)
    config_overrides: Optional[str] = field(default=None)
    config_name: Optional[str] = field(default=None)
    tokenizer_name: Optional[str] = field(default=None)
    cache_dir: Optional[str] = field(default=None)
    model_revision: str = field(default="main")
    dtype: Optional[str] = field(default=None)

@dataclass
class DataTrainingArguments:
    dataset_name: Optional[str] = field(default=None)
    block_size: Optional[int] = field(default=None)
    max_eval_samples: Optional[int] = field(default=None)

def main():
    parser = HfArgumentParser((ModelArguments, DataTrainingArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()

def group_texts(examples, block_size):
    return examples
`

// sftScript declares the options of trl's sft.py, and has the texts by which it is known.
const sftScript = `
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser, get_peft_config, get_quantization_config

def main(script_args, training_args, model_args):
    trainer = SFTTrainer(model=model_args.model_name_or_path, peft_config=get_peft_config(model_args))
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)

if __name__ == "__main__":
    parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
    script_args, training_args, model_args = parser.parse_args_and_config()
    main(script_args, training_args, model_args)
`

// tiny is a small model of the shape of llama.
const tiny = `{"model_type": "llama", "vocab_size": 32000, "hidden_size": 512, "intermediate_size": 1376,
	"num_hidden_layers": 4, "num_attention_heads": 8,
	"num_key_value_heads": 2, "max_position_embeddings": 2048, "dtype": "float32"}`

// interpreter is a Python with torch 2.15, trl 1.16 and transformers of that version.
func interpreter(t testing.TB, transformers string) string {
	t.Helper()
	bin := plugintest.Torch(t, "2.15.0")
	for _, name := range []string{"transformers-" + transformers, "trl-1.16.0"} {
		if err := os.MkdirAll(filepath.Join(filepath.Dir(bin), "../lib/python3.11/site-packages", name+".dist-info"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// folder has the script, a model and its tokenizer, and whatever else.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{"run_clm.py": script, "sft.py": sftScript,
		"sft.yaml": "model_name_or_path: model\nuse_peft: true\nper_device_train_batch_size: 4\n" +
			"eval_strategy: steps\nlora_target_modules: [q_proj, o_proj]\n",
		"model/config.json": tiny, "model/tokenizer_config.json": `{"model_max_length": 1000000000000000019884624838656}`}
	for path, text := range files {
		all[path] = text
	}
	for path, text := range all {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var card = gpu.Device{Kind: gpu.CUDA, Total: 24 * unit.GiB, Capability: "8.9"}

func cmd(t testing.TB, dir string, args ...string) job.Command {
	t.Helper()
	return job.Command{Args: append([]string{interpreter(t, "5.23.0")}, args...), Dir: dir, Env: []string{"HOME=" + dir,
		"PATH=" + os.Getenv("PATH")}, Devices: 1}
}

var asked = []string{"run_clm.py", "--model_name_or_path", "model", "--dataset_name", "x", "--do_train", "--do_eval",
	"--output_dir", "out",
	"--gradient_accumulation_steps", "2"}

// Every rung of every ladder is priced as the job that it makes would be.
func TestPromises(t *testing.T) {
	for name, tt := range map[string]struct {
		args   []string
		files  map[string]string
		device gpu.Device
	}{
		"float32":  {asked, nil, card},
		"autocast": {append(asked[:len(asked):len(asked)], "--bf16", "--gradient-checkpointing"), nil, card},
		"bfloat16": {append(asked[:len(asked):len(asked)], "--dtype", "bfloat16", "--optim", "adamw_torch",
			"--block_size", "512"), nil, card},
		"on a CPU": {asked, nil, gpu.Device{Kind: gpu.CPU, Total: 8 * unit.GiB}},
		"from a JSON": {[]string{"run_clm.py", "a.json"},
			map[string]string{"a.json": `{"model_name_or_path": "model", "do_train": true, "output_dir": "out",
"per_device_train_batch_size": 4}`}, card},
		"of the table": {[]string{"run_clm.py", "--model_name_or_path", "gpt2", "--do_train", "--dataset_name", "x",
			"--output_dir", "o"}, nil, card},
		"trl's sft": {[]string{"sft.py", "--model_name_or_path", "model", "--dataset_name", "x",
			"--gradient_accumulation_steps", "2"}, nil, card},
		"of its file": {[]string{"sft.py", "--config", "sft.yaml", "--no_gradient_checkpointing", "--dtype", "auto"},
			nil, card},
		"4 bits": {[]string{"sft.py", "--config", "sft.yaml", "--load_in_4bit"}, nil, card},
		"8 bits": {[]string{"sft.py", "--config", "sft.yaml", "--load_in_8bit"}, nil, card},
		"trl on a CPU": {[]string{"sft.py", "--config", "sft.yaml", "--bf16", "false"}, nil, gpu.Device{Kind: gpu.CPU,
			Total: 8 * unit.GiB}},
		"unknown model": {[]string{"run_clm.py", "--model_name_or_path", "nobody/nothing", "--do_train", "--dataset_name",
			"x", "--output_dir", "o"}, nil, card},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugintest.Check(t, New(), cmd(t, folder(t, tt.files), tt.args...), tt.device)
		})
	}
}

// The plugin's program passes the kit as any other author's does.
func TestProgram(t *testing.T) {
	plugintest.Program(t, "./launch-plugin-lm", kit.Case{Name: "run_clm", Command: cmd(t, folder(t, nil), asked...)},
		kit.Case{Name: "sft", Command: cmd(t, folder(t, nil), "sft.py", "--config", "sft.yaml")})
}

func recognised(t *testing.T, c job.Command) *recognized {
	t.Helper()
	r, err := New().Recognize(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r.(*recognized)
}

// hub is where the hub's cache has a model.
const hub = ".cache/huggingface/hub/models--some--one/"

// What run_clm.py makes of a command, or why that has no formula.
func TestReads(t *testing.T) {
	with := func(args ...string) []string { return append(asked[:len(asked):len(asked)], args...) }
	for name, tt := range map[string]struct {
		args    []string
		files   map[string]string
		length  int64
		weights string
		unknown string
	}{
		"as asked":     {asked, nil, 1024, "float32", ""},
		"a block size": {with("--block_size=300"), nil, 300, "float32", ""},
		"a dtype":      {with("--dtype", "bfloat16"), nil, 1024, "bfloat16", ""},
		"half weights": {asked, map[string]string{"model/config.json": strings.Replace(tiny, "float32", "bfloat16",
			1)}, 1024, "bfloat16", ""},
		"no dtype": {asked, map[string]string{"model/config.json": strings.Replace(tiny, `, "dtype": "float32"`,
			"", 1)}, 0, "", "--dtype sets it"},
		"long tokenizer": {asked, map[string]string{"model/tokenizer_config.json": `{"model_max_length": 2048}`}, 2048,
			"float32", ""},
		"short tokenizer": {with("--block_size", "4000"),
			map[string]string{"model/tokenizer_config.json": `{"model_max_length": 512}`}, 512, "float32", ""},
		"no tokenizer": {with("--tokenizer_name", "nobody/x"), nil, 0, "", "length of a sequence"},
		"another model": {asked, map[string]string{"model/config.json": `{"model_type": "mamba"}`}, 0, "",
			`type "mamba"`},
		"quantised": {asked, map[string]string{"model/config.json": strings.Replace(tiny, "{",
			`{"quantization_config": {}, `, 1)}, 0, "", "quantization_config"},
		"liger":     {with("--use_liger_kernel"), nil, 0, "", "liger-kernel is not installed"},
		"deepspeed": {with("--deepspeed", "ds.json"), nil, 0, "", "deepspeed"},
		"no liger":  {with("--use_liger_kernel", "false"), nil, 1024, "float32", ""},
		"adafactor": {with("--optim", "adafactor"), nil, 1024, "float32", ""},
		"galore":    {with("--optim", "galore_adamw"), nil, 1024, "float32", `"galore_adamw"`},
		"offload": {with("--gradient_checkpointing", "--gradient_checkpointing_kwargs", `{"offload": true}`), nil,
			0, "", "offload"},
		"from scratch": {[]string{"run_clm.py", "--model_type", "gpt2", "--config_overrides",
			"n_layer=2,n_embd=64,n_head=2", "--tokenizer_name", "gpt2", "--do_train", "--output_dir", "o"},
			nil, 1024, "float32", ""},
		"a cached model": {[]string{"run_clm.py", "--model_name_or_path", "some/one", "--do_train", "--output_dir", "o",
			"--block_size", "64"},
			map[string]string{hub + "refs/main": "abc", hub + "snapshots/abc/config.json": tiny}, 64, "float32", ""},
		"several and none": {append([]string{"run_clm.py"}, with()[1:]...), nil, 1024, "float32", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := cmd(t, folder(t, tt.files), tt.args...)
			r := recognised(t, c)
			set, err := r.Ladders(t.Context(), card)
			if err != nil {
				t.Fatal(err)
			}
			e := set.Ladder(ladder.Training).Rungs[set.Ladder(ladder.Training).Asked].At(0)
			if !strings.Contains(e.Unknown, tt.unknown) || e.Known() != (tt.unknown == "") {
				t.Fatalf("the estimate is unknown because %q, want %q", e.Unknown, tt.unknown)
			}
			if tt.length > 0 && (r.step.Length != tt.length || r.step.Weights.String() != tt.weights) {
				t.Errorf("%d tokens and weights in %v, want %d and %s", r.step.Length, r.step.Weights, tt.length, tt.weights)
			}
		})
	}
}

// What trl's sft.py makes of a command, or why that has no formula.
func TestReadsSFT(t *testing.T) {
	with := func(args ...string) []string { return append([]string{"sft.py", "--config", "sft.yaml"}, args...) }
	for name, tt := range map[string]struct {
		args    []string
		read    func(r *recognized) bool
		unknown string
	}{
		"of its file": {with(), func(r *recognized) bool {
			l := r.step.LoRA
			return r.split.Micro == 4 && r.evals == 8 && r.step.Length == 1024 && r.step.Checkpointing &&
				r.step.Autocast == nn.BF16 &&
				r.step.Weights == nn.F32 && l.Rank == 16 && l.Dropout == 0.05 && slices.Equal(l.Targets, []string{"q_proj",
				"o_proj"})
		}, ""},
		"arguments outrank it": {with("--per_device_train_batch_size", "2", "--fp16", "--max-length", "99",
			"--lora_target_modules", "all-linear", "--eval_strategy", "no"), func(r *recognized) bool {
			return r.split.Micro == 2 && r.evals == 0 && r.step.Length == 99 && r.step.Autocast == nn.F16 &&
				slices.Equal(r.step.LoRA.Targets, []string{arch.AllLinear})
		}, ""},
		"of the model's type": {with("--dtype", "auto", "--no_gradient_checkpointing", "--attn_implementation", "eager",
			"--bf16=false"), func(r *recognized) bool {
			return r.step.Weights == nn.F32 && !r.step.Checkpointing && r.step.Eager && r.step.Autocast == nn.F32
		}, ""},
		"packing": {with("--packing"), func(r *recognized) bool {
			return r.step.Packed && !r.pads && !r.step.Flash && len(r.made.Warnings) > 0
		}, ""},
		"packing, wrapped": {with("--packing", "--packing_strategy", "wrapped"), func(r *recognized) bool {
			return !r.step.Packed && !r.pads
		}, ""},
		"padding-free alone": {with("--padding_free"), nil, "--padding_free"},
		"four bits": {with("--load_in_4bit", "--use_bnb_nested_quant", "--dtype", "bfloat16"), func(r *recognized) bool {
			q := r.step.Quant
			return *q == arch.Quant{Bits: 4, Nested: true, Compute: nn.BF16, Loaded: nn.BF16} &&
				r.step.LoRA.Type == nn.BF16 && len(r.made.Warnings) > 0
		}, ""},
		"eight bits": {with("--load_in_8bit"), func(r *recognized) bool {
			return *r.step.Quant == arch.Quant{Bits: 8, Loaded: nn.F32} && r.step.LoRA.Type == nn.BF16
		}, ""},
		"four bits of no type": {with("--load_in_4bit", "--dtype", "auto"), nil, "--dtype auto"},
		"flash attention": {with("--attn_implementation", "flash_attention_2", "--packing"), func(r *recognized) bool {
			return r.step.Flash && r.step.Packed && strings.Contains(strings.Join(r.made.Warnings, " "), "FlashAttention")
		}, ""},
		"other kernels": {with("--attn_implementation", "kernels-community/x"), nil, "kernels-community/x"},
		"another layer": {with("--lora_target_modules", "q_proj", "lm_head"), nil, "lm_head"},
		"another loss":  {with("--loss_type", "kto"), nil, "loss_type kto"},
		"weighted":      {with("--loss_type", "dft"), func(r *recognized) bool { return r.step.Weighted }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := recognised(t, cmd(t, folder(t, nil), tt.args...))
			if !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if tt.read != nil && !tt.read(r) {
				t.Errorf("read as micro-batch %d, validation %d, %+v with %+v", r.split.Micro, r.evals, r.step, r.step.LoRA)
			}
		})
	}
}

// factory makes llamafactory-cli beside the interpreter of a command, as pip installs it, and returns the command.
func factory(t testing.TB, args ...string) job.Command { return factoryIn(t, nil, args...) }

// factoryIn is the same with other files beside the recipe.
func factoryIn(t testing.TB, files map[string]string, args ...string) job.Command {
	t.Helper()
	all := map[string]string{"a.yaml": factoryRecipe}
	maps.Copy(all, files)
	c := cmd(t, folder(t, all), args...)
	path := filepath.Join(filepath.Dir(c.Args[0]), "llamafactory-cli")
	if err := os.WriteFile(path, []byte("#!"+c.Args[0]+"\nimport sys\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.Args = append([]string{path, "train"}, args...)
	return c
}

// factoryRecipe is a recipe of LLaMA-Factory.
const factoryRecipe = `model_name_or_path: model
trust_remote_code: true
stage: sft
do_train: true
finetuning_type: lora
lora_target: all
cutoff_len: 512
output_dir: saves
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
bf16: true
resume_from_checkpoint: null
eval_strategy: steps
`

// What LLaMA-Factory makes of a recipe and of NAME=VALUE, or why that has no formula.
func TestReadsFactory(t *testing.T) {
	for name, tt := range map[string]struct {
		args    []string
		read    func(r *recognized) bool
		unknown string
	}{
		"a recipe": {[]string{"a.yaml"}, func(r *recognized) bool {
			l := r.step.LoRA
			return r.split == ladder.Split{Micro: 4, Accumulation: 2} && r.evals == 8 && r.step.Length == 512 &&
				r.step.Checkpointing &&
				r.step.Reentrant && r.step.Autocast == nn.BF16 && r.step.Weights == nn.BF16 && l.Type == nn.F32 && l.Rank == 8 &&
				slices.Equal(l.Targets, []string{arch.AllLinear}) && r.pads && !r.step.Fused
		}, ""},
		"arguments outrank it": {[]string{"a.yaml", "per_device_train_batch_size=2", "finetuning_type=full",
			"use_reentrant_gc=false",
			"disable_gradient_checkpointing=true"}, func(r *recognized) bool {
			return r.split.Micro == 2 && r.step.LoRA == nil && r.step.Weights == nn.F32 && !r.step.Checkpointing &&
				!r.step.Reentrant
		}, ""},
		"pure bfloat16": {[]string{"a.yaml", "pure_bf16=true", "bf16=false", "lora_target=q_proj,v_proj"},
			func(r *recognized) bool {
				return r.step.Autocast == nn.F32 && r.step.Weights == nn.BF16 && r.step.LoRA.Type == nn.F32
			}, ""},
		"ranking": {[]string{"a.yaml", "stage=rm"}, nil, "stage rm"},
		"four bits": {[]string{"a.yaml", "quantization_bit=4"}, func(r *recognized) bool {
			return *r.step.Quant == arch.Quant{Bits: 4, Nested: true, Compute: nn.BF16, Loaded: nn.BF16} &&
				r.step.Weights == nn.BF16 && r.step.LoRA.Type == nn.F32
		}, ""},
		"four bits, plain": {[]string{"a.yaml", "quantization_bit=4", "double_quantization=false"}, func(r *recognized) bool {
			return !r.step.Quant.Nested
		}, ""},
		"eight bits": {[]string{"a.yaml", "quantization_bit=8"},
			func(r *recognized) bool { return r.step.Quant.Bits == 8 }, ""},
		"three bits":  {[]string{"a.yaml", "quantization_bit=3"}, nil, "quantization_bit 3"},
		"by hqq":      {[]string{"a.yaml", "quantization_bit=4", "quantization_method=hqq"}, nil, "quantization_method hqq"},
		"whole, of 4": {[]string{"a.yaml", "quantization_bit=4", "finetuning_type=full"}, nil, "without adapters"},
		"packing": {[]string{"a.yaml", "packing=true"}, func(r *recognized) bool { return !r.pads && !r.step.Blocks },
			""},
		"packing, not of 8": {[]string{"a.yaml", "packing=true", "cutoff_len=500"}, func(r *recognized) bool {
			return r.pads && r.step.Length == 504
		}, ""},
		"neat packing": {[]string{"a.yaml", "neat_packing=true"}, func(r *recognized) bool {
			return !r.pads && r.step.Blocks && !r.step.Packed
		}, ""},
		"fa2 is not installed": {[]string{"a.yaml", "flash_attn=fa2"}, func(r *recognized) bool {
			return !r.step.Flash && strings.Contains(r.warnings[0], "flash_attn")
		}, ""},
		"no type": {[]string{"a.yaml", "bf16=false"}, func(r *recognized) bool { // that of config.json is float32
			b := builder{s: r.settings, t: r.training, device: gpu.Device{Kind: gpu.CPU}}
			return r.step.Weights == nn.F16 && r.step.LoRA.Type == nn.F32 && r.step.Autocast == nn.F32 &&
				b.at(way{}).Weights == nn.F32
		}, ""},
		"its log": {[]string{"a.yaml", "overwrite_output_dir=true"}, func(r *recognized) bool {
			e := r.Job().Resume.Edits
			return len(e) == 2 && e[1].At.Path == "overwrite_output_dir" && e[1].To == "false"
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := recognised(t, factory(t, tt.args...))
			if !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if tt.read != nil && !tt.read(r) {
				t.Errorf("read as %+v, validation %d, %+v with %+v", r.split, r.evals, r.step, r.step.LoRA)
			}
		})
	}
}

func TestFactoryPromises(t *testing.T) {
	plugintest.Check(t, New(), factory(t, "a.yaml"), card)
	plugintest.Check(t, New(), factory(t, "a.yaml", "disable_gradient_checkpointing=true",
		"gradient_accumulation_steps=4"), card)
	plugintest.Check(t, New(), factory(t, "a.yaml", "neat_packing=true", "quantization_bit=4"), card)
}

// What accelerate launch makes of mixed precision: its option, else its file, else nothing.
func TestAccelerate(t *testing.T) {
	const file = ".cache/huggingface/accelerate/default_config.yaml"
	for name, tt := range map[string]struct {
		options   []string
		files     map[string]string
		precision nn.DType
		unknown   string
	}{
		"without":          {nil, nil, nn.F32, ""},
		"an option":        {[]string{"--mixed_precision", "bf16", "--num_processes=1"}, nil, nn.BF16, ""},
		"its default file": {nil, map[string]string{file: "distributed_type: 'NO'\nmixed_precision: fp16\n"}, nn.F16, ""},
		"a file": {[]string{"--config_file", "a.yaml"}, map[string]string{"a.yaml": "mixed_precision: bf16\n"},
			nn.BF16, ""},
		"sharded": {nil, map[string]string{file: "distributed_type: MEGATRON_LM\n"}, 0,
			"distributed_type MEGATRON_LM"},
		"one process": {nil, map[string]string{file: "distributed_type: FSDP\n"}, 0, "FSDP of one process"},
		"deepspeed":   {[]string{"--use_deepspeed"}, nil, 0, "--use_deepspeed"},
		"no file":     {[]string{"--config_file", "none.yaml"}, nil, 0, "could not be read"},
		"eight bits":  {[]string{"--mixed_precision", "fp8"}, nil, 0, `"fp8"`},
	} {
		c := cmd(t, folder(t, tt.files))
		path := filepath.Join(filepath.Dir(c.Args[0]), "accelerate")
		if err := os.WriteFile(path, []byte("#!"+c.Args[0]+"\nimport sys\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		c.Args = slices.Concat([]string{path, "launch"}, tt.options, asked)
		r := recognised(t, c)
		if !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == "") {
			t.Errorf("%s: unknown because %q, want %q", name, r.unknown, tt.unknown)
		} else if r.unknown == "" && r.step.Autocast != tt.precision {
			t.Errorf("%s: mixed precision in %v, want %v", name, r.step.Autocast, tt.precision)
		}
	}
}

// Another script, another version, several cards of one process.
func TestLeaves(t *testing.T) {
	declined := func(name string, c job.Command) {
		t.Helper()
		if _, err := New().Recognize(t.Context(), c); !errors.Is(err, plugin.ErrNotMine) {
			t.Errorf("%s: %v, want it to be declined", name, err)
		}
	}
	declined("another script", cmd(t, folder(t, map[string]string{"train.py": script}), "train.py", "--do_train"))
	declined("no training", cmd(t, folder(t, nil), "run_clm.py", "--model_name_or_path", "model", "--do_eval"))
	declined("adapters", cmd(t, folder(t,
		map[string]string{"run_clm.py": script + "\nfrom peft import get_peft_model\n"}), asked...))
	for version, unknown := range map[string]string{"4.57.1": "", "4.44.0": "", "4.35.2": "", "4.29.2": "4.29.2",
		"4.39.3": "4.39"} {
		old := cmd(t, folder(t, map[string]string{"model/config.json": strings.Replace(tiny, "float32", "bfloat16", 1)}),
			append(asked[:len(asked):len(asked)], "--gradient_checkpointing")...)
		old.Args[0] = interpreter(t, version)
		if r := recognised(t, old); !strings.Contains(r.unknown, unknown) || (r.unknown == "") != (unknown == "") ||
			unknown == "" && (r.step.Weights != nn.F32 || !r.step.Reentrant) || r.Job().Resume.None != "" {
			t.Errorf("of transformers %s: unknown because %q, %+v, resume %q", version, r.unknown, r.step, r.Job().Resume.None)
		}
	}
	old := cmd(t, folder(t, map[string]string{"model/config.json": `{"model_type": "gpt2"}`}), asked...)
	for version, unknown := range map[string]string{"4.42.4": "gpt2 has no formula", "4.43.4": "", "4.57.1": ""} {
		old.Args[0] = interpreter(t, version)
		if r := recognised(t, old); !strings.Contains(r.unknown, unknown) || (r.unknown == "") != (unknown == "") {
			t.Errorf("of GPT-2 with transformers %s: unknown because %q", version, r.unknown)
		}
	}
	several := cmd(t, folder(t, nil), asked...)
	several.Devices = 2
	if r := recognised(t, several); !strings.Contains(r.unknown, "DataParallel") || !r.Job().Batch.Replicas {
		t.Errorf("of two cards: unknown because %q", r.unknown)
	}
	several.Args = append([]string{"torchrun", "--nproc_per_node", "2"}, several.Args[1:]...)
	if r := recognised(t, several); r.ranks != 2 || r.Job().Batch.Replicas {
		t.Errorf("behind torchrun: %d ranks", r.ranks)
	}
	var caution *plugin.Caution
	if _, err := New().Recognize(t.Context(), cmd(t, folder(t, nil), append(asked[:len(asked):len(asked)],
		"--auto_find_batch_size")...)); !errors.As(err, &caution) {
		t.Errorf("where the Trainer looks for a batch: %v", err)
	}
}

// The older models of the table have the number of parameters that their pages on huggingface.co give.
func TestTable(t *testing.T) {
	totals := map[string]int64{
		"gpt2": 124439808, "gpt2-medium": 354823168, "gpt2-large": 774030080, "gpt2-xl": 1557611200,
		"TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1100048384, "meta-llama/Llama-2-7b-hf": 6738415616,
		"meta-llama/Llama-3.2-1B": 1235814400, "meta-llama/Llama-3.2-3B": 3212749824, "meta-llama/Llama-3.1-8B": 8030261248,
		"meta-llama/Meta-Llama-3-8B-Instruct": 8030261248, "mistralai/Mistral-7B-v0.1": 7241732096,
		"mistralai/Mixtral-8x7B-v0.1": 46702792704, "mistralai/Mixtral-8x7B-Instruct-v0.1": 46702792704,
		"Qwen/Qwen3-30B-A3B": 30532122624,
		"Qwen/Qwen2.5-0.5B":  494032768, "Qwen/Qwen2.5-1.5B": 1543714304, "Qwen/Qwen2.5-7B": 7615616512,
		"Qwen/Qwen3-0.6B": 596049920, "Qwen/Qwen3-1.7B": 1720574976, "Qwen/Qwen3-4B": 4022468096,
		"Qwen/Qwen3-4B-Instruct-2507": 4022468096, "Qwen/Qwen3-8B": 8190735360, "google/gemma-2b": 2506172416,
		"microsoft/phi-2": 2779683840, "Qwen/Qwen2-0.5B-Instruct": 494032768, "Qwen/Qwen2-0.5B": 494032768,
		"Qwen/Qwen2.5-1.5B-Instruct": 1543714304, "meta-llama/Llama-3.2-1B-Instruct": 1235814400,
		"NousResearch/Llama-2-7b-hf": 6738415616, "NousResearch/Llama-3.2-1B": 1235814400,
		"NousResearch/Meta-Llama-3-8B": 8030261248, "NousResearch/Meta-Llama-3.1-8B": 8030261248,
		"meta-llama/Meta-Llama-3-8B": 8030261248,
	}
	for name, want := range totals {
		if got := parameters(t, name); got != want {
			t.Errorf("%s: %d parameters, its page has %d", name, got, want)
		}
	}
	for name, known := range publics() {
		_, older := totals[strings.TrimPrefix(name, "openai-community/")]
		if alias := name == "Qwen/Qwen2.5-0.5B-Instruct"; (older || alias) == (known.Source != "") {
			t.Errorf("%s: either its page was read or it says its source, which is %q", name, known.Source)
		}
	}
}

// Models with a source have about the size that their names give. The exact totals are those that the formula made of
// the shapes when they were held against their sources, no published figures: a shape does not change unnoticed.
func TestSourced(t *testing.T) {
	size := regexp.MustCompile(`-([0-9.]+)([MBmb])\b`)
	held := map[string]bool{}
	for total, names := range map[int64]string{
		134515008:  "HuggingFaceTB/SmolLM2-135M HuggingFaceTB/SmolLM2-135M-Instruct",
		361821120:  "HuggingFaceTB/SmolLM2-360M HuggingFaceTB/SmolLM2-360M-Instruct",
		463987712:  "Qwen/Qwen1.5-0.5B Qwen/Qwen1.5-0.5B-Chat",
		596049920:  "Qwen/Qwen3-0.6B-Base",
		1100048384: "TinyLlama/TinyLlama_v1.1",
		1543714304: "Qwen/Qwen2.5-Coder-1.5B Qwen/Qwen2.5-Coder-1.5B-Instruct Qwen/Qwen2-1.5B-Instruct " +
			"Qwen/Qwen2-1.5B Qwen/Qwen2.5-Math-1.5B",
		1711376384: "HuggingFaceTB/SmolLM2-1.7B HuggingFaceTB/SmolLM2-1.7B-Instruct",
		1720574976: "Qwen/Qwen3-1.7B-Base",
		1777088000: "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
		1836828672: "Qwen/Qwen1.5-1.8B Qwen/Qwen1.5-1.8B-Chat",
		2506172416: "google/gemma-2b-it",
		3085938688: "Qwen/Qwen2.5-3B Qwen/Qwen2.5-3B-Instruct",
		3212749824: "meta-llama/Llama-3.2-3B-Instruct",
		3950369280: "Qwen/Qwen1.5-4B Qwen/Qwen1.5-4B-Chat",
		4022468096: "Qwen/Qwen3-4B-Base",
		6061035520: "01-ai/Yi-6B 01-ai/Yi-6B-Chat",
		6738415616: "meta-llama/Llama-2-7b-chat-hf NousResearch/Llama-2-7b-chat-hf huggyllama/llama-7b " +
			"lmsys/vicuna-7b-v1.5",
		6738546688: "codellama/CodeLlama-7b-hf codellama/CodeLlama-7b-Instruct-hf",
		6910365696: "deepseek-ai/deepseek-llm-7b-base deepseek-ai/deepseek-llm-7b-chat",
		7241732096: "mistralai/Mistral-7B-Instruct-v0.1 HuggingFaceH4/zephyr-7b-beta " +
			"mistralai/Mistral-7B-Instruct-v0.2",
		7248023552: "mistralai/Mistral-7B-v0.3 mistralai/Mistral-7B-Instruct-v0.3",
		7615616512: "Qwen/Qwen2.5-Math-7B Qwen/Qwen2.5-7B-Instruct Qwen/Qwen2.5-Coder-7B " +
			"Qwen/Qwen2.5-Coder-7B-Instruct Qwen/Qwen2-7B Qwen/Qwen2-7B-Instruct " +
			"deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
		7721324544: "Qwen/Qwen1.5-7B Qwen/Qwen1.5-7B-Chat",
		8030261248: "meta-llama/Llama-3.1-8B-Instruct meta-llama/Meta-Llama-3.1-8B " +
			"meta-llama/Meta-Llama-3.1-8B-Instruct deepseek-ai/DeepSeek-R1-Distill-Llama-8B " +
			"NousResearch/Meta-Llama-3-8B-Instruct",
		8190735360:  "Qwen/Qwen3-8B-Base",
		8537680896:  "google/gemma-7b google/gemma-7b-it",
		12247782400: "mistralai/Mistral-Nemo-Base-2407 mistralai/Mistral-Nemo-Instruct-2407",
		13015864320: "meta-llama/Llama-2-13b-hf meta-llama/Llama-2-13b-chat-hf NousResearch/Llama-2-13b-hf " +
			"huggyllama/llama-13b",
		13016028160: "codellama/CodeLlama-13b-hf codellama/CodeLlama-13b-Instruct-hf",
		14167290880: "Qwen/Qwen1.5-14B Qwen/Qwen1.5-14B-Chat",
		14768307200: "Qwen/Qwen3-14B Qwen/Qwen3-14B-Base",
		14770033664: "Qwen/Qwen2.5-14B Qwen/Qwen2.5-14B-Instruct deepseek-ai/DeepSeek-R1-Distill-Qwen-14B",
		23572403200: "mistralai/Mistral-Small-24B-Base-2501 mistralai/Mistral-Small-24B-Instruct-2501",
		32512218112: "Qwen/Qwen1.5-32B Qwen/Qwen1.5-32B-Chat",
		32762123264: "Qwen/Qwen3-32B",
		32763876352: "Qwen/Qwen2.5-32B Qwen/Qwen2.5-32B-Instruct Qwen/Qwen2.5-Coder-32B-Instruct " +
			"deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
		34388917248: "01-ai/Yi-34B 01-ai/Yi-34B-Chat",
		68976648192: "meta-llama/Llama-2-70b-hf meta-llama/Llama-2-70b-chat-hf",
		70553706496: "meta-llama/Llama-3.1-70B meta-llama/Llama-3.1-70B-Instruct " +
			"meta-llama/Llama-3.3-70B-Instruct meta-llama/Meta-Llama-3-70B " +
			"meta-llama/Meta-Llama-3-70B-Instruct",
		999885952:   "google/gemma-3-1b-it",
		2614341888:  "google/gemma-2-2b google/gemma-2-2b-it",
		3821079552:  "microsoft/Phi-3-mini-4k-instruct",
		7298617344:  "allenai/OLMo-2-1124-7B allenai/OLMo-2-1124-7B-Instruct",
		9241705984:  "google/gemma-2-9b google/gemma-2-9b-it",
		13716198400: "allenai/OLMo-2-1124-13B allenai/OLMo-2-1124-13B-Instruct",
		14659507200: "microsoft/phi-4",
		27227128320: "google/gemma-2-27b google/gemma-2-27b-it",
		72706203648: "Qwen/Qwen2.5-72B Qwen/Qwen2.5-72B-Instruct Qwen/Qwen2-72B Qwen/Qwen2-72B-Instruct",
	} {
		for name := range strings.FieldsSeq(names) {
			held[name] = true
			if got := parameters(t, name); got != total {
				t.Errorf("%s: %d parameters, not %d", name, got, total)
			}
			named := size.FindStringSubmatch(name)
			if named == nil { // Mistral-Nemo-Base-2407, TinyLlama_v1.1
				continue
			}
			about, err := strconv.ParseFloat(named[1], 64)
			about *= map[string]float64{"m": 1e6, "b": 1e9}[strings.ToLower(named[2])]
			if off := float64(total)/about - 1; err != nil || off < -0.1 || off > 0.31 { // gemma-2-2b has 2.6e9
				t.Errorf("%s: %d parameters, %.0f %% more than its name says", name, total, 100*off)
			}
		}
	}
	for name, known := range publics() {
		if held[name] != (known.Source != "") {
			t.Errorf("%s: no total, or no source", name)
		}
	}
}

// parameters are those of a public model by the formula.
func parameters(t *testing.T, name string) (n int64) {
	t.Helper()
	known := publics()[name]
	if known == nil {
		t.Fatalf("%s is not in the table", name)
	}
	c, err := arch.Read(known.Config)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	e := arch.Training(arch.Step{Model: c, Batch: 1, Length: 8, Weights: nn.BF16, Optimizer: "adamw_torch_fused"})
	for _, it := range e.Items {
		if it.Kind == mem.Parameters {
			n += it.Count
		}
	}
	return n
}

// A training of every model of the table is recognised. What a source does not say is not known: the length to which
// its tokenizer cuts, and for some the type of the weights.
func TestPublics(t *testing.T) {
	for name, known := range publics() {
		if !strings.Contains(name, "/") {
			continue
		}
		asked := []string{"run_clm.py", "--model_name_or_path", name, "--do_train", "--output_dir", "o"}
		full := append(slices.Clone(asked), "--block_size", "512", "--dtype", "bfloat16")
		if why := recognised(t, cmd(t, folder(t, nil), full...)).unknown; why != "" {
			t.Errorf("%s: %s", name, why)
		}
		why := recognised(t, cmd(t, folder(t, nil), asked...)).unknown
		if known.MaxLength != nil && known.Weights != "" {
			if why != "" {
				t.Errorf("%s: %s", name, why)
			}
		} else if why == "" {
			t.Errorf("%s: nothing is unknown, and its tokenizer's length or its type is", name)
		}
	}
}
