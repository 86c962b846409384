package lm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// talked are columns whose texts a chat template puts together, or that have more than text.
var talked = strings.Fields("messages conversations tools image images chat_template_kwargs")

// rowsSFT are what SFTTrainer makes of a local folder with files of JSON (trl/trainer/sft_trainer.py:1228 of 1.16,
// _prepare_dataset): rows with input_ids as they are, and texts with what the tokenizer adds and an end.
func (t *training) rowsSFT(data *table) error {
	records := &records{has: map[string]bool{}}
	if t.script != nil {
		if why := t.script.data.why; why != "" {
			return errUnread(why)
		}
		for _, name := range t.script.data.files {
			if err := data.read(within(t.prog.Dir, name), name, records.add); err != nil {
				return err
			}
		}
		return t.textsSFT(data, records)
	}
	name := t.text("dataset_name", "")
	for _, field := range []string{"datasets", "dataset_config", "dataset_kwargs"} {
		if t.has(field) {
			return unread("since %s is set", t.address(field).Path)
		}
	}
	folder := within(t.prog.Dir, name)
	if info, err := os.Stat(folder); name == "" || err != nil || !info.IsDir() {
		return unread("since it is no folder on this machine")
	}
	names, err := jsonFiles(folder)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := data.read(filepath.Join(folder, n), filepath.Join(name, n), records.add); err != nil {
			return err
		}
	}
	return t.textsSFT(data, records)
}

// records are the rows of files, and the columns that any of them has.
type records struct {
	rows []record
	has  map[string]bool
}

func (all *records) add(r record) error {
	for column := range r {
		all.has[column] = true
	}
	all.rows = append(all.rows, r)
	return nil
}

// textsSFT are the texts that _prepare_dataset tokenises.
func (t *training) textsSFT(data *table, all *records) error {
	has := all.has
	if has["input_ids"] {
		return data.tokenised(all.rows)
	}
	columns := []string{"prompt", "completion"}
	switch i := slices.IndexFunc(talked, func(c string) bool { return has[c] }); {
	case i >= 0:
		return unread("since its column %q goes through a chat template", talked[i])
	case !has["prompt"]:
		if columns = []string{t.text("dataset_text_field", "text")}; !has[columns[0]] {
			return unread("since it has no column %q", columns[0])
		}
	}
	for _, r := range all.rows {
		var text string
		for _, column := range columns {
			part, err := r.text(column)
			if err != nil {
				return err
			}
			text += part
		}
		data.rows = append(data.rows, row{[]string{text}, 3}) // an end, and what a tokenizer has before and after
	}
	return nil
}

// tokenised are rows that have their tokens.
func (d *table) tokenised(rows []record) error {
	for _, r := range rows {
		var ids []json.Number
		if json.Unmarshal(r["input_ids"], &ids) != nil {
			return unread("since input_ids of a row are no numbers")
		}
		d.rows = append(d.rows, row{more: len(ids)})
	}
	return nil
}
