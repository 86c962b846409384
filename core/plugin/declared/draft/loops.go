package draft

import (
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// reached marks the functions and classes of the project that the script may reach: their names stand in code that
// does. A method is reached with its class, because libraries call methods by names of their own.
func (d *drafting) reached() map[*file][]bool {
	if d.live != nil {
		return d.live
	}
	d.live = map[*file][]bool{}
	for _, f := range d.files {
		d.live[f] = make([]bool, len(f.Statements))
	}
	r := &reaching{drafting: d, seen: map[string]bool{}}
	for _, f := range d.files {
		r.enter(f, 0, len(f.Statements))
	}
	for len(r.queue) > 0 {
		next := r.queue[0]
		r.queue = r.queue[1:]
		_, end := next.f.Block(next.statement)
		r.enter(next.f, next.statement, max(end, next.statement+1))
	}
	return d.live
}

// reaching is which names were seen in code that is reached, and which of the project's definitions are still to be
// read.
type reaching struct {
	*drafting
	seen  map[string]bool
	queue []defined
}

// enter marks statements, but not those of functions whose names were not seen, and of branches that are never taken.
func (r *reaching) enter(f *file, from, to int) {
	for i := from; i < to; i++ {
		if r.live[f][i] {
			continue
		}
		s := f.Statements[i]
		if def, ok := f.Definition(s); ok && !r.reaches(f, i, def, r.seen) || never(f.Of(s.Range)) ||
			f != r.files[0] && asMain.MatchString(f.Of(s.Range)) {
			_, end := f.Block(i)
			i = max(i, end-1)
			continue
		}
		r.live[f][i] = true
		for _, name := range f.words(s) {
			if !r.seen[name] {
				r.seen[name] = true
				r.queue = append(r.queue, r.definitions()[name]...)
			}
		}
	}
}

// reaches reports whether a definition is reached: its name was seen, or it is a method of a class that is.
func (d *drafting) reaches(f *file, i int, def python.Definition, seen map[string]bool) bool {
	if in := f.Statements[i].In; in >= 0 && d.live[f][in] {
		if class, ok := f.Definition(f.Statements[in]); ok && class.Class {
			return true
		}
	}
	if f == d.files[0] && (d.prog.Kind == command.Installed || strings.Contains(f.Code, "Fire(")) {
		return true // called by its name from outside
	}
	return seen[def.Name] || i > 0 && f.Is(f.Statements[i-1].First, "@")
}

var oneName = lazy.MustCompile(`^[\w.:/-]+$`)

// asMain matches the header of what a file runs only where it is the script.
var asMain = lazy.MustCompile(`^if\s+__name__\s*==\s*['"]__main__['"]\s*:`)

var neverTrue = lazy.MustCompile(`^(if|elif|while)\s+(False|0|None)\s*:`)

func never(header string) bool { return neverTrue.MatchString(header) }

// words are the names in a statement, but those of what it defines and of a module of which it imports, and those in
// its formatted strings and in strings that are one name too.
func (f *file) words(s python.Statement) (names []string) {
	first := s.First
	if f.Is(first, "from") { // the module's own name is no name of what is in it
		first = max(first, f.Find(s.Range, "import"))
	}
	for t := first; t < s.End; t++ {
		switch f.Tokens[t].Kind {
		case python.Word:
			if t > s.First && (f.Is(t-1, "def") || f.Is(t-1, "class")) {
				continue
			}
			names = append(names, f.Token(t))
		case python.String: // what a sentence or a link tells calls nothing
			text := f.Token(t)
			value, _ := python.Literal(text)
			if strings.ContainsAny(text[:max(0, strings.IndexAny(text, `"'`))], "fF") || oneName.MatchString(value) {
				names = append(names, identifiers.FindAllString(text, -1)...)
			}
		}
	}
	return names
}

var (
	// looping are headers of loops over steps and epochs, by what they count or go through.
	looping = lazy.MustCompile(`(?i)epoch|step|iter|batch|loader|update|kimg|tick|train|round|\brange\(|\bcount\(|` +
		`^while (True|1)\b|^while\b.*<`)
	// otherLoop are headers of loops over something else.
	otherLoop = lazy.MustCompile(`(?i)\bin (self\.)?\w*(files|paths|modules|layers|process(es)?|procs|params|parameters|` +
		`named_\w+\(\)|keys\(\)|items\(\)|values\(\)|children\(\)|workers|ranks|names|models)\b|os\.(listdir|walk)|glob`)
)

// inLoop reports whether a statement stands in a loop over steps or epochs, or in a function that is called from one.
func (d *drafting) inLoop(f *file, at, depth int) bool {
	function := f.function(at)
	for i := f.Statements[at].In; i >= 0 && i != function; i = f.Statements[i].In {
		s := f.Statements[i]
		if word := f.Token(s.First); word != "for" && word != "while" {
			continue
		}
		if text := f.Of(s.Range); looping.MatchString(text) && !otherLoop.MatchString(text) {
			return true
		}
	}
	if function < 0 || depth > 4 {
		return false
	}
	def, _ := f.Definition(f.Statements[function])
	if hook.MatchString(def.Name) {
		return true
	}
	return slices.ContainsFunc(d.callers(def.Name), func(c call) bool {
		return (c.f != f || !f.Within(c.statement, function)) && d.inLoop(c.f, c.statement, depth+1)
	})
}

// hook are names of methods that libraries call at a step or an epoch.
var hook = lazy.MustCompile(`^(on_.*(batch|step|epoch|iteration|log)\w*|(training|train|validation)_step|` +
	`after_(step|iter|epoch)|` +
	`(training|train|validation)_epoch_end|before_step|after_train_iter|log_metrics|tick)$`)

// A call is one of a project's function in its reached code.
type call struct {
	f         *file
	statement int
	call      python.Call
}

// callers are the calls of a function by its name, and the statements that hand it on.
func (d *drafting) callers(name string) []call {
	if d.calls == nil {
		d.calls = d.calling(func(f *file, i int) bool { return d.reached()[f][i] })
	}
	return d.calls[name]
}

// counted reports whether an expression of a message is the number of a step: the variable of a loop around it, a
// counter that grows, or what one of these was handed on as.
func (d *drafting) counted(f *file, field string, at, depth int) bool {
	if depth > 4 {
		return false
	}
	name := counter.FindString(field)
	if name == "" {
		return false
	}
	for i := f.Statements[at].In; i >= 0; i = f.Statements[i].In {
		s := f.Statements[i]
		text := f.Of(s.Range)
		switch f.Token(s.First) {
		case "except", "with":
			if regexp.MustCompile(`\bas ` + regexp.QuoteMeta(name) + `\b`).MatchString(text) {
				return false
			}
		case "for", "async":
			if slices.Contains(f.Binds(s), name) {
				return looping.MatchString(text) && !otherLoop.MatchString(text) || stepName.MatchString(name) ||
					epochName.MatchString(name) && len(name) > 2
			}
		}
	}
	if d.grows(name) {
		return true
	}
	if strings.Contains(name, ".") {
		return libraryCount.MatchString(lastPart(name))
	}
	if b := f.binding(name, at); b >= 0 && b != at && !f.counts(name) {
		a, _ := f.Assigns(f.Statements[b])
		return slices.ContainsFunc(counter.FindAllString(f.Of(a.Value), -1), func(part string) bool {
			return part != name && d.counted(f, part, b, depth+1)
		})
	}
	return d.handed(f, name, at, depth)
}

// handed reports whether a parameter of the function around a statement is given the number of a step.
func (d *drafting) handed(f *file, name string, at, depth int) bool {
	header := f.function(at)
	if header < 0 {
		return false
	}
	def, _ := f.Definition(f.Statements[header])
	if def.Open < 0 {
		return false
	}
	position := -1
	params := f.Split(f.Inside(def.Open), ",")
	for k, p := range params {
		if f.Is(p.First, name) {
			position = k
		}
	}
	if position < 0 {
		return false
	}
	if len(params) > 0 && (f.Is(params[0].First, "self") || f.Is(params[0].First, "cls")) {
		position--
	}
	if hook.MatchString(def.Name) && (stepName.MatchString(name) || batchName.MatchString(name) ||
		epochName.MatchString(name)) {
		return true
	}
	return slices.ContainsFunc(d.callers(def.Name), func(c call) bool {
		args := c.f.Args(c.call.Open)
		if a, ok := python.Keyword(args, name); ok {
			return d.counted(c.f, c.f.Of(a.Range), c.statement, depth+1)
		}
		return position < len(args) && args[position].Name == "" && args[position].Stars == 0 &&
			d.counted(c.f, c.f.Of(args[position].Range), c.statement, depth+1)
	})
}

var (
	// counter matches the name in an expression that counts: i + 1, self.step, int(step).
	counter = lazy.MustCompile(`[A-Za-z_]\w*(?:\.\w+)*`)
	// libraryCount are attributes in which libraries count.
	libraryCount = lazy.MustCompile(`^(global_steps?|current_epoch|cur_epoch|epoch|iteration|num_updates|cur_iter|iter|` +
		`iter_num|num_iter|step|current_step|total_steps_done|step_count)$`)
)

// grows reports whether the project counts by a name: step += 1, state["iter"] += 1, self.step = self.step + 1.
func (d *drafting) grows(name string) bool {
	if d.growing == nil {
		d.growing = map[string]bool{}
		for _, f := range d.files {
			for i, s := range f.Statements {
				text := f.Of(s.Range)
				m := increment.FindStringSubmatch(text)
				if m == nil || !d.reached()[f][i] {
					continue
				}
				if m[2] == "+=" || strings.HasPrefix(strings.TrimSpace(text[len(m[0]):]), m[1]) {
					d.growing[lastPart(strings.Trim(m[1], `"'[]`))] = true
				}
			}
		}
	}
	return d.growing[lastPart(name)]
}

var increment = lazy.MustCompile(`^([\w.]+(?:\[['"]\w+['"]\])?)\s*(\+=|=)`)

// once matches a condition that is true at one step: if epoch == args.warmup.
var once = lazy.MustCompile(`(?i)\b\w*(epoch|step|iter|idx|batch)\w*\s*==|\b[ie]\s*==`)

// oneTime reports whether a message is printed once, though it stands in a loop: under a comparison of the step with
// one value, or where something has failed.
func (f *file) oneTime(at int) bool {
	for i := f.Statements[at].In; i >= 0; i = f.Statements[i].In {
		s := f.Statements[i]
		switch text := f.Of(s.Range); f.Token(s.First) {
		case "except":
			return true
		case "if", "elif":
			if once.MatchString(text) && !strings.Contains(text, "%") && !rankCheck.MatchString(text) {
				return true
			}
			if _, to := f.Block(i); to > i+1 && !strings.Contains(text, "%") &&
				leaving.MatchString(f.Token(f.Statements[to-1].First)) &&
				f.Statements[to-1].In == i {
				return true
			}
		case "def", "class", "for", "while":
			return false
		}
	}
	return false
}

var leaving = lazy.MustCompile(`^(break|raise|return)$`)
