package oom

import (
	"path"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"
)

// A forward pass is in training, in validation, in a quantization, in an embedding of a data set, in a simulation:
// its own frames do not tell. It is called training's only where something says so: the functions and files around
// it, a loop that only training has, or the words and counters that the program printed before.

var (
	// trainingName are functions and methods, and trainingFile files, of a training.
	trainingName = rx(`(?i)(?:^|_)(?:train|training|trainer|trains|finetune|fine_tune|finetuning|pretrain|fit|epoch|` +
		`sft|dpo|ppo|grpo|distill|optimize|loss|losses|criterion|reconstruct\w*_loss)(?:_|\d*$)|^p_losses|Trainer|^learn$`)
	trainingFile = rx(`(?i)(?:^|[_.-])(?:train|trainer|training|finetune|fine_tune|finetuning|pretrain|sft|dpo|grpo|` +
		`main_train|fit|loss|losses)[a-z\d]*(?:[_.-][\w.-]*)?\.py$|/trainers?/|/training/`)
	// otherName are functions and files of other work with a model.
	otherName = rx(`(?i)quanti[sz]|gptq|(?:^|_)awq|calibrat|(?:^|_)embed(?:_|$|dings?$)|(?:^|_)encode|extract|simulat|` +
		`(?:^|_)render|(?:^|_)(?:demo|serve|server|serving|export|onnx|caption|describe|transcribe|translate|chat|` +
		`complete|score|rank|retrieve|index|search|preprocess|cache|latents?|features?|profile|bench|benchmark|warm_?up|` +
		`detect|segment|upscale|enhance|denoise|rollout|explain|attribut\w*|saliency|count_flops|flops|summary|convert|` +
		`merge|prune|trace|compile|visuali[sz]e|plot)(?:_|$)`)
	otherFile = rx(`(?i)(?:^|[_.-])(?:quanti[sz]\w*|gptq|awq|calibrat\w*|embed(?:dings?)?|encode|extract\w*|simulat\w*|` +
		`render|demo|serve|server|export|onnx|caption|preprocess|cache|profile|bench\w*|inference|infer|predict|generate|` +
		`sample|app|webui|gradio\w*|detect|upscale|convert|chat|api|cli|nodes|execution)(?:[_.-][\w.-]*)?\.py$|` +
		`/pipelines?/|sentence_transformers/`)
	// trainingPath are library files through which a forward goes in training only, or nearly so: replicas, wrappers that
	// average gradients, autocast's wrapper of Accelerate, activation checkpointing.
	trainingPath = rx(`torch/nn/parallel/(?:parallel_apply|data_parallel|distributed)\.py|` +
		`accelerate/utils/operations\.py|torch/utils/checkpoint\.py|deepspeed/runtime/engine\.py|` +
		`fsdp/(?:fully_sharded_data_parallel|_fully_shard)|megatron/`)
	trainingSource = rx(`(?i)\btrain(?:er|ing|_\w+)?\b|\b\w*loss(?:es)?\w*\b|\bbackward\(|optimi[sz]er|` +
		`\.(?:fit|fit_generator|fit_one_cycle|fine_tune)\(`)
	trainingWords = rx(`(?i)\b(?:training|trainer|train|fine-?tun\w*|pre-?training|epochs?|learning[_ ]rate|` +
		`optimi[sz]er|\w{0,8}[_ ]?loss)\b`)
)

// setting is a line that lists a setting, which says nothing of what is done: "eval_steps: 500", "Resuming from
// checkpoint: False".
var setting = rx(`(?i)^[\s{,'"*-]*[\w.\- ]{1,48}['"]?\s*[:=]\s*(?:false|none|null|no|off|true|yes|on|''|""|` +
	`-?[\d.e+-]+|\[\])[\s,})]*$`)

// otherWords are those of other work, nearer to the failure than any of training.
var otherWords = rx(`(?i)\b(?:quanti[sz]ing|calibrating|embedding|encoding|extracting|simulating|rendering|` +
	`generating|sampling|inferr?ing|inference|predicting|exporting|benchmarking|profiling|prompt executed|got prompt)\b`)

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
		if trainingPath.MatchString(c.path) {
			return trainingNamed
		}
	}
	top := f.at
	if len(calls) > 0 {
		top = calls[0].row
	}
	for i := first - 1; i >= 0; i-- {
		c := calls[i]
		if launcher.MatchString(c.path) ||
			c.installed() && !strings.Contains(c.path, "rainer") && !otherFile.MatchString(c.path) {
			continue
		}
		switch {
		case trainingName.MatchString(c.name), trainingSource.MatchString(f.sourceOf(c)):
			return trainingNamed
		case otherName.MatchString(c.name), otherFile.MatchString(path.Base(c.path)), otherFile.MatchString(c.path) &&
			c.installed():
			return untrained
		case trainingFile.MatchString(path.Base(c.path)), trainingFile.MatchString(c.path) && !c.installed():
			return trainingFiles
		}
	}
	other := false
	for i := top - 1; i >= max(0, top-aheadRows); i-- {
		body := printed.Clip(f.rows[i].Body)
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
		switch {
		case launcher.MatchString(c.path):
		case trainingName.MatchString(c.name), trainingFile.MatchString(path.Base(c.path)),
			validationFile.MatchString(c.path):
			return true
		case !c.installed() && (otherName.MatchString(c.name) || otherFile.MatchString(path.Base(c.path))):
			return false
		}
	}
	for i := f.at; i >= max(0, f.at-aheadRows); i-- {
		body := printed.Clip(f.rows[i].Body)
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

// What the frames of a program's own functions tell where no library's frame does: what a line of source makes, and in
// which functions it is.

var (
	// makesData are lines that read or build a set of data: torch's, NumPy's, pandas', scikit-learn's and datasets' calls.
	makesData = rx(`^(?:[\w.]+, ?)*(?:self\.)?_?(?:(?:\w+_)?(?:train|training|val|valid|validation|test|` +
		`eval)_?(?:(?:data|set|loader|images|labels|features)\w*|(?:ds|dl|x|y|df)\b)|` +
		`(?:[xyXY]|data|images|labels|features|df)_(?:train|val|valid|test)\w*)(?:, ?[\w.]+)* ?= ?[\w.]|` +
		`\b[A-Z]?\w*(?:Dataset|DataLoader|DataModule)\(|\b(?:load_dataset|get_dataloader|get_dataset|build_dataset|` +
		`build_dataloader|make_dataset|create_dataset)\w*\(|\b(?:np|numpy)\.(?:load|loadtxt|genfromtxt|fromfile|` +
		`memmap)\(|\b(?:pd|pl|pandas)\.(?:read_\w+|concat|merge|get_dummies)\(|\.fit_transform\(|` +
		`\.map\(.{0,80}(?i:tokeni[sz])|\btokeni[sz]\w*\.map\(|\bfrom_tensor_slices\(`)
	feeds    = rx(`\.(?:fit|fit_generator|train_on_batch|evaluate)\(`)
	lossName = rx(`(?i)(?:^|_)(?:loss|losses|criterion)(?:_|$)`)
)

// working is the phase by the program's own functions, given the phase by names of frames: data by the line of source,
// a training's forward pass by a loss below a training. Unknown where they add nothing.
func (f *finding) working(calls []frame, byName Phase) Phase {
	n := ownFrame(calls)
	if n < 0 {
		return Unknown
	}
	if byName != Validation && byName != Checkpoint && makesData.MatchString(f.statement(calls[n])) {
		return Data
	}
	if calls[len(calls)-1].name == "convert_to_eager_tensor" && feeds.MatchString(f.statement(calls[n])) {
		return Data // Keras copies all of it to the card
	}
	if byName == Unknown && lossName.MatchString(calls[n].name) &&
		inAny(calls[:n], trains) {
		return TrainForward
	}
	return Unknown
}

// ofGraph reports whether TensorFlow or Theano ran a whole graph, of which its frames do not name the part.
func ofGraph(calls []frame) bool {
	n := len(calls) - 1
	if n < 0 {
		return false
	}
	p := calls[n].path
	return strings.Contains(p, "theano/compile/") || strings.Contains(p, "tensorflow/python/") &&
		slices.Contains([]string{"quick_execute", "_call_tf_sessionrun", "_do_call", "_do_run"}, calls[n].name)
}

// movesToCard reports whether a module is moved to the card within a step of training: what is moved there and back is
// a part of the step's work, and no building of the model.
func movesToCard(calls []frame) bool {
	n := len(calls) - 1
	if n < 0 || !movesModule.MatchString(calls[n].name) || !strings.HasSuffix(calls[n].path,
		"torch/nn/modules/module.py") {
		return false
	}
	return inAny(calls[:n], inStep)
}

var (
	movesModule = rx(`^(?:_apply|convert|to|cuda)$`)
	inStep      = rx(`^(?:compute_loss\w*|training_step\w*|train_step\w*|train_batch|forward_step|_?optimizer_closure)$`)
)

// byReference reports whether a training calls another model than the one that it trains, which keeps nothing for a
// backward pass: the reference of a reinforcement, the teacher of a distillation.
func (f *finding) byReference(calls []frame) bool {
	return slices.ContainsFunc(calls, func(c frame) bool { return referenceCall.MatchString(f.statement(c)) })
}

var referenceCall = rx(`^(?:ref|reference|teacher)_\w+ *= *.*\b(?:ref|reference|teacher)_(?:policy|model|net)\b`)

// nearer corrects the phase by what is nearer to the failure than the frame that named it.
func (f *finding) nearer(calls []frame, frames Phase, exact bool) (Phase, bool) {
	switch {
	case frames == Build && movesToCard(calls), !exact && frames == TrainForward && f.byReference(calls):
		return Unknown, false
	case !exact && frames == TrainForward && f.tests(calls):
		return Validation, true
	}
	return frames, exact
}

// tests reports whether the line above a traceback is a program's word that it begins to test or to validate.
func (f *finding) tests(calls []frame) bool {
	if len(calls) == 0 {
		return false
	}
	for i := calls[0].row - 1; i >= max(0, calls[0].row-headLines); i-- {
		body := strings.TrimSpace(f.rows[i].Body)
		switch {
		case body == "", strings.Trim(body, "-") == "", strings.Contains(body, "Traceback (most recent call last)"):
		default:
			return beginsTest.MatchString(body)
		}
	}
	return false
}

var beginsTest = rx(`(?i)^\W*(?:start(?:ing|ed)?|begin(?:ning)?|running|now) (?:the )?(?:test(?:ing)?|` +
	`validat(?:ion|ing)|evaluat(?:ion|ing))\W*$`)

// importsLibrary reports whether a library was being imported: of a process that begins, whatever it will do.
func importsLibrary(calls []frame) bool {
	n := len(calls) - 1
	return n >= 0 && calls[n].installed() && calls[n].name == "<module>" && imports(calls)
}

// byFrames is the phase by a traceback's frames and its lines of source; exact if they belong to one phase only.
func (f *finding) byFrames(calls, after []frame) (frames Phase, exact bool) {
	frames, exact = phaseOf(calls)
	if frames == Unknown {
		frames, exact = phaseOf(after)
	}
	if p := f.askedBySource(calls); p != Unknown {
		frames, exact = p, true
	} else if p := f.askedBySource(after); p != Unknown && len(calls) == 0 {
		frames, exact = p, true
	}
	if p := f.stateRead(calls); p != Unknown && (frames == Checkpoint || frames == Build) {
		frames = p
	}
	if p, sure := f.byLines(calls, frames); !exact && p != Unknown {
		frames, exact = p, sure
	}
	if !exact && frames == TrainForward && f.withoutGradients(calls) {
		frames = Validation
	}
	if !exact && !inAny(calls, forwardFrame) {
		if p := f.working(calls, frames); p != Unknown {
			frames = p
		}
	}
	frames, exact = f.nearer(calls, frames, exact)
	if !exact && (frames == TrainForward && ofGraph(calls) || frames == Build && f.ofMemory() && importsLibrary(calls)) {
		frames = Unknown
	}
	if f.rule.name == cutOffRule.name && (!exact || frames == TrainForward) {
		frames, exact = Unknown, false // the frames that would tell are missing
	}
	if !exact && frames == Validation && f.x.phase == "" && !f.ofTraining(calls) {
		frames = Unknown // a program that has no training has no validation
	}
	return frames, exact
}
