package draft

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// The groups of patterns.
const (
	iteration = `(?P<iteration>\d+)`
	total     = `(?P<total>\d+)`
	value     = `(?P<value>-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)`
	count     = `(?P<value>\d+)`
	path      = `(?P<path>\S+)`
	bar       = ` *\d+%\|.*\| (?P<iteration>\d+)/\d+ \[` // tqdm's, after its description
	lightning = `^Epoch \d+(?:/\d+ |: +\d+%).*?[ |](?P<iteration>\d+)/\d+ (?:\[|\d+:\d\d:)`
)

var (
	stepName  = lazy.MustCompile(`(?i)\b(\w*_)?(steps?|iters?|iterations?|updates?)(_?(idx|num|i|no|count|done))?\b`)
	batchName = lazy.MustCompile(`(?i)\b(batch_?idx|batch_?i|batch_?id|batch_?num|i_batch|i|it|idx|batch|` +
		`data_iter_step|(trained|seen|processed)_\w+|\w+_(trained|seen|processed))\b`)
	epochName = lazy.MustCompile(`(?i)\b(epoch|epochs?_?i|e|ep|i_epoch|epoch_idx|current_epoch)\b`)
	totalName = lazy.MustCompile(`(?i)(max|total|num|n|all)_?(train_)?(steps?|iters?|iterations?|updates?)|` +
		`_per_|\blen\b`)
	ofTotal    = lazy.MustCompile(`(?i)(/|\bof)\s*$`)          // before a total
	between    = lazy.MustCompile(`(?i)^\s*(/|(out )?of)\s*$`) // a step and their total
	totalSteps = lazy.MustCompile(`(?i)(^|[._])((max|total|num|n)_?)?(train_)?(steps|iters|niters?|iterations|updates)$`)
	evalish    = lazy.MustCompile(`(?i)\bdef \w*(eval|valid|test|infer|sample|generate)\w*|(valid|val|test|` +
		`eval)_?(loader|dataloader|iter)`)
)

// signs drafts what the program prints.
func (d *drafting) signs() {
	all := d.messages()
	d.progress(all)
	d.saved(all)
	d.succeeded(all)
	d.metric(all)
	d.confirm(all)
}

func (d *drafting) sign(where, key, pattern string) {
	d.Signs = append(d.Signs, Sign{key, pattern})
	d.add(where, "%s: %s", key, quoted(pattern))
}

// progress drafts the line that is printed at a step.
func (d *drafting) progress(all []message) {
	best, score, groups := -1, 0, map[int]string{}
	for n := range all {
		m := &all[n]
		s, at := d.steps(m)
		if at < 0 || !d.inLoop(m.f, m.statement, 0) || m.f.oneTime(m.statement) ||
			m.f.withoutGradient(m.f.outermost(m.statement)) {
			continue
		}
		if m.f == d.files[0] {
			s += 10
		}
		if s > score {
			best, score, groups = n, s, map[int]string{at: iteration}
			if d.outOf(m, at) {
				groups[at+2] = total
			}
		}
	}
	where, barPattern := d.progressBar()
	isBar := barPattern != ""
	known, knownPattern := d.metricLogger()
	switch {
	case knownPattern != "":
		d.sign(known, "progress", knownPattern)
	case best >= 0 && (score >= 60 && all[best].f == d.files[0] || !isBar):
		m := &all[best]
		d.sign(sure+d.place(m.f, m.token)+" prints it in the loop", "progress", m.pattern(groups))
	case isBar:
		d.sign(likely+where+", a progress bar", "progress", barPattern)
	default:
		d.miss(`progress: 'step (?P<iteration>\d+)'`,
			"no line was found that the program prints in its training loop with the number of the step")
	}
}

// outOf reports whether the number after that of a step is how many steps there are in all: by its name, or because the
// loop over the steps ends there.
func (d *drafting) outOf(m *message, at int) bool {
	if at+2 >= len(m.pieces) || !between.MatchString(m.pieces[at+1].text) || m.pieces[at+2].field == "" {
		return false
	}
	step, all := m.pieces[at].field, m.pieces[at+2].field
	if stepName.MatchString(step) && totalSteps.MatchString(all) {
		return true
	}
	for i := m.f.Statements[m.statement].In; i >= 0; i = m.f.Statements[i].In {
		s := m.f.Statements[i]
		if m.f.Is(s.First, "for") && slices.Contains(m.f.Binds(s), counter.FindString(step)) {
			return m.f.outermost(i) == i && !d.inLoop(m.f, i, 0) && m.f.ends(i, all) && !m.f.breaks(i)
		}
	}
	return false
}

// ends reports whether the loop of a header is over a range that ends at an expression.
func (f *file) ends(header int, all string) bool {
	plain := func(text string) string { return strings.TrimSuffix(strings.ReplaceAll(text, " ", ""), "+1") }
	for _, c := range f.Calls(f.Statements[header].Range) {
		args := f.Args(c.Open)
		if (c.Name != "range" && c.Name != "trange") || len(args) < 1 || len(args) > 2 {
			continue
		}
		end := plain(f.Of(args[len(args)-1].Range))
		if b := f.binding(all, header); b >= 0 {
			a, _ := f.Assigns(f.Statements[b])
			return end == all || end == plain(f.Of(a.Value))
		}
		return end == plain(all)
	}
	return false
}

// breaks reports whether a loop may end before its range does.
func (f *file) breaks(header int) bool {
	_, end := f.Block(header)
	return slices.ContainsFunc(f.Statements[header:end], func(s python.Statement) bool {
		for t := s.First; t < s.End; t++ {
			if f.Is(t, "break") || f.Is(t, "return") {
				return true
			}
		}
		return false
	})
}

// steps is how well a message tells the number of a step, and by which piece; -1 if by none.
func (d *drafting) steps(m *message) (score, at int) {
	at = -1
	for i, p := range m.pieces {
		s := 0
		switch {
		case p.field == "" || strings.Contains(p.field, " if ") || strings.Contains(p.field, "loss") ||
			strings.Contains(p.field, "time"):
			continue
		case d.typed(p.field) || totalName.MatchString(p.field) && !batchName.MatchString(p.field):
			continue
		case i > 0 && ofTotal.MatchString(m.pieces[i-1].text):
			continue
		case i+1 < len(m.pieces) && strings.HasPrefix(m.pieces[i+1].text, "%"): // a percentage of an epoch
			continue
		case stepName.MatchString(p.field) && !strings.ContainsAny(p.field, "(["):
			s = 40
		case batchName.MatchString(p.field) && !strings.ContainsAny(p.field, "([") || strings.Contains(p.field, "batch_idx"):
			s = 30
		case epochName.MatchString(p.field) && !strings.ContainsAny(p.field, "(["):
			s = 15
		}
		if s > score && d.counted(m.f, p.field, m.statement, 0) {
			score, at = s, i
		}
	}
	if at < 0 || m.vague(at) || slices.ContainsFunc(m.pieces, func(p piece) bool { return noStep.MatchString(p.text) }) {
		return 0, -1
	}
	return score + m.likeness(), at
}

// likeness is how much a message is like one that is printed at each step of the training.
func (m *message) likeness() (score int) {
	score = 10 * min(2, m.loops)
	text := ""
	for _, p := range m.pieces {
		text += p.text + " " + p.field + " "
	}
	if regexp.MustCompile(`(?i)loss`).MatchString(text) {
		score += 10
	}
	if evalish.MatchString(m.scope) || regexp.MustCompile(`(?i)\b(test|eval|val|valid|validation|schedul|initial)`).
		MatchString(text) {
		score -= 25
	}
	if m.condition != "" && !stepName.MatchString(m.condition) && !batchName.MatchString(m.condition) {
		score -= 10
	}
	if m.bar {
		score -= 15
	}
	return score
}

var (
	// noStep matches lines that have the number of a step, but are not printed at each.
	noStep = lazy.MustCompile(`(?i)\b(errors?|warnings?|fail(s|ed|ure)?|skip\w*|debug|sav(e[ds]?|ing)|checkpoints?|` +
		`resum\w*|load\w*|restor\w*|from (epoch|step|iter)\w*|start(s|ed|ing)?|begin\w*|end of|refresh\w*|terminat\w*|` +
		`mov(e|es|ed|ing)|group(s|ed|ing)|unable|exception|warm-?up|hash(es)?|abort\w*|cancel\w*|stopp\w*|early)\b|❌|⚠`)
	// otherWork matches bars and functions that are not about the training's steps.
	otherWork = lazy.MustCompile(`(?i)load(ing)?(_|\b)|writ|download|tokeni|extract|process|cach|comput|prepar|read|` +
		`convert|generat|infer|index|encod|copy|collect|pars(e|ing)|evaluat|mov(e|ing)|group|submodul|shard|merg|` +
		`quantiz|latent|embedding|filter|scan|hash|fetch|check`)
)

// typed reports whether an expression is an option of the program, such as args.epochs.
func (d *drafting) typed(field string) bool {
	_, dest, dotted := strings.Cut(field, ".")
	if !dotted || strings.HasPrefix(field, "self.") {
		return false
	}
	_, is := d.option(dest)
	return is
}

// trainer is where the program makes transformers' Trainer, or one of its kind.
func (d *drafting) trainer() (where string, found bool) {
	for _, f := range d.files {
		if !strings.Contains(f.Code, "transformers") && !strings.Contains(f.Code, "trl") {
			continue
		}
		for _, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				if strings.HasSuffix(lastPart(c.Name), "Trainer") {
					return d.place(f, c.First), true
				}
			}
		}
	}
	return "", false
}

// progressBar is the place and the pattern of a progress bar: tqdm's, or those of the Trainer and Lightning.
func (d *drafting) progressBar() (where, pattern string) {
	for _, f := range d.files {
		for i, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				if pattern = d.barOf(f, i, c); pattern != "" {
					return d.place(f, c.First), pattern
				}
			}
		}
	}
	return "", ""
}

var evalText = lazy.MustCompile(`(?i)valid|test|eval`)

// barOf is the pattern of the progress bar that a call makes, or "".
func (d *drafting) barOf(f *file, statement int, c python.Call) string {
	name := lastPart(c.Name)
	switch {
	case name == "tqdm" || name == "trange":
		if _, own := python.Keyword(f.Args(c.Open), "bar_format"); own || !d.reached()[f][statement] {
			return ""
		}
		m := message{}
		f.around(&m, statement)
		if def := f.function(statement); def >= 0 {
			if d, _ := f.Definition(f.Statements[def]); otherWork.MatchString(d.Name) {
				return ""
			}
		}
		if f.withoutGradient(statement) || evalish.MatchString(m.scope) ||
			evalText.MatchString(f.Of(f.Statements[statement].Range)) {
			return ""
		}
		return d.described(f, c)
	case !strings.HasSuffix(name, "Trainer"):
	case strings.Contains(f.Code, "transformers") || strings.Contains(f.Code, "trl"):
		return "^" + bar
	case strings.Contains(f.Code, "lightning"):
		return lightning
	}
	return ""
}

// withoutGradient reports whether a statement computes no gradient, or has a block that does not: it is no training.
func (f *file) withoutGradient(at int) bool {
	decorated := func(i int) bool {
		for i--; i >= 0 && f.Is(f.Statements[i].First, "@"); i-- {
			if noGradient.MatchString(f.Of(f.Statements[i].Range)) {
				return true
			}
		}
		return false
	}
	for i := f.Statements[at].In; i >= 0; i = f.Statements[i].In {
		if f.Is(f.Statements[i].First, "with") && noGradient.MatchString(f.Of(f.Statements[i].Range)) || decorated(i) {
			return true
		}
	}
	return false
}

// outermost is the outermost loop around a statement in its function; the statement itself where there is none.
func (f *file) outermost(at int) int {
	for i := f.Statements[at].In; i >= 0; i = f.Statements[i].In {
		if _, ok := f.Definition(f.Statements[i]); ok {
			break
		}
		if f.Is(f.Statements[i].First, "for") || f.Is(f.Statements[i].First, "while") {
			at = i
		}
	}
	return at
}

var noGradient = lazy.MustCompile(`\b(no_grad|inference_mode)\b`)

// described is the pattern of a tqdm with its description, so that another bar, such as that of a data set, is no
// step.
func (d *drafting) described(f *file, c python.Call) string {
	if a, ok := python.Keyword(f.Args(c.Open), "desc"); ok {
		m := message{pieces: joined(f.pieces(a.Range, 0))}
		switch text := m.text(); {
		case otherWork.MatchString(text):
			return ""
		case letter.MatchString(text):
			return "^" + text + ":" + bar
		}
		return "^[^|]*?" + bar
	}
	if slices.ContainsFunc(d.files, func(f *file) bool { return strings.Contains(f.Code, ".set_description") }) {
		return "^[^|]*?" + bar
	}
	return "^" + bar
}

var (
	savedText = lazy.MustCompile(`(?i)\bsaved\b|\bsaving\b|\bsave\b`)
	stateText = lazy.MustCompile(`(?i)checkpoint|ckpt|state|model|weights|snapshot`)
	pathField = lazy.MustCompile(`(?i)path|file|dir|ckpt|checkpoint|name|out|dest|save`)
)

// saved drafts the line that is printed after a state was saved. It has to be a state that the program can resume
// from: weights alone are none.
func (d *drafting) saved(all []message) {
	hinted := ""
	for n := range all {
		m := &all[n]
		at, text := -1, ""
		for i, p := range m.pieces {
			text += p.text + " "
			if p.field != "" && (pathField.MatchString(p.field) || d.savedTo(m, p.field)) {
				at = i
			}
		}
		if at < 0 || !savedText.MatchString(text) || final.MatchString(text) {
			continue
		}
		whole, field := m.path(at)
		pattern := whole.pattern(map[int]string{field: path})
		if !letter.MatchString(strings.Replace(pattern, path, "", 1)) {
			continue
		}
		switch {
		case d.savedBefore(m) || strings.Contains(strings.ToLower(text), "saved") && d.savedTo(m, m.pieces[at].field):
			d.sign(sure+d.place(m.f, m.token)+" prints it where it saves", "saved", pattern)
			return
		case hinted == "" && stateText.MatchString(text+m.pieces[at].field):
			hinted = pattern
			d.savedHint = entry{text: "saved: " + quoted(pattern), notes: []string{d.place(m.f, m.token) +
				" prints this. Add the line if the program prints it after it has saved a whole state, not weights alone"}}
		}
	}
	if hinted != "" {
		d.lines = append(d.lines, d.savedHint)
		return
	}
	d.hint(`saved: 'saved (?P<path>\S+)'`, "No line was found that the program prints after it has saved a state")
}

// savedTo reports whether a message's field is the path of a state that the program saves.
func (d *drafting) savedTo(m *message, field string) bool {
	glob, ok := d.globText(m.f, field, m.statement, 0)
	return ok && strings.Trim(clean(glob), "*/.") != "" && slices.ContainsFunc(d.saveCalls(), func(s save) bool {
		return s.whole && s.glob == clean(glob)
	})
}

// savedBefore reports whether a message comes right after the call that saves a whole state.
func (d *drafting) savedBefore(m *message) bool {
	for i := max(0, m.statement-3); i < m.statement; i++ {
		if m.f.Statements[i].In != m.f.Statements[m.statement].In {
			continue
		}
		for _, c := range m.f.Calls(m.f.Statements[i].Range) {
			if slices.ContainsFunc(d.saveCalls(), func(s save) bool {
				return s.whole && (s.f == m.f && s.statement == i || s.in != "" && s.in == lastPart(c.Name))
			}) {
				return true
			}
		}
	}
	return false
}

var ended = lazy.MustCompile(`(?i)\b(training|train|all|run|fine-?tuning)\b.{0,20}\b(done|finished|` +
	`complete[d]?|over|ended)\b|\b(finished|completed|done with) training\b|\bend of training\b|^\s*(done|finished|` +
	`completed)[.!]?\s*$`)

// succeeded drafts the last line of a run. It has to be printed whenever the program succeeds, or launch takes a
// success for a failure, so it stands in no loop and under no condition.
func (d *drafting) succeeded(all []message) {
	for n := len(all) - 1; n >= 0; n-- {
		m := &all[n]
		if m.f != d.files[0] || m.loops > 0 {
			continue
		}
		for i, p := range m.pieces {
			if !ended.MatchString(p.text) {
				continue
			}
			pattern := m.pattern(map[int]string{i: escaped(strings.TrimSpace(p.text))})
			if text := strings.TrimSpace(p.text); m.raw && len(m.pieces) == 1 && !strings.Contains(text, "\n") {
				pattern = "^" + escaped(text) + `\s*$` // "done" also stands in other lines
			}
			if m.condition == "" {
				d.sign(sure+d.place(m.f, m.token)+" prints it at the end", "succeeded", pattern)
			} else {
				d.hint("succeeded: "+quoted(pattern), d.place(m.f,
					m.token)+" prints this under a condition. Without the line, launch takes a run for failed")
			}
			return
		}
	}
	d.hint("succeeded: 'training is over'", "No line was found that the program prints only when it has succeeded. "+
		"The exit code decides")
}

var (
	lower = lazy.MustCompile(`(?i)(^|[_ .\[("'])(loss|ppl|perplexity|error|err|mse|mae|rmse|wer|cer|fid|nll|bpb|` +
		`bpc)(_\w{1,3}|es)?(\.(avg|item\(\)|mean\(\)|val))?[\])"']*$`)
	higher = lazy.MustCompile(`(?i)(^|[_ .\[("'])(acc|accuracy|acc@?1|acc1|top1|psnr|ssim|m?iou|f1|dice|bleu|map|` +
		`auc|reward|return)(\.(avg|item\(\)|mean\(\)|val))?[\])"']*$`)
)

// metric drafts figures by which trainings are compared: one of the validation, else the training loss.
func (d *drafting) metric(all []message) {
	best, score, at, name, direction := -1, 20, 0, "", ""
	for n := range all {
		m := &all[n]
		for i, p := range m.pieces {
			if p.field == "" || strings.ContainsAny(p.field, "{") || d.typed(p.field) || m.f.oneTime(m.statement) ||
				numberOnly.MatchString(p.field) || m.f.goesThrough(m.statement, p.field) ||
				noFigure.MatchString(m.before(i)) {
				continue
			}
			before := ""
			if i > 0 {
				before = m.pieces[i-1].text
			}
			label := regexp.MustCompile(`[\w@ -]+$`).FindString(strings.TrimRight(before, " :=\t"))
			label = strings.TrimSpace(label[strings.LastIndexAny(label, "\n")+1:])
			s, dir := better(p.field, label)
			if s == 0 {
				continue
			}
			about := p.field + " " + label + " " + evalish.FindString(m.scope)
			if regexp.MustCompile(`(?i)val|eval|test|dev`).MatchString(about) {
				s += 30
			} else if !d.inLoop(m.f, m.statement, 0) {
				continue // printed once: it is no figure of the training
			}
			if m.f == d.files[0] {
				s += 15
			}
			if m.loops > 0 {
				s += 3
			}
			if strings.Contains(strings.ToLower(p.field+label), "best") {
				s -= 20
			}
			if label == "" || m.bar {
				s -= 10
			}
			if s > score && len(strings.TrimSpace(before)) > 0 && !m.vague(i) {
				best, score, at, name, direction = n, s, i, figure(label, p.field), dir
			}
		}
	}
	if at, is := d.trainer(); best < 0 && is {
		d.Signs = append(d.Signs, Sign{"metric", `'loss': '?` + value})
		d.add(sure+at+", the Trainer's own", "metric: {name: loss, pattern: %s, direction: minimise}",
			quoted(`'loss': '?`+value))
		return
	}
	if best < 0 {
		d.hint(`metric: {name: loss, pattern: 'val loss (?P<value>\S+)', direction: minimise}`,
			"No figure was found that the program prints")
		return
	}
	d.addMetric(&all[best], at, name, direction)
}

// addMetric drafts the figure that a message shows in a piece.
func (d *drafting) addMetric(m *message, at int, name, direction string) {
	pattern := m.pattern(map[int]string{at: value})
	if texts := m.headers(at); texts != nil {
		d.hint("metric: {name: "+scalar(name)+", pattern: "+quoted(pattern)+", direction: "+direction+"}",
			d.place(m.f, m.token)+" prints it for each of "+strings.Join(texts, ", ")+
				". Put the one that counts into the pattern")
		return
	}
	d.Signs = append(d.Signs, Sign{"metric", pattern})
	d.add(sure+d.place(m.f, m.token)+" prints it", "metric: {name: %s, pattern: %s, direction: %s}", scalar(name),
		quoted(pattern),
		direction)
}

// better is how likely an expression with this label is a figure, and which of its values are the better ones.
func better(field, label string) (score int, direction string) {
	switch {
	case lower.MatchString(field) || lower.MatchString(label):
		return 20, "minimise"
	case higher.MatchString(field) || higher.MatchString(label):
		return 18, "maximise"
	}
	return 0, ""
}

// goesThrough reports whether a loop around a statement goes through values of a name, or the function around it has a
// number as its default. Both are no results: for iou in thresholds.
func (f *file) goesThrough(at int, name string) bool {
	if header := f.function(at); header >= 0 {
		if def, _ := f.Definition(f.Statements[header]); def.Open >= 0 {
			if a, ok := python.Keyword(f.Args(def.Open), name); ok && number(f.Of(a.Range)) {
				return true
			}
		}
	}
	for i := f.Statements[at].In; i >= 0; i = f.Statements[i].In {
		if s := f.Statements[i]; f.Is(s.First, "for") && f.Is(s.First+1, name) && f.Is(s.First+2, "in") {
			return true
		}
	}
	return false
}

// numberOnly matches the number of a step, an epoch or a batch, which is no figure: "Validation loss {step}: {loss}".
var numberOnly = lazy.MustCompile(`(?i)^(self\.)?(\w+_)?(steps?|iters?|iterations?|epochs?|batch_idx|idx|i|it|n_iter)` +
	`(\s*\+\s*1)?$`)

// noFigure matches what stands before a number that is no result: the code of an error, a limit, a first value.
var noFigure = lazy.MustCompile(`(?i)\b(fail\w*|exception|breaker|initial(ly)?|warn\w*|abort\w*|exit\w*|invalid|` +
	`threshold|` +
	`target|patience|circuit|limit|before|unable|retry\w*|caught)\b`)

// before is the text of a message's line before a piece.
func (m *message) before(i int) string {
	text := ""
	for _, p := range m.pieces[:i] {
		text += p.text + " "
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// figure is the name of a metric.
func figure(label, field string) string {
	label = strings.ToLower(strings.TrimLeft(strings.Trim(label, " -"), "0123456789 ")) // "step 3/4 loss": not the 4
	if words := strings.Fields(label); len(words) > 0 {
		return strings.Join(words[max(0, len(words)-3):], " ")
	}
	return regexp.MustCompile(`\W+`).ReplaceAllString(lastPart(strings.TrimSuffix(field, ".item()")), "")
}

// confirm drafts how the program prints the settings that it uses: only where it prints the very setting.
func (d *drafting) confirm(all []message) {
	var parts []string
	where := ""
	for _, s := range []struct {
		key   string
		of    *setting
		label *regexp.Regexp // what stands before it on the line
	}{
		{"micro-batch", d.micro, regexp.MustCompile(`(?i)batch[ _-]?size\W*(per \w+\W*)?$|\bbs\W*$|` +
			`batch[ _-]?size per \w+[^.]*\W$`)},
		{"accumulation", d.accum, regexp.MustCompile(`(?i)accum[^.]*\W$`)},
	} {
		if s.of == nil || s.of.Dest == "" || d.divided(s.of) != "" {
			continue
		}
		for n := range all {
			m := &all[n]
			at := -1
			for i, p := range m.pieces {
				if p.field != "" && lastPart(p.field) == lastPart(s.of.Dest) && i > 0 &&
					s.label.MatchString(m.pieces[i-1].text) {
					at = i
				}
			}
			if at < 0 || m.loops > 0 || m.condition != "" {
				continue
			}
			pattern := m.pattern(map[int]string{at: count})
			d.Signs = append(d.Signs, Sign{"confirm " + s.key, pattern})
			parts = append(parts, fmt.Sprintf("%s: %s", s.key, quoted(pattern)))
			if where != "" {
				where += ", "
			}
			where += d.place(m.f, m.token)
			break
		}
	}
	if at, pattern := d.confirmWhole(all); pattern != "" {
		d.Signs = append(d.Signs, Sign{"confirm global-batch", pattern})
		parts = append(parts, "global-batch: "+quoted(pattern))
		where = strings.TrimPrefix(where+", "+at, ", ")
	}
	if len(parts) > 0 {
		d.add(sure+where+" prints it", "confirm: {%s}", strings.Join(parts, ", "))
	}
}

// confirmWhole is how the program prints how many samples a step has: a number that it makes by multiplying the
// micro-batch by the accumulation. An attempt that prints another one is another training.
func (d *drafting) confirmWhole(all []message) (where, pattern string) {
	if d.micro == nil || d.accum == nil {
		return "", ""
	}
	micro, accum := d.reads(d.micro, nil), d.reads(d.accum, nil)
	product := func(text string) bool {
		return strings.Contains(text, "*") && !strings.ContainsAny(text, "/%") && micro.in(text) && accum.in(text)
	}
	for n := range all {
		m := &all[n]
		if m.loops > 0 || m.condition != "" {
			continue
		}
		for i, p := range m.pieces {
			text := p.field
			if name := counter.FindString(text); name == text && name != "" {
				if b := m.f.binding(name, m.statement); b >= 0 {
					a, _ := m.f.Assigns(m.f.Statements[b])
					text = m.f.Of(a.Value)
				}
			}
			if product(text) && !m.vague(i) {
				return d.place(m.f, m.token), m.pattern(map[int]string{i: wholeCount})
			}
		}
	}
	return "", ""
}

// wholeCount is a number that may have commas, but does not end with one.
const wholeCount = `(?P<value>\d[\d,]*\d|\d)`
