package intake

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
)

// setByYou is the reason of the edits that the user asks for.
const setByYou = "set by you"

// Asked returns the edits of settings that the user asks for, each as KEY=VALUE. KEY is an option of the program
// ("--lr"), the name of a knob ("micro-batch"), or an address in the recipe ("train.optim_g.lr", "Config.lr"), after
// "FILE:" where several files have it. "+KEY" adds a setting that the recipe leaves out. VALUE is spelled as in its
// file.
//
// A key that the recipe does not have is an error, because no program reports a setting that it ignores. So is a text
// in place of a number or of a truth value: a mistyped value would otherwise fail after the program has loaded its
// data, or much later. Other changes of type are warnings, because some settings take several types.
func Asked(j *job.Job, set []string) (edits []config.Edit, warnings []string, err error) {
	a, err := newAsking(j)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, text := range set {
		if err := a.ask(text); err != nil {
			errs = append(errs, err)
		}
	}
	return a.edits, a.warnings, errors.Join(errs...)
}

// asking resolves settings that the user asks for.
type asking struct {
	job      *job.Job
	argv     *config.Argv
	docs     []document
	edits    []config.Edit
	warnings []string
	taken    map[config.Address]string // the key that set it
}

// A document is a part of the recipe that can be edited, or was merged from files.
type document struct {
	doc    string // in addresses: a file's path, or argv
	called string // in messages
	tree   config.Tree
}

func newAsking(j *job.Job) (*asking, error) {
	a := &asking{job: j, taken: map[config.Address]string{}}
	prog, err := j.Command.Prog()
	if err != nil {
		return nil, fmt.Errorf("reading the command: %w", err)
	}
	if a.argv, err = config.ParseArgv(prog.Args, j.Options); err != nil {
		return nil, fmt.Errorf("reading the command: %w", err)
	}
	if j.Merged != nil {
		tree, err := config.ParseYAML(j.Merged)
		if err != nil {
			return nil, fmt.Errorf("reading the merged recipe: %w", err)
		}
		a.docs = append(a.docs, document{config.ArgvDoc, "the recipe", tree})
	}
	for _, f := range j.Files {
		if f.Added || f.Format == job.Binary {
			continue
		}
		tree, err := f.Open()
		if err != nil {
			return nil, err
		}
		a.docs = append(a.docs, document{f.Path, f.Path, tree})
	}
	return a, nil
}

// ask adds the edit of one KEY=VALUE.
func (a *asking) ask(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return fmt.Errorf("--set %s: write KEY=VALUE", text)
	}
	e, err := a.edit(key, value)
	if err != nil {
		return fmt.Errorf("--set %s: %w", text, err)
	}
	if e == nil { // the command has this flag, or lacks it, already
		return nil
	}
	at := a.canonical(e.At)
	if was, twice := a.taken[at]; twice && was == key {
		return fmt.Errorf("--set %s: %s is set twice", text, key)
	} else if twice {
		return fmt.Errorf("--set %s: this is the same setting as %s, which is set too", text, was)
	}
	a.taken[at] = key
	e.Why = setByYou
	a.edits = append(a.edits, *e)
	return nil
}

// canonical is an address with one name for each option.
func (a *asking) canonical(at config.Address) config.Address {
	if o := a.option(at.Path); at.Doc == config.ArgvDoc && o != nil {
		at.Path = o.Names[0]
	}
	return at
}

func (a *asking) option(name string) *config.Option {
	for i := range a.job.Options {
		if slices.Contains(a.job.Options[i].Names, name) {
			return &a.job.Options[i]
		}
	}
	return nil
}

func (a *asking) edit(key, value string) (*config.Edit, error) {
	at, err := a.find(key)
	if err != nil {
		return nil, err
	}
	knob := at.Path
	for _, k := range a.job.Knobs {
		switch {
		case a.canonical(a.place(k.At)) != a.canonical(at):
		case k.Dead != "":
			return nil, fmt.Errorf("the running code does not read %s: %s", at.Path, k.Dead)
		default:
			knob = k.Name
		}
	}
	var e *config.Edit
	if at.Doc == config.ArgvDoc && (a.job.Merged == nil || a.option(at.Path) != nil) {
		e, err = a.argument(at, value)
	} else {
		i := slices.IndexFunc(a.docs, func(d document) bool { return d.doc == at.Doc })
		e, err = a.setting(a.docs[i].tree, at, value)
	}
	if e != nil {
		e.Knob = knob
	}
	return e, err
}

// place is where a setting is edited. In a file that launch would add, it becomes an argument instead: such a file
// holds launch's own changes.
func (a *asking) place(at config.Address) config.Address {
	if slices.ContainsFunc(a.job.Files, func(f job.File) bool { return f.Added && f.Path == at.Doc }) {
		at.Doc = config.ArgvDoc
	}
	return at
}

// find returns where a key's setting is.
func (a *asking) find(key string) (config.Address, error) {
	switch {
	case strings.HasPrefix(key, "-"):
		return a.findOption(key)
	case strings.HasPrefix(key, "+"):
		return a.added(key[1:])
	}
	var found []config.Address
	add := func(doc, path string) {
		at := a.place(config.Address{Doc: doc, Path: path})
		if !slices.Contains(found, at) {
			found = append(found, at)
		}
	}
	for _, k := range a.job.Knobs {
		if k.Name == key || k.Default && k.At.Path == key {
			add(k.At.Doc, k.At.Path)
		}
	}
	for _, d := range a.docs {
		path, named := strings.CutPrefix(key, d.called+":")
		if !named {
			path, named = strings.CutPrefix(key, filepath.Base(d.called)+":")
		}
		if !named {
			path = key
		}
		if d.tree.Root().At(path).Exists() {
			add(d.doc, path)
		} else if why := expression(a.job, d.doc, path); why != nil {
			return config.Address{}, why
		}
	}
	if a.argv.Has(key) {
		add(config.ArgvDoc, key)
	}
	if len(found) > 1 { // the plugin knows which of them the program reads
		read := slices.DeleteFunc(slices.Clone(found), func(at config.Address) bool {
			return !slices.ContainsFunc(a.job.Knobs, func(k job.Knob) bool {
				return k.Name != key && k.Dead == "" && a.place(k.At) == at
			})
		})
		if len(read) == 1 && len(found) == len(a.having(key)) {
			found = read
		}
	}
	switch len(found) {
	case 0:
		return config.Address{}, a.unknown(key)
	case 1:
		return found[0], a.whole(key, found[0])
	}
	var names []string
	for _, at := range found {
		names = append(names, at.String())
	}
	return config.Address{}, fmt.Errorf("%s could be %s: write one of them", key, strings.Join(names, " or "))
}

// having lists the documents that have a setting of that path.
func (a *asking) having(path string) (docs []string) {
	for _, d := range a.docs {
		if d.tree.Root().At(path).Exists() {
			docs = append(docs, d.doc)
		}
	}
	return docs
}

// added returns where "+KEY" adds a setting.
func (a *asking) added(key string) (config.Address, error) {
	var files []document
	for _, d := range a.docs {
		path, named := strings.CutPrefix(key, filepath.Base(d.called)+":")
		if _, python := d.tree.(*config.Python); python {
			continue
		}
		if named {
			key, files = path, []document{d}
			break
		}
		files = append(files, d)
	}
	switch {
	case len(a.having(key)) > 0:
		return config.Address{}, fmt.Errorf("the recipe has %s: leave out the +", key)
	case len(files) == 0:
		return config.Address{}, errors.New("this job has no recipe that a setting could be added to")
	case len(files) > 1:
		return config.Address{}, fmt.Errorf("write the file too: +%s:%s", filepath.Base(files[0].called), key)
	}
	return config.Address{Doc: files[0].doc, Path: key}, nil
}

func (a *asking) findOption(key string) (config.Address, error) {
	o := a.option(key)
	if o == nil {
		return config.Address{}, a.unknown(key)
	}
	if slices.ContainsFunc(a.job.Files, func(f job.File) bool { return slices.Contains(o.Names, f.Flag) }) {
		return config.Address{}, fmt.Errorf("%s names the recipe: change it in the command itself", key)
	}
	return config.Address{Doc: config.ArgvDoc, Path: key}, nil
}

// whole returns an error if the address is that of a section.
func (a *asking) whole(key string, at config.Address) error {
	for _, d := range a.docs {
		if d.doc != at.Doc {
			continue
		}
		if v := d.tree.Root().At(at.Path); v.Kind() == config.Map && v.Len() > 0 {
			return fmt.Errorf("%s is a section with %s: set one of them", key, listed(v.Keys(), "settings"))
		}
	}
	return nil
}

// expression returns an error if a path of Python source is code instead of a literal.
func expression(j *job.Job, doc, path string) error {
	for _, f := range j.Files {
		if f.Path != doc || f.Source == nil {
			continue
		}
		if it, ok := f.Source.Item(path); ok && !it.Literal {
			return fmt.Errorf("%s is computed (%s, line %d): launch can set only what is written as a value", path,
				filepath.Base(f.Path), it.Line)
		}
	}
	return nil
}

// argument is the edit of an option's value.
func (a *asking) argument(at config.Address, value string) (*config.Edit, error) {
	from, given := a.argv.Get(at.Path)
	if a.argv.Has(at.Path) && !given {
		return nil, fmt.Errorf("%s has several values in the command: change it there", at.Path)
	}
	o := a.option(at.Path)
	if o != nil && o.Takes == config.None {
		on, err := strconv.ParseBool(strings.ToLower(value))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s takes no value: write true or false, for with and without it", at.Path)
		case on == given:
			return nil, nil
		}
		return &config.Edit{At: at, Add: on, Remove: !on}, nil
	}
	if given && isNumber(from) && !isNumber(value) {
		return nil, fmt.Errorf("%s is a number now (%s), and %q is none; if the program takes it, write it in the "+
			"command itself", at.Path, from, value)
	}
	e := &config.Edit{At: at, From: from, To: value, Add: !given}
	_, err := a.job.WithAsked(a.job.Command.Args, []config.Edit{*e})
	return e, err
}

// setting is the edit of a setting in a file, or in a merged recipe.
func (a *asking) setting(t config.Tree, at config.Address, value string) (*config.Edit, error) {
	was := t.Root().At(at.Path)
	from, there := t.Get(at.Path)
	to := value
	var err error
	if _, python := t.(*config.Python); python {
		a.overridden(at)
		to, err = a.python(at.Path, was, value)
		if err == nil {
			err = t.Set(at.Path, to)
		}
	} else {
		to, err = a.plain(t, at.Path, was, value)
	}
	if err != nil {
		return nil, err
	}
	return &config.Edit{At: at, From: from, To: to, Add: !there}, nil
}

// plain sets a value in YAML or TOML, and returns its spelling.
func (a *asking) plain(t config.Tree, path string, was config.Value, value string) (string, error) {
	before, _ := t.Get(path)
	number := was.Kind() == config.Int || was.Kind() == config.Float || was.Kind() == config.String && isNumber(before)
	respell := func(v any) (string, error) {
		spelled, err := t.Text(v)
		if err == nil {
			err = t.Set(path, spelled)
		}
		return spelled, err
	}
	err := t.Set(path, value)
	c := classOf(was)
	switch {
	case err == nil:
	case !bare(value) || value == "null":
		return "", err
	case isNumber(value) && (number || c == ""): // readers of YAML disagree on 1e-4: a text, or a number
		f, _ := strconv.ParseFloat(strings.ReplaceAll(value, "_", ""), 64)
		return respell(f)
	case c == text || c == "": // TOML has no texts without quotes
		return respell(value)
	case c == digits || c == truth:
		return "", a.contradicts(path, before, c, value)
	default:
		return "", err
	}
	now := t.Root().At(path)
	if bare(value) && (now.Kind() == config.String || now.Kind() == config.Opaque) && (number || c == truth) {
		return "", a.contradicts(path, before, c, value)
	}
	if !number || classOf(now) != digits { // a number in quotes is still one
		a.compare(path, before, c, classOf(now), value)
	}
	return value, nil
}

// python spells a value as a Python literal.
func (a *asking) python(path string, was config.Value, value string) (string, error) {
	class := digits
	switch lower := strings.ToLower(value); {
	case value == "None":
		return value, nil
	case lower == "true" || lower == "false":
		value, class = strings.ToUpper(lower[:1])+lower[1:], truth
	case isNumber(value):
	case !bare(value):
		return value, nil
	case was.Kind() == config.String:
		return config.PythonText(value)
	default:
		return "", a.contradicts(path, was.Text(), classOf(was), value)
	}
	a.compare(path, was.Text(), classOf(was), class, value)
	return value, nil
}

// overridden warns if a class that derives from a setting's class has a value of its own.
func (a *asking) overridden(at config.Address) {
	keys := config.SplitPath(at.Path)
	if len(keys) != 2 {
		return
	}
	for _, f := range a.job.Files {
		if f.Source == nil {
			continue
		}
		for _, c := range f.Source.Classes {
			_, own := f.Source.Item(config.JoinPath(c.Name, keys[1]))
			derived := slices.ContainsFunc(c.Bases, func(base string) bool {
				return base[strings.LastIndexByte(base, '.')+1:] == keys[0]
			})
			if own && derived && c.Name != keys[0] {
				a.warnings = append(a.warnings, fmt.Sprintf("--set %s: class %s, which derives from %s, has a value of "+
					"its own for %s", at.Path, c.Name, keys[0], keys[1]))
			}
		}
	}
}

// contradicts is the error of a text that would replace a value of another type.
func (a *asking) contradicts(path, before, class, value string) error {
	return fmt.Errorf("%s is %s now (%s), and %s is a text; if the program takes a text there, quote it: %s=%q", path,
		cmp.Or(class, "not a text"), before, value, path, value)
}

// compare warns if a value of one type replaces one of another.
func (a *asking) compare(path, before, was, now, value string) {
	if was == "" || now == "" || was == now {
		return
	}
	a.warnings = append(a.warnings, fmt.Sprintf("--set %s=%s: it was %s (%s) and is %s now", path, value, was, before,
		now))
}

// Classes of values, as messages name them. "" is null, and what launch cannot judge.
const (
	digits = "a number"
	truth  = "true or false"
	text   = "a text"
	list   = "a list"
)

func classOf(v config.Value) string {
	return map[config.Kind]string{config.Int: digits, config.Float: digits, config.Bool: truth, config.String: text,
		config.Seq: list, config.Map: "a section"}[v.Kind()]
}

// isNumber reports whether Python's float would read a text as a number, other than nan and inf.
func isNumber(s string) bool {
	s = strings.TrimSpace(s)
	if _, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64); err != nil {
		return false
	}
	return strings.ContainsAny(s, "0123456789") && !strings.ContainsAny(s, "xXpP")
}

// bare reports whether a value has neither quotes nor brackets nor a tag, so that nobody chose its type on purpose.
func bare(value string) bool { return value == "" || !strings.ContainsAny(value[:1], `"'[({!&*`) }

// unknown is the error of a key that no setting has. It lists settings with similar names.
func (a *asking) unknown(key string) error {
	var all []string
	for _, k := range a.job.Knobs {
		if k.Dead == "" {
			all = append(all, k.Name)
		}
	}
	for _, o := range a.job.Options {
		all = append(all, o.Names...)
	}
	for _, d := range a.docs {
		all = leaves(all, d.tree.Root(), nil)
	}
	if near := near(key, all); len(near) > 0 {
		return fmt.Errorf("the job has no setting %q; similar ones are %s%s", key, strings.Join(near, ", "), a.plus(key))
	}
	var where []string
	for _, d := range a.docs {
		where = append(where, d.called)
	}
	if strings.HasPrefix(key, "-") || len(where) == 0 {
		return fmt.Errorf("the job has no setting %q; the program's options are %s", key, listed(slices.DeleteFunc(all,
			func(s string) bool { return !strings.HasPrefix(s, "-") }), "options"))
	}
	return fmt.Errorf("the job has no setting %q: neither %s nor an option or a knob has it%s", key,
		strings.Join(where, ", "), a.plus(key))
}

// plus is a hint on how to add a setting, where that is possible.
func (a *asking) plus(key string) string {
	if _, err := a.added(key); err != nil || strings.ContainsAny(key, "- ") { // an option, or the name of a knob
		return ""
	}
	return fmt.Sprintf(". If the program reads %s, +%s adds it", key, key)
}

// leaves adds the paths of all settings below a value.
func leaves(to []string, v config.Value, at []string) []string {
	if v.Kind() != config.Map {
		return append(to, config.JoinPath(at...))
	}
	for _, key := range v.Keys() {
		to = leaves(to, v.Get(key), append(at[:len(at):len(at)], key))
	}
	return to
}

// near lists the names that a mistyped key may mean, the likeliest first.
func near(key string, names []string) []string {
	const shown = 5
	key, last := strings.ToLower(key), lastPart(key)
	type name struct {
		text string
		far  int
	}
	var close []name
	for _, n := range names {
		lower, end := strings.ToLower(n), lastPart(n)
		far := min(levenshtein.ComputeDistance(key, lower), 1+levenshtein.ComputeDistance(last, end))
		most := max(1, len(last)/3)
		if letters(last) == letters(end) {
			far, most = 1, 1
		} else if len(last) > 3 && strings.Contains(end, last) {
			far, most = 2, 2
		}
		if far <= most && !slices.ContainsFunc(close, func(c name) bool { return c.text == n }) {
			close = append(close, name{n, far})
		}
	}
	slices.SortStableFunc(close, func(a, b name) int { return cmp.Compare(a.far, b.far) })
	var out []string
	for _, c := range close[:min(len(close), shown)] {
		out = append(out, c.text)
	}
	return out
}

// lastPart is the last part of a dotted key, in lower case and without the dashes of an option.
func lastPart(key string) string {
	key = strings.ToLower(strings.TrimLeft(key, "-"))
	return key[strings.LastIndexByte(key, '.')+1:]
}

// listed joins names, and cuts a long list short.
func listed(names []string, what string) string {
	const shown = 12
	if n := len(names) - shown; n > 0 {
		names = append(slices.Clone(names[:shown]), fmt.Sprintf("%d more %s", n, what))
	}
	return strings.Join(names, ", ")
}
