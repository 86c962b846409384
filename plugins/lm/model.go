package lm

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// A pretrained is what the files of a model say: its folder, or a model of the hub as its cache has it.
type pretrained struct {
	folder string // "" for one of the table
	config []byte
	// longest is the tokenizer's model_max_length; 0 where its settings have none, which is then no bound.
	longest   int64
	tokenizer bool // the tokenizer's settings are there
	known     *public
}

// A public is a model of the hub by its name, for where the cache does not have it yet: its config.json, its
// tokenizer's model_max_length (0 for none; nil where it is not known), and the type of its weights ("" where it is
// not known).
type public struct {
	Config    json.RawMessage `json:"config"`
	MaxLength *int64          `json:"model_max_length"`
	Weights   string          `json:"weights"`
	Source    string          `json:"source"`
}

//go:embed models.json
var modelsText []byte

// publics are the shapes of public models. Those without a source are from their config.json and tokenizer_config.json
// on huggingface.co. The others could not be read there. Each says what confirms its layers, width, heads, key-value
// heads, intermediate size, vocabulary and tied embeddings, and its positions and type where the entry has them: the
// table of a library, a configuration in a repository, or the config.json of a page of huggingface.co, which is the
// model's own or that of a model made from it, by whose name it goes (_name_or_path): the type can then be the copy's.
// "as X in" is a source of X that the model was tuned from, or that was tuned from it. Where two differ, a config.json
// that names the model counts: litgpt has other positions of Mistral-7B-Instruct-v0.1, CodeLlama-13b-Instruct and
// Qwen2.5's instruct models. Positions of Qwen3's base models have no source, and no release of transformers keeps a
// table of them.
var publics = sync.OnceValue(func() (all map[string]*public) {
	if err := json.Unmarshal(modelsText, &all); err != nil {
		panic(err) // the tests read it
	}
	return all
})

// errNoModel is the error for a model whose files are not on this machine, and that the table has not.
var errNoModel = errors.New("its config.json is not on this machine")

// find finds a model by what from_pretrained is given: a folder, or a name of the hub at a revision.
func (s *settings) find(name, revision string) (p pretrained, err error) {
	folder := file.In(s.prog.Dir, name)
	text, err := file.Read(filepath.Join(folder, "config.json"), maxFile)
	if err == nil {
		return s.opened(folder, text), nil
	}
	if strings.Count(name, "/") <= 1 && !strings.HasPrefix(name, ".") && !strings.Contains(name, `\`) {
		if snapshot, ok := s.cached(name, revision); ok {
			if text, err := file.Read(filepath.Join(snapshot, "config.json"), maxFile); err == nil {
				return s.opened(snapshot, text), nil
			}
		}
		if known, ok := publics()[name]; ok && revision == "main" {
			p = pretrained{config: known.Config, tokenizer: known.MaxLength != nil, known: known}
			if p.tokenizer {
				p.longest = *known.MaxLength
			}
			return p, nil
		}
	}
	return p, fmt.Errorf("the model %q: %w", name, errNoModel)
}

// load finds the model of a training, and reads its shape.
func load(s *settings, t *training, name, revision string) (p pretrained, why string) {
	p, err := s.find(name, revision)
	if err == nil {
		if !remote(s) {
			p.config = native(p.config)
		}
		t.model, err = arch.Read(p.config)
	}
	if err != nil {
		return p, err.Error()
	}
	return p, ""
}

// remote reports whether a model's own code can be run in the place of transformers' class of its type: where the
// program trusts it (resolve_trust_remote_code in transformers/dynamic_module_utils.py), which LLaMA-Factory before
// 0.9.2 always does (model/loader.py). What a script of one's own trusts is not read.
func remote(s *settings) bool {
	return s.on("trust_remote_code") || s.script != nil || s.is(llamaFactory) && factoryBefore(s, 0, 9, 2)
}

// native is a configuration without auto_map, which names such code.
func native(config []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(config, &fields) != nil || fields["auto_map"] == nil {
		return config
	}
	delete(fields, "auto_map")
	text, err := json.Marshal(fields)
	if err != nil {
		return config
	}
	return text
}

// loadNamed finds the one that model_name_or_path names.
func loadNamed(s *settings, t *training) (p pretrained, why string) {
	return load(s, t, s.text("model_name_or_path", ""), s.text("model_revision", "main"))
}

func (s *settings) opened(folder string, text []byte) pretrained {
	p := pretrained{folder: folder, config: text}
	var settings struct {
		Longest json.Number `json:"model_max_length"`
	}
	tokens, err := file.Read(filepath.Join(folder, "tokenizer_config.json"), maxFile)
	if err != nil || json.Unmarshal(tokens, &settings) != nil {
		return p
	}
	p.tokenizer = true
	if n, err := settings.Longest.Int64(); err == nil && n > 0 {
		p.longest = n
	}
	return p
}

// cached is the folder of a model of the hub in its cache (huggingface_hub/constants.py, HF_HUB_CACHE): the snapshot
// that the revision refers to.
func (s *settings) cached(name, revision string) (folder string, ok bool) {
	root := s.text("cache_dir", "")
	home := s.getenv("HOME")
	for _, place := range []struct{ base, rest string }{
		{s.getenv("HF_HUB_CACHE"), ""}, {s.getenv("HUGGINGFACE_HUB_CACHE"), ""}, {s.getenv("HF_HOME"), "hub"},
		{s.getenv("XDG_CACHE_HOME"), "huggingface/hub"}, {home, ".cache/huggingface/hub"},
	} {
		if root == "" && place.base != "" {
			root = filepath.Join(place.base, place.rest)
		}
	}
	if root == "" || !filepath.IsLocal(revision) {
		return "", false
	}
	root = filepath.Join(file.In(s.prog.Dir, root), "models--"+strings.ReplaceAll(name, "/", "--"))
	commit, err := file.Read(filepath.Join(root, "refs", revision), 1<<10)
	if err != nil { // the revision is a commit itself
		commit = []byte(revision)
	}
	id := strings.TrimSpace(string(commit))
	if !filepath.IsLocal(id) {
		return "", false
	}
	return filepath.Join(root, "snapshots", id), true
}

var weightTypes = map[string]nn.DType{"F32": nn.F32, "F16": nn.F16, "BF16": nn.BF16,
	"float32": nn.F32, "float16": nn.F16, "bfloat16": nn.BF16}

// stored is the type of the weights in the model's file, if it has one.
func (p pretrained) stored() (d nn.DType, ok bool) {
	if p.known != nil {
		d, ok = weightTypes[p.known.Weights]
		return d, ok
	}
	return headType(filepath.Join(p.folder, "model.safetensors"))
}

// headType is the type of all floating tensors of a file of safetensors: eight bytes with the length of the head, and
// that as JSON.
func headType(path string) (d nn.DType, ok bool) {
	f, err := file.Open(path)
	if err != nil {
		return d, false
	}
	defer f.Close()
	var length uint64
	if binary.Read(f, binary.LittleEndian, &length) != nil || length > maxFile {
		return d, false
	}
	text := make([]byte, length)
	var head map[string]struct {
		Type string `json:"dtype"`
	}
	if _, err := io.ReadFull(f, text); err != nil || json.Unmarshal(text, &head) != nil {
		return d, false
	}
	for name, tensor := range head {
		t, floating := weightTypes[tensor.Type]
		switch {
		case name == "__metadata__" || !floating:
		case ok && t != d:
			return d, false
		default:
			d, ok = t, true
		}
	}
	return d, ok
}

// typed reports whether a configuration names the type of its weights.
func typed(text []byte) bool {
	var config struct {
		DType      string `json:"dtype"`
		TorchDType string `json:"torch_dtype"`
	}
	return json.Unmarshal(text, &config) == nil && config.DType+config.TorchDType != ""
}

// weights is the type in which from_pretrained loads the model: that of --dtype, else that of its configuration, else
// that of its weights (modeling_utils.py:810, 4178).
func weights(s *settings, t *training, p pretrained) (nn.DType, bool) {
	if name := s.text("dtype", "auto"); name != "auto" && name != "None" {
		d, ok := weightTypes[name]
		return d, ok
	}
	if _, set := s.get("dtype"); older(s) && !set { // modeling_utils.py:1285 of 4.57.6
		return nn.F32, true
	}
	if typed(p.config) {
		return t.model.DType, true
	}
	return p.stored()
}

// publicNames are the public models whose shape is known, each by one of its names.
func publicNames() []string {
	all := slices.Sorted(maps.Keys(publics()))
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, "openai-community/") })
}
