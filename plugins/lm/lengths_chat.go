package lm

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/core/file"
)

// A message is one of a conversation, with nothing but a text.
type message struct{ role, content string }

// A chat is what a chat template makes of a conversation without tools, as one text, without the token that begins it.
type chat func(all []message) (string, error)

// chats are the templates that are known, by the SHA-256 of their text without the line breaks at its end. Their texts
// are those of the models, as trl 1.16 has them (trl/chat_templates/*.jinja).
var chats = map[string]chat{
	"55b2f4a26ac9ee719330a61a0c39d9e538b0e9322212f048326318cff4f8674a": qwen25,
	"a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8": qwen3,
	"64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326": qwen3Instruct,
	"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122": llama3,
	"ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6": gemma,
}

// chatOf is the chat template of the model: that of chat_template.jinja, or otherwise of tokenizer_config.json
// (tokenization_utils_base.py of transformers 5.23).
func chatOf(s *settings) (chat, error) {
	p, err := s.find(s.text("model_name_or_path", ""), s.text("model_revision", "main"))
	if err != nil {
		return nil, err
	}
	if p.folder == "" {
		return nil, unread("the model's chat template is not on this machine")
	}
	text, err := file.Read(filepath.Join(p.folder, "chat_template.jinja"), maxFile)
	if err != nil {
		settings, err := recordOf(filepath.Join(p.folder, "tokenizer_config.json"))
		template, wrong := settings.text("chat_template")
		if err != nil || wrong != nil {
			return nil, unread("the model's chat template could not be read")
		}
		text = []byte(template)
	}
	known := chats[fmt.Sprintf("%x", sha256.Sum256([]byte(strings.TrimRight(string(text), "\n"))))]
	if known == nil {
		return nil, unread("the model's chat template is not known")
	}
	return known, nil
}

// messages are those of columns of a row, one column after the other.
func (r record) messages(columns ...string) (all []message, err error) {
	for _, column := range columns {
		var list []record
		if err := json.Unmarshal(r[column], &list); err != nil {
			return nil, unread("%s of a row are no messages", column)
		}
		for _, m := range list {
			for key := range m {
				if key != "role" && key != "content" && !m.empty(key) {
					return nil, unread("a message has %s", key)
				}
			}
			var one message
			if one.role, err = m.text("role"); err != nil {
				return nil, err
			}
			if one.content, err = m.text("content"); err != nil {
				return nil, err
			}
			if one.role != "system" && one.role != "user" && one.role != "assistant" {
				return nil, unread("a message has the role %q", one.role)
			}
			if strings.ContainsAny(one.content, "\x1c\x1d\x1e\x1f") { // white space to Python alone
				return nil, unread("a message has control characters")
			}
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil, unread("a row has no messages")
	}
	return all, nil
}

// marked is a chat of "<|im_start|>ROLE\nTEXT<|im_end|>\n" for each message.
func marked(all []message) string {
	var out strings.Builder
	for _, m := range all {
		out.WriteString("<|im_start|>" + m.role + "\n" + m.content + "<|im_end|>\n")
	}
	return out.String()
}

// qwen25 is the template of Qwen 2.5: it adds a message of the system where there is none.
func qwen25(all []message) (string, error) {
	if all[0].role != "system" {
		all = append([]message{{"system", templates["qwen"].instructed}}, all...)
	}
	return marked(all), nil
}

// qwen3Instruct is that of Qwen3-…-Instruct-2507.
func qwen3Instruct(all []message) (string, error) { return marked(all), nil }

// qwen3 is that of Qwen 3: it puts empty thoughts before an answer that is last, and takes those of the data apart.
func qwen3(all []message) (string, error) {
	asked := false
	for _, m := range all {
		if strings.Contains(m.content, "</think>") || strings.HasPrefix(m.content, "<tool_response>") {
			return "", unread("a message has thoughts or what a tool returned")
		}
		asked = asked || m.role == "user"
	}
	if last := all[len(all)-1]; asked && last.role == "assistant" {
		answer := message{last.role, thoughts + strings.TrimLeft(last.content, "\n")}
		all = append(append([]message{}, all[:len(all)-1]...), answer)
	}
	return marked(all), nil
}

// llama3 is that of Llama 3, not of 3.1 and later.
func llama3(all []message) (string, error) {
	var out strings.Builder
	for _, m := range all {
		out.WriteString("<|start_header_id|>" + m.role + "<|end_header_id|>\n\n" + strings.TrimSpace(m.content) +
			"<|eot_id|>")
	}
	return out.String(), nil
}

// gemma is that of the first Gemma.
func gemma(all []message) (string, error) {
	var out strings.Builder
	for _, m := range all {
		role := m.role
		if role == "assistant" {
			role = "model"
		}
		out.WriteString("<start_of_turn>" + role + "\n" + strings.TrimSpace(m.content) + "<end_of_turn>\n")
	}
	return out.String(), nil
}
