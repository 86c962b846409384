package lm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/python"
)

// An ownData is what a script of one's own with SFTTrainer trains on: local files of JSON, or why that is not known.
type ownData struct {
	files []string
	why   string
}

// readData reads the files of both data sets. Nothing may be done with their rows, nor with the tokenizer.
func (r *ownReader) readData(given map[string]python.Range) (d ownData) {
	if f := given["formatting_func"]; !f.Empty() && r.Of(f) != "None" {
		return ownData{why: "formatting_func makes its texts"}
	}
	for _, a := range r.Args(r.calls("SFTConfig")[0].Open) {
		if _, read := r.values[a.Name]; a.Name == "dataset_text_field" && !read {
			return ownData{why: "dataset_text_field is computed"}
		}
	}
	if why := r.sameTokenizer(given["processing_class"]); why != "" {
		return ownData{why: why}
	}
	for _, name := range []string{"train_dataset", "eval_dataset"} {
		if value := given[name]; !value.Empty() && r.Of(value) != "None" {
			files, ok := r.jsonFiles(value)
			if !ok {
				return ownData{why: fmt.Sprintf("%s is not understood as files of JSON", name)}
			}
			d.files = append(d.files, files...)
		}
	}
	if slices.Sort(d.files); len(d.files) == 0 {
		return ownData{why: "the trainer is given none"}
	}
	d.files = slices.Compact(d.files)
	return d
}

// sameTokenizer says why a trainer's tokenizer is not known to be that of the model, as it is.
func (r *ownReader) sameTokenizer(value python.Range) (why string) {
	if value.Empty() || r.Of(value) == "None" {
		return ""
	}
	name, why := r.tokenizer()
	if why != "" {
		return why
	}
	loader := r.calls("AutoTokenizer.from_pretrained")[0]
	args := r.Args(loader.Open)
	if len(args) != 1 || args[0].Name != "" || args[0].Stars > 0 {
		return "its tokenizer has settings of its own"
	}
	model, ok := r.value(args[0].Range)
	if !ok {
		model, ok = r.constant(args[0].Range)
	}
	if !ok || model != r.values["model_name_or_path"] || r.Of(value) != name {
		return "its tokenizer is not the model's"
	}
	target := r.Statements[r.statement(loader.First)].First
	for _, use := range r.uses(name) {
		idle := r.Is(use+1, ".") && slices.Contains(tokenizerIdle, r.Token(use+2)) && r.Token(use+2) != "chat_template"
		if use != target && use != value.First && !idle {
			return fmt.Sprintf("its tokenizer is used otherwise in line %d", r.LineOf(use))
		}
	}
	return ""
}

// jsonFiles are the files that load_dataset("json", data_files=…) is given, where a data set is what it returns, but
// for methods that keep rows as they are. Of a variable the last assignment before its use counts (reaches).
func (r *ownReader) jsonFiles(value python.Range) (files []string, ok bool) {
	if !r.importsLoader() {
		return nil, false
	}
	for range r.Statements {
		root, calls, ok := r.chain(value)
		if !ok {
			return nil, false
		}
		for _, c := range slices.Backward(calls) {
			if c.name == "load_dataset" && root == c.name {
				return r.dataFiles(c)
			}
			columns := strings.HasPrefix(c.name, "rename_") || strings.HasPrefix(c.name, "remove_")
			if !slices.Contains(keepsRows, c.name) || columns { // which decide what is tokenised
				return nil, false
			}
		}
		if value, ok = r.before(root, value); !ok {
			return nil, false
		}
	}
	return nil, false
}

// importsLoader reports whether load_dataset is that of datasets.
func (r *ownReader) importsLoader() (imported bool) {
	for _, im := range r.Imports() {
		for _, n := range im.Names {
			imported = imported || im.Module == "datasets" && n.Name == "load_dataset" && n.As == n.Name
		}
	}
	for _, use := range r.uses("load_dataset") {
		imported = imported && (r.imports(use) || r.Is(use+1, "(") && !r.Is(use-1, "def"))
	}
	return imported
}

// dataFiles are the literal names of the files of one load_dataset.
func (r *ownReader) dataFiles(c link) (files []string, ok bool) {
	json := false
	for i, a := range r.Args(c.open) {
		text, literal := r.Str(a.Range)
		switch {
		case a.Stars == 0 && (a.Name == "path" || a.Name == "" && i == 0) && literal && text == "json":
			json = true
		case a.Name == "data_files":
			for i := a.First; i < a.End; i++ {
				name, is := r.Str(python.Range{First: i, End: i + 1})
				switch {
				case is && r.Is(i+1, ":"): // of a split
				case is && strings.ContainsAny(name, "*?[]:"):
					return nil, false
				case is:
					files = append(files, name)
				case !slices.Contains([]string{"[", "]", "{", "}", "(", ")", ",", ":"}, r.Token(i)):
					return nil, false
				}
			}
		case a.Name == "split" && literal, a.Name == "num_proc", a.Name == "cache_dir":
		default:
			return nil, false
		}
	}
	return files, json && len(files) > 0
}
