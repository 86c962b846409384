package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
)

// Bounds on data. A folder beyond the first is not compared; beyond the second its entries are joined by folder.
const (
	mostListed  = 200_000
	mostEntries = 400
	smallFile   = 1 << 20 // a file up to this size counts by its content
	smallTree   = 4 << 20 // all files of a folder up to this size count by their content
)

// A Tree is a file or a folder of data, as it was at one time.
type Tree struct {
	Name  string  `json:"name,omitempty"` // of the setting that names it
	Path  string  `json:"path"`
	Files int     `json:"files"`
	Bytes int64   `json:"bytes"`
	Parts []Entry `json:"parts"`
	// Declared: the job's plugin says that it is data. Any other folder that changes while the run goes on is an output.
	Declared bool `json:"declared,omitempty"`
	// Code: the code names it and nobody has typed it. Files that are new there may well be of other programs.
	Code bool `json:"code,omitempty"`
	// Shape and Sample are what stays the same where the same data are laid there again: the names and sizes of all
	// files, and blocks of their content. Sample is "" where Parts have the content, and where it could not be read.
	Shape  string `json:"shape,omitempty"`
	Sample string `json:"sample,omitempty"`
	Oldest int64  `json:"oldest,omitempty"` // the time of the file that was written first, in Unix nanoseconds
	First  string `json:"first,omitempty"`  // which file the first one is: its inode, and when that was made
}

// An Entry is a file, or what lies below a folder of a large tree.
type Entry struct {
	Path string `json:"path"` // below that of the tree; "" for the tree itself
	// Mark is the same as long as nothing was written: a hash of the content of what is small, else of names, sizes and
	// times.
	Mark     string `json:"mark"`
	Modified int64  `json:"modified"` // the latest time of a file, in Unix nanoseconds
}

// output matches names of settings whose folders a program writes to: they are no data, unless they are declared.
var output = lazy.MustCompile(`(?i)(^|[-_.])(out|output|outputs|log|logs|logging|save|saves|saved|ckpts?|` +
	`checkpoints?|` +
	`cache|tmp|temp|work|runs?|exps?|experiments?|results?|wandb|mlruns|tensorboard|tb|summary|summaries)([-_.]|$)|` +
	`(^|[-_.])(out|log|save|exp|work|run|result|cache|summary)s?(dir|path|folder|root)$|` +
	`^((project|job)[-_])?(name|title|tag)$|^(project|version|group|suffix|id)$`)

// trackers are names of folders into which trackers write what they are told of all runs.
var trackers = []string{"wandb", "mlruns", "lightning_logs", "tensorboard", "tb_logger", "tb_logs"}

// written matches names of settings whose files a program writes. A checkpoint may be one that it starts from.
var written = lazy.MustCompile(`(?i)(^|[-_.])(out|output|outputs|log|logs|logging|save|saves|dump|metrics|history|` +
	`reports?|` +
	`predictions)([-_.]|$)|(^|[-_.])(out|log|save|metrics|history|report|dump)(file|path|json)$`)

// readData takes the listings of the files and folders that the command, its recipes and its variables name.
func (id *Identity) readData(s Subject) {
	seen := map[string]bool{}
	for _, f := range slices.Concat(id.Code, id.Recipes) {
		seen[s.absolute(f.Path)] = true
	}
	if s.Job != nil {
		for _, d := range s.Job.Data {
			id.tree(s, word{d.At.Path, d.Path}, true, seen)
		}
	}
	for _, w := range id.words(s) {
		id.tree(s, w, false, seen)
	}
	id.readConstants(s, seen)
	slices.SortFunc(id.Data, func(a, b Tree) int { return strings.Compare(a.Path, b.Path) })
}

// words are all words that may name data.
func (id *Identity) words(s Subject) (words []word) {
	args := s.Command.Args
	if prog, err := s.Command.Prog(); err == nil {
		args = append(slices.Clone(prog.Args), prog.Env...)
	}
	words = wordsOf(args)
	for _, r := range id.Recipes {
		if text, err := file.Read(s.absolute(r.Path), mostText); err == nil {
			words = append(words, wordsIn(string(text))...)
		}
	}
	return append(words, wordsOf(id.Env)...)
}

// mostPaths bounds how many paths one word may stand for.
const mostPaths = 100

// pathsOf are the paths that a word may stand for where it is none itself: those of a list, with the name of a format
// or of a protocol before each, and the folder of a pattern or of a range.
func pathsOf(value string) (paths []string) {
	if len(value) > 1<<16 || !strings.ContainsAny(value, "*?[{:;") {
		return nil
	}
	parts := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(";\n", r) })
	for _, part := range parts {
		for path := range strings.SplitSeq(part, "::") {
			if len(paths) >= mostPaths {
				return paths
			}
			path = strings.TrimPrefix(path, "file://")
			if i := strings.LastIndexAny(path, ": "); i >= 0 {
				path = path[i+1:]
			}
			if i := strings.IndexAny(path, "*?[{"); i >= 0 {
				path = filepath.Dir(path[:i] + "x")
			}
			if path != "" && path != "." && path != "/" && path != value {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// tree adds what a word names, once.
func (id *Identity) tree(s Subject, w word, declared bool, seen map[string]bool) {
	path := found(w.value, s.Command.Dir)
	if path == "" {
		for _, value := range pathsOf(w.value) {
			if path := found(value, s.Command.Dir); path != "" {
				id.tree(s, word{w.name, path}, declared, seen)
			}
		}
	}
	if path == "" || seen[path] || !s.isData(path, w.name, declared) {
		return
	}
	seen[path] = true
	t, ok := s.listed(path)
	if !ok {
		id.Unknown = append(id.Unknown, "data "+s.shown(path))
		return
	}
	t.Name, t.Path, t.Declared = w.name, s.shown(path), declared
	id.Data = append(id.Data, t)
	for _, dir := range s.listedIn(path, t) {
		id.tree(s, word{w.name, dir}, false, seen)
	}
}

// mostIn bounds how many folders one list may lead to.
const mostIn = 20

// listedIn are the folders of the files that a list names, one in a line: "wavs/a.wav|what is said".
func (s Subject) listedIn(path string, t Tree) (dirs []string) {
	if t.Files != 1 || t.Bytes > smallFile || !slices.Contains(lists, strings.ToLower(filepath.Ext(path))) {
		return nil
	}
	text, err := file.Read(path, smallFile)
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSpace(line)
		if end := strings.IndexAny(name, "|\t, "); end >= 0 {
			name = name[:end]
		}
		dir := filepath.Dir(name)
		if !strings.Contains(name, "/") || seen[dir] {
			continue
		}
		if seen[dir] = true; len(seen) > mostIn {
			break
		}
		if at := found(name, s.Command.Dir, filepath.Dir(path)); at != "" {
			dirs = append(dirs, filepath.Dir(at))
		}
	}
	return dirs
}

// lists are the endings of files that name other files, one in a line.
var lists = []string{".txt", ".lst", ".list", ".csv", ".tsv", ".scp"}

// isData reports whether a path may be data: no folder that holds the project, none that the run writes to, no device.
func (s Subject) isData(path, name string, declared bool) bool {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return false
	}
	if inside(path, s.Command.Dir) || path == "/" {
		return false
	}
	for _, top := range append([]string{"/dev", "/proc", "/sys"}, s.Apart...) {
		if inside(top, path) || inside(path, top) {
			return false
		}
	}
	if declared {
		return true
	}
	if !info.IsDir() {
		return !written.MatchString(name) && filepath.Ext(path) != ".log"
	}
	if _, err := os.Stat(filepath.Join(path, ".git")); err == nil { // a project
		return false
	}
	if home, err := os.UserHomeDir(); err == nil && inside(path, home) {
		return false
	}
	if s.Job != nil && s.Job.Exclusive != "" && (inside(s.Job.Exclusive, path) || inside(path, s.Job.Exclusive)) {
		return false
	}
	return !output.MatchString(name) && !slices.Contains(trackers, filepath.Base(path))
}

// inside reports whether a path is a folder or lies in it.
func inside(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// A found file of a tree.
type listedFile struct {
	path     string // below the tree
	size     int64
	modified int64 // in Unix nanoseconds
}

// listed lists a file or a folder. ok is false for a folder with too many files, or one that cannot be read.
func (s Subject) listed(path string) (t Tree, ok bool) {
	l := lister{visited: map[[2]uint64]bool{}, until: s.Deadline}
	if !l.list(path, "") {
		return t, false
	}
	t.Files = len(l.files)
	for _, f := range l.files {
		t.Bytes += f.size
	}
	for _, f := range l.files {
		mark := markOf(f.size, f.modified)
		if f.size <= smallFile && (t.Bytes <= smallTree || len(l.files) == 1) {
			if text, err := file.Read(filepath.Join(path, f.path), smallFile); err == nil {
				mark = digest(text)
			}
		}
		t.Parts = append(t.Parts, Entry{f.path, mark, f.modified})
	}
	s.sample(&t, path, l.files)
	for depth := 8; len(t.Parts) > mostEntries && depth >= 0; depth-- {
		t.Parts = joined(t.Parts, depth)
	}
	return t, true
}

// markOf stands for the content of a file that is not read.
func markOf(size, modified int64) string { return fmt.Sprintf("%d bytes of %d", size, modified) }

// A lister lists files, those behind links too, each folder once.
type lister struct {
	files   []listedFile
	entries int
	visited map[[2]uint64]bool
	until   time.Time // zero: no limit
}

func (l *lister) list(path, below string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return below != "" // a link that leads nowhere is no data
	}
	if l.entries++; l.entries > mostListed {
		return false
	}
	if info.Mode().IsRegular() {
		l.files = append(l.files, listedFile{below, info.Size(), info.ModTime().UnixNano()})
		return true
	}
	if !info.IsDir() || l.been(info) {
		return true
	}
	if !l.until.IsZero() && time.Now().After(l.until) {
		return false
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return below != ""
	}
	for _, e := range entries { // sorted
		at, name := filepath.Join(path, e.Name()), filepath.Join(below, e.Name())
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			if e.Name() == "__pycache__" || e.Name() == ".git" || source(name) {
				continue
			}
			if !l.list(at, name) {
				return false
			}
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && !source(name) {
			l.files = append(l.files, listedFile{name, info.Size(), info.ModTime().UnixNano()})
		}
		if l.entries++; l.entries > mostListed {
			return false
		}
	}
	return true
}

// source reports whether a file in a folder of data is none of the data: code, which is compared as code, what file
// browsers, editors and file systems leave, and caches that loaders make of the data.
func source(name string) bool {
	base := filepath.Base(name)
	switch base {
	case ".DS_Store", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints", ".cache", ".directory", "lost+found",
		"lock.mdb": // LMDB's table of readers
		return true
	}
	if strings.HasPrefix(base, "cache-") && strings.HasSuffix(base, ".arrow") {
		return true
	}
	for _, start := range []string{"._", ".nfs", ".#", ".~lock"} {
		if strings.HasPrefix(base, start) {
			return true
		}
	}
	return slices.Contains([]string{".py", ".pyc", ".swp", ".lock", ".cache"}, filepath.Ext(base)) ||
		strings.HasSuffix(base, "~")
}

// been reports whether a folder was listed before, and notes it.
func (l *lister) been(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	key := [2]uint64{uint64(st.Dev), st.Ino}
	was := l.visited[key]
	l.visited[key] = true
	return was
}

// joined joins the entries of each folder of a depth.
func joined(parts []Entry, depth int) (out []Entry) {
	at := map[string]int{}
	sums := map[string][]string{}
	for _, p := range parts {
		names := strings.Split(p.Path, string(filepath.Separator))
		key := strings.Join(names[:min(depth, len(names)-1)], string(filepath.Separator))
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, Entry{Path: key})
		}
		sums[key] = append(sums[key], p.Path, p.Mark)
		out[i].Modified = max(out[i].Modified, p.Modified)
	}
	for i := range out {
		sum := sha256.New()
		for _, s := range sums[out[i].Path] {
			fmt.Fprintf(sum, "%d %s", len(s), s)
		}
		out[i].Mark = hex.EncodeToString(sum.Sum(nil)[:16])
	}
	return out
}

// Again lists the same data once more, and recipes that are new: what the run has written by now is then known.
func (id *Identity) Again(s Subject) (trees []Tree) {
	trees = id.newRecipes(s)
	for _, was := range id.Data {
		t, ok := s.listed(s.absolute(was.Path))
		if ok {
			t.Name, t.Path, t.Declared, t.Code = was.Name, was.Path, was.Declared, was.Code
			trees = append(trees, t)
		}
	}
	return trees
}
