package sisr

import (
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// A dialect is one project's spelling of the same recipe: where each knob lies, what is missing.
// An empty path is a knob that the project does not have.
type dialect struct {
	name    string
	project arch.Project

	micro, accumulation, enlarge     string
	lq, gt                           string
	workers, prefetch, persistent    string
	amp, bf16                        string
	channelsLast                     string      // read under mixed precision only
	layout                           arch.Layout // under mixed precision, where nothing says otherwise
	ema                              string
	tile, overlap                    string
	losses                           string // a list; the "*_opt" sections are read in every dialect
	valFreq, totalIter, metrics      string
	queue                            string // of the on-the-fly degradations' pool
	gpus                             string
	folder                           string // of the experiments, beside the script
	resumeFlag                       string
	defaultTile, defaultAccumulation int64
	// save is the program's own way to save on request. Ctrl-C is caught: redux saves after the iteration (train.py:397 at
	// 68629319), neosr at once (train.py:405 at 31c70226). BasicSR catches nothing.
	save job.Save
	// lastWords is as in [job.Job]. traiNNer-redux saves by itself when anything is raised (train.py:514), unless it
	// saved in the last minute: the hook sees to it that such a state is whole, and has the right number.
	lastWords string
}

// The names of the knobs, the same in every dialect.
const (
	knobMicro        = job.MicroBatch
	knobAccumulation = job.Accumulation
	knobEnlarge      = "enlarge ratio"
	knobCrop         = "low-resolution crop"
	knobAMP          = "mixed precision"
	knobBF16         = "bfloat16"
	knobTile         = "validation tile"
	knobOverlap      = "validation tile overlap"
	knobCheckpoint   = "activation checkpointing"
	knobMetrics      = "GPU metrics"
	knobEMA          = "EMA"
	knobQueue        = "degradation queue"
	knobWorkers      = "loader workers"
	knobValFreq      = "validation interval"
)

var redux = dialect{
	name: "traiNNer-redux", project: arch.Redux,
	micro: "datasets.train.batch_size_per_gpu", accumulation: "datasets.train.accum_iter", enlarge: "datasets.train.dataset_enlarge_ratio",
	lq: "datasets.train.lq_size", gt: "datasets.train.gt_size",
	workers: "datasets.train.num_worker_per_gpu", prefetch: "datasets.train.prefetch_factor", persistent: "datasets.train.persistent_workers",
	amp: "use_amp", bf16: "amp_bf16",
	// self.memory_format in traiNNer/models/sr_model.py, and the option's default in utils/redux_options.py at 68629319
	channelsLast: "use_channels_last", layout: arch.Layout{NetworkLast: true, ImageLast: true},
	ema: "train.ema_decay", tile: "val.tile_size", overlap: "val.tile_overlap",
	losses: "train.losses", valFreq: "val.val_freq", totalIter: "train.total_iter", metrics: "val.metrics",
	queue: "queue_size", gpus: "num_gpu", folder: "experiments", resumeFlag: "--auto_resume", defaultAccumulation: 1,
	save: job.Save{Signal: "SIGINT", Stops: true}, lastWords: "trainner",
}

// BasicSR has neither accumulation, mixed precision nor tiles (basicsr/utils/options.py, models/sr_model.py at 8d56e3a0).
var basicSR = dialect{
	name: "BasicSR", project: arch.BasicSR,
	micro: "datasets.train.batch_size_per_gpu", enlarge: "datasets.train.dataset_enlarge_ratio", gt: "datasets.train.gt_size",
	workers: "datasets.train.num_worker_per_gpu", ema: "train.ema_decay",
	valFreq: "val.val_freq", totalIter: "train.total_iter", metrics: "val.metrics", queue: "queue_size", gpus: "num_gpu",
	folder: "experiments", resumeFlag: "--auto_resume", defaultAccumulation: 1, lastWords: "basicsr",
}

// neosr's recipes are TOML, and its crop is of the low-resolution image (neosr/utils/options.py, train.py at 31c70226).
var neosr = dialect{
	name: "neosr", project: arch.Neosr,
	micro: "datasets.train.batch_size", accumulation: "datasets.train.accumulate", enlarge: "datasets.train.dataset_enlarge_ratio",
	lq: "datasets.train.patch_size", workers: "datasets.train.num_worker_per_gpu",
	amp: "use_amp", bf16: "bfloat16", ema: "train.ema", tile: "val.tile", losses: "",
	layout:  arch.Layout{NetworkLast: true}, // model_to_device in models/base.py, and feed_data in models/image.py
	valFreq: "val.val_freq", totalIter: "logger.total_iter", metrics: "val.metrics", queue: "datasets.train.queue_size", gpus: "num_gpu",
	folder: "experiments", resumeFlag: "--auto_resume", defaultTile: -1, defaultAccumulation: 1,
	save: job.Save{Signal: "SIGINT", Stops: true}, lastWords: "basicsr",
}
