package python

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/file"
)

// Roots are the folders outside the installed packages in which the environment looks for modules, in Python's order:
// first, which is the script's folder, those of PYTHONPATH, and those of packages that are installed for development.
func (e Environment) Roots(first string) (roots []string) {
	for i, dir := range e.roots(first) {
		dir = filepath.Clean(dir)
		own := i == 0 && !slices.Contains(e.folders, dir) // whatever was installed beside the script
		if (own || !e.holds(dir)) && !slices.Contains(roots, dir) {
			roots = append(roots, dir)
		}
	}
	return roots
}

// holds reports whether a folder holds installed packages, of this environment or of another that lends it its own: by
// PYTHONPATH, as modules of a cluster do, or by a .pth file.
func (e Environment) holds(dir string) bool { return slices.Contains(e.folders, dir) || installed(dir) }

// Packages lists the installed distributions with their versions, sorted: "torch 2.1.0". It is nil where the folders of
// packages are not known. Source: the names of the folders that the core metadata specification prescribes.
func (e Environment) Packages() (out []string) {
	shelves := slices.Clone(e.folders)
	if len(shelves) > 0 {
		for _, dir := range e.roots("")[1:] { // without that of the script
			if dir = filepath.Clean(dir); e.holds(dir) && !slices.Contains(shelves, dir) {
				shelves = append(shelves, dir)
			}
		}
	}
	for _, dir := range shelves {
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
			out = append(out, distribution+" "+version+built(filepath.Join(dir, entry.Name())))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// built tells builds of one version apart that were installed from a folder, a file or a repository: by the hashes of
// their files. It is "" for what came from an index. Source: the specification of direct_url.json and of RECORD.
func built(info string) string {
	if _, err := os.Stat(filepath.Join(info, "direct_url.json")); err != nil {
		return ""
	}
	text, err := file.Read(filepath.Join(info, "RECORD"), 4<<20)
	if err != nil {
		return ""
	}
	var files []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "sha256=") && !strings.Contains(line, ".dist-info/") {
			files = append(files, strings.TrimSpace(line))
		}
	}
	slices.Sort(files)
	return fmt.Sprintf(" (%.4x)", sha256.Sum256([]byte(strings.Join(files, "\n"))))
}

// Needs lists what a distribution requires without extras, by normal names, and the modules that it brings as far as it
// tells. known is false where its metadata are not there. Source: the core metadata specification.
func (e Environment) Needs(distribution string) (requires, modules []string, known bool) {
	name := strings.ReplaceAll(distribution, "-", "_")
	modules = []string{name, strings.ToLower(name)}
	for _, hit := range e.found(name + "-*.dist-info") {
		text, err := file.Read(filepath.Join(hit, "METADATA"), 1<<20)
		if err != nil {
			continue
		}
		known = true
		for line := range strings.Lines(string(text)) {
			rest, ok := strings.CutPrefix(line, "Requires-Dist: ")
			if ok && !strings.Contains(rest, "extra ==") {
				end := strings.IndexAny(rest, " (=<>!~;[\r\n")
				requires = append(requires, Normal(rest[:max(0, end)]))
			}
		}
		if text, err := file.Read(filepath.Join(hit, "top_level.txt"), 1<<16); err == nil {
			modules = append(modules, strings.Fields(string(text))...)
		}
	}
	return requires, modules, known
}

// Normal is the name of a distribution as all its spellings share it.
func Normal(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name))
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

// Older compares the numbers at the beginning of two versions: "5.1.0" is older than "5.2", and so is "5.2.0.dev0" not.
func Older(version, than string) bool {
	return slices.Compare(numbersOf(version), numbersOf(than)) < 0
}

func numbersOf(version string) (numbers []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		numbers = append(numbers, n)
	}
	return numbers
}
