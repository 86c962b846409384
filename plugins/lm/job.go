package lm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/metric"
)

// jobOf is the command as launch needs it. Lines and figures are of transformers 5.23.0.
func jobOf(s *settings, t *training) *job.Job {
	j := &job.Job{
		Dialect: s.kind.dialect, Name: filepath.Base(t.output), Arch: t.model.Type, Options: s.options, Files: s.files,
		Batch:    job.Batch{Micro: t.split.Micro, Accumulation: t.split.Accumulation, Ranks: t.ranks, Replicas: t.replicas},
		Signs:    signs(s, t),
		Warnings: t.warnings, Ignore: ignored(s),
		Knobs: []job.Knob{
			knobOf(s, job.MicroBatch, "per_device_train_batch_size", fmt.Sprint(t.split.Micro)),
			knobOf(s, job.Accumulation, "gradient_accumulation_steps", fmt.Sprint(t.split.Accumulation)),
		},
	}
	if j.Arch == "" {
		j.Arch = "causal language model"
	}
	if t.evals > 0 && !t.evalPacks {
		j.Knobs = append(j.Knobs, knobOf(s, knobValidation, "per_device_eval_batch_size", fmt.Sprint(t.evals)))
	}
	states(s, t, j)
	j.Save = saves(s)
	if t.ranks <= 1 {
		j.LastWords = "transformers"
	}
	j.Rehearsal = rehearsal(s, t)
	if s.script != nil {
		bound(s, t, j)
	}
	return j
}

func knobOf(s *settings, name, field, value string) job.Knob {
	_, set := s.get(field)
	return job.Knob{Name: name, At: s.address(field), Value: value, Default: !set}
}

// signs are what the Trainer prints where the log level is info, as run_clm.py sets it.
func signs(s *settings, t *training) job.Signs {
	all := job.Signs{Lines: []job.Sign{
		{Kind: job.Started, Pattern: `Total optimization steps = (?P<total>[\d,]+)`}, // trainer.py:1627
		// the bar of the training; that of a validation looks the same (trainer_callback.py:645, 656), but for its total
		{Kind: job.Progress, Pattern: `^ *\d+%\|.*\| (?P<iteration>\d+)/(?P<total>\d+) \[`},
		{Kind: job.SavedState, Pattern: `Saving model checkpoint to (?P<path>\S+/checkpoint-\d+)$`}, // trainer.py:4141
		{Kind: job.Setting, Knob: job.MicroBatch, Pattern: `Instantaneous batch size per device = (?P<value>[\d,]+)`},
		{Kind: job.Setting, Knob: job.Accumulation, Pattern: `Gradient Accumulation steps = (?P<value>\d+)`},
		{Kind: job.Setting, Knob: job.GlobalBatch,
			// trainer.py:1622
			Pattern: `Total train batch size \(w\. parallel, distributed & accumulation\) = (?P<value>[\d,]+)`},
		{Kind: job.Metric, Name: "eval loss", Direction: metric.Minimise,
			Pattern: `'?eval_loss'?(?: += +|: '?)(?P<value>[\d.e+-]+)`},
	}}
	if s.is(axolotl) {
		all.Lines = append(all.Lines, axolotlSigns(s, t)...)
		all.MustSucceed = true
		return all
	}
	// HfArgumentParser and TrlParser read each field from the arguments, and nothing sets it afterwards
	all.TakesArgv = s.tree == nil
	if t.evals > 0 {
		all.Lines = append(all.Lines,
			// trainer.py:2949
			job.Sign{Kind: job.Phase, Phase: ladder.Validation,
				Pattern: `\*\*\*\*\* Running (?:Evaluation|Prediction) \*\*\*\*\*`},
			job.Sign{Kind: job.PhaseEnd, Phase: ladder.Validation, Pattern: `'?eval_runtime'?`})
		if !t.replicas { // which multiply it
			all.Lines = append(all.Lines, // trainer.py:2954
				job.Sign{Kind: job.Setting, Knob: knobValidation, Pattern: `(?:^|>>) +Batch size = (?P<value>[\d,]+)$`})
		}
	}
	return all
}

// restores reports whether a resumed run has the micro-batch of the saved state, whatever is asked for: 5.0 and 5.1 do
// (trainer.py:2149 and 2145), as 4.57 does (trainer.py:2300); since 5.2 none does. With another one it would run out of
// memory again, and another number of sequences would make a step: the accumulation is that which is asked for.
func restores(s *settings) bool {
	v := s.release("transformers")
	return len(v) >= 2 && (v[0] < 5 || v[0] == 5 && v[1] < 2)
}

// states says how the job goes on from its own saved states. Where a state brings its micro-batch along, it is for the
// rungs with that micro-batch only ([builder.rung]).
func states(s *settings, t *training, j *job.Job) {
	out := file.EscapeGlob(t.output)
	j.Exclusive = file.In(s.prog.Dir, t.output)
	j.Signs.States = []string{filepath.Join(out, "checkpoint-*")}
	j.Signs.StateIteration = `^checkpoint-(?P<iteration>\d+)$`
	j.Resume.Aside = []string{filepath.Join(out, "checkpoint-*"), filepath.Join(out, "runs")}
	if s.is(axolotl) { // which a run that does not resume deletes (utils/tee.py)
		j.Resume.Aside = append(j.Resume.Aside, filepath.Join(out, "debug.log"))
	}
	if s.is(llamaFactory) { // which is appended to
		j.Resume.Aside = append(j.Resume.Aside, filepath.Join(out, "trainer_log.jsonl"))
	}
	if len(s.release("transformers")) < 2 && s.env.Known() {
		j.Warnings = append(j.Warnings,
			"the version of transformers is not known; before 5.2 a resumed run takes the micro-batch of its saved state")
	}
	if v := s.release("trl"); s.script == nil && s.prog.Kind != command.Code && len(v) > 1 &&
		s.trl() && (v[0] < 1 || v[0] == 1 && v[1] < 15) {
		// scripts/sft.py and dpo.py of 1.13 call trainer.train() without a state
		j.Resume.None = fmt.Sprintf("trl %s ignores a saved state and starts over; since 1.15 it does not",
			s.version("trl"))
		return
	}
	j.Resume.Edits = []config.Edit{s.editText("resume", "resume_from_checkpoint", job.SavedPath, ladder.None,
		"goes on from the last saved state")}
	// which a resumed run deletes (train/callbacks.py:235 of 0.9.5)
	if s.is(llamaFactory) && s.on("overwrite_output_dir") {
		j.Resume.Edits = append(j.Resume.Edits, s.edit("resume", "overwrite_output_dir", "false", ladder.None,
			"keeps the trainer's log of the steps before"))
	}
}

// saves is the Trainer's own save on request, with enable_jit_checkpoint: 3 s after SIGTERM, at the next optimizer
// step, it saves a checkpoint like any other and ends the training (trainer_jit_checkpoint.py:33 to 119). What the
// program does after a training it still does: an evaluation, the final model, and exit 0. A program that is started by
// another of its own, as trl's and LLaMA-Factory's may be, does not get the signal.
func saves(s *settings) job.Save {
	if v := s.release("transformers"); !s.on("enable_jit_checkpoint") || s.is(axolotl) ||
		s.prog.Kind != command.Script || len(v) > 0 && v[0] < 5 {
		return job.Save{}
	}
	return job.Save{Signal: "SIGTERM", Stops: true}
}

func rehearsal(s *settings, t *training) job.Rehearsal {
	if s.is(axolotl) {
		return axolotlRehearsal(s)
	}
	r := job.Rehearsal{Steps: 20, Edits: []config.Edit{
		s.editText("rehearse", "output_dir", job.Scratch, ladder.None, "writes into a folder of launch's"),
		s.editText("rehearse", "report_to", "none", ladder.None, "reports to nobody"),
	}}
	switch {
	case !t.pads:
	case t.step.Preference != nil: // whose data sets have no input_ids (LengthGroupedSampler in trainer_pt_utils.py:537)
		r.Unordered = "pairs have different lengths, and no setting puts the longest first"
	default: // the longest sequence is in the first batch (get_length_grouped_indices, line 509)
		r.Largest = []config.Edit{s.editText("rehearse", "train_sampling_strategy", "group_by_length", ladder.None,
			"puts the longest sequence first")}
	}
	return r
}

// ignored are settings that do not change the memory.
func ignored(s *settings) (names []string) {
	fields := []string{"learning_rate", "seed", "output_dir", "max_steps", "num_train_epochs",
		"logging_steps", "save_steps",
		"save_strategy", "save_total_limit", "run_name", "report_to", "warmup_steps", "weight_decay",
		"lr_scheduler_type", "max_grad_norm"}
	if s.is(axolotl) {
		fields = axolotlIgnored
	}
	for _, field := range fields {
		if s.tree != nil {
			names = append(names, filepath.Base(s.files[0].Path)+": "+field)
		}
		if s.is(axolotl) || s.kind.config != "" || s.tree == nil {
			names = append(names, s.argument(field))
		}
	}
	return names
}

// bound leaves in the job of a script of one's own what an edit of its literals can do.
func bound(s *settings, t *training, j *job.Job) {
	j.Ignore = nil
	j.Knobs = slices.DeleteFunc(j.Knobs, func(k job.Knob) bool {
		return !s.turns(s.script.field(k.At.Path))
	})
	j.Signs.Lines = slices.DeleteFunc(j.Signs.Lines, func(sign job.Sign) bool {
		return sign.Kind == job.Setting && sign.Knob != job.GlobalBatch &&
			!slices.ContainsFunc(j.Knobs, func(k job.Knob) bool { return k.Name == sign.Knob })
	})
	name := filepath.Base(s.script.src.Path)
	if s.script.resume == "" {
		j.Resume.Edits, j.Resume.None = nil, name+" trains without an argument resume_from_checkpoint that could be set"
	} else if len(j.Resume.Edits) > 0 {
		at := config.Address{Doc: s.script.src.Path, Path: s.script.resume}
		e := config.Proposed(s.tree, at.Doc, at.Path, strconv.Quote(job.SavedPath))
		e.Knob, e.Cost, e.Why = j.Resume.Edits[0].Knob, j.Resume.Edits[0].Cost, j.Resume.Edits[0].Why
		j.Resume.Edits = []config.Edit{e}
	}
	if r := &j.Rehearsal; !s.turns("output_dir") {
		*r = job.Rehearsal{None: "the folder that " + name + " writes to stands in no literal of its configuration"}
	} else {
		turns := func(e config.Edit) bool { return !s.turns(s.script.field(e.At.Path)) }
		r.Edits = slices.DeleteFunc(r.Edits, turns)
		if r.Largest = slices.DeleteFunc(r.Largest, turns); len(r.Largest) == 0 && t.pads && !s.script.rows.whole {
			const why = "sequences have different lengths, and the script has no setting that puts the longest first"
			r.Largest, r.Unordered = nil, why
		}
	}
}
