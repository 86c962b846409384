// Package lazy has regular expressions that are compiled when they are first used. A run uses a few of the hundreds
// there are. Compiling all of them was 3.8 of the 8.6 ms of CPU time that "launch version" took (2 cores, 2026-11-22),
// paid again by its plugin's process.
package lazy

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// A Regexp is a [regexp.Regexp] that is compiled when it is first used. It may be used from several goroutines.
type Regexp struct {
	source  string
	compile sync.Once
	re      *regexp.Regexp
	parse   sync.Once // to be parsed is a fourth of the work, and often enough
	literal string    // stands in every match
	oneOf   []string  // if there is no such text: one of these does; nil: it is not known

	named sync.Mutex
	names map[string]bool // the answers of MatchName
}

// MustCompile is regexp.MustCompile, which panics at the first use. The test of this package compiles all of them.
func MustCompile(source string) *Regexp { return &Regexp{source: source} }

func (r *Regexp) get() *regexp.Regexp {
	r.compile.Do(func() { r.re = regexp.MustCompile(r.source) })
	return r.re
}

func (r *Regexp) texts() {
	r.parse.Do(func() {
		if tree, err := syntax.Parse(r.source, syntax.Perl); err == nil {
			if r.literal = literal(tree, false); r.literal == "" {
				r.oneOf = oneOf(tree)
			}
		}
	})
}

// may reports whether s has what every match contains, and may match. Most searches are of whole source files without
// a match, and a literal is found two orders of magnitude faster than a pattern.
func (r *Regexp) may(s string) bool {
	r.texts()
	return strings.Contains(s, r.literal) &&
		(len(r.oneOf) == 0 || slices.ContainsFunc(r.oneOf, func(l string) bool { return strings.Contains(s, l) }))
}

// in returns s, or "" if s cannot match, so that the regexp has nothing to search.
func (r *Regexp) in(s string) string {
	if r.may(s) {
		return s
	}
	return ""
}

func (r *Regexp) inBytes(b []byte) []byte {
	if r.texts(); r.literal == "" || bytes.Contains(b, []byte(r.literal)) {
		return b
	}
	return nil
}

// mostLiterals bounds the texts that are searched for in place of a pattern.
const mostLiterals = 16

// oneOf returns texts of which every match holds at least one, nil where that is not known.
func oneOf(re *syntax.Regexp) []string {
	if l := literal(re, false); len(l) > 2 {
		return []string{l}
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return oneOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return oneOf(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			texts := oneOf(sub)
			if all = append(all, texts...); len(texts) == 0 || len(all) > mostLiterals {
				return nil
			}
		}
		return all
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if texts := oneOf(sub); texts != nil {
				return texts
			}
		}
	}
	return nil
}

// Literal is the longest text of ASCII, in lower case, that stands in everything a pattern matches, in whatever case;
// "" for none.
func Literal(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	return literal(re.Simplify(), true)
}

// literal is the longest text that stands in everything a pattern matches, "" for none. Folded, it is as for Literal.
func literal(re *syntax.Regexp, folded bool) (longest string) {
	switch re.Op {
	case syntax.OpLiteral:
		switch {
		case folded && slices.Max(re.Rune) > 0x7e:
		case folded:
			return strings.ToLower(string(re.Rune))
		case re.Flags&syntax.FoldCase == 0:
			return string(re.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literal(re.Sub[0], folded)
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literal(re.Sub[0], folded)
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if s := literal(sub, folded); len(s) > len(longest) {
				longest = s
			}
		}
	}
	return longest
}

// String is the source.
func (r *Regexp) String() string { return r.source }

func (r *Regexp) Match(b []byte) bool       { return r.get().Match(r.inBytes(b)) }
func (r *Regexp) MatchString(s string) bool { return r.may(s) && r.get().MatchString(s) }

// mostNames bounds the answers that MatchName keeps.
const mostNames = 1 << 14

// MatchName is MatchString for the names in a program. They recur, so it keeps its answers.
func (r *Regexp) MatchName(s string) bool {
	r.named.Lock()
	defer r.named.Unlock()
	found, known := r.names[s]
	if !known {
		if found = r.MatchString(s); r.names == nil || len(r.names) == mostNames {
			r.names = map[string]bool{}
		}
		r.names[strings.Clone(s)] = found // s may be a part of a whole file
	}
	return found
}

func (r *Regexp) FindString(s string) string           { return r.get().FindString(r.in(s)) }
func (r *Regexp) FindIndex(b []byte) []int             { return r.get().FindIndex(r.inBytes(b)) }
func (r *Regexp) FindStringIndex(s string) []int       { return r.get().FindStringIndex(r.in(s)) }
func (r *Regexp) FindSubmatch(b []byte) [][]byte       { return r.get().FindSubmatch(r.inBytes(b)) }
func (r *Regexp) FindSubmatchIndex(b []byte) []int     { return r.get().FindSubmatchIndex(r.inBytes(b)) }
func (r *Regexp) SubexpNames() []string                { return r.get().SubexpNames() }
func (r *Regexp) FindStringSubmatch(s string) []string { return r.get().FindStringSubmatch(r.in(s)) }
func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.get().FindStringSubmatchIndex(r.in(s))
}
func (r *Regexp) FindAll(b []byte, n int) [][]byte       { return r.get().FindAll(r.inBytes(b), n) }
func (r *Regexp) FindAllString(s string, n int) []string { return r.get().FindAllString(r.in(s), n) }
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.get().FindAllStringIndex(r.in(s), n)
}
func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte {
	return r.get().FindAllSubmatch(r.inBytes(b), n)
}
func (r *Regexp) FindAllSubmatchIndex(b []byte, n int) [][]int {
	return r.get().FindAllSubmatchIndex(r.inBytes(b), n)
}
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.get().FindAllStringSubmatch(r.in(s), n)
}
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.get().FindAllStringSubmatchIndex(r.in(s), n)
}

func (r *Regexp) ReplaceAll(b, with []byte) []byte { return r.get().ReplaceAll(b, with) }

func (r *Regexp) ReplaceAllString(s, with string) string {
	if !r.may(s) {
		return s
	}
	return r.get().ReplaceAllString(s, with)
}

func (r *Regexp) ReplaceAllStringFunc(s string, f func(string) string) string {
	if !r.may(s) {
		return s
	}
	return r.get().ReplaceAllStringFunc(s, f)
}
