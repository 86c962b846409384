package lm

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/launch-ml/launch/plugins/lm/arch"
)

// readCLM reads a training of transformers' run_clm.py.
func readCLM(s *settings) (training, error) {
	return reader{divideTrainer, checkpointsTrainer, []fills{released, replicated, foreignTrainer, modelCLM}, nil}.read(s)
}

// modelCLM reads the model, the type of its weights, and the length of a sequence, as run_clm.py has them (main).
func modelCLM(s *settings, t *training) string {
	t.predicted = t.evals > 0 && !s.on("prediction_loss_only")
	name, revision := s.text("model_name_or_path", ""), s.text("model_revision", "main")
	config := s.text("config_name", name)
	if name == "" {
		return scratch(s, t, config, revision)
	}
	p, why := load(s, t, name, revision)
	if why != "" {
		return why
	}
	if config != name {
		return s.address("config_name").Path + " beside a model has no formula"
	}
	var ok bool
	if t.step.Weights, ok = weights(s, t, p); !ok {
		return "the type in which the model is loaded is not known: --dtype sets it"
	}
	return readLength(s, t, p)
}

// scratch is a model without weights: that of a configuration, or of model_type with config_overrides.
func scratch(s *settings, t *training, config, revision string) string {
	text := []byte(fmt.Sprintf(`{"model_type": %q}`, s.text("model_type", "")))
	if config != "" {
		p, err := s.find(config, revision)
		if err != nil {
			return err.Error()
		}
		text = p.config
	}
	text, err := overridden(text, s.text("config_overrides", ""))
	if err == nil {
		t.model, err = arch.Read(text)
	}
	if err != nil {
		return err.Error()
	}
	t.step.Weights = t.model.DType // from_config (modeling_utils.py:1402)
	tokenizer, err := s.find(s.text("tokenizer_name", ""), revision)
	if err != nil {
		return lengthOf(s, t, pretrained{})
	}
	return lengthOf(s, t, tokenizer)
}

// overridden is a configuration with fields of another value (PretrainedConfig.update_from_string):
// n_embd=10,n_layer=2.
func overridden(text []byte, overrides string) ([]byte, error) {
	if overrides == "" {
		return text, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("reading config.json: %w", err)
	}
	for part := range strings.SplitSeq(overrides, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("--config_overrides has %q: it is a list of NAME=VALUE", part)
		}
		v := strings.ToLower(value)
		if !json.Valid([]byte(v)) {
			v = fmt.Sprintf("%q", value)
		}
		fields[name] = json.RawMessage(v)
	}
	return json.Marshal(fields)
}

// readLength is the length of a block, with the model's tokenizer or another.
func readLength(s *settings, t *training, p pretrained) string {
	if name := s.text("tokenizer_name", ""); name != "" {
		other, err := s.find(name, s.text("model_revision", "main"))
		if err != nil {
			other = pretrained{}
		}
		return lengthOf(s, t, other)
	}
	return lengthOf(s, t, p)
}

// lengthOf is block_size: texts are joined and cut into blocks of it, so every sequence has this length, and nothing
// is padded. Without --block_size it is the tokenizer's model_max_length, or min(1024, max_position_embeddings) where
// that is longer than the model's positions.
func lengthOf(s *settings, t *training, p pretrained) string {
	longest := p.longest
	if longest == 0 {
		longest = 1 << 30 // the tokenizer's VERY_LARGE_INTEGER
	}
	if s.has("block_size") {
		n, err := s.count("block_size", 1)
		if err != nil {
			return err.Error()
		}
		t.step.Length = min(n, longest)
		return ""
	}
	if !p.tokenizer {
		return "the length of a sequence is not known: the tokenizer's settings are not on this machine, and " +
			"--block_size is not set"
	}
	if longest > t.model.Positions {
		longest = min(1024, t.model.Positions)
	}
	if t.step.Length = longest; longest > 1024 {
		warn(t, "%s is not set, so every sequence has the tokenizer's model_max_length of %d tokens: 1024 would be its "+
			"length only if that were more than the model's max_position_embeddings", s.address("block_size").Path, longest)
	}
	return ""
}
