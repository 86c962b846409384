package stablesr

import (
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config"
)

// mainOptions are main.py's own (IceClear/StableSR 398ee938 and CompVis/latent-diffusion a506df57, main.py:26-125).
var mainOptions = []config.Option{
	{Names: []string{"-n", "--name"}, Takes: config.Maybe},
	{Names: []string{"-r", "--resume"}, Takes: config.Maybe},
	{Names: []string{"-b", "--base"}, Takes: config.Any},
	{Names: []string{"-t", "--train"}, Takes: config.Maybe},
	{Names: []string{"--no-test"}, Takes: config.Maybe},
	{Names: []string{"-p", "--project"}},
	{Names: []string{"-d", "--debug"}, Takes: config.Maybe},
	{Names: []string{"-s", "--seed"}},
	{Names: []string{"-f", "--postfix"}},
	{Names: []string{"-l", "--logdir"}},
	{Names: []string{"--scale_lr"}, Takes: config.Maybe},
}

// edgeOptions are train_with_edge.py's (cea3b81b, :36-85), which knows no others.
var edgeOptions = []config.Option{
	{Names: []string{"--config"}},
	{Names: []string{"--gpus"}},
	{Names: []string{"--name"}},
	{Names: []string{"--resume"}},
	{Names: []string{"--scale_lr"}, Takes: config.None},
	{Names: []string{"--test_only"}, Takes: config.None},
}

// emptyName is "--name=" written as a flag: an argument of that option without a value, which is what a resume through
// train_with_edge.py needs. It is declared where the command does not name the run.
var emptyName = config.Option{Names: []string{"--name="}, Takes: config.None}

// A trainerArg is an argument of Lightning's Trainer: its default as main.py compares it, and whether its flag may stand
// without a value.
type trainerArg struct {
	def   any
	maybe bool
}

// trainerArgs are those of pytorch-lightning 1.4.2, which Trainer.add_argparse_args makes flags of (trainer.py:118,
// utilities/argparse.py). "callbacks" takes no type that a flag could have.
var trainerArgs = map[string]trainerArg{
	"logger": {true, true}, "checkpoint_callback": {true, true}, "default_root_dir": {}, "gradient_clip_val": {def: 0.0},
	"gradient_clip_algorithm": {def: "norm"}, "process_position": {def: 0}, "num_nodes": {def: 1}, "num_processes": {def: 1},
	"devices": {}, "gpus": {}, "auto_select_gpus": {false, true}, "tpu_cores": {}, "ipus": {}, "log_gpu_memory": {},
	"progress_bar_refresh_rate": {}, "overfit_batches": {def: 0.0}, "track_grad_norm": {def: -1}, "check_val_every_n_epoch": {def: 1},
	"fast_dev_run": {false, true}, "accumulate_grad_batches": {def: 1}, "max_epochs": {}, "min_epochs": {}, "max_steps": {},
	"min_steps": {}, "max_time": {}, "limit_train_batches": {def: 1.0}, "limit_val_batches": {def: 1.0}, "limit_test_batches": {def: 1.0},
	"limit_predict_batches": {def: 1.0}, "val_check_interval": {def: 1.0}, "flush_logs_every_n_steps": {def: 100},
	"log_every_n_steps": {def: 50}, "accelerator": {}, "sync_batchnorm": {false, true}, "precision": {def: 32},
	"weights_summary": {def: "top"}, "weights_save_path": {}, "num_sanity_val_steps": {def: 2}, "truncated_bptt_steps": {},
	"resume_from_checkpoint": {}, "profiler": {}, "benchmark": {false, true}, "deterministic": {false, true},
	"reload_dataloaders_every_n_epochs": {def: 0}, "reload_dataloaders_every_epoch": {false, true}, "auto_lr_find": {false, true},
	"replace_sampler_ddp": {true, true}, "terminate_on_nan": {false, true}, "auto_scale_batch_size": {false, true},
	"prepare_data_per_node": {true, true}, "plugins": {}, "amp_backend": {def: "native"}, "amp_level": {def: "O2"},
	"distributed_backend": {}, "move_metrics_to_cpu": {false, true}, "multiple_trainloader_mode": {def: "max_size_cycle"},
	"stochastic_weight_avg": {false, true},
}

// laterArgs are arguments that Trainer has from Lightning 1.5 or 1.6 on (trainer.py at 1.5.9, which Dreambooth and
// textual inversion pin, and at 1.6.0). Whether a command has them is its environment's to say.
var laterArgs = []string{"strategy", "detect_anomaly", "enable_checkpointing", "enable_model_summary",
	"enable_progress_bar"}

// trainerKeys are what else a Trainer takes from a recipe.
var trainerKeys = []string{"callbacks"}

// declared are the options that this main.py takes: those that are known, and what a fork's declares more.
func (x *checkout) declared() []config.Option {
	out := slices.Clip(options())
	for _, name := range laterArgs {
		o := config.Option{Names: []string{"--" + name}}
		if name != "strategy" {
			o.Takes = config.Maybe
		}
		out = append(out, o)
	}
	for _, o := range x.main.Options() {
		if len(o.Names) > 0 && !slices.ContainsFunc(out, func(k config.Option) bool {
			return slices.ContainsFunc(o.Names, func(name string) bool { return slices.Contains(k.Names, name) })
		}) {
			out = append(out, o.Option)
		}
	}
	return out
}

// options are all that CompVis's main.py declares, in a fixed order. Nobody may change them.
var options = sync.OnceValue(func() []config.Option {
	out := slices.Clone(mainOptions)
	var names []string
	for name := range trainerArgs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		o := config.Option{Names: []string{"--" + name}}
		if trainerArgs[name].maybe {
			o.Takes = config.Maybe
		}
		out = append(out, o)
	}
	return slices.Clip(out)
})

// isDefault reports whether a Trainer flag's value is the Trainer's own default, which main.py ignores
// (nondefault_trainer_args, main.py:128).
func (a trainerArg) isDefault(value string) bool {
	switch def := a.def.(type) {
	case nil:
		return false
	case string:
		return value == def
	case bool:
		b, ok := boolean(value)
		return ok && b == def
	case int:
		v := readOverride("v=" + value).value
		n, ok := v.(int64)
		return ok && n == int64(def)
	case float64:
		switch v := readOverride("v=" + value).value.(type) {
		case int64:
			return float64(v) == def // one batch is 1 and all of them 1.0, which are equal in Python: the flag is ignored
		case float64:
			return v == def
		}
	}
	return false
}

// boolean is str2bool of main.py.
func boolean(s string) (b, ok bool) {
	switch strings.ToLower(s) {
	case "yes", "true", "t", "y", "1":
		return true, true
	case "no", "false", "f", "n", "0":
		return false, true
	}
	return false, false
}

// booleans are main.py's own flags that take one of these words or none.
var booleans = []string{"--train", "--no-test", "--debug", "--scale_lr"}
