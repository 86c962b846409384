package states

import (
	"bytes"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// longestOutput bounds how much output is searched for the path of a state, in bytes. It is more than launch keeps.
const longestOutput = 64 << 20

// Printed returns a function that reports whether a program, started in dir, printed that it wrote a state at a path.
// output opens the program's output; the function reads it at its first call. A line about loading proves nothing.
func Printed(output func() (io.ReadCloser, error), dir string) func(path string) bool {
	read := sync.OnceValue(func() []byte {
		f, err := output()
		if err != nil {
			return nil
		}
		defer f.Close()
		text, _ := io.ReadAll(io.LimitReader(f, longestOutput))
		return text
	})
	return func(path string) bool {
		names := []string{path}
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) && strings.Contains(rel, "/") {
			names = append(names, rel) // a bare name may be any run's
		}
		for _, name := range names {
			if saidOf(read(), []byte(name)) {
				return true
			}
		}
		return false
	}
}

// loads matches words of a line about loading a state.
var loads = regexp.MustCompile(`(?i)\b(load|resum|restor|found|init|import|warm|reading|from|teacher|pretrain)`)

// saidOf reports whether a line of text names a file, as a whole word, and is not about loading it.
func saidOf(text, name []byte) bool {
	for at := 0; ; {
		i := bytes.Index(text[at:], name)
		if i < 0 {
			return false
		}
		begin := at + i
		end := begin + len(name)
		at = end
		line := text[bytes.LastIndexAny(text[:begin], "\r\n")+1:]
		if stop := bytes.IndexAny(line, "\r\n"); stop >= 0 {
			line = line[:stop]
		}
		before := bytes.TrimSuffix(text[:begin], []byte("./"))
		if len(before) > 0 && partOfName(before[len(before)-1]) || end < len(text) && partOfName(text[end]) && !endOfSentence(text[end:]) {
			continue
		}
		words := bytes.ReplaceAll(line, name, nil) // the words of the path do not count
		if !loads.Match(words) && (saves.Match(words) || !value.Match(before)) {
			return true
		}
	}
}

// value matches the text before a path in printed settings: Namespace(ema='a.pt'), {'ema': 'a.pt'}. saves matches words
// of a line that reports a save.
var (
	value = regexp.MustCompile(`\w=['"]?$|['"]: ?['"]$`)
	saves = regexp.MustCompile(`(?i)sav|writ|wrote|stor|dump|export`)
)

func partOfName(c byte) bool {
	return c == '/' || c == '.' || c == '-' || c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// endOfSentence reports whether text begins with a full stop that ends a name, or with the slash of a folder.
func endOfSentence(text []byte) bool {
	return (text[0] == '.' || text[0] == '/') && (len(text) == 1 || !partOfName(text[1]))
}
