package lm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/python"
)

// An ownReader reads a script of one's own by its tokens.
type ownReader struct {
	*python.Syntax
	*own
}

// read fills in what was found, or says what was not understood.
func (r *ownReader) read(configClass, trainerClass, library string) error {
	made, err := r.only(configClass, library)
	if err != nil {
		return err
	}
	trainer, err := r.only(trainerClass, library)
	if err != nil {
		return err
	}
	if err := r.fields(made); err != nil {
		return err
	}
	function, err := r.place(made)
	if err != nil {
		return err
	}
	r.prefix = function + config.JoinPath(configClass+"()") + "."
	plain := library == "transformers"
	given, err := r.given(trainer, plain)
	if err != nil {
		return err
	}
	if err := r.passed(given["args"], made, "output_dir"); err != nil {
		return err
	}
	if plain {
		err = r.plain(given)
	} else {
		err = r.ofTRL(given)
	}
	if err != nil {
		return err
	}
	if !plain { // a trainer of trl tokenises and cuts only what it is made with
		given = nil
	}
	return r.started(trainer, given)
}

// ofTRL reads the model and the adapters of a trainer of trl.
func (r *ownReader) ofTRL(given map[string]python.Range) error {
	if r.Names("get_peft_model") {
		return errOwn("a trainer of trl is given adapters by get_peft_model")
	}
	if err := r.model(given["model"]); err != nil {
		return err
	}
	return r.adapters(given["peft_config"])
}

// The arguments that a trainer may be given: of all, of trl's, and of a plain one, which has some by their place, too
// (Trainer.__init__ in transformers/trainer.py:379 of 5.23.0).
var (
	givenAll     = []string{"model", "args", "train_dataset", "eval_dataset", "processing_class"}
	givenTRL     = []string{"peft_config", "formatting_func", "ref_model"}
	givenPlain   = []string{"data_collator", "tokenizer"}
	givenInOrder = []string{"model", "args", "data_collator", "train_dataset", "eval_dataset"}
)

// given are the trainer's arguments by their names.
func (r *ownReader) given(trainer python.Call, plain bool) (map[string]python.Range, error) {
	given, own := map[string]python.Range{}, givenTRL
	if plain {
		own = givenPlain
	}
	for i, a := range r.Args(trainer.Open) {
		if a.Name == "" && a.Stars == 0 && plain && i < len(givenInOrder) {
			a.Name = givenInOrder[i]
		}
		if a.Stars > 0 || a.Name == "" {
			return nil, errOwn("%s is given arguments without their names", trainer.Name)
		}
		if !slices.Contains(givenAll, a.Name) && !slices.Contains(own, a.Name) {
			return nil, errOwn("%s of %s is not understood", a.Name, trainer.Name)
		}
		if a.Name == "ref_model" && r.Of(a.Range) != "None" {
			return nil, errOwn("a reference model of its own is not understood")
		}
		given[a.Name] = a.Range
	}
	return given, nil
}

// only is the one call of a class that is imported from a library by its own name, and not used otherwise.
func (r *ownReader) only(class, library string) (c python.Call, err error) {
	if !r.imported(class, library) {
		return c, errOwn("%s is not imported from %s", class, library)
	}
	calls := r.calls(class)
	if len(calls) != 1 {
		return c, errOwn("%s is called %d times", class, len(calls))
	}
	if _, err := r.place(calls[0]); err != nil {
		return c, err
	}
	for _, use := range r.uses(class) {
		if use != calls[0].First && !r.imports(use) {
			return c, errOwn("%s is used otherwise in line %d", class, r.LineOf(use))
		}
	}
	return calls[0], nil
}

func (r *ownReader) calls(name string) (out []python.Call) {
	for _, c := range r.Calls(python.Range{First: 0, End: len(r.Tokens)}) {
		if c.Name == name {
			out = append(out, c)
		}
	}
	return out
}

// uses are the tokens that are that variable: no attribute, and no name of an argument.
func (r *ownReader) uses(name string) (out []int) {
	for i, t := range r.Tokens {
		if t.Kind != python.Word || r.Token(i) != name || r.Is(i-1, ".") {
			continue
		}
		if r.Is(i+1, "=") && (r.Is(i-1, "(") || r.Is(i-1, ",")) { // of an argument, or the last of a, b = 1, 2
			if s := r.statement(i); s >= 0 && r.Find(r.Statements[s].Range, "=") != i+1 {
				continue
			}
		}
		out = append(out, i)
	}
	return out
}

// statement is the statement that has a token.
func (r *ownReader) statement(token int) int {
	return slices.IndexFunc(r.Statements, func(s python.Statement) bool { return s.First <= token && token < s.End })
}

func (r *ownReader) imports(token int) bool {
	s := r.statement(token)
	return s >= 0 && (r.Is(r.Statements[s].First, "from") || r.Is(r.Statements[s].First, "import"))
}

// place is the function in which a call stands, as a path's beginning: one that runs once, so that it is in no loop and
// under no condition but that of the module being the program.
func (r *ownReader) place(c python.Call) (function string, err error) {
	for s := r.statement(c.First); s >= 0; s = r.Statements[s].In {
		header := r.Statements[s]
		switch first := r.Token(header.First); first {
		case "def":
			d, _ := r.Definition(header)
			if function != "" {
				return "", errOwn("%s stands in a function of another function", c.Name)
			}
			function = config.JoinPath(d.Name+"()") + "."
		case "if":
			if s != r.statement(c.First) && strings.Contains(r.Of(header.Range), "__name__") {
				continue
			}
			return "", errOwn("%s stands under a condition", c.Name)
		case "for", "while", "async", "class", "match", "try", "except", "else", "elif", "finally", "lambda", "return":
			return "", errOwn("%s stands in a block of %q", c.Name, first)
		}
	}
	return function, nil
}

// ownFields are fields that the formulas read, and ownIdle those that change nothing of the memory and may be computed.
var (
	ownFields = strings.Fields("output_dir per_device_train_batch_size per_device_eval_batch_size eval_strategy " +
		"gradient_accumulation_steps max_length bf16 fp16 gradient_checkpointing gradient_checkpointing_kwargs optim " +
		"packing padding_free eval_packing loss_type use_liger_kernel torch_compile precompute_ref_log_probs " +
		"precompute_ref_batch_size disable_dropout activation_offloading neftune_noise_alpha label_smoothing_factor " +
		"use_cpu auto_find_batch_size prediction_loss_only deepspeed fsdp pad_to_multiple_of use_weighting sync_ref_model " +
		"ld_alpha adafactor bf16_full_eval fp16_full_eval activation_checkpointing activation_checkpointing_kwargs " +
		"enable_jit_checkpoint average_tokens_across_devices")
	ownIdle = strings.Fields("learning_rate seed data_seed max_steps num_train_epochs logging_steps logging_strategy " +
		"logging_dir logging_first_step save_steps save_strategy save_total_limit save_only_model run_name report_to " +
		"warmup_steps warmup_ratio weight_decay lr_scheduler_type lr_scheduler_kwargs max_grad_norm eval_steps eval_delay " +
		"push_to_hub hub_model_id hub_strategy hub_private_repo dataset_num_proc dataset_text_field beta " +
		"remove_unused_columns dataloader_num_workers dataloader_pin_memory dataloader_drop_last adam_beta1 " +
		"adam_beta2 adam_epsilon tf32 " +
		"load_best_model_at_end metric_for_best_model greater_is_better disable_tqdm log_level group_by_length " +
		"resume_from_checkpoint ddp_find_unused_parameters overwrite_output_dir eval_on_start trackio_space_id project " +
		"do_train do_eval do_predict train_sampling_strategy save_safetensors eval_accumulation_steps " +
		"dataloader_prefetch_factor dataloader_persistent_workers logging_nan_inf_filter save_on_each_node " +
		"completion_only_loss assistant_only_loss truncation_mode label_smoothing ddp_timeout")
)

// fields reads the keywords of the configuration.
func (r *ownReader) fields(c python.Call) error {
	r.values["do_train"] = "true"
	for i, a := range r.Args(c.Open) {
		name := a.Name
		if name == "" && a.Stars == 0 && i == 0 {
			name = "output_dir"
		}
		idle := slices.Contains(ownIdle, name)
		if a.Stars > 0 || !idle && !slices.Contains(ownFields, name) {
			return errOwn("%s of %s is not understood", r.Of(a.Range), c.Name)
		}
		value, ok := r.value(a.Range)
		here := ok && a.Name != ""
		if !ok {
			value, ok = r.constant(a.Range)
		}
		switch {
		case !ok && idle, strings.HasPrefix(name, "do_"): // of the last the trainer itself does nothing
		case !ok:
			return errOwn("%s of %s is computed", name, c.Name)
		case value != "None":
			r.values[name] = value
			fallthrough
		default:
			r.literal[name] = here
		}
	}
	if r.values["output_dir"] == "" {
		return errOwn("%s has no output_dir", c.Name)
	}
	return nil
}

// value is a literal as the settings have it: a text, a number, "true", "false" or "None", or the one switch of a
// dictionary.
func (r *ownReader) value(at python.Range) (string, bool) {
	if text, ok := r.Str(at); ok {
		return text, true
	}
	switch n := at.End - at.First; {
	case n == 1 && r.Is(at.First, "None"):
		return "None", true
	case n == 1 && (r.Is(at.First, "True") || r.Is(at.First, "False")):
		return strings.ToLower(r.Token(at.First)), true
	case n == 1 && r.Tokens[at.First].Kind == python.Number:
		return strings.ReplaceAll(r.Token(at.First), "_", ""), true
	case n == 5 && r.Is(at.First, "{") && r.Is(at.First+2, ":"):
		name, ok := r.Str(python.Range{First: at.First + 1, End: at.First + 2})
		on, is := r.value(python.Range{First: at.First + 3, End: at.First + 4})
		return fmt.Sprintf("{%q: %s}", name, on), ok && is && (on == "true" || on == "false")
	}
	return "", false
}

// passed reports why an argument of the trainer is not what a call has made: the call itself, or a variable that has
// nothing else, and that nothing else is done with.
func (r *ownReader) passed(value python.Range, made python.Call, allowed ...string) error {
	if value.Empty() {
		return errOwn("the trainer is not given what %s makes", made.Name)
	}
	if r.exactly(value, made) {
		return nil
	}
	if value.End != value.First+1 || r.Tokens[value.First].Kind != python.Word {
		return errOwn("%s is not understood", r.Of(value))
	}
	name, target := r.Token(value.First), -1
	if a, ok := r.Assigns(r.Statements[r.statement(made.First)]); ok && a.Name == name && r.exactly(a.Value, made) {
		target = r.Statements[r.statement(made.First)].First
	}
	if target < 0 {
		return errOwn("%s is not what %s makes", name, made.Name)
	}
	for _, use := range r.uses(name) {
		read := r.Is(use+1, ".") && slices.Contains(allowed, r.Token(use+2)) && !r.Is(use+3, "=")
		if use != target && use != value.First && !read {
			return errOwn("%s is used otherwise in line %d", name, r.LineOf(use))
		}
	}
	return nil
}

// exactly reports whether a value is a call, and nothing that is done with what it makes.
func (r *ownReader) exactly(value python.Range, made python.Call) bool {
	return value.First == made.First && value.End == r.Tokens[made.Open].Pair+1
}
