// Package declared is the plugin of projects that nobody has written a plugin for: a short file beside the training
// script says where its settings lie and what it prints.
//
// The file is .launch-job.yaml, in the script's folder or the command's:
//
//	script: train.py                                # which script is meant
//	micro-batch: {src/config.py: Config.batch_size} # where the micro-batch is set, and
//	accumulation: {src/config.py: Config.accum}     # the accumulation, if there is one
//	ranks: --num-gpus                               # how many processes share a step: a number, or where it is set
//	batch-norm: false                               # whether the network sees the micro-batch
//	rungs:                                          # what else may be changed, mildest first
//	  - {name: activation checkpointing, at: {src/config.py: Config.remat}, to: true, cost: speed}
//	progress: 'step (?P<iteration>\d+)'             # what it prints, as RE2 expressions
//	saved: 'saved (?P<path>\S+)'
//	succeeded: 'training is over'
//	resume: {--resume: 'checkpoints/*.pt'}          # by which option it goes on, and from what: files or folders
//	resume-value: resume                            # what that option is given, where it is not the path: the path names one file then
//	in-the-way: ['logs/config.yaml']                # what an attempt leaves and the next one stops at
//	save: {signal: USR1}                            # the signal on which it saves its state; stops: true if it then ends
//	confirm: {micro-batch: 'batch size (?P<value>\d+)'} # how it prints what it runs with; also accumulation, global-batch
//	metric: {name: loss, pattern: 'val loss (?P<value>\S+)', direction: minimise} # or a list of such
//
// Where several runs save into folders of their own, the resume's path says {--option} for the value of an option:
// 'runs/{--name}/*.pt'. A folder that an option such as --out names, and that the path's patterns match, is taken for
// this
// run's own as well. A group (?P<total>…) in progress, for "step 4/100", says of how many optimizer steps.
//
// A place is an option ("--batch-size"), a value in Python source ({file.py: Class.field}, {file.py: CONSTANT}), or a
// value in the file that an option names ({--config: train.batch_size}). There is no formula: the job runs as it is,
// and
// after an out-of-memory the next rung is taken.
//
// The file is believed as a settings file is (core/trust): else the command runs as typed.
package declared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/trust"
)

// File is the name of a declaration.
const File = ".launch-job.yaml"

// New returns the plugin.
func New() plugin.Plugin { return declared{} }

type declared struct{}

// Manifest implements [plugin.Plugin].
func (declared) Manifest() plugin.Manifest {
	return plugin.Manifest{Name: "declared", Version: "1", About: "any project with a " + File + " beside its script",
		Marks: []plugin.Mark{{Beside: []string{File}}}}
}

// A place is where a setting stands.
type place struct {
	file string // a Python file; or "" for an option or the file that an option names
	flag string
	path string // within the file; "" is the option's own value
}

// declaration is a .launch-job.yaml that was read.
type declaration struct {
	path         string
	micro, accum *place
	ranks        *place // where the number of ranks is set; nil: fixed, or by the command's launcher
	fixed        int64  // that number itself; 0: not given
	batchNorm    bool
	rungs        []rung
	signs        job.Signs
	resume       string // the option
	resumeValue  string // what it is given; "" for the state's path
	inTheWay     []string
	save         job.Save
}

type rung struct {
	name string
	at   place
	to   any
	cost ladder.Cost
}

// maxFile bounds what is read of a recipe.
const maxFile = 4 << 20

// keys of a declaration.
var keys = []string{"script", "micro-batch", "accumulation", "ranks", "batch-norm", "rungs", "progress", "started",
	"saved", "succeeded", "resume", "resume-value", "in-the-way", "save", "confirm", "metric"}

// read reads a declaration, which has to be about the script.
func read(path, script string) (*declaration, error) {
	text, err := believed(path)
	if err != nil {
		return nil, err
	}
	doc, err := config.ParseYAML(text)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	f := written{path, doc.Root()}
	for _, k := range f.root.Keys() {
		if !slices.Contains(keys, k) {
			return nil, f.wrong(k, "there is no such key; there are %s", strings.Join(keys, ", "))
		}
	}
	switch s, ok := f.root.Get("script").Str(); {
	case !ok:
		return nil, fmt.Errorf("%s: script: it does not say which script it is about", path)
	case s != script:
		return nil, fmt.Errorf("%w: %s is about %s", plugin.ErrNotMine, path, f.root.Get("script").Text())
	}
	d := &declaration{path: path}
	parts := []func(*declaration) error{f.readPlaces, f.readRungs, f.readSigns, f.readMetrics, f.readConfirm, f.readResume,
		f.readSave}
	for _, part := range parts {
		if err := part(d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// believed is the text of a declaration that may be believed: it decides what is changed, and from what the program
// goes on.
func believed(path string) ([]byte, error) {
	told, err := trust.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, &plugin.Caution{Why: fmt.Sprintf("nothing of %s is taken: %v", path, err)}
	case told.Foreign != nil && !trust.Approved().Has(told):
		return nil, &plugin.Caution{Why: fmt.Sprintf("nothing of %s is taken: %v (read it, and take it by `launch trust %s`)", path, told.Foreign, path)}
	}
	return told.Text, nil
}

// written is a declaration as it is written.
type written struct {
	path string
	root config.Value
}

func (f written) wrong(key, format string, args ...any) error {
	return fmt.Errorf("%s, line %d: %s: %s", f.path, f.root.Get(key).Line(), key, fmt.Sprintf(format, args...))
}

func (f written) readPlaces(d *declaration) error {
	d.batchNorm, _ = f.root.Get("batch-norm").Bool()
	for _, s := range []struct {
		key  string
		into **place
	}{{"micro-batch", &d.micro}, {"accumulation", &d.accum}, {"ranks", &d.ranks}} {
		v := f.root.Get(s.key)
		if n, ok := v.Int(); ok && s.key == "ranks" && n > 0 {
			d.fixed = n
		} else if v.Exists() {
			p, err := placeOf(v)
			if err != nil {
				return f.wrong(s.key, "%v", err)
			}
			*s.into = &p
		}
	}
	if d.micro == nil {
		return fmt.Errorf("%s: micro-batch: it does not say where that is set", f.path)
	}
	return nil
}

func (f written) readRungs(d *declaration) (err error) {
	for i := range f.root.Get("rungs").Len() {
		v := f.root.Get("rungs").Index(i)
		r := rung{name: v.Get("name").Text()}
		if r.at, err = placeOf(v.Get("at")); err != nil {
			return f.wrong("rungs", "%q: %v", r.name, err)
		}
		if r.cost, err = ladder.ParseCost(v.Get("cost").Text()); err != nil {
			return f.wrong("rungs", "%q: %v", r.name, err)
		}
		if r.to = scalar(v.Get("to")); r.to == nil || r.name == "" {
			return f.wrong("rungs", "each has a name, a place (at), a value (to) and a cost")
		}
		d.rungs = append(d.rungs, r)
	}
	slices.SortStableFunc(d.rungs, func(a, b rung) int { return int(a.cost - b.cost) })
	return nil
}

// signKeys are the keys whose values are patterns of what the program prints, with the group that a pattern has to
// have.
var signKeys = []struct {
	key, group string
	kind       job.SignKind
}{{"progress", "iteration", job.Progress}, {"started", "", job.Started}, {"saved", "", job.SavedState}, {"succeeded", "", job.Succeeded}}

func placeOf(v config.Value) (place, error) {
	if s, ok := v.Str(); ok && strings.HasPrefix(s, "-") {
		return place{flag: s}, nil
	}
	if v.Kind() == config.Map && v.Len() == 1 {
		key := v.Keys()[0]
		path, ok := v.Get(key).Str()
		switch {
		case !ok || path == "":
		case strings.HasPrefix(key, "-"):
			return place{flag: key, path: path}, nil
		case strings.HasSuffix(key, ".py"):
			return place{file: key, path: path}, nil
		}
	}
	return place{}, errors.New("a place is an option, {file.py: Class.field}, or {--option: path.in.its.file}")
}

func scalar(v config.Value) any {
	if b, ok := v.Bool(); ok {
		return b
	}
	if i, ok := v.Int(); ok {
		return i
	}
	if f, ok := v.Float(); ok {
		return f
	}
	if s, ok := v.Str(); ok {
		return s
	}
	return nil
}

// reading is a command and the documents that its declaration speaks of.
type reading struct {
	*declaration
	prog    command.Prog
	argv    *config.Argv
	options []config.Option
	files   []job.File
	command job.Command
	job     *job.Job        // what came of it
	implied int64           // the accumulation where the command does not set it; 0 where it does
	unset   *config.Address // where the accumulation could be set and is not, and its default is not known
}

// open finds the declaration and reads the documents. The error may be a [plugin.Need].
func open(c job.Command) (*reading, error) {
	prog, err := command.Program(c.Args, c.Env, c.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", plugin.ErrNotMine, err)
	}
	r := &reading{prog: prog, command: c}
	script := filepath.Base(prog.Script)
	for _, dir := range []string{filepath.Dir(prog.Path()), prog.Dir} {
		r.declaration, err = read(filepath.Join(dir, File), script)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, plugin.ErrNotMine
	case err != nil:
		return nil, err
	}
	places := r.places()
	if err := r.declare(places); err != nil {
		return nil, err
	}
	if r.argv, err = config.ParseArgv(prog.Args, r.options); err != nil {
		return nil, fmt.Errorf("reading the options of %s: %w", prog.Script, err)
	}
	for _, p := range places {
		if err := r.openFile(p); err != nil {
			return nil, err
		}
	}
	return r, r.imply()
}

// places are all that the declaration names.
func (d *declaration) places() []place {
	places := []place{*d.micro}
	if d.accum != nil {
		places = append(places, *d.accum)
	}
	if d.ranks != nil {
		places = append(places, *d.ranks)
	}
	for _, g := range d.rungs {
		places = append(places, g.at)
	}
	return places
}

// declare lists the options that are spoken of. The error is a [plugin.Need] of the Python files that are.
func (r *reading) declare(places []place) error {
	var need plugin.Need
	flags := map[string]bool{}
	add := func(flag string) {
		if flag != "" && !flags[flag] {
			flags[flag] = true
			r.options = append(r.options, config.Option{Names: []string{flag}})
		}
	}
	for _, p := range places {
		add(p.flag)
		if p.file != "" && r.command.Source(r.absolute(p.file)) == nil && !slices.Contains(need.Sources, r.absolute(p.file)) {
			need.Sources = append(need.Sources, r.absolute(p.file))
		}
	}
	if len(need.Sources) > 0 {
		return &need
	}
	add(r.resume)
	return nil
}

// imply finds the accumulation of a command that does not set it.
func (r *reading) imply() error {
	if r.accum == nil {
		return nil
	}
	doc, at, err := r.document(*r.accum)
	if err != nil {
		return err
	}
	if _, set := doc.Get(at.Path); !set {
		n, known := r.assumed(*r.accum)
		if r.implied = n; !known {
			r.accum, r.unset = nil, &at
		}
	}
	return nil
}

// absolute is a path of the declaration, which is relative to its own folder.
func (r *reading) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.path), path)
}

func (r *reading) openFile(p place) error {
	f := job.File{}
	switch {
	case p.file != "":
		f.Path, f.Format, f.Source = r.absolute(p.file), job.Python, r.command.Source(r.absolute(p.file))
	case p.path != "":
		name, ok := r.argv.Get(p.flag)
		if !ok {
			return fmt.Errorf("%s expects a settings file after %s, but the command has no %s", r.path, p.flag, p.flag)
		}
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.prog.Dir, path)
		}
		text, err := file.Read(path, maxFile)
		if err != nil {
			return fmt.Errorf("reading the recipe: %w", err)
		}
		f = job.File{Path: name, Format: "yaml", Flag: p.flag, Text: text}
	default:
		return nil
	}
	if !slices.ContainsFunc(r.files, func(o job.File) bool { return o.Path == f.Path }) {
		r.files = append(r.files, f)
	}
	return nil
}

// document returns the document of a place, and its name and path in edits.
func (r *reading) document(p place) (config.Document, config.Address, error) {
	if p.path == "" {
		return r.argv, config.Address{Doc: config.ArgvDoc, Path: p.flag}, nil
	}
	name := r.absolute(p.file)
	if p.file == "" {
		name, _ = r.argv.Get(p.flag)
	}
	i := slices.IndexFunc(r.files, func(f job.File) bool { return f.Path == name })
	at := config.Address{Doc: name, Path: p.path}
	if f := r.files[i]; f.Source != nil {
		doc, err := config.OpenPython(f.Source)
		keys := config.SplitPath(p.path)
		if err == nil && len(keys) > 1 { // a field may stand in a base
			if it, ok := f.Source.Field(config.JoinPath(keys[:len(keys)-1]...), keys[len(keys)-1]); ok {
				at.Path = it.Path
			}
		}
		return doc, at, err
	}
	doc, err := config.Parse(name, r.files[i].Text)
	return doc, at, err
}

// number reads a whole number at a place.
func (r *reading) number(p *place, absent int64) (int64, error) {
	if p == nil {
		return absent, nil
	}
	doc, at, err := r.document(*p)
	if err != nil {
		return 0, err
	}
	text, ok := doc.Get(at.Path)
	if !ok {
		return absent, nil
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s: %v is %q, which is no batch size", r.path, at, text)
	}
	return n, nil
}

// world is how many processes share a step: what the command's launcher starts, else by the declaration, else one. The
// error may be a [plugin.Need] of the number of cards.
func (r *reading) world() (int64, error) {
	for _, l := range r.prog.Launchers {
		n, asks := l.Ranks(r.command.Devices)
		if asks && r.command.Devices == 0 {
			return 0, &plugin.Need{Devices: true}
		}
		if n > 0 {
			return int64(n), nil
		}
	}
	n, err := r.number(r.ranks, r.fixed)
	if r.ranks != nil && n == 0 && err == nil {
		n, _ = r.assumed(*r.ranks)
	}
	return max(1, n), err
}

// Recognize implements [plugin.Plugin].
func (declared) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	r, err := open(c)
	if err != nil {
		return nil, err
	}
	micro, err := r.number(r.micro, 0)
	if err != nil {
		return nil, err
	}
	accum, err := r.number(r.accum, max(1, r.implied))
	if err != nil {
		return nil, err
	}
	ranks, err := r.world()
	if err != nil {
		return nil, err
	}
	j := &job.Job{
		Dialect: "declared in " + filepath.Base(filepath.Dir(r.path)) + "/" + File, Name: filepath.Base(r.prog.Script),
		Options: r.options, Files: r.files, Signs: r.signs,
		Batch:     job.Batch{Micro: micro, Accumulation: accum, Ranks: ranks},
		Rehearsal: job.Rehearsal{None: "a declaration does not say how the program is shortened"},
	}
	j.Knobs = append(r.knob(job.MicroBatch, r.micro), r.knob(job.Accumulation, r.accum)...)
	if micro == 0 {
		_, at, _ := r.document(*r.micro)
		j.Warnings = append(j.Warnings, fmt.Sprintf("%v is not set, so the micro-batch is not known and stays as it is", at))
	}
	if r.unset != nil {
		name := r.unset.String()
		if r.unset.Doc == config.ArgvDoc {
			name = r.unset.Path
		}
		j.Warnings = append(j.Warnings, fmt.Sprintf("%s is not set, and its default could not be read: it stays as it is, so a smaller micro-batch changes the global batch; set it, and that stays the same", name))
	}
	j.Resume.InTheWay = r.inTheWay
	j.Save = r.save
	j.Signs.States, j.Exclusive = own(j.Signs.States, r.prog.Args, r.prog.Dir, func(option string) (string, bool) { return optionOf(r.prog.Args, option) })
	switch {
	case r.resume == "":
		j.Resume.None = File + " names no option to resume by"
	case r.resumeValue != "" && slices.ContainsFunc(j.Signs.States, patterned): // the program might take another one
		j.Resume.None = "the program itself chooses the state, and " + File + " does not name one file"
	default:
		from, given := r.argv.Get(r.resume)
		j.Resume.Edits = []config.Edit{{Knob: "resume", At: config.Address{Doc: config.ArgvDoc, Path: r.resume}, From: from, To: cmp.Or(r.resumeValue, job.SavedPath), Add: !given, Cost: "none"}}
	}
	r.job = j
	return r, nil
}

// optionOf is the value of an option as it was typed.
func optionOf(args []string, option string) (string, bool) {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, option+"="); ok {
			return v, true
		}
		if a == option && i+1 < len(args) {
			return args[i+1], true
		}
	}
	return "", false
}

// knob is the setting at a place, or nothing where none is declared.
func (r *reading) knob(name string, p *place) []job.Knob {
	if p == nil {
		return nil
	}
	doc, at, err := r.document(*p)
	if err != nil {
		return nil
	}
	value, set := doc.Get(at.Path)
	return []job.Knob{{Name: name, At: at, Value: value, Default: !set}}
}

// Job implements [plugin.Recognized].
func (r *reading) Job() *job.Job { return r.job }

// Ladders implements [plugin.Recognized].
func (r *reading) Ladders(context.Context, gpu.Device) (*ladder.Set, error) {
	unknown := []mem.Estimate{{Unknown: "a declared project has no formula: launch works from what it measures"}}
	b := r.job.Batch
	set := &ladder.Set{
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}},
		Values: map[string]int64{job.MicroBatch: b.Micro, job.Accumulation: b.Accumulation},
	}
	if b.Micro > 0 {
		set.Invariants = []ladder.Invariant{{Name: "global batch", Factors: []string{job.MicroBatch, job.Accumulation}, Equals: b.Micro * b.Accumulation, Until: ladder.Recipe}}
	}
	asked := ladder.AsAsked(unknown...)
	var below []ladder.Rung
	for _, g := range r.rungs {
		e, err := r.edit(g.name, g.at, g.to, g.cost)
		if err != nil {
			return nil, err
		}
		if e.From == e.To && !e.Add { // it is so already
			continue
		}
		below = append(below, ladder.Rung{Name: g.name, Cost: g.cost, Slowdown: 1.3, Estimates: unknown, Edits: []config.Edit{e}})
	}
	for micro := b.Micro / 2; micro >= 1 && b.Micro%micro == 0; micro /= 2 {
		k := b.Micro / micro
		rg := ladder.Rung{Cost: ladder.Speed, Slowdown: 1 + 0.1*float64(k), Estimates: unknown, Values: map[string]int64{job.MicroBatch: micro}}
		if r.batchNorm {
			rg.Cost = ladder.Numerics
		}
		rg.Name = fmt.Sprintf("micro-batch %d", micro)
		if r.accum == nil {
			rg.Cost = ladder.Recipe // there is nothing to make up for it
		} else {
			rg.Name += fmt.Sprintf(" × accumulation %d", b.Accumulation*k)
			rg.Values[job.Accumulation] = b.Accumulation * k
			e, err := r.edit(job.Accumulation, *r.accum, b.Accumulation*k, rg.Cost)
			if err != nil {
				return nil, err
			}
			rg.Edits = append(rg.Edits, e)
		}
		e, err := r.edit(job.MicroBatch, *r.micro, micro, rg.Cost)
		if err != nil {
			return nil, err
		}
		rg.Edits = append(rg.Edits, e)
		below = append(below, rg)
	}
	set.Phases = []ladder.Ladder{{Phase: ladder.Training, Rungs: ladder.Descend(asked, below, 0)}}
	return set, nil
}

// edit is the edit of one place.
func (r *reading) edit(knob string, p place, to any, cost ladder.Cost) (config.Edit, error) {
	doc, at, err := r.document(p)
	if err != nil {
		return config.Edit{}, err
	}
	text := fmt.Sprint(to)
	if t, ok := doc.(config.Tree); ok {
		if text, err = t.Text(to); err != nil {
			return config.Edit{}, fmt.Errorf("%v: %w", at, err)
		}
	} else {
		doc, err = config.ParseArgv(r.prog.Args, r.options)
		if err != nil {
			return config.Edit{}, err
		}
	}
	e, err := config.Change(doc, at.Doc, at.Path, text)
	if err != nil {
		return config.Edit{}, fmt.Errorf("%s: %w", r.path, err)
	}
	e.Knob, e.Cost = knob, cost.String()
	return e, nil
}
