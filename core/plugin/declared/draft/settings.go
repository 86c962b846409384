package draft

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// A setting is an option of the program, or a value in its file of settings.
type setting struct {
	python.Option
	place string // as a declaration has it
	key   string // the same, as the key of a mapping
	typed bool   // the command sets it, and its default is that value
}

// bare is the last part of a setting's name, in lower case and with underscores.
func bare(name string) string {
	name = strings.TrimLeft(name, "-")
	name = name[strings.LastIndexByte(name, '.')+1:]
	return strings.ToLower(strings.ReplaceAll(name, "-", "_"))
}

// long is an option's name for a person: the longest that it has.
func long(o python.Option) string {
	best := ""
	for _, n := range o.Names {
		if len(n) > len(best) && !strings.HasPrefix(n, "--no-") && !strings.HasPrefix(n, "--no_") {
			best = n
		}
	}
	return best
}

// at is an option as a place.
func (d *drafting) at(o python.Option) string {
	switch o.How {
	case python.ByGlobals:
		return fmt.Sprintf("{any: [%s=, {'*.py': %s}]}", o.Names[0], o.Dest)
	case python.Hydra:
		return o.Names[0] + "="
	case python.ByConstants, python.ByFile:
		return fmt.Sprintf("{%s: %s}", scalar(d.relative(o.Path)), scalar(o.Names[0]))
	}
	if names := d.names(o); len(names) > 1 {
		return "[" + strings.Join(names, ", ") + "]"
	}
	return long(o)
}

func number(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// names are the names of an option, the longest first, without those that switch it off.
func (d *drafting) names(o python.Option) (names []string) {
	for _, n := range o.Names {
		if !strings.HasPrefix(n, "--no-") && !strings.HasPrefix(n, "--no_") {
			names = append(names, n)
		}
	}
	if len(names) > 0 && len(names[0]) > 2 { // both take dashes and underscores
		switch other := names[0][2:]; {
		case o.How == python.Tyro && len(names) == 1 && strings.Contains(other, "-"):
			names = append(names, "--"+strings.ReplaceAll(other, "-", "_"))
		case o.How == python.Fire && strings.Contains(other, "_"):
			names = append(names, "--"+strings.ReplaceAll(other, "_", "-"))
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return names
}

// key is an option as the key of a mapping.
func (d *drafting) key(o python.Option) string {
	switch o.How {
	case python.ByGlobals:
		return o.Names[0] + "="
	case python.Hydra:
		return o.Names[0] + "="
	case python.ByConstants, python.ByFile:
		return quoted(d.relative(o.Path) + ":" + o.Names[0])
	}
	return long(o)
}

// whole reports whether an option can be a whole number above 0.
func whole(o python.Option) bool {
	if o.Takes == config.None || len(o.Choices) > 0 && !slices.ContainsFunc(o.Choices, number) {
		return false
	}
	if !o.Known || o.Default == "None" {
		return numeric(o.Type)
	}
	n, err := strconv.ParseInt(o.Default, 10, 64)
	return err == nil && n > 0
}

// numeric reports whether a type may be a whole number: an absent one may.
func numeric(kind string) bool {
	kind = strings.ToLower(kind)
	return kind == "" || strings.Contains(kind, "int") && !strings.Contains(kind, "lambda") ||
		!slices.ContainsFunc([]string{"str", "bool", "float", "path", "list", "dict", "tuple", "literal", "callable",
			"json", "enum", "dtype"}, func(word string) bool { return strings.Contains(kind, word) })
}

// A wish is names of a setting, the best first.
type wish []string

// best is the setting whose bare name comes first in a wish; a pattern has to match it whole. Of several the first
// counts, and one that an argument sets comes before a constant.
func (d *drafting) best(w wish, fits func(python.Option) bool) *setting {
	if all := d.matching(w, fits); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// matching are the settings that match the first pattern of a wish that any matches, constants only where no other
// setting does.
func (d *drafting) matching(w wish, fits func(python.Option) bool) (found []setting) {
	all := d.settings()
	for _, pattern := range w {
		re := regexp.MustCompile("^(?:" + pattern + ")$")
		var constants []setting
		for _, s := range all {
			if !slices.ContainsFunc(s.Names, func(n string) bool { return re.MatchString(bare(n)) }) || !fits(s.Option) {
				continue
			}
			again := func(o setting) bool { return o.place == s.place }
			switch {
			case slices.ContainsFunc(constants, again) || slices.ContainsFunc(found, again):
			case s.How == python.ByConstants:
				constants = append(constants, s)
			default:
				found = append(found, s)
			}
		}
		if len(found) == 0 {
			found = constants
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// settings are the options of the program, then the values in files of settings that the command names.
func (d *drafting) settings() (all []setting) {
	if d.all != nil {
		return d.all
	}
	for _, o := range d.list.Options {
		if len(o.Names) == 0 {
			continue
		}
		if same, ok := d.list.Lookup(o.Names[0]); ok && !same.Known { // subcommands have different defaults
			o.Default, o.Known = "", false
		}
		s := setting{Option: o, place: d.at(o), key: d.key(o)}
		if value, ok := d.given(o); ok {
			s.Default, s.Known, s.typed = value, true, true
		}
		all = append(all, s)
	}
	all = append(all, d.undeclared(all)...)
	d.all = append(all, d.pairs(d.recipe())...)
	return d.all
}

// undeclared are settings that the command gives a number, and that no code was found to declare: a library reads them.
// Where a constant has the same name, it holds the value that counts where the command has none.
func (d *drafting) undeclared(all []setting) (more []setting) {
	for i, a := range d.prog.Args {
		name, value, joined := strings.Cut(a, "=")
		option := strings.HasPrefix(name, "--")
		if !joined && option && i+1 < len(d.prog.Args) {
			value = d.prog.Args[i+1]
		}
		if n, err := strconv.Atoi(value); err != nil || n < 1 || !option && (!joined || !dotted.MatchString(name)) {
			continue
		}
		if slices.ContainsFunc(all, func(s setting) bool { return s.How != python.ByConstants && s.Named(name) }) {
			continue
		}
		o := python.Option{Names: []string{name}, Dest: strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_"),
			Default: value, Known: true, How: "the command"}
		place := name
		if !option {
			place += "="
		}
		s := setting{Option: o, place: place, key: place, typed: true}
		same := slices.IndexFunc(all, func(c setting) bool {
			return c.How == python.ByConstants && (c.Dest == o.Dest || strings.HasSuffix(c.Dest, "."+o.Dest))
		})
		if same >= 0 {
			s.place = "{any: [" + place + ", " + all[same].place + "]}"
			s.Path, s.Line = all[same].Path, all[same].Line
		}
		more = append(more, s)
	}
	return more
}

// dotted matches a name in KEY=VALUE.
var dotted = lazy.MustCompile(`^[A-Za-z_]\w*(\.\w+)*$`)

// given is the value that the command gives an option: it outranks every default.
func (d *drafting) given(o python.Option) (value string, ok bool) {
	for i, a := range d.prog.Args {
		name, v, joined := strings.Cut(a, "=")
		switch {
		case !o.Named(name):
		case joined:
			value, ok = v, true
		case o.Takes == config.None || o.How == python.Hydra || o.How == python.ByConstants || o.How == python.ByFile:
		case i+1 < len(d.prog.Args) && !strings.HasPrefix(d.prog.Args[i+1], "--"):
			value, ok = d.prog.Args[i+1], true
		}
	}
	return value, ok
}

var recipes = []string{".yaml", ".yml", ".json", ".toml"}

// recipe is the values in the files of settings that the command names.
func (d *drafting) recipe() (all []setting) {
	for i, a := range d.prog.Args {
		option, value, joined := strings.Cut(a, "=")
		if !joined {
			option, value = "", a
			if i > 0 && strings.HasPrefix(d.prog.Args[i-1], "-") && !strings.Contains(d.prog.Args[i-1], "=") {
				option = d.prog.Args[i-1]
			}
		}
		ext := filepath.Ext(value)
		if !slices.Contains(recipes, ext) || strings.HasPrefix(value, "-") || strings.Contains(option, "deepspeed") {
			continue // DeepSpeed's train_batch_size is the global one
		}
		path := value
		if !filepath.IsAbs(path) {
			path = filepath.Join(d.prog.Dir, path)
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		doc, err := config.Parse(path, text)
		if err != nil {
			continue
		}
		tree, ok := doc.(interface{ Root() config.Value })
		if !ok {
			continue
		}
		named := quoted("*" + ext)
		if option != "" {
			named = option
			if !strings.HasPrefix(option, "-") {
				named = option + "="
			}
		}
		leaves(tree.Root(), nil, func(keys []string, v config.Value) {
			p := config.JoinPath(keys...)
			o := python.Option{Names: []string{p}, Dest: p, Default: v.Text(), Known: true, Path: path, Line: v.Line(),
				How: "recipe"}
			all = append(all, setting{Option: o, place: fmt.Sprintf("{%s: %s}", named, scalar(p)),
				key: quoted(strings.Trim(named, "'") + ":" + p)})
		})
	}
	return all
}

// leaves calls f with each scalar of a document.
func leaves(v config.Value, keys []string, f func([]string, config.Value)) {
	if len(keys) > 8 {
		return
	}
	for _, k := range v.Keys() {
		item, below := v.Get(k), append(slices.Clone(keys), k)
		switch item.Kind() {
		case config.Map:
			leaves(item, below, f)
		case config.Seq:
		default:
			f(below, item)
		}
	}
}

// from is the comment of a setting.
func (d *drafting) from(s *setting) string {
	where := s.Where()
	if s.Path != "" {
		where = fmt.Sprintf("%s:%d", d.relative(s.Path), s.Line)
	}
	if s.typed && len(s.Default) < 40 {
		if s.Path == "" {
			return "the command sets " + s.Default
		}
		return where + ", the command sets " + s.Default
	}
	if s.Known && s.Default != "None" && s.Default != "" && len(s.Default) < 40 {
		where += ", default " + s.Default
	}
	return where
}

// batchNorm drafts whether batch normalisation sees the micro-batch.
func (d *drafting) batchNorm() {
	for _, f := range d.files {
		for _, s := range f.Statements {
			for t := s.First; t < s.End; t++ {
				if f.Tokens[t].Kind != python.Word || !norm.MatchString(f.Token(t)) ||
					strings.Contains(f.Token(t), "Frozen") || f.listsNorms(s) || asked.MatchString(f.Of(s.Range)) {
					continue
				}
				why, certain := f.Token(t), sure
				if f != d.files[0] && d.best(wish{netName}, func(python.Option) bool { return true }) != nil {
					why, certain = why+". An option chooses the network: it may be another", likely
				}
				d.add(fmt.Sprintf("%s%s, %s", certain, d.place(f, t), why), "batch-norm: true")
				return
			}
		}
	}
	library := regexp.MustCompile(`\b(torchvision\.models|timm\.create_model|timm\b.*create_model|models\.__dict__|` +
		`models\.resnet\w*|segmentation_models_pytorch)`)
	for _, f := range d.files {
		if otherNorm.MatchString(f.Code) {
			continue
		}
		for n, line := range strings.Split(f.Code, "\n") {
			if m := library.FindString(line); m != "" && !d.ownNetwork() {
				d.add(fmt.Sprintf("%s%s:%d, %s: most models there have batch normalisation", likely, d.relative(f.Path), n+1,
					m), "batch-norm: true")
				return
			}
		}
	}
	d.hint("batch-norm: true", "No BatchNorm was found in the files that were read. If the network has it, add this line")
}

// ownNetwork reports whether the chosen network is one that the project itself adds to those of a library.
func (d *drafting) ownNetwork() bool {
	chosen := d.best(wish{netName}, func(o python.Option) bool { return o.Known })
	return chosen != nil && slices.ContainsFunc(d.definitions()[chosen.Default], func(at defined) bool {
		return at.statement > 0 && strings.HasPrefix(at.f.Of(at.f.Statements[at.statement-1].Range), "@register")
	})
}

var norm = lazy.MustCompile(`^(\w*BatchNorm\w*|SyncBN|InPlaceABN)$`)

// otherNorm matches where a library's network is made with a normalisation that sees no batch.
var otherNorm = lazy.MustCompile(`\bnorm_layer\s*=\s*[\w.]*(Frozen|Group|Layer|Instance|Identity)\w*`)

// listsNorms reports whether a statement lists several kinds of batch normalisation, to look for one of them.
func (f *file) listsNorms(s python.Statement) bool {
	n := 0
	for t := s.First; t < s.End; t++ {
		if f.Tokens[t].Kind == python.Word && norm.MatchString(f.Token(t)) && !f.Is(t+1, "(") {
			n++
		}
	}
	return n > 1
}

// asked matches a statement that asks for batch normalisation, converts, names or imports it, but makes none.
var asked = lazy.MustCompile(`\bisinstance\(|\btype\(|convert_sync|\bfreeze|__class__|^\s*(from|import)\b`)

// netName is how options are called that choose the network.
const netName = `net|arch|architecture|model|model_name|backbone|network`

// rungWishes are what launch may change, mildest first.
var rungWishes = []struct {
	name, cost, more string
	match, not       *lazy.Regexp
	value            *lazy.Regexp // of an option that takes a value: the choice
}{
	{"activation checkpointing", "speed", ", slowdown: 1.3",
		lazy.MustCompile(`^(use_)?(gradient|grad|activation|act)_?(checkpoint(ing)?|ckpt)s?$|^(use_|` +
			`enable_)?(grad_checkpoint\w*|checkpoint_activations|activation_checkpointing|remat|recompute|use_checkpoint|` +
			`use_reentrant_checkpoint)$|^(use_)?checkpointing$`),
		lazy.MustCompile(`kwargs|ratio|policy`), nil},
	{"bf16", "numerics", "", lazy.MustCompile(`^(use_)?bf16$|^bfloat16$`), nil, nil},
	{"mixed precision", "numerics", "", lazy.MustCompile(`^(use_)?(amp|mixed_precision|autocast)$|^(dtype|` +
		`precision|amp_dtype|torch_dtype|train_dtype)$`), nil,
		lazy.MustCompile(`^(bf16|bfloat16|bf16-mixed|amp_bf16|amp_bfloat16)$`)},
	{"8-bit optimizer", "numerics", ", new-state: true",
		lazy.MustCompile(`^(use_)?(8bit_adam\w*|adam_?8bit|8bit_optim\w*|8bit)$|^(optim|optimizer|optimizer_type|opt)$`),
		nil, lazy.MustCompile(`(?i)^(adamw?_?8bit|adamw_bnb_8bit|adamw?8bit)$`)},
}

// mixedAlready are values of a precision that is mixed, or less.
var mixedAlready = lazy.MustCompile(`(?i)^(torch\.)?(amp\w*|\w*(fp|bf|float)16\w*|16(-mixed)?|bf16-\w+|fp8|mixed)$`)

// rungs drafts what else launch may change: only what is off by default and not set by the command.
func (d *drafting) rungs() {
	var rungs, notes []string
	taken := map[string]bool{}
	for _, w := range rungWishes {
		for _, o := range d.settings() {
			name := bare(long(o.Option))
			if taken[w.name] || !w.match.MatchString(name) || w.not != nil && w.not.MatchString(name) {
				continue
			}
			if on := o.Known && o.Default == "True"; on || o.Known && o.Default == "None" && o.How == python.HF &&
				w.value == nil { // it is on, or the library decides
				taken[w.name] = true
				continue
			}
			if w.name == "mixed precision" && o.Known && mixedAlready.MatchString(o.Default) {
				taken[w.name] = true
				continue
			}
			if plainCheckpointing.MatchString(name) && !recomputes.MatchString(o.Help) {
				continue // it may be about saved states
			}
			to, place := d.turn(o, w.value)
			if to == "" || eightBits.MatchString(to) && !sameOptimizer(o.Default, to) {
				continue
			}
			taken[w.name] = true
			rungs = append(rungs, fmt.Sprintf("  - {name: %s, at: %s, to: %s, cost: %s%s}  # %s%s", w.name, place, to,
				w.cost, w.more, likely, d.from(&o)))
			notes = append(notes, name)
		}
		if w.name == "mixed precision" && taken["bf16"] { // one of them is enough
			taken[w.name] = true
		}
		if w.name == "bf16" {
			taken["mixed precision"] = taken["bf16"]
		}
	}
	if len(rungs) == 0 {
		d.hint("rungs:\n  - {name: activation checkpointing, at: {at: --gradient-checkpointing, takes: nothing}, to: "+
			"true, cost: speed}",
			"No option was found for activation checkpointing, bf16 or an 8-bit optimizer")
		return
	}
	d.lines = append(d.lines, entry{text: "rungs:\n" + strings.Join(rungs, "\n"), found: true})
	d.Found += len(notes)
}

var (
	plainCheckpointing = lazy.MustCompile(`^(use_)?checkpointing$`)
	recomputes         = lazy.MustCompile(`(?i)gradient|activation|recomput|memory`)
	eightBits          = lazy.MustCompile(`(?i)_?(bnb_)?8bit$`)
)

// sameOptimizer reports whether an optimizer of 8 bits is the one that is set, but for its state: another one than SGD
// or Adam is another training.
func sameOptimizer(set, to string) bool {
	family := strings.ToLower(eightBits.ReplaceAllString(to, ""))
	set = strings.ToLower(set)
	return strings.HasPrefix(set, family) && (family == "adamw" || !strings.HasPrefix(set, "adamw"))
}

// turn is the value that makes a rung of an option, and the option as a place; "" where it does not.
func (d *drafting) turn(o setting, choice *lazy.Regexp) (to, place string) {
	if o.Known && o.Default == "True" {
		return "", ""
	}
	switch {
	case o.Takes == config.None:
		return "true", fmt.Sprintf("{at: %s, takes: nothing}", o.place)
	case choice != nil && len(o.Choices) > 0:
		for _, c := range o.Choices {
			if choice.MatchString(c) && c != o.Default {
				return scalar(c), o.place
			}
		}
		return "", ""
	case o.Default == "False" || strings.Contains(o.Type, "bool") && o.Default != "None":
		return "true", o.place
	}
	return "", ""
}

var ignored = lazy.MustCompile(`^(lr|learning_rate|base_lr|max_lr|min_lr|init_lr|blr|lr_\w+|\w+_lr|warmup\w*|` +
	`num_warmup\w*|lr_warmup\w*|gamma|momentum|weight_decay|wd|beta_?[12]|betas|adam_\w+|eps|epsilon|` +
	`max_grad_norm|grad_clip|clip(_grad)?|label_smoothing|temperature|seed|manual_seed|random_seed|epochs?|` +
	`num_epochs|num_train_epochs|n_epochs|nepochs?|niter|start_epoch|max_epochs?|max_steps|max_train_steps|` +
	`max_iters?|num_iters|iterations|steps|n_steps|num_steps|` +
	`out|outdir|outf|output|out_dir|output_dir|save_dir|save_path|save|work_dir|log_dir|logdir|logging_dir|` +
	`log_?interval|log_freq|log_every|print_freq|print_every|logging_steps|exp_name|experiment|exp|run_name|name|` +
	`project|project_name|tag|notes|comment|` +
	`wandb\w*|report_to|tracker_\w+|eval_interval|eval_every|save_freq|save_every|save_steps|save_interval|` +
	`checkpoint_interval|checkpointing_steps|checkpoint_dir|ckpt_dir|checkpoints_total_limit|save_total_limit|` +
	`resume|resume_from_checkpoint)$`)

// ignore drafts the settings that do not change the memory.
func (d *drafting) ignore() {
	var places []string
	for _, o := range d.list.Options {
		if len(o.Names) == 0 || o.How == python.ByConstants || o.How == python.ByFile ||
			!ignored.MatchString(bare(long(o))) ||
			d.shapes(o) {
			continue
		}
		p := d.key(o)
		if names := d.names(o); len(names) > 1 && o.How != python.ByGlobals && o.How != python.Hydra {
			p = "[" + strings.Join(names, ", ") + "]"
		}
		if !slices.Contains(places, p) && len(places) < 40 {
			places = append(places, p)
		}
	}
	if len(places) > 0 {
		d.lines = append(d.lines, entry{text: "ignore: [" + wrapped(places) + "]", found: true,
			notes: []string{"Settings that do not change the memory, by their names. Remove one that does."}})
		d.Found++
	}
}

// lengthName are settings that bound the training in one program, and are the length of a rollout in another.
var lengthName = lazy.MustCompile(`^(steps|n_steps|num_steps)$`)

// shapes reports whether such a setting is a dimension of a tensor, or a factor of a batch: it then changes the memory.
func (d *drafting) shapes(o python.Option) bool {
	if !lengthName.MatchString(bare(long(o))) {
		return false
	}
	r := d.reads(&setting{Option: o, place: d.at(o)}, nil)
	for _, f := range d.files {
		if !r.mayBe(f) {
			continue
		}
		for _, s := range f.Statements {
			if a, ok := f.Assigns(s); ok && batchVariable.MatchString(lastPart(a.Name)) && r.in(f.Of(a.Value)) {
				return true
			}
			for _, c := range f.Calls(s.Range) {
				if drawn.MatchString(lastPart(c.Name)) && r.in(f.Of(f.Inside(c.Open))) {
					return true
				}
			}
		}
	}
	return false
}

// wrapped joins words by commas, over several lines.
func wrapped(words []string) string {
	var b strings.Builder
	column := 0
	for i, w := range words {
		if i > 0 {
			b.WriteString(",")
			if column+len(w) > 100 {
				b.WriteString("\n ")
				column = 0
			}
			b.WriteString(" ")
		}
		b.WriteString(w)
		column += len(w) + 2
	}
	return b.String()
}
