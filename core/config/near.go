package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Near returns which of some names a mistyped one may mean, or "". Upper and lower case are the same, and so are "_"
// and "-". At most two letters differ; in a short name one, since two of four make another word.
func Near(name string, names []string) (near string) {
	same := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }
	name = same(name)
	best := 3
	for _, n := range names {
		if d := levenshtein.ComputeDistance(name, same(n)); d < best && (d < 2 || len(n) > 4 || exchanged(name, same(n))) {
			best, near = d, n
		}
	}
	return near
}

// exchanged reports whether two names have the same letters.
func exchanged(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values([]byte(a))), slices.Sorted(slices.Values([]byte(b))))
}

// mostNames bounds how many files of a folder [NearFile] looks at.
const mostNames = 2000

// NearFile returns the path of the file that a mistyped path may mean, or "": one in the same folder, or in a folder of
// almost that name.
func NearFile(path string) string {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = NearFile(dir)
		if _, err := os.Stat(filepath.Join(dir, name)); dir != "" && err == nil {
			return filepath.Join(dir, name)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		return ""
	}
	defer f.Close()
	names, _ := f.Readdirnames(mostNames)
	if near := Near(name, names); near != "" {
		return filepath.Join(dir, near)
	}
	return ""
}

// Meant is " (did you mean NAME?)", or nothing where there is no name.
func Meant(near string) string {
	if near == "" {
		return ""
	}
	return " (did you mean " + near + "?)"
}
