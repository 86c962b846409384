// Package lazy has regular expressions that are compiled when they are first used. A run uses a few of the hundreds there
// are. Compiling all of them was 3.8 of the 8.6 ms of CPU time that "launch version" took (2 cores, 2026-11-22), paid again by
// its plugin's process.
package lazy

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

// A Regexp is a [regexp.Regexp] that is compiled when it is first used. It may be used from several goroutines.
type Regexp struct {
	source  string
	once    sync.Once
	re      *regexp.Regexp
	literal string // stands in every match
}

// MustCompile is regexp.MustCompile, which panics at the first use. The test of this package compiles all of them.
func MustCompile(source string) *Regexp { return &Regexp{source: source} }

func (r *Regexp) get() *regexp.Regexp {
	r.once.Do(func() {
		r.re = regexp.MustCompile(r.source)
		if tree, err := syntax.Parse(r.source, syntax.Perl); err == nil {
			r.literal = literal(tree)
		}
	})
	return r.re
}

// in reports whether there may be a match in a text. Whole source files are asked for what is in few of them, and looking for a
// word is faster than for a pattern by two orders of magnitude.
func (r *Regexp) in(s string) bool {
	r.get()
	return strings.Contains(s, r.literal)
}

func (r *Regexp) inBytes(b []byte) bool {
	r.get()
	return r.literal == "" || bytes.Contains(b, []byte(r.literal))
}

// literal is the longest text that stands in everything a pattern matches, "" for none.
func literal(re *syntax.Regexp) (longest string) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return string(re.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literal(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literal(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if s := literal(sub); len(s) > len(longest) {
				longest = s
			}
		}
	}
	return longest
}

// String is the source.
func (r *Regexp) String() string { return r.source }

func (r *Regexp) Match(b []byte) bool       { return r.inBytes(b) && r.re.Match(b) }
func (r *Regexp) MatchString(s string) bool { return r.in(s) && r.re.MatchString(s) }

func (r *Regexp) FindString(s string) (found string) {
	if r.in(s) {
		found = r.re.FindString(s)
	}
	return found
}

func (r *Regexp) FindIndex(b []byte) (found []int) {
	if r.inBytes(b) {
		found = r.re.FindIndex(b)
	}
	return found
}

func (r *Regexp) FindStringIndex(s string) (found []int) {
	if r.in(s) {
		found = r.re.FindStringIndex(s)
	}
	return found
}

func (r *Regexp) FindSubmatch(b []byte) (found [][]byte) {
	if r.inBytes(b) {
		found = r.re.FindSubmatch(b)
	}
	return found
}

func (r *Regexp) FindSubmatchIndex(b []byte) (found []int) {
	if r.inBytes(b) {
		found = r.re.FindSubmatchIndex(b)
	}
	return found
}

func (r *Regexp) FindStringSubmatch(s string) (found []string) {
	if r.in(s) {
		found = r.re.FindStringSubmatch(s)
	}
	return found
}

func (r *Regexp) FindStringSubmatchIndex(s string) (found []int) {
	if r.in(s) {
		found = r.re.FindStringSubmatchIndex(s)
	}
	return found
}

func (r *Regexp) FindAll(b []byte, n int) (found [][]byte) {
	if r.inBytes(b) {
		found = r.re.FindAll(b, n)
	}
	return found
}

func (r *Regexp) FindAllString(s string, n int) (found []string) {
	if r.in(s) {
		found = r.re.FindAllString(s, n)
	}
	return found
}

func (r *Regexp) FindAllStringIndex(s string, n int) (found [][]int) {
	if r.in(s) {
		found = r.re.FindAllStringIndex(s, n)
	}
	return found
}

func (r *Regexp) FindAllSubmatch(b []byte, n int) (found [][][]byte) {
	if r.inBytes(b) {
		found = r.re.FindAllSubmatch(b, n)
	}
	return found
}

func (r *Regexp) FindAllSubmatchIndex(b []byte, n int) (found [][]int) {
	if r.inBytes(b) {
		found = r.re.FindAllSubmatchIndex(b, n)
	}
	return found
}

func (r *Regexp) FindAllStringSubmatch(s string, n int) (found [][]string) {
	if r.in(s) {
		found = r.re.FindAllStringSubmatch(s, n)
	}
	return found
}

func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) (found [][]int) {
	if r.in(s) {
		found = r.re.FindAllStringSubmatchIndex(s, n)
	}
	return found
}

func (r *Regexp) ReplaceAll(b, with []byte) []byte       { return r.get().ReplaceAll(b, with) }
func (r *Regexp) ReplaceAllString(s, with string) string { return r.get().ReplaceAllString(s, with) }
func (r *Regexp) ReplaceAllStringFunc(s string, f func(string) string) string {
	return r.get().ReplaceAllStringFunc(s, f)
}
