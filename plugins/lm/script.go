package lm

import (
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/plugin"
)

// literals are what a script of one's own says that builds SFTConfig, DPOConfig or TrainingArguments, and the trainer,
// with literals. It is recognised only if all that decides on memory is read: one call of each class, every keyword
// known, and no use of the model, of the configuration or of the adapters that is not understood. Otherwise it is
// left to others.
type literals struct {
	kind    programKind
	values  map[string]string   // of the configuration's fields, and of ModelConfig's as trl's scripts have them
	lists   map[string][]string // of those with several values
	literal map[string]bool     // fields that stand in the file, which an edit can change
	prefix  string              // of their paths in the Python source
	mapped  bool                // device_map: the model is on all cards
	resume  string              // the path of resume_from_checkpoint, "" where the file has none
	at      map[string]string   // paths of fields that stand elsewhere than in the configuration
	rows    madeRows            // of a plain Trainer
	src     *config.PythonSource
}

// path is where a field stands in the source.
func (o *literals) path(field string) string {
	if at, ok := o.at[field]; ok {
		return at
	}
	return o.prefix + field
}

// field is the field that stands at a path.
func (o *literals) field(path string) string {
	for field, at := range o.at {
		if at == path {
			return field
		}
	}
	return strings.TrimPrefix(path, o.prefix)
}

// get is a field's value.
func (o *literals) get(field string) (string, bool) {
	v, ok := o.values[field]
	return v, ok
}

// madeRows are what a script of one's own makes of its texts for a plain Trainer.
type madeRows struct {
	length  int64  // tokens of the longest
	whole   bool   // the tokenizer pads each to that; otherwise the collator pads a batch to its longest
	alone   bool   // the tokenizer pads rows, so that one alone is padded, too
	joined  bool   // rows are joined and cut into blocks of that length
	short   bool   // a block may be shorter, where few rows are left
	unknown string // why the length is not known; "" where it is
}

// errOwn leaves a script to others.
func errOwn(format string, a ...any) error {
	return fmt.Errorf("%w: %s", plugin.ErrNotMine, fmt.Sprintf(format, a...))
}
