package dualattn

import (
	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// written is a file of the project as it is written.
func written(src *config.PythonSource) python.Source {
	return python.NewSource(src.Path, string(src.Text))
}

// code is the file's text with spaces in place of comments and of strings between triple quotes.
func code(src *config.PythonSource) []byte { return []byte(written(src).Code) }

// place names an offset for a person: "file:line".
func place(src *config.PythonSource, offset int) string {
	s := python.Source{Path: src.Path, Text: string(src.Text)}
	return s.Place(s.Line(offset))
}

// find is the place of the first match of a pattern in a file's code; ok is false where there is none.
func find(src *config.PythonSource, re *lazy.Regexp) (at string, match []string, ok bool) {
	if src == nil {
		return "", nil, false
	}
	if at, match, ok = written(src).Find(re); !ok {
		at = ""
	}
	return at, match, ok
}

// has reports whether a file's code matches.
func has(src *config.PythonSource, re *lazy.Regexp) bool {
	return src != nil && written(src).Has(re)
}
