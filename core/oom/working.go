package oom

import (
	"slices"
	"strings"
)

// What the frames of a program's own functions tell where no library's frame does: what a line of source makes, and in
// which functions it is.

var (
	// makesData are lines that read or build a set of data: torch's, NumPy's, pandas', scikit-learn's and datasets' calls.
	makesData = rx(`^(?:[\w.]+, ?)*(?:self\.)?_?(?:(?:\w+_)?(?:train|training|val|valid|validation|test|eval)_?` +
		`(?:(?:data|set|loader|images|labels|features)\w*|(?:ds|dl|x|y|df)\b)|` +
		`(?:[xyXY]|data|images|labels|features|df)_(?:train|val|valid|test)\w*)(?:, ?[\w.]+)* ?= ?[\w.]|` +
		`\b[A-Z]?\w*(?:Dataset|DataLoader|DataModule)\(|\b(?:load_dataset|get_dataloader|get_dataset|build_dataset|` +
		`build_dataloader|make_dataset|create_dataset)\w*\(|\b(?:np|numpy)\.(?:load|loadtxt|genfromtxt|fromfile|memmap)\(|` +
		`\b(?:pd|pl|pandas)\.(?:read_\w+|concat|merge|get_dummies)\(|\.fit_transform\(|\.map\(.{0,80}(?i:tokeni[sz])|` +
		`\btokeni[sz]\w*\.map\(|\bfrom_tensor_slices\(`)
	feeds    = rx(`\.(?:fit|fit_generator|train_on_batch|evaluate)\(`)
	lossName = rx(`(?i)(?:^|_)(?:loss|losses|criterion)(?:_|$)`)
	trains   = rx(`(?i)(?:^|_)(?:train|training|trainer|fit|finetune|fine_tune|pretrain|epoch)(?:_|$)`)
)

// working is the phase by the program's own functions, given the phase by names of frames: data by the line of source,
// a training's forward pass by a loss below a training. Unknown where they add nothing.
func (f *finding) working(calls []frame, byName Phase) Phase {
	n := len(calls) - 1
	for n > 0 && calls[n].installed() {
		n--
	}
	if n < 0 || calls[n].installed() {
		return Unknown
	}
	if byName != Validation && byName != Checkpoint && makesData.MatchString(f.statement(calls[n])) {
		return Data
	}
	if calls[len(calls)-1].name == "convert_to_eager_tensor" && feeds.MatchString(f.statement(calls[n])) {
		return Data // Keras copies all of it to the card
	}
	if byName == Unknown && lossName.MatchString(calls[n].name) &&
		slices.ContainsFunc(calls[:n], func(c frame) bool { return trains.MatchString(c.name) }) {
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
	p := strings.ReplaceAll(calls[n].path, `\`, "/")
	return strings.Contains(p, "theano/compile/") || strings.Contains(p, "tensorflow/python/") &&
		slices.Contains([]string{"quick_execute", "_call_tf_sessionrun", "_do_call", "_do_run"}, calls[n].name)
}

// moved reports whether a module is moved to the card within a step of training: what is moved there and
// back is a part of
// the step's work, and no building of the model.
func moved(calls []frame) bool {
	n := len(calls) - 1
	if n < 0 || !movesModule.MatchString(calls[n].name) || !strings.HasSuffix(calls[n].path,
		"torch/nn/modules/module.py") {
		return false
	}
	return slices.ContainsFunc(calls[:n], func(c frame) bool { return inStep.MatchString(c.name) })
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
	case frames == Build && moved(calls), !exact && frames == TrainForward && f.byReference(calls):
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
		body := strings.TrimSpace(f.rows[i].body)
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
	if p := f.asked(calls); p != Unknown {
		frames, exact = p, true
	} else if p := f.asked(after); p != Unknown && len(calls) == 0 {
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
	if !exact && !slices.ContainsFunc(calls, func(c frame) bool { return forwardFrame.MatchString(c.name) }) {
		if p := f.working(calls, frames); p != Unknown {
			frames = p
		}
	}
	frames, exact = f.nearer(calls, frames, exact)
	if !exact && (frames == TrainForward && ofGraph(calls) || frames == Build && f.memory() && importsLibrary(calls)) {
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
