package draft

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/python/options"
)

var (
	notTraining = lazy.MustCompile(`eval|valid|val_|_val|test|infer|sampl|gen_|generat|predict|text_encoder|vae|` +
		`cache|log|encode|embed|queue|prefetch|rollout|buffer|replay|ppo_mini`)
	microWish = wish{`per_device_train_batch_size`,
		`train_micro_batch_size_per_gpu|micro_batch_size|micro_batch|micro_bs|microbatch(_size)?|micro_train_batch_size`,
		`batch_size_per_(gpu|device|rank)|(gpu|device|local)_batch_size|per_(gpu|device)_batch_size|samples_per_gpu|` +
			`imgs_per_gpu|images_per_gpu`,
		`train_batch_?size|batch_?size_train|training_batch_size|train_bs|bs_train|batch_train|train_batch|` +
			`tr_batch_size`, `batch_?size|batchsz|batch_sz`,
		`mini_?batch(_?size)?|mb_size`, `batch|bs|bsz`, `.*_train_batch_size|.*batch_?size`}
	accumWish = wish{`gradient_accumulation_steps?|grad_accumulation_steps|gradient_accumulate_steps|` +
		`gradient_accumulate_every`,
		`grad_accum(_steps?)?|grad_acc_steps?|grad_accumulate|accum_steps?|accumulation_steps?|accum_iters?|` +
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
func training(o options.Option) bool {
	name := bare(long(o))
	parts := strings.Split(strings.ToLower(strings.TrimLeft(long(o), "-")), ".")
	return whole(o) && !notTraining.MatchString(name) && !regexp.MustCompile(globalWish[0]).MatchString(name) &&
		!slices.ContainsFunc(parts[:len(parts)-1], notTrainingPart.MatchString)
}

// findMicro finds the setting of the micro-batch. doubt is why it is not known, though there are settings like it.
func (d *drafting) findMicro() (micro *setting, doubt string) {
	all := d.matching(microWish, training)
	if len(all) == 0 { // by what its help says
		all = d.matching(wish{`.*`}, func(o options.Option) bool {
			return training(o) && batchHelp.MatchString(o.Help) && !notTraining.MatchString(strings.ToLower(o.Help))
		})
	}
	if train := slices.DeleteFunc(slices.Clone(all), func(s setting) bool {
		return !strings.Contains(strings.ToLower(long(s.Option)), "train")
	}); len(train) > 0 {
		all = train
	}
	if len(all) == 0 {
		return nil, ""
	}
	if plain := regexp.MustCompile(`^batch_?size$`); plain.MatchString(bare(long(all[0].Option))) {
		if mini := d.best(wish{`(num_)?mini_?batch(es|_?size)?|mb_size`}, whole); mini != nil {
			all = append(all[:1:1], *mini)
		}
	}
	if len(all) > 1 {
		var names []string
		for _, s := range all[:min(4, len(all))] {
			names = append(names, fmt.Sprintf("%s (%s)", long(s.Option), d.from(&s)))
		}
		return nil, "several settings could be it: " + strings.Join(names, ", ") + ". It is the one that decides how " +
			"many samples one forward pass has"
	}
	return &all[0], ""
}

// batch drafts micro-batch, accumulation, global-batch, ranks and per.
func (d *drafting) batch() {
	micro, doubt := d.findMicro()
	d.micro = micro
	d.accum = d.best(accumWish, func(o options.Option) bool {
		return whole(o) && !strings.Contains(bare(long(o)), "eval")
	})
	global := d.best(globalWish, whole)
	if where := d.splits(); where != "" { // the micro-batch is what one setting divided by the other is
		global, d.micro = micro, nil
		d.Loads = true
		d.add(where+" divides it by the accumulation; "+d.from(global), "global-batch: %s", global.place)
		d.add(d.from(d.accum), "accumulation: %s", d.accum.place)
		d.micro = nil
		d.ranks()
		d.per()
		return
	}
	switch {
	case d.micro != nil:
		d.Loads = true
		d.add(d.from(d.micro), "micro-batch: %s", d.micro.place)
		if d.micro.How == options.File {
			d.Missing = append(d.Missing, fmt.Sprintf("micro-batch: launch can read it in %s, but not change it: it "+
				"changes a copy, and no argument names the file. Let the script take the path as an option",
				d.relative(d.micro.Path)))
		}
	case doubt != "":
		d.miss("micro-batch: --batch-size", doubt)
	default:
		d.miss("micro-batch: --batch-size", cmp.Or(d.unnamed(), "no setting was found whose name is like batch_size. "+
			"Look for what DataLoader(batch_size=…) is given"))
	}
	derived, where := d.derived()
	switch {
	case d.accum != nil:
		d.add(d.from(d.accum), "accumulation: %s", d.accum.place)
	case derived != nil:
		d.add(where+": the accumulation is derived", "global-batch: %s", derived.place)
	case global != nil && d.micro != nil:
		d.total(global)
	default:
		d.miss("accumulation: --accumulation-steps", "the program seems to have no gradient accumulation. Without it "+
			"a smaller micro-batch is "+
			"another global batch, and launch makes it only with --allow recipe")
	}
	d.ranks()
	d.per()
}

// total drafts a global batch of which the code does not show that it is a multiple of the micro-batch: it may count
// tokens.
func (d *drafting) total(global *setting) {
	length := d.best(lengthWish, whole)
	if where := d.dividesTokens(global); where != "" && length != nil {
		d.add(where+": the accumulation is derived", "global-batch: %s", global.place)
		d.add("global-batch counts tokens; "+d.from(length), "sample-tokens: %s", length.place)
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

// splits is where the program divides the batch size by the accumulation, or "": then it is the global batch.
func (d *drafting) splits() string {
	if d.micro == nil || d.accum == nil || d.micro.Dest == "" || d.accum.Dest == "" {
		return ""
	}
	re := regexp.MustCompile(`\b` + regexp.QuoteMeta(lastPart(d.micro.Dest)) + `['"\])]*\s*//?=?\s*(?:\w+[.(\[]+['"]?)*` +
		regexp.QuoteMeta(lastPart(d.accum.Dest)) + `\b`)
	for _, f := range d.files {
		for _, s := range f.Statements {
			text := f.Of(s.Range)
			if at := re.FindStringIndex(text); at != nil && !dividend.MatchString(text[:at[0]]) {
				return d.place(f, s.First)
			}
		}
	}
	return ""
}

// dividend matches before a divisor: steps = len(data) / batch_size / accumulation divides no batch.
var dividend = lazy.MustCompile(`/\s*[\w.\[('"]*$`)

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
		for _, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				a, ok := python.Keyword(f.Args(c.Open), "batch_size")
				if ok && number(f.Of(a.Range)) && !evalish.MatchString(f.Of(s.Range)) {
					return fmt.Sprintf("%s sets batch_size=%s in a call. launch changes an option or a constant: make it one",
						d.place(f, a.First), f.Of(a.Range))
				}
			}
		}
	}
	return ""
}

// derived is the setting of which the micro-batch is a divisor: steps = batch_size // micro_batch_size.
func (d *drafting) derived() (*setting, string) {
	if d.micro == nil || d.accum != nil {
		return nil, ""
	}
	micro := bare(d.micro.Dest)
	for _, f := range d.files {
		for _, s := range f.Statements {
			a, ok := f.Assigns(s)
			if !ok || !strings.Contains(strings.ToLower(a.Name), "accum") {
				continue
			}
			text := f.Of(a.Value)
			before, after, divides := strings.Cut(text, "//")
			if !divides || !strings.Contains(after, micro) {
				continue
			}
			for _, o := range d.settings() {
				name := bare(o.Dest)
				divided := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
				if name != micro && divided.MatchString(before) && whole(o.Option) {
					return &o, d.place(f, s.First)
				}
			}
		}
	}
	return nil, ""
}

var ranksWish = wish{`n_?gpus?|num_gpus?|gpus?_num|nproc(_per_node)?|n_?devices|num_devices|ngpus_per_node|` +
	`gpus_per_node|num_processes`}

// ranks drafts how many processes share a step, for a program that starts them itself.
func (d *drafting) ranks() {
	if where, trains := d.trainer(); trains && d.micro != nil && d.micro.How == options.HF {
		d.add(where+": without a launcher the Trainer uses all cards", "ranks: cards")
		d.add("then the Trainer looks for a batch that fits", "leave: [{when: {--auto_find_batch_size: true}, why: "+
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
				if r := d.best(ranksWish, whole); r != nil {
					d.add(where+" starts processes; "+d.from(r), "ranks: %s", r.place)
				} else {
					d.hint("ranks: cards", where+" starts processes. If one is started for each GPU, ranks is cards")
				}
				return
			}
		}
	}
}

var divisor = lazy.MustCompile(`//?\s*(?:int\()?[\w.()]*(gpus?|world|ranks?|nproc|device_count|n_?devices|` +
	`num_processes|num_replicas)`)

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
			where = cmp.Or(where, at)
		}
	}
	if slices.Sort(parts); len(parts) > 0 {
		d.add(where+" divides by the ranks", "per: {%s}", strings.Join(parts, ", "))
	}
}

// batchVariable is a variable that holds a batch size.
var batchVariable = lazy.MustCompile(`(?i)batch|\bbs\b|_bs$|^bs`)

// divided is where the program divides a setting by the ranks, or "".
func (d *drafting) divided(s *setting) string {
	name := regexp.MustCompile(`\b` + regexp.QuoteMeta(lastPart(s.Dest)) + `\b`)
	given := regexp.MustCompile(`\bbatch_size\s*=\s*(?:int\()?[\w.]*\b` + regexp.QuoteMeta(lastPart(s.Dest)) + `\)?\s*` +
		divisor.String())
	for _, f := range d.files {
		for _, st := range f.Statements {
			a, ok := f.Assigns(st)
			text := f.Of(st.Range)
			if given.MatchString(text) { // DataLoader(batch_size=args.batch_size // world_size)
				return d.place(f, st.First)
			}
			if ok && batchVariable.MatchString(a.Name) && given.MatchString("batch_size="+f.Of(a.Value)) {
				return d.place(f, st.First)
			}
			if aug := strings.Contains(text, "//=") && divisor.MatchString(strings.Replace(text, "//=", "// ", 1)); aug &&
				name.MatchString(text) {
				return d.place(f, st.First)
			}
			if !ok || a.Value.Empty() {
				continue
			}
			value := f.Of(a.Value)
			at := name.FindStringIndex(value)
			if at != nil && divisor.MatchString(value[at[1]:]) && name.MatchString(a.Name) {
				return d.place(f, st.First)
			}
		}
	}
	return ""
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

var validWish = wish{`per_device_eval_batch_size`,
	`(val|valid|validation|eval|test|dev)_?batch_?size|batch_?size_(val|valid|eval|test)|(val|eval|test|valid)_bs`,
	`validation_batch|(val|eval|test|valid)_batch|.*(val|valid|eval|test).*batch_?size`}

// validation drafts the phase that has a batch of its own.
func (d *drafting) validation() {
	v := d.best(validWish, func(o options.Option) bool {
		return whole(o) &&
			!strings.Contains(bare(long(o)), "text_encoder")
	})
	if v == nil {
		return
	}
	text := fmt.Sprintf("phases: {validation: {micro-batch: %s}}", v.place)
	if v.Known && v.Default != "None" {
		d.add(d.from(v), "%s", text)
		return
	}
	d.hint(text, d.from(v)+" has no default that could be read. If it is set in the command, this is the "+
		"validation's own batch")
}
