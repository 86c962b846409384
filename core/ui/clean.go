package ui

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// All text that launch prints for a person passes [Clean]. Names, errors and lines come from plugins, files and programs, and a
// terminal would obey escape sequences in them. Until then launch's own colours are marks: noncharacters of Unicode.

// marks are launch's own colours.
// They are of the terminal's own palette, which its user has chosen for a light or a dark background.
var marks = map[rune]string{markEnd: "0", markBold: "1", markRed: "31", markGreen: "32", markYellow: "33",
	markBlue: "34", markMagenta: "35", markCyan: "36", markPlain: "39"}

const (
	markEnd rune = 0xFDD0 + iota
	markBold
	markRed
	markGreen
	markYellow
	markBlue
	markMagenta
	markCyan
	markPlain
)

// indent begins the second and later lines of one text, so that a line break in a name cannot imitate a line of launch.
const indent = "    "

// Clean removes from a text what a terminal would obey: escape sequences, control characters but tabs and line breaks,
// and characters that change the direction in which it is read. Bytes that are not UTF-8 become U+FFFD.
func Clean(s string) string { return clean(s, false) }

// OneLine is [Clean] of a name or a value, which has no line breaks either.
func OneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(Clean(s))
}

func clean(s string, painted bool) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		code, mark := marks[r]
		switch {
		case r == 0x1b:
			n = sequence(s[i:])
		case mark:
			if painted {
				b.WriteString("\x1b[" + code + "m")
			}
		case r == 0x2028 || r == 0x2029:
			b.WriteByte(' ')
		case !obeyed(r):
			b.WriteRune(r) // U+FFFD for a byte that is not UTF-8
		}
		i += n
	}
	return b.String()
}

// plain reports whether a text is printable ASCII, as almost all are.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 0x20 || c > 0x7e) && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// obeyed reports whether a terminal acts on a character instead of showing it: C0, DEL and C1, the marks of direction (Unicode
// Standard Annex 9), the byte order mark, and noncharacters.
func obeyed(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f ||
		r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
		r == 0xfeff || r >= 0xfdd0 && r <= 0xfdef
}

// sequence returns the length of the control sequence (ECMA-48, ESC [ … final) at the beginning of s, or 1. Of other sequences only
// the escape character is removed, so that an unterminated one cannot hide the text after it.
func sequence(s string) int {
	if len(s) < 2 || s[1] != '[' {
		return 1
	}
	for i := 2; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 0x40 && c <= 0x7e:
			return i + 1
		case c < 0x20 || c > 0x3f:
			return i
		}
	}
	return len(s)
}

// CleanJSON escapes the characters of a JSON document that a terminal would obey and encoding/json does not escape. They occur in
// strings only.
func CleanJSON(doc []byte) []byte {
	if plain(string(doc)) {
		return doc
	}
	var b strings.Builder
	for _, r := range string(doc) {
		if obeyed(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return []byte(b.String())
}
