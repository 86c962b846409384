package oom

import (
	"regexp/syntax"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// A pattern is a regular expression that is compiled when it is first used: most programs never fail.
type pattern = lazy.Regexp

func rx(source string) *pattern { return lazy.MustCompile(source) }

// A prefilter says which of many patterns may match a text, for about the price of reading it once: of each it knows words
// of which every match holds one. (The idea is Russ Cox's, "Regular Expression Matching with a Trigram Index", 2012.)
type prefilter struct {
	words  *literals
	always uint64 // patterns of which nothing is known
}

// newPrefilter returns that of the patterns; those that are 64 apart share a mark.
func newPrefilter(patterns []*pattern) *prefilter {
	f, words := &prefilter{}, map[string]uint64{}
	for i, p := range patterns {
		mark := uint64(1) << (i % 64)
		re, err := syntax.Parse(p.String(), syntax.Perl)
		var need []string
		if err == nil {
			need = oneOf(re.Simplify())
		}
		if len(need) == 0 {
			f.always |= mark
		}
		for _, w := range need {
			words[w] |= mark
		}
	}
	f.words = newLiterals(words)
	return f
}

// may returns the marks of the patterns that may match.
func (f *prefilter) may(text string) uint64 { return f.always | f.words.scan([]byte(text)) }

// oneOf returns words in lower case of which every match of re holds at least one; none if that is not known, or a word
// would be too short to tell much.
func oneOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if r > 0x7e {
				return nil
			}
		}
		if len(re.Rune) < 3 {
			return nil
		}
		if re.Flags&syntax.FoldCase != 0 {
			return folded(re.Rune)
		}
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return oneOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return oneOf(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			words := oneOf(sub)
			if len(words) == 0 {
				return nil
			}
			all = append(all, words...)
		}
		return all
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if words := oneOf(sub); len(words) > 0 && (best == nil || shortest(words) > shortest(best)) {
				best = words
			}
		}
		return best
	}
	return nil
}

// folded returns the longest part of a word in which folding is ASCII's own: k and s have a third form each.
func folded(word []rune) []string {
	best := ""
	for _, part := range strings.FieldsFunc(strings.ToLower(string(word)), func(r rune) bool { return r == 'k' || r == 's' }) {
		if len(part) > len(best) {
			best = part
		}
	}
	if len(best) < 3 {
		return nil
	}
	return []string{best}
}

func shortest(words []string) int {
	n := len(words[0])
	for _, w := range words {
		n = min(n, len(w))
	}
	return n
}
