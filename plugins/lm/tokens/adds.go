package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Adds are the tokens of a tokenizer.json that are matched as they stand in a text.
type Adds struct{ all map[string]addedToken }

// Has reports whether a token is one of them.
func (a Adds) Has(content string) bool { _, ok := a.all[content]; return ok }

// Same reports whether it is one of them that takes as much of what stands beside it.
func (a Adds) Same(content string, left, right, single bool) bool {
	own, ok := a.all[content]
	return ok && own.LStrip == left && own.RStrip == right && own.SingleWord == single
}

// Around is how many tokens a post-processor may put around a text: one at its begin and one at its end.
const Around = 2

// ReadAdds reads the added tokens of a tokenizer.json. The error is for a post-processor that puts more than [Around]
// tokens around a text or is not known, and for a key that only encoding/json takes for one of the file's.
func ReadAdds(text []byte) (Adds, error) {
	var parts, model map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return Adds{}, fmt.Errorf("reading the tokenizer: %w", err)
	}
	err := json.Unmarshal(parts["model"], &model)
	if err := errors.Join(err, spelled(parts), spelled(model)); err != nil {
		return Adds{}, err
	}
	for _, name := range []string{"added_tokens", "normalizer", "pre_tokenizer"} {
		if raw, ok := parts[name]; ok {
			var all any
			if err := errors.Join(json.Unmarshal(raw, &all), walk(all)); err != nil {
				return Adds{}, err
			}
		}
	}
	if n, err := around(parts["post_processor"]); err != nil || n > Around {
		return Adds{}, errors.Join(err, fmt.Errorf("a post-processor that adds %d tokens", n))
	}
	var added []addedToken
	if raw, ok := parts["added_tokens"]; ok {
		if err := json.Unmarshal(raw, &added); err != nil {
			return Adds{}, fmt.Errorf("reading the added tokens: %w", err)
		}
	}
	a := Adds{map[string]addedToken{}}
	for _, token := range added {
		a.all[token.Content] = token
	}
	return a, nil
}

// keys are those of the file that are read.
var keys = strings.Fields("padding added_tokens normalizer pre_tokenizer post_processor model type dropout " +
	"byte_fallback ignore_merges continuing_subword_prefix end_of_word_suffix vocab merges normalizers pretokenizers " +
	"add_prefix_space use_regex behavior invert pattern content prepend single_word lstrip rstrip normalized " +
	"Regex String")

// spelled is an error for a key that is one of those in another case: encoding/json would take it.
func spelled[V any](object map[string]V) error {
	for key := range object {
		if !slices.Contains(keys, key) &&
			slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, key) }) {
			return fmt.Errorf("the key %q", key)
		}
	}
	return nil
}

func walk(value any) error {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			if err := walk(one); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := spelled(v); err != nil {
			return err
		}
		for _, one := range v {
			if err := walk(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// around is how many tokens a post-processor puts around one text (src/processors/ of tokenizers 0.23).
func around(text json.RawMessage) (n int, err error) {
	var p map[string]json.RawMessage
	if len(text) == 0 || string(text) == "null" {
		return 0, nil
	}
	var kind string
	if json.Unmarshal(text, &p) != nil || json.Unmarshal(p["type"], &kind) != nil {
		return 0, errProcessor
	}
	switch kind {
	case "ByteLevel":
		return 0, nil
	case "BertProcessing", "RobertaProcessing":
		return 2, nil
	case "TemplateProcessing":
		return templated(p["single"], p["special_tokens"])
	case "Sequence":
		var all []json.RawMessage
		if json.Unmarshal(p["processors"], &all) != nil {
			return 0, errProcessor
		}
		for _, one := range all {
			more, err := around(one)
			if err != nil {
				return 0, err
			}
			n += more
		}
		return n, nil
	}
	return 0, errProcessor
}

var errProcessor = errors.New("its post-processor is not known")

// templated is how many tokens a template puts around its only text.
func templated(single, special json.RawMessage) (n int, err error) {
	var pieces []map[string]struct{ ID string }
	var tokens map[string]map[string]json.RawMessage
	if json.Unmarshal(single, &pieces) != nil || json.Unmarshal(special, &tokens) != nil {
		return 0, errProcessor
	}
	texts := 0
	for _, piece := range pieces {
		token, is := piece["SpecialToken"]
		_, text := piece["Sequence"]
		var ids []int64
		switch {
		case len(piece) != 1 || is == text:
			return 0, errProcessor
		case text:
			texts++
		case json.Unmarshal(tokens[token.ID]["ids"], &ids) != nil:
			return 0, errProcessor
		}
		n += len(ids)
	}
	if texts != 1 {
		return 0, errProcessor
	}
	return n, nil
}
