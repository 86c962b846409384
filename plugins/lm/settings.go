package lm

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
)

// settings are the fields of a script's dataclasses as HfArgumentParser reads them, from the arguments or from the one
// JSON file that is the only argument; and as TrlParser does, from the arguments and, where they have not a field,
// from the file of --config.
type settings struct {
	kind    kind
	command job.Command
	prog    command.Prog
	env     python.Environment
	argv    *config.Argv
	options []config.Option
	tree    config.Tree // nil where the arguments have all of them
	files   []job.File
	script  *own // of a script of one's own
}

// maxFile bounds what is read of a file of settings.
const maxFile = 4 << 20

// newer are fields of TrainingArguments that came with transformers 5 (training_args.py:908, 916).
var newer = []config.Option{
	{Names: []string{"--activation_checkpointing", "--activation-checkpointing"}, Takes: config.Maybe},
	{Names: []string{"--activation_checkpointing_kwargs", "--activation-checkpointing-kwargs"}},
}

// open reads the settings of a command.
func open(c job.Command, prog command.Prog, k kind) (*settings, error) {
	s := &settings{kind: k, command: c, prog: prog, env: python.Of(prog, c.Env)}
	if k.own != nil && prog.Kind == command.Installed {
		s.env = python.Of(prog, axolotlEnv(s.env, c.Env))
	}
	var declared []python.Option
	switch {
	case k.pairs:
	case k.own != nil:
		s.options = slices.Clone(k.own())
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
		if !k.pairs && k.own == nil && !slices.ContainsFunc(s.options, func(k config.Option) bool {
			return slices.Contains(k.Names,
				o.Names[0])
		}) {
			s.options = append(s.options, o)
		}
	}
	if k.config != "" {
		s.options = append(s.options, config.Option{Names: []string{k.config}})
	}
	for i, o := range s.options { // nargs of "?" (training_args.py:1451)
		if k.own == nil && slices.Contains(o.Names, "--fsdp") {
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
	case k.pairs:
		return s, s.paired()
	case k.own != nil:
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
	if f.Text, err = file.Read(within(s.prog.Dir, f.Path), maxFile); err != nil {
		return fmt.Errorf("reading the recipe: %w", err)
	}
	if s.tree, err = config.Parse(f.Path, f.Text); err != nil {
		return fmt.Errorf("reading %s: %w", f.Path, err)
	}
	s.files = []job.File{f}
	return nil
}

// within is a path that is relative to a folder.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// get is a field's value, without quotes; set says that the settings have it.
func (s *settings) get(field string) (value string, set bool) {
	if s.script != nil {
		return s.script.get(field)
	}
	field = s.called(field)
	if !s.filed(field) {
		if s.negated(field) {
			return "false", true
		}
		return s.argv.Get(s.argument(field))
	}
	node := s.tree.Root().Get(field)
	switch {
	case node.IsNull():
		return "", false
	case node.Kind() == config.Map || node.Kind() == config.Seq:
		return rendered(node), node.Len() > 0
	}
	value, set = s.tree.Get(field)
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		value = text
	}
	value = strings.Trim(value, "'")
	if value == "null" || value == "~" {
		return "", false
	}
	return value, set
}

// filed reports whether the file has the field: all fields where it is the only argument, and otherwise those that it
// sets and the arguments do not.
func (s *settings) filed(field string) bool {
	switch {
	case s.tree == nil:
		return false
	case s.kind.pairs:
		return !s.argv.Has(field)
	case s.kind.own != nil:
		return !s.argv.Has(s.argument(field)) && !s.negated(field)
	case s.kind.config == "":
		return true
	case s.argv.Has("--" + field): // or its other names
		return false
	}
	return s.tree.Root().Get(field).Exists()
}

// argument is a field's name among the arguments.
func (s *settings) argument(field string) string {
	switch {
	case s.kind.pairs:
		return field
	case s.kind.own != nil:
		return "--" + strings.ReplaceAll(field, "_", "-")
	}
	return "--" + field
}

// called is the program's own name of a field of TrainingArguments.
func (s *settings) called(field string) string {
	if own, ok := s.kind.names[field]; ok {
		return own
	}
	return field
}

// negated reports whether the arguments switch a field of bool off by its other name (hf_argparser.py:244).
func (s *settings) negated(field string) bool {
	dashed := strings.ReplaceAll(field, "_", "-")
	return slices.Contains(s.prog.Args, "--no_"+field) || slices.Contains(s.prog.Args, "--no-"+dashed)
}

// list is a field of several values.
func (s *settings) list(field string) (values []string) {
	if s.script != nil {
		return s.script.lists[field]
	}
	field = s.called(field)
	if !s.filed(field) {
		return s.argv.Values(s.argument(field))
	}
	node := s.tree.Root().Get(field)
	if node.Kind() != config.Seq {
		return []string{node.Text()}
	}
	for i := range node.Len() {
		values = append(values, node.Index(i).Text())
	}
	return values
}

// text is a field's value, or what it is otherwise.
func (s *settings) text(field, otherwise string) string {
	if v, ok := s.get(field); ok {
		return v
	}
	return otherwise
}

// has reports whether a field is set to something.
func (s *settings) has(field string) bool {
	v, ok := s.get(field)
	return ok && v != "" && v != "None"
}

// on is a field of bool. A flag without a value is true (hf_argparser.py, string_to_bool).
func (s *settings) on(field string) bool {
	v, ok := s.get(field)
	if !ok {
		return slices.Contains(s.kind.true, field)
	}
	if s.kind.own != nil && s.filed(s.called(field)) {
		if b, is := s.tree.Root().Get(s.called(field)).Bool(); is {
			return b
		}
	}
	switch strings.ToLower(v) {
	case "", "yes", "true", "t", "y", "1":
		return true
	}
	return false
}

// count is a field that is a whole number.
func (s *settings) count(field string, otherwise int64) (int64, error) {
	v, ok := s.get(field)
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > 1<<20 {
		return 0, fmt.Errorf("%s is %q: it is a whole number from 1 to %d", s.address(field).Path, v, 1<<20)
	}
	return n, nil
}

// address is where a field lies.
func (s *settings) address(field string) config.Address {
	if s.script != nil {
		return config.Address{Doc: s.files[0].Path, Path: s.script.path(field)}
	}
	field = s.called(field)
	if s.filed(field) {
		return config.Address{Doc: s.files[0].Path, Path: field}
	}
	return config.Address{Doc: config.ArgvDoc, Path: s.argument(field)}
}

// getenv is a variable as the program will have it.
func (s *settings) getenv(name string) (value string) {
	for _, env := range [][]string{s.command.Env, s.prog.Env} {
		for _, kv := range env {
			if v, is := strings.CutPrefix(kv, name+"="); is {
				value = v
			}
		}
	}
	return value
}

// release is the version of a package as numbers: 5, 23 of transformers 5.23.0; nil where it is not known.
func (s *settings) release(distribution string) (numbers []int) {
	for _, part := range strings.Split(s.env.Version(distribution), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		numbers = append(numbers, n)
	}
	return numbers
}
