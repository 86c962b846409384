package dualattn

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
)

// The knobs beside the batch.
const (
	knobAMP    = "mixed precision"
	knobSize   = "input size"
	knobResize = "resize size"
	knobGLCA   = "global-local layers"
	// knobDerived is the configuration's own batch where --batch_size outranks it: the learning rate is derived from it.
	knobDerived = "micro-batch of the learning rate"
)

// project is the files that the script imports, as launch has read them.
type project struct{ sources []*config.PythonSource }

// checkout is a command of the family with what stands in its files.
type checkout struct {
	project
	command job.Command
	job     *job.Job // what came of it
	prog    command.Prog
	env     []string
	argv    *config.Argv
	options []config.Option
	cut     bool

	task, dataset string
	train         *config.PythonSource // the script
	model         *config.PythonSource
	transforms    *config.PythonSource // with the sizes of its factory's calls as items, or nil
	class         class
	version       version
	problem       string // why nothing can be said of what it costs
	unmapped      bool   // problem is a data set that the script refuses

	micro, accum int64
	batchFlag    bool // --batch_size outranks the configuration
	hasAccum     bool
}

var (
	rePairs    = lazy.MustCompile(`def forward\([^)]*\bx_pair\b`)
	reMaps     = lazy.MustCompile(`\bself\.attention_maps\s*=`)
	reClassMap = lazy.MustCompile(`["'](\w+)["']\s*:\s*(\w+)`)
)

// declared reads the script's options where it declares them, and the arguments that it gets.
func (x *checkout) declared(script string) error {
	src := python.ReadSource(script, maxFile)
	if !src.Exists() {
		return fmt.Errorf("%w: %s cannot be read", plugin.ErrNotMine, x.prog.Script)
	}
	for _, o := range src.Options() {
		x.options = append(x.options, o.Option)
	}
	var err error
	if x.argv, err = config.ParseArgv(x.prog.Args, x.options); err != nil {
		return fmt.Errorf("%w: reading the options of %s: %w", plugin.ErrNotMine, x.prog.Script, err)
	}
	task, ok1 := x.argv.Get("--task")
	dataset, ok2 := x.argv.Get("--dataset")
	if !ok1 || !ok2 {
		return fmt.Errorf("%w: no --task and --dataset", plugin.ErrNotMine)
	}
	x.task, x.dataset = task, dataset
	return nil
}

// ours reports whether one of the files is the family's model.
func ours(files []string) bool {
	return slices.ContainsFunc(files, func(f string) bool {
		return isModel(python.ReadSource(f, maxFile))
	})
}

func isModel(s python.Source) bool { return s.Has(rePairs) && s.Has(reMaps) }

// read finds what the sources say. The error says what the program itself would stop at.
func (x *checkout) read() error {
	x.train = x.sources[0]
	for _, s := range x.sources {
		if s.Problem != "" {
			x.problem = cmp.Or(x.problem, fmt.Sprintf("%s cannot be read: %s", filepath.Base(s.Path), s.Problem))
			continue
		}
		if x.model == nil && isModel(written(s)) {
			x.model = s
		}
	}
	if x.problem != "" || x.model == nil {
		x.problem = cmp.Or(x.problem, "the model file cannot be read")
		return nil
	}
	x.version = read(x.model)
	if err := x.findClass(); err != nil {
		return err
	}
	x.findTransforms()
	x.micro = x.class.int("batch_size", 0)
	_, x.hasAccum = x.class.field("gradient_accumulation_steps")
	x.accum = x.class.int("gradient_accumulation_steps", 1)
	if v, ok := x.argv.Get("--batch_size"); ok {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && n != 0 { // if args.batch_size: 0 is nothing
			x.micro, x.batchFlag = n, true
		}
	}
	if per := x.class.int("images_per_id", 0); x.task == "reid" && per > 0 && !x.batchFlag && x.micro%per != 0 {
		return fmt.Errorf("batch_size %d is not divisible by images_per_id %d: the configuration refuses it", x.micro, per)
	}
	return nil
}

// findClass finds the configuration that the script builds for the data set: by the table that maps names to classes,
// of which the class's own task must be the command's.
func (x *checkout) findClass() error {
	var known []string
	for _, s := range x.sources {
		if len(s.Classes) == 0 {
			continue
		}
		for _, m := range reClassMap.FindAllSubmatch(code(s), -1) {
			name, cl := string(m[1]), class{&x.project, s, string(m[2])}
			if s.Class(cl.name) == nil || cl.text("task_type") != x.task {
				continue
			}
			if name == x.dataset {
				x.class = cl
				return nil
			}
			if !slices.Contains(known, name) {
				known = append(known, name)
			}
		}
	}
	if len(known) == 0 {
		x.problem = "no configuration was found for --task " + x.task
		x.class = class{&x.project, x.model, ""}
		return nil
	}
	x.problem = fmt.Sprintf("--dataset %s: %s knows %s for --task %s",
		x.dataset, x.prog.Script, strings.Join(known, ", "), x.task)
	x.unmapped = true
	x.class = class{&x.project, x.model, ""}
	return nil
}

// at is the address of a setting.
func (s setting) at() config.Address {
	return config.Address{Doc: s.src.Path, Path: s.item.Path}
}

func (s setting) spelled() []byte { return s.src.Text[s.item.Start:s.item.End] }

var (
	reFactory = lazy.MustCompile(`\w+Transforms\(([^)]*)\)`)
	reSizes   = lazy.MustCompile(`\b(input_size|resize_size)\s*=\s*(\d+)`)
)

// The items that stand for the sizes which the transforms' factory writes out.
const (
	itemInput  = "get_transform_factory().input_size"
	itemResize = "get_transform_factory().resize_size"
)

// findTransforms finds the sizes that the factory of the transforms writes out, which the configuration never reaches:
// they are arguments of a call, so they are made into items of the file here. There must be one of each.
func (x *checkout) findTransforms() {
	if x.task != "fgvc" {
		return
	}
	for _, s := range x.sources {
		c := code(s)
		var items []config.PythonItem
		for _, call := range reFactory.FindAllSubmatchIndex(c, -1) {
			for _, m := range reSizes.FindAllSubmatchIndex(c[call[2]:call[3]], -1) {
				it := config.PythonItem{
					Path: "get_transform_factory()." + string(c[call[2]+m[2]:call[2]+m[3]]), Literal: true,
					Start: call[2] + m[4], End: call[2] + m[5],
				}
				it.Value = slices.Clone(s.Text[it.Start:it.End])
				it.Line = 1 + strings.Count(string(s.Text[:it.Start]), "\n")
				items = append(items, it)
			}
		}
		if len(items) == 2 && items[0].Path != items[1].Path {
			with := *s
			with.Items = append(slices.Clone(s.Items), items...)
			x.transforms = &with
			return
		}
	}
}

// transformSize is the input size that the transforms write out.
func (x *checkout) transformSize() (config.PythonItem, bool) {
	if x.transforms == nil {
		return config.PythonItem{}, false
	}
	return x.transforms.Item(itemInput)
}

// sizeReachable reports whether the input size can be changed: in the configuration and in the transforms.
func (x *checkout) sizeReachable() bool {
	if x.transforms == nil {
		return false
	}
	size, ok := x.class.field("input_size")
	resize, ok2 := x.class.field("resize_size")
	return ok && ok2 && size.item.Literal && resize.item.Literal
}

// reads reports whether any file of the project but the configurations names a field.
func (x *checkout) reads(field string) bool {
	re := lazy.MustCompile(`\b(?:self|config|args|cfg)(?:\.config)?\.` + field + `\b|['"]` + field + `['"]\s*:`)
	used := lazy.MustCompile(`\bself\.` + field + `\b`)
	for _, s := range x.sources {
		if !bytes.Contains(s.Text, []byte(field)) {
			continue
		}
		c := code(s)
		if s == x.model {
			if used.Match(c) {
				return true
			}
			continue
		}
		if reClassMap.Match(c) || s.Class(x.class.name) != nil || !re.Match(c) { // a configuration speaks of its fields itself
			continue
		}
		for line := range strings.SplitSeq(string(c), "\n") { // an assignment to it reads nothing
			if re.MatchString(line) && !lazy.MustCompile(`\.`+field+`\s*=[^=]`).MatchString(line) {
				return true
			}
		}
	}
	return false
}

// files are the documents that edits can be made in.
func (x *checkout) files() (out []job.File) {
	seen := map[string]bool{}
	add := func(s *config.PythonSource) {
		if s != nil && !seen[s.Path] {
			seen[s.Path] = true
			out = append(out, job.File{Path: s.Path, Format: job.Python, Source: s})
		}
	}
	if x.problem != "" {
		return nil
	}
	add(x.transforms) // before a configuration in the same file: it has more items
	for _, f := range []string{"batch_size", "gradient_accumulation_steps", "mixed_precision", "input_size", "resize_size", "num_glca_layers", "num_workers", "pin_memory"} {
		if s, ok := x.class.field(f); ok {
			add(s.src)
		}
	}
	return out
}

// ablated reports whether --ablation takes the GLCA branch away. The other ablations change nothing.
func (x *checkout) ablated() bool {
	a, _ := x.argv.Get("--ablation")
	return a == "sa_only" || a == "sa_pwca"
}

// dialect is the project: the package that its model stands in.
func (x *checkout) dialect() string {
	if x.model == nil {
		return ""
	}
	if x.guided() {
		return "clau_duaL_cross_attention_learning"
	}
	return filepath.Base(filepath.Dir(filepath.Dir(x.model.Path)))
}

func (x *checkout) experiment() string {
	if name, ok := x.argv.Get("--experiment_name"); ok {
		return name
	}
	name := x.task + "_" + x.dataset
	if a, ok := x.argv.Get("--ablation"); ok {
		name += "_" + a
	}
	return name
}

var reStates = lazy.MustCompile(`["']--checkpoint_dir["'][^\n]*default\s*=\s*["']([^"']+)["']`)

// states is the folder of the saved states, absolute: --checkpoint_dir, whose default outranks the configuration's.
func (x *checkout) states() string {
	dir, ok := x.argv.Get("--checkpoint_dir")
	if !ok && x.train != nil {
		if _, m, found := find(x.train, reStates); found {
			dir = m[1]
		} else {
			dir = x.class.text("checkpoint_dir")
		}
	}
	if dir == "" {
		return ""
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(x.prog.Dir, dir)
	}
	return dir
}

func (x *checkout) python() python.Environment { return python.Of(x.prog, x.env) }

// edit makes an edit of the setting on a throw-away copy.
func (s setting) edit(knob string, to any, cost fmt.Stringer, why string) (config.Edit, error) {
	doc, err := config.OpenPython(s.src)
	if err != nil {
		return config.Edit{}, err
	}
	text, err := config.PythonText(to)
	if err != nil {
		return config.Edit{}, err
	}
	e, err := config.Change(doc, s.src.Path, s.item.Path, text)
	e.Knob, e.Cost, e.Why = knob, cost.String(), why
	return e, err
}
