package stablesr

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
)

// overlayName is the file that launch adds behind --base.
const overlayName = "launch.yaml"

// turned are the keys that launch may turn.
var turned = []string{keyMicro, keyAccum, keyWorkers, keyQueue, keyStructCkpt, keyGTSize, keyTrainCrop, keyValCrop, keyImageSize, keyEdge, keyUNetEdge}

// overlay is the text of that file as long as nothing is changed: what the recipe itself says of the keys that launch may
// turn, so that an edit says what was there before.
func (r *recipe) overlay() []byte {
	now := tree{}
	for _, key := range turned {
		if v, ok := get(r.root, key); ok && r.address(key).Doc == overlayName {
			_ = override{key, v}.set(now) // an empty tree has no list
		}
	}
	if len(now) == 0 {
		return []byte("{}\n")
	}
	var b strings.Builder
	if !spell(&b, now, "") {
		return []byte("{}\n")
	}
	return []byte(b.String())
}

// spell writes a tree of numbers and truths as YAML; false where there is something else.
func spell(b *strings.Builder, t tree, indent string) bool {
	for _, key := range slices.Sorted(maps.Keys(t)) {
		if sub, ok := t[key].(tree); ok {
			fmt.Fprintf(b, "%s%s:\n", indent, key)
			if !spell(b, sub, indent+"  ") {
				return false
			}
			continue
		}
		text, err := config.YAMLText(t[key])
		if err != nil || isList(t[key]) {
			return false
		}
		fmt.Fprintf(b, "%s%s: %s\n", indent, key, text)
	}
	return true
}

// A change is a key of the recipe set to a value, with its price and its reason.
type change struct {
	knob  string
	key   string
	value any
	cost  ladder.Cost
	why   string
}

// edits spells changes where the program reads them last: in a Trainer flag that outranks all else, in the word of the
// dotlist that is there already, and else in the overlay, or in the one file of train_with_edge.py. Whether they can be
// placed is [recipe.tried]'s to find out.
func (r *recipe) edits(changes ...change) (out []config.Edit, err error) {
	if r.behind == nil {
		if r.behind, err = config.ParseYAML(r.overlay()); err != nil {
			return nil, err
		}
	}
	overlay := r.behind
	for _, c := range changes {
		add := func(e config.Edit) {
			e.Knob, e.Cost, e.Why = c.knob, c.cost.String(), c.why
			out = append(out, e)
		}
		if r.entry == edgePy {
			e, err := r.inConfig(c)
			if err != nil {
				return nil, err
			}
			add(e)
			continue
		}
		if name, ok := strings.CutPrefix(c.key, trainerKey); ok {
			if _, outranks := r.flags[name]; outranks {
				e, done := r.flag(name, c.value)
				add(e)
				if done {
					continue
				}
			}
		}
		if word, ok := r.word(c.key); ok {
			text, err := overlay.Text(c.value)
			if err != nil {
				return nil, err
			}
			add(config.Edit{At: config.Address{Doc: config.ArgvDoc, Path: word.key}, From: word.text, To: text})
			continue
		}
		text, err := overlay.Text(c.value)
		if err != nil {
			return nil, err
		}
		add(config.Proposed(overlay, overlayName, c.key, text))
	}
	return out, nil
}

// flag changes a Trainer flag in place. done is false where it had to be taken away, because main.py ignores a flag that
// says the Trainer's own default.
func (r *recipe) flag(name string, value any) (e config.Edit, done bool) {
	flag := "--" + name
	from, _ := r.argv.Get(flag)
	e = config.Edit{At: config.Address{Doc: config.ArgvDoc, Path: flag}, From: from}
	if trainerArgs[name].isDefault(fmt.Sprint(value)) {
		e.Remove = true
		return e, false
	}
	e.To = fmt.Sprint(value)
	return e, true
}

type word struct{ key, text string }

// word finds the last word of the dotlist that sets a key, as it is spelled.
func (r *recipe) word(key string) (word, bool) {
	if r.entry != mainPy {
		return word{}, false
	}
	for _, w := range slices.Backward(r.argv.Positionals()) {
		spelled, text, ok := strings.Cut(w, "=")
		if ok && readOverride(w).key == key {
			return word{spelled, text}, true
		}
	}
	return word{}, false
}

// inConfig changes the one file that train_with_edge.py reads.
func (r *recipe) inConfig(c change) (config.Edit, error) {
	path := r.base[0]
	text, err := readFile(file.In(r.prog.Dir, path), path)
	if err != nil {
		return config.Edit{}, err
	}
	doc, err := config.ParseYAML(text)
	if err != nil {
		return config.Edit{}, err
	}
	to, err := doc.Text(c.value)
	if err != nil {
		return config.Edit{}, err
	}
	return config.Change(doc, path, c.key, to)
}

// files are the documents that a job's edits lie in.
func (r *recipe) files() ([]job.File, error) {
	if r.entry == edgePy {
		text, err := readFile(file.In(r.prog.Dir, r.base[0]), r.base[0])
		if err != nil {
			return nil, err
		}
		return []job.File{{Path: r.base[0], Format: "yaml", Flag: "--config", Text: text}}, nil
	}
	return []job.File{{Path: overlayName, Format: "yaml", Flag: "--base", Text: r.overlay(), Added: true}}, nil
}

// tried makes the edits and reads the command again, as the program would: what it then says of the recipe is what counts.
func (r *recipe) tried(j *job.Job, edits []config.Edit) (*recipe, error) {
	const dir = "/launch"
	made, err := j.Rewrite(edits, dir)
	if err != nil {
		return nil, err
	}
	prog, err := made.Command.Prog()
	if err != nil {
		return nil, err
	}
	copies := map[string][]byte{}
	for _, f := range made.Files {
		copies[filepath.Clean(f.Path)] = f.Text
	}
	return r.checkout.load(prog.Args, copies)
}

// makes returns the edits of changes if the program would take each of them, and nothing else. That is tried once for all
// that differ in their numbers alone: where a number can be placed, so can another.
func (r *recipe) makes(j *job.Job, changes ...change) ([]config.Edit, error) {
	if r.expects {
		return nil, nil
	}
	edits, err := r.edits(changes...)
	if err != nil {
		return nil, err
	}
	kind := kindOf(edits)
	if r.taken[kind] {
		return edits, nil
	}
	after, err := r.tried(j, edits)
	if err != nil {
		return nil, err
	}
	want := deepCopy(r.root)
	for _, c := range changes {
		if err := (override{c.key, number(c.value)}).set(want); err != nil {
			return nil, err
		}
	}
	if !same(want, after.root) {
		return nil, fmt.Errorf("something in the command outranks the change")
	}
	if r.taken == nil {
		r.taken = map[string]bool{}
	}
	r.taken[kind] = true
	return edits, nil
}

// kindOf is what edits have in common that differ in what they write alone.
func kindOf(edits []config.Edit) string {
	var b strings.Builder
	for _, e := range edits {
		fmt.Fprintf(&b, "%q %t %t %q;", e.At, e.Add, e.Remove, e.From)
	}
	return b.String()
}

// number is a value as a recipe's reader has it.
func number(v any) any {
	if n, ok := v.(int); ok {
		return int64(n)
	}
	return v
}

func deepCopy(t tree) tree {
	out := maps.Clone(t)
	for k, v := range out {
		if m, ok := v.(tree); ok {
			out[k] = deepCopy(m)
		}
	}
	return out
}

func same(a, b any) bool {
	switch a := a.(type) {
	case tree:
		b, ok := b.(tree)
		return ok && maps.EqualFunc(a, b, same)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	}
	return a == b
}
