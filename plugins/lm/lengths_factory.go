package lm

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
)

// Lines are of LLaMA-Factory 0.9.5, src/llamafactory/…; data/template.py has the same templates in 0.9.4 and at
// ff6d4d12e.

// A template is what it puts around the texts of a conversation (data/template.py): texts that are tokenised each for
// itself, and special for one token.
type template struct {
	prefix, system, user, answer []string
	instructed                   string // the system's text where a row has none
	fused                        bool   // the system's text is a part of the first message (Llama2Template)
	thinks                       bool   // an answer without thoughts gets empty ones (ReasoningTemplate)
}

const special = "\x00"

var (
	imStart = template{system: []string{"<|im_start|>system\n{{content}}<|im_end|>\n"},
		user:   []string{"<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n"},
		answer: []string{"{{content}}<|im_end|>\n"}}
	asIs  = []string{"{{content}}"}
	ended = []string{"{{content}}", special}
)

// templates are those that are known.
var templates = map[string]template{
	"empty": {system: asIs, user: asIs, answer: asIs},
	"default": {system: []string{"System: {{content}}", special, "\n"},
		user:   []string{"Human: {{content}}", special, "\nAssistant:"},
		answer: []string{"{{content}}", special, "\n"}},
	"alpaca": {system: asIs, user: []string{"### Instruction:\n{{content}}\n\n### Response:\n"},
		answer: []string{"{{content}}", special, "\n\n"},
		instructed: "Below is an instruction that describes a task. " +
			"Write a response that appropriately completes the request.\n\n"},
	"vicuna": {system: asIs, user: []string{"USER: {{content}} ASSISTANT:"}, answer: ended,
		instructed: "A chat between a curious user and an artificial intelligence assistant. " +
			"The assistant gives helpful, detailed, and polite answers to the user's questions."},
	"chatml":        imStart,
	"qwen":          imStart.with("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
	"qwen3":         imStart.thinking(),
	"qwen3_nothink": imStart,
	"llama2": {system: []string{"<<SYS>>\n{{content}}\n<</SYS>>\n\n"}, fused: true,
		user: []string{special, "[INST] {{content}} [/INST]"}, answer: ended},
	"llama3": {prefix: []string{special},
		system: []string{"<|start_header_id|>system<|end_header_id|>\n\n{{content}}<|eot_id|>"},
		user: []string{"<|start_header_id|>user<|end_header_id|>\n\n{{content}}<|eot_id|>" +
			"<|start_header_id|>assistant<|end_header_id|>\n\n"},
		answer: []string{"{{content}}<|eot_id|>"}},
	"mistral": {prefix: []string{special}, system: []string{"{{content}}\n\n"}, fused: true,
		user: []string{"[INST] {{content}}[/INST]"}, answer: []string{" {{content}}", special}},
	"gemma": {prefix: []string{special}, system: []string{"{{content}}\n\n"}, fused: true,
		user:   []string{"<start_of_turn>user\n{{content}}<end_of_turn>\n<start_of_turn>model\n"},
		answer: []string{"{{content}}<end_of_turn>\n"}},
	"phi": {system: []string{"<|system|>\n{{content}}<|end|>\n"},
		user: []string{"<|user|>\n{{content}}<|end|>\n<|assistant|>\n"}, answer: []string{"{{content}}<|end|>\n"}},
	"phi4": {system: []string{"<|im_start|>system<|im_sep|>{{content}}<|im_end|>"},
		user:   []string{"<|im_start|>user<|im_sep|>{{content}}<|im_end|><|im_start|>assistant<|im_sep|>"},
		answer: []string{"{{content}}<|im_end|>"}},
}

func (t template) with(system string) template { t.instructed = system; return t }
func (t template) thinking() template          { t.thinks = true; return t }

// thoughts are what an answer without any gets (add_thought), and thinkingOf what begins those that may be cut out.
const thoughts, thinkingOf = "<think>\n\n</think>\n\n", "<think>"

// put adds the texts of slots with a content to a row.
func (r *tokenRow) put(slots []string, content string) {
	for _, slot := range slots {
		if slot == special {
			r.more++
			continue
		}
		r.texts = append(r.texts, strings.Replace(slot, "{{content}}", content, 1))
	}
}

// A talk is a conversation: a message, its answer, and so on. Of pairs the last answer is one of two.
type talk struct {
	system  string
	turns   []string
	answers []string
}

// rows are what the template makes of a conversation, one for each of its answers (_encode, encode_multiturn).
func (t template) rows(c talk) (rows []tokenRow) {
	for _, answer := range c.answers {
		r := tokenRow{more: 1} // an end, where a template adds one after all turns
		r.put(t.prefix, "")
		system := cmp.Or(c.system, t.instructed)
		first := ""
		switch {
		case system == "":
		case t.fused:
			first = strings.Replace(t.system[0], "{{content}}", system, 1)
		default:
			r.put(t.system, system)
		}
		for i, text := range append(slices.Clone(c.turns), answer) {
			slots := t.user
			if i%2 == 1 {
				slots = t.answer
			}
			if t.thinks && i%2 == 1 {
				r.texts = append(r.texts, thoughts)
			}
			r.put(slots, first+text)
			first = ""
		}
		rows = append(rows, r)
	}
	return rows
}

// An entry is one of dataset_info.json (data/parser.py). A column or a tag without a value is none.
type entry struct {
	File, Formatting string
	Ranking          bool
	Columns, Tags    map[string]*string
}

// read reads an entry by its keys as they are spelled, which a struct of JSON does not.
func (e *entry) read(keys record) error {
	var errs []error
	for key, to := range map[string]any{"file_name": &e.File, "formatting": &e.Formatting, "ranking": &e.Ranking,
		"columns": &e.Columns, "tags": &e.Tags} {
		if raw, ok := keys[key]; ok {
			errs = append(errs, json.Unmarshal(raw, to))
		}
	}
	return errors.Join(errs...)
}

// The columns and tags of an entry that names none.
var (
	factoryColumns = map[string]string{"prompt": "instruction", "query": "input", "response": "output",
		"messages": "conversations"}
	factoryTags = map[string]string{"role_tag": "from", "content_tag": "value", "user_tag": "human",
		"assistant_tag": "gpt", "observation_tag": "observation", "function_tag": "function_call",
		"system_tag": "system"}
)

func chosen(named map[string]*string, otherwise map[string]string, name string) string {
	if named == nil {
		return otherwise[name]
	}
	if v := named[name]; v != nil {
		return *v
	}
	return ""
}

func (e entry) column(name string) string { return chosen(e.Columns, factoryColumns, name) }
func (e entry) tag(name string) string    { return chosen(e.Tags, factoryTags, name) }

// rowsFactory are what LLaMA-Factory makes of local files (data/loader.py:43, data/converter.py, data/processor).
func rowsFactory(s *settings, data *table) error {
	dir := s.text("dataset_dir", "data")
	tpl, known := templates[s.text("template", "")]
	switch v := s.release("llamafactory"); {
	case dir == "ONLINE" || strings.HasPrefix(dir, "REMOTE:"): // data/parser.py:100
		return unread("dataset_dir is %s", dir)
	case s.has("tokenized_path"):
		return unread("tokenized_path is set")
	case len(v) > 0 && (len(v) < 3 || v[0] != 0 || v[1] != 9 || v[2] != 4 && v[2] != 5):
		return unread("its templates are known of LLaMA-Factory 0.9.4 and 0.9.5")
	case !known && stage(s) != "pt":
		return unread("the template %q is not known", s.text("template", ""))
	case off(s, "use_fast_tokenizer") || s.on("split_special_tokens"):
		return unread("use_fast_tokenizer or split_special_tokens is set")
	case s.has("default_system"):
		tpl.instructed = s.text("default_system", "")
	}
	text, err := file.Read(filepath.Join(file.In(s.prog.Dir, dir), "dataset_info.json"), maxFile)
	if err != nil {
		return unread("%s is not on this machine", filepath.Join(dir, "dataset_info.json"))
	}
	var entries map[string]record
	if err := json.Unmarshal(text, &entries); err != nil {
		return unread("dataset_info.json could not be read (%v)", err)
	}
	for _, field := range []string{"dataset", "eval_dataset"} {
		for _, names := range s.list(field) {
			for name := range strings.SplitSeq(names, ",") {
				if name = strings.TrimSpace(name); name == "" {
					continue
				}
				if err := readEntry(s, data, dir, name, entries[name], tpl); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// entry reads the rows of one data set.
func readEntry(s *settings, data *table, dir, name string, keys record, tpl template) error {
	for key := range keys {
		if strings.HasSuffix(key, "_url") || key == "cloud_file_name" {
			return unread("%q is no local file", name)
		}
	}
	var e entry
	if err := e.read(keys); err != nil || e.File == "" {
		return unread("%q of dataset_info.json could not be read", name)
	}
	if e.Formatting != "" && e.Formatting != "alpaca" && e.Formatting != "sharegpt" {
		return unread("the formatting %q is not known", e.Formatting)
	}
	each := func(r record) error {
		c, err := e.talk(r)
		if err != nil {
			return err
		}
		if err := wholeTalk(s, c, tpl); err != nil {
			return err
		}
		if stage(s) == "pt" { // PretrainDatasetProcessor
			end := 1 // with llama3 its text, which another model's tokenizer may split (processor/pretrain.py:29)
			if s.text("template", "") == "llama3" {
				end = len("<|end_of_text|>")
			}
			if all := append(c.turns, c.answers...); len(all) > 0 {
				data.rows = append(data.rows, tokenRow{all[:1], 1 + end})
			}
			return nil
		}
		data.rows = append(data.rows, tpl.rows(c)...)
		return nil
	}
	path, file := file.In(file.In(s.prog.Dir, dir), e.File), file.In(dir, e.File) // os.path.join
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return data.read(path, file, each)
	}
	names, err := jsonFiles(path, false)
	for _, n := range names {
		if err == nil {
			err = data.read(filepath.Join(path, n), filepath.Join(file, n), each)
		}
	}
	return err
}

// whole reports whether nothing is cut out of a conversation's texts, or put into them.
func wholeTalk(s *settings, c talk, tpl template) error {
	cuts := stage(s) == "dpo" || s.on("mask_history") || off(s, "enable_thinking")
	for _, text := range append(slices.Clone(c.turns), c.answers...) {
		if strings.Contains(text, "{{idx}}") || tpl.thinks && cuts && strings.Contains(text, thinkingOf) {
			return unread("thoughts are cut out of it")
		}
	}
	return nil
}

// talk is a row as a conversation (AlpacaDatasetConverter and SharegptDatasetConverter of data/converter.py). One with
// no answer is empty.
func (e entry) talk(r record) (c talk, err error) {
	for _, name := range []string{"tools", "images", "videos", "audios", "kto_tag"} {
		if !r.empty(e.column(name)) {
			return c, unread("a row has %s", name)
		}
	}
	if c.system, err = r.text(e.column("system")); err != nil {
		return c, err
	}
	if e.Formatting == "sharegpt" {
		return e.shared(r, c)
	}
	if history := e.column("history"); !r.empty(history) {
		var pairs [][2]string
		if json.Unmarshal(r[history], &pairs) != nil {
			return c, unread("the history of a row is no list of pairs")
		}
		for _, p := range pairs {
			c.turns = append(c.turns, p[:]...)
		}
	}
	var query []string
	for _, name := range []string{"prompt", "query"} {
		text, err := r.text(e.column(name))
		if err != nil {
			return c, err
		}
		if text != "" {
			query = append(query, text)
		}
	}
	c.turns = append(c.turns, strings.Join(query, "\n"))
	names := []string{"response"}
	if e.Ranking {
		names = []string{"chosen", "rejected"}
	}
	for _, name := range names {
		text, err := r.text(e.column(name))
		if err != nil {
			return c, err
		}
		c.answers = append(c.answers, text)
	}
	return c, nil
}

// shared reads a row of messages. One with a role that is not known is dropped by LLaMA-Factory.
func (e entry) shared(r record, c talk) (talk, error) {
	var messages []record
	if json.Unmarshal(r[e.column("messages")], &messages) != nil {
		return c, unread("the messages of a row could not be read")
	}
	for i, m := range messages {
		role, err := m.text(e.tag("role_tag"))
		if err != nil {
			return c, err
		}
		text, err := m.text(e.tag("content_tag"))
		if err != nil {
			return c, err
		}
		switch {
		case role == "":
			return c, unread("a message has no role")
		case role == e.tag("system_tag") && i == 0:
			c.system = text
		case role == e.tag("observation_tag"), role == e.tag("function_tag"):
			return c, unread("a row has calls of functions")
		case role == e.tag("user_tag"), role == e.tag("assistant_tag"):
			c.turns = append(c.turns, text)
		default:
			return talk{}, nil
		}
	}
	if !e.Ranking {
		if last := len(c.turns) - 1; last >= 0 {
			c.turns, c.answers = c.turns[:last], c.turns[last:]
		}
		return c, nil
	}
	for _, name := range []string{"chosen", "rejected"} {
		var m record
		if json.Unmarshal(r[e.column(name)], &m) != nil {
			return c, unread("%s of a row could not be read", name)
		}
		text, err := m.text(e.tag("content_tag"))
		if err != nil {
			return c, err
		}
		c.answers = append(c.answers, text)
	}
	return c, nil
}
