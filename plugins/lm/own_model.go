package lm

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/python"
)

// model reads the trainer's model: a name, which it loads in float32 (create_model_from_path in trl/trainer/utils.py),
// or what AutoModelForCausalLM.from_pretrained returns, in the type of its configuration.
func (r *ownReader) model(value python.Range) error {
	if name, ok := r.text(value); ok {
		r.values["model_name_or_path"] = name
		return nil
	}
	r.values["dtype"] = "auto"
	call, err := r.loaded()
	if err != nil {
		return err
	}
	return r.passed(value, call)
}

const loader = "AutoModelForCausalLM.from_pretrained"

// loaded reads the one call that loads a model.
func (r *ownReader) loaded() (call python.Call, err error) {
	calls := r.calls(loader)
	if len(calls) != 1 {
		return call, errOwn("the model is not made by one %s", loader)
	}
	if class, _, _ := strings.Cut(loader, "."); !r.imported(class, "transformers") {
		return call, errOwn("%s is not imported from transformers", class)
	}
	if _, err := r.place(calls[0]); err != nil {
		return call, err
	}
	for i, a := range r.Args(calls[0].Open) {
		name := a.Name
		if name == "" && i == 0 && a.Stars == 0 {
			name = "pretrained_model_name_or_path"
		}
		text, ok := r.text(a.Range)
		switch name {
		case "pretrained_model_name_or_path":
			r.values["model_name_or_path"] = text
		case "dtype", "torch_dtype":
			text, ok = r.dtype(a.Range)
			r.values["dtype"] = text
		case "quantization_config", "load_in_4bit", "load_in_8bit":
			if err := r.quantisation(name, a.Range); err != nil {
				return call, err
			}
			ok = true
		case "attn_implementation":
			r.values["attn_implementation"] = text
		case "revision":
			r.values["model_revision"] = text
		case "device_map":
			one := a.End == a.First+5 && r.Is(a.First, "{") && r.Is(a.First+2, ":") // {"": 0}: all on one card
			r.mapped, ok = true, ok || one
		case "trust_remote_code", "low_cpu_mem_usage", "use_cache", "token":
			ok = true
		default:
			return call, errOwn("%s of %s is not understood", r.Of(a.Range), loader)
		}
		if !ok {
			return call, errOwn("%s of %s is computed", name, loader)
		}
	}
	if r.values["model_name_or_path"] == "" {
		return call, errOwn("%s is given no name", loader)
	}
	return calls[0], nil
}

// adapters reads peft's LoraConfig, by its own defaults (peft/tuners/lora/config.py).
func (r *ownReader) adapters(value python.Range) error {
	if value.Empty() || r.Of(value) == "None" {
		return nil
	}
	made, err := r.only("LoraConfig", "peft")
	if err != nil {
		return err
	}
	if err := r.passed(value, made); err != nil {
		return err
	}
	r.values["use_peft"], r.values["lora_r"], r.values["lora_dropout"] = "true", "8", "0"
	for _, a := range r.Args(made.Open) {
		text, ok := r.value(a.Range)
		switch a.Name {
		case "r":
			r.values["lora_r"] = text
		case "lora_dropout":
			r.values["lora_dropout"] = text
		case "target_modules":
			if list, is := r.list(a.Range); is {
				r.lists["lora_target_modules"], text, ok = list, strings.Join(list, ","), true
			} else {
				r.lists["lora_target_modules"] = []string{text}
			}
			r.values["lora_target_modules"] = text
		case "modules_to_save":
			r.lists["lora_modules_to_save"], ok = r.list(a.Range)
			ok = ok || r.Of(a.Range) == "None"
		case "bias":
			ok = ok && text == "none"
		case "lora_alpha", "use_rslora":
			ok = true
		case "task_type":
			ok = ok && text == "CAUSAL_LM" || strings.HasSuffix(r.Of(a.Range), "TaskType.CAUSAL_LM")
		default:
			ok = false
		}
		if !ok {
			return errOwn("%s of LoraConfig is not understood", r.Of(a.Range))
		}
	}
	return nil
}

// ownCalls are what may be done with the trainer beside the training.
var ownCalls = []string{"train", "save_model", "save_state", "push_to_hub", "evaluate", "log_metrics", "save_metrics",
	"create_model_card", "state", "is_world_process_zero", "accelerator", "tokenizer", "processing_class"}

// started reads how the trainer is started: by one call. It may evaluate the data sets that it is given.
func (r *ownReader) started(made python.Call, given map[string]python.Range) error {
	statement := r.Statements[r.statement(made.First)]
	a, ok := r.Assigns(statement)
	if !ok || !r.exactly(a.Value, made) || strings.Contains(a.Name, ".") {
		return errOwn("what %s makes is kept in no variable", made.Name)
	}
	for _, use := range r.uses(a.Name) {
		in := r.Statements[r.statement(use)]
		called := r.Is(use+1, ".") && (slices.Contains(ownCalls, r.Token(use+2)) ||
			r.Is(use+2, "model") && r.Is(use+4, "save_pretrained"))
		if called && r.Is(use+2, "evaluate") && !r.Is(use+3, "(") {
			return errOwn("%s.evaluate is used otherwise in line %d", a.Name, r.LineOf(use))
		}
		if use != statement.First && (!called || use == in.First && r.Find(in.Range, "=") >= 0) {
			return errOwn("%s is used otherwise in line %d", a.Name, r.LineOf(use))
		}
	}
	starts := r.calls(a.Name + ".train")
	if len(starts) != 1 {
		return errOwn("%s.train is called %d times", a.Name, len(starts))
	}
	function, err := r.place(starts[0])
	if err != nil {
		return err
	}
	for _, arg := range r.Args(starts[0].Open) {
		if arg.Name != "resume_from_checkpoint" {
			return errOwn("%s of %s.train is not understood", r.Of(arg.Range), a.Name)
		}
		r.resume = function + config.JoinPath(a.Name+".train()", arg.Name)
	}
	for _, c := range r.calls(a.Name + ".evaluate") {
		r.values["do_eval"] = "true"
		for _, arg := range r.Args(c.Open) { // another data set has rows of another length
			if arg.Name != "metric_key_prefix" && !r.same(arg, made, given) {
				return errOwn("%s of %s.evaluate is not understood", r.Of(arg.Range), a.Name)
			}
		}
	}
	return nil
}

// same reports whether an argument is one of the data sets that the trainer is given: of a variable that gets nothing
// else after that.
func (r *ownReader) same(arg python.Arg, made python.Call, given map[string]python.Range) bool {
	if arg.Stars > 0 || arg.Name != "" && arg.Name != "eval_dataset" {
		return false
	}
	root, calls, ok := r.chain(arg.Range)
	if !ok || len(calls) > 0 {
		return false
	}
	trainer := r.statement(made.First)
	for _, s := range r.bindings(root) {
		if s >= trainer || r.Statements[s].In != r.Statements[trainer].In {
			return false
		}
	}
	return slices.ContainsFunc([]string{"train_dataset", "eval_dataset"}, func(name string) bool {
		_, kept, ok := r.chain(given[name])
		rest, is := strings.CutPrefix(r.Of(given[name]), r.Of(arg.Range))
		return ok && is && (rest == "" || rest[0] == '.') && !slices.ContainsFunc(kept, func(c link) bool {
			return !slices.Contains(keepsRows, c.name)
		})
	})
}
