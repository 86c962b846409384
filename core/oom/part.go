package oom

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"
)

// A partRule gives a frame's part. Frames are read from the innermost outwards, and the first one with a rule decides.
type partRule struct {
	part       Part
	path, name *pattern // either may be nil
}

var (
	// The places are of PyTorch, torchvision, TorchMetrics, Lightning, Transformers, Accelerate and of loggers; the other names
	// are those that people give.
	partRules = []partRule{
		// lightning/pytorch/trainer/trainer.py; before 1.5 in pytorch_lightning/trainer/trainer.py
		{part: SanityCheck, name: rx(`^_?run_sanity_(?:check|val\w*)$`)},
		{part: ImageLogging, path: rx(`torchvision/utils\.py|torch/utils/tensorboard/|tensorboardX/|wandb/sdk/data_types/`)},
		{part: ImageLogging, name: rx(`^_?(?:(?:log|save|write|dump|plot|draw|add|render|make)_(?:\w+_)?(?:imgs?|images?|` +
			`figures?|videos?|pictures?|grids?|plots?|samples?|previews?|visuals?)(?:_\w+)?|log_local|log_img|make_grid|` +
			`visuali[sz]e\w*|plot|tensor2img|tensor2im)$`)},
		{part: Metric, path: rx(`(?:^|/)(?:torchmetrics|torcheval|lpips|piq|pyiqa|cleanfid|torch_fidelity|pytorch_fid|` +
			`pytorch_msssim|pycocotools|skimage/metrics|sklearn/metrics)/`)},
		{part: Metric, path: rx(`(?:^|/)metrics?(?:/\w+)*(?:/\w+)?\.py$|(?:^|/)(?:\w+_)?metrics?\.py$`)},
		{part: Metric, name: rx(`^_?(?:(?:compute|calculate|calc|update|eval|evaluate|get|measure)_(?:\w+_)?(?:metrics?|` +
			`psnr|ssim|lpips|fid|kid|niqe|iou|miou|map|auc|accuracy|scores?|statistics)(?:_\w+)?|psnr|ssim|ms_ssim|lpips|fid|` +
			`miou|accuracy|preprocess_logits_for_metrics|nested_concat|add_batch)$`)},
		{part: Save, path: rx(`torch/serialization\.py`), name: rx(`^_?(?:legacy_)?save$|^persistent_id$|^__exit__$`)},
		{part: Save, path: rx(`/safetensors/`), name: rx(`^(?:save|save_file|save_model|_tobytes|_flatten)$`)},
		{part: Save, name: rx(`^_?(?:save|dump|write|export)(?:_\w*)?(?:checkpoint|ckpt|state|states|weights|snapshot|` +
			`model|network)\w*$|^save_pretrained$|^torch_save$`)},
		// lightning/pytorch/trainer/connectors/checkpoint_connector.py, transformers/trainer.py, accelerate/checkpointing.py
		{part: Resume, name: rx(`^_?(?:resume|restore)(?:_\w+)?$|^_load_(?:from_checkpoint|optimizer_and_scheduler|` +
			`rng_state)$|^load_accelerator_state$|^\w*resume_(?:from|training|state|checkpoint)\w*$`)},
		{part: Resume, path: rx(`torch/optim/`), name: rx(`^load_state_dict$|^_process_value\w*$`)},
		{part: Load, name: rx(`^(?:from_pretrained|load_(?:\w+_)?(?:model|weights?|network|pretrained|unet|vae|` +
			`lora)(?:_\w+)?|init_from_\w+|load_checkpoint_in_model|_load_pretrained_model|_load_state_dict_into_\w+)$`)},
	}
	// Of a state that an optimizer makes at its first step, the frame is the one that makes it: torch/optim since 2.0 does so in
	// _init_group, and calls nothing there that has a frame; before, the source line says so.
	makesStates = rx(`\b(?:zeros_like|torch\.zeros|empty_like|full_like)\(|exp_avg|momentum_buffer`)
	// partWords are read beside evidence whose frames do not tell.
	partWords = []struct {
		part Part
		re   *pattern
	}{
		// lightning/pytorch/callbacks/progress/tqdm_progress.py; until 1.7 "Validation sanity check"
		{SanityCheck, rx(`Sanity Check(?:ing)?\b|Validation sanity check`)},
		{ImageLogging, rx(`(?i)\b(?:logging|saving|writing|sampling|visuali[sz]ing) (?:\w+ ){0,2}(?:images|samples|grids?|figures|videos?)\b`)},
		{Metric, rx(`(?i)\b(?:comput|calculat|evaluat|measur)ing (?:the |\w+ ){0,2}(?:metrics?|fid|kid|psnr|ssim|lpips|inception score|miou)\b`)},
		{Save, rx(`(?i)\bsaving (?:the |\w+ ){0,2}(?:model|checkpoint|state|weights|snapshot)`)},
		// "Restoring states from the checkpoint path at": lightning's checkpoint_connector.py
		{Resume, rx(`(?i)\bresum(?:e|ing) (?:from|training|state|the )|restoring states from the checkpoint`)},
		{Load, rx(`(?i)\bloading (?:the |\w+ ){0,2}(?:checkpoint shards|weights|pretrained|model|pipeline)|load(?:ing)? .{0,60}weights:`)},
	}
)

// part says what was going on in the report's phase: frames first, then the progress bar that was being drawn and the
// plugin's counts, then the words around.
func (r *Report) part(f *finding, calls, after []frame, s State) Part {
	frames := calls
	if len(frames) == 0 {
		frames = after
	}
	training := r.Phase.Coarse() == "training" || f.phase == "training"
	if p := partOf(frames); p != "" && !(training && p == Metric) {
		return p
	}
	if training {
		if f.firstStep(frames, s) {
			return FirstStep
		}
		return ""
	}
	told := f.partOfWords()
	switch {
	case r.Phase == Unknown, r.Phase == Validation && told != Save && told != Load && told != Resume,
		r.Phase == Checkpoint && (told == Save || told == Load || told == Resume),
		r.Phase == Build && (told == Load || told == Resume):
		return told
	}
	return ""
}

// partOf reads frames, outermost first.
func partOf(frames []frame) Part {
	reading := false
	for i := len(frames) - 1; i >= 0; i-- {
		for _, r := range partRules {
			if (r.path == nil || r.path.MatchString(frames[i].path)) && (r.name == nil || r.name.MatchString(frames[i].name)) {
				if r.part == Load && slices.ContainsFunc(frames[:i], func(o frame) bool { return partOf([]frame{o}) == Resume }) {
					return Resume
				}
				return r.part
			}
		}
		reading = reading || readingPath.MatchString(frames[i].path) && readingName.MatchString(frames[i].name)
	}
	if reading {
		return Load
	}
	return ""
}

// firstStep reports whether a failure was in the first step of training. A missing line proves nothing: many programs print
// only every hundredth step.
func (f *finding) firstStep(frames []frame, s State) bool {
	if s.Events > 0 {
		if s.Resumed != nil && s.Iteration <= s.Resumed.Iteration {
			return true // nor any since it resumed
		}
		if s.Iteration > 0 {
			return false
		}
	}
	if n := len(frames) - 1; n >= 0 {
		optim := strings.Contains(frames[n].path, "torch/optim/") || strings.Contains(frames[n].path, "/optim")
		if frames[n].name == "_init_group" || optim && makesStates.MatchString(f.sourceOf(frames[n])) {
			return true
		}
	}
	return f.barAtZero()
}

// barAtZero reports whether the last progress bar stood at none of its steps, and never moved. tqdm draws it once more when
// it is closed, which may be after the traceback.
func (f *finding) barAtZero() bool {
	last := ""
	for i := min(len(f.rows)-1, f.at+6); i >= 0; i-- {
		if b := f.rows[i].Body; !strings.Contains(b, " [") && !strings.Contains(b, " •") || len(b) > printed.Clipped {
			continue
		}
		m := printed.BarOf.FindStringSubmatch(f.rows[i].Body)
		switch {
		case m == nil:
		case last == "":
			if m[1] != "0" {
				return false
			}
			last = m[2]
		case m[2] == last && m[1] != "0":
			return false
		}
	}
	return last != ""
}

// partOfWords reads the words before evidence, the nearest first.
func (f *finding) partOfWords() Part {
	rs, at := f.rows, f.at
	for i := min(at, len(rs)-1); i >= max(0, at-12); i-- {
		text := printed.Clip(rs[i].Body)
		if strings.Contains(text, `File "`) || setting.MatchString(text) {
			continue
		}
		for _, p := range partWords {
			if p.re.MatchString(text) && !(p.part == Load && strings.Contains(text, "100%")) { // then it is over
				if p.part == Save && f.saved || (p.part == Save || p.part == Resume) && countedOn(rs, i, at) {
					break // that was over by then
				}
				return p.part
			}
		}
	}
	return ""
}
