package lm

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/python"
)

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
