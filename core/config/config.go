// Package config reads and edits the settings of a training job where they lie: in YAML and TOML files and on the
// command line.
//
// A [Document] is the bytes that the user wrote and an index of where each value stands in them. Setting a value
// replaces those bytes and no others, so comments, tags, order, quoting and line ends survive; with no edit a document
// gives back exactly the bytes it was read from. After every edit the document is read again, and the edit is refused
// unless everything else in it reads as before. Values are resolved as the program that will read them resolves them,
// which for YAML is PyYAML's YAML 1.1 and not what Go's libraries do.
//
// # Paths
//
// A path in a file is its keys and sequence indices joined by dots: "train.optim_g.betas.1". Within a key a dot is
// written `\.` and a backslash `\\`; see [JoinPath] and [SplitPath]. The path "" is the whole document. A path on a
// command line is a flag as declared ("-opt", "--batch-size") or a dotted override's key ("data.params.batch_size").
package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// Names of the documents that are not files, as they stand in [Address].
const (
	ArgvDoc = "argv"
	EnvDoc  = "env"
)

// An Address names one setting: the document it stands in and its path there.
type Address struct {
	Doc  string `json:"doc"`  // a file's path, or "argv", or "env"
	Path string `json:"path"` // "train.optim_g.lr", "--batch-size", "PYTORCH_ALLOC_CONF"
}

func (a Address) String() string { return a.Doc + ":" + a.Path }

// An Edit is one change of one knob, with its price and its reason. From and To are spelled as in the document.
type Edit struct {
	Knob     string
	At       Address
	From, To string
	Add      bool // the key was absent, and From is empty; in JSON "from" is then null
	Remove   bool // it is taken away, and To is empty; in JSON "to" is then null. Only arguments can be
	Cost     string
	Why      string
}

func (e Edit) String() string {
	from := e.From
	if e.Add {
		from = "(absent)"
	}
	if e.Remove {
		return fmt.Sprintf("%v: %s -> (taken away)", e.At, from)
	}
	return fmt.Sprintf("%v: %s -> %s", e.At, from, e.To)
}

// flatEdit is an Edit as scripts see it. Its keys are a promise.
type flatEdit struct {
	Knob string  `json:"knob"`
	Doc  string  `json:"doc"`
	Path string  `json:"path"`
	From *string `json:"from"`
	To   *string `json:"to"`
	Cost string  `json:"cost"`
	Why  string  `json:"why"`
}

// MarshalJSON implements [json.Marshaler].
func (e Edit) MarshalJSON() ([]byte, error) {
	f := flatEdit{Knob: e.Knob, Doc: e.At.Doc, Path: e.At.Path, Cost: e.Cost, Why: e.Why}
	if !e.Add {
		f.From = &e.From
	}
	if !e.Remove {
		f.To = &e.To
	}
	return json.Marshal(f)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (e *Edit) UnmarshalJSON(b []byte) error {
	var f flatEdit
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*e = Edit{Knob: f.Knob, At: Address{f.Doc, f.Path}, Cost: f.Cost, Why: f.Why, Add: f.From == nil, Remove: f.To == nil}
	if f.To != nil {
		e.To = *f.To
	}
	if f.From != nil {
		e.From = *f.From
	}
	return nil
}

// A Document is a set of settings that can be edited in place.
type Document interface {
	// Get returns the value at path as it is spelled, without its tag or anchor.
	Get(path string) (text string, ok bool)
	// Set replaces the value at path by text, spelled as in the document, or adds the path if it is absent. It
	// changes that value only, or fails and changes nothing.
	Set(path, text string) error
	// Bytes returns the document.
	Bytes() []byte
}

// A Tree is a document that is a file of nested settings.
type Tree interface {
	Document
	// Root returns the settings as the program that reads the file sees them.
	Root() Value
	// Text spells a value for Set: nil, bool, int, int64, float64, string, or a slice of these.
	Text(value any) (string, error)
}

// Parse reads a recipe by its file name's ending: TOML for .toml, JSON for .json, YAML for everything else. The errors
// name the file.
func Parse(name string, text []byte) (Tree, error) {
	var t Tree
	var err error
	switch strings.ToLower(filepath.Ext(name)) {
	case ".toml":
		t, err = ParseTOML(text)
	case ".json":
		if t, err = ParseJSON(text); err != nil { // Python's json reads and writes NaN, for one
			t, err = ParseYAML(text)
		}
	default:
		t, err = ParseYAML(text)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return t, nil
}

// Proposed is the edit that sets the value at path, with knob, cost and reason still to be filled in. Whether it can be
// placed is known when it is applied.
func Proposed(d Document, doc, path, to string) Edit {
	from, ok := d.Get(path)
	return Edit{At: Address{doc, path}, From: from, To: to, Add: !ok}
}

// Change sets the value at path and returns the edit that did it, as [Proposed].
func Change(d Document, doc, path, to string) (Edit, error) {
	e := Proposed(d, doc, path, to)
	if err := d.Set(path, to); err != nil {
		return Edit{}, fmt.Errorf("editing %s: %w", doc, err)
	}
	return e, nil
}

// Apply carries out an edit on d. It is refused if d does not hold what the edit was made from.
func Apply(d Document, e Edit) error {
	switch from, ok := d.Get(e.At.Path); {
	case ok == e.Add && ok:
		return fmt.Errorf("editing %v: it was to be added, but is there already as %s", e.At, from)
	case ok == e.Add:
		return fmt.Errorf("editing %v: it is not there any more", e.At)
	case from != e.From:
		return fmt.Errorf("editing %v: its value was %s when the recipe was read, and is %s now", e.At, e.From, from)
	}
	var err error
	if r, can := d.(interface{ Remove(path string) error }); e.Remove && can {
		err = r.Remove(e.At.Path)
	} else if e.Remove {
		err = fmt.Errorf("nothing can be taken away from it")
	} else {
		err = d.Set(e.At.Path, e.To)
	}
	if err != nil {
		return fmt.Errorf("editing %s: %w", e.At.Doc, err)
	}
	return nil
}

var pathEscaper = strings.NewReplacer(`\`, `\\`, `.`, `\.`)

// JoinPath makes a path of keys.
func JoinPath(keys ...string) string {
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteByte('.')
		}
		_, _ = pathEscaper.WriteString(&b, k)
	}
	return b.String()
}

// SplitPath returns the keys of a path. It undoes [JoinPath], except that a lone empty key reads as the root.
func SplitPath(path string) []string {
	if path == "" {
		return nil
	}
	if !strings.Contains(path, `\`) {
		return strings.Split(path, ".")
	}
	var keys []string
	var key []byte
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\' && i+1 < len(path):
			i++
			key = append(key, path[i])
		case c == '.':
			keys = append(keys, string(key))
			key = key[:0]
		default:
			key = append(key, c)
		}
	}
	return append(keys, string(key))
}

// Check reports whether e could break what it is made to: a zero byte ends an argument, and a variable's name.
func (e Edit) Check() error {
	if strings.IndexByte(e.To, 0) >= 0 && (e.At.Doc == ArgvDoc || e.At.Doc == EnvDoc) {
		return fmt.Errorf("the edit of %.100v has a zero byte", e.At)
	}
	if e.At.Doc == EnvDoc && (e.At.Path == "" || strings.ContainsAny(e.At.Path, "=\x00")) {
		return fmt.Errorf("%.100q is no variable", e.At.Path)
	}
	return nil
}
