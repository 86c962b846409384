// Package lm is the plugin of language models: scripts that fine-tune a decoder with Hugging Face's Trainer.
//
// What a script does with its arguments is told by its source. A command whose model, length or precision cannot be
// read is left to the declaration of Trainer scripts, or has an unknown estimate with the reason: nothing is assumed.
package lm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// New returns the plugin.
func New() plugin.Plugin { return lm{} }

type lm struct{}

// A kind is what a script of this family makes of its settings.
type kind struct {
	dialect string
	// texts are what its source is known by.
	texts []string
	// classes are its dataclasses, where it is a library's own program.
	classes []string
	config  string   // the option that names a file of settings; "" where a JSON file may be the only argument
	pairs   bool     // the arguments are a file of settings, and NAME=VALUE that outrank it
	true    []string // fields that are true where nothing sets them
	length  string   // the field of the length of a sequence
	// own are the program's options where its file of settings is a positional argument, and names its own names of
	// fields of TrainingArguments.
	own    func() []config.Option
	names  map[string]string
	output string // the default of output_dir, where it is not the Trainer's
	read   func(t *training) string
	// optim and rank are the fields of the optimizer ("" for "optim") and of the adapters' rank, and fourBits is the field
	// that quantises the weights, with its value.
	optim, rank string
	fourBits    [2]string
	// rows are the rows of its data set; nil where they are not read.
	rows func(t *training, data *table) error
	// beside are releases that it can have beside it, where they are not the newest that were recorded.
	beside map[string][]int
}

var (
	clmKind     = kind{dialect: "transformers run_clm", texts: clm, length: "block_size", read: (*training).readModel}
	factoryKind = kind{dialect: "LLaMA-Factory", length: "cutoff_len", read: (*training).readFactory, pairs: true,
		rank: "lora_rank", fourBits: [2]string{"quantization_bit", "4"}, rows: (*training).rowsFactory,
		beside: besideFactory}
	axolotlKind = kind{dialect: "axolotl", length: "sequence_len", read: (*training).readAxolotl, own: axolotlOptions,
		names: axolotlNames, output: "./model-out", rank: "lora_r", true: []string{"do_train"},
		rows: (*training).rowsAxolotl, beside: besideAxolotl}
	sftKind = kind{dialect: "trl sft", texts: sft, length: "max_length", read: (*training).readSFT,
		rows:     (*training).rowsSFT,
		config:   "--config",
		rank:     "lora_r",
		fourBits: [2]string{"load_in_4bit", "true"},
		classes:  []string{"trl.ScriptArguments", "trl.SFTConfig", "trl.ModelConfig"},
		true:     []string{"gradient_checkpointing", "bf16", "do_train"}} // trl/trainer/base_config.py:62, 108
)

// sft are the texts by which the source of trl's sft.py is known (trl/scripts/sft.py).
var sft = []string{"TrlParser", "SFTTrainer", "SFTConfig", "get_peft_config", "get_quantization_config",
	"resume_from_checkpoint"}

// factoryTrain are the texts by which the source of LLaMA-Factory's src/train.py is known.
var factoryTrain = []string{"llamafactory.train.tuner", "run_exp"}

// clm are the texts by which the source of transformers' run_clm.py is known
// (examples/pytorch/language-modeling/run_clm.py).
var clm = []string{"HfArgumentParser", "TrainingArguments", "AutoModelForCausalLM", "group_texts", "block_size",
	"default_data_collator"}

// Manifest implements [plugin.Plugin].
func (lm) Manifest() plugin.Manifest {
	return plugin.Manifest{
		Name: "lm", Version: "1", About: "language models: transformers' run_clm.py, trl sft and dpo, LLaMA-Factory, axolotl",
		Env: append(slices.Clone(plugin.Variables), "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "ARROW_DEFAULT_MEMORY_POOL",
			"FSDP_*", "FORCE_TORCHRUN", "NNODES", "NPROC_PER_NODE", "USE_V1"),
		Archs: names(),
		Marks: []plugin.Mark{{Script: "run_clm*.py", Contains: clm}, {Script: "sft*.py", Contains: sft},
			{Script: "dpo*.py", Contains: dpo}, {Script: "trl"}, {Script: "*.py", Contains: ownMark},
			{Script: "llamafactory-cli"}, {Script: "lmf"}, {Script: "train.py", Contains: factoryTrain}, {Script: "axolotl"},
			{Script: axolotlModule}},
	}
}

// Recognize implements [plugin.Plugin].
func (lm) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	prog, err := c.Prog()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", plugin.ErrNotMine, err)
	}
	s, err := settingsOf(c, prog)
	if err != nil {
		return nil, err
	}
	if !s.on("do_train") {
		return nil, fmt.Errorf("%w: without do_train it trains nothing", plugin.ErrNotMine)
	}
	if s.on("auto_find_batch_size") {
		return nil, &plugin.Caution{Why: "the Trainer itself looks for a batch that fits (--auto_find_batch_size)"}
	}
	t := &training{settings: s}
	if err := t.divide(); err != nil {
		return nil, err
	}
	if s.script != nil && s.script.mapped && (t.replicas || t.ranks > 1) {
		return nil, errOwn("device_map shares the model out among several cards")
	}
	t.read()
	t.readLengths()
	t.warnAssumed()
	t.warnUnseen()
	t.made = t.job()
	return t, nil
}

// settingsOf reads the settings of a command that is known by its name, or of a script of one's own.
func settingsOf(c job.Command, prog command.Prog) (*settings, error) {
	k, err := kindOf(prog)
	switch {
	case err == nil:
		return open(c, prog, k)
	case prog.Kind == command.Script:
		return openOwn(c, prog)
	}
	return nil, err
}

// kindOf tells by a program's name and source what kind it is.
func kindOf(prog command.Prog) (k kind, err error) {
	name := filepath.Base(prog.Path())
	installed := ""
	if prog.Kind == command.Installed {
		installed = filepath.Base(prog.Script)
	}
	switch {
	case (installed == "llamafactory-cli" || installed == "lmf") && len(prog.Args) > 1 && prog.Args[0] == "train":
		return factoryKind, nil
	case installed == "axolotl" && len(prog.Args) > 0 && prog.Args[0] == "train",
		prog.Kind == command.Module && prog.Script == axolotlModule:
		return axolotlKind, nil
	case installed == "trl" && len(prog.Args) > 0 && prog.Args[0] == "sft":
		return sftKind, nil
	case installed == "trl" && len(prog.Args) > 0 && prog.Args[0] == "dpo":
		return dpoKind, nil
	case prog.Kind != command.Script:
		return k, plugin.ErrNotMine
	case name == "train.py" && named(prog.Path(), factoryTrain):
		return factoryKind, nil
	case strings.HasPrefix(name, "run_clm"):
		k = clmKind
	case strings.HasPrefix(name, "sft"):
		k = sftKind
	case strings.HasPrefix(name, "dpo"):
		k = dpoKind
	default:
		return k, plugin.ErrNotMine
	}
	src := python.ReadSource(prog.Path(), 1<<20)
	for _, text := range k.texts {
		if !src.Names(text) {
			return k, fmt.Errorf("%w: %s has no %s", plugin.ErrNotMine, prog.Script, text)
		}
	}
	for _, text := range []string{"get_peft_model", "BitsAndBytesConfig", "compute_loss"} {
		if src.Names(text) {
			return k, fmt.Errorf("%w: %s has %s of its own", plugin.ErrNotMine, prog.Script, text)
		}
	}
	return k, nil
}

// named reports whether a script's source has all of these texts.
func named(path string, texts []string) bool {
	src := python.ReadSource(path, 1<<20)
	return !slices.ContainsFunc(texts, func(text string) bool { return !src.Names(text) })
}

// A training is a recognised command.
type training struct {
	*settings
	split    ladder.Split
	ranks    int64
	replicas bool
	evals    int64 // sequences of an evaluation's batch; 0 for no evaluation
	pads     bool  // sequences of a batch are padded to the longest of them
	multiple bool  // they are padded to a multiple, so that one alone is padded, too
	// coupled: an evaluation has the batch of the training, unless it is set.
	coupled          bool
	single           bool  // a micro-batch of more than one row fails
	packs, evalPacks bool  // sequences are packed into a row, and so is an evaluation's batch
	spread           bool  // one process has several cards, with some layers on each
	bf16             bool  // axolotl's, after "auto"
	inferred         bool  // the type that the model is loaded in is of the configuration, and float32 on a CPU
	row              int64 // tokens of the longest row, where each is padded to more by a setting; 0 for none
	output           string

	model     arch.Config
	step      arch.Step
	predicted bool
	// unknown is why there is no estimate; "" where there is one.
	unknown  string
	warnings []string
	assumed  []string                // distributions whose version is taken for granted
	atMost   bool                    // no batch is longer than step.Length, and nothing shows that one is as long
	unseen   []string                // what no card has measured
	sharding func(key string) string // accelerate's file, where that turns DeepSpeed on
	wrapping func(b *wrapBlock)      // and settings of FSDP, where that or the environment turns it on
	pinned   bool                    // DeepSpeed's file has the micro-batch or the accumulation as a number
	made     *job.Job
}

// Job implements [plugin.Recognized].
func (t *training) Job() *job.Job { return t.made }

func (t *training) warn(format string, a ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, a...))
}

// divide finds out how the global batch is divided. The error may be a [plugin.Need] of the number of cards.
func (t *training) divide() (err error) {
	if t.kind.own != nil {
		if err := t.divideAxolotl(); err != nil {
			return err
		}
		t.ranks, t.replicas, err = t.world()
		return err
	}
	var errs [3]error
	t.split.Micro, errs[0] = t.count("per_device_train_batch_size", 8)                   // training_args.py:777
	t.split.Accumulation, errs[1] = t.count("gradient_accumulation_steps", 1)            // training_args.py:849
	if t.kind.config == "" && t.on("do_eval") || t.text("eval_strategy", "no") != "no" { // training_args.py:1571
		t.evals, errs[2] = t.count("per_device_eval_batch_size", 8) // training_args.py:1128
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	t.ranks, t.replicas, err = t.world()
	return err
}

// world is how many processes share a step. Without a launcher one process uses all cards by torch.nn.DataParallel
// (training_args.py:1949).
func (t *training) world() (n int64, replicas bool, err error) {
	devices := t.command.Devices
	for _, l := range t.prog.Launchers {
		n, asks := l.Ranks(devices)
		if asks && devices == 0 {
			return 0, false, &plugin.Need{Devices: true}
		}
		if n > 0 {
			return int64(n), false, nil
		}
	}
	if t.kind.own != nil {
		n, err := t.worldAxolotl()
		return n, false, err
	}
	if devices == 0 {
		return 0, false, &plugin.Need{Devices: true}
	}
	if t.prog.Path() == "" { // trl and LLaMA-Factory start a process for each card (launcher.py:61)
		return max(1, int64(devices)), false, nil
	}
	return max(1, int64(devices)), devices > 1, nil
}

// edit sets a field of the settings to a number or a truth value.
func (s *settings) edit(knob, field, to string, cost ladder.Cost, why string) config.Edit {
	at, to := s.address(field), s.spelled(to)
	e := config.Proposed(s.argv, at.Doc, at.Path, to)
	if at.Doc != config.ArgvDoc {
		e = config.Proposed(s.tree, at.Doc, at.Path, to)
	}
	e.Knob, e.Cost, e.Why = knob, cost.String(), why
	return e
}

// editText sets a field of the settings to a text.
func (s *settings) editText(knob, field, to string, cost ladder.Cost, why string) config.Edit {
	if s.address(field).Doc != config.ArgvDoc {
		to = strconv.Quote(to)
	}
	return s.edit(knob, field, to, cost, why)
}
