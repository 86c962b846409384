package declared

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/python"
)

// assumed is the accumulation of a command that does not set it: the script's own default. Nothing is assumed where that cannot
// be read, or where a file that the command names may set it: to double 1 where the program has 40 is another training.
func (r *reading) assumed(p place) (int64, bool) {
	if p.path != "" { // its default is somewhere in the program
		return 0, false
	}
	name := strings.ReplaceAll(strings.TrimLeft(p.flag, "-"), "-", "_")
	for i, a := range r.prog.Args {
		option, value, joined := strings.Cut(a, "=")
		if !joined {
			option, value = "", a
			if i > 0 && strings.HasPrefix(r.prog.Args[i-1], "-") {
				option = r.prog.Args[i-1]
			}
		}
		if filepath.Ext(value) == ".json" && option != "" && !settings.MatchString(option) { // many programs write such files
			continue
		}
		if !slices.Contains([]string{".py", ".yaml", ".yml", ".json", ".toml"}, filepath.Ext(value)) {
			continue
		}
		text, err := file.Read(absolute(r.prog.Dir, value), maxFile)
		if err == nil && strings.Contains(strings.ReplaceAll(string(text), "-", "_"), name) {
			return 0, false
		}
	}
	return defaultOf(python.ReadSource(r.prog.Path(), maxFile), p.flag)
}

var (
	settings = regexp.MustCompile(`(?i)conf|cfg|opt|recipe|setting|arg|param|deepspeed|base`)
	product  = regexp.MustCompile(`^\d+(\s*\*\s*\d+)*$`)
)

// defaultOf finds the default of an option in the code of a script: what argparse or click is told, or the value of the field or
// constant of the option's name. Where the text has several they have to agree.
func defaultOf(script python.Source, flag string) (n int64, ok bool) {
	text := script.Code
	var found []string
	for _, quote := range []string{`"`, `'`} {
		for rest := text; ; {
			_, after, more := strings.Cut(rest, quote+flag+quote)
			if !more {
				break
			}
			rest = after
			value := ""
			for _, a := range python.Arguments(after) {
				if name, v, keyword := strings.Cut(a, "="); keyword && strings.TrimSpace(name) == "default" {
					value = v
				}
			}
			found = append(found, value)
		}
	}
	name := regexp.QuoteMeta(strings.ReplaceAll(strings.TrimLeft(flag, "-"), "-", "_"))
	if len(found) == 0 {
		for _, m := range regexp.MustCompile(`(?m)^[ \t]*`+name+`[ \t]*(?::[^=\n]+)?=([^=\n][^\n]*)`).FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
	}
	if len(found) == 0 && strings.Contains(text, "TrainingArguments") && name == "gradient_accumulation_steps" && !strings.Contains(text, name) {
		return 1, true // transformers' own
	}
	for i, f := range found {
		v := int64(1)
		f = strings.TrimSpace(f)
		if !product.MatchString(f) {
			return 0, false
		}
		for _, factor := range strings.Split(f, "*") {
			k, err := strconv.ParseInt(strings.TrimSpace(factor), 10, 64)
			if err != nil || k < 1 || k > 1<<20 || v > 1<<20 {
				return 0, false
			}
			v *= k
		}
		if i > 0 && v != n {
			return 0, false
		}
		n = v
	}
	return n, len(found) > 0
}
