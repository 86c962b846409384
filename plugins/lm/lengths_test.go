package lm

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/plugins/lm/tokens"
)

// modelOf are the files of a small model with a tokenizer of tokens/testdata.
func modelOf(t testing.TB, tokenizer, class string) map[string]string {
	t.Helper()
	var r struct{ Files map[string]json.RawMessage }
	text, err := os.ReadFile("tokens/testdata/tokens.json")
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"model/tokenizer.json": string(r.Files[tokenizer]),
		"model/tokenizer_config.json": fmt.Sprintf(`{"tokenizer_class": %q}`, class)}
}

// written adds files to a folder of files.
func written(files map[string]string, more ...string) map[string]string {
	for i := 0; i < len(more); i += 2 {
		files[more[i]] = more[i+1]
	}
	return files
}

const identity = `{"a": {"file_name": "a.json"}, "s": {"file_name": "s.jsonl", "formatting": "sharegpt"},
	"h": {"file_name": "h", "columns": {"prompt": "q", "response": "r", "history": "history", "system": "system"}},
	"p": {"file_name": "p.json", "ranking": true, "columns": {"prompt": "q", "chosen": "y", "rejected": "n"}},
	"hub": {"hf_hub_url": "x/y"}, "csv": {"file_name": "a.csv"}}`

// lengthsOf is a job of LLaMA-Factory with those files.
func lengthsOf(t *testing.T, files map[string]string, args ...string) *recognized {
	t.Helper()
	all := map[string]string{"data/dataset_info.json": identity}
	maps.Copy(all, files)
	return recognised(t, factoryIn(t, all, append([]string{"a.yaml"}, args...)...))
}

// LLaMA-Factory's own counts (tools/capture/lengths_lm.py): the bound has one token more, for the end that some other
// templates add, and empty thoughts where an answer has its own.
func TestLengthsAreFactorys(t *testing.T) {
	var r struct {
		Alpaca, ShareGPT []json.RawMessage
		Counts           map[string][]int64
	}
	text, err := os.ReadFile("testdata/lengths.json")
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Counts) != len(templates) {
		t.Errorf("%d templates were recorded of %d", len(r.Counts), len(templates))
	}
	rows := append(append([]json.RawMessage{}, r.Alpaca...), r.ShareGPT...)
	const columns = `{"prompt": "instruction", "query": "input", "response": "output", "history": "history", ` +
		`"system": "system"}`
	for name, counts := range r.Counts {
		for i, raw := range rows {
			entry := `{"x": {"file_name": "x.jsonl", "columns": ` + columns + `}}`
			if i >= len(r.Alpaca) {
				entry = `{"x": {"file_name": "x.jsonl", "formatting": "sharegpt"}}`
			}
			job := lengthsOf(t, written(modelOf(t, "qwen", "Qwen2Tokenizer"), "data/dataset_info.json", entry,
				"data/x.jsonl", string(raw)), "dataset=x", "template="+name)
			data := newTable(time.Now().Add(time.Minute))
			got, how, err := longest(job.settings, job.training, rowsFactory, data)
			if err != nil || how != inTokens {
				t.Errorf("%s, row %d: %q, %v", name, i, how, err)
				continue
			}
			if more := got - counts[i]; more < 1 || more > 1 && !(name == "qwen3" && i == 4) {
				t.Errorf("%s, row %d: %d tokens, and LLaMA-Factory makes %d", name, i, got, counts[i])
			}
		}
	}
}

// How long a batch of LLaMA-Factory gets, in tokens, and what a plan tells about it.
func TestReadsLengths(t *testing.T) {
	long := strings.Repeat("a", 600)
	row := func(text string) string { return fmt.Sprintf(`{"instruction": %q, "input": "", "output": "x"}`, text) }
	counted := modelOf(t, "gpt2", "GPT2TokenizerFast")
	for name, tt := range map[string]struct {
		files map[string]string
		args  []string
		want  int64
		says  string
	}{
		"by bytes": {map[string]string{"data/a.json": "[" + row("hello") + "," + row("you") + "]"},
			[]string{"model_name_or_path=Qwen/Qwen3-4B", "template=empty"}, 16, "by its bytes"},
		"counted": {written(counted, "data/a.json", row(strings.Repeat("the ", 100))), []string{"template=empty"}, 104,
			"counted"},
		"of SentencePiece": {written(modelOf(t, "sentencepiece", "LlamaTokenizer"), "data/a.json", row("hello")),
			[]string{"template=empty"}, 16, "by its bytes"},
		"as long": {map[string]string{"data/a.json": row(long)},
			[]string{"model_name_or_path=Qwen/Qwen3-4B", "template=empty"}, 512, "may be as long"},
		"in an evaluation": {map[string]string{"data/a.json": row("x"), "data/s.jsonl": `{"conversations": [` +
			`{"from": "human", "value": "` + long + `"}, {"from": "gpt", "value": "y"}]}`},
			[]string{"model_name_or_path=Qwen/Qwen3-4B", "template=empty", "eval_dataset=s"}, 512, "may be as long"},
		"a folder": {map[string]string{
			"data/h/1.json":  `[{"q": "x", "r": "y", "system": "z", "history": [["a", "b"]]}]`,
			"data/h/2.jsonl": `{"q": "xxxxxxxxxxxxxxxxxxxx", "r": "y"}`},
			[]string{"model_name_or_path=Qwen/Qwen3-4B", "template=empty", "dataset=h"}, 24, "by its bytes"},
		"pairs": {map[string]string{"data/p.json": `[{"q": "x", "y": "y", "n": "12345678901234567890"}]`},
			[]string{"model_name_or_path=Qwen/Qwen3-4B", "template=empty", "dataset=p", "stage=dpo"}, 24,
			"by its bytes"},
		"single texts": {map[string]string{"data/a.json": row("12345678901")},
			[]string{"model_name_or_path=Qwen/Qwen3-4B", "stage=pt", "packing=false"}, 14, "by its bytes"},
		"no tokenizer": {map[string]string{"data/a.json": row("x")}, []string{"template=empty"}, 512,
			"its tokenizer is not known"},
		"another class": {written(modelOf(t, "gpt2", "BertTokenizer"), "data/a.json", row("x")),
			[]string{"template=empty"}, 512, "its tokenizer is not known"},
		"of another class": {written(modelOf(t, "llama3", "Qwen2Tokenizer"), "data/a.json",
			row(strings.Repeat("the ", 100))), []string{"template=empty"}, 408, "by its bytes"},
		"another template": {map[string]string{"data/a.json": row("x")}, []string{"template=yi"}, 512, `"yi"`},
		"of the hub":       {nil, []string{"template=empty", "dataset=hub"}, 512, "no local file"},
		"no JSON": {map[string]string{"data/a.csv": "x"}, []string{"template=empty", "dataset=csv"}, 512,
			"is no JSON"},
		"not there": {nil, []string{"template=empty"}, 512, "not on this machine"},
		"broken": {map[string]string{"data/a.json": "[" + row("x")}, []string{"template=empty"}, 512,
			"could not be read"},
		"tools": {map[string]string{"data/s.jsonl": `{"conversations": [{"from": "human", "value": "x"}, ` +
			`{"from": "function_call", "value": "y"}]}`}, []string{"template=empty", "dataset=s"}, 512,
			"calls of functions"},
		"thoughts": {map[string]string{"data/a.json": `{"instruction": "x", "output": "<think>y</think>z"}`},
			[]string{"template=qwen3", "enable_thinking=false"}, 512, "thoughts are cut out"},
		"tokenised": {nil, []string{"template=empty", "tokenized_path=x"}, 512, "tokenized_path"},
		"split":     {nil, []string{"template=empty", "split_special_tokens=true"}, 512, "split_special_tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"dataset=a"}, tt.args...)
			r := lengthsOf(t, tt.files, args...)
			if says := strings.Join(r.warnings, "\n"); r.step.Length != tt.want || !strings.Contains(says, tt.says) {
				t.Errorf("a batch has %d tokens, want %d, and %q says no %q", r.step.Length, tt.want, says, tt.says)
			}
		})
	}
}

// Tokens that other files add, and tokens that are put around each text.
func TestTokensBeside(t *testing.T) {
	counted := func(more ...string) map[string]string {
		return written(modelOf(t, "gpt2", "GPT2TokenizerFast"), append([]string{"data/a.json",
			`{"instruction": "` + strings.Repeat("the ", 100) + `", "input": "", "output": "x"}`}, more...)...)
	}
	config := func(more string) map[string]string {
		return counted("model/tokenizer_config.json", `{"tokenizer_class": "GPT2TokenizerFast", `+more+`}`)
	}
	const same = `{"content": "<|im_end|>", "lstrip": false, "rstrip": false, "single_word": false}`
	const none = "the data was not read, since its tokenizer is not known"
	around := func(n int) map[string]string {
		files, all := counted(), strings.TrimSuffix(strings.Repeat("1,", n), ",")
		template := `{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, ` +
			`{"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"a": {"id": "a", "ids": [` + all + `]}}}`
		files["model/tokenizer.json"] = strings.Replace(files["model/tokenizer.json"], `"post_processor":null`,
			`"post_processor":`+template, 1)
		return files
	}
	spelled := counted()
	spelled["model/tokenizer.json"] = strings.Replace(spelled["model/tokenizer.json"], `"version"`, `"Version"`, 1)
	wrong := counted()
	wrong["model/tokenizer.json"] = strings.Replace(wrong["model/tokenizer.json"], `"normalizer":null`,
		`"normalizer":null,"Normalizer":{"type":"NFC"}`, 1)
	other := counted()
	other["model/tokenizer.json"] = strings.Replace(other["model/tokenizer.json"], `"post_processor":null`,
		`"post_processor":{"type":"Another"}`, 1)
	for name, tt := range map[string]struct {
		files map[string]string
		want  int64
		says  string
	}{
		"none":     {counted(), 104, "counted"},
		"one more": {config(`"extra_special_tokens": ["l"]`), 512, none},
		"named":    {config(`"extra_special_tokens": {"image_token": "l"}`), 512, none},
		"its own": {config(`"extra_special_tokens": ["<|im_end|>"], "eos_token": "<|endoftext|>"`), 104,
			"counted"},
		"another end": {config(`"eos_token": "l"`), 512, none},
		"no end":      {config(`"eos_token": null, "add_bos_token": false`), 104, "counted"},
		"by its id":   {config(`"added_tokens_decoder": {"901": ` + same + `}`), 104, "counted"},
		"with its space": {config(`"added_tokens_decoder": {"901": ` + strings.Replace(same, "false", "true", 1) + `}`),
			512, none},
		"split":             {config(`"split_special_tokens": true`), 512, none},
		"a file":            {counted("model/added_tokens.json", `{"l": 903}`), 512, none},
		"a file of its own": {counted("model/added_tokens.json", `{"<|im_end|>": 901}`), 104, "counted"},
		"a map":             {counted("model/special_tokens_map.json", `{"pad_token": {"content": "l"}}`), 512, none},
		"no map":            {counted("model/special_tokens_map.json", `[`), 512, none},
		"one around":        {around(1), 104, "counted"},
		"many around":       {around(500), 512, none},
		"another processor": {other, 512, none},
		"another key":       {spelled, 104, "counted"},
		"a wrong key":       {wrong, 512, none},
		"a key of settings": {config(`"Tokenizer_class": "x"`), 104, "counted"},
		"no class": {counted("model/tokenizer_config.json", `{"Tokenizer_class": "GPT2TokenizerFast"}`), 512,
			none},
	} {
		t.Run(name, func(t *testing.T) {
			r := lengthsOf(t, tt.files, "dataset=a", "template=empty")
			if says := strings.Join(r.warnings, "\n"); r.step.Length != tt.want || !strings.Contains(says, tt.says) {
				t.Errorf("a batch has %d tokens, want %d, and %q says no %q", r.step.Length, tt.want, says, tt.says)
			}
		})
	}
}

// LLaMA-Factory takes all files of a folder, keys as they are spelled, and a path that is absolute as it is. Another
// release, and its next program, are not known.
func TestLengthsAsFactoryReads(t *testing.T) {
	long, short := `{"q": "`+strings.Repeat("x", 600)+`", "r": "y"}`, `{"q": "x", "r": "y"}`
	entry := func(keys string) string { return `{"e": {"file_name": "e.json"` + keys + `}}` }
	away := filepath.Join(folder(t, map[string]string{"b.json": long}), "b.json")
	for name, tt := range map[string]struct {
		files         map[string]string
		env, release  string
		args          []string
		want          int64
		says, unknown string
	}{
		"a hidden file": {files: map[string]string{"data/h/1.json": short, "data/h/.2.json": long},
			args: []string{"dataset=h"}, want: 512, says: "its folder has .2.json"},
		"a pattern": {files: map[string]string{"data/dataset_info.json": strings.Replace(entry(""), "e.json",
			"e[1].json", 1), "data/e[1].json": `{"instruction": "x"}`}, want: 512, says: "a pattern of other names"},
		"an absolute path": {files: map[string]string{"data/dataset_info.json": `{"e": {"file_name": "` + away +
			`", "columns": {"prompt": "q", "response": "r"}}}`, "data" + away: short},
			want: 512, says: "may be as long"},
		"other columns": {files: map[string]string{"data/dataset_info.json": entry(`, "columns": {"prompt": "q", ` +
			`"response": "r"}`), "data/e.json": short}, want: 8, says: "by its bytes"},
		"a key in another case": {files: map[string]string{"data/dataset_info.json": entry(`, "Columns": ` +
			`{"prompt": "q", "response": "r"}`), "data/e.json": `{"q": "x", "instruction": "` +
			strings.Repeat("x", 600) + `"}`}, want: 512, says: "may be as long"},
		"0.9.5": {files: map[string]string{"data/dataset_info.json": entry(""), "data/e.json": `{"instruction": "x"}`},
			release: "0.9.5", want: 8, says: "by its bytes"},
		"0.9.6": {files: map[string]string{"data/dataset_info.json": entry(""), "data/e.json": `{"instruction": "x"}`},
			release: "0.9.6", want: 512, says: "LLaMA-Factory 0.9.4 and 0.9.5"},
		"1.0": {files: map[string]string{"data/dataset_info.json": entry(""), "data/e.json": `{"instruction": "x"}`},
			release: "1.0", want: 512, says: "LLaMA-Factory 0.9.4 and 0.9.5"},
		"of the hub": {files: map[string]string{"ONLINE/dataset_info.json": entry(""),
			"ONLINE/e.json": `{"instruction": "x"}`}, args: []string{"dataset_dir=ONLINE"}, want: 512,
			says: "dataset_dir is ONLINE"},
		"an end of llama3": {files: map[string]string{"data/dataset_info.json": entry(""),
			"data/e.json": `{"instruction": "x"}`}, args: []string{"stage=pt", "packing=false", "template=llama3"},
			want: 18, says: "by its bytes"},
		"its next program": {env: "USE_V1=1", unknown: "USE_V1"},
		"not that":         {env: "USE_V1=0", want: 512},
	} {
		t.Run(name, func(t *testing.T) {
			all := map[string]string{"data/dataset_info.json": identity}
			maps.Copy(all, tt.files)
			args := []string{"a.yaml", "dataset=e", "template=empty", "model_name_or_path=Qwen/Qwen3-4B"}
			c := factoryIn(t, all, append(args, tt.args...)...)
			if tt.release != "" {
				info := "../lib/python3.11/site-packages/llamafactory-" + tt.release + ".dist-info"
				if err := os.MkdirAll(filepath.Join(filepath.Dir(c.Args[0]), info), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if tt.env != "" {
				c.Env = append(c.Env, tt.env)
			}
			r := recognised(t, c)
			says := strings.Join(r.warnings, "\n")
			if tt.unknown != "" {
				if !strings.Contains(r.unknown, tt.unknown) {
					t.Errorf("unknown for %q, want %q", r.unknown, tt.unknown)
				}
				return
			}
			if r.unknown != "" || r.step.Length != tt.want || !strings.Contains(says, tt.says) {
				t.Errorf("a batch has %d tokens, want %d, and %q says no %q; unknown for %q", r.step.Length,
					tt.want, says, tt.says, r.unknown)
			}
		})
	}
	if told := New().Manifest().Environ([]string{"USE_V1=1"}, nil); len(told) != 1 {
		t.Errorf("the plugin is told %q of USE_V1", told)
	}
}

// What takes too long is not read, and not counted.
func TestLengthsInTime(t *testing.T) {
	files := written(modelOf(t, "gpt2", "GPT2TokenizerFast"), "data/a.json",
		`{"instruction": "`+strings.Repeat("the ", 100)+`", "input": "", "output": "x"}`)
	r := lengthsOf(t, files, "dataset=a", "template=empty")
	data := newTable(time.Now())
	if err := rowsFactory(r.settings, data); err == nil || !strings.Contains(err.Error(), "takes more than") {
		t.Errorf("reading without time: %v", err)
	}
	data = newTable(time.Now().Add(time.Minute))
	if err := rowsFactory(r.settings, data); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizerOf(r.settings, r.training)
	if err != nil {
		t.Fatal(err)
	}
	if n, counted := data.longest(tok, 512); n != 104 || !counted {
		t.Errorf("%d tokens, counted %t, want 104 of them", n, counted)
	}
	data.until = time.Now()
	if n, counted := data.longest(tok, 512); n != 512 || counted {
		t.Errorf("without time %d tokens, counted %t, want 512", n, counted)
	}
}

// One row of 16 MiB does not keep launch waiting; rows whose bounds take too long are as long as any.
func TestLongRows(t *testing.T) {
	files := written(modelOf(t, "gpt2", "GPT2TokenizerFast"), "data/a.json",
		`[{"instruction": "`+strings.Repeat("a", 16<<20)+`", "input": "", "output": "x"}]`)
	var rows []map[string]string
	begun := time.Now()
	if err := json.Unmarshal([]byte(files["data/a.json"]), &rows); err != nil {
		t.Fatal(err)
	}
	once := time.Since(begun) // which takes longer on a busy machine, too
	begun = time.Now()
	r := lengthsOf(t, files, "dataset=a", "template=empty")
	says := strings.Join(r.warnings, "\n")
	if !strings.Contains(says, "a row of data/a.json has more than 1 MiB") || time.Since(begun) > 2*time.Second+10*once {
		t.Errorf("after %v a plan says %q", time.Since(begun), says)
	}
	data := newTable(time.Now())
	data.rows = []tokenRow{{texts: []string{"hello"}}}
	if n, counted := data.longest(tokens.ByBytes(), 512); n != 512 || counted {
		t.Errorf("without time %d tokens, counted %t, want 512", n, counted)
	}
}

// Blocks and packed rows are as long as they are asked for.
func TestLengthsOfPacked(t *testing.T) {
	for _, args := range [][]string{{"packing=true", "cutoff_len=500"}, {"stage=pt"}} {
		r := lengthsOf(t, map[string]string{"data/a.json": `{"instruction": "x", "input": "", "output": "y"}`},
			append(args, "dataset=a", "template=empty", "model_name_or_path=Qwen/Qwen3-4B")...)
		says := strings.Join(r.warnings, "\n")
		if n := r.step.Length; n != 504 && n != 512 || strings.Contains(says, "longest") {
			t.Errorf("%q: %d tokens, %q", args, n, says)
		}
	}
}

// Each rung with shorter sequences is priced as the job that it makes, whose rows are shorter than that anyway.
func TestLengthsPromises(t *testing.T) {
	c := factoryIn(t, map[string]string{"data/dataset_info.json": identity,
		"data/a.json": `{"instruction": "` + strings.Repeat("x", 300) + `", "input": "", "output": "y"}`},
		"a.yaml", "dataset=a", "template=empty", "model_name_or_path=Qwen/Qwen3-0.6B")
	plugintest.Check(t, New(), c, card)
}

// withTRL puts trl's sft.py into the packages of a command's Python.
func withTRL(t *testing.T, c job.Command) job.Command {
	t.Helper()
	scripts := filepath.Join(filepath.Dir(c.Args[0]), "../lib/python3.11/site-packages/trl/scripts")
	err := os.MkdirAll(scripts, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(scripts, "sft.py"), []byte(sftScript), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A script that is not trl's own, byte for byte, may change its rows; an evaluation may pack them.
func TestReadsLengthsOfTRLsOwn(t *testing.T) {
	args := []string{"sft.py", "--model_name_or_path", "Qwen/Qwen3-4B", "--dataset_name", "d"}
	data := `{"text": "hello"}`
	for name, tt := range map[string]struct {
		script string
		args   []string
		want   int64
		says   string
	}{
		"trl's": {sftScript, nil, 9, "by its bytes"},
		"edited": {strings.Replace(sftScript, "    trainer = ", "    dataset = dataset.map(longer)\n    trainer = ", 1),
			nil, 1024, "the data was not read, since sft.py may do more with its data than trl's own"},
		"an evaluation's packing": {sftScript, []string{"--eval_packing", "true", "--eval_strategy", "steps"}, 1024,
			"the data was not read, since --eval_packing packs rows"},
		"no packing": {sftScript, []string{"--eval_packing", "false", "--eval_strategy", "steps"}, 9, "by its bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"sft.py": tt.script, "d/a.jsonl": data}
			r := recognised(t, withTRL(t, cmd(t, folder(t, files), append(args[:len(args):len(args)], tt.args...)...)))
			if says := strings.Join(r.warnings, "\n"); r.step.Length != tt.want || !strings.Contains(says, tt.says) {
				t.Errorf("a batch has %d tokens, want %d, and %q says no %q", r.step.Length, tt.want, says, tt.says)
			}
		})
	}
	r := recognised(t, cmd(t, folder(t, map[string]string{"d/a.jsonl": data}), args...))
	if r.step.Length != 1024 {
		t.Errorf("a batch has %d tokens where trl has no script, want 1024", r.step.Length)
	}
}

// What SFTTrainer makes of a folder of files.
func TestReadsLengthsOfSFT(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		args  []string
		want  int64
		says  string
	}{
		"texts": {map[string]string{"d/train.jsonl": `{"text": "hello"}` + "\n" + `{"text": "a"}`}, nil, 9,
			"by its bytes"},
		"another field": {map[string]string{"d/a.json": `[{"x": "hello"}]`}, []string{"--dataset_text_field", "x"}, 9,
			"by its bytes"},
		"prompts": {map[string]string{"d/train.jsonl": `{"prompt": "hello", "completion": " you"}`}, nil, 13,
			"by its bytes"},
		"tokens":   {map[string]string{"d/train.jsonl": `{"input_ids": [1, 2, 3]}`}, nil, 3, "of its input_ids"},
		"messages": {map[string]string{"d/train.jsonl": `{"messages": []}`}, nil, 1024, "chat template"},
		"calls": {map[string]string{"d/train.jsonl": `{"messages": [], "tools": ""}`}, nil, 1024,
			`"tools" is not known`},
		"prompts of messages": {map[string]string{"d/a.jsonl": `{"prompt": [{"role": "user"}], "completion": []}`},
			nil, 1024,
			"chat template"},
		"no text":     {map[string]string{"d/a.jsonl": `{"x": ""}`}, nil, 1024, `no column "text"`},
		"other files": {map[string]string{"d/a.jsonl": `{"text": ""}`, "d/README.md": ""}, nil, 1024, "README.md"},
		"of the hub":  {nil, nil, 1024, "no folder on this machine"},
		"another part": {map[string]string{"d/a.jsonl": `{"text": ""}`}, []string{"--dataset_config", "x"}, 1024,
			"dataset_config"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"sft.py", "--model_name_or_path", "Qwen/Qwen3-4B", "--dataset_name", "d"},
				tt.args...)
			r := recognised(t, withTRL(t, cmd(t, folder(t, tt.files), args...)))
			if says := strings.Join(r.warnings, "\n"); r.step.Length != tt.want || !strings.Contains(says, tt.says) {
				t.Errorf("a batch has %d tokens, want %d, and %q says no %q", r.step.Length, tt.want, says, tt.says)
			}
		})
	}
}

// axolotl loads what it prepared for the same settings, whatever its files have by now.
func TestReadsNoPreparedAxolotl(t *testing.T) {
	for name, tt := range map[string]struct {
		path, made string
		want       int64
	}{
		"none":         {"", "", 64},
		"an empty one": {"", "last_run_prepared", 64},
		"its own":      {"", "last_run_prepared/abc", 512},
		"of a setting": {"made", "made/abc", 512},
		"of another":   {"made", "last_run_prepared/abc", 64},
	} {
		t.Run(name, func(t *testing.T) {
			lines := map[string]string{"base_model": "Qwen/Qwen3-0.6B", "sample_packing": "false"}
			if tt.path != "" {
				lines["dataset_prepared_path"] = tt.path
			}
			c := axolotlAt(t, lines, "train", "a.yaml")
			err := os.WriteFile(filepath.Join(c.Dir, "data.jsonl"), []byte(`{"text": "hello"}`), 0o600)
			if err == nil {
				err = os.MkdirAll(filepath.Join(c.Dir, tt.made), 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
			r := recognised(t, c)
			says := strings.Join(r.warnings, "\n")
			if r.step.Length != tt.want || strings.Contains(says, "prepared earlier") != (tt.want == 512) {
				t.Errorf("a batch has %d tokens, want %d, and a plan says %q", r.step.Length, tt.want, says)
			}
		})
	}
}

// What axolotl makes of its data sets: how long a batch is, and whether padding to its longest row is a rung.
func TestReadsLengthsOfAxolotl(t *testing.T) {
	const set = "\n  - path: data.jsonl\n    type: "
	for name, tt := range map[string]struct {
		lines map[string]string
		data  string
		want  int64 // tokens of a batch, with those that the rung makes
		rung  int64
		says  string
	}{
		"a multiple": {nil, `{"text": "hello"}`, 64, 0, "has at most 64 tokens (data.jsonl, by its bytes)"},
		"none": {map[string]string{"pad_to_sequence_len": "false"}, `{"text": "hello"}`, 9, 0,
			"has at most 9 tokens"},
		"whole": {map[string]string{"pad_to_sequence_len": "true"}, `{"text": "hello"}`, 512, 9,
			"each batch is padded to sequence_len (512 tokens), and the longest row has at most 9"},
		"whole, alone": {map[string]string{"pad_to_sequence_len": "true", "micro_batch_size": "1"},
			`{"text": "` + strings.Repeat("x", 300) + `"}`, 512, 304, "each batch is padded"},
		"whole, as long": {map[string]string{"pad_to_sequence_len": "true"},
			`{"text": "` + strings.Repeat("x", 600) + `"}`, 512, 0, "may be as long"},
		"another field": {map[string]string{"datasets": set + "completion\n    field: x"}, `{"x": "a"}`, 64, 0,
			"64 tokens"},
		"instructions": {map[string]string{"datasets": set + "alpaca", "pad_to_sequence_len": "false"},
			`{"instruction": "a", "input": "b", "output": "c"}`, 216, 0, "by its bytes"},
		"tokens": {map[string]string{"datasets": set, "pad_to_sequence_len": "false"},
			`{"input_ids": [1, 2, 3], "labels": [1, 2, 3], "attention_mask": [1, 1, 1]}`, 3, 0, "of its input_ids"},
		"a chat template": {map[string]string{"datasets": set + "chat_template"}, `{"text": ""}`, 512, 0,
			`"chat_template"`},
		"no such field": {nil, `{"x": ""}`, 512, 0, `no "text"`},
		"another setting": {map[string]string{"datasets": set + "completion\n    name: x"}, `{"text": ""}`, 512, 0,
			"since name"},
		"another tokenizer": {map[string]string{"tokenizer_config": "x"}, `{"text": ""}`, 512, 0,
			"tokenizer_config is set"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := map[string]string{"base_model": "Qwen/Qwen3-0.6B"}
			maps.Copy(lines, tt.lines)
			if lines["datasets"] != "" {
				lines["  - path"], lines["    type"] = "-", "-"
			}
			c := axolotlAt(t, lines, "train", "a.yaml")
			if err := os.WriteFile(filepath.Join(c.Dir, "data.jsonl"), []byte(tt.data), 0o600); err != nil {
				t.Fatal(err)
			}
			r := recognised(t, c)
			says := strings.Join(r.warnings, "\n")
			if r.step.Length != tt.want || r.row != tt.rung || !strings.Contains(says, tt.says) {
				t.Errorf("a batch has %d tokens and %d by the rung, want %d and %d, and %q says no %q", r.step.Length,
					r.row, tt.want, tt.rung, says, tt.says)
			}
			set, err := r.Ladders(t.Context(), card)
			if err != nil {
				t.Fatal(err)
			}
			if is := slices.ContainsFunc(set.Shared.Rungs, func(r ladder.Rung) bool {
				return r.Name == "padding to the longest row" && r.Cost == ladder.None
			}); is != (tt.rung > 0) {
				t.Errorf("padding to the longest row is a rung: %t, want %t", is, tt.rung > 0)
			}
			if tt.rung > 0 {
				plugintest.Check(t, New(), c, card)
				b := &builder{s: r.settings, t: r.training, device: card}
				b.shared(&ladder.Set{})
				i := slices.IndexFunc(b.ways, func(w way) bool { return w.length == tt.rung })
				if i < 0 || b.padded(1, b.ways[i]) || !b.padded(1, b.ways[0]) {
					t.Errorf("want no padding of one row alone in the rung's way of %+v, and some in the first", b.ways)
				}
			}
		})
	}
}
