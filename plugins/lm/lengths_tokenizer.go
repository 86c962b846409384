package lm

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/plugins/lm/tokens"
)

// The classes of tokenizers (tokenizer_config.json) of which each token has a byte or more, whatever their file is:
// those that read tokenizer.json as it is or build the same from it ([tokens.Tokenizer.Made]), and those that are built
// on bytes.
var (
	countedClasses = strings.Fields("PreTrainedTokenizerFast TokenizersBackend Qwen2Tokenizer Qwen2TokenizerFast " +
		"GPT2Tokenizer GPT2TokenizerFast")
	boundedClasses = strings.Fields("LlamaTokenizer LlamaTokenizerFast GemmaTokenizer GemmaTokenizerFast " +
		"CodeGenTokenizer CodeGenTokenizerFast")
)

// tokenizerOf is that of the model. Of a public model without files here its kind is known: BPE of bytes, or with bytes
// for what is in no token.
func tokenizerOf(s *settings, t *training) (*tokens.Tokenizer, error) {
	p, err := s.find(s.text("model_name_or_path", s.text("base_model", "")),
		s.text("model_revision", s.text("revision_of_model", "main")))
	if err != nil {
		return nil, err
	}
	if p.folder == "" {
		return tokens.ByBytes(), nil
	}
	settings, err := recordOf(filepath.Join(p.folder, "tokenizer_config.json"))
	name, wrong := settings.text("tokenizer_class")
	class := strings.TrimSuffix(name, "Fast")
	counts := slices.Contains(countedClasses, name)
	if err != nil || wrong != nil || settings["auto_map"] != nil || !counts && !slices.Contains(boundedClasses, name) {
		return nil, unread("its tokenizer is not known (tokenizer_config.json of the model)")
	}
	text, err := file.Read(filepath.Join(p.folder, "tokenizer.json"), maxTokenizer)
	if err != nil {
		return nil, unread("the model has no tokenizer.json here")
	}
	adds, err := tokens.ReadAdds(text)
	if err == nil {
		err = addsBeside(p.folder, settings, adds)
	}
	if err != nil {
		return nil, unread("its tokenizer is not known (%v)", err)
	}
	tok, err := tokens.Read(text)
	switch {
	case err != nil && counts:
		return nil, unread("its tokenizer is not known (%v)", err)
	case err != nil || !counts || isOn(settings, "add_prefix_space") || isOn(settings, "fix_mistral_regex"),
		t.model.Type == "mistral" || t.model.Type == "mixtral",
		strings.HasPrefix(class, "GPT2") && !tok.Made(class), strings.HasPrefix(class, "Qwen2") && !tok.Made(class):
		// whose pre-tokenizer transformers may replace (tokenization_utils_tokenizers.py, _patch_mistral_regex)
		return tokens.ByBytes(), nil
	}
	return tok, nil
}

// isOn reports whether a setting is there and not false.
func isOn(settings record, key string) bool {
	return !settings.empty(key) && string(settings[key]) != "false"
}

// recordOf is a file of JSON with one object.
func recordOf(path string) (r record, err error) {
	text, err := file.Read(path, maxFile)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// addsBeside is an error for a token that the files beside tokenizer.json add to it: texts are split at each
// (transformers 5.23, tokenization_utils_base.py, from_pretrained).
func addsBeside(folder string, settings record, adds tokens.Adds) error {
	all := []record{settings}
	for _, name := range []string{"special_tokens_map.json", "added_tokens.json"} {
		path := filepath.Join(folder, name)
		r, err := recordOf(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return unread("%s could not be read", name)
		}
		if name == "added_tokens.json" {
			for content := range r {
				if !adds.Has(content) {
					return unread("%s adds %q", name, content)
				}
			}
			continue
		}
		all = append(all, r)
	}
	for _, r := range all {
		for key, raw := range r {
			if !strings.HasSuffix(key, "_token") && !strings.HasSuffix(key, "special_tokens") &&
				key != "added_tokens_decoder" {
				continue
			}
			if key == "split_special_tokens" && string(raw) != "false" {
				return unread("%s is set", key)
			}
			var value any
			if json.Unmarshal(raw, &value) != nil || !ownTokens(value, adds) {
				return unread("%s names tokens that tokenizer.json does not add", key)
			}
		}
	}
	return nil
}

// ownTokens reports whether all tokens that a setting names are added by tokenizer.json itself, and match there as they
// would by the setting.
func ownTokens(value any, adds tokens.Adds) bool {
	switch v := value.(type) {
	case nil, bool: // as add_bos_token
		return true
	case string:
		return adds.Has(v)
	case []any:
		return !slices.ContainsFunc(v, func(one any) bool { return !ownTokens(one, adds) })
	case map[string]any:
		content, is := v["content"].(string)
		if !is {
			return ownTokens(slices.Collect(maps.Values(v)), adds)
		}
		on := func(key string) bool { is, _ := v[key].(bool); return is }
		return adds.Same(content, on("lstrip"), on("rstrip"), on("single_word"))
	}
	return false
}
