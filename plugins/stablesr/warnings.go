package stablesr

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

// warnings are what the user should know before the training starts.
func (r *recipe) warnings(j *job.Job) (out []string) {
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	r.warnOfArguments(warn, r.environ(j))
	r.warnOfModel(warn, r.python)
	for _, d := range r.dead() {
		if strings.HasPrefix(d.key, trainerKey) { // the others come with every recipe of the project
			warn("%s has no effect: %s", d.key, d.why)
		}
	}
	if r.entry == edgePy {
		r.warnOfPreflight(warn, j)
	}
	if size := r.stateSize(); size > 0 {
		keep, ok := integer(r.root, "lightning.modelcheckpoint.params.save_top_k")
		if !ok {
			keep = 20 // main.py:600
		}
		free, path := freeSpace(file.In(r.prog.Dir, r.logs()))
		if need := unit.Bytes(keep+2) * size; keep > 0 && free > 0 && free < need {
			warn("a saved state takes %v, up to %d of them are kept, and every attempt that dies leaves one: %v in all, and %s has %v free", size, keep+1, need, path, free)
		}
	}
	return out
}

func (r *recipe) warnOfArguments(warn func(string, ...any), env []string) {
	if r.entry == mainPy {
		r.warnOfMain(warn)
	}
	v, there := r.cards()
	n, number := v.(int64)
	switch {
	case !there && r.readsDevices():
		warn("main.py stops without lightning.trainer.devices, or --devices")
	case !there:
		warn("without --gpus the training runs on the CPU")
	case r.readsDevices() && !has(r.root, keyGPUs): // Lightning itself stops at no device
	case number && n == 0 || v == "0":
		warn("--gpus 0 without its comma is the number 0: no GPU at all; --gpus 0, is the first")
	}
	if number && r.stripsGPUs() || r.entry == edgePy && number && r.stripsGPUs() {
		name := "--gpus"
		if !has(r.root, keyGPUs) {
			name = "devices"
		}
		warn("%s %d: this main.py takes its value for text and stops at a number (AttributeError); write it with a comma",
			name, n)
	}
	if !has(r.root, "lightning.logger") && r.logsToWandb() && !loggedIn(env) {
		warn("the logger is Weights & Biases, and nobody seems to be logged in: at a terminal it asks and waits; WANDB_MODE=offline or wandb login")
	}
	if r.micro > 0 && r.queue > 0 && r.queue%r.micro != 0 {
		warn("queue_size %d is no multiple of the micro-batch %d, which the first batch asserts", r.queue, r.micro)
	}
	if has(r.root, keyAccum) && r.accum == 0 {
		warn("%s is no whole number: launch does not change it", keyAccum)
	}
	if r.scalesLR() {
		warn("the learning rate is scaled by accumulation × GPUs × micro-batch: it stays what it is where that product does")
	}
}

// warnOfMain is about what main.py itself does with its arguments.
func (r *recipe) warnOfMain(warn func(string, ...any)) {
	for _, flag := range r.argv.Unknown() {
		hint := ""
		switch strings.SplitN(flag, "=", 2)[0] {
		case "--config":
			hint = ": recipes are named behind --base"
		case "--no-scale_lr":
			hint = ": --scale_lr False is what it is called"
		}
		warn("main.py has no option %s and ignores it%s", flag, hint)
	}
	for _, o := range r.main.Options() {
		if o.Required && !slices.ContainsFunc(o.Names, r.argv.Has) {
			warn("main.py stops without %s, which it requires", o.Names[len(o.Names)-1])
		}
	}
	for _, name := range laterArgs {
		if r.argv.Has("--" + name) {
			warn("--%s is an argument of Lightning 1.5 and later: with an older one main.py ignores it", name)
		}
	}
	for _, word := range r.argv.Positionals() {
		if !strings.Contains(word, "=") {
			warn("%s is no override (key=value): main.py makes a key of it that nothing reads", word)
		}
	}
	for _, idle := range r.idle {
		name, value, _ := strings.Cut(strings.TrimPrefix(idle, "--"), " ")
		if v, ok := get(r.root, trainerKey+name); ok && !trainerArgs[name].isDefault(spelled(v)) {
			warn("%s has no effect: main.py ignores a Trainer flag that says the default, and the recipe says %s; write %s%s=%s in front", idle, spelled(v), trainerKey, name, value)
		}
	}
	if !has(r.root, "data") {
		warn("the recipe has no section data: main.py stops at it before anything is trained (ConfigAttributeError)")
	}
	if !r.trains() {
		warn("without --train nothing is trained")
	}
}

// trains reports whether --train is on: given alone, or with what main.py's str2bool takes for true. An entry with an edge
// processor passes it itself.
func (r *recipe) trains() bool {
	if r.entry != mainPy {
		return true
	}
	v, given := r.argv.Get("--train")
	if !given { // generative-models' default is True (main.py:112 at 07bf8251), those of the others False
		return argDefault(r.main, "--train") == "True"
	}
	return on(v)
}

// on is what main.py's str2bool makes of the value of an option that may stand alone.
func on(v string) bool {
	return slices.Contains([]string{"", "yes", "true", "t", "y", "1"}, strings.ToLower(v))
}

// guide is what leiweiqiang's fork says of memory, at cea3b81.
const guide = "MEMORY_OPTIMIZATION_SUMMARY.md"

// logsToWandb reports whether main.py's own logger is that of Weights & Biases: it may name it and take another.
func (r *recipe) logsToWandb() bool {
	if o, ok := r.main.Declares("--wandb"); ok { // generative-models: off by default
		v, given := r.argv.Get("--wandb")
		return given && on(v) || !given && o.Default == "True"
	}
	return strings.Contains(r.main.Code, "WandbLogger") && !strings.Contains(r.main.Code,
		`default_logger_cfgs["testtube"]`)
}

// loggedIn reports whether Weights & Biases would not ask: a variable of its own says how, or a login is kept.
func loggedIn(env []string) bool {
	for _, kv := range env {
		if strings.HasPrefix(kv, "WANDB_") {
			return true
		}
		if home, ok := strings.CutPrefix(kv, "HOME="); ok {
			text, _ := file.Read(filepath.Join(home, ".netrc"), maxText)
			if strings.Contains(string(text), "wandb.ai") {
				return true
			}
		}
	}
	return false
}

func (r *recipe) warnOfModel(warn func(string, ...any), env python.Environment) {
	if r.modelErr != nil {
		warn("%v: launch works from what it measures", r.modelErr)
		return
	}
	if r.model.StableSR() {
		if r.model.Checkpointing {
			what := "One of the differentiated Tensors does not require grad"
			if r.model.UnfrozenDiff {
				what = "'dict' object has no attribute 'detach'"
			}
			warn("unet_config.params.use_checkpoint: True stops the first backward pass (%s): the checkpoint differentiates frozen parameters, and struct_cond is a dict; set it to False, which memory is counted for, as the fork did 66 minutes after its guide (2ab2079f)", what)
		}
		switch v, _ := get(r.root, keyPrecision); fmt.Sprint(v) {
		case "16", "bf16":
			warn("precision %v stops the first backward pass: structcond's attention is recomputed outside autocast (input and weight of different types)", v)
		}
		if !has(r.root, keyEMA) {
			warn("use_ema is missing and then on: the averages take %v, and from the first validation on as much again",
				averages(r.model))
		}
	}
	if a, b := truth(r.root, keyEdge, false), truth(r.root, keyUNetEdge, false); a != b && (has(r.root, keyEdge) || has(r.root, keyUNetEdge)) && strings.HasSuffix(text(r.root, keyTarget), "WithEdge") {
		warn("use_edge_processing is %v under model.params and %v under unet_config.params: they must agree", a, b)
	}
	if r.model.Edge() != arch.NoEdge {
		if r.size != 512 && r.model.Edge() != arch.EdgeSmall || r.size/r.model.Factor() != 64 {
			warn("edge maps work at 512 only: the processor's target size of 64 is in the code, and the first step stops at torch.cat (RuntimeError)")
		}
		if r.edgePL.Exists() && !strings.Contains(r.edgePL.Code, "def log_images") && strings.Contains(r.edgePL.Code, "result.append(edge_map)") && !truth(r.root, keyImages+".disabled", false) {
			warn("the first image log will stop the training: get_input returns the edge map as an eighth value, and log_images takes seven; %s.disabled=True spares it", keyImages)
		}
	}
	r.warnOfSource(warn)
	if r.model.Multiple() > 0 && r.size%r.model.Multiple() != 0 && r.size > 0 {
		warn("images of %d are no multiple of %d, which the UNet's halves need", r.size, r.model.Multiple())
	}
	if r.fuses() && !env.Known() { // the formulas then take attention for plain, which needs more
		warn("whether xformers is there is not known: memory is counted without it, which is the more")
	}
}

// warnOfSource is about what the checkout's own code does with a recipe that is in order.
func (r *recipe) warnOfSource(warn func(string, ...any)) {
	target := text(r.root, keyTarget)
	if r.code(target).Kept && truth(r.root, keyUNetCkpt, false) {
		warn("unet_config.params.use_checkpoint: True has no effect: checkpoint of util.py is switched off in this checkout")
	}
	util := r.source("ldm/modules/diffusionmodules/util.py").Code
	if precision, _ := get(r.root, keyPrecision); r.model.Recomputes() && r.amp(r.model) != nn.F32 &&
		!strings.Contains(util, "autocast") {
		warn("precision %v stops the first backward pass: util.py recomputes outside autocast "+
			"(input and weight of different types)",
			precision)
	}
	for _, name := range []string{"train", "validation"} {
		set, _ := r.set(name)
		module, _, _ := cutLast(set, ".")
		if strings.HasPrefix(module, "ldm.") && r.has("ldm/models") && python.Resolve(r.tree, "", module) == "" {
			warn("%s is not in this checkout: main.py stops at its import (ModuleNotFoundError)", module)
			break
		}
	}
	source := r.modelSource(target)
	if !strings.HasSuffix(target, ".VQModel") || !source.Exists() {
		return
	}
	if strings.Contains(source.Code, "version.parse(") && !strings.Contains(source.Code, "import version") {
		warn("the first validation will stop the training: %s uses version without importing it (NameError)",
			"ldm/models/autoencoder.py")
	}
	loss := text(r.root, "model.params.lossconfig.target")
	if strings.HasPrefix(loss, "taming.") && strings.Contains(source.Code, "predicted_indices=ind") {
		warn("the first step will stop: training_step passes predicted_indices, which %s does not take (TypeError)", loss)
	}
}

// warnOfPreflight is about train_with_edge.py and its variants.
func (r *recipe) warnOfPreflight(warn func(string, ...any), j *job.Job) {
	if conf := r.allocator(); conf != "" {
		theirs := ""
		for _, kv := range r.environ(j) {
			if v, ok := strings.CutPrefix(kv, "PYTORCH_CUDA_ALLOC_CONF="); ok {
				theirs = " your " + v + " and"
			}
		}
		warn("the script sets PYTORCH_CUDA_ALLOC_CONF to %s over%s whatever it is started with", conf, theirs)
	}
	if share, spelled := r.fraction(); share < 1 {
		warn("the script lets PyTorch take only %s of the card (set_per_process_memory_fraction)", spelled)
	}
	if strings.Contains(r.script.Code, "test_edge_processing.py") {
		warn("the script first builds the whole model in a test of its own, at a batch of 2 that no setting changes: if that runs out of memory, a smaller micro-batch does not help")
	}
}

// averages is what use_ema's take.
func averages(m *arch.Model) (n unit.Bytes) {
	for _, it := range (arch.Step{Model: m, Batch: 1, Size: m.Multiple()}).Kept().Items {
		if strings.HasSuffix(it.What, arch.EMA) && it.Kind == mem.Parameters {
			n += it.Bytes
		}
	}
	return n
}

// stateSize is what one last.ckpt takes: all parameters, and Adam's states of the trained ones.
func (r *recipe) stateSize() (n unit.Bytes) {
	if r.modelErr != nil || r.model == nil {
		return 0
	}
	side := r.model.Multiple()
	if r.model.Edge() != arch.NoEdge {
		side = 512
	}
	e := arch.Step{Model: r.model, Batch: 1, Size: side, Xformers: true}.Kept()
	if !e.Known() && !errors.Is(r.modelErr, arch.ErrUnknown) && r.model.Unknown == "" {
		return 0
	}
	for _, it := range e.Items {
		if it.Kind == mem.Parameters || it.Kind == mem.Optimizer {
			n += it.Bytes
		}
	}
	return n
}

// freeSpace is how much the file system of a folder, or of the nearest one above it that exists, can take; 0 where that is
// not known.
func freeSpace(dir string) (unit.Bytes, string) {
	for {
		var s syscall.Statfs_t
		if err := syscall.Statfs(dir, &s); err == nil {
			return unit.Bytes(s.Bavail) * unit.Bytes(s.Bsize), dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return 0, dir
		}
		dir = up
	}
}

// truths are what the edge fork's document of its memory (MEMORY_OPTIMIZATION_SUMMARY.md at cea3b81) and its guides say,
// and its code does not do; each only where the job is concerned.
func (r *recipe) truths() (out []string) {
	say := func(s string) { out = append(out, s) }
	if r.model == nil {
		return nil
	}
	edge := r.model.Edge()
	if edge != arch.NoEdge || r.entry == edgePy { // where the guide is of
		if r.micro*r.accum == 12 {
			say(guide + " keeps the effective batch \"at 12 (2 × 6 instead of 6 × 4)\": 6 × 4 is 24, so it was halved; 2 × 12 keeps it")
		}
		if edge == arch.EdgeAfter {
			if !r.model.UnfrozenDiff {
				say("none of the edge branch's 36 tensors is trained, nor its input convolution: the freeze keeps only names with \"spade\" (ddpm.py:1627); it stays random")
			}
			say("of what " + guide + " advises, the activation checkpointing of EdgeMapProcessor is commented out in the same commit (edge_processor.py:76), and \"reduce to 256 × 256\" stops with a RuntimeError: the edge features are 64 × 64 whatever the image is")
			say("the out-of-memory that " + guide + " sets out from (6.00 GiB asked for, 13.04 allocated) came in the sanity check, not in training: neither Adam's states nor saved tensors are in that sum. That the processor before worked \"with batch 6\" was tested on the new class, without gradients (test_memory_optimization.py); its 15 to 18 GB are right for a micro-batch of 2: 16.6 GiB and the CUDA context")
		}
	}
	if r.entry == edgePy {
		if r.allocator() != "" {
			say("max_split_size_mb only limits fragmentation, and enable_flash_sdp does nothing: the attributes exist from torch 2.0 on, and no code calls scaled_dot_product_attention")
		}
		say("the readme's --resume never works: the script always passes a name, and main.py refuses both (main.py:474); launch resumes with an empty one")
	}
	return out
}
