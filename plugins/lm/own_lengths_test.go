package lm

import (
	"errors"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/plugin/plugintest"
)

// ownWith is a command with a script of one's own that trains on a file of JSON, with other texts in place of some.
func ownWith(t *testing.T, files map[string]string, changes ...string) job.Command {
	t.Helper()
	changes = append(changes, `load_dataset("some/texts", split="train")`,
		`load_dataset("json", data_files="a.jsonl", split="train")`, `"model"`, `"Qwen/Qwen3-0.6B"`)
	script := strings.NewReplacer(changes...).Replace(ownScript)
	all := map[string]string{"mine.py": script, "a.jsonl": `{"text": "hello"}`}
	for name, text := range files {
		all[name] = text
	}
	return cmd(t, folder(t, all), "mine.py")
}

// How long a batch of a script of one's own gets, and why that is not known.
func TestReadsLengthsOfOwn(t *testing.T) {
	const loaded, given = `load_dataset("some/texts", split="train")`, `train_dataset=data`
	const tokenizer = "from transformers import AutoTokenizer\n    tok = AutoTokenizer.from_pretrained"
	for name, tt := range map[string]struct {
		files   map[string]string
		changes []string
		want    int64
		says    string
	}{
		"a file":      {nil, nil, 9, "has at most 9 tokens (a.jsonl, by its bytes)"},
		"kept rows":   {nil, []string{given, `train_dataset=data.shuffle(seed=1).select(range(3))`}, 9, "at most 9"},
		"other texts": {map[string]string{"a.jsonl": `{"messages": []}`}, nil, 512, "chat template"},
		"another field": {map[string]string{"a.jsonl": `{"x": "hello you"}`},
			[]string{"max_length=512,", `max_length=512, dataset_text_field="x",`}, 13, "at most 13"},
		"a computed field": {nil, []string{"max_length=512,", `max_length=512, dataset_text_field=MODEL + "x",`}, 512,
			"dataset_text_field is computed"},
		"splits": {map[string]string{"b.json": `[{"text": "hello you"}]`}, []string{
			loaded, `load_dataset("json", data_files={"train": "a.jsonl", "test": ["b.json"]})`,
			given, `train_dataset=data["train"], eval_dataset=data["test"]`}, 13, "(a.jsonl, b.json, by its bytes)"},
		"mapped":     {nil, []string{given, `train_dataset=data.map(clean)`}, 512, "train_dataset is not understood"},
		"of the hub": {nil, []string{loaded, `load_dataset("some/texts")`}, 512, "train_dataset is not understood"},
		"many files": {nil, []string{loaded, `load_dataset("json", data_files="*.jsonl")`}, 512, "is not understood"},
		"one field": {nil, []string{loaded, `load_dataset("json", data_files="a.jsonl", field="x")`}, 512,
			"is not understood"},
		"made texts": {nil, []string{given, `train_dataset=data, formatting_func=lambda r: r["a"]`}, 512,
			"formatting_func"},
		"no columns": {nil, []string{given, `train_dataset=data.remove_columns(["x"])`}, 512, "is not understood"},
		"its tokenizer": {nil, []string{given, given + `, processing_class=tok`, "    args = SFT",
			"    " + tokenizer + "(MODEL)\n    args = SFT"}, 9, "at most 9"},
		"another tokenizer": {nil, []string{given, given + `, processing_class=tok`, "    args = SFT",
			"    " + tokenizer + "(\"gpt2\")\n    args = SFT"}, 512, "is not the model's"},
		"a longer one": {nil, []string{given, given + `, processing_class=tok`, "    args = SFT",
			"    " + tokenizer + "(MODEL)\n    tok.add_tokens(1)\n    args = SFT"}, 512, "used otherwise"},
	} {
		t.Run(name, func(t *testing.T) {
			c := ownWith(t, tt.files, tt.changes...)
			r, err := New().Recognize(t.Context(), c)
			if need := (&plugin.Need{}); errors.As(err, &need) {
				c.Sources = kit.Finder{Command: c, Cache: t.TempDir()}.Sources(t.Context(), need.Sources)
				r, err = New().Recognize(t.Context(), c)
			}
			if err != nil {
				t.Fatal(err)
			}
			own := r.(*training)
			says, n := strings.Join(own.warnings, "\n"), own.step.Length
			if n != tt.want || !strings.Contains(says, tt.says) {
				t.Errorf("a batch has %d tokens, want %d, and %q says no %q", n, tt.want, says, tt.says)
			}
		})
	}
	plugintest.Check(t, New(), ownWith(t, map[string]string{"a.jsonl": `{"text": "` + strings.Repeat("x", 300) + `"}`}),
		card)
}
