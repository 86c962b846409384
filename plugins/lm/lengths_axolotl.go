package lm

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
)

// Figures are of axolotl 0.19.0, src/axolotl/…:line, as in axolotl.go.

// rowsAxolotl are what axolotl makes of single local files (utils/data/shared.py:284) of the types completion
// (prompt_strategies/completion.py) and alpaca (prompt_tokenizers.py:162, prompters.py:32), and of rows with tokens.
func rowsAxolotl(s *settings, data *table) error {
	for _, field := range []string{"tokenizer_type", "tokenizer_config", "tokenizer_use_fast", "skip_prepare_dataset",
		"tokenizer_use_mistral_common", "datasets_from_catalog", "push_dataset_to_hub", "streaming",
		"pretraining_dataset"} {
		if s.has(field) {
			return unread("%s is set", field)
		}
	}
	if why := prepared(s); why != "" {
		return errUnread(why)
	}
	for _, field := range []string{"datasets", "test_datasets"} {
		if !s.filed(field) {
			return unread("%s is no part of the file", field)
		}
		all := s.tree.Root().Get(field)
		if !all.Exists() || all.IsNull() {
			continue
		}
		if all.Kind() != config.Seq {
			return unread("%s is no list", field)
		}
		for i := range all.Len() {
			if err := axolotlSet(s, data, all.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepared is why rows may be those of an earlier run: axolotl loads what it prepared then, and finds it by the
// settings and not by what the files have (utils/data/shared.py:418, 522). "" where there is none.
func prepared(s *settings) string {
	if !s.filed("dataset_prepared_path") {
		return "dataset_prepared_path is no part of the file"
	}
	name := cmp.Or(s.text("dataset_prepared_path", ""), "last_run_prepared")
	entries, err := os.ReadDir(file.In(s.prog.Dir, name))
	if len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("axolotl may load what it prepared earlier (%s)", name)
	}
	return ""
}

// axolotlSet reads the rows of one data set.
func axolotlSet(s *settings, data *table, set config.Value) error {
	for _, key := range set.Keys() {
		if !slices.Contains(strings.Fields("path type field split ds_type shards"), key) {
			return unread("%s of a data set is not known", key)
		}
	}
	kind, field, path := set.Get("type").Text(), set.Get("field").Text(), set.Get("path").Text()
	if how := set.Get("ds_type").Text(); how != "" && how != "json" {
		return unread("ds_type %s is no JSON", how)
	}
	field = cmp.Or(field, "text")
	all := &records{has: map[string]bool{}}
	if err := data.read(file.In(s.prog.Dir, path), filepath.Clean(path), all.add); err != nil {
		return err
	}
	if all.has["input_ids"] && all.has["attention_mask"] && all.has["labels"] { // utils/data/wrappers.py:93
		return data.tokenised(all.rows)
	}
	for _, r := range all.rows {
		if err := data.inTime(); err != nil {
			return err
		}
		var made tokenRow
		var err error
		switch kind {
		case "completion":
			made, err = completion(r, field)
		case "alpaca":
			made, err = alpaca(r)
		default:
			err = unread("the type %q is not known", kind)
		}
		if err != nil {
			return err
		}
		data.rows = append(data.rows, made)
	}
	return nil
}

// completion is a text, with what a tokenizer has before and after it, and an end.
func completion(r record, field string) (tokenRow, error) {
	text, err := r.text(field)
	if err == nil && r.empty(field) && r[field] == nil {
		err = unread("a row has no %q", field)
	}
	return tokenRow{[]string{text}, 3}, err
}

// alpaca is an instruction and an answer, tokenised apart, each as in a completion.
func alpaca(r record) (tokenRow, error) {
	var texts [3]string
	for i, column := range []string{"instruction", "input", "output"} {
		var err error
		if texts[i], err = r.text(column); err != nil {
			return tokenRow{}, err
		}
	}
	system, input := "Below is an instruction that describes a task. ", ""
	if texts[1] != "" {
		system = "Below is an instruction that describes a task, paired with an input that provides further context. "
		input = "### Input:\n" + texts[1] + "\n\n"
	}
	prompt := system + "Write a response that appropriately completes the request.\n\n### Instruction:\n" + texts[0] +
		"\n\n" + input + "### Response:\n"
	return tokenRow{[]string{prompt, texts[2]}, 6}, nil
}
