package python

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Roots are the folders outside the installed packages in which the environment looks for modules, in Python's order:
// first, which is the script's folder, those of PYTHONPATH, and those of packages that are installed for development.
func (e Environment) Roots(first string) (roots []string) {
	for _, dir := range e.roots(first) {
		if dir = filepath.Clean(dir); !slices.Contains(e.folders, dir) && !slices.Contains(roots, dir) {
			roots = append(roots, dir)
		}
	}
	return roots
}

// Packages lists the installed distributions with their versions, sorted: "torch 2.1.0". It is nil where the folders of
// packages are not known. Source: the names of the folders that the core metadata specification prescribes.
func (e Environment) Packages() (out []string) {
	for _, dir := range e.folders {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			name, _, found := cutSuffixes(entry.Name(), ".dist-info", ".egg-info")
			distribution, version, versioned := strings.Cut(name, "-")
			if !found || !versioned {
				continue
			}
			version, _, _ = strings.Cut(version, "-py3") // of an egg: NAME-VERSION-py3.11
			out = append(out, distribution+" "+version)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// cutSuffixes cuts the first of the suffixes that the text has.
func cutSuffixes(text string, suffixes ...string) (before, suffix string, found bool) {
	for _, s := range suffixes {
		if before, found = strings.CutSuffix(text, s); found {
			return before, s, true
		}
	}
	return text, "", false
}
