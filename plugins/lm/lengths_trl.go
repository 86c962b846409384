package lm

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
)

// otherColumns are columns that make a row more than its texts or messages.
var otherColumns = strings.Fields("conversations tools image images chat_template_kwargs")

// rowsSFT are what SFTTrainer makes of a local folder with files of JSON (trl/trainer/sft_trainer.py:1228 of 1.16,
// _prepare_dataset): rows with input_ids as they are, and texts with what the tokenizer adds and an end.
func rowsSFT(s *settings, data *table) error {
	records := &records{has: map[string]bool{}}
	if s.script != nil {
		return errUnread("a script of one's own may do anything with it")
	}
	if !trls(s) {
		return unread("%s may do more with its data than trl's own sft.py", s.prog.Script)
	}
	name := s.text("dataset_name", "")
	for _, field := range []string{"datasets", "dataset_config", "dataset_kwargs"} {
		if s.has(field) {
			return unread("%s is set", s.address(field).Path)
		}
	}
	folder := file.In(s.prog.Dir, name)
	if info, err := os.Stat(folder); name == "" || err != nil || !info.IsDir() {
		return unread("%q is no folder on this machine", name)
	}
	names, err := jsonFiles(folder, true)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := data.read(filepath.Join(folder, n), filepath.Join(name, n), records.add); err != nil {
			return err
		}
	}
	return textsSFT(s, data, records)
}

// trls reports whether the program is trl's own: its command, or a script with the bytes of the one in the packages of
// the command's Python. Another script may change the rows, the tokenizer or the collator.
func trls(s *settings) bool {
	path := s.prog.Path()
	if path == "" {
		return true
	}
	own, err := file.Read(path, maxFile)
	if err != nil || s.env.Interpreter == "" {
		return false
	}
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(s.env.Interpreter),
		"../lib/python3*/*-packages/trl/scripts/sft.py"))
	return slices.ContainsFunc(found, func(installed string) bool {
		trls, err := file.Read(installed, maxFile)
		return err == nil && bytes.Equal(own, trls)
	})
}

// textsSFT are the texts that _prepare_dataset tokenises.
func textsSFT(s *settings, data *table, all *records) error {
	has := all.has
	if s.has("eos_token") { // which may be of several tokens
		return unread("%s is set", s.address("eos_token").Path)
	}
	if has["input_ids"] {
		return data.tokenised(all.rows)
	}
	columns := []string{"prompt", "completion"}
	switch i := slices.IndexFunc(otherColumns, func(c string) bool { return has[c] }); {
	case i >= 0:
		return unread("its column %q is not known", otherColumns[i])
	case !has["prompt"] && has["messages"]:
		columns = []string{"messages"}
	case !has["prompt"]:
		if columns = []string{s.text("dataset_text_field", "text")}; !has[columns[0]] {
			return unread("it has no column %q", columns[0])
		}
	}
	talks := slices.ContainsFunc(all.rows, func(r record) bool { return strings.HasPrefix(string(r[columns[0]]), "[") })
	if talks || columns[0] == "messages" {
		return talksSFT(s, data, all, columns)
	}
	for _, r := range all.rows {
		if err := data.inTime(); err != nil {
			return err
		}
		var text string
		for _, column := range columns {
			part, err := r.text(column)
			if err != nil {
				return err
			}
			text += part
		}
		data.rows = append(data.rows, tokenRow{[]string{text}, 3}) // an end, and what a tokenizer has before and after
	}
	return nil
}

// talksSFT are the texts that the model's chat template makes of messages.
func talksSFT(s *settings, data *table, all *records, columns []string) error {
	if s.on("assistant_only_loss") {
		return unread("assistant_only_loss has a chat template of its own")
	}
	render, err := chatOf(s)
	if err != nil {
		return err
	}
	for _, r := range all.rows {
		if err := data.inTime(); err != nil {
			return err
		}
		messages, err := r.messages(columns...)
		if err != nil {
			return err
		}
		text, err := render(messages)
		if err != nil {
			return err
		}
		data.rows = append(data.rows, tokenRow{[]string{text}, 1}) // what begins it
	}
	return nil
}
