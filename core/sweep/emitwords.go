package sweep

import (
	"fmt"
	"net/url"
	"strings"
)

// The words of a line that a shell or xargs would change are written as in an address: "a b" is a%20b. A percent sign
// alone is an empty word.

const harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,@+=-"

// plain reports whether every shell, xargs and parallel leave a word as it is.
func plain(word string) bool {
	return word != "" && word[0] != '=' && strings.Trim(word, harmless) == "" && !strings.ContainsFunc(word,
		func(r rune) bool { return !strings.ContainsRune(harmless, r) })
}

// encode writes a word in letters that nothing changes.
func encode(word string) string {
	if word == "" {
		return "%"
	}
	var out strings.Builder
	for i := range len(word) {
		if b := word[i]; strings.IndexByte(harmless, b) < 0 || i == 0 && b == '=' {
			fmt.Fprintf(&out, "%%%02X", b)
		} else {
			out.WriteByte(b)
		}
	}
	return out.String()
}

// DecodeLine reads the words of an emitted line: variables as NAME=value, and launch's arguments after them.
func DecodeLine(words []string) (env, args []string, err error) {
	for _, w := range words {
		text := ""
		if w != "%" {
			if text, err = url.PathUnescape(w); err != nil {
				return nil, nil, fmt.Errorf("%q is no word of an emitted line: %w", w, err)
			}
		}
		if name, _, ok := strings.Cut(text, "="); ok && len(args) == 0 && name != "" && name[0] != '-' {
			env = append(env, text)
		} else {
			args = append(args, text)
		}
	}
	return env, args, nil
}
