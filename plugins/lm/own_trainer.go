package lm

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/python"
)

// plain reads the model, the adapters and the rows of a plain Trainer.
func (r *ownReader) plain(given map[string]python.Range) error {
	if r.values["remove_unused_columns"] == "false" {
		return errOwn("remove_unused_columns=False gives the model all columns")
	}
	if err := r.adapted(given["model"]); err != nil {
		return err
	}
	return r.readRows(given)
}

// adapted reads the model that from_pretrained returns, or that get_peft_model makes of it.
func (r *ownReader) adapted(value python.Range) error {
	loaded, err := r.loaded()
	if err != nil {
		return err
	}
	stages := []python.Call{loaded}
	values := []python.Range{value} // where each is given on
	if len(r.calls(kbit)) > 0 {
		made, model, err := r.prepared()
		if err != nil {
			return err
		}
		stages, values = append(stages, made), []python.Range{model, value}
	}
	if len(r.calls("get_peft_model")) > 0 {
		peft, err := r.only("get_peft_model", "peft")
		if err != nil {
			return err
		}
		var model, adapters python.Range
		for i, a := range r.Args(peft.Open) {
			switch {
			case a.Stars == 0 && (a.Name == "model" || a.Name == "" && i == 0):
				model = a.Range
			case a.Stars == 0 && (a.Name == "peft_config" || a.Name == "" && i == 1):
				adapters = a.Range
			default:
				return errOwn("%s of get_peft_model is not understood", r.Of(a.Range))
			}
		}
		if adapters.Empty() || r.Of(adapters) == "None" {
			return errOwn("get_peft_model is given no adapters")
		}
		if err := r.adapters(adapters); err != nil {
			return err
		}
		stages, values = append(stages, peft), append(values[:len(values)-1:len(values)-1], model, value)
	}
	return r.handed(stages, values)
}

// handed reports why a model is not handed from stage to stage, each time as the call itself or by a variable with
// which nothing else is done that changes it.
func (r *ownReader) handed(stages []python.Call, values []python.Range) error {
	allowed, names, last := map[int]bool{}, map[string]bool{}, -1
	for i, made := range stages {
		value := values[i]
		if value.Empty() {
			return errOwn("%s is not given on", made.Name)
		}
		if r.exactly(value, made) {
			continue
		}
		at := r.statement(made.First)
		a, ok := r.Assigns(r.Statements[at])
		if !ok || !r.exactly(a.Value, made) || value.End != value.First+1 || r.Token(value.First) != a.Name ||
			at <= last || value.First < r.Statements[at].End {
			return errOwn("%s is not what %s makes", r.Of(value), made.Name)
		}
		last = at
		allowed[r.Statements[at].First], allowed[value.First], names[a.Name] = true, true, true
	}
	for name := range names {
		for _, use := range r.uses(name) {
			if !allowed[use] && !r.harmless(use) {
				return errOwn("%s is used otherwise in line %d", name, r.LineOf(use))
			}
		}
	}
	return nil
}

// harmless reports whether a use of the model changes nothing of a step.
func (r *ownReader) harmless(use int) bool {
	in := r.Statements[r.statement(use)]
	if a, ok := r.Assigns(in); ok && use == in.First && strings.Contains(a.Name, ".config.") {
		_, field, _ := strings.Cut(a.Name, ".config.")
		return strings.HasSuffix(field, "_token_id") && !strings.Contains(field, ".") ||
			field == "use_cache" && r.Of(a.Value) == "False"
	}
	if !r.Is(use+1, ".") || !r.Is(use+3, "(") {
		return false
	}
	// what peft's preparation does as well
	if r.values["kbit"] == "true" && r.Is(use+4, ")") && r.Is(use+2, "gradient_checkpointing_enable") {
		r.values["kbit_checkpointing"] = "true"
		return true
	}
	return slices.Contains([]string{"print_trainable_parameters", "save_pretrained", "num_parameters",
		"get_memory_footprint"}, r.Token(use+2)) || r.values["kbit"] == "true" && r.Is(use+2, "enable_input_require_grads")
}
