package lm

import "github.com/launch-ml/launch/core/config"

// A framework is whose training loop a command starts.
type framework int

const (
	runCLM framework = iota // transformers' run_clm.py
	trlSFT
	trlDPO
	llamaFactory
	axolotl
	plainTrainer // transformers' Trainer, in a script of one's own
)

// A programKind is a program of a framework: by what it is known, how it names its settings, and what those are where
// nothing sets them.
type programKind struct {
	framework
	dialect string
	texts   []string // what its source is known by
	classes []string // its dataclasses, where it is a library's own program
	config  string   // the option that names a file of settings; "" where a JSON file may be the only argument
	true    []string // fields that are true where nothing sets them
	length  string   // the field of the length of a sequence
	// names are its own names of fields of TrainingArguments.
	names  map[string]string
	output string // the default of output_dir, where it is not the Trainer's
	// rank is the field of the adapters' rank, and fourBits the field that quantises the weights, with its value.
	rank     string
	fourBits [2]string
	// beside are releases that it can have beside it, where they are not the newest that were recorded.
	beside map[string][]int
}

var (
	clmKind     = programKind{framework: runCLM, dialect: "transformers run_clm", texts: clm, length: "block_size"}
	factoryKind = programKind{framework: llamaFactory, dialect: "LLaMA-Factory", length: "cutoff_len", rank: "lora_rank",
		fourBits: [2]string{"quantization_bit", "4"}, beside: besideFactory}
	axolotlKind = programKind{framework: axolotl, dialect: "axolotl", length: "sequence_len", names: axolotlNames,
		output: "./model-out", rank: "lora_r", true: []string{"do_train"}, beside: besideAxolotl}
	sftKind = programKind{framework: trlSFT, dialect: "trl sft", texts: sft, length: "max_length", config: "--config",
		rank: "lora_r", fourBits: [2]string{"load_in_4bit", "true"},
		classes: []string{"trl.ScriptArguments", "trl.SFTConfig", "trl.ModelConfig"},
		true:    []string{"gradient_checkpointing", "bf16", "do_train"}} // trl/trainer/base_config.py:62, 108
	dpoKind = programKind{framework: trlDPO, dialect: "trl dpo", texts: dpo, length: "max_length", config: "--config",
		rank:    "lora_r",
		classes: []string{"trl.ScriptArguments", "trl.DPOConfig", "trl.ModelConfig"},
		true: []string{"gradient_checkpointing", "bf16", "do_train", // trl/trainer/base_config.py:62, 108
			"disable_dropout"}} // trl/trainer/dpo_config.py:190
	// trainerKind is a script of one's own that builds a plain Trainer of transformers.
	trainerKind = programKind{framework: plainTrainer, length: "max_length"}
)

// The texts by which sources are known: transformers' run_clm.py (examples/pytorch/language-modeling), trl's sft.py and
// dpo.py (trl/scripts), and LLaMA-Factory's src/train.py.
var (
	clm = []string{"HfArgumentParser", "TrainingArguments", "AutoModelForCausalLM", "group_texts", "block_size",
		"default_data_collator"}
	sft = []string{"TrlParser", "SFTTrainer", "SFTConfig", "get_peft_config", "get_quantization_config",
		"resume_from_checkpoint"}
	dpo = []string{"TrlParser", "DPOTrainer", "DPOConfig", "get_peft_config", "get_quantization_config",
		"resume_from_checkpoint"}
	factoryTrain = []string{"llamafactory.train.tuner", "run_exp"}
)

// axolotlModule is the module that every launcher of axolotl starts (cli/utils/train.py).
const axolotlModule = "axolotl.cli.train"

// axolotlNames are its names of fields of TrainingArguments (core/builders/base.py:660).
var axolotlNames = map[string]string{"per_device_train_batch_size": "micro_batch_size",
	"per_device_eval_batch_size": "eval_batch_size", "optim": "optimizer"}

// The newest releases that a program can have beside it, where the recorded ones are newer: of LLaMA-Factory 0.9.5
// (its pyproject.toml, and requirements/deepspeed.txt) and of axolotl 0.19.0 (its METADATA). trl 1.16.0 allows the
// recorded ones.
var (
	besideFactory = map[string][]int{"transformers": {5, 6}, "accelerate": {1, 11}, "deepspeed": {0, 18}}
	besideAxolotl = map[string][]int{"transformers": {5, 16}, "torch": {2, 13}, "accelerate": {1, 13},
		"deepspeed": {0, 18}, "liger_kernel": {0, 8, 1}}
)

// newer are fields of TrainingArguments that came with transformers 5 (training_args.py:908, 916).
var newer = []config.Option{
	{Names: []string{"--activation_checkpointing", "--activation-checkpointing"}, Takes: config.Maybe},
	{Names: []string{"--activation_checkpointing_kwargs", "--activation-checkpointing-kwargs"}},
}
