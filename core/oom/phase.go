package oom

import (
	"path"
	"slices"
	"strings"
)

// phaseRule gives a frame's phase. Frames are read from the innermost outwards, and the first one with a rule decides: a
// forward inside a backward is a recomputation, an optimizer's closure is a forward.
type phaseRule struct {
	phase      Phase
	path, name *pattern // either may be nil
	weak       bool     // decides only where nothing further out does
	either     bool     // is called in validation as well: decides unless that stands further out
}

// The places are PyTorch's, Lightning's, Accelerate's, Transformers' and DeepSpeed's; the names of functions are those
// that people give.
var phaseRules = []phaseRule{
	{phase: Data, path: rx(`torch/utils/data/`)},
	{phase: Data, name: rx(`^_?cache_(?:batch_)?(?:latents|text_encoder_outputs)\w*$`)}, // kohya's library/train_util.py
	{phase: Data, name: rx(`^(?:collate\w*|__getitem__|__getitems__|default_collate|pin_memory|load_image\w*|` +
		`read_image\w*|_?preload|_?prefetch\w*)$`)},
	{phase: Build, name: rx(`^(?:from_pretrained|load_model\w*|build_model\w*|create_model\w*|init_model\w*|` +
		`setup_model\w*|make_model\w*|build_network\w*|model_to_device|prepare_model|_prepare_one|_prepare_deepspeed|` +
		`configure_model)$`)},
	{phase: Build, path: rx(`nn/modules/module\.py`), name: rx(`^(?:_apply|convert|to|cuda|half|float|bfloat16)$`)},
	{phase: Build, path: rx(`nn/parallel/distributed\.py|fully_sharded_data_parallel\.py|fsdp/_init_utils\.py`),
		name: rx(`^(?:__init__|_init_\w+|_materialize\w*|_sync_module_states|_recursive_wrap|_auto_wrap)$`)},
	// what serves a model, before it serves: vllm/v1/worker, sglang/srt/model_executor
	{phase: Build, name: rx(`^(?:profile_run|_dummy_run|determine_(?:num_)?available_\w+|_?initialize_kv_caches?\w*|` +
		`init_kv_cache|init_memory_pool|init_torch_distributed|load_weights\w*|init_device|initialize_from_config|` +
		`init_cuda_graphs|init_device_graphs|load_checkpoint_and_dispatch|dispatch_model|set_module_tensor_to_device|` +
		`_load_state_dict_into_\w+|_load_pretrained_model|init_empty_weights|load_pipeline\w*|model_load|load_models_gpu|` +
		`load_model_gpu|load_torch_file|patch_model\w*|prepare_model_for_\w*bit_training|get_peft_model|reset_parameters|` +
		`_?init(?:ialize)?_weights|initialize_optimizer_states)$`)},
	{phase: Build, path: rx(`accelerate/accelerator\.py`), name: rx(`^prepare$`)},
	// of an average of the weights
	{phase: Build, path: rx(`(?:^|/)copy\.py|nn/parameter\.py`), name: rx(`^_*deepcopy_*$`), weak: true},
	{phase: Build, path: rx(`torch/distributed/distributed_c10d\.py`), name: rx(`^(?:barrier|monitored_barrier|` +
		`new_group|all_gather_object|broadcast_object_list)$`), weak: true},
	{phase: Build, path: rx(`deepspeed/`), name: rx(`^(?:initialize|_configure_\w*optimizer|` +
		`_configure_distributed_model)$`)},
	{phase: Build, name: rx(`^(?:setup_device|setup_environment|set_device|_lazy_init|init_process_group|` +
		`init_distributed|capture_model|capture_cuda_?graphs?|broadcast_object_list)$`)},
	// a whole state gathered onto one rank
	{phase: Checkpoint, path: rx(`fsdp/(?:_state_dict_utils|_optim_utils|_unshard_param_utils)\.py|` +
		`torch/distributed/checkpoint/state_dict\.py`),
		name: rx(`state_dict|unflatten|gather|clone`)},
	{phase: Checkpoint, name: rx(`^(?:\w*consolidated_16bit_state_dict|safe_save\w*|trainer_save_model\w*|` +
		`_?save_(?:full_|final_)?model\w*|get_full_state_dict|get_(?:model_|optimizer_)?state_dict|` +
		`get_checkpoint_state_dict|unwrap_model_for_saving|save_safetensors\w*)$`)},
	{phase: Checkpoint, path: rx(`torch/serialization\.py|/safetensors/|torch/distributed/checkpoint/`)},
	{phase: Checkpoint, name: rx(`^(?:_?(?:save|load|restore|resume|write|dump|export)(?:_\w*)?(?:checkpoint|ckpt|` +
		`state|states|weights|snapshot|resume)\w*|save|save_model|save_pretrained|save_network|state_dict|` +
		`load_state_dict|torch_save|resume_training)$`)},
	{phase: Optimizer, path: rx(`torch/optim/(?:[^l]|l[^r])|/apex/optimizers/|/bitsandbytes/optim/`)},
	{phase: Optimizer, name: rx(`^(?:_multi_tensor_\w+|_single_tensor_\w+|_init_group|optimizer_step|_optimizer_step|` +
		`_take_model_step|step_optimizer|\w*optim_(?:\w+_)?step)$`)},
	{phase: Optimizer, path: rx(`torch/(?:cuda/)?amp/grad_scaler\.py`), name: rx(`^(?:step|_maybe_opt_step|unscale_|` +
		`_unscale_grads_)$`)},
	{phase: Optimizer, path: rx(`deepspeed/runtime/(?:zero|fp16|bf16)`), name: rx(`^step$`)},
	// of others than torch: fastai's, fairseq's, timm's, MMEngine's, Transformers', Paddle's, a program's own
	{phase: Optimizer, path: rx(`(?i)(?:^|/)(?:\w*optim\w*|adam\w*|adafactor|lion|lamb|sam|muon|shampoo)\.py$|` +
		`(?:fairseq|timm|paddle|mxnet|oneflow)/optim\w*/[^l]\w*\.py$|/pytorch_optimizer/`), name: rx(`^_?(?:step|` +
		`first_step|second_step|average_(?:sqr_)?grad|update_multi_precision|append_optimize_op|_?apply_optimize)$`)},
	// keras/optimizers/, tensorflow/python/training/
	{phase: Optimizer, path: rx(`(?:^|/)(?:tf_)?keras/(?:\w+/)*optimizers?\w*/|tensorflow/python/training/`),
		name: rx(`^_?(?:_?resource_apply_\w+|apply_grad\w*|_?distributed_apply\w*|_internal_apply_gradients|` +
			`_?update_step\w*|_?backend_(?:apply_gradients|update_step)|_create_slots|add_slot|add_variable_from_reference|` +
			`add_optimizer_variables|build)$`)},
	{phase: TrainBackward, path: rx(`tensorflow/python/(?:eager/backprop\.py|ops/\w+_grad\.py)`)},
	{phase: TrainBackward, path: rx(`torch/_tensor\.py|torch/tensor\.py|autograd/graph\.py|autograd/__init__\.py`),
		name: rx(`^(?:backward|_engine_run_backward|grad)$`)},
	{phase: Optimizer, name: rx(`^(?:clip_grad_norm_?|clip_grad_value_|clip_grads_with_norm_|zero_grad)$`)}, // torch/nn/utils/clip_grad.py
	{phase: TrainBackward, name: rx(`^(?:\w*backward\w*|unscale_and_clip_grads|_post_backward\w*|` +
		`\w*(?:ipg_grads|scatter_grads|reduce_independent_p_g|reduce_ready_part)\w*)$`)}, // DeepSpeed's ZeRO
	{phase: TrainForward, name: rx(`^(?:compute_loss\w*|shared_step|_step|_?common_step|evaluate_actions)$`),
		either: true},
	{phase: TrainForward, name: rx(`^(?:training_step\w*|train_step\w*|run_step|train_one_\w+|train_batch|` +
		`train_on_batch|forward_step|_?optimizer_closure|closure|fit_batch|do_train\w*|optimize_parameters|_?train_epoch|` +
		`train_for_one_epoch|_inner_training_loop)$`)},
	{phase: Validation, name: rx(`^_*(?:\w+_)?(?:eval|evaluate|evaluation|evaluator|valid|validate|validation|val|test|` +
		`testing)(?:_\w+)?$`)},
	// a training samples and predicts to validate; so do programs that have no training, and steps of one
	{phase: Validation, name: rx(`^_*(?:\w+_)?(?:infer|inference|predict|prediction|generate|sample)(?:_\w+)?$`),
		weak: true},
	{phase: Validation, name: rx(`^_*(?:get|compute|calculate|calc|eval|measure)_(?:\w+_)?(?:fid|kid|inception_score|` +
		`psnr|ssim|lpips|niqe|miou|metrics?)(?:_and_\w+|_\w*score\w*)?$`)},
	{phase: Validation, name: rx(`^(?:\w+_)?estimate_(?:\w+_)?loss\w*$`)}, // nanoGPT's, and those of its descendants
	{phase: Validation, path: rx(`transformers/trainer_pt_utils\.py`), name: rx(`^(?:nested_\w+|\w*pad_and_concatenate|` +
		`distributed_concat)$`)},
	{phase: Validation, path: rx(`(?:^|/)(?:evaluation|evaluators?|evaluate|validate|validation|inference|predictor|` +
		`predict|metrics?)(?:/[^/]*)?\.py$|/(?:evaluation|evaluators?|metrics)/`)},
	{phase: Validation, path: rx(`(?:^|/)(?:val|eval)\.py$`), name: rx(`^run$`)}, // YOLOv5's, called by its train.py
	{phase: Validation, name: rx(`^decorate_context$`), weak: true},
	{phase: Data, path: dataFile, name: constructor, weak: true},
	{phase: Build, name: constructor, weak: true},
	{phase: Build,
		name: rx(`^_?(?:create|build|make|init|setup)_(?:from_\w+|(?:\w+_)?(?:models?|net|networks?|encoders?|decoders?|` +
			`backbone|unet|vae|transformer|generator|discriminator|gaussians?|(?:train_?)?state|` +
			`optimi[sz]ers?)(?:_\w+)?)$`), weak: true},
	{phase: TrainForward, name: rx(`^(?:update|learn)$`), weak: true}, // of algorithms that keep their own loop: RL, DomainBed
	{phase: TrainForward, name: rx(`^(?:train|training|fit)(?:_loop|_model|_net\w*|_epoch\w*|_iter\w*)?$`), weak: true},
}

var (
	// constructor is Python's; a page that reads Markdown takes its underscores off.
	constructor = rx(`^_{0,2}init_{0,2}$`)
	dataFile    = rx(`(?i)(?:^|[/_.-])(?:datasets?|dataloaders?|data_?loaders?|data_?modules?|data)(?:\.py$|/)`)
)

var (
	// forwardFrame is one of a module's forward: the default, where nothing else is said.
	forwardFrame = rx(`^(?:forward|call|_call_impl|_wrapped_call_impl|_slow_forward|gather|parallel_apply|` +
		`_conv_forward)$`)
	// launcher is what starts a program, and takes no part in it.
	launcher = rx(`torch/distributed/(?:elastic|launcher|run\.py|launch\.py)|<frozen|/multiprocessing/`)
	trains   = rx(`(?i)(?:^|_)(?:train|training|trainer|fit|finetune|fine_tune|pretrain|epoch)(?:_|$)`)
)

// is reports whether a rule is about a frame.
func (r *phaseRule) is(f frame) bool {
	return (r.path == nil || r.path.MatchString(f.path)) && (r.name == nil || r.name.MatchString(f.name)) &&
		!(r.phase == Validation && r.name != nil && pytested(f))
}

// phaseOf reads frames, outermost first. It is exact if a frame belongs to one phase only, and not for a forward, which may
// belong to training or to validation.
func phaseOf(frames []frame) (phase Phase, exact bool) {
	weak, forward, inner := Unknown, false, "" // inner is the name of the frame that gave the weak phase
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		if launcher.MatchString(f.path) {
			continue
		}
		for _, r := range phaseRules {
			if !r.is(f) {
				continue
			}
			if r.phase == Checkpoint && pretrained(frames[:i+1]) {
				return Build, true
			}
			if r.phase == Validation && (ofForward(frames[:i+1]) || r.name != nil && strings.Contains(f.name, "train")) {
				break // a module's own, in training too; or "train_and_evaluate"
			}
			if r.either && validates(frames[:i]) {
				return Validation, true
			}
			if r.phase == Validation && weak == TrainForward && trains.MatchString(inner) {
				return weak, false // a validation of settings, which trains to compare them
			}
			if !r.weak {
				return r.phase, true
			}
			if weak == Unknown && !(forward && r.phase.prepares()) {
				weak, inner = r.phase, f.name
			}
			break
		}
		if forwardFrame.MatchString(f.name) || f.name == "__call__" && path.Base(f.path) == "module.py" {
			forward = true
			if weak.prepares() {
				weak = Unknown // what a forward makes is its own
			}
		}
	}
	switch {
	case weak != Unknown:
		return weak, false
	case forward:
		return TrainForward, false
	case imports(frames):
		return Build, false
	}
	return Unknown, false
}

// prepares reports whether a phase is one of making what the others use.
func (p Phase) prepares() bool { return p == Build || p == Data }

// A linePhase is a phase by a line of source.
type linePhase struct {
	phase Phase
	re    *pattern
}

// phaseByLine is that of the first pattern that a text matches.
func phaseByLine(phases []linePhase, text string) Phase {
	for _, p := range phases {
		if p.re.MatchString(text) {
			return p.phase
		}
	}
	return Unknown
}

// pytested reports whether a function is a test of code, and not a test of a model.
func pytested(f frame) bool {
	return strings.HasPrefix(f.name, "test_") && strings.HasPrefix(path.Base(f.path),
		"test_")
}

// callPhases are read in the last source line of a traceback whose printer left out torch's frames. The line has no other
// call that could have asked for memory.
var callPhases = []linePhase{
	{Build, rx(`^(?:\w+ = )?(?:self\.)?(?:\w*_)?(?:model|net|network|unet|vae|netG|netD|generator|discriminator|` +
		`backbone)\w*(?:\.module)?\.(?:to|cuda)\([^()]*\)$|^[\w.]+ = (?:\w+\.)*[A-Z]\w+\(.*\)\.(?:to|cuda)\([^()]*\)$`)},
	{TrainBackward, rx(`^(?:(?:Variable|torch\.autograd\.Variable)\._execution_engine\.run_backward|` +
		`torch\.autograd\.(?:backward|grad)|(?:[\w.\[\]]+\.)?(?:scale\([^()]*\)\.|(?:sum|` +
		`mean)\(\)\.)?(?:manual_)?backward|\([^()]*\)\.backward)\([^()]*\)?$`)},
	{Optimizer, rx(`^(?:\w+ = )?(?:[\w.\[\]'"]+\.)?(?:\w*optim(?:izers?)?(?:_\w+)?|opt(?:_\w+|\d*)|(?:\w+_)?scaler(?:_\w+)?)(?:\[\w+\])?\.step\([^()]*\)?$`)},
}

// stepPhases are read in the innermost line outside installed packages: a compiled function's own frames are not
// there (JAX).
var stepPhases = []linePhase{
	{Build, rx(`\b(?:(?:global|local|all)_variables_initializer|variables_initializer|initialize_all_variables)\(|` +
		`\b(?:init|create|make|build|setup|initiali[sz]e)_(?:\w+_)?(?:train_?)?state\(|\bmodel\.init\(|` +
		`\bTrainState\.create\(`)},
	{Validation, rx(`(?:^|= ?|[\s.])\w*(?:eval_step|validation_step|valid_step|test_step|evaluate\w*|validate\w*)\(`)},
}

// byLines is the phase of a forward pass by the lines that a traceback shows around its calls, given the phase by names
// of frames; exact if they leave no doubt.
func (f *finding) byLines(calls []frame, byName Phase) (phase Phase, exact bool) {
	switch {
	case byName == TrainForward:
	case byName == Validation && f.differentiated(calls):
		return TrainForward, true
	case byName == Unknown && f.calledInStep(calls):
	default:
		return byName, false
	}
	if p, sure := f.around(calls); p == Validation || p == TrainForward {
		return p, sure
	}
	return byName, false
}

// moves reports whether the statement that failed moves a batch to the card, in no phase that a counter tells.
func (f *finding) moves(calls []frame) bool {
	return len(calls) > 0 && movesBatch.MatchString(f.statement(calls[len(calls)-1]))
}

var movesBatch = rx(`^\w+(?:, *\w+)* *= *[^=].*\.(?:to|cuda)\([^()]*\)$`)

// stateRead is the phase by the line that asked for a state to be read: one that a training begins with, or one to go
// on from. Unknown where the line does not tell.
func (f *finding) stateRead(calls []frame) Phase {
	n := len(calls) - 1
	if n < 0 || !readingName.MatchString(calls[n].name) {
		return Unknown
	}
	line := f.statement(calls[max(0, ownFrame(calls))])
	switch {
	case goesOnFrom.MatchString(line):
		return Checkpoint
	case firstWeights.MatchString(line) && !savedState.MatchString(line):
		return Build
	}
	return Unknown
}

var (
	firstWeights = rx(`(?i)pre_?train|weights|backbone|imagenet`)
	savedState   = rx(`(?i)checkpoint|ckpt|last|latest`)
	goesOnFrom   = rx(`(?i)\bresume|\brestore|optim\w*\.load_state_dict\(`)
)

// named reports whether one of some frames bears a name of a training, so that a forward in it is training's.
func named(calls []frame) bool {
	return slices.ContainsFunc(calls, func(c frame) bool {
		return slices.ContainsFunc(phaseRules, func(r phaseRule) bool {
			return r.phase == TrainForward && r.name.MatchString(c.name)
		})
	})
}

// askedBySource is the phase by the source line of the innermost of some frames.
func (f *finding) askedBySource(calls []frame) Phase {
	if len(calls) == 0 {
		return f.leftOver()
	}
	if p := phaseOfCall(callPhases, f.statement(calls[len(calls)-1])); p != Unknown {
		return p
	}
	n := ownFrame(calls)
	if n < 0 || inAny(calls[n:], forwardFrame) {
		return Unknown
	}
	if _, exact := phaseOf(calls[n+1:]); exact {
		return Unknown // DeepSpeed's engine steps within what Accelerate calls backward
	}
	return phaseOfCall(slices.Concat(callPhases, stepPhases), f.statement(calls[n]))
}

// phaseOfCall is the phase by a line of source; a scheduler's step is none of an optimizer.
func phaseOfCall(phases []linePhase, line string) Phase {
	if strings.Contains(line, "sched") {
		return Unknown
	}
	return phaseByLine(phases, line)
}

// leftOver is the phase by the one source line of a traceback that a paste has cut everything else from: the line right
// above the message, as far to the right as Python prints source. A call of that kind builds no model.
func (f *finding) leftOver() Phase {
	if f.at == 0 || f.at > len(f.rows) || !strings.HasPrefix(f.rows[f.at-1].Body, "    ") {
		return Unknown
	}
	return phaseOfCall(callPhases[1:], strings.TrimSpace(f.rows[f.at-1].Body))
}

// method is what modules call the parts of their forward as well (Ultralytics, nn/tasks.py; Keras' predict is none of these).
var method = rx(`^_?(?:predict|infer|inference|generate|sample|test)(?:_once|_impl|_step)?$`)

// ofForward reports whether the innermost frame is a method that a module's forward has called.
func ofForward(frames []frame) bool {
	i := len(frames) - 1
	for i >= 0 && method.MatchString(frames[i].name) {
		i--
	}
	return i >= 0 && i < len(frames)-1 && frames[i].name == "forward"
}

// validates reports whether, in the frames around a step, validation is nearer than training.
func validates(outer []frame) bool {
	for i := len(outer) - 1; i >= 0; i-- {
		for _, r := range phaseRules {
			if !r.weak && !r.either && r.path == nil && r.name.MatchString(outer[i].name) &&
				(r.phase == Validation || r.phase == TrainForward) {
				return r.phase == Validation
			}
		}
	}
	return false
}

// imports reports whether a module was being imported: the code of one file that another's asked for.
func imports(frames []frame) bool {
	modules, last := 0, ""
	for _, f := range frames {
		if f.name == "<module>" && f.path != last {
			modules++
			last = f.path
		}
	}
	n := len(frames) - 1
	return modules > 1 && n >= 0 && (frames[n].name == "<module>" || frames[n].name == "" || strings.HasPrefix(frames[n].path, "<frozen"))
}

// pretrained reports whether a state is read to build a model, not to resume training.
func pretrained(outer []frame) bool {
	build := false
	for _, f := range outer {
		if resumes.MatchString(f.name) {
			return false
		}
		build = build || builds.MatchString(f.name) ||
			readsModel.MatchString(f.name) && modelFile.MatchString(f.path)
	}
	return build
}

var (
	builds = rx(`^(?:from_pretrained|(?:_?load|build|create|init|setup|make|get)_(?:model|pretrained)\w*)$`)
	// where Transformers, Diffusers and Accelerate read the weights of a model
	modelFile = rx(`transformers/(?:modeling_utils|core_model_loading)\.py|diffusers/(?:models|loaders|pipelines)/|` +
		`accelerate/(?:utils/modeling|big_modeling)\.py`)
	readsModel = rx(`^_?load_`)
	// what a trainer reads to go on, as people, Lightning and Transformers name it
	resumes = rx(`^_?(?:resume|restore)(?:_\w+)?$|resume_from|^_load_(?:from_checkpoint|optimizer_and_scheduler)$`)
)

// readingName and readingPath are of frames in which a state is read; for what, only those around them say.
var (
	readingName = rx(`^_?(?:load\w*|get_tensor|_cuda_deserialize|_rebuild\w*)$|^cuda_deserialize$`)
	readingPath = rx(`torch/serialization\.py|/safetensors/|torch/distributed/checkpoint/`)
)
