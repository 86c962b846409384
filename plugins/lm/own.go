package lm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
)

// owns are the classes by which a script of one's own is known.
var owns = []struct {
	config, trainer, library string
	kind                     programKind
}{
	{"SFTConfig", "SFTTrainer", "trl", sftKind}, {"DPOConfig", "DPOTrainer", "trl", dpoKind},
	{"TrainingArguments", "Trainer", "transformers", trainerKind},
}

// ownMark are the texts that such a script has.
var ownMark = []string{"SFTConfig|DPOConfig|TrainingArguments", "SFTTrainer|DPOTrainer|Trainer"}

// parses are texts of a program that takes its settings otherwise, or that changes what a step is.
var parses = strings.Fields("TrlParser HfArgumentParser compute_loss training_step FastLanguageModel setattr " +
	"exec eval deepcopy " +
	"deepspeed CUDA_VISIBLE_DEVICES ACCELERATE_MIXED_PRECISION ACCELERATE_USE_FSDP " +
	"ACCELERATE_USE_DEEPSPEED set_default_dtype set_default_device resize_token_embeddings " +
	"setup_chat_format clone_chat_template")

// patches are packages that change the classes of transformers where they are imported or called.
var patches = []string{"unsloth", "unsloth_zoo", "liger_kernel", "cut_cross_entropy"}

// readOwn reads a script of one's own.
func readOwn(prog command.Prog) (*literals, error) {
	src := python.ReadSource(prog.Path(), 1<<20)
	if i := slices.IndexFunc(parses, src.Names); i >= 0 {
		return nil, errOwn("%s has %s", prog.Script, parses[i])
	}
	for _, im := range src.Imports() {
		if top, _, _ := strings.Cut(im.Module, "."); slices.Contains(patches, top) {
			return nil, errOwn("%s imports %s", prog.Script, top)
		}
	}
	for _, o := range owns {
		if !src.Names(o.config) || !src.Names(o.trainer) {
			continue
		}
		r := &ownReader{Syntax: src.Syntax(), literals: &literals{kind: o.kind, values: map[string]string{},
			lists: map[string][]string{}, literal: map[string]bool{}, at: map[string]string{}}}
		r.kind.dialect, r.kind.config = o.library+" "+o.trainer, ""
		if i := slices.IndexFunc([]string{quantConfig, kbit}, src.Names); i >= 0 && o.library == "trl" {
			return nil, errOwn("%s quantises the weights of a trainer of trl", prog.Script)
		}
		if err := r.altered(); err != nil {
			return nil, err
		}
		for _, other := range owns {
			if other.trainer != o.trainer && len(r.calls(other.trainer)) > 0 {
				return nil, errOwn("%s makes %s and %s", prog.Script, o.trainer, other.trainer)
			}
		}
		if err := r.read(o.config, o.trainer, o.library); err != nil {
			return nil, err
		}
		return r.literals, nil
	}
	return nil, errOwn("%s builds no configuration of a trainer", prog.Script)
}

// sources gives the script as the command's own interpreter reads it, for the edits.
func (o *literals) sources(c job.Command, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return errOwn("%v", err)
	}
	if o.src = c.Source(path); o.src == nil {
		return &plugin.Need{Sources: []string{path}}
	}
	if o.src.Problem != "" {
		return errOwn("%s could not be read: %s", path, o.src.Problem)
	}
	for field := range o.literal {
		it, ok := o.src.Item(o.path(field))
		if !ok || !it.Literal {
			delete(o.literal, field)
		}
	}
	if it, ok := o.src.Item(o.resume); !ok || !it.Literal {
		o.resume = ""
	}
	return nil
}

// document is the script as a file of settings.
func (o *literals) document() (config.Tree, job.File, error) {
	doc, err := config.OpenPython(o.src)
	if err != nil {
		return nil, job.File{}, fmt.Errorf("reading %s: %w", o.src.Path, err)
	}
	return doc, job.File{Path: o.src.Path, Format: job.Python, Source: o.src}, nil
}

// openOwn reads the settings of a script of one's own.
func openOwn(c job.Command, prog command.Prog) (*settings, error) {
	o, err := readOwn(prog)
	if err != nil {
		return nil, err
	}
	if err := o.sources(c, prog.Path()); err != nil {
		return nil, err
	}
	s := &settings{kind: o.kind, command: c, prog: prog, env: python.Of(prog, c.Env), script: o}
	if s.argv, err = config.ParseArgv(prog.Args, nil); err != nil {
		return nil, &plugin.Caution{Why: err.Error()}
	}
	var f job.File
	if s.tree, f, err = o.document(); err != nil {
		return nil, err
	}
	s.files = []job.File{f}
	return s, nil
}
