package dualattn

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
)

// code is the text of a Python file in which comments and strings between triple quotes are blanks: what is found in it
// by a pattern is code, at the same offset and on the same line.
func code(text []byte) []byte {
	out := bytes.Clone(text)
	blank := func(from, to int) {
		for i := from; i < to && i < len(out); i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '#':
			end := i
			for end < len(text) && text[end] != '\n' {
				end++
			}
			blank(i, end)
			i = end
		case c == '"' || c == '\'':
			triple := bytes.Repeat([]byte{c}, 3)
			if bytes.HasPrefix(text[i:], triple) {
				end := bytes.Index(text[i+3:], triple)
				if end < 0 {
					blank(i, len(text))
					return out
				}
				blank(i, i+3+end+3)
				i += 3 + end + 3
				continue
			}
			for i++; i < len(text) && text[i] != c && text[i] != '\n'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			i++
		default:
			i++
		}
	}
	return out
}

// place is "file:line" of an offset, as a person looks it up in the checkout.
func place(src *config.PythonSource, offset int) string {
	return fmt.Sprintf("%s:%d", filepath.Base(src.Path), 1+bytes.Count(src.Text[:min(offset, len(src.Text))], []byte("\n")))
}

// find is the place of the first match of a pattern in a file's code; ok is false where there is none.
func find(src *config.PythonSource, re *lazy.Regexp) (at string, match []string, ok bool) {
	if src == nil {
		return "", nil, false
	}
	c := code(src.Text)
	m := re.FindSubmatchIndex(c)
	if m == nil {
		return "", nil, false
	}
	for i := 0; i+1 < len(m); i += 2 {
		if m[i] < 0 {
			match = append(match, "")
			continue
		}
		match = append(match, string(c[m[i]:m[i+1]]))
	}
	return place(src, m[0]), match, true
}

// has reports whether a file's code matches.
func has(src *config.PythonSource, re *lazy.Regexp) bool {
	_, _, ok := find(src, re)
	return ok
}
