package declared

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
)

// maxFile bounds what is read of a recipe or a script.
const maxFile = 4 << 20

// reading is a command and the documents that its declaration speaks of.
type reading struct {
	*found
	prog    *program
	argv    *config.Argv
	options []config.Option
	files   []job.File // those that the job reads, and launch can change
	others  []job.File // those that nothing names, so that launch can only read them
	command job.Command
	job     *job.Job // what came of it

	warnings []string
	changed  []effect // nil before they were read
	counted  string   // why a state saved at another micro-batch is none to go on from, read with them
	division
}

// open finds the declaration and reads the documents. The error may be a [plugin.Need].
func open(c job.Command) (*reading, error) {
	prog, err := command.Program(c.Args, c.Env, c.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", plugin.ErrNotMine, err)
	}
	r := &reading{prog: programOf(prog, c.Env), command: c}
	if r.found, err = declarationOf(r.prog); err != nil {
		return nil, err
	}
	places := r.places()
	for _, p := range places {
		r.declare(p)
	}
	r.declareTyped()
	if r.argv, err = config.ParseArgv(prog.Args, r.options); err != nil {
		return nil, fmt.Errorf("reading the options of %s: %w", prog.Script, err)
	}
	var need plugin.Need
	for _, p := range places {
		if err := r.openFile(p, &need); err != nil {
			return nil, err
		}
	}
	if len(need.Sources) > 0 {
		return nil, &need
	}
	return r, nil
}

// places lists all that the declaration names, one by one.
func (d *declaration) places() (all []place) {
	add := func(ps ...*place) {
		for _, p := range ps {
			if p != nil {
				all = append(all, p.each()...)
			}
		}
	}
	add(d.Micro, d.Accumulation, d.Ranks.at(), d.Global.at(), d.SampleTokens.at())
	for _, p := range d.Phases {
		add(p.value.Micro, p.value.Of.at())
	}
	for _, v := range d.Values {
		add(v.value.place)
	}
	for i := range d.Rungs {
		g := &d.Rungs[i]
		add(g.At)
		all = append(all, slices.Concat(placesOf(g.Set), placesOf(g.When), placesOf(g.Unless))...)
	}
	for _, l := range d.Leave {
		all = append(all, placesOf(l.When)...)
	}
	if d.Resume != nil {
		add(d.Resume.option)
		all = append(all, placesOf(d.Resume.set)...)
	}
	if d.Rehearse != nil {
		all = append(all, placesOf(d.Rehearse.Set)...)
		for _, o := range d.Rehearse.Largest {
			all = append(all, placesOf(o.Set)...)
		}
	}
	for i := range d.Scaled {
		add(&d.Scaled[i])
	}
	for i := range d.Data {
		add(&d.Data[i])
	}
	return all
}

func placesOf[T any](s settings[T]) (all []place) {
	for _, a := range s {
		all = append(all, a.place.each()...)
	}
	return all
}

// declare lists the option of a place.
func (r *reading) declare(p place) {
	if !p.option() {
		return
	}
	o := config.Option{Names: p.names, Takes: p.takes, Joined: p.joined}
	if p.takes == config.One && p.path == "" {
		o.Takes = r.prog.takesOf(p)
	}
	for i, known := range r.options {
		if slices.ContainsFunc(o.Names, func(n string) bool { return slices.Contains(known.Names, n) }) {
			for _, n := range o.Names { // named by more of its names here
				if !slices.Contains(known.Names, n) {
					r.options[i].Names = append(slices.Clone(r.options[i].Names), n)
				}
			}
			if known.Takes == config.One {
				r.options[i].Takes = o.Takes
			}
			return
		}
	}
	r.options = append(r.options, o)
}

// declareTyped lists the options of the command that the program has, and the declaration has not, if their names begin
// as one does that it has: --batch is no abbreviation of --batch-size in a program that has both.
func (r *reading) declareTyped() {
	for _, a := range r.prog.Args {
		name, _, _ := strings.Cut(a, "=")
		begins := func(o config.Option) bool {
			return slices.ContainsFunc(o.Names, func(n string) bool { return n != name && strings.HasPrefix(n, name) })
		}
		if !strings.HasPrefix(name, "--") || len(name) == 2 || !slices.ContainsFunc(r.options, begins) ||
			slices.ContainsFunc(r.options, func(o config.Option) bool { return slices.Contains(o.Names, name) }) {
			continue
		}
		if o, ok := r.prog.settings().Lookup(name); ok {
			r.options = append(r.options, config.Option{Names: []string{name}, Takes: o.Takes})
		}
	}
}

// absolute is a path of the declaration, which is relative to its own folder.
func (r *reading) absolute(path string) string { return file.In(r.dir, path) }

// named finds the file of a place: the path as the command names it, and where it lies. ok is false where no argument
// names a file.
func (r *reading) named(p place) (name, path string, ok bool) {
	switch {
	case p.path == "":
		return "", "", false
	case p.file != "":
		path = r.absolute(p.file)
		if _, err := os.Stat(path); err != nil && !filepath.IsAbs(p.file) {
			if other := filepath.Join(r.prog.Dir, p.file); r.ready && exists(other) {
				path = other
			}
		}
		return path, path, true
	case p.glob != "":
		name, ok = r.positional(p.glob)
	default:
		name, ok = r.argument(p)
	}
	if !ok || name == "" {
		return "", "", false
	}
	return name, file.In(r.prog.Dir, name), true
}

// argument is what the command gives an option or a key.
func (r *reading) argument(p place) (string, bool) { return r.argv.Get(r.key(p)) }

// key is the path of a place in the arguments. Hydra's arguments may begin with + or ++.
func (r *reading) key(p place) string {
	if p.option() {
		return p.names[0]
	}
	bare := strings.TrimLeft(p.names[0], "+~")
	for _, k := range []string{bare, "+" + bare, "++" + bare} {
		if r.argv.Has(k) {
			return k
		}
	}
	return p.names[0]
}

// positional is the last positional argument that matches the pattern, by its path or its base name, and is a file.
// What follows an option that the declaration does not name may be that option's value.
func (r *reading) positional(glob string) (name string, ok bool) {
	for _, a := range r.argv.Positionals() {
		i := slices.Index(r.prog.Args, a)
		whole, _ := filepath.Match(glob, a)
		base, _ := filepath.Match(glob, filepath.Base(a))
		before := ""
		if i > 0 {
			before = r.prog.Args[i-1]
		}
		value := slices.Contains(r.argv.Unknown(), before) && !strings.Contains(before, "=")
		if (whole || base) && !value && !strings.Contains(a, "=") && exists(file.In(r.prog.Dir, a)) {
			name, ok = a, true
		}
	}
	return name, ok
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// openFile reads the file of a place. Python files are added to the need.
func (r *reading) openFile(p place, need *plugin.Need) error {
	name, path, ok := r.named(p)
	if !ok || r.file(name) != nil {
		return nil
	}
	f := job.File{Path: name, Format: formatOf(path), Argument: p.glob != ""}
	if len(p.names) > 0 {
		f.Flag = r.key(p)
	}
	switch {
	case (p.optional || r.ready) && !exists(path):
		return nil
	case f.Format == job.Python:
		if f.Source = r.command.Source(path); f.Source == nil {
			if !slices.Contains(need.Sources, path) {
				need.Sources = append(need.Sources, path)
			}
			return nil
		}
	default:
		text, err := file.Read(path, maxFile)
		if err != nil {
			return fmt.Errorf("reading the recipe: %w", err)
		}
		f.Text = text
	}
	if f.Flag == "" && !f.Argument && f.Format != job.Python {
		r.others = append(r.others, f)
	} else {
		r.files = append(r.files, f)
	}
	return nil
}

func formatOf(path string) string {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".py":
		return job.Python
	case ".toml", ".json":
		return ext[1:]
	}
	return "yaml"
}

// file returns the file of that name that was read, or nil.
func (r *reading) file(name string) *job.File {
	for _, files := range [][]job.File{r.files, r.others} {
		if i := slices.IndexFunc(files, func(f job.File) bool { return f.Path == name }); i >= 0 {
			return &files[i]
		}
	}
	return nil
}

const isExpression = "it is an expression"

// A spot is one place, as the command has it.
type spot struct {
	place place
	at    config.Address
	text  string // its value as it is spelled
	value any    // the same as bool, int64, float64 or string; nil: it is an expression, or several values
	set   bool
	fixed string // why launch cannot change it there; "" if it can
}

// look finds one place in the command. ok is false where the command has no file of that place.
func (r *reading) look(p place) (s spot, ok bool, err error) {
	s.place = p
	if p.path == "" {
		s.at = config.Address{Doc: config.ArgvDoc, Path: r.key(p)}
		s.set = r.argv.Has(s.at.Path)
		if values := r.argv.Values(s.at.Path); len(values) == 1 {
			s.text, s.value = values[0], typed(values[0])
		} else if s.set && len(values) == 0 {
			s.value = true
		}
		return s, true, nil
	}
	name, _, named := r.named(p)
	f := r.file(name)
	if !named || f == nil {
		return s, false, nil
	}
	doc, err := f.Open()
	if err != nil {
		return s, false, err
	}
	s.at = config.Address{Doc: name, Path: p.path}
	if f.Source != nil {
		s.at.Path = inBase(f.Source, p.path)
		if it, ok := f.Source.Item(s.at.Path); ok && !it.Literal {
			s.set, s.text = true, string(f.Source.Text[it.Start:it.End])
			s.value, s.fixed = product(s.text), isExpression
			return s, true, nil
		}
	}
	s.text, s.set = doc.Get(s.at.Path)
	if class := setAgain(f.Source, p.path); class != "" { // nothing shows which of the classes the program uses
		s.fixed = "the class " + class + " sets it again"
		return s, true, nil
	}
	s.value = scalarOf(doc.Root().At(s.at.Path))
	switch {
	case f.Source == nil && f.Flag == "" && !f.Argument:
		s.fixed = "no argument names " + filepath.Base(name) + ", so launch cannot give the program a copy of it"
	case f.Source != nil && !s.set:
		s.fixed = filepath.Base(name) + " does not set it"
	case f.Source == nil && s.set:
		if err := doc.Set(s.at.Path, s.text); err != nil { // a YAML anchor shares it with other settings
			s.fixed = err.Error()
		}
	}
	return s, true, nil
}

// setAgain is the class that sets a field of another one again, which it is derived from; "" if there is none.
func setAgain(source *config.PythonSource, path string) string {
	keys := config.SplitPath(path)
	if source == nil || len(keys) < 2 {
		return ""
	}
	n := len(keys) - 1
	for _, c := range source.Classes {
		_, sets := source.Item(config.JoinPath(append(config.SplitPath(c.Name), keys[n])...))
		if sets && slices.Contains(c.Bases, config.JoinPath(keys[:n]...)) {
			return c.Name
		}
	}
	return ""
}

// inBase is the path of a field where the file declares it: it may stand in a base of the class.
func inBase(source *config.PythonSource, path string) string {
	keys := config.SplitPath(path)
	if n := len(keys) - 1; n > 0 {
		if it, ok := source.Field(config.JoinPath(keys[:n]...), keys[n]); ok {
			return it.Path
		}
	}
	return path
}

// typed is the text of an argument as a value.
func typed(s string) any {
	switch strings.ToLower(s) {
	case "true":
		return true
	case "false":
		return false
	}
	return cmp.Or[any](product(s), s)
}

// A setting is a place of the declaration, as the command has it.
type setting struct {
	spot
	known    bool // a value or a default is known
	byScript bool // nothing sets it: the value is its default
	// change is where launch changes it: it outranks what sets it now, or is that. nil: it cannot be changed.
	change *spot
}

// find finds a setting. Of several places the first that sets it counts.
func (r *reading) find(p *place) (*setting, error) {
	var spots []spot
	for _, one := range p.each() {
		here, ok, err := r.look(one)
		if err != nil && !r.ready && !one.optional {
			return nil, err
		}
		if !ok || err != nil {
			continue
		}
		if r.overwritten(here, p) {
			continue
		}
		if spots = append(spots, here); here.set {
			return &setting{spot: here, known: here.value != nil, change: changed(spots)}, nil
		}
	}
	if len(spots) == 0 {
		return &setting{spot: spot{at: config.Address{Path: p.String()}, fixed: "the command names no such file"}}, nil
	}
	s := &setting{spot: spots[0], byScript: true, change: changed(spots)}
	if s.change != nil {
		s.at, s.place = s.change.at, s.change.place
	}
	if s.value = p.preset(); s.value == nil || r.ready && r.redeclares(p) {
		s.value = r.assumed(p)
	}
	if s.value == nil && s.place.takes == config.None {
		s.value = false
	}
	s.known = s.value != nil
	return s, nil
}

// overwritten reports whether a file that the command names later sets the value again: a program that executes its
// arguments in turn, --batch=8 and files of settings, takes the last.
func (r *reading) overwritten(s spot, p *place) bool {
	if !s.set || !s.place.joined || s.place.path != "" {
		return false
	}
	at := slices.IndexFunc(r.prog.Args, func(a string) bool { return strings.HasPrefix(a, s.at.Path+"=") })
	return slices.ContainsFunc(p.each(), func(one place) bool {
		if one.glob == "" {
			return false
		}
		file, ok, err := r.look(one)
		return err == nil && ok && file.set && slices.Index(r.prog.Args, file.at.Doc) > at
	})
}

// changed chooses where a setting is changed. The last spot is what sets it, if any does: the others outrank it.
// An argument comes before a file, which takes a copy.
func changed(spots []spot) (best *spot) {
	last := &spots[len(spots)-1]
	if last.set && last.fixed == "" && last.at.Doc == config.ArgvDoc {
		return last
	}
	for i := range spots {
		if s := &spots[i]; s.fixed == "" && s.at.Doc == config.ArgvDoc {
			return s
		}
	}
	if last.set && last.fixed == "" {
		return last
	}
	for i := range spots {
		if s := &spots[i]; s.fixed == "" {
			return s
		}
	}
	return nil
}

// count is the setting as a whole number from 1; ok is false if it is none.
func (s *setting) count() (n int64, ok bool) {
	if s == nil || !s.known {
		return 0, false
	}
	switch v := s.value.(type) {
	case int64:
		n = v
	case float64:
		if n = int64(v); float64(n) != v {
			return 0, false
		}
	case string:
		n, _ = product(v).(int64)
	}
	return n, n >= 1
}
