package states

import (
	"bytes"
	"io"
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
)

// longestOutput bounds how much output is searched for the path of a state, in bytes. It is more than launch keeps.
const longestOutput = 64 << 20

// A Claim is what a program printed about a state at a path.
type Claim int

const (
	Unsaid Claim = iota
	Saving       // it writes, or wrote, a state there
	Saved        // it has written it: the line is in the past tense and matches a sign of a saved state
)

// Printed returns a function that reports what a program, started in dir, printed about a state at a path. output opens
// the program's output; the function reads it at its first call. A line about loading proves nothing.
func Printed(output func() (io.ReadCloser, error), dir string, signs job.Signs) func(path string) Claim {
	read := sync.OnceValue(func() []byte { return textOf(output) })
	saved := signsOf(signs)
	return func(path string) (most Claim) {
		for _, name := range namesOf(path, dir) {
			for line := range saying(read(), []byte(name)) {
				most = max(most, Saving)
				if done.Match(line) && slices.ContainsFunc(saved, func(p *regexp.Regexp) bool { return of(p, line, name) }) {
					return Saved
				}
			}
		}
		return most
	}
}

// Told returns a function that reports where in its output a program last printed that it saves a state at a path: a
// later state has a larger number. 0: it did not.
func Told(output func() (io.ReadCloser, error), dir string, signs job.Signs) func(path string) int64 {
	read := sync.OnceValue(func() []byte { return textOf(output) })
	saved := signsOf(signs)
	return func(path string) (at int64) {
		text := read()
		for _, name := range namesOf(path, dir) {
			for line := range saying(text, []byte(name)) {
				if len(saved) == 0 || slices.ContainsFunc(saved, func(p *regexp.Regexp) bool { return of(p, line, name) }) {
					at = max(at, int64(len(text)-cap(line))+1) // where the line begins
				}
			}
		}
		return at
	}
}

// textOf reads a program's output.
func textOf(output func() (io.ReadCloser, error)) []byte {
	f, err := output()
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, longestOutput))
	return slices.Clip(text)
}

// signsOf are the patterns of lines about a saved state.
func signsOf(signs job.Signs) (saved []*regexp.Regexp) {
	for _, sign := range signs.Lines {
		if pattern, err := regexp.Compile(sign.Pattern); err == nil && sign.Kind == job.SavedState {
			saved = append(saved, pattern)
		}
	}
	return saved
}

// namesOf are the names by which a program may print a path.
func namesOf(path, dir string) []string {
	names := []string{path}
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) && strings.Contains(rel, "/") {
		names = append(names, rel) // a bare name may be any run's
	}
	return names
}

// Elsewhere returns the last path that a program printed as that of a saved state and that no glob matches, although
// its last part has the form of one's: the states lie deeper, or less deep, than the globs say. "" if there is none.
// Copies of the best or averaged weights do not count.
func Elsewhere(output func() (io.ReadCloser, error), dir string, signs job.Signs) (path string) {
	text, until := textOf(output), time.Now().Add(longestSearch)
	for _, pattern := range signsOf(signs) {
		at := pattern.SubexpIndex("path")
		if at < 0 {
			continue
		}
		for line := range bytes.Lines(text) {
			for part := range bytes.SplitSeq(bytes.TrimRight(line, "\r\n"), []byte("\r")) {
				if len(part) > longestLine || time.Now().After(until) {
					continue
				}
				m := pattern.FindSubmatch(part)
				if m == nil || len(m[at]) == 0 || loads.Match(bytes.ReplaceAll(part, m[at], nil)) {
					continue
				}
				if p := absolute(dir, string(bytes.TrimRight(m[at], "/."))); deeper(signs.States, dir, p) {
					path = p
				}
			}
		}
	}
	return path
}

const (
	// longestLine bounds the lines in which a path is looked for, in bytes.
	longestLine = 4 << 10
	// longestSearch bounds the time of that search: a pattern is a project's, and may be slow on every line.
	longestSearch = time.Second
)

// deeper reports whether a path has the form of a state, but lies where no glob finds it.
func deeper(globs []string, dir, path string) bool {
	like := false
	for _, g := range globs {
		if g = absolute(dir, strings.TrimSuffix(g, "/")); matches(g, path) {
			return false
		}
		ok, err := filepath.Match(filepath.Base(g), filepath.Base(path))
		like = like || ok && err == nil && !chosen.MatchString(filepath.Base(path))
	}
	return like
}

func absolute(dir, path string) string { return filepath.Clean(file.In(dir, path)) }

// done matches a word of a line that is printed after the write. Programs print "Saving …" before it.
var done = lazy.MustCompile(`(?i)\b(saved|wrote|written|stored|dumped|exported)\b`)

// of reports whether a pattern matches a line and its group "path" is this name.
func of(pattern *regexp.Regexp, line []byte, name string) bool {
	at := pattern.SubexpIndex("path")
	m := pattern.FindSubmatch(line)
	return at > 0 && m != nil && filepath.Clean(string(m[at])) == name
}

// loads matches words of a line about loading a state.
var loads = lazy.MustCompile(`(?i)\b(load|resum|restor|found|init|import|warm|reading|from|teacher|pretrain)`)

// saying yields the lines of text that name a file, as a whole word, and are not about loading it.
func saying(text, name []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for at := 0; ; {
			i := bytes.Index(text[at:], name)
			if i < 0 {
				return
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
			if !loads.Match(words) && (saves.Match(words) || !value.Match(before)) && !yield(line) {
				return
			}
		}
	}
}

// value matches the text before a path in printed settings: Namespace(ema='a.pt'), {'ema': 'a.pt'}. saves matches words
// of a line that reports a save.
var (
	value = lazy.MustCompile(`\w=['"]?$|['"]: ?['"]$`)
	saves = lazy.MustCompile(`(?i)sav|writ|wrote|stor|dump|export`)
)

func partOfName(c byte) bool {
	return c == '/' || c == '.' || c == '-' || c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// endOfSentence reports whether text begins with a full stop that ends a name, or with the slash of a folder.
func endOfSentence(text []byte) bool {
	return (text[0] == '.' || text[0] == '/') && (len(text) == 1 || !partOfName(text[1]))
}
