package lm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/python"
)

// settings are the fields of a script's dataclasses as HfArgumentParser reads them, from the arguments or from the one
// JSON file that is the only argument; and as TrlParser does, from the arguments and, where they have not a field,
// from the file of --config.
type settings struct {
	kind    programKind
	command job.Command
	prog    command.Prog
	env     python.Environment
	argv    *config.Argv
	options []config.Option
	tree    config.Tree // nil where the arguments have all of them
	files   []job.File
	script  *literals // of a script of one's own
}

// maxFile bounds what is read of a file of settings.
const maxFile = 4 << 20

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
	case s.is(llamaFactory):
		return !s.argv.Has(field)
	case s.is(axolotl):
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
	case s.is(llamaFactory):
		return field
	case s.is(axolotl):
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
	if s.is(axolotl) && s.filed(s.called(field)) {
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
	if distribution == "torch" && s.env.Known() {
		if major, minor, ok := s.env.Torch(); ok {
			return []int{major, minor}
		}
		return nil
	}
	for _, part := range strings.Split(s.version(distribution), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		numbers = append(numbers, n)
	}
	return numbers
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

// is reports whether the command starts a program of that framework.
func (s *settings) is(f framework) bool { return s.kind.framework == f }

// trl reports whether it is one of trl's.
func (s *settings) trl() bool { return s.is(trlSFT) || s.is(trlDPO) }

// adds reports whether edits set what does not stand in a script of one's own: nothing can be added to a program.
func (s *settings) adds(edits []config.Edit) bool {
	return s.script != nil && slices.ContainsFunc(edits, func(e config.Edit) bool {
		return e.Add && e.At.Doc == s.script.src.Path
	})
}

// turns reports whether an edit can change a field: of a script of one's own only what stands in it as a literal.
func (s *settings) turns(fields ...string) bool {
	return !slices.ContainsFunc(fields, func(field string) bool { return s.script != nil && !s.script.literal[field] })
}

// spelled is a value as the file of settings spells it.
func (s *settings) spelled(to string) string {
	switch {
	case s.script != nil && to == "true":
		return "True"
	case s.script != nil && to == "false":
		return "False"
	}
	return to
}

// nothing reports whether the file sets a field to null, which for axolotl is not the same as a field that it has not.
func (s *settings) nothing(field string) bool {
	field = s.called(field)
	return s.filed(field) && s.tree.Root().Get(field).IsNull()
}

// given reports whether a field has a value that is true in Python.
func (s *settings) given(field string) bool {
	v, ok := s.get(field)
	if s.filed(s.called(field)) {
		if node := s.tree.Root().Get(s.called(field)); node.Kind() == config.Seq || node.Kind() == config.Map {
			return node.Len() > 0
		}
	}
	return ok && !slices.Contains([]string{"", "false", "False", "None", "0", "0.0", "[]", "{}"}, v)
}

// set reports whether a field has a value.
func (s *settings) set(field string) bool {
	_, ok := s.get(field)
	return ok
}

// names is a field of several names, without those that are empty.
func (s *settings) names(field string) []string {
	return slices.DeleteFunc(slices.Clone(s.list(field)), func(name string) bool {
		return name == "" || name == "null" || name == "~" || name == "None"
	})
}

// untruncated reports whether a file sets a field to null.
func untruncated(s *settings, field string) bool {
	if !s.filed(field) {
		return false
	}
	v, _ := s.tree.Get(field)
	return v == "null" || v == "~"
}

// off reports whether a field is set, and not on.
func off(s *settings, field string) bool {
	_, set := s.get(field)
	return set && !s.on(field)
}

// weighs reports whether a field is set, and not to 0.
func weighs(s *settings, field string) bool {
	v, ok := s.get(field)
	n, err := strconv.ParseFloat(v, 64)
	return ok && v != "" && v != "None" && v != "null" && (err != nil || n != 0)
}

// unbalanced reports whether the loss that balances the experts is switched off.
func unbalanced(s *settings) bool {
	v, ok := s.get("router_aux_loss_coef")
	n, err := strconv.ParseFloat(v, 64)
	return ok && err == nil && n == 0
}

// rendered is a value of a file of settings as JSON, as HfArgumentParser takes a dictionary from the arguments.
func rendered(n config.Value) string {
	var parts []string
	switch n.Kind() {
	case config.Map:
		for _, key := range n.Keys() {
			parts = append(parts, strconv.Quote(key)+": "+rendered(n.Get(key)))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case config.Seq:
		for i := range n.Len() {
			parts = append(parts, rendered(n.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if n.IsNull() {
		return "null"
	}
	if b, is := n.Bool(); is {
		return strconv.FormatBool(b)
	}
	if _, err := strconv.ParseFloat(n.Text(), 64); err == nil && json.Valid([]byte(n.Text())) {
		return n.Text()
	}
	text, err := json.Marshal(n.Text())
	if err != nil { // of a string there is none
		return strconv.Quote(n.Text())
	}
	return string(text)
}

// stage is LLaMA-Factory's stage; "" of other programs.
func stage(s *settings) string {
	if !s.is(llamaFactory) {
		return ""
	}
	return s.text("stage", "sft") // hparams/finetuning_args.py:460
}

// An unmade field is one of trl's classes that changes what a step keeps, with what it is where it changes nothing.
type unmade struct{ field, harmless string }
