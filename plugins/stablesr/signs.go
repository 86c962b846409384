package stablesr

import (
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/metric"
)

// images is the phase of ImageLogger: log_images runs accumulate times in a row, a thousand steps of diffusion each
// (main.py:366, on_train_batch_end is called for every micro-batch while global_step stands still).
const images = "image logging"

// signs are the words of main.py and of Lightning 1.4.2, whose bars are redrawn behind a carriage return.
func (r *recipe) signs() job.Signs {
	s := job.Signs{
		Lines: []job.Sign{
			{Kind: job.Phase, Phase: ladder.Validation, Pattern: `Validation sanity check:\s`},
			{Kind: job.Started, Pattern: `Training: -1it `},
			{Kind: job.Phase, Phase: ladder.Validation, Pattern: `Validating:\s+\d+%`},
			{Kind: job.PhaseEnd, Phase: ladder.Validation, Pattern: `Validating:\s+100%`},
			{Kind: job.Phase, Phase: images, Pattern: `(?:Sampling t|DDIM Sampler|Progressive Generation):\s+\d+%`},
			{Kind: job.PhaseEnd, Phase: images, Pattern: `(?:Sampling t|DDIM Sampler|Progressive Generation):\s+100%`},
			{Kind: job.Phase, Phase: images, Pattern: `, in log_im(?:g|ages)$`}, // a frame of a traceback
			// ModelCheckpoint's line about a value among the best (model_checkpoint.py of 1.4.2); the others it prints without
			// their value. The bar has no value of a validation.
			{Kind: job.Metric, Name: "val loss", Direction: metric.Minimise,
				Pattern: `, global step (?P<step>\d+): val/\S*loss\S* (?:reached|is) (?P<value>` + metric.Number + `)`},
			{Kind: job.Memory, Pattern: `Average Peak memory (?P<bytes>[\d.]+) ?(?P<unit>MiB)`}, // max_memory_allocated of an epoch
			{Kind: job.SavedState, Pattern: `saving model to "(?P<path>[^"]+)"`},
			{Kind: job.Interrupted, Pattern: `Detected KeyboardInterrupt, attempting graceful shutdown`},
			{Kind: job.Failed, Pattern: `Edge processing tests failed!`}, // train_with_edge.py's own preflight
			{Kind: job.Setting, Knob: knobAccumulation, Pattern: `^accumulate_grad_batches = (?P<value>\d+)\s*$`},
			{Kind: job.Setting, Knob: knobMicro, Pattern: `\(num_gpus\) \* (?P<value>\d+) \(batchsize\)`}, // with --scale_lr
		},
		Codes: map[int]string{
			0:   "also after Ctrl-C, once the loop has begun",
			137: "rank 0 was killed: by Lightning, when another rank had failed (DeadlockDetectedException), or by the kernel, when host memory ran out",
		},
	}
	s.Checks = checks()
	if r.stableSR() { // OmegaConf's print of the recipe: data.params.train.params.queue_size alone stands so deep
		s.Lines = append(s.Lines, job.Sign{Kind: job.Setting, Knob: knobQueue,
			Pattern: `^ {8}queue_size: (?P<value>\d+)\s*$`})
	}
	if !has(r.root, "test_data.params.batch_size") { // else the print has two such lines, and the last is the test's
		s.Lines = append(s.Lines, job.Sign{Kind: job.Setting, Knob: knobMicro, Pattern: `^ {4}batch_size: (?P<value>\d+)\s*$`})
	}
	if strings.HasSuffix(text(r.root, keyTarget), ".LatentDiffusionSRTextWTWithEdge") {
		// Its training_step logs nothing (ddpm_with_edge.py:332): the bar counts micro-batches, validation's among them.
		s.Lines = append(s.Lines, job.Sign{Kind: job.Progress, Pattern: `Epoch \d+:\s+\d+%.*?\s(?P<iteration>\d+)/\d+ \[`})
		s.CountsMicro, s.StateAfter = true, max(1, r.micro*r.accum)+1 // a step was made, whatever the rung's accumulation
	} else {
		s.Lines = append(s.Lines, job.Sign{Kind: job.Progress, Pattern: `Epoch \d+:.*\bglobal_step=(?P<iteration>\d+)`}) // optimizer steps
		s.StateAfter = 1
	}
	s.Benchmark = truth(r.root, trainerKey+"benchmark", false) // Trainer's default in pytorch-lightning 1.4.2 (trainer.py)
	// Every rank names a folder by its own time of day, and one without checkpoints is another rank's. A resumed attempt
	// goes on in the folder of the one before.
	folder := file.EscapeGlob(r.logdir)
	switch {
	case r.namesFolder() && len(r.base) > 0:
		stem := filepath.Base(r.base[0])
		folder = filepath.Join(r.logs(), strings.TrimSuffix(stem, filepath.Ext(stem))+"_"+r.name)
		folder = file.EscapeGlob(folder)
	case r.logdir == "":
		folder = filepath.Join(file.EscapeGlob(r.logs()), "????-??-??T??-??-??"+file.EscapeGlob(r.suffix()))
	}
	s.States = []string{folder + "/checkpoints/last.ckpt", folder + "/checkpoints/epoch=*.ckpt"}
	s.Recipes = []string{folder + "/configs/*-project.yaml", folder + "/configs/*-lightning.yaml"} // what it joined of all its files and words
	return s
}

// checks is what the end of a run should show: the bar's own mean of the last losses, which are mean squared errors
// (Lightning 1.4.2, trainer/training_loop.py).
func checks() []job.Check {
	const loss = `Epoch \d+:.*\bloss=(?P<value>` + metric.Number + `)[,\]]`
	zero := 0.0
	return []job.Check{
		{Name: "the training loss is plausible", Pattern: loss, Rule: job.Within, Min: &zero, Last: 1,
			Hint: "the learning rate (scale_lr multiplies it), and half precision"},
		{Name: "the training loss moves", Pattern: loss, Rule: job.Moving, Hint: "what is frozen, and the learning rate"},
	}
}
