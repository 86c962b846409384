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

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

var (
	notTraining = lazy.MustCompile(`eval|valid|val_|_val|test|infer|sampl|gen_|generat|predict|text_encoder|vae|` +
		`cache|log|encode|embed|queue|prefetch|rollout|buffer|replay|ppo_mini`)
	microWish = wish{`per_device_train_batch_size`,
		`train_micro_batch_size_per_gpu|micro_?batch(_?size)?(_per_(gpu|device|rank))?|micro_bsz?|mbs|micro_train_batch_size`,
		`batch(_?size)?_per_(gpu|device|rank|card)|batch_(gpu|device|rank)|(gpu|device|local)_batch_size|per_(gpu|` +
			`device)_batch_size|samples_per_gpu|` +
			`imgs_per_gpu|images_per_gpu`, `(ims|imgs|images)_per_batch`,
		`train_batch_?size|batch_?size_train|training_batch_size|train_bs|bs_train|batch_train|train_batch|` +
			`tr_batch_size`, `batch_?size|batchsz|batch_sz`,
		`mini_?batch(_?size)?|mb_size`, `batch|bs|bsz`, `.*_train_batch_size|.*batch_?size`}
	accumWish = wish{`gradient_accumulation_steps?|grad_accumulation_steps|gradient_accumulate_steps|` +
		`gradient_accumulate_every`,
		`grad_accum(_steps?)?|grad_acc_steps?|grad_accumulate|accum_steps?|accumulation_steps?|accum_iters?|accum_freq|` +
			`acc_steps?|accumulate_steps?`,
		`accumulate_grad_batches|gradient_accumulation(_iters)?|accumulate_gradients?|accumulation|accumulate|accum|` +
			`iter_size|update_freq|grad_accum.*|.*accumulation.*`}
	globalWish = wish{`global_batch_size|total_batch_size|effective_batch_size|global_bs|total_batch|` +
		`train_batch_size_total`}
	lengthWish = wish{`(max_?)?seq(uence)?_?len(gth)?`, `block_size|context_len(gth)?|ctx_len`}
)

var batchHelp = lazy.MustCompile(`(?i)\b(mini-?)?batch[ -]?size\b`)

// notTrainingPart is a part of a dotted name that is not about the training.
var notTrainingPart = lazy.MustCompile(`^(val|valid\w*|eval\w*|test\w*|dev|infer\w*|sampl\w*|predict\w*|generat\w*)$`)

// training reports whether a setting may be that of the training's micro-batch.
func training(o python.Option) bool {
	name := bare(long(o))
	parts := strings.Split(strings.ToLower(strings.TrimLeft(long(o), "-")), ".")
	return whole(o) && !notTraining.MatchString(name) && !regexp.MustCompile(globalWish[0]).MatchString(name) &&
		!slices.ContainsFunc(parts[:len(parts)-1], notTrainingPart.MatchString) && !deprecated.MatchString(o.Help)
}

var (
	deprecated = lazy.MustCompile(`(?i)\bdeprecated\b|no longer|\bunused\b|\bobsolete\b|` +
		`\bis ignored\s*([.;)]|$)|has no effect`)
	effective = lazy.MustCompile(`(?i)\b(effective|global)\b|\b(after|with|including) (gradient )?accumulation|` +
		`per (optimi[sz]er|weight|parameter) (step|update)`)
	allRanks = lazy.MustCompile(`(?i)\b(all|across|over) (the |all )?(gpus?|devices|ranks|processes|cards|workers)\b`)
	perHelp  = lazy.MustCompile(`(?i)\b(per|each|one|a single|on a) [\w-]*(gpu|device|rank|process|card|worker)\b|` +
		`micro[- ]?batch size`)
	perName = lazy.MustCompile(`micro|per_(gpu|device|rank)|^batch_(gpu|device|rank)$|(gpu|device|local)_batch|` +
		`per_(gpu|device)_batch|(samples|imgs|images)_per_gpu`)
)

// smallest reports whether a setting's name or its help tells that it is what one device takes at once.
func smallest(o python.Option) bool {
	return perName.MatchString(bare(long(o))) || perHelp.MatchString(o.Help) && !allRanks.MatchString(o.Help)
}

// alike are all the settings that may be the training's micro-batch, the best names first.
func (d *drafting) alike() (all []setting) {
	for _, pattern := range microWish {
		for _, s := range d.matching(wish{pattern}, training) {
			if !slices.ContainsFunc(all, func(o setting) bool { return o.place == s.place }) && !d.idle(s) {
				all = append(all, s)
			}
		}
	}
	if len(all) == 0 { // by what its help says
		all = d.matching(wish{`.*`}, func(o python.Option) bool {
			return training(o) && batchHelp.MatchString(o.Help) && !notTraining.MatchString(strings.ToLower(o.Help))
		})
	}
	if slices.ContainsFunc(all, func(s setting) bool { return s.How != python.ByConstants }) {
		all = slices.DeleteFunc(all, func(s setting) bool { return s.How == python.ByConstants })
	}
	keep := func(fits func(s setting) bool) {
		if left := slices.DeleteFunc(slices.Clone(all), func(s setting) bool { return !fits(s) }); len(left) > 0 {
			all = left
		}
	}
	keep(func(s setting) bool { return strings.Contains(strings.ToLower(long(s.Option)), "train") })
	if plain := regexp.MustCompile(`^batch_?size$`); len(all) > 0 && plain.MatchString(bare(long(all[0].Option))) {
		if mini := d.best(wish{`(num_)?mini_?batch(es|_?size)?|mb_size`}, whole); mini != nil &&
			!slices.ContainsFunc(all, func(o setting) bool { return o.place == mini.place }) {
			all = append(all, *mini)
		}
	}
	return all
}

// idle reports whether a setting is a constant that no code reads.
func (d *drafting) idle(s setting) bool {
	if s.How != python.ByConstants {
		return false
	}
	name := lastPart(s.Names[0])
	for _, f := range d.files {
		for _, st := range f.Statements {
			a, _ := f.Assigns(st)
			for t := st.First; t < st.End; t++ {
				if f.Is(t, name) && (t > st.First || lastPart(a.Name) != name) && !f.Is(t-1, "import") {
					return false
				}
			}
		}
	}
	return true
}

// findMicro finds the setting of the micro-batch, and why it is that one. doubt is why it is not known, though there
// are settings like it: of several the code has to show which.
func (d *drafting) findMicro() (micro *setting, why, doubt string) {
	all := d.alike()
	if len(all) == 0 {
		return nil, "", ""
	}
	if s := all[0]; s.How == python.HF && bare(long(s.Option)) == "per_device_train_batch_size" {
		return &s, sure + "the Trainer reads it", ""
	}
	if at := d.unlisted(all); at != "" {
		return nil, "", at + ", which may be the micro-batch, and no option of that name could be read. If it is, " +
			long(all[0].Option) + " (" + d.from(&all[0]) + ") is the global batch"
	}
	fed := map[string]string{}
	var chosen []setting
	for i := range all {
		if at := d.feeds(d.reads(&all[i], all)); at != "" {
			fed[all[i].place] = at
			chosen = append(chosen, all[i])
		}
	}
	small := slices.DeleteFunc(slices.Clone(all), func(s setting) bool { return !smallest(s.Option) })
	switch {
	case len(all) == 1 && fed[all[0].place] != "":
		return &all[0], sure + fed[all[0].place], ""
	case len(all) == 1:
		return &all[0], likely + "the only setting with such a name", ""
	case len(small) == 1: // the others may be whole batches
		if at := fed[small[0].place]; at != "" {
			return &small[0], sure + at, ""
		}
		if len(chosen) == 0 || smallest(chosen[0].Option) {
			return &small[0], likely + "its name or help tells that it is of one device", ""
		}
		if at := d.divides(&small[0], all); at != "" {
			return &small[0], sure + at + " divides the whole batch by it", ""
		}
	case len(chosen) == 1:
		return &chosen[0], sure + fed[chosen[0].place], ""
	}
	var names []string
	for _, s := range all[:min(4, len(all))] {
		names = append(names, fmt.Sprintf("%s (%s)", long(s.Option), d.from(&s)))
	}
	return nil, "", "several settings could be it: " + strings.Join(names, ", ") + ". It is the one that decides how " +
		"many samples one forward pass has"
}

var readsMicro = lazy.MustCompile(`(?i)\b(args?|opts?|cfg|config|flags|hps|hparams)\.(micro_?batch(_?size)?)\b`)

// unlisted is where the code reads a micro-batch from its options, none of which that was read has the name; "".
func (d *drafting) unlisted(all []setting) string {
	for _, f := range d.files {
		for n, line := range strings.Split(f.Code, "\n") {
			m := readsMicro.FindStringSubmatch(line)
			if m != nil && !slices.ContainsFunc(all, func(s setting) bool { return bare(long(s.Option)) == bare(m[2]) }) {
				return fmt.Sprintf("%s:%d reads %s", d.relative(f.Path), n+1, m[0])
			}
		}
	}
	return ""
}

// divides is where the program divides another setting by this one, or "".
func (d *drafting) divides(s *setting, others []setting) string {
	by := d.reads(s, others)
	for _, f := range d.files {
		if !by.mayBe(f) {
			continue
		}
		for _, st := range f.Statements {
			for _, o := range f.operations(st) {
				if strings.HasPrefix(o.op, "/") && by.in(f.Of(o.right)) && !by.in(f.Of(o.left)) {
					for i := range others {
						if others[i].place != s.place && d.reads(&others[i], others).in(f.Of(o.left)) {
							return d.place(f, o.at)
						}
					}
				}
			}
		}
	}
	return ""
}

// batch drafts micro-batch, accumulation, global-batch, ranks and per.
func (d *drafting) batch() {
	micro, why, doubt := d.findMicro()
	if d.micro = micro; micro != nil {
		if unit := d.counts(micro); unit != "" {
			d.miss("micro-batch: "+micro.place, unit)
			d.micro = nil
			return
		}
	}
	if over := d.overridden(micro); over != "" {
		d.miss("micro-batch: "+micro.place, over)
		d.micro = nil
		return
	}
	d.accum = d.best(accumWish, func(o python.Option) bool {
		return whole(o) && !notAccum.MatchString(bare(long(o))) && !deprecated.MatchString(o.Help)
	})
	global := d.best(globalWish, whole)
	if where := d.splits(); where != "" { // the micro-batch is what one setting divided by the other is
		d.micro = nil
		d.Loads = true
		d.add(sure+where+" divides it by the accumulation; "+d.from(micro), "global-batch: %s", micro.place)
		d.add(likely+d.from(d.accum), "accumulation: %s", d.accum.place)
		d.ranks()
		d.per()
		return
	}
	if micro != nil && d.accum != nil && effective.MatchString(micro.Help) && d.multiplies() == "" &&
		!smallest(micro.Option) {
		doubt = "the help of " + long(micro.Option) + " (" + d.from(micro) + ") tells that it is the whole batch, and no " +
			"code was found that divides it by the accumulation. If it is: global-batch: " + micro.place
		d.micro = nil
	}
	switch {
	case d.micro != nil:
		d.Loads = true
		if at := d.multiplies(); at != "" {
			why = sure + at + " multiplies it by the accumulation"
		}
		d.add(why+"; "+d.from(d.micro), "micro-batch: %s", d.micro.place)
		if d.micro.How == python.ByFile {
			d.Missing = append(d.Missing, fmt.Sprintf("micro-batch: launch can read it in %s, but not change it: it "+
				"changes a copy, and no argument names the file. Let the script take the path as an option",
				d.relative(d.micro.Path)))
		}
	case doubt != "":
		d.miss("micro-batch: --batch-size", doubt)
	default:
		d.miss("micro-batch: --batch-size", cmp.Or(d.bounded(), d.unnamed(),
			"no setting was found whose name is like batch_size. "+
				"Look for what DataLoader(batch_size=…) is given"))
	}
	d.accumulating(global)
	d.ranks()
	d.per()
}

// overridden is why a value of a file of settings does not count: an option of the command sets values of such names in
// its text, --hparams "batch_size=2,lr=1".
func (d *drafting) overridden(s *setting) string {
	if s == nil || s.How != "recipe" {
		return ""
	}
	name := s.Names[0][strings.LastIndexByte(s.Names[0], '.')+1:]
	sets := regexp.MustCompile(`(^|[,;\s])` + regexp.QuoteMeta(name) + `\s*[=:]`)
	for i, a := range d.prog.Args {
		option, value, joined := strings.Cut(a, "=")
		if !joined || !strings.HasPrefix(option, "-") {
			option, value = "", a
			if i > 0 && strings.HasPrefix(d.prog.Args[i-1], "-") {
				option = d.prog.Args[i-1]
			}
		}
		if option != "" && sets.MatchString(value) {
			return fmt.Sprintf("%s sets %s in its text, which outranks %s, and launch cannot change it there. Set it in the "+
				"file alone", option, name, d.from(s))
		}
	}
	return ""
}

// notAccum are names about the accumulation that are not its number of passes.
var notAccum = lazy.MustCompile(`eval|val_|test|dtype|type|fp32|fp16|bf16|kwargs|plugin|fusion|mode|warmup|` +
	`schedul|sync|` +
	`allreduce|start|offload`)

// accumulating drafts the accumulation, or what the program derives it from.
func (d *drafting) accumulating(global *setting) {
	derived, number, where := d.derived()
	switch {
	case d.accum != nil:
		d.add(cond(d.multiplies() != "", sure, likely)+d.from(d.accum), "accumulation: %s", d.accum.place)
	case derived != nil:
		place, of := d.preset(derived)
		d.add(sure+where+": the accumulation is derived"+of, "global-batch: %s", place)
	case number != "":
		d.add(sure+where+": the accumulation is derived", "global-batch: %s", number)
	case global != nil && d.micro != nil:
		d.total(global)
	default:
		why := "the program seems to have no gradient accumulation"
		if at := d.groups(); at != "" {
			why = at + ", but no setting was found that the command or a file can change"
		} else if at := d.accumulates(); at != "" {
			why = at + " may be of a gradient accumulation, but no setting of it was found"
		} else if has := func(text string) bool {
			return slices.ContainsFunc(d.files, func(f *file) bool { return strings.Contains(f.Code, text) })
		}; !has("backward(") {
			why = "no setting of a gradient accumulation was found, but the " + cond(has("zero_grad("), "backward pass",
				"training loop") + " is not in the files that were read"
		} else if d.cut || len(d.list.Unread) > 0 {
			why = "no setting of a gradient accumulation was found, but not all of the program could be read"
		}
		d.miss("accumulation: --accumulation-steps", why+". Without it "+
			"a smaller micro-batch is another global batch, and launch makes it only with --allow recipe")
	}
}

var stepped = lazy.MustCompile(`(?i)(^|\.|_)(optim\w*|opt\w?|solver|(grad_?)?scaler|amp)\.step$`)

// groups is where the optimizer steps only after some passes, "" where it was not found: if n % every == 0:
// optimizer.step().
func (d *drafting) groups() string {
	for _, f := range d.files {
		for i, s := range f.Statements {
			if !slices.ContainsFunc(f.Calls(s.Range), func(c python.Call) bool { return stepped.MatchString(c.Name) }) {
				continue
			}
			for h := s.In; h >= 0 && d.reached()[f][i]; h = f.Statements[h].In {
				r := f.Statements[h].Range
				if f.Is(r.First, "for") || f.Is(r.First, "while") || f.Is(r.First, "def") {
					break
				}
				for t := r.First; f.Is(r.First, "if") && t+1 < r.End; t++ {
					if f.Is(t, "%") {
						return fmt.Sprintf("%s steps the optimizer after every %s passes", d.place(f, s.First), f.Of(f.operand(t, 1)))
					}
				}
			}
		}
	}
	return ""
}

var accumulatesName = lazy.MustCompile(`(?i)\b\w*(grad\w*_?accum|` +
	`accum\w*_?(grad|steps?\b|iters?\b|freq|every|factor|count\b)|micro_?batch|micro_?steps?\b)\w*`)

// accumulates is a name of the project's code, not the micro-batch's, that may be of a gradient accumulation, with its
// place; "".
func (d *drafting) accumulates() string {
	micro := ""
	if d.micro != nil {
		micro = lastPart(bare(long(d.micro.Option)))
	}
	for _, f := range d.files {
		for n, line := range strings.Split(f.Code, "\n") {
			if name := accumulatesName.FindString(line); name != "" && name != micro && !notAccumName.MatchString(name) {
				return fmt.Sprintf("%s (%s:%d)", name, d.relative(f.Path), n+1)
			}
		}
	}
	return ""
}

// notAccumName matches accumulated gradients of something else than a step.
var notAccumName = lazy.MustCompile(`(?i)^(xyz|pos|means2d|densif\w*)_|AccumulateGrad|accumulated_|` +
	`^adagrad_`)

var (
	typeName = lazy.MustCompile(`(?i)^(batch_?(size_?)?(type|unit|by|mode)|batching(_?(type|mode|strategy))?|` +
		`(batch_)?(sampler_)?(type|unit|by)|(train_)?batch_(type|sampler_type|unit))$`)
	unitWord = lazy.MustCompile(`(?i)\b(frames?|tokens?|seconds?|secs?|durations?|bins?|numel|length|words?|bytes?|` +
		`chars?|` +
		`pixels?|minutes?|dynamic)\b`)
	budget = lazy.MustCompile(`(?i)^(max_?(num_)?(tokens|frames|duration|seconds)(_per_batch|_in_batch)?|batch_?(bins|` +
		`tokens|frames|seconds|duration)|(tokens|frames|seconds)_(per|in)_batch|dynamic_batch\w*|use_dynamic_b\w*)$`)
)

// counts is why a setting counts something else than samples, or "": frames, tokens, seconds. Another number of them is
// another choice of samples, and what is longer than it is dropped.
func (d *drafting) counts(micro *setting) string {
	unit := func(what, where string) string {
		return fmt.Sprintf("%s (%s) counts %s, not samples: %s. A smaller one is another choice of samples, drops "+
			"those that "+
			"are longer, and divides no step evenly, so launch does not change it", long(micro.Option), d.from(micro), what,
			where)
	}
	if help := unitHelp.FindStringSubmatch(micro.Help); help != nil {
		return unit(cmp.Or(help[1], help[2]), "its help tells so")
	}
	if m := budgetName.FindStringSubmatch(bare(long(micro.Option))); m != nil {
		return unit(cmp.Or(m[1], m[2]), "its name tells so")
	}
	for _, s := range d.settings() {
		name, value := bare(long(s.Option)), strings.ToLower(s.Default)
		switch {
		case !s.Known || value == "" || value == "none" || value == "false":
		case name == bare(long(micro.Option))+"_type" || name == bare(long(micro.Option))+"_unit" ||
			typeName.MatchString(name):
			if w := unitWord.FindString(strings.ReplaceAll(value, "_", " ")); w != "" {
				return unit(cmp.Or(units[w], strings.TrimSuffix(w, "s")+"s"),
					long(s.Option)+" is "+s.Default+" ("+d.from(&s)+")")
			}
		case budget.MatchString(name) && value != "0" && !notTraining.MatchString(name) &&
			(strings.Contains(strings.ToLower(s.Help+name), "batch") || s.typed && (!micro.Known || micro.Default == "None")):
			return fmt.Sprintf("%s (%s) bounds a batch by what is in it, so that %s does not tell how many samples a step has. "+
				"launch does not change it", long(s.Option), d.from(&s), long(micro.Option))
		}
	}
	return ""
}

// bounded is why there is no micro-batch where only a bound of what a batch holds was found, or "".
func (d *drafting) bounded() string {
	for _, s := range d.settings() {
		if name := bare(long(s.Option)); budget.MatchString(name) && !notTraining.MatchString(name) {
			return fmt.Sprintf("%s (%s) bounds a batch by what is in it, which is no number of samples. launch does not "+
				"change it",
				long(s.Option), d.from(&s))
		}
	}
	return ""
}

// units are what a value of a batch's type counts, where that is another word.
var units = map[string]string{"dynamic": "what fits", "numel": "elements", "length": "lengths", "sec": "seconds",
	"secs": "seconds"}

var (
	unitHelp = lazy.MustCompile(`(?i)(?:\bin|number of|counts?|total) (?:audio |mel |video |text |source )?(frames|` +
		`tokens|seconds|` +
		`words|bytes)\b|\b(tokens|frames|seconds) (?:per|in (?:a|each|one)) (?:mini-?|micro-?)?batch`)
	budgetName = lazy.MustCompile(`(?i)(?:^|_)(tokens|frames|seconds|bins|duration)(?:_|$)|^batch_(bins)$`)
)

// total drafts a global batch of which the code does not show that it is a multiple of the micro-batch: it may count
// tokens.
func (d *drafting) total(global *setting) {
	length := d.best(lengthWish, whole)
	if where := d.dividesTokens(global); where != "" && length != nil {
		d.add(sure+where+": the accumulation is derived", "global-batch: %s", global.place)
		d.add(sure+"global-batch counts tokens; "+d.from(length), "sample-tokens: %s", length.place)
		return
	}
	d.hint("global-batch: "+global.place, "If the program derives its accumulation from this one ("+d.from(global)+
		"), it is the global batch")
	if length != nil {
		d.hint("sample-tokens: "+length.place, "If that counts tokens, not samples, add how many a sample has")
	}
}

// dividesTokens is where the program divides this setting, which counts tokens, and calls the quotient its
// accumulation; or "".
func (d *drafting) dividesTokens(global *setting) string {
	name := regexp.MustCompile(`\b` + regexp.QuoteMeta(bare(global.Dest)) + `\b`)
	for _, f := range d.files {
		for _, s := range f.Statements {
			a, ok := f.Assigns(s)
			if !ok || !strings.Contains(strings.ToLower(a.Name), "accum") {
				continue
			}
			before, after, divides := strings.Cut(f.Of(a.Value), "//")
			if divides && name.MatchString(before) && strings.Contains(strings.ToLower(after+global.Help), "token") {
				return d.place(f, s.First)
			}
		}
	}
	return ""
}

// unnamed explains why no batch size was found, where the source shows it: a number in a call, or a file of settings
// that the command does not name.
func (d *drafting) unnamed() string {
	for _, a := range d.list.Options {
		if ext := filepath.Ext(a.Default); len(a.Names) > 0 && a.Known && slices.Contains(recipes, ext) && ext != ".json" {
			path := a.Default
			if !filepath.IsAbs(path) {
				path = filepath.Join(d.prog.Dir, path)
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return fmt.Sprintf("the settings may be in %s, the default of %s. Name it in the command (%s %[1]s) and "+
					"draft again: then launch can change them", a.Default, long(a), d.key(a))
			}
		}
	}
	for _, f := range d.files {
		for i, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				for _, name := range []string{"train_batch_size", "batch_size"} {
					a, ok := python.Keyword(f.Args(c.Open), name)
					if ok && number(f.Of(a.Range)) && !notMade.MatchString(lastPart(c.Name)) && !d.evaluates(f, i) {
						return fmt.Sprintf("%s sets %s=%s in a call. launch changes an option or a constant: make it one",
							d.place(f, a.First), name, f.Of(a.Range))
					}
				}
			}
		}
	}
	return ""
}

// notMade are calls that are given the size of another batch than the training's.
var notMade = lazy.MustCompile(`(?i)sampl|predict|generat|evaluat|infer`)

// quotient are names of what a program calls its accumulation where it computes it.
var quotient = lazy.MustCompile(`(?i)accum|^gas$|(^|_)rounds$|num_micro|n_?micro|micro_?(batches|steps)|` +
	`update_freq|iter_size`)

// derived is the setting of which the micro-batch is a divisor (steps = batch_size // micro_batch_size), or the number
// that stands there in its place.
func (d *drafting) derived() (global *setting, number, where string) {
	if d.micro == nil || d.accum != nil {
		return nil, "", ""
	}
	all := d.settings()
	by := d.reads(d.micro, all)
	for _, f := range d.files {
		if !by.mayBe(f) {
			continue
		}
		for i, s := range f.Statements {
			a, ok := f.Assigns(s)
			if !ok || !quotient.MatchString(a.Name) {
				continue
			}
			for _, o := range f.operations(s) {
				if !strings.HasPrefix(o.op, "/") || !by.in(f.Of(o.right)) || by.direct.MatchString(f.Of(o.left)) {
					continue
				}
				text := d.behind(f, f.inner(o.left), i, 0)
				if g := d.whole(text, all); g != nil {
					return g, "", d.place(f, s.First)
				}
				words := strings.Fields(text)
				if len(words) == 0 || len(words) > 1 && !key.MatchString(text) {
					continue
				}
				if n := words[len(words)-1]; number == "" && wholeNumber.MatchString(n) && d.fits(n) {
					number, where = n, d.place(f, s.First)
				}
			}
		}
	}
	return nil, number, where
}

// fits reports whether a whole batch holds the micro-batch: one that is smaller is not divided.
func (d *drafting) fits(whole string) bool {
	n, err := strconv.Atoi(whole)
	micro, unknown := strconv.Atoi(d.micro.Default)
	return err == nil && (unknown != nil || n >= micro && micro > 0 && n%micro == 0)
}

// preset is a setting's place with the value that a preset of the program gives it: an option that the command sets
// to the name of a dictionary's entry, which has the setting.
func (d *drafting) preset(s *setting) (place, of string) {
	if s.Known && s.Default != "None" || s.Dest == "" {
		return s.place, ""
	}
	for _, f := range d.files {
		for _, st := range f.Statements {
			for t := st.First; t < st.End; t++ {
				if f.Tokens[t].Kind != python.String || !f.Is(t+1, ":") || !f.Is(t-1, "{") && !f.Is(t-1, ",") {
					continue
				}
				name, _ := python.Literal(f.Token(t))
				by := slices.IndexFunc(d.settings(), func(o setting) bool { return o.typed && o.Default == name && name != "" })
				if by < 0 {
					continue
				}
				m := regexp.MustCompile(`[{(,]\s*['"]?` + regexp.QuoteMeta(s.Dest) + `['"]?\s*[=:]\s*(\d+)\s*[,)}]`).
					FindStringSubmatch(f.Of(f.operand(t+1, 1)))
				if m != nil {
					return fmt.Sprintf("{at: %s, default: %s}", s.place, m[1]), fmt.Sprintf("; %s of %s %s", d.place(f, t),
						long(d.settings()[by].Option), name)
				}
			}
		}
	}
	return s.place, ""
}

var wholeNumber = lazy.MustCompile(`^[1-9]\d*$`)

// whole is the setting of a whole batch that a text reads, or nil. A number of devices is none.
func (d *drafting) whole(text string, all []setting) *setting {
	for i, o := range all {
		name := bare(long(o.Option))
		if o.place != d.micro.place && (batchVariable.MatchString(name) || name == "nbs") && whole(o.Option) &&
			!notTraining.MatchString(name) && !smallest(o.Option) &&
			(d.reads(&all[i], all).direct.MatchString(text) || regexp.MustCompile(`\b`+
				regexp.QuoteMeta(lastPart(o.Dest))+`\b`).MatchString(text) && lastPart(o.Dest) != "batch") {
			return &all[i]
		}
	}
	return nil
}

// behind is an expression with what its names and functions stand for.
func (d *drafting) behind(f *file, e python.Range, at, depth int) string {
	text := f.Of(e)
	if depth > 3 || e.Empty() {
		return text
	}
	if name, ok := f.Dotted(e); ok {
		if b := f.binding(name, at); b >= 0 {
			a, _ := f.Assigns(f.Statements[b])
			return d.behind(f, a.Value, b, depth+1)
		}
		return text + " " + d.argument(f, name, at, depth)
	}
	if strings.Contains(text, "[") { // c["batch_size"], of c = dict(batch_size=…)
		if m := key.FindStringSubmatch(text); m != nil {
			return text + " " + d.entry(m[1], depth)
		}
	}
	for _, c := range f.Calls(e) {
		if all := d.definitions()[lastPart(c.Name)]; len(all) == 1 { // self.batch_size(devices)
			g := all[0].f
			from, to := g.Block(all[0].statement)
			for i := from; i < to; i++ {
				text += " " + g.Of(g.Statements[i].Range)
			}
		}
	}
	for _, name := range identifiers.FindAllString(f.Of(e), -1) { // n // world, of def train(n)
		text += " " + d.argument(f, name, at, depth)
	}
	return text
}

// argument is what the project hands a parameter of the function around a statement by its name: train(name=VALUE), or
// dict(name=VALUE) and config.update(name=VALUE), of which train(**config) is made. It is "" for any other name.
func (d *drafting) argument(f *file, name string, at, depth int) string {
	header := f.function(at)
	if header < 0 || depth > 3 {
		return ""
	}
	def, _ := f.Definition(f.Statements[header])
	if def.Open < 0 || !slices.ContainsFunc(f.Args(def.Open), func(p python.Arg) bool {
		return p.Name == name || p.Name == "" && f.Is(p.First, name)
	}) {
		return ""
	}
	for _, g := range d.files {
		for i, s := range g.Statements {
			for _, c := range g.Calls(s.Range) {
				a, ok := python.Keyword(g.Args(c.Open), name)
				if by := lastPart(c.Name); ok && (by == def.Name || by == "dict" || by == "update") {
					return d.behind(g, a.Range, i, depth+1)
				}
			}
		}
	}
	return ""
}

var key = lazy.MustCompile(`\[['"](\w+)['"]\]`)

// entry is what the project gives an entry of that name: {"name": 16}, dict(name=VALUE), x["name"] = VALUE.
func (d *drafting) entry(name string, depth int) string {
	for _, f := range d.files {
		for _, s := range f.Statements {
			for t := s.First; t+2 < s.End; t++ { // {"name": 16}
				if f.Tokens[t].Kind != python.String || !f.Is(t+1, ":") || !f.Is(t-1, "{") && !f.Is(t-1, ",") {
					continue
				}
				text, _ := python.Literal(f.Token(t))
				if value := f.Of(f.operand(t+1, 1)); text == name && wholeNumber.MatchString(value) {
					return value
				}
			}
		}
	}
	for _, f := range d.files {
		for i, s := range f.Statements {
			if a, ok := f.Assigns(s); ok && strings.HasSuffix(a.Name, "."+name) {
				return d.behind(f, a.Value, i, depth+1)
			}
			for _, c := range f.Calls(s.Range) {
				if a, ok := python.Keyword(f.Args(c.Open), name); ok && lastPart(c.Name) != "add_argument" {
					return f.Of(a.Range)
				}
			}
		}
	}
	return ""
}

var ranksWish = wish{`n_?gpus?|num_gpus?|gpus?_num|nproc(_per_node)?|n_?devices|num_devices|ngpus_per_node|` +
	`gpus_per_node|num_processes`}

// ranks drafts how many processes share a step, for a program that starts them itself.
func (d *drafting) ranks() {
	if where, trains := d.trainer(); trains && d.micro != nil && d.micro.How == python.HF {
		d.add(sure+where+": without a launcher the Trainer uses all cards", "ranks: cards")
		d.add(sure+"then the Trainer looks for a batch that fits", "leave: [{when: {--auto_find_batch_size: true}, why: "+
			"'the Trainer itself looks for a batch that fits'}]")
		return
	}
	for _, f := range d.files {
		for _, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				if !strings.HasSuffix(c.Name, "mp.spawn") && !strings.HasSuffix(c.Name, "multiprocessing.spawn") &&
					c.Name != "spawn" {
					continue
				}
				where := d.place(f, c.First)
				if r := d.best(ranksWish, whole); r != nil && !d.cut { // else what is not read may divide by it
					d.add(likely+where+" starts processes; "+d.from(r), "ranks: %s", r.place)
				} else {
					d.hint("ranks: cards", where+" starts processes. If one is started for each GPU, ranks is cards")
				}
				return
			}
		}
	}
}

var ranksName = lazy.MustCompile(`(?i)gpus?(\b|_)|world|ranks?\b|nproc|device_count|n_?devices|num_devices|` +
	`num_processes|num_replicas`)

// per drafts which settings are for all ranks together: the program divides them by the ranks.
func (d *drafting) per() {
	var parts []string
	where := ""
	for key, s := range map[string]*setting{"micro-batch": d.micro, "accumulation": d.accum} {
		if s == nil {
			continue
		}
		if at := d.divided(s); at != "" {
			parts = append(parts, key+": all-ranks")
			where = cmp.Or(where, sure+at+" divides by the ranks")
		} else if key == "micro-batch" && bare(s.Dest) == "ims_per_batch" {
			parts = append(parts, key+": all-ranks")
			where = cmp.Or(where, sure+"detectron2 divides it by the ranks")
		} else if key == "micro-batch" && allRanks.MatchString(s.Help) && !smallest(s.Option) {
			parts = append(parts, key+": all-ranks")
			where = cmp.Or(where, likely+"its help tells so")
		}
	}
	if slices.Sort(parts); len(parts) > 0 {
		d.add(where, "per: {%s}", strings.Join(parts, ", "))
	}
}

// batchVariable is a variable that holds a batch size.
var batchVariable = lazy.MustCompile(`(?i)batch|\bbs\b|_bs$|^bs`)

// divided is where the program divides a setting by the ranks, or "".
func (d *drafting) divided(s *setting) string {
	reading := d.reads(s, nil)
	for _, f := range d.files {
		if !reading.mayBe(f) {
			continue
		}
		for _, st := range f.Statements {
			text := f.Of(st.Range)
			if !reading.in(text) {
				continue
			}
			a, assigns := f.Assigns(st)
			for _, o := range f.operations(st) {
				if !strings.HasPrefix(o.op, "/") || !o.first || !ranksName.MatchString(f.Of(o.right)) ||
					!reading.is(f.Of(f.inner(o.left))) {
					continue
				}
				augmented := f.Is(o.at, o.op+"=")
				if augmented || assigns && batchVariable.MatchString(lastPart(a.Name)) ||
					assigns && lastPart(a.Name) == lastPart(s.Dest) || f.keywordBatch(o.left.First) {
					return d.place(f, st.First)
				}
			}
		}
	}
	return ""
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

var validWish = wish{`per_device_eval_batch_size`,
	`(val|valid|validation|eval|test|dev)_?batch_?size|batch_?size_(val|valid|eval|test)|(val|eval|test|valid)_bs`,
	`(val|valid|eval|test)_(micro_?)?batch(_?size)?(_per_(gpu|device|rank))?|validation_batch|(val|eval|test|` +
		`valid)_batch|.*(val|valid|eval|test).*batch_?size`}

// validation drafts the phase that has a batch of its own.
func (d *drafting) validation() {
	v := d.best(validWish, func(o python.Option) bool {
		return whole(o) &&
			!strings.Contains(bare(long(o)), "text_encoder")
	})
	if v == nil {
		return
	}
	text := fmt.Sprintf("phases: {validation: {micro-batch: %s}}", v.place)
	if v.Known && v.Default != "None" {
		d.add(likely+d.from(v), "%s", text)
		return
	}
	d.hint(text, d.from(v)+" has no default that could be read. If it is set in the command, this is the "+
		"validation's own batch")
}
