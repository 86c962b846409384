package draft

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// saves reports whether a call saves a state.
func saves(name string) bool {
	switch name {
	case "torch.save", "accelerator.save_state", "self.accelerator.save_state", "accelerator.save", "fabric.save",
		"self.fabric.save", "xm.save":
		return true
	}
	return lastPart(name) == "save_on_master"
}

// A save is a call that saves, and the glob of the path that it is given.
type save struct {
	f         *file
	statement int
	in        string // the function that calls it
	glob      string
	where     string
	whole     bool // more than weights: optimizer states too
}

var (
	resumeWish = wish{`resume_from_checkpoint|resume_from|resume_path|resume_ckpt|resume_checkpoint|resume_state|` +
		`resume_training|resume_model|resume`, `continue_from|continue_train(ing)?|restore(_from|_path|_ckpt)?|` +
		`restart_from|auto_resume`}
	// stateWish are names that programs give to other paths as well: what they save, or weights to begin with
	stateWish = wish{`load_checkpoint|load_ckpt|load_from|load_state|load`,
		`from_checkpoint|checkpoint(_path|_file)?|ckpt(_path)?|snapshot_path|init_from|network_state|` +
			`initial_checkpoint`}
	notResume = lazy.MustCompile(`dir|every|interval|steps|freq|gradient|activation|epoch|pretrained|sync|limit`)
)

// states drafts how the program goes on from a saved state.
func (d *drafting) states() {
	saves := d.saveCalls()
	r, doubt := d.resumes()
	i := slices.IndexFunc(saves, func(s save) bool { return s.whole && s.glob != "" })
	if taken := slices.IndexFunc(saves, func(s save) bool { return s.whole && s.glob != "" && d.asks(s) }); taken >= 0 {
		i = taken
	}
	trainer := d.trainerFolder()
	example := "resume: {--resume: 'checkpoints/*.pt'}"
	if r != nil {
		example = fmt.Sprintf("resume: {%s: 'checkpoints/*.pt'}", r.key)
	}
	switch {
	case doubt != "":
		d.miss(example, doubt)
	case r == nil:
		d.withoutOption(example, len(saves) > 0 || trainer != "")
	case d.restores(r) != "":
		d.add(sure+d.restores(r)+" takes all options of a resumed run, the batch too, from the saved ones", "resume: none")
	case r.Takes == config.Maybe && !d.takesPath(r):
		d.miss(example, "the option "+long(r.Option)+" ("+d.from(r)+") takes a value or none, and no code was found that "+
			"reads the value as a path")
	case r.Type == "int" || r.Type == "float":
		d.miss(example, "the option "+long(r.Option)+" ("+d.from(r)+") takes a number, not a path")
	case i >= 0 && trainer == "" && d.forgets() != "":
		d.miss(example, "the option is "+d.from(r)+". But "+d.forgets()+" loads the weights, and no code was found that "+
			"restores the optimizer's state. If that is enough to go on from, name the files")
	case i >= 0 && trainer == "" && strings.HasPrefix(saves[i].glob, "*/"):
		d.miss(fmt.Sprintf("resume: {%s: %s}", r.key, quoted(saves[i].glob)),
			"the option is "+d.from(r)+". The folder of the "+
				"states that "+saves[i].where+" saves is computed: name it")
	case i >= 0 || trainer != "":
		glob, where := trainer, "the Trainer"
		if i >= 0 {
			glob, where = saves[i].glob, saves[i].where
		}
		d.resume(r, glob, where)
	case d.fitted() != "":
		d.miss(strings.Replace(example, "checkpoints/*.pt", "lightning_logs/*/checkpoints/*.ckpt", 1),
			"the option is "+d.from(r)+", and "+d.fitted()+" gives a state to fit. Name the files that Lightning saves")
	case len(saves) > 0 && !slices.ContainsFunc(saves, func(s save) bool { return s.whole }):
		d.miss(example, "the option is "+d.from(r)+". But "+saves[0].where+
			" saves weights alone, without optimizer states. If that is enough to go on from, name the files")
	default:
		d.miss(example, "the option is "+d.from(r)+". Its states were not found: look for torch.save")
	}
	d.clearFound(saves)
	d.clear()
	d.addValues()
}

// clearFound drafts what an attempt that starts over is not to find, where the program looks for a state by itself and
// no resume is drafted.
func (d *drafting) clearFound(saves []save) {
	at := d.finds()
	if at == "" || slices.ContainsFunc(d.lines, func(e entry) bool {
		return e.found && strings.HasPrefix(e.text, "resume: {")
	}) {
		return
	}
	d.cleared = true
	glob := ""
	for _, s := range saves {
		if glob == "" && !strings.HasPrefix(s.glob, "*/") {
			glob = s.glob
		}
	}
	if glob == "" {
		d.hint("clear: ['checkpoints/*.pt']", at+" looks for a state by itself, so that an attempt that starts over goes on "+
			"from it. Name these files: launch then moves them aside before")
		return
	}
	d.add(sure+at+" looks for the newest state by itself; an attempt that starts over is to find none", "clear: [%s]",
		quoted(glob))
}

// finds is where the program looks for the state that it loads in the same function, or "".
func (d *drafting) finds() string {
	for _, f := range d.files {
		for i, s := range f.Statements {
			header := f.function(i)
			if header < 0 || !d.reached()[f][i] {
				continue
			}
			for _, c := range f.Calls(s.Range) {
				if !searching.MatchString(lastPart(c.Name)) {
					continue
				}
				_, to := f.Block(header)
				for _, next := range f.Statements[i:to] {
					for _, l := range f.Calls(next.Range) {
						if l.Name == "torch.load" {
							return d.place(f, c.First)
						}
					}
				}
			}
		}
	}
	return ""
}

// asks reports whether a call saves where an option has a word that the command sets: "if args.save_each == 'epoch':".
func (d *drafting) asks(s save) bool {
	for i := s.f.Statements[s.statement].In; i >= 0; i = s.f.Statements[i].In {
		st := s.f.Statements[i]
		at := s.f.Find(st.Range, "==")
		if !s.f.Is(st.First, "if") && !s.f.Is(st.First, "elif") || at < 0 || s.f.Tokens[at+1].Kind != python.String {
			continue
		}
		word, _ := python.Literal(s.f.Token(at + 1))
		if slices.ContainsFunc(d.prog.Args, func(a string) bool { return a == word || strings.HasSuffix(a, "="+word) }) {
			return true
		}
	}
	return false
}

// withoutOption drafts the resume of a program that has no option for a state, as far as it was read.
func (d *drafting) withoutOption(example string, saves bool) {
	unread := d.cut || len(d.list.Unread) > 0
	switch maybe := d.maybe(); {
	case maybe != nil:
		d.miss("resume: {automatic: 'checkpoints/*.pt'}", "the program has the option "+maybe.Names[0]+" ("+
			d.from(maybe)+"). If it looks for its saved state by itself, name the files. Else name the option that "+
			"takes the state, or write resume: none")
	case !saves && unread:
		d.miss(example, "no option was found by which the program resumes, and no call that saves a state, but not all "+
			"of its options could be read")
	case !saves:
		d.miss(example, "no option was found by which the program resumes, and no call that saves a state")
	case unread:
		d.miss(example, "no option was found by which the program resumes, but not all of its options could be read")
	case d.fitted() != "":
		d.miss("resume: {--ckpt_path: 'lightning_logs/*/checkpoints/*.ckpt'}", "no option was found whose name tells that "+
			"the program resumes by it, but "+d.fitted()+" gives a state to fit. Name the option that sets it, and the files")
	case d.loads() != "":
		d.miss(example, "no option was found by which the program resumes, but "+d.loads()+" loads a file. If that "+
			"is a saved state that it looks for by itself, write resume: {automatic: 'GLOB'}. Else resume: none")
	default:
		d.add(likely+"no option was found by which the program resumes", "resume: none")
	}
}

// maybe is an option that is about resuming by its name, though it takes no path: --no-resume, --resume-from-step.
func (d *drafting) maybe() *setting {
	return d.best(wish{`no_(auto_?)?resume|resum(e|ing)_(from_)?\w*(step|epoch|iter)\w*|\w*_resume|resume_\w+`},
		func(o python.Option) bool { return o.How != python.ByConstants && o.How != python.ByFile })
}

// resumes is the option that resumes, nil where none was found. Where the option may be another, or the program may
// not read it, doubt is what to look at.
func (d *drafting) resumes() (r *setting, doubt string) {
	path := func(o python.Option) bool {
		return o.How != python.ByConstants && o.How != python.ByFile && !notResume.MatchString(bare(long(o)))
	}
	if r = d.best(resumeWish, path); r != nil {
		if !d.uses(r) {
			return r, "the program has the option " + long(r.Option) + " (" + d.from(r) + "), but no code was found " +
				"that uses it"
		}
		if flag(r) { // the path may be an option of its own
			other := d.best(resumeWish, func(o python.Option) bool {
				return path(o) && o.Takes != config.None && o.Dest != r.Dest
			})
			if other != nil && !flag(other) && d.uses(other) {
				return r, fmt.Sprintf("there are two options, %s (%s) and %s (%s). If it needs both: resume: {from: "+
					"'GLOB', set: {%[1]s: true, %[3]s: '{state}'}}", r.key, d.from(r), other.key,
					d.from(other))
			}
		}
		return r, ""
	}
	r = d.best(stateWish, func(o python.Option) bool {
		s := setting{Option: o}
		return path(o) && (d.loaded(&s) || d.chosen(&s))
	})
	return r, ""
}

var (
	weightsLoad = lazy.MustCompile(`(^|\.)load_state_dict$`)
	// restoring is code that restores more than weights, or may do so.
	restoring = lazy.MustCompile(`(?i)opt|solver|trainer|engine|accelerator|fabric|load_state\b|load_checkpoint|` +
		`load_ckpt|restore|resume|strategy|\bself\.load_state_dict`)
)

// forgets is where the program loads the weights of a saved state, if no code was found that loads an optimizer's; "".
func (d *drafting) forgets() (where string) {
	for _, f := range d.files {
		for i, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				if name := lastPart(c.Name); !loading.MatchString(name) && name != "load_state_dict" || c.Name == "torch.load" {
					continue
				}
				if restoring.MatchString(f.Of(s.Range)) {
					return ""
				}
				if where == "" && weightsLoad.MatchString(c.Name) && d.reached()[f][i] {
					where = d.place(f, c.First)
				}
			}
		}
	}
	return where
}

// flag reports whether an option is true or false.
func flag(o *setting) bool {
	return o.Takes == config.None || o.Known && (o.Default == "False" || o.Default == "True") ||
		strings.Contains(strings.ToLower(o.Type), "bool")
}

// word matches a setting where code reads it: its attribute, a key, or the parameter of a function.
func word(o *setting) *regexp.Regexp {
	name := regexp.QuoteMeta(lastPart(cond(o.Dest != "", o.Dest, bare(long(o.Option)))))
	switch o.How {
	case python.Click, python.Fire, python.ByGlobals:
		return regexp.MustCompile(`\b` + name + `\b`)
	}
	return regexp.MustCompile(`(?:\.|['"])` + name + `\b`)
}

// uses reports whether the code of the project reads an option, outside of where it declares it.
func (d *drafting) uses(o *setting) bool {
	re, n := word(o), 0
	for _, f := range d.files {
		for i, s := range f.Statements {
			first, last := f.LineOf(s.First), f.LineOf(max(s.First, s.End-1))
			if f.Path == o.Path && first <= o.Line && o.Line <= last && o.How != python.Fire {
				continue
			}
			text := f.Of(s.Range)
			if def, ok := f.Definition(f.Statements[i]); ok && !def.Class && o.How != python.HF {
				continue
			}
			if strings.Contains(text, "add_argument") {
				continue
			}
			n += len(re.FindAllString(text, -1))
		}
	}
	return n > 0
}

var loading = lazy.MustCompile(`(?i)^_?(\w+_)?(load|restore|resume)(_\w+)?$|^from_checkpoint$`)

// loaded reports whether the value of an option is given to a call that loads.
func (d *drafting) loaded(o *setting) bool {
	re := word(o)
	for _, f := range d.files {
		for _, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				if loading.MatchString(lastPart(c.Name)) && re.MatchString(f.Of(f.Inside(c.Open))) {
					return true
				}
			}
		}
	}
	return false
}

// fitted is where the program gives Lightning a state to go on from; "" where it does not.
func (d *drafting) fitted() string {
	for _, f := range d.files {
		for _, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				a, ok := python.Keyword(f.Args(c.Open), "ckpt_path")
				if ok && strings.HasSuffix(c.Name, ".fit") && f.Of(a.Range) != "None" {
					return d.place(f, c.First)
				}
			}
		}
	}
	return ""
}

// loads is the place of a call that loads a state, or "".
func (d *drafting) loads() string {
	for _, f := range d.files {
		for _, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				switch lastPart(c.Name) {
				case "load_state", "load_checkpoint", "from_checkpoint", "get_last_checkpoint", "restore", "resume",
					"latest_checkpoint", "find_latest_checkpoint":
					return d.place(f, c.First)
				}
				if c.Name == "torch.load" {
					return d.place(f, c.First)
				}
			}
		}
	}
	return ""
}

// chosen reports whether an option resumes by the word "resume", as nanoGPT's init_from.
func (d *drafting) chosen(r *setting) bool {
	re := regexp.MustCompile(`\b` + regexp.QuoteMeta(lastPart(r.Dest)) + `\b\s*==\s*['"]resume['"]`)
	return slices.ContainsFunc(d.files, func(f *file) bool { return re.MatchString(f.Code) })
}

// resume drafts the option that resumes, and the states that it takes.
func (d *drafting) resume(r *setting, glob, where string) {
	where = cond(d.loaded(r) || d.chosen(r), sure, likely) + d.from(r) + "; " + where + " saves"
	switch {
	case d.chosen(r):
		d.add(where, "resume: {from: %s, set: {%s: resume}}", quoted(glob), r.key)
	case flag(r) && r.Takes != config.Maybe:
		d.add(where, "resume: {from: %s, set: {%s: true}}", quoted(glob), r.key)
	default:
		d.add(where, "resume: {%s: %s}", r.key, quoted(glob))
	}
	if at := d.searches(r); at != "" {
		d.cleared = true
		d.add(sure+at+" looks for the newest state by itself; an attempt that starts over is to find none", "clear: [%s]",
			quoted(glob))
	}
	if _, trains := d.trainer(); trains && r.How == python.HF {
		d.add(sure+"before 5.2 the Trainer takes the micro-batch of the saved state", "resume-needs: {transformers: '5.2'}")
	}
}

// searches is where the program gives its option to resume the newest state that it finds by itself, or "".
func (d *drafting) searches(r *setting) string {
	own := word(r)
	for _, f := range d.files {
		for i, s := range f.Statements {
			a, ok := f.Assigns(s)
			if !ok || !strings.Contains(a.Name, ".") || !own.MatchString(a.Name) || !d.reached()[f][i] {
				continue
			}
			from, to := 0, len(f.Statements)
			if header := f.function(i); header >= 0 {
				from, to = f.Block(header)
			}
			for j := from; j < min(i+1, to); j++ {
				for _, c := range f.Calls(f.Statements[j].Range) {
					if name := lastPart(c.Name); searching.MatchString(name) && f.function(j) == f.function(i) {
						return d.place(f, c.First)
					}
				}
			}
		}
	}
	return ""
}

var searching = lazy.MustCompile(`(?i)^(i?glob|listdir|scandir|rglob|iterdir)$|` +
	`^(auto_resume|(find|get)_\w*(latest|last|newest))\w*$|^(latest|last|newest)_(checkpoint|ckpt|state)\w*$`)

// addValues adds the places that paths name.
func (d *drafting) addValues() {
	var parts []string
	for _, name := range d.order {
		if !slices.ContainsFunc(d.lines, func(e entry) bool { return strings.Contains(e.text, "{"+name+"}") }) {
			continue
		}
		parts = append(parts, name+": "+d.values[name])
	}
	if len(parts) == 0 {
		return
	}
	d.lines = append(d.lines, entry{text: "values: {" + strings.Join(parts, ", ") + "}", found: true})
}

// named is an option as a part of a path.
func (d *drafting) named(o python.Option) string {
	name := regexp.MustCompile(`\W`).ReplaceAllString(o.Dest, "_")
	if d.values == nil {
		d.values = map[string]string{}
	}
	if d.values[name] == "" {
		d.values[name] = d.at(o)
		d.order = append(d.order, name)
	}
	return "{" + name + "}"
}

// trainerFolder is the glob of the states of transformers' Trainer, or "".
func (d *drafting) trainerFolder() string {
	o, ok := d.option("output_dir")
	if _, trains := d.trainer(); !ok || o.How != python.HF && !trains {
		return ""
	}
	return d.named(o) + "/checkpoint-[0-9]*"
}

// saveCalls are the calls that save, by their order.
func (d *drafting) saveCalls() []save {
	if !d.searched {
		d.searched, d.saves = true, d.findSaves()
	}
	return d.saves
}

func (d *drafting) findSaves() (all []save) {
	for _, f := range d.files {
		for i, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				if !saves(c.Name) && !f.accelerates(c.Name) {
					continue
				}
				args := f.Args(c.Open)
				state := strings.HasSuffix(c.Name, "save_state")
				var where python.Range
				switch {
				case state && len(args) > 0:
					where = args[0].Range
				case len(args) > 1 && strings.Contains(c.Name, "fabric"):
					where = args[0].Range
				case len(args) > 1:
					where = args[1].Range
				}
				if a, ok := python.Keyword(args, "f"); ok {
					where = a.Range
				}
				one := save{f: f, statement: i, where: d.place(f, c.First), whole: state}
				if in := f.function(i); in >= 0 {
					def, _ := f.Definition(f.Statements[in])
					one.in = def.Name
				}
				if len(args) > 0 && !state {
					one.whole = f.hasOptimizer(args[0].Range, i)
				}
				glob, ok := d.glob(f, where, i, 0)
				if glob = clean(glob); ok && strings.ContainsAny(glob, "{.") &&
					strings.Trim(glob[strings.LastIndexByte(glob, '/')+1:], "*") != "" &&
					!final.MatchString(glob) {
					one.glob = glob
				}
				one.whole = one.whole && !(ok && final.MatchString(glob))
				all = append(all, one)
			}
		}
	}
	return all
}

var accelerators = lazy.MustCompile(`\b(\w+)\s*=\s*(?:\w+\.)?Accelerator\(`)

// accelerates reports whether a call saves all of an Accelerator, whatever the program calls it.
func (f *file) accelerates(name string) bool {
	whose, saves := strings.CutSuffix(strings.TrimPrefix(name, "self."), ".save_state")
	return saves && strings.Contains(f.Code, "Accelerator(") &&
		slices.ContainsFunc(accelerators.FindAllStringSubmatch(f.Code, -1), func(m []string) bool { return m[1] == whose })
}

// clean joins the stars of a glob.
func clean(glob string) string {
	glob = regexp.MustCompile(`\*+`).ReplaceAllString(glob, "*")
	glob = regexp.MustCompile(`/+`).ReplaceAllString(glob, "/")
	return strings.TrimPrefix(glob, "./")
}

// final matches what a program does not resume from: its best state, and its last.
var final = lazy.MustCompile(`(?i)best|final|(^|[^a-z])ema([^a-z]|$)`)

var (
	optimizing = lazy.MustCompile(`(?i)optim|opt_state|\bopt\w*\.state_dict\(`)
	counting   = lazy.MustCompile(`(?i)epoch|step|iter`)
	weighing   = lazy.MustCompile(`(?i)state_dict|model|weights|net`)
	alone      = lazy.MustCompile(`\.state_dict\(\)$`)
)

// hasOptimizer reports whether what is saved is more than weights, and more than an optimizer: a dictionary of several
// entries that names one or counts steps beside the weights, or one that a variable or a parameter holds.
func (f *file) hasOptimizer(e python.Range, at int) bool {
	text := f.Of(e)
	if alone.MatchString(text) {
		return false
	}
	name, ok := f.Dotted(e)
	if !ok {
		entries := 2
		if f.Is(e.First, "{") && f.Tokens[e.First].Pair == e.End-1 {
			entries = len(f.Split(f.Inside(e.First), ","))
		}
		return entries > 1 && (optimizing.MatchString(text) || counting.MatchString(text) && weighing.MatchString(text))
	}
	if b := f.binding(name, at); b >= 0 {
		if a, ok := f.Assigns(f.Statements[b]); ok && a.Name == name && !a.Value.Empty() {
			value := f.Of(a.Value)
			if f.Is(a.Value.First, "{") && f.Tokens[a.Value.First].Pair == a.Value.End-1 && !strings.Contains(value, "**") {
				return optimizing.MatchString(value) || f.adds(name, b, at)
			}
			return !alone.MatchString(value) && (counting.MatchString(value) || optimizing.MatchString(value))
		}
	}
	return regexp.MustCompile(`(?i)state|ckpt|checkpoint|snapshot`).MatchString(name) // a parameter
}

// adds reports whether a dictionary gets a further entry before it is saved: state["optimizer"] = …
func (f *file) adds(name string, from, to int) bool {
	more := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `(\[|\.update\(|\s*\|=)`)
	return slices.ContainsFunc(f.Statements[from+1:to], func(s python.Statement) bool {
		text := f.Of(s.Range)
		return more.MatchString(text) && optimizing.MatchString(text)
	})
}

// binding is the last statement before another that assigns a name, in the same function or outside of all; -1 where
// there is none, or it assigns others, too.
func (f *file) binding(name string, at int) int {
	for i := at - 1; i >= 0; i-- {
		a, ok := f.Assigns(f.Statements[i])
		again := f.Find(f.Statements[i].Range, "=") >= 0 && f.Rebinds(f.Statements[i], name) // a = b = 1; a, b = 1, 2
		if !again && (!ok || a.Name != name || a.Value.Empty()) {
			continue
		}
		if in := f.Statements[i].In; in < 0 || f.Within(at, in) || f.function(i) == f.function(at) {
			if again {
				return -1
			}
			return i
		}
	}
	return -1
}

// counts reports whether a name is of a number that grows: name += 1.
func (f *file) counts(name string) bool {
	return slices.ContainsFunc(f.Statements, func(s python.Statement) bool {
		return f.Is(s.First, name) && s.First+1 < s.End && (f.Is(s.First+1, "+=") || f.Is(s.First+1, "=") &&
			f.Is(s.First+2, name) && f.Is(s.First+3, "+") && f.Tokens[min(s.First+4, s.End-1)].Kind == python.Number)
	})
}

// function is the header of the function around a statement, or -1.
func (f *file) function(i int) int {
	for i = f.Statements[i].In; i >= 0; i = f.Statements[i].In {
		if def, ok := f.Definition(f.Statements[i]); ok && !def.Class {
			break
		}
	}
	return i
}

var refuses = lazy.MustCompile(`\b(raise|sys\.exit|exit|quit|assert)\b`)

// clear drafts what an attempt that starts over finds in its way: a folder that the program refuses to use again.
func (d *drafting) clear() {
	if d.cleared {
		return
	}
	for _, f := range d.files {
		for i, s := range f.Statements {
			text := f.Of(s.Range)
			if !f.Is(s.First, "if") || !strings.Contains(text, "exists(") && !strings.Contains(text, "isdir(") &&
				!strings.Contains(text, "listdir(") || strings.Contains(text, "not os.path") {
				continue
			}
			from, to := f.Block(i)
			for j := from; j < to; j++ {
				if !refuses.MatchString(f.Of(f.Statements[j].Range)) ||
					!strings.Contains(strings.ToLower(f.Of(f.Statements[j].Range)), "exist") {
					continue
				}
				for _, c := range f.Calls(s.Range) {
					args := f.Args(c.Open)
					if len(args) == 0 || !slices.Contains([]string{"exists", "isdir", "listdir"}, lastPart(c.Name)) {
						continue
					}
					if g, ok := d.glob(f, args[0].Range, i, 0); ok && strings.Trim(clean(g), "*/") != "" {
						d.hint("clear: ["+quoted(clean(g))+"]", d.place(f,
							s.First)+" stops if this exists. With the line, launch moves it aside before it starts over")
						return
					}
				}
			}
		}
	}
}

var signalName = lazy.MustCompile(`\bSIG(USR1|USR2|TERM|HUP|INT)\b`)

// saving drafts the signal on which the program saves its state.
func (d *drafting) saving() {
	for _, f := range d.files {
		for _, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				args := f.Args(c.Open)
				if c.Name != "signal.signal" || len(args) < 2 {
					continue
				}
				m := signalName.FindStringSubmatch(f.Of(args[0].Range))
				if m == nil {
					continue
				}
				body := f.bodyOf(lastPart(f.Of(args[1].Range)))
				text := fmt.Sprintf("save: {signal: %s}", m[1])
				if regexp.MustCompile(`\bexit\(|raise `).MatchString(body) {
					text = fmt.Sprintf("save: {signal: %s, stops: true}", m[1])
				}
				if regexp.MustCompile(`(?i)save|checkpoint|ckpt`).MatchString(body) {
					d.add(sure+d.place(f, c.First)+" saves at it", "%s", text)
				} else {
					d.hint(text, d.place(f, c.First)+" handles the signal. If the program then saves its state, add this line")
				}
				return
			}
		}
	}
}

// bodyOf is the text of a function by its name.
func (f *file) bodyOf(name string) string {
	for i, s := range f.Statements {
		if def, ok := f.Definition(s); ok && def.Name == name {
			_, to := f.Block(i)
			return f.Of(python.Range{First: s.First, End: f.Statements[to-1].End})
		}
	}
	return ""
}
