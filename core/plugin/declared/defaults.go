package declared

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// assumed is the value of a setting that the command does not set: the script's own default; nil if that is not known.
// Nothing is assumed where the default cannot be read, or where a file that the command names may set it: to double 1
// where the program has 40 is another training.
func (r *reading) assumed(p *place) any {
	for _, one := range p.each() {
		if one.path != "" || r.elsewhere(one) || r.otherwise(one) {
			continue
		}
		if text, known := r.prog.defaultOf(one); known && (one.option() || !r.recomposed()) {
			return typed(text)
		}
		if text, known := parameterOf(r.prog.text(), one); known {
			return typed(text)
		}
	}
	return nil
}

// redeclares reports whether the program itself declares the option, where a ready declaration has the default of a
// library: a class of the script that takes the library's fields over may give another default.
func (r *reading) redeclares(p *place) bool {
	for _, one := range p.each() {
		for _, name := range one.names {
			o, ok := r.prog.settings().Lookup(name)
			if ok && one.option() && one.path == "" && o.How == python.HF && o.Path != "" {
				return true
			}
		}
	}
	return false
}

// elsewhere reports whether a file that the command names, and that the declaration does not read, may set the option.
func (r *reading) elsewhere(p place) bool {
	name := bare(p)
	for i, a := range r.prog.Args {
		option, value, joined := strings.Cut(a, "=")
		if !joined {
			option, value = "", a
			if i > 0 && strings.HasPrefix(r.prog.Args[i-1], "-") {
				option = r.prog.Args[i-1]
			}
		}
		if at, ok := strings.CutPrefix(value, "@"); ok { // argparse's fromfile_prefix_chars
			text, err := file.Read(file.In(r.prog.Dir, at), maxFile)
			if err == nil && strings.Contains(strings.ReplaceAll(string(text), "-", "_"), name) {
				return true
			}
		}
		// many programs write such files
		if filepath.Ext(value) == ".json" && option != "" && !settingsFile.MatchString(option) {
			continue
		}
		named := strings.HasPrefix(option, "-") && settingsFile.MatchString(option) &&
			strings.Contains(r.prog.text().Code, "configargparse")
		if !named && !slices.Contains(endings, filepath.Ext(value)) || r.file(value) != nil {
			continue
		}
		text, err := file.Read(file.In(r.prog.Dir, value), maxFile)
		if err == nil && strings.Contains(strings.ReplaceAll(string(text), "-", "_"), name) {
			return true
		}
	}
	return false
}

// otherwise reports whether the command sets the same by an option of another name.
func (r *reading) otherwise(p place) bool {
	program := r.prog.settings()
	for _, name := range p.names {
		o, ok := program.Lookup(name)
		for _, other := range program.Options {
			if ok && o.Dest != "" && other.Dest == o.Dest && !other.Named(name) &&
				slices.ContainsFunc(r.prog.Args, func(a string) bool {
					typed, _, _ := strings.Cut(a, "=")
					return slices.Contains(other.Names, typed)
				}) {
				return true
			}
		}
	}
	return false
}

// bare is the name of an option or a key as Python has it.
func bare(p place) string {
	return strings.ReplaceAll(strings.TrimLeft(p.names[0], "-+~"), "-", "_")
}

var (
	settingsFile = lazy.MustCompile(`(?i)conf|cfg|opt|recipe|setting|arg|param|deepspeed|base`)
	numbers      = lazy.MustCompile(`^\d[\d_]*(\s*\*\s*\d[\d_]*)*$`)
)

// product is a number, or a product of numbers, as an int64, or a decimal as a float64; nil if the text is neither.
func product(text string) any {
	text = strings.TrimSpace(text)
	if !numbers.MatchString(text) {
		if f, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, "0123456789") {
			if n := int64(f); float64(n) == f && !strings.ContainsAny(text, ".eE") {
				return n
			}
			return f
		}
		return nil
	}
	v := int64(1)
	for factor := range strings.SplitSeq(text, "*") {
		k, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimSpace(factor), "_", ""), 10, 64)
		if err != nil || k > 1<<40 || k > 0 && v > (1<<60)/k {
			return nil
		}
		v *= k
	}
	return v
}

// recomposed reports whether the command makes Hydra compose other files than the script names: experiment=large. Then
// the defaults that were read do not count.
func (r *reading) recomposed() bool {
	return slices.ContainsFunc(r.prog.Args, func(a string) bool {
		key, _, joined := strings.Cut(a, "=")
		_, known := r.prog.settings().Lookup(strings.TrimLeft(key, "+"))
		return joined && !known && !strings.HasPrefix(key, "hydra.") || strings.HasPrefix(a, "~") ||
			strings.HasPrefix(a, "-c") || strings.HasPrefix(a, "--config")
	})
}

// defaultOf is the default of an option by what was read of the program. Where several parts of the program have
// several, it is not known, and neither is one that the program replaces by something that is not read. No default, and
// 0, are unknown: a program then computes the value.
func (p *program) defaultOf(at place) (value string, known bool) {
	for _, name := range at.names {
		o, ok := p.settings().Lookup(strings.TrimLeft(name, "+~"))
		switch {
		case !ok:
		case !o.Known || o.Default == "None" || product(o.Default) == any(int64(0)), known && o.Default != value:
			return "", false
		default:
			value, known = o.Default, true
		}
	}
	return value, known
}

// takesOf is what an option takes by the program's own declaration of it; one value if that was not found.
func (p *program) takesOf(at place) config.Takes {
	for _, name := range at.names {
		if o, ok := p.settings().Lookup(name); ok {
			return o.Takes
		}
	}
	return config.One
}
