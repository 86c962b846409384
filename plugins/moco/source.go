package moco

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
)

// A text is a Python file of the checkout. Its fingerprints are looked for in code, which is the file with comments and
// docstrings blanked, so that offsets and lines are the file's own.
type text struct {
	path string
	raw  string
	code string
}

// maxSource bounds what is read of one file: a Python module is some kilobytes.
const maxSource = 1 << 20

// readText reads a file. What cannot be read is an empty text, in which nothing is found.
func readText(path string) text {
	f, err := file.Open(path)
	if err != nil {
		return text{path: path}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSource))
	if err != nil {
		return text{path: path}
	}
	return newText(path, string(b))
}

func newText(path, raw string) text { return text{path: path, raw: raw, code: blank(raw)} }

func (t text) exists() bool { return t.raw != "" }

// reads reports whether the code names an attribute, such as ".batch_size", and nothing longer.
func (t text) reads(attribute string) bool {
	for rest := t.code; ; {
		_, behind, ok := strings.Cut(rest, attribute)
		if !ok {
			return false
		}
		if behind == "" || !wordByte(behind[0]) {
			return true
		}
		rest = behind
	}
}

// assigned are the lines of the code that begin with an assignment to a name, such as "config.batch_size".
func (t text) assigned(name string) (lines []int) {
	line, at := 1, 0
	for {
		i := strings.Index(t.code[at:], name)
		if i < 0 {
			return lines
		}
		line, at = line+strings.Count(t.code[at:at+i], "\n"), at+i
		before := t.code[strings.LastIndexByte(t.code[:at], '\n')+1 : at]
		at += len(name)
		if behind := strings.TrimLeft(t.code[at:], " \t"); strings.TrimLeft(before, " \t") == "" && strings.HasPrefix(behind, "=") && !strings.HasPrefix(behind, "==") {
			lines = append(lines, line)
		}
	}
}

func wordByte(c byte) bool { return c == '_' || c-'0' < 10 || c|0x20-'a' < 26 }

// has reports whether the code matches.
func (t text) has(re *lazy.Regexp) bool { return re.MatchString(t.code) }

// line is the line of the first match in the code, or 0.
func (t text) line(re *lazy.Regexp) int {
	at := re.FindStringIndex(t.code)
	if at == nil {
		return 0
	}
	return 1 + strings.Count(t.code[:at[0]], "\n")
}

// at names the place of the first match for a person: "train_moco.py:113".
func (t text) at(re *lazy.Regexp) string { return place(t.path, t.line(re)) }

// saidAt is at, with comments and docstrings looked through too.
func (t text) saidAt(re *lazy.Regexp) string {
	at := re.FindStringIndex(t.raw)
	if at == nil {
		return place(t.path, 0)
	}
	return place(t.path, 1+strings.Count(t.raw[:at[0]], "\n"))
}

func place(path string, line int) string {
	if line == 0 {
		return filepath.Base(path)
	}
	return filepath.Base(path) + ":" + strconv.Itoa(line)
}

// blank replaces comments and triple-quoted strings by spaces. Other strings stay: options are named in them.
func blank(src string) string {
	out := []byte(src)
	wipe := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case c == '#':
			end := i + strings.IndexByte(src[i:]+"\n", '\n')
			wipe(i, min(end, len(src)))
			i = end
		case strings.HasPrefix(src[i:], `"""`) || strings.HasPrefix(src[i:], `'''`):
			end := i + 3
			for end < len(src) && !strings.HasPrefix(src[end:], src[i:i+3]) {
				if src[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+3, len(src))
			wipe(i, end)
			i = end
		case c == '"' || c == '\'':
			i = endOfString(src, i)
		default:
			i++
		}
	}
	return string(out)
}

// endOfString is behind the string that begins at i, or behind its line.
func endOfString(src string, i int) int {
	quote := src[i]
	for i++; i < len(src) && src[i] != quote && src[i] != '\n'; i++ {
		if src[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(src))
}

// An option is what a parser declares.
type option struct {
	config.Option
	value string // its default as spelled in Python, without quotes; "" where none is given
}

var reAddArgument = lazy.MustCompile(`\.add_argument\(`)

// options are the options that the text's add_argument calls declare.
func (t text) options() (out []option) {
	for _, at := range reAddArgument.FindAllStringIndex(t.code, -1) {
		var o option
		for _, a := range arguments(t.code[at[1]:]) {
			name, value, keyword := strings.Cut(a, "=")
			switch s, quoted := unquote(a); {
			case quoted && strings.HasPrefix(s, "-"):
				o.Names = append(o.Names, s)
			case !keyword:
			case strings.TrimSpace(name) == "default":
				o.value, _ = unquote(strings.TrimSpace(value))
			case strings.TrimSpace(name) == "action":
				if action, _ := unquote(strings.TrimSpace(value)); action != "store" && action != "append" && action != "extend" {
					o.Takes = config.None
				}
			case strings.TrimSpace(name) == "nargs":
				n, _ := unquote(strings.TrimSpace(value))
				o.Takes = map[string]config.Takes{"*": config.Any, "+": config.Some, "?": config.Maybe}[n]
			}
		}
		if len(o.Names) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// arguments splits what follows an opening parenthesis at its commas, up to the closing one.
func arguments(code string) (out []string) {
	depth, start := 0, 0
	for i := 0; i < len(code); {
		switch c := code[i]; {
		case c == '"' || c == '\'':
			i = endOfString(code, i)
			continue
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case depth == 0 && (c == ')' || c == ','):
			if a := strings.TrimSpace(code[start:i]); a != "" {
				out = append(out, a)
			}
			if start = i + 1; c == ')' {
				return out
			}
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		}
		i++
	}
	return out
}

// unquote returns a Python string literal's text, and whether s is one; else s.
func unquote(s string) (string, bool) {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && endOfString(s, 0) == len(s) && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1], true
	}
	return s, false
}

// declared finds an option by one of its names.
func declared(options []option, name string) (option, bool) {
	for _, o := range options {
		for _, n := range o.Names {
			if n == name {
				return o, true
			}
		}
	}
	return option{}, false
}

// resolve finds the file of a module as Python would: below root, or relative to the file that imports it.
func resolve(root, importer, module string) string {
	dir := root
	name := strings.TrimLeft(module, ".")
	if dots := len(module) - len(name); dots > 0 {
		dir = filepath.Dir(importer)
		for range dots - 1 {
			dir = filepath.Dir(dir)
		}
	}
	path := filepath.Join(dir, strings.ReplaceAll(name, ".", "/"))
	for _, candidate := range []string{path + ".py", filepath.Join(path, "__init__.py")} {
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
			return candidate
		}
	}
	return ""
}
