package lm

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
)

// What jinja made of the chat templates (tools/capture/chat_lm.py), without the token that begins a text.
func TestChats(t *testing.T) {
	var r struct {
		Chats     []json.RawMessage
		Templates map[string]struct {
			SHA256 string
			Texts  []*string
		}
	}
	text, err := os.ReadFile("testdata/chats.json")
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Templates) != len(chats) {
		t.Errorf("%d templates were recorded of %d", len(r.Templates), len(chats))
	}
	for name, recorded := range r.Templates {
		render := chats[recorded.SHA256]
		if render == nil {
			t.Errorf("%s is not known by its text", name)
			continue
		}
		made := 0
		for i, want := range recorded.Texts {
			all, err := record{"messages": r.Chats[i]}.messages("messages")
			if err != nil {
				t.Fatal(err)
			}
			got, err := render(all)
			switch {
			case want == nil: // the program fails
			case err != nil && name == "qwen3" && i == len(r.Chats)-1: // thoughts
			case err != nil || got != *want:
				t.Errorf("%s makes %q of chat %d, want %q: %v", name, got, i, *want, err)
			default:
				made++
			}
		}
		if made < 3 {
			t.Errorf("%s made %d chats", name, made)
		}
	}
}

// Messages of trl's SFT go through the model's chat template.
func TestReadsChats(t *testing.T) {
	const template, turn = "of the test", `{"role": "user", "content": "hello"}`
	chats[fmt.Sprintf("%x", sha256.Sum256([]byte(template)))] = qwen3Instruct
	defer delete(chats, fmt.Sprintf("%x", sha256.Sum256([]byte(template))))
	for name, tt := range map[string]struct {
		files map[string]string
		args  []string
		want  int64 // 0 for a token, and those of the messages
		says  string
	}{
		"messages": {map[string]string{"d/a.jsonl": `{"messages": [` + turn + `]}`}, nil, 0,
			"counted with its tokenizer"},
		"prompts": {map[string]string{"d/a.jsonl": `{"prompt": [` + turn + `], "completion": [` + turn + `]}`}, nil, 0,
			"counted with its tokenizer"},
		"another template": {map[string]string{"d/a.jsonl": `{"messages": [` + turn + `]}`,
			"model/chat_template.jinja": "x"}, nil, 1024, "chat template is not known"},
		"a role": {map[string]string{"d/a.jsonl": `{"messages": [{"role": "tool", "content": "x"}]}`}, nil,
			1024, `"tool"`},
		"calls": {map[string]string{"d/a.jsonl": `{"messages": [{"role": "user", "content": "x", "tool_calls": [1]}]}`},
			nil, 1024, "tool_calls"},
		"a training template": {map[string]string{"d/a.jsonl": `{"messages": [` + turn + `]}`},
			[]string{"--assistant_only_loss"}, 1024, "assistant_only_loss"},
	} {
		t.Run(name, func(t *testing.T) {
			files := modelOf(t, "qwen", "Qwen2Tokenizer")
			files["model/chat_template.jinja"] = template + "\n"
			maps.Copy(files, tt.files)
			args := append([]string{"sft.py", "--model_name_or_path", "model", "--dataset_name", "d"}, tt.args...)
			r := recognised(t, withTRL(t, cmd(t, folder(t, files), args...)))
			want := tt.want
			if want == 0 {
				tok, err := tokenizerOf(r.settings, r.training)
				if err != nil {
					t.Fatal(err)
				}
				one := tok.Count("<|im_start|>user\nhello<|im_end|>\n")
				want = int64(1 + one*strings.Count(tt.files["d/a.jsonl"], "hello"))
			}
			if says := strings.Join(r.warnings, "\n"); r.step.Length != want || !strings.Contains(says, tt.says) {
				t.Errorf("a batch has %d tokens, want %d, and %q says no %q", r.step.Length, want, says, tt.says)
			}
		})
	}
}
