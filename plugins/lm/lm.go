// Package lm is the plugin of language models: scripts that fine-tune a decoder with Hugging Face's Trainer.
//
// What a script does with its arguments is told by its source. A command whose model, length or precision cannot be
// read is left to the declaration of Trainer scripts, or has an unknown estimate with the reason: nothing is assumed.
package lm

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
)

// New returns the plugin.
func New() plugin.Plugin { return family{} }

// A family is the plugin: the programs that fine-tune language models.
type family struct{}

// Manifest implements [plugin.Plugin].
func (family) Manifest() plugin.Manifest {
	return plugin.Manifest{
		Name: "lm", Version: "1", About: "language models: transformers' run_clm.py, trl sft and dpo, LLaMA-Factory, axolotl",
		Env: append(slices.Clone(plugin.Variables), "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "ARROW_DEFAULT_MEMORY_POOL",
			"FSDP_*", "FORCE_TORCHRUN", "NNODES", "NPROC_PER_NODE", "USE_V1"),
		Archs: publicNames(),
		Marks: []plugin.Mark{{Script: "run_clm*.py", Contains: clm}, {Script: "sft*.py", Contains: sft},
			{Script: "dpo*.py", Contains: dpo}, {Script: "trl"}, {Script: "*.py", Contains: ownMark},
			{Script: "llamafactory-cli"}, {Script: "lmf"}, {Script: "train.py", Contains: factoryTrain}, {Script: "axolotl"},
			{Script: axolotlModule}},
	}
}

// Recognize implements [plugin.Plugin].
func (family) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
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
	t, err := readers[s.kind.framework](s)
	if err != nil {
		return nil, err
	}
	return &recognized{s, &t, jobOf(s, &t)}, nil
}

// readers read what a command comes to, one for each framework.
var readers = map[framework]func(s *settings) (training, error){runCLM: readCLM, trlSFT: readSFT, trlDPO: readDPO,
	llamaFactory: readFactory, axolotl: readAxolotl, plainTrainer: readTrainer}

// A recognized is a command of this family: what it says, and what that comes to.
type recognized struct {
	*settings
	*training
	made *job.Job
}

// Job implements [plugin.Recognized].
func (r *recognized) Job() *job.Job { return r.made }

// Ladders implements [plugin.Recognized].
func (r *recognized) Ladders(_ context.Context, d gpu.Device) (*ladder.Set, error) {
	return ladders(r.settings, r.training, d), nil
}

// settingsOf reads the settings of a command that is known by its name, or of a script of one's own.
func settingsOf(c job.Command, prog command.Prog) (*settings, error) {
	k, err := kindOf(prog)
	switch {
	case err == nil:
		return openKnown(c, prog, k)
	case prog.Kind == command.Script:
		return openOwn(c, prog)
	}
	return nil, err
}

// kindOf tells by a program's name and source what kind it is.
func kindOf(prog command.Prog) (k programKind, err error) {
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
	case name == "train.py" && hasTexts(prog.Path(), factoryTrain):
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

// hasTexts reports whether a script's source has all of these texts.
func hasTexts(path string, texts []string) bool {
	src := python.ReadSource(path, 1<<20)
	return !slices.ContainsFunc(texts, func(text string) bool { return !src.Names(text) })
}
