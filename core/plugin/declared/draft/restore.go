package draft

import (
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

var (
	// holders are names of what holds all options of a program.
	holders = lazy.MustCompile(`(?i)^(self\.)?(args?|opts?|cfg|conf|config|hparams|hps|flags|params|options|settings|` +
		`parsed_args|arguments)$`)
	// stored is an expression that takes the options out of a saved state, or out of the file beside it.
	stored = lazy.MustCompile(`(?i)Namespace\(\s*\*\*|\[['"](args|opts?|config|cfg|hparams|hyper_parameters|` +
		`options)['"]\]|` +
		`\.load\(|\.safe_load\(|load_(args|config|options|hparams)\(`)
	// updated is a call that replaces all options in place.
	updated = lazy.MustCompile(`(?i)(vars\(\s*(\w+)\s*\)|\b(\w+)\.__dict__)(\.update\(|\s*=[^=])`)
)

// restores is where a resumed run takes all its options, the batch too, from the saved ones, or "": then the command's
// own do not count, and another micro-batch does not arrive.
func (d *drafting) restores(r *setting) string {
	resuming := word(r)
	for _, f := range d.files {
		for i, s := range f.Statements {
			text := f.Of(s.Range)
			if f.Is(s.First, "if") && resuming.MatchString(text) && !strings.Contains(text, "not ") {
				if at := d.replaces(f, i, 0); at != "" {
					return at
				}
			}
			// args = load_args(args.resume)
			if a, ok := f.Assigns(s); ok && holders.MatchString(a.Name) && resuming.MatchString(f.Of(a.Value)) &&
				stored.MatchString(f.Of(a.Value)) {
				return d.place(f, s.First)
			}
		}
	}
	return ""
}

// replaces is where the block of a statement, or a function that it calls, replaces the program's options by saved ones
// and does not set the batch again.
func (d *drafting) replaces(f *file, header, depth int) string {
	from, to := f.Block(header)
	for i := max(from, header); i < to; i++ {
		s := f.Statements[i]
		text := f.Of(s.Range)
		a, assigns := f.Assigns(s)
		m := updated.FindStringSubmatch(text)
		switch {
		case assigns && holders.MatchString(a.Name) && stored.MatchString(f.Of(a.Value)) && !d.again(f, i, to):
			return d.place(f, s.First)
		case m != nil && (holders.MatchString(m[2]) || holders.MatchString(m[3])) && !d.again(f, i, to):
			return d.place(f, s.First)
		}
		for _, c := range f.Calls(s.Range) {
			if all := d.definitions()[lastPart(c.Name)]; len(all) == 1 && depth < 1 {
				if at := d.replaces(all[0].f, all[0].statement, depth+1); at != "" {
					return at
				}
			}
		}
	}
	return ""
}

// again reports whether a statement after this one sets the batch size of the command again.
func (d *drafting) again(f *file, at, to int) bool {
	if d.micro == nil {
		return false
	}
	sets := regexp.MustCompile(`[.'"]` + regexp.QuoteMeta(lastPart(d.micro.Dest)) + `['"\]]*\s*=[^=]`)
	return slices.ContainsFunc(f.Statements[at+1:to], func(s python.Statement) bool {
		return sets.MatchString(f.Of(s.Range))
	})
}

// takesPath reports whether the code takes the value of an option that may stand alone for a path.
func (d *drafting) takesPath(o *setting) bool {
	name := regexp.QuoteMeta(lastPart(o.Dest))
	is := regexp.MustCompile(`isinstance\([\w.]*\b` + name + `, str\)|(isfile|exists|Path|` +
		`endswith)\([\w.]*\b` + name + `\b|\b` +
		name + `\.endswith\(`)
	return d.loaded(o) || slices.ContainsFunc(d.files, func(f *file) bool { return is.MatchString(f.Text) })
}

// numbered matches the name of what is counted: a state's number.
var numbered = lazy.MustCompile(`(?i)(^|[^a-z])(epochs?|steps?|iters?|iterations?|it|i|e|idx|num|number|updates?|` +
	`kimg|nimg|` +
	`count)([^a-z]|$)`)

// star is the glob of a part of a path that is computed: numbers where it is one, so that "best" is no number.
func star(expression string) string {
	name := lastPart(strings.Trim(counter.FindString(unwrapped.ReplaceAllString(expression, "")), "."))
	if numbered.MatchString(name) || grown.MatchString(expression) {
		return "[0-9]*"
	}
	return "*"
}

var (
	unwrapped = lazy.MustCompile(`\b(str|int|max|min|round)\(`)
	grown     = lazy.MustCompile(`^\w+\s*\+\s*\d+$`)
)
