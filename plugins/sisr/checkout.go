package sisr

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// checkout is the project's source beside the script, as far as it decides what a recipe means.
type checkout struct {
	prog   command.Prog
	recipe *recipe
	schema *schema // nil: no checkout here, or none that declares its keys
	root   string  // folder of the script
	arch   []byte  // source of ParagonSR2's file, whose networks changed under their names; nil where it is not there
	munet  []byte  // source of MUNet's file, which changed likewise
}

// archFiles are where the checkouts keep ParagonSR2.
var archFiles = []string{"traiNNer/archs/paragonsr2_arch.py", "paragonsr2_arch.py"}

// read reads what is there. A checkout that is not there is no error: the assumption is named instead.
func (x *checkout) read() (err error) {
	x.root = x.prog.Dir // of a module: python -m train
	if path := x.prog.Path(); path != "" {
		x.root = filepath.Dir(path)
	}
	// BasicSR and what is built on it keep train.py in their package, and all else beside that (basicsr/train.py, line
	// 214 at 8d56e3a0).
	for _, part := range []string{"__init__.py", "models/__init__.py"} {
		if _, err := os.Stat(filepath.Join(x.root, part)); err == nil && x.recipe.dialect == &basicSR {
			x.root = filepath.Dir(x.root)
			break
		}
	}
	if x.schema, err = readSchema(x.find); err != nil {
		return err
	}
	if x.arch, err = x.source(archFiles...); err == nil && strings.EqualFold(x.recipe.disc.kind, "munet") {
		x.munet, err = x.source("traiNNer/archs/munet_arch.py")
	}
	return err
}

// source is the text of the first of the files that is there, or nil.
func (x *checkout) source(files ...string) (text []byte, err error) {
	for _, f := range files {
		if path, ok := x.find(f); ok {
			if text, err = file.Read(path, maxRecipe); err != nil {
				return nil, fmt.Errorf("reading the architecture: %w", err)
			}
			break
		}
	}
	return text, nil
}

// find looks for a file of the checkout, beside the script first.
func (x *checkout) find(rel string) (string, bool) {
	for _, dir := range []string{x.root, x.prog.Dir} {
		path := filepath.Join(dir, rel)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, true
		}
	}
	return "", false
}

// place works out the folder of the experiment: <folder of train.py>/experiments/<name>.
func (x *checkout) place() {
	if x.recipe.title != "" {
		x.recipe.experiment = filepath.Join(x.root, x.recipe.folder, x.recipe.title)
	}
}

// accepts reports whether the key can be set: the checkout knows it, and the recipe lets it be edited. Without a checkout
// every key of the dialect counts as known.
func (x *checkout) accepts(path string) bool {
	if path == "" || !x.recipe.settable(path) {
		return false
	}
	if x.schema == nil {
		return true
	}
	return x.schema.accepts(config.SplitPath(path)...)
}

// neverExisted are keys that guides name and no version of any fork has had (facts gathered from the forks' own
// schemas, 2025-11 to 2026-02).
var neverExisted = map[string]string{
	"val_batch_size":             "validation always takes one image at a time",
	"val_num_workers":            "validation always loads without workers",
	"val_prefetch_factor":        "validation always loads without workers",
	"val_pin_memory":             "no version has had it",
	"val_max_image_size":         "what bounds validation's memory is val.tile_size",
	"val_attention_optimization": "no version has had it",
}

// deadKnobs are keys that are read into the options and then by no code.
var deadKnobs = []struct{ path, why string }{
	{"datasets.val.lq_size", "validation takes whole images: the crop is made in training only"},
	{"datasets.val.gt_size", "validation takes whole images: the crop is made in training only"},
	{"datasets.val.batch_size_per_gpu", "validation always takes one image at a time"},
	{"datasets.val.num_worker_per_gpu", "validation always loads without workers"},
	{"auto_vram_management", "it is accepted by the forks of 2025-12 and read by no code"},
}

// warnings are what the user should know before the training starts.
func (x *checkout) warnings() (out []string) {
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	r := x.recipe
	named := map[string]bool{}
	for _, section := range []string{"train", "val", "datasets.val", "datasets.train"} {
		for _, key := range r.at(section).Keys() {
			if why, never := neverExisted[key]; never {
				warn("%s.%s: no version of the trainer has this key: %s", section, key, why)
				named[section+"."+key] = true
			}
		}
	}
	if x.schema != nil {
		for _, path := range x.schema.unknown(r.root) {
			if !named[path] {
				warn("%s: this checkout does not know the key and will stop at it", path)
			}
		}
	} else if r.dialect == &redux {
		warn("no checkout beside %s: which keys it accepts is not known", x.prog.Script)
	}
	if rel, err := filepath.Rel(filepath.Join(x.prog.Dir, "options", "_templates"), file.In(x.prog.Dir,
		r.path)); err == nil && !strings.HasPrefix(rel, "..") {
		warn("%s lies below options/_templates, where the trainer reads no recipe: copy it elsewhere", r.path)
	}
	for _, path := range []string{r.micro, r.accumulation, r.tile, r.amp} {
		if path != "" && r.at(path).Exists() && !r.settable(path) && !r.staged {
			warn("%s cannot be changed in a copy (%s): launch plans without it; write the value itself there to let it", path, r.fixed[path])
		}
	}
	if r.at("path.ignore_resume_networks").Exists() && r.dialect == &redux {
		warn("path.ignore_resume_networks crashes the trainer when it makes its folders")
	}
	if r.automations {
		warn("train.training_automations changes batch and crop while the training runs: launch does not plan over it")
	}
	if gt := r.at("datasets.train.num_worker_per_gpu"); gt.Text() == "0" && r.dialect == &redux &&
		(r.at(r.persistent).Text() != "false" || !r.at(r.prefetch).IsNull()) {
		warn("num_worker_per_gpu: 0 needs persistent_workers: false and prefetch_factor: ~ as well, or the loader stops")
	}
	if r.otf && r.queueSize > 0 && r.microBatch > 0 && r.queueSize%r.microBatch != 0 {
		warn("queue_size %d is no multiple of the micro-batch %d, which the trainer asserts", r.queueSize, r.microBatch)
	}
	return slices.Concat(out, x.netWarnings(r.net), x.lossWarnings(), x.discWarnings())
}

// archFolder is where traiNNer-redux and its forks keep their networks, which register under the name of their class or function
// (archs/__init__.py and utils/registry.py at 68629319).
const archFolder = "traiNNer/archs"

// netWarnings say which network the checkout does not have: the trainer stops as it builds it.
func (x *checkout) netWarnings(nets ...part) (out []string) {
	for _, p := range nets {
		if x.recipe.dialect == &redux && x.lacks(archFolder, p.kind) {
			out = append(out, fmt.Sprintf("the trainer will stop at %s: this checkout has no network %q", p.at, p.kind))
		}
	}
	return out
}

// lacks reports whether a folder of the checkout has neither a class nor a function called name, in upper or lower
// case. A folder that is missing or cannot be read lacks nothing. The file whose name is nearest to it is read first.
func (x *checkout) lacks(folder, name string) bool {
	dir, files := "", []os.DirEntry(nil)
	for _, root := range []string{x.root, x.prog.Dir} {
		if entries, err := os.ReadDir(filepath.Join(root, folder)); err == nil {
			dir, files = filepath.Join(root, folder), entries
			break
		}
	}
	name = strings.ToLower(name) // as their files are named
	alike := func(f os.DirEntry) (n int) {
		for file := f.Name(); n < len(file) && n < len(name) && file[n] == name[n]; n++ {
		}
		return n
	}
	slices.SortStableFunc(files, func(a, b os.DirEntry) int { return cmp.Compare(alike(b), alike(a)) })
	looked := false
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".py") {
			continue
		}
		text, err := file.Read(filepath.Join(dir, f.Name()), maxRecipe)
		if err != nil {
			return false
		}
		looked = true
		if (python.Source{Text: string(text)}).Defines(name) {
			return false
		}
	}
	return looked
}

// discWarnings say at which discriminator the trainer will stop, where a loss has one built: at its constructor or its forward,
// or at a loss that asks it for what it has not. Of all discriminators MUNet alone has forward_with_features.
func (x *checkout) discWarnings() (out []string) {
	kind, judged := x.recipe.disc.kind, false
	for _, p := range x.recipe.losses {
		l := p.loss(x.recipe.project)
		if l.Weight == 0 || !l.IsGAN() && !l.WantsFeatures() {
			continue
		}
		judged = true
		switch {
		case !l.WantsFeatures() || kind == "":
		case !strings.EqualFold(kind, "munet"):
			out = append(out, fmt.Sprintf("the trainer will stop at its first step: %s asks network_d for forward_with_features, which %s has not: munet has it", p.at, kind))
		case !l.Scheduled():
			out = append(out, fmt.Sprintf("the trainer will stop at its first step: %s asks its loss for a loss_weight, which FeatureMatchingLoss has only with a schedule such as start_iter: 0", p.at))
		}
	}
	if !judged || kind == "" {
		return out
	}
	out = append(out, x.netWarnings(x.recipe.disc)...)
	switch _, assumed, err := arch.BuildDiscriminator(x.discSpec()); {
	case err == nil:
		out = append(out, assumed...)
	case !errors.Is(err, arch.ErrUnknown):
		out = append(out, fmt.Sprintf("the trainer will stop at %v", err))
	}
	return out
}

// lossWarnings say at which losses the trainer will stop: those that the checkout does not have, and those that have no
// gradient where there are no others. A weight of 0 leaves a loss out (models/sr_model.py:325 at 68629319).
func (x *checkout) lossWarnings() (out []string) {
	constant, others := "", false
	for _, p := range x.recipe.losses {
		l := p.loss(x.recipe.project)
		if l.Weight == 0 {
			continue
		}
		if x.recipe.dialect == &redux && x.lacks(lossFolder, l.Type) {
			out = append(out, fmt.Sprintf("the trainer will stop at %s: this checkout has no loss %q", p.at, l.Type))
		}
		if l.Constant() {
			constant = p.at
		} else {
			others = true
		}
	}
	if constant != "" && !others {
		out = append(out, fmt.Sprintf("the trainer will stop at its first step: %s keeps none of the layers that it is told, so it is the number 0 without a gradient, and no other loss has a weight", constant))
	}
	return out
}

// lossFolder is where traiNNer-redux and its forks keep their losses, which register under their class's name in lower
// case (losses/__init__.py and utils/registry.py at 68629319).
const lossFolder = "traiNNer/losses"

// truths are where guides and recipes of the family say what the code does not do.
func (x *checkout) truths(net arch.Network, known bool) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	r := x.recipe
	for _, d := range deadKnobs {
		if r.at(d.path).Exists() {
			say("%s (line %d) has no effect: %s", d.path, r.at(d.path).Line(), d.why)
		}
	}
	if r.at("train.gradient_checkpointing").Exists() || r.at("gradient_checkpointing").Exists() {
		say("gradient_checkpointing is no key of the recipe: activation checkpointing is an argument of network_g, with a name of each architecture's own")
	}
	if known && strings.HasPrefix(net.Name, "paragonsr2") {
		if n := arch.Parameters(net); n > 0 && n < 1_000_000 {
			say("the guides give networks of this name millions of parameters; the one of this checkout has %d (counted: %s)", n, net.Generation)
		}
	}
	if m := r.at("train.dynamic_loss_scheduling.momentum"); r.lossScheduling() && m.Exists() && r.accum > 1 {
		say("dynamic_loss_scheduling is called for every micro-batch: with an accumulation of %d its momentum of %s acts %d times an optimizer step", r.accum, m.Text(), r.accum)
	}
	return out
}

// knobs lists what the recipe says of everything that costs memory.
func (x *checkout) knobs() (out []job.Knob) {
	r := x.recipe
	dead := func(name, path, why string) {
		at := config.Address{Doc: r.path, Path: path}
		out = append(out, job.Knob{Name: name, At: at, Value: r.at(path).Text(), Dead: why})
	}
	forced := slices.Clone(r.forced)
	add := func(name, path string) {
		if i := slices.Index(forced, path); i >= 0 && path != "" {
			forced = slices.Delete(forced, i, i+1)
			dead(name, path, outranked)
			return
		}
		if path == "" || !x.accepts(path) {
			return
		}
		k := job.Knob{Name: name, At: config.Address{Doc: r.path, Path: path}}
		if v := r.at(path); v.Exists() {
			k.Value = v.Text()
		} else {
			k.Default = true
		}
		out = append(out, k)
	}
	add(knobMicro, r.micro)
	add(knobAccumulation, r.accumulation)
	add(knobEnlarge, r.enlarge)
	if r.at(r.gt).Exists() && !r.at(r.lq).Exists() {
		add(knobCrop, r.gt)
	} else {
		add(knobCrop, r.lq)
	}
	add(knobAMP, r.amp)
	add(knobBF16, r.bf16)
	add(knobEMA, r.ema)
	add(knobTile, r.tile)
	add(knobOverlap, r.overlap)
	add(knobMetrics, r.metrics)
	add(knobWorkers, r.workers)
	if r.otf {
		add(knobQueue, r.queue)
	}
	for _, d := range deadKnobs {
		if v := r.at(d.path); v.Exists() {
			dead(d.path, d.path, d.why)
		}
	}
	for _, path := range forced {
		dead(path, path, outranked)
	}
	return out
}
