package dualattn

import (
	"path/filepath"
	"strconv"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/metric"
)

// signs are the words of train.py at 6a4e6b6 (train, train_epoch, evaluate, save_checkpoint, main). What it logs besides
// (logger.info) is not relied on: the logs that the author has published lack it. Between the data set's own line and
// "Starting training" there is about a minute of silence, while every training image is decoded for its label
// (fgvc_datasets.py:258).
func (x *checkout) signs() job.Signs {
	s := job.Signs{
		Lines: []job.Sign{
			{Kind: job.Started, Pattern: `Starting training for \d+ epochs`},
			{Kind: job.Setting, Knob: job.MicroBatch, Pattern: `Physical batch size: (?P<value>\d+)`},
			{Kind: job.Setting, Knob: job.Accumulation, Pattern: `Gradient accumulation steps: (?P<value>\d+)`},
			{Kind: job.Setting, Knob: job.GlobalBatch, Pattern: `Effective batch size: (?P<value>\d+)`},
			{Kind: job.Progress, Pattern: `Epoch \d+:\s+\d+%\|.*\| (?P<iteration>\d+)/\d+ \[`},
			{Kind: job.Phase, Phase: ladder.Validation, Pattern: `Evaluating (?:val|test)|Extracting Re-ID features`},
			{Kind: job.PhaseEnd, Phase: ladder.Validation, Pattern: `^Val (?:Top-1 Acc|mAP):`},
			{Kind: job.Metric, Name: "top1", Direction: metric.Maximise, Pattern: `^Val Top-1 Acc:\s+(?P<value>` +
				metric.Number + `)`},
			{Kind: job.Metric, Name: "mAP", Direction: metric.Maximise, Pattern: `^Val mAP:\s+(?P<value>` + metric.Number + `)`},
			{Kind: job.SavedState, Pattern: `New best model saved with metric:`},
			{Kind: job.Succeeded, Pattern: `Training completed! Best metric:`},
			{Kind: job.Failed, Pattern: `Training failed: `},
		},
		CountsMicro: true, // the bar counts micro-batches of the epoch
		MustSucceed: true,
	}
	s.Checks = x.checks()
	if dir := x.states(); dir != "" {
		s.States = []string{filepath.Join(file.EscapeGlob(dir), "checkpoint_*.pth")}
		s.StateIteration = `^checkpoint_epoch_(?P<iteration>\d+)\.pth$`
	}
	return s
}

// checks is what the end of a run should show. train.py prints percentages (lines 906 and 909 at 6a4e6b6), after every
// eval_frequency epochs and after the last one (line 884). The mean average precision of re-identification is a
// placeholder that stays at 0, which the second check finds.
func (x *checkout) checks() []job.Check {
	name, pattern := "top1", `^Val Top-1 Acc:\s+(?P<value>`+metric.Number+`)%`
	if x.task == "reid" {
		name, pattern = "mAP", `^Val mAP:\s+(?P<value>`+metric.Number+`)%`
	}
	zero, hundred := 0.0, 100.0
	all := []job.Check{{Name: name + " is plausible", Pattern: pattern, Rule: job.Within, Min: &zero, Max: &hundred}}
	epochs := x.class.int("num_epochs", 0)
	if text, ok := x.argv.Get("--epochs"); ok {
		epochs, _ = strconv.ParseInt(text, 10, 64)
	}
	if every := x.class.int("eval_frequency", 0); every > 0 && epochs > 2*every { // two may be alike by chance
		all = append(all, job.Check{Name: name + " moves from validation to validation", Pattern: pattern, Rule: job.Moving,
			Least: 3,
			Hint: "how the project computes it: a placeholder, or a network that does not learn, gives the same figure each " +
				"time"})
	}
	return all
}

// resume says that there is none.
func (x *checkout) resume() job.Resume {
	r := job.Resume{None: "the trainer cannot resume: --resume is parsed and never read, so a retry starts at epoch 1, after it has decoded the whole training set for its labels again (75 s for CUB on the author's machine)"}
	if x.uses("resume") {
		r.None = "how this trainer resumes is not known: a retry starts at epoch 1"
	}
	if dir := x.states(); dir != "" {
		r.Aside = []string{filepath.Join(file.EscapeGlob(dir), "checkpoint_*.pth")}
	}
	return r
}

// rehearsal is how far the training can be shortened. Nothing limits an epoch, and the validation stands behind one: where
// the data set cannot be cut, it goes no further than its first steps.
func (x *checkout) rehearsal() job.Rehearsal {
	r := job.Rehearsal{}
	short, err := x.shortCUB()
	if err != nil {
		r.Steps = 4 * max(1, x.accum)
		r.Partial = "the first validation stands behind a whole epoch, which no setting shortens, and the data set cannot be cut: " + err.Error() + ". What a validation needs is what its estimate says"
	}
	add := func(flag, value string) {
		e := config.Edit{Knob: flag, At: config.Address{Doc: config.ArgvDoc, Path: flag}, To: value, Cost: "none"}
		if from, ok := x.argv.Get(flag); ok {
			e.From = from
		} else {
			e.Add = true
		}
		r.Edits = append(r.Edits, e)
	}
	add("--epochs", "1")
	if err == nil {
		r.Puts = short
		add("--data_root", job.Scratch+"/"+cutData)
	}
	add("--checkpoint_dir", job.Scratch+"/checkpoints")
	add("--log_dir", job.Scratch+"/logs")
	if !x.argv.Has("--no_logging") {
		add("--no_logging", "")
	}
	return r
}
