package tokens

import (
	"unicode"
	"unicode/utf8"
)

// A splitter is a pre-tokenizer by its regular expression. RE2 has none of them: they look ahead.
type splitter struct {
	regex string
	// blunt is GPT-2's: contractions of small letters, runs of digits, and a space alone in front of letters.
	blunt  bool
	digits int // of a piece; 0 for all
}

var splitters = []splitter{
	{regex: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, blunt: true},
	{regex: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|` +
		`\s+(?!\S)|\s+`, digits: 1}, // Qwen 2 and 3
	{regex: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|` +
		`\s+(?!\S)|\s+`, digits: 3}, // Llama 3
}

// pieces splits a text as the regular expression does: each of its alternatives in their order.
func (s *splitter) pieces(text string) (out []string) {
	for len(text) > 0 {
		n := s.next(text)
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

func letter(r rune) bool  { return unicode.Is(unicode.L, r) }
func number(r rune) bool  { return unicode.Is(unicode.N, r) }
func space(r rune) bool   { return unicode.IsSpace(r) }
func newline(r rune) bool { return r == '\r' || r == '\n' }
func other(r rune) bool   { return !space(r) && !letter(r) && !number(r) }

// run is how many bytes from a place on have characters of a class, of at most so many characters; 0 for all.
func run(text string, from int, is func(rune) bool, most int) int {
	n := 0
	for i, r := range text[from:] {
		if !is(r) || most > 0 && n == most {
			return i
		}
		n++
	}
	return len(text) - from
}

// next is the length of the first piece.
func (s *splitter) next(text string) int {
	if n := contraction(text, !s.blunt); n > 0 {
		return n
	}
	first, width := utf8.DecodeRuneInString(text)
	if s.blunt {
		lead := 0
		if first == ' ' {
			lead = 1
		}
		for _, class := range []func(rune) bool{letter, number, other} {
			if n := run(text, lead, class, 0); n > 0 {
				return lead + n
			}
		}
		return blank(text)
	}
	if n := run(text, 0, letter, 0); n > 0 {
		return n
	}
	if !newline(first) && !number(first) {
		if n := run(text, width, letter, 0); n > 0 {
			return width + n
		}
	}
	if n := run(text, 0, number, s.digits); n > 0 {
		return n
	}
	lead := 0
	if first == ' ' {
		lead = 1
	}
	if n := run(text, lead, other, 0); n > 0 {
		n += lead
		return n + run(text, n, newline, 0)
	}
	return blank2(text)
}

// contraction is the length of an English one, such as 're.
func contraction(text string, fold bool) int {
	if text[0] != '\'' || len(text) < 2 {
		return 0
	}
	low := func(b byte) byte {
		if fold && b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		return b
	}
	switch low(text[1]) {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) > 2 {
		switch string([]byte{low(text[1]), low(text[2])}) {
		case "re", "ve", "ll":
			return 3
		}
	}
	return 0
}

// blank is \s+(?!\S)|\s+: white space, without its last character where something follows.
func blank(text string) int {
	n := run(text, 0, space, 0)
	if n == len(text) {
		return n
	}
	if _, last := utf8.DecodeLastRuneInString(text[:n]); last < n {
		return n - last
	}
	return n
}

// blank2 is \s*[\r\n]+|\s+(?!\S)|\s+: white space to its last line break, and otherwise as in blank.
func blank2(text string) int {
	n := run(text, 0, space, 0)
	for i := n - 1; i >= 0; i-- {
		if newline(rune(text[i])) {
			return i + 1
		}
	}
	return blank(text)
}
