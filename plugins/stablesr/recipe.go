package stablesr

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

// The keys of the recipe that this plugin reads or turns.
const (
	keyMicro      = "data.params.batch_size"
	keyValCheck   = "lightning.trainer.val_check_interval"
	keySanity     = "lightning.trainer.num_sanity_val_steps"
	keyWorkers    = "data.params.num_workers"
	keyQueue      = "data.params.train.params.queue_size"
	keyAccum      = "lightning.trainer.accumulate_grad_batches"
	keyPrecision  = "lightning.trainer.precision"
	keyGPUs       = "lightning.trainer.gpus"
	keyDevices    = "lightning.trainer.devices"
	keyNodes      = "lightning.trainer.num_nodes"
	keyTarget     = "model.target"
	keyUNetCkpt   = "model.params.unet_config.params.use_checkpoint"
	keyStructCkpt = "model.params.structcond_stage_config.params.use_checkpoint"
	keyEMA        = "model.params.use_ema"
	keyUnfrozen   = "model.params.unfrozen_diff"
	keyRandom     = "model.params.random_size"
	keyImageSize  = "model.params.image_size"
	keyGTSize     = "degradation.gt_size"
	keyTrainCrop  = "data.params.train.params.crop_size"
	keyValCrop    = "data.params.validation.params.crop_size"
	keyEdge       = "model.params.use_edge_processing"
	keyUNetEdge   = "model.params.unet_config.params.use_edge_processing"
	keyImages     = "lightning.callbacks.image_logger.params"
)

// trainerKey is where a Trainer's argument lies in the recipe.
const trainerKey = "lightning.trainer."

// recipe is what a command says, merged from all that main.py merges.
type recipe struct {
	*checkout
	python    python.Environment // that the command runs in; set by readCommand
	argv      *config.Argv
	options   []config.Option
	base      []string // behind --base, or --config's one
	resume    string   // as typed
	logdir    string   // of a run that is resumed
	name      string   // as typed
	overrides []override
	flags     map[string]string // Trainer flags that differ from their defaults, as typed
	idle      []string          // Trainer flags that main.py ignores
	root      tree
	expects   bool            // that every change can be made: no edits are
	behind    *config.YAML    // the overlay as long as nothing is changed; nil before it is asked for
	taken     map[string]bool // kinds of edits that the program would take

	micro, accum int64 // 0 where the recipe does not say it in a whole number
	ranks        int64
	queue        int64 // 0 without a pool
	size         int64 // side of an image, of StableSR the high-resolution crop's; 0 where it is not known
	valSize      int64 // and of a validation's
	model        *arch.Model
	modelErr     error // arch.ErrUnknown, or what the trainer would stop at
}

// errOther says that a command is of another family.
var errOther = errors.New("no recipe of latent-diffusion's kind: no model.target")

// load reads a command's arguments and merges its recipe. edited are copies of files by their absolute paths, in place of
// what lies there.
//
// From low to high: the configurations that a resumed run saved, the files behind --base from left to right, the dotlist,
// the Trainer flags that differ from their defaults (main.py:507, :530, :537).
func (x *checkout) load(args []string, edited map[string][]byte) (*recipe, error) {
	r := &recipe{checkout: x, root: tree{}, flags: map[string]string{}, options: options()}
	err := r.readArgs(args)
	if err != nil {
		return nil, err
	}
	if err := r.mergeFiles(edited); err != nil {
		return nil, err
	}
	words := tree{} // the dotlist is a configuration of its own, which is merged like a file
	for _, o := range r.overrides {
		if err := o.set(words); err != nil {
			return nil, err
		}
	}
	if r.root, err = merge(r.root, words); err != nil {
		return nil, err
	}
	for name, value := range r.flags {
		v := readOverride("v=" + value).value
		if name == "gpus" && strings.Contains(value, ",") {
			v = value
		}
		if err := (override{trainerKey + name, v}).set(r.root); err != nil {
			return nil, err
		}
	}
	if refers(r.root) {
		r.root, _ = resolved(r.root, r.root, 0).(tree)
	}
	if text(r.root, keyTarget) == "" {
		return nil, errOther
	}
	r.read()
	return r, nil
}

// readArgs reads the command's arguments.
func (r *recipe) readArgs(args []string) (err error) {
	if r.entry == mainPy {
		r.options = r.declared()
	}
	if r.entry == edgePy {
		r.options = slices.Clone(edgeOptions)
	}
	if r.argv, err = config.ParseArgv(args, r.options); err != nil {
		return err
	}
	if r.entry != edgePy {
		return r.readMainArgs()
	}
	if !r.argv.Has("--name") {
		r.options = append(r.options, emptyName)
		if r.argv, err = config.ParseArgv(args, r.options); err != nil {
			return err
		}
	}
	r.readEdgeArgs()
	return nil
}

// mergeFiles merges the configurations of a resumed run and the recipe's files.
func (r *recipe) mergeFiles(edited map[string][]byte) (err error) {
	var saved []string
	if r.resume != "" {
		if r.logdir, err = r.resumed(); err != nil {
			return err
		}
		saved = file.Glob(filepath.Join(file.EscapeGlob(file.In(r.prog.Dir, r.logdir)), "configs", "*.yaml"))
		slices.Sort(saved)
	}
	for _, path := range append(saved, r.base...) {
		abs := file.In(r.prog.Dir, path)
		text, ok := edited[abs]
		if !ok {
			if text, err = readFile(abs, path); err != nil {
				return r.swallowed(path, err)
			}
		}
		file, err := parse(path, text)
		if err != nil {
			return err
		}
		if r.root, err = merge(r.root, file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// swallowed says why a file behind --base is not there, where it is an override that the option has taken.
func (r *recipe) swallowed(path string, err error) error {
	if strings.Contains(path, "=") && r.entry == mainPy {
		return fmt.Errorf("%s stands behind --base, which takes all that follows: main.py would look for a file of that name; put it in front of everything else", path)
	}
	return err
}

func (r *recipe) readEdgeArgs() {
	value := func(name string) string {
		if v, ok := r.argv.Get(name); ok {
			return v
		}
		return argDefault(r.script, name)
	}
	r.base = []string{value("--config")}
	if r.argv.Has("--name=") {
		r.name = ""
	} else {
		r.name = value("--name")
	}
	r.resume = value("--resume")
	r.flags["gpus"] = value("--gpus")
}

// readMainArgs reads the flags, and finds what main.py stops at before it builds anything.
func (r *recipe) readMainArgs() error {
	for _, name := range booleans {
		if v, ok := r.argv.Get(name); ok && len(r.argv.Values(name)) > 0 {
			if _, ok := boolean(v); !ok {
				return fmt.Errorf("%s takes %s for its own value and stops at it: put overrides in front of everything else", name, v)
			}
		}
	}
	r.base = r.argv.Values("--base")
	r.name, _ = r.argv.Get("--name")
	r.resume, _ = r.argv.Get("--resume")
	for name, arg := range trainerArgs {
		flag := "--" + name
		if !r.argv.Has(flag) {
			continue
		}
		value, _ := r.argv.Get(flag)
		if len(r.argv.Values(flag)) == 0 {
			value = "true"
		}
		if arg.isDefault(value) {
			r.idle = append(r.idle, flag+" "+value)
			continue
		}
		r.flags[name] = value
	}
	slices.Sort(r.idle)
	for _, word := range r.argv.Positionals() {
		r.overrides = append(r.overrides, readOverride(word))
	}
	return nil
}

// resumed is the log folder of the run that is resumed (main.py:480-507).
func (r *recipe) resumed() (string, error) {
	if r.name != "" {
		hint := "leave --name out"
		if r.entry == edgePy {
			hint = `add --name ""`
		}
		return "", fmt.Errorf("--resume with --name %s: main.py takes one of them (ValueError): %s", r.name, hint)
	}
	info, err := os.Stat(file.In(r.prog.Dir, r.resume))
	if err != nil {
		return "", fmt.Errorf("there is nothing to resume at %s", r.resume)
	}
	if !info.IsDir() {
		return filepath.Dir(filepath.Dir(r.resume)), nil
	}
	return strings.TrimRight(r.resume, "/"), nil
}

// read picks out what costs memory.
func (r *recipe) read() {
	r.micro, _ = integer(r.root, keyMicro)
	r.accum = 1
	if has(r.root, keyAccum) {
		r.accum, _ = integer(r.root, keyAccum)
	}
	r.ranks = r.gpus()
	r.model, r.modelErr = r.readModel(r.root)
	stableSR := strings.HasPrefix(arch.Config(section(r.root, "model")).Target(), "LatentDiffusionSRTextWT")
	if stableSR && !truth(r.root, keyRandom, false) {
		r.queue = 50 * r.micro // where the recipe does not say (ddpm.py:1883)
		if q, ok := integer(r.root, keyQueue); ok {
			r.queue = q
		}
	}
	if r.size, _ = integer(r.root, keyGTSize); r.size == 0 {
		r.size = r.imageSize("train")
	}
	if r.valSize = r.size; !stableSR && has(r.root, keyData+"validation") {
		if n := r.imageSize("validation"); n > 0 {
			r.valSize = n
		}
	}
}

func (r *recipe) readModel(root tree) (*arch.Model, error) {
	m, err := arch.Read(arch.Config(section(root, "model")), r.code(text(root, keyTarget)))
	if err == nil {
		m.LogsImages(r.logImages(text(root, keyTarget), section(root, keyImages)))
	}
	return m, err
}

func section(root tree, path string) tree {
	v, _ := get(root, path)
	m, _ := v.(tree)
	return m
}

// cards is what the recipe says of the cards to train on: by gpus or, where main.py reads that, by devices
// (Stability-AI/generative-models, main.py:568 at 07bf8251).
func (r *recipe) cards() (v any, there bool) {
	if v, there = get(r.root, keyGPUs); !there && r.readsDevices() {
		v, there = get(r.root, keyDevices)
	}
	return v, there
}

func (r *recipe) namesCards() bool {
	_, there := r.cards()
	return there
}

// gpus is how many processes train: Lightning starts one for each GPU of each node. -1 where all GPUs are meant.
func (r *recipe) gpus() int64 {
	nodes := int64(1)
	if n, ok := integer(r.root, keyNodes); ok && n > 1 {
		nodes = n
	}
	v, _ := r.cards()
	switch v := v.(type) {
	case int64:
		if v == -1 {
			return -nodes
		}
		return max(1, v) * nodes
	case string:
		if strings.Trim(v, ", ") == "-1" {
			return -nodes
		}
		n := int64(0)
		for part := range strings.SplitSeq(v, ",") {
			if _, err := strconv.Atoi(strings.TrimSpace(part)); err == nil {
				n++
			}
		}
		if !strings.Contains(v, ",") { // one number without a comma counts GPUs
			if k, err := strconv.ParseInt(v, 10, 64); err == nil {
				n = k
			}
		}
		return max(1, n) * nodes
	case []any:
		return max(1, int64(len(v))) * nodes
	}
	return nodes
}

// edgeOn reports whether the recipe asks for edge processing.
func (r *recipe) edgeOn() bool {
	return truth(r.root, keyEdge, false) || truth(r.root, keyUNetEdge, false)
}

// logs is the folder that run folders are made in.
func (r *recipe) logs() string {
	if v, ok := r.argv.Get("--logdir"); ok && r.entry == mainPy {
		return v
	}
	return "logs"
}

// suffix is what the run folder's name has behind its time (main.py:511-522).
func (r *recipe) suffix() string {
	postfix := ""
	if r.entry == mainPy {
		postfix, _ = r.argv.Get("--postfix")
	}
	switch {
	case r.name != "":
		return "_" + r.name + postfix
	case len(r.base) > 0:
		stem := filepath.Base(r.base[0])
		return "_" + strings.TrimSuffix(stem, filepath.Ext(stem)) + postfix
	}
	return postfix
}

// title is the experiment's name.
func (r *recipe) title() string {
	if r.logdir != "" {
		return filepath.Base(r.logdir)
	}
	return strings.TrimPrefix(r.suffix(), "_")
}

// scalesLR reports whether the learning rate follows the global batch.
func (r *recipe) scalesLR() bool {
	if r.entry == edgePy { // it hands on --scale_lr or a flag that main.py does not know
		return r.argv.Has("--scale_lr")
	}
	if !r.argv.Has("--scale_lr") {
		return r.scales()
	}
	v, _ := r.argv.Get("--scale_lr")
	b, _ := boolean(v)
	return b || v == ""
}
