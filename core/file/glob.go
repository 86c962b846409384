package file

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// mostEntries bounds the entries of folders that one search looks at, and mostHits what it finds. A training has a
	// few thousand states at most; a plugin's glob may match every folder of a disk.
	mostEntries = 200_000
	mostHits    = 20_000
	// searching bounds the time of one search, as on a slow disk.
	searching = 2 * time.Second
)

// A Search finds what globs match, as [filepath.Glob] does, in a bounded number of steps, which all of its globs share.
// It does not go round in circles: a pattern does not match a folder that it has come through.
type Search struct {
	// Link is called with each link that a folder of a glob matches. May be nil.
	Link func(path string)
	// Over: there was more than it may look at.
	Over bool

	left  int // entries that it may still look at
	until time.Time
	hits  []string
}

// NewSearch returns a search that may begin now.
func NewSearch() *Search { return &Search{left: mostEntries, until: time.Now().Add(searching)} }

// Glob returns what a glob matches: nothing if that is too much to look at.
func Glob(pattern string) []string { return NewSearch().Glob(pattern) }

// Glob returns what a glob matches. It is nothing once there was too much to look at.
func (s *Search) Glob(pattern string) []string {
	if _, err := filepath.Match(pattern, ""); err != nil || s.Over {
		return nil
	}
	s.hits = nil
	start := "/"
	if !filepath.IsAbs(pattern) {
		start = ""
	}
	s.below(start, parts(pattern), nil)
	if s.Over {
		return nil
	}
	return s.hits
}

func parts(pattern string) []string {
	return slices.DeleteFunc(strings.Split(filepath.Clean(pattern), "/"), func(p string) bool {
		return p == "" || p == "."
	})
}

// HasMeta reports whether a part of a pattern matches more than one name.
func HasMeta(part string) bool {
	for i := 0; i < len(part); i++ {
		switch part[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

// Plain is the name that a part of a pattern without such a sign matches.
func Plain(part string) string {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] == '\\' && i+1 < len(part) {
			i++
		}
		b.WriteByte(part[i])
	}
	return b.String()
}

var escaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// EscapeGlob is a pattern that matches a path alone.
func EscapeGlob(path string) string { return escaper.Replace(path) }

// An inode is by what a folder is known.
type inode struct{ dev, ino uint64 }

// below searches a folder. through are the folders on the way to it.
func (s *Search) below(dir string, rest []string, through []inode) {
	if len(rest) == 0 || !s.step() {
		return
	}
	var names []string
	if part := rest[0]; HasMeta(part) {
		names = s.matching(dir, part)
	} else {
		names = []string{Plain(part)}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil || !s.step() {
			continue
		}
		if len(rest) == 1 {
			if s.hits = append(s.hits, path); len(s.hits) > mostHits {
				s.Over = true
			}
			continue
		}
		if info.Mode()&os.ModeSymlink != 0 {
			if s.Link != nil {
				s.Link(path)
			}
			if info, err = os.Stat(path); err != nil {
				continue
			}
		}
		if !info.IsDir() {
			continue
		}
		var id inode
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			id = inode{uint64(st.Dev), st.Ino}
		}
		if HasMeta(rest[0]) && slices.Contains(through, id) {
			continue
		}
		s.below(path, rest[1:], append(slices.Clip(through), id))
	}
}

// step counts one look at the disk. It returns false when the search has to end.
func (s *Search) step() bool {
	if s.left--; s.left < 0 || s.left%256 == 0 && time.Now().After(s.until) {
		s.Over = true
	}
	return !s.Over
}

// matching returns the names in a folder that a pattern matches, in order.
func (s *Search) matching(dir, pattern string) (names []string) {
	dir = cmp.Or(dir, ".")
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	for !s.Over {
		some, err := f.Readdirnames(1024)
		for _, name := range some {
			if ok, _ := filepath.Match(pattern, name); ok && s.step() {
				names = append(names, name)
			}
		}
		if s.left -= len(some); s.left < 0 || time.Now().After(s.until) {
			s.Over = true
		}
		if err != nil || len(some) == 0 {
			break
		}
	}
	slices.Sort(names)
	return names
}
