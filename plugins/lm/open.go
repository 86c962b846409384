package lm

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
)

// openKnown reads the settings of a command.
func openKnown(c job.Command, prog command.Prog, k programKind) (*settings, error) {
	s := &settings{kind: k, command: c, prog: prog, env: python.Of(prog, c.Env)}
	if k.framework == axolotl && prog.Kind == command.Installed {
		s.env = python.Of(prog, axolotlEnv(s.env, c.Env))
	}
	var declared []python.Option
	switch {
	case k.framework == llamaFactory:
	case k.framework == axolotl:
		s.options = slices.Clone(axolotlOptions())
	case prog.Path() == "":
		declared = python.RecordedOptions(python.HF, k.classes...)
	default:
		declared = python.ReadOptions(prog.Path(), prog.Dir).Options
	}
	for _, o := range declared {
		if len(o.Names) > 0 && o.How == python.HF {
			takes := o.Takes
			if o.Type == "list" {
				takes = config.Some
			}
			s.options = append(s.options, config.Option{Names: slices.Clone(o.Names), Takes: takes})
		}
	}
	for _, o := range newer {
		if s.is(llamaFactory) || s.is(axolotl) {
			break
		}
		if !slices.ContainsFunc(s.options, func(k config.Option) bool { return slices.Contains(k.Names, o.Names[0]) }) {
			s.options = append(s.options, o)
		}
	}
	if k.config != "" {
		s.options = append(s.options, config.Option{Names: []string{k.config}})
	}
	for i, o := range s.options { // nargs of "?" (training_args.py:1451)
		if k.framework != axolotl && slices.Contains(o.Names, "--fsdp") {
			s.options[i].Takes = config.Maybe
		}
	}
	var err error
	if s.argv, err = config.ParseArgv(prog.Args, s.options); err != nil {
		return nil, &plugin.Caution{Why: err.Error()}
	}
	switch {
	case k.config != "":
		return s, s.beside()
	case k.framework == llamaFactory:
		return s, s.paired()
	case k.framework == axolotl:
		return s, s.named()
	}
	if len(prog.Args) != 1 || !strings.HasSuffix(prog.Args[0], ".json") { // run_clm.py:258 at 00d481d
		return s, nil
	}
	return s, s.parse(job.File{Path: prog.Args[0], Format: "json", Argument: true})
}

// beside reads the file that an option names (trl/scripts/utils.py:303, parse_args_and_config).
func (s *settings) beside() error {
	name, ok := s.argv.Get(s.kind.config)
	if !ok {
		return nil
	}
	return s.parse(job.File{Path: name, Format: "yaml", Flag: s.kind.config})
}

// paired reads the file that is the argument after "train" (LLaMA-Factory's hparams/parser.py:114), and the first one
// of its src/train.py.
func (s *settings) paired() error {
	at := 1
	if s.prog.Kind == command.Script {
		at = 0
	}
	if len(s.prog.Args) <= at {
		return &plugin.Caution{Why: "LLaMA-Factory is given no file of settings"}
	}
	name, format := s.prog.Args[at], "yaml"
	switch filepath.Ext(name) {
	case ".yaml", ".yml":
	case ".json":
		format = "json"
	default:
		return &plugin.Caution{Why: "LLaMA-Factory's settings are known from a file alone, and " + name + " is none"}
	}
	return s.parse(job.File{Path: name, Format: format, Argument: true})
}

// parse reads a file of settings.
func (s *settings) parse(f job.File) (err error) {
	if f.Text, err = file.Read(file.In(s.prog.Dir, f.Path), maxFile); err != nil {
		return fmt.Errorf("reading the recipe: %w", err)
	}
	if s.tree, err = config.Parse(f.Path, f.Text); err != nil {
		return fmt.Errorf("reading %s: %w", f.Path, err)
	}
	s.files = []job.File{f}
	return nil
}

// named reads the file that is axolotl's argument. The options outrank it (cli/config.py, load_cfg).
func (s *settings) named() error {
	words := s.argv.Positionals()
	if s.prog.Kind == command.Installed {
		words = words[min(1, len(words)):] // train
	}
	if len(words) == 0 {
		return &plugin.Caution{Why: "axolotl is given no file of settings"}
	}
	switch filepath.Ext(words[0]) {
	case ".yaml", ".yml", ".json":
	default: // a folder, from which a person chooses, or an address
		return &plugin.Caution{Why: "axolotl's settings are known from a file alone, and " + words[0] + " is none"}
	}
	if strings.Contains(words[0], "://") {
		return &plugin.Caution{Why: "axolotl downloads its settings, and launch reads files alone"}
	}
	for _, field := range []string{"cloud", "sweep", "use_ray"} {
		if s.has(field) {
			name := strings.ReplaceAll(field, "_", "-")
			return &plugin.Caution{Why: "axolotl with --" + name + " starts the training elsewhere"}
		}
	}
	return s.parse(job.File{Path: words[0], Format: "yaml", Argument: true})
}

// axolotlEnv is the environment with the allocator's settings that `axolotl train` adds where they are not there
// (utils/__init__.py:81).
func axolotlEnv(e python.Environment, env []string) []string {
	major, minor, ok := e.Torch()
	name, value := "PYTORCH_ALLOC_CONF", "expandable_segments:True"
	switch {
	case !ok: // it wants torch 2.11
	case major != 2 || minor < 2:
		return env
	case minor < 9:
		name, value = "PYTORCH_CUDA_ALLOC_CONF", value+",roundup_power2_divisions:16"
	}
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
		return env
	}
	return append(slices.Clone(env), name+"="+value)
}

//go:embed axolotl.txt
var axolotlText string

// axolotlOptions are the options of `axolotl train`. Its module reads them by fire, which takes an underscore for a
// dash.
var axolotlOptions = sync.OnceValue(func() (all []config.Option) {
	add := func(names string, takes config.Takes) {
		for name := range strings.FieldsSeq(names) {
			spelled := []string{"--" + name}
			if under := strings.ReplaceAll(name, "-", "_"); under != name {
				spelled = append(spelled, "--"+under)
			}
			all = append(all, config.Option{Names: spelled, Takes: takes})
		}
	}
	_, text, _ := strings.Cut(axolotlText, "---\n")
	values, flags, _ := strings.Cut(text, "---\n")
	add(values, config.One)
	add(flags, config.Maybe)
	return all
})
