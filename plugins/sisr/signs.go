package sisr

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
)

// signs are the words of the family's trainers, from their sources: traiNNer-redux at 68629319 and the forks of
// 2025-11 to 2026-01 (train.py, sr_model.py, base_model.py, logger.py), BasicSR 8d56e3a0, neosr 31c70226.
func signs(r *recipe) job.Signs {
	s := job.Signs{
		Lines: []job.Sign{
			{Kind: job.Started, Pattern: `Start training from epoch: [\d,]+, (?:iter|step): (?P<iteration>[\d,]+)`},
			{Kind: job.Resumed, Pattern: `Resuming training from epoch: [\d,]+, (?:iter|step): (?P<iteration>[\d,]+)`},
			// Without the comma behind the number: at a line's end it would wait for the next line, which comes after a validation.
			{Kind: job.Progress, Pattern: `\[epoch:\s*[\d,]+, (?:iter|step):\s*(?P<iteration>\d+(?:,\d{3})*)`},
			{Kind: job.Memory, Pattern: `\[peak VRAM: (?P<bytes>[\d.]+) (?P<unit>GB)\]`}, // GiB, by max_memory_allocated
			// The forks of 2025-12, whose line has memory_reserved as well since ea36e5c8 (logger.py:280; without it
			// at 3fa46aad). To the bracket: where rich has broken the line between the two, the first part alone is no
			// match.
			{Kind: job.Memory, Pattern: `\[VRAM: [\d.]+ GB, peak: (?P<bytes>[\d.]+) (?P<unit>GB)` +
				`(?:\]|, cached: (?P<reserved>[\d.]+) GB\])`},
			{Kind: job.SavedState, Pattern: `Saving models and training states.* for epoch: [\d,]+, iter: (?P<iteration>[\d,]+)`},
			{Kind: job.SavedState, Pattern: `Saving models and training states\.`},
			{Kind: job.Phase, Phase: "validation", Pattern: `Saving \d+ validation images to`}, // said only where images are saved
			{Kind: job.PhaseEnd, Phase: "validation", Pattern: `(?:INFO: |^\s*)Validation [^:#]+(?:$|\s#\s)`},
			{Kind: job.OutOfMemory, Phase: "training", Pattern: `Ran out of VRAM during training`},
			{Kind: job.Survived, Pattern: `OOM Recovery successful|OOM during validation of .*Switching to tiled`},
			{Kind: job.Interrupted, Pattern: `User interrupted\. Preparing to save state`},
			{Kind: job.Failed, Pattern: `Training stopped\. Time consumed:`},
			{Kind: job.Failed, Pattern: `Training failed: NaN/Inf found in loss`},
			{Kind: job.Succeeded, Pattern: `End of training\. Time consumed:`},
			{Kind: job.Setting, Knob: knobMicro, Pattern: `Batch size per gpu:\s+(?P<value>[\d,]+)`},
			{Kind: job.Setting, Knob: knobAccumulation, Pattern: `Accumulate iterations:\s+(?P<value>[\d,]+)`},
			{Kind: job.Setting, Knob: knobEnlarge, Pattern: `Dataset enlarge ratio:\s+(?P<value>[\d,]+)`},
		},
		// "exit 0" is what this family says after nearly every failure: only its last words tell.
		MustSucceed: true,
		Every:       r.int("logger.print_freq", 0),
		Codes:       map[int]string{0: "also after an error in the training loop, and after Ctrl-C"},
	}
	s.Lines = append(s.Lines, r.figures()...)
	s.Checks = r.checks()
	if r.experiment != "" {
		folder := file.EscapeGlob(r.experiment)
		s.Recipes = []string{folder + "/*.yml", folder + "/*.yaml", folder + "/*.toml"} // copy_opt_file
		s.Log = []string{folder + "/train_*.log"}
		s.States = []string{folder + "/training_states/*.state"}
		s.StateIteration = `^(?P<iteration>\d+)\.state$`
	}
	return s
}

// lower are parts of the types of metrics that are better when they are lower. The trainers take a metric without
// "better" for one that is better when it is higher (base_model.py, _initialize_best_metric_results), whatever it is.
var lower = []string{"lpips", "dists", "niqe", "fid", "brisque", "pieapp"}

// figures are the signs of a validation's metrics (_log_validation_metric_values of all dialects): the recipe names
// them.
// With several sets the same names come once for each, and no line has both the set and the figure: then there are
// none.
func (r *recipe) figures() (signs []job.Sign) {
	sets := 0
	for _, set := range r.at("datasets").Keys() {
		if strings.HasPrefix(set, "val") {
			sets++
		}
	}
	if sets > 1 || !r.valOn {
		return nil
	}
	metrics := r.at(r.metrics)
	for _, name := range metrics.Keys() {
		m, direction := metrics.Get(name), metric.Maximise
		kind := strings.ToLower(m.Get("type").Text() + " " + name)
		better, given := m.Get("better").Str()
		if better == "lower" || !given && slices.ContainsFunc(lower, func(l string) bool {
			return strings.Contains(kind,
				l)
		}) {
			direction = metric.Minimise
		}
		signs = append(signs, job.Sign{Kind: job.Metric, Name: name, Direction: direction,
			Pattern: metricPattern(name)})
	}
	return signs
}
