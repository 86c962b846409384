package lm

import (
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
)

// axolotlSigns are what axolotl prints beside the Trainer: its settings as they are after its checks (cli/config.py),
// and the steps of a training (core/trainers/base.py, train.py). After Ctrl-C it saves the model and exits 0
// (train.py:176).
//
// An evaluation that follows the micro-batch prints its own batch, which no knob has then.
func axolotlSigns(s *settings, t *training) []job.Sign {
	lines := []job.Sign{
		{Kind: job.Started, Pattern: `\[axolotl\.train\] Starting trainer\.\.\.`},
		{Kind: job.Succeeded, Pattern: `Training completed! Saving trained model to `},
		{Kind: job.Setting, Knob: job.MicroBatch, Pattern: `^  "micro_batch_size": (?P<value>\d+)`},
		{Kind: job.Setting, Knob: job.Accumulation, Pattern: `^  "gradient_accumulation_steps": (?P<value>\d+)`},
		// torch.cuda.max_memory_allocated (utils/bench.py:46), which is 0 on a CPU
		{Kind: job.Memory, Pattern: `'memory/max_allocated \((?P<unit>GiB)\)': '(?P<bytes>[1-9][\d.]*|0\.\d*[1-9]\d*)'`},
	}
	if !s.has("batch_size") { // which is printed as it was set, also where it has no effect
		lines = append(lines, job.Sign{Kind: job.Setting, Knob: job.GlobalBatch,
			Pattern: `^  "batch_size": (?P<value>\d+)`})
	}
	if t.evals > 0 && !t.coupled {
		lines = append(lines, job.Sign{Kind: job.Setting, Knob: knobValidation,
			Pattern: `^  "eval_batch_size": (?P<value>\d+)`})
	}
	if t.evals > 0 {
		lines = append(lines,
			job.Sign{Kind: job.Phase, Phase: ladder.Validation, Pattern: `Running evaluation step\.\.\.`},
			job.Sign{Kind: job.PhaseEnd, Phase: ladder.Validation, Pattern: `'eval_runtime'`})
	}
	return lines
}

// axolotlRehearsal writes into a folder of launch's and reports to nobody.
func axolotlRehearsal(s *settings) job.Rehearsal {
	r := job.Rehearsal{Steps: 20, Edits: []config.Edit{
		s.editText("rehearse", "output_dir", job.Scratch, ladder.None, "writes into a folder of launch's")}}
	for _, tracker := range []string{"use_wandb", "use_mlflow", "use_comet", "use_trackio", "use_otel_metrics"} {
		r.Edits = append(r.Edits, s.edit("rehearse", tracker, "false", ladder.None, "reports to nobody"))
	}
	if s.has("hub_model_id") {
		r.Edits = append(r.Edits, s.editText("rehearse", "hub_model_id", "", ladder.None, "uploads nothing"))
	}
	return r
}

// axolotlIgnored are settings of axolotl that do not change the memory.
var axolotlIgnored = strings.Fields("learning_rate seed output_dir max_steps num_epochs logging_steps save_steps " +
	"saves_per_epoch save_strategy save_total_limit warmup_steps warmup_ratio weight_decay lr_scheduler max_grad_norm " +
	"dataset_prepared_path wandb_project wandb_name wandb_entity lora_alpha loss_watchdog_threshold " +
	"loss_watchdog_patience dataset_num_proc dataset_processes")
