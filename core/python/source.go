package python

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
)

// A Source is a Python file as it is written. It is searched and never run. What takes a parser is in [config.PythonSource], which the
// command's own interpreter makes.
type Source struct {
	Path string
	Text string // the whole file
	// Code is Text with spaces in place of comments and of strings between triple quotes, most of which are docstrings. Offsets and
	// lines are those of Text. Other strings stay: options and keys are named in them.
	Code string
}

// NewSource returns the source of a file's text.
func NewSource(path, text string) Source {
	return Source{Path: path, Text: text, Code: blank(text, func(quotes int) bool { return quotes == 3 })}
}

// ReadSource reads a file of at most so many bytes. What cannot be read is an empty source, in which nothing is found.
func ReadSource(path string, most int64) Source {
	text, err := file.Read(path, most)
	if err != nil {
		return Source{Path: path}
	}
	return NewSource(path, string(text))
}

// Exists reports whether the file was read and is not empty.
func (s Source) Exists() bool { return s.Text != "" }

// Has reports whether the code matches.
func (s Source) Has(re *lazy.Regexp) bool { return re.MatchString(s.Code) }

// Line is the line of an offset.
func (s Source) Line(offset int) int {
	return 1 + strings.Count(s.Text[:min(offset, len(s.Text))], "\n")
}

// Place names a line of the file for a person.
func (s Source) Place(line int) string { return Place(s.Path, line) }

// Place names a line of a file for a person: "train.py:113"; the file alone where the line is 0.
func Place(path string, line int) string {
	if line == 0 {
		return filepath.Base(path)
	}
	return fmt.Sprintf("%s:%d", filepath.Base(path), line)
}

// Find returns the first match in the code, with its groups, and its place. ok is false where there is none: the place is then the file.
func (s Source) Find(re *lazy.Regexp) (at string, match []string, ok bool) {
	m := re.FindStringSubmatchIndex(s.Code)
	if m == nil {
		return s.Place(0), nil, false
	}
	for i := 0; i+1 < len(m); i += 2 {
		group := ""
		if m[i] >= 0 {
			group = s.Code[m[i]:m[i+1]]
		}
		match = append(match, group)
	}
	return s.Place(s.Line(m[0])), match, true
}

// At is the place of the first match in the code.
func (s Source) At(re *lazy.Regexp) string {
	at, _, _ := s.Find(re)
	return at
}

// AtText is the place of the first match in the file, its comments and docstrings included.
func (s Source) AtText(re *lazy.Regexp) string {
	m := re.FindStringIndex(s.Text)
	if m == nil {
		return s.Place(0)
	}
	return s.Place(s.Line(m[0]))
}

// Names reports whether the code names something, such as "pin_memory" or ".batch_size", and nothing longer.
func (s Source) Names(what string) bool {
	for at := 0; ; at++ {
		i := strings.Index(s.Code[at:], what)
		if i < 0 {
			return false
		}
		at += i
		if whole(s.Code, at, at+len(what)) {
			return true
		}
	}
}

// whole reports whether what stands between two offsets is no part of a longer word.
func whole(code string, from, to int) bool {
	return (from == 0 || !wordByte(code[from]) || !wordByte(code[from-1])) && (to == len(code) || !wordByte(code[to-1]) || !wordByte(code[to]))
}

func wordByte(c byte) bool { return c == '_' || c-'0' < 10 || c|0x20-'a' < 26 }

// mayAssign reports whether behind a name there is what may be an assignment to it. Most names of settings are only
// read, and then the source needs no parsing.
func (s Source) mayAssign(name string) bool {
	for at := 0; ; at++ {
		i := strings.Index(s.Code[at:], name)
		if i < 0 {
			return false
		}
		at += i
		if !whole(s.Code, at, at+len(name)) {
			continue
		}
		rest, next, _ := strings.Cut(strings.TrimLeft(s.Code[at+len(name):], " \t"), "\n")
		if next = strings.TrimLeft(next, " \t\n"); rest == "" && next != "" && strings.IndexByte(",)]=", next[0]) >= 0 {
			return true // in brackets, of several lines
		}
		switch op := strings.TrimLeft(rest, "+-*/%@&|^<>"); {
		case rest == "", strings.HasPrefix(op, "==") && op == rest:
		case strings.HasPrefix(op, "="), rest[0] == '\\':
			return true
		case strings.IndexByte(",)]:", rest[0]) >= 0:
			// one of several targets, or an annotation: their "=" may stand on another line
			if more := strings.TrimLeft(rest, ",)]: \t"); more == "" || more == "\\" || strings.Contains(more, "=") {
				return true
			}
		}
	}
}

// Assigned lists the lines with an assignment to a name such as "config.batch_size", be it alone or beside others.
func (s Source) Assigned(name string) (lines []int) {
	if !s.mayAssign(name) {
		return nil
	}
	x := s.Syntax()
	for _, statement := range x.Statements {
		if x.Find(statement.Range, "=") >= 0 && slices.Contains(x.Binds(statement), name) {
			lines = append(lines, x.LineOf(statement.First))
		}
	}
	return lines
}

// blank puts spaces in place of comments, and of the strings for which it is wanted by their number of quotes on either side.
func blank(text string, wanted func(quotes int) bool) string {
	var out []byte
	wipe := func(from, to int) {
		if out == nil {
			out = []byte(text)
		}
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; ; {
		next := strings.IndexAny(text[i:], "#\"'")
		if next < 0 {
			break
		}
		from := i + next
		if text[from] == '#' {
			i = endOfLine(text, from)
			wipe(from, i)
			continue
		}
		if i = endOfString(text, from); wanted(len(quotes(text, from))) {
			wipe(from, i)
		}
	}
	if out == nil {
		return text
	}
	return string(out)
}

func endOfLine(text string, i int) int {
	if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(text)
}

// quotes returns the quotation marks that begin the string at i: one or three.
func quotes(text string, i int) string {
	if i+2 < len(text) && text[i+1] == text[i] && text[i+2] == text[i] {
		return text[i : i+3]
	}
	return text[i : i+1]
}

// endOfString is where the string ends whose quotes begin at i: after its last quote, at the end of a line that lacks it, or at the end
// of the text. A backslash keeps a quote from ending a string, also in a raw one. What an f-string has in braces may have strings of
// its own, since Python 3.12 with the same quotes (PEP 701).
func endOfString(text string, i int) int {
	q := quotes(text, i)
	return inString(text, i+len(q), q, formatted(text[:i]))
}

// formatted reports whether the quotes that follow are of an f-string.
func formatted(before string) bool {
	n := len(before)
	for n > 0 && len(before)-n < 3 && wordByte(before[n-1]) {
		n--
	}
	switch strings.ToLower(before[n:]) {
	case "f", "rf", "fr":
		return true
	}
	return false
}

func inString(text string, i int, quotes string, formatted bool) int {
	for i < len(text) {
		switch c := text[i]; {
		case c != '\\' && c != quotes[0] && c != '\n' && c != '{': // most of a string
			i++
		case c == '\\' && formatted && i+1 < len(text) && strings.IndexByte("{}", text[i+1]) >= 0:
			i++
		case c == '\\':
			if i++; strings.HasPrefix(text[i:], "\r\n") {
				i++
			}
			i++
		case strings.HasPrefix(text[i:], quotes):
			return i + len(quotes)
		case c == '\n' && len(quotes) == 1:
			return i
		case formatted && strings.HasPrefix(text[i:], "{{"):
			i += 2
		case formatted && c == '{':
			i = inField(text, i+1, quotes)
		default:
			i++
		}
	}
	return len(text)
}

// inField is where a replacement field of an f-string ends.
func inField(text string, i int, quotes string) int {
	for depth := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			i = endOfString(text, i)
			continue
		case c == '#':
			i = endOfLine(text, i)
			continue
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case depth == 0 && c == '}':
			return i + 1
		case depth == 0 && c == ':':
			return inFormat(text, i+1, quotes)
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		}
		i++
	}
	return len(text)
}

// inFormat is where a replacement field ends after its colon: "{x:>{width}}", "{n:#x}".
func inFormat(text string, i int, quotes string) int {
	for i < len(text) && text[i] != '}' && !strings.HasPrefix(text[i:], quotes) {
		if text[i] == '{' {
			i = inField(text, i+1, quotes)
		} else {
			i++
		}
	}
	if i < len(text) && text[i] == '}' {
		i++
	}
	return i
}
