package oom

import (
	"path"
	"strings"
)

// A forward pass is in training, in validation, in a quantization, in an embedding of a data set, in a simulation:
// its own frames do not tell. It is called training's only where something says so: the functions and files around
// it, a loop that only training has, or the words and counters that the program printed before.

var (
	// trainingName are functions and methods, and trainingFile files, of a training.
	trainingName = rx(`(?i)(?:^|_)(?:train|training|trainer|trains|finetune|fine_tune|finetuning|pretrain|fit|` +
		`epoch|sft|dpo|ppo|grpo|` +
		`distill|optimize|loss|losses|criterion|reconstruct\w*_loss)(?:_|\d*$)|^p_losses|Trainer|^learn$`)
	trainingFile = rx(`(?i)(?:^|[_.-])(?:train|trainer|training|finetune|fine_tune|finetuning|pretrain|sft|dpo|` +
		`grpo|main_train|fit|loss|losses)` +
		`[a-z\d]*(?:[_.-][\w.-]*)?\.py$|/trainers?/|/training/`)
	// otherName are functions and files of other work with a model.
	otherName = rx(`(?i)quanti[sz]|gptq|(?:^|_)awq|calibrat|(?:^|_)embed(?:_|$|dings?$)|(?:^|_)encode|extract|` +
		`simulat|(?:^|_)render|` +
		`(?:^|_)(?:demo|serve|server|serving|export|onnx|caption|describe|transcribe|translate|chat|complete|score|rank|` +
		`retrieve|index|search|preprocess|cache|latents?|features?|profile|bench|benchmark|warm_?up|detect|segment|` +
		`upscale|enhance|` +
		`denoise|rollout|explain|attribut\w*|saliency|count_flops|flops|summary|convert|merge|prune|trace|compile|` +
		`visuali[sz]e|plot)(?:_|$)`)
	otherFile = rx(`(?i)(?:^|[_.-])(?:quanti[sz]\w*|gptq|awq|calibrat\w*|embed(?:dings?)?|encode|extract\w*|` +
		`simulat\w*|render|demo|serve|server|` +
		`export|onnx|caption|preprocess|cache|profile|bench\w*|inference|infer|predict|generate|sample|app|webui|` +
		`gradio\w*|detect|` +
		`upscale|convert|chat|api|cli|nodes|execution)(?:[_.-][\w.-]*)?\.py$|/pipelines?/|sentence_transformers/`)
	// trainingPath are library files through which a forward goes in training only, or nearly so: replicas, wrappers that
	// average gradients, autocast's wrapper of Accelerate, activation checkpointing.
	trainingPath = rx(`torch/nn/parallel/(?:parallel_apply|data_parallel|distributed)\.py|` +
		`accelerate/utils/operations\.py|torch/utils/checkpoint\.py|` +
		`deepspeed/runtime/engine\.py|fsdp/(?:fully_sharded_data_parallel|_fully_shard)|megatron/`)
	trainingSource = rx(`(?i)\btrain(?:er|ing|_\w+)?\b|\b\w*loss(?:es)?\w*\b|\bbackward\(|optimi[sz]er|` +
		`\.(?:fit|fit_generator|fit_one_cycle|fine_tune)\(`)
	trainingWords = rx(`(?i)\b(?:training|trainer|train|fine-?tun\w*|pre-?training|epochs?|learning[_ ]rate|` +
		`optimi[sz]er|\w{0,8}[_ ]?loss)\b`)
)

// aheadRows bounds the rows before a traceback whose words may tell what the program was doing.
const aheadRows = 80

// A training is how clearly a forward pass is training's.
type training uint8

const (
	untrained     training = iota // nothing says so, or something says otherwise
	trainingFiles                 // it is in a file of a training, which may hold a validation too
	trainingNamed
)

// inTraining reports whether something says that a forward pass was training's.
func (f *finding) inTraining(calls []frame) training {
	first := len(calls)
	for i, c := range calls {
		if forwardFrame.MatchString(c.name) && first == len(calls) {
			first = i
		}
		if trainingPath.MatchString(strings.ReplaceAll(c.path, `\`, "/")) {
			return trainingNamed
		}
	}
	top := f.at
	if len(calls) > 0 {
		top = calls[0].row
	}
	for i := first - 1; i >= 0; i-- {
		c := calls[i]
		p := strings.ReplaceAll(c.path, `\`, "/")
		if launcher.MatchString(p) || c.installed() && !strings.Contains(p, "rainer") && !otherFile.MatchString(p) {
			continue
		}
		switch {
		case trainingName.MatchString(c.name), trainingSource.MatchString(f.source(c)):
			return trainingNamed
		case otherName.MatchString(c.name), otherFile.MatchString(path.Base(p)), otherFile.MatchString(p) && c.installed():
			return untrained
		case trainingFile.MatchString(path.Base(p)), trainingFile.MatchString(p) && !c.installed():
			return trainingFiles
		}
	}
	other := false
	for i := top - 1; i >= max(0, top-aheadRows); i-- {
		body := clip(f.rows[i].body)
		switch {
		case strings.Contains(body, `File "`), setting.MatchString(body):
		case trainingWords.MatchString(body):
			if other {
				return untrained
			}
			return trainingNamed
		case otherWords.MatchString(body):
			other = true
		}
	}
	return untrained
}

// ofTraining reports whether something says that a program trains, so that what it predicts without gradients is a
// validation.
func (f *finding) ofTraining(calls []frame) bool {
	for i := len(calls) - 1; i >= 0; i-- {
		c := calls[i]
		p := strings.ReplaceAll(c.path, `\`, "/")
		switch {
		case launcher.MatchString(p):
		case trainingName.MatchString(c.name), trainingFile.MatchString(path.Base(p)), validationFile.MatchString(p):
			return true
		case !c.installed() && (otherName.MatchString(c.name) || otherFile.MatchString(path.Base(p))):
			return false
		}
	}
	for i := f.at; i >= max(0, f.at-aheadRows); i-- {
		body := clip(f.rows[i].body)
		if !strings.Contains(body, "File \"") && !setting.MatchString(body) && (trainingWords.MatchString(body) ||
			validationWords.MatchString(body)) {
			return true
		}
	}
	return false
}

var (
	validationFile  = rx(`(?i)(?:^|[/_.-])(?:eval\w*|valid\w*|val|metrics?)(?:[_.-][\w.-]*)?\.py$`)
	validationWords = rx(`(?i)\b(?:evaluat\w+|validat\w+)\b`)
)

// otherWords are those of other work, nearer to the failure than any of training.
var otherWords = rx(`(?i)\b(?:quanti[sz]ing|calibrating|embedding|encoding|extracting|simulating|rendering|` +
	`generating|sampling|inferr?ing|inference|` +
	`predicting|exporting|benchmarking|profiling|prompt executed|got prompt)\b`)

// setting is a line that lists a setting, which says nothing of what is done: "eval_steps: 500", "Resuming from
// checkpoint: False".
var setting = rx(`(?i)^[\s{,'"*-]*[\w.\- ]{1,48}['"]?\s*[:=]\s*(?:false|none|null|no|off|true|yes|on|''|""|` +
	`-?[\d.e+-]+|\[\])[\s,})]*$`)
