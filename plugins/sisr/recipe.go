package sisr

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// recipe is what a recipe says of everything that costs memory, in one spelling for all dialects.
type recipe struct {
	*dialect
	tree config.Tree
	path string // as the command names it
	root config.Value

	project     arch.Project // whose classes its names are: the dialect's, or that of a project built on it
	title       string       // the experiment's name
	model       string       // model_type, of a project that has several training loops
	experiment  string       // its folder, relative to the command's folder or absolute
	scale       int64
	net, disc   part   // network_g, network_d; disc.kind is "" without one
	losses      []part // under their own names
	microBatch  int64
	accum       int64
	lqSize      int64
	staged      bool // both change by a plan of the recipe's: of its largest stage
	useAMP      bool
	half        string // "fp16" or "bf16", under mixed precision
	withEMA     bool
	optG, optD  string // optimizer types
	otf         bool   // degradations made on the card
	queueSize   int64
	valOn       bool
	valRoots    []string
	valGT       []string
	tileSize    int64
	tileOverlap int64
	gpuMetrics  []string
	hostMetrics []string // the types of the others
	trainRoots  []string
	enlargeAuto bool
	automations bool // the forks' manager that turns batch and crop while running

	fixed  map[string]string // paths that no edit of the recipe can set, and why
	fixing sync.Mutex        // guards fixed
	forced []string          // those that --force_yml sets
	alias  bool              // the recipe may have anchors, aliases or merges
}

// sharing matches what may be an anchor, an alias or a merge in YAML, and never misses one: it stands at the beginning of
// a value. Most recipes have none, and are spared to be tried.
var sharing = lazy.MustCompile(`(?m)^[^#\n]*(?:[:,\[{?-][ \t]*|^[ \t]*)(?:![^ \n]* +)?[&*][^ \t\n]|<<[ \t]*:`)

// maxBatch bounds what is taken for a micro-batch.
const maxBatch = ladder.MaxBatch

// outranked is why an edit of the recipe would have no effect.
const outranked = "--force_yml outranks the recipe"

// force applies BasicSR's --force_yml a:b:c=value, which outranks the file whatever is edited there
// (basicsr/utils/options.py at 8d56e3a0).
func (r *recipe) force(forced []string) {
	for _, f := range forced {
		keys, value, ok := strings.Cut(f, "=")
		path := config.JoinPath(strings.Split(keys, ":")...)
		if !ok || r.tree.Set(path, value) != nil {
			continue // the trainer says what is wrong with it
		}
		r.root = r.tree.Root()
		r.fixed[path] = outranked
		r.forced = append(r.forced, path)
	}
}

// lossScheduling reports whether the forks' dynamic_loss_scheduling is on. It is called for every micro-batch
// (sr_model.py), with a window of ten calls and a momentum of its own.
func (r *recipe) lossScheduling() bool {
	on, ok := r.at("train.dynamic_loss_scheduling.enabled").Bool()
	return on && ok
}

// layout is the memory format of a validation at a precision: contiguous without mixed precision.
func (r *recipe) layout(amp nn.DType) arch.Layout {
	if amp == nn.F32 {
		return arch.Layout{}
	}
	if on, ok := r.at(r.channelsLast).Bool(); ok && !on {
		return arch.Layout{}
	}
	return r.dialect.layout
}

// settable reports whether an edit of the recipe can set the path. A value that an anchor shares with others, or that
// is merged in, cannot be set for itself.
func (r *recipe) settable(path string) bool {
	if !r.alias {
		return r.fixed[path] == ""
	}
	r.fixing.Lock() // phases are priced at once
	defer r.fixing.Unlock()
	if why, seen := r.fixed[path]; seen {
		return why == ""
	}
	scratch, err := config.Parse(r.path, r.tree.Bytes())
	if err == nil {
		err = scratch.Set(path, "1")
	}
	r.fixed[path] = ""
	if err != nil {
		r.fixed[path] = err.Error()
	}
	return err == nil
}

// part is a network or a loss of the recipe: its type and its arguments.
type part struct {
	kind string
	args map[string]any // without "type"
	at   string         // its path in the recipe
}

// metricsOnGPU build a network on the card for every image (traiNNer/metrics/*.py).
var metricsOnGPU = []string{"lpips", "dists", "topiq", "pieapp", "niqe_gpu"}

// readRecipe reads a recipe. forced are what the command says over it (BasicSR's --force_yml a:b=c). The warnings are
// about what it says; the error is about what it must say and does not.
func readRecipe(path string, text []byte, forced []string) (*recipe, []string, error) {
	tree, err := config.Parse(path, text)
	if err != nil {
		return nil, nil, err
	}
	r := &recipe{tree: tree, path: path, root: tree.Root(), fixed: map[string]string{}}
	r.dialect = tell(r.root, path)
	if r.dialect == &basicSR {
		r.force(forced)
	}
	r.alias = sharing.Match(text)
	if !r.root.Get("network_g").Exists() && !r.root.Get("datasets").Exists() {
		return nil, nil, errOtherRecipe
	}
	var warnings []string
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }

	r.title = r.root.Get("name").Text()
	if r.scale = r.int("scale", 1); r.scale < 1 {
		return nil, nil, fmt.Errorf("%s:%d: scale is %s; it is at least 1", path, r.at("scale").Line(), r.at("scale").Text())
	}
	r.net, r.disc = r.part("network_g"), r.part("network_d")
	if r.net.kind == "" {
		return nil, nil, fmt.Errorf("%s names no network: network_g.type is missing", path)
	}
	if err := r.readSizes(warn); err != nil {
		return nil, nil, err
	}
	r.readStages(warn)
	r.readPrecision(warn)
	r.optG, r.optD = r.optimizer("optim_g"), r.optimizer("optim_d")
	r.losses = r.readLosses()
	model := strings.ToLower(r.root.Get("model_type").Text())
	r.project = r.dialect.project
	if r.dialect == &basicSR {
		r.model, r.project = model, arch.Owner(arch.BasicSR, r.net.kind)
	}
	r.otf = r.degrades(model)
	switch r.dialect {
	case &basicSR:
		r.queueSize = r.int(r.queue, 180)
	case &neosr:
		r.queueSize = r.neosrQueue()
	default:
		r.queueSize = r.int(r.queue, 120)
	}
	r.readValidation()
	r.trainRoots = r.roots("datasets.train.dataroot_gt")
	enlarge := r.at(r.enlarge)
	r.enlargeAuto = r.dialect == &redux && (!enlarge.Exists() || enlarge.Text() == "auto")
	r.automations, _ = r.at("train.training_automations.enabled").Bool()
	if r.title != "" {
		r.experiment = filepath.Join(r.folder, r.title)
	}
	return r, warnings, nil
}

// readPrecision reads mixed precision, and whether the network is averaged.
func (r *recipe) readPrecision(warn func(string, ...any)) {
	r.useAMP = r.bool(r.amp)
	r.half = "fp16"
	if r.bool(r.bf16) {
		r.half = "bf16"
		if !r.useAMP {
			warn("%s has no effect without %s", r.bf16, r.amp)
		}
	}
	if f, ok := r.at(r.ema).Float(); ok {
		r.withEMA = f > 0
	}
}

// frames is how many a clip of the training set has, 0 where the recipe says nothing of it. BasicSR's clips of
// Vimeo-90K are whole ones, of seven frames, which flip_sequence doubles (data/vimeo90k_dataset.py, lines 135 and 189
// at 8d56e3a0).
func (r *recipe) frames() int64 {
	if r.dialect != &basicSR {
		return r.int(trainSet+"clip_size", 0)
	}
	n := r.int(trainSet+"num_frame", 0)
	if r.at(trainSet+"type").Text() == "Vimeo90KRecurrentDataset" {
		n = 7
		if r.bool(trainSet + "flip_sequence") {
			n = 14
		}
	}
	return max(0, n)
}

// degrades reports whether the low resolution is made on the card, which keeps a pool of pairs for it. BasicSR's
// models do unless they are told not to (models/realesrgan_model.py, feed_data, at 8d56e3a0; HAT's models are made of
// the same lines).
func (r *recipe) degrades(model string) bool {
	made := strings.Contains(model, "realesr") || strings.HasPrefix(model, "realhat") ||
		strings.HasPrefix(model, "realdrct")
	if on, ok := r.at("high_order_degradation").Bool(); ok {
		return on && (made || r.dialect != &basicSR)
	}
	return made || model == "otf"
}

// readStages reads Restormer's progressive training, whose batches and crops change by a plan (basicsr/train.py at
// df766d5): a stage takes mini_batch_sizes of the batch, and gt_sizes of the crop. The stage of the most pixels is
// priced, and neither size is a knob.
func (r *recipe) readStages(warn func(string, ...any)) {
	sizes, batches := r.at("datasets.train.gt_sizes"), r.at("datasets.train.mini_batch_sizes")
	if r.dialect != &basicSR || sizes.Len() == 0 || sizes.Len() != batches.Len() {
		return
	}
	most, batch, crop := int64(0), int64(0), int64(0)
	for i := range sizes.Len() {
		n, _ := batches.Index(i).Int()
		side, _ := sizes.Index(i).Int()
		n, side = min(n, r.microBatch), min(side, r.lqSize*max(1, r.scale))
		if n*side*side > most {
			most, batch, crop = n*side*side, n, side
		}
	}
	if most == 0 {
		return
	}
	r.microBatch, r.lqSize, r.staged = batch, crop/max(1, r.scale), true
	for _, path := range []string{r.micro, r.gt} {
		r.fixed[path] = "datasets.train.gt_sizes and mini_batch_sizes decide it, stage by stage"
	}
	warn("the training has %d stages of batches and crops: the largest is priced, %d crops of %d", sizes.Len(), batch,
		crop)
}

// readSizes reads the batch and the training crop.
func (r *recipe) readSizes(warn func(string, ...any)) error {
	r.microBatch, r.accum = r.int(r.micro, 0), max(1, r.int(r.accumulation, r.defaultAccumulation))
	if v := r.at(r.micro); !v.Exists() {
		warn("%s is missing: the trainer will say so", r.micro)
	} else if r.microBatch < 1 || r.microBatch > maxBatch {
		spelled, _ := r.tree.Get(r.micro)
		return fmt.Errorf("%s:%d: %s is %s; it is a whole number from 1 to %d, without quotes", r.path, v.Line(), r.micro, spelled, maxBatch)
	}
	for _, path := range []string{r.lq, r.gt} {
		v := r.at(path)
		if n, ok := v.Int(); v.Exists() && !v.IsNull() && (!ok || n < 1) {
			return fmt.Errorf("%s:%d: %s is %s; it is a whole number of at least 1", r.path, v.Line(), path, v.Text())
		}
	}
	switch lq, gt := r.int(r.lq, 0), r.int(r.gt, 0); {
	case lq > 0 && gt > 0 && r.dialect == &redux:
		warn("both %s and %s are set, and traiNNer-redux takes exactly one", r.lq, r.gt)
		r.lqSize = lq
	case lq > 0:
		r.lqSize = lq
	case gt > 0:
		r.lqSize = gt / max(1, r.scale)
	default:
		warn("neither %s nor %s says how large the training crop is", r.lq, r.gt)
	}
	return nil
}

// tell says which project the recipe is written for. TOML is neosr's alone; "model_type" is BasicSR's, which
// traiNNer-redux dropped and rejects.
func tell(root config.Value, path string) *dialect {
	train := root.Lookup("datasets", "train")
	switch {
	case strings.EqualFold(filepath.Ext(path), ".toml"), train.Get("patch_size").Exists() && train.Get("batch_size").Exists():
		return &neosr
	case root.Get("model_type").Exists() && !train.Get("lq_size").Exists() && !train.Get("accum_iter").Exists():
		return &basicSR
	}
	return &redux
}

func (r *recipe) at(path string) config.Value {
	if path == "" {
		return config.Value{}
	}
	return r.root.At(path)
}

func (r *recipe) int(path string, otherwise int64) int64 {
	if i, ok := r.at(path).Int(); ok {
		return i
	}
	return otherwise
}

func (r *recipe) bool(path string) bool {
	b, _ := r.at(path).Bool()
	return b
}

// part reads a section with a "type".
func (r *recipe) part(path string) part { return readPart(r.at(path), path) }

func readPart(v config.Value, path string) part {
	p := part{kind: v.Get("type").Text(), at: path, args: map[string]any{}}
	for _, key := range v.Keys() {
		if key != "type" {
			p.args[key] = plain(v.Get(key))
		}
	}
	return p
}

// plain turns a value into what a formula reads: nil, bool, int64, float64, string, []any or map[string]any.
func plain(v config.Value) any {
	switch v.Kind() {
	case config.Bool:
		b, _ := v.Bool()
		return b
	case config.Int:
		i, _ := v.Int()
		return i
	case config.Float:
		f, _ := v.Float()
		return f
	case config.String:
		s, _ := v.Str()
		return s
	case config.Seq:
		var out []any
		for i := range v.Len() {
			out = append(out, plain(v.Index(i)))
		}
		return out
	case config.Map:
		out := map[string]any{}
		for _, k := range v.Keys() {
			out[k] = plain(v.Get(k))
		}
		return out
	}
	return nil
}

func (r *recipe) optimizer(name string) string {
	for _, path := range []string{"train." + name, name} {
		if t := r.at(path + ".type"); t.Exists() {
			return t.Text()
		}
	}
	return ""
}

// readLosses reads the list of traiNNer-redux and the "*_opt" sections of all.
func (r *recipe) readLosses() (out []part) {
	list := r.at(r.dialect.losses)
	for i := range list.Len() {
		if p := readPart(list.Index(i), fmt.Sprintf("%s.%d", r.dialect.losses, i)); p.kind != "" {
			out = append(out, p)
		}
	}
	train := r.at("train")
	for _, key := range train.Keys() {
		if !strings.HasSuffix(key, "_opt") {
			continue
		}
		if p := readPart(train.Get(key), "train."+key); p.kind != "" {
			out = append(out, p)
		}
	}
	return out
}

func (r *recipe) readValidation() {
	val := r.root.Get("val")
	r.valOn = val.Exists()
	if on, ok := val.Get("val_enabled").Bool(); ok { // absent in BasicSR and neosr, where the section switches it on
		r.valOn = on
	} else if r.dialect == &redux {
		r.valOn = false
	}
	r.tileSize, r.tileOverlap = r.int(r.tile, r.defaultTile), r.int(r.overlap, 0)
	metrics := r.at(r.metrics)
	on, ok := val.Get("metrics_enabled").Bool()
	for _, name := range metrics.Keys() {
		kind := strings.ToLower(metrics.Get(name).Get("type").Text())
		switch {
		case !on && (ok || r.dialect == &redux):
		case slices.ContainsFunc(metricsOnGPU, func(m string) bool { return strings.Contains(kind, m) }):
			r.gpuMetrics = append(r.gpuMetrics, name)
		default:
			r.hostMetrics = append(r.hostMetrics, kind)
		}
	}
	for _, set := range r.at("datasets").Keys() {
		if strings.HasPrefix(set, "val") || strings.HasPrefix(set, "test") {
			r.valRoots = append(r.valRoots, r.roots("datasets."+set+".dataroot_lq")...)
			r.valGT = append(r.valGT, r.roots("datasets."+set+".dataroot_gt")...)
		}
	}
}

// roots reads a folder or a list of folders.
func (r *recipe) roots(path string) (out []string) {
	v := r.at(path)
	if s, ok := v.Str(); ok {
		return []string{s}
	}
	for i := range v.Len() {
		if s, ok := v.Index(i).Str(); ok {
			out = append(out, s)
		}
	}
	return out
}
