package states

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
)

// [Roots] keep the paths of a plugin's answer within the folders of the command: its own folder, the script's,
// and those that the arguments or the recipe name.
//
// A plugin answers with paths: globs of saved states and logs, files to move aside, folders that a trial leaves. launch
// does not trust them. It resolves each once, before the first attempt, and follows only links that the user or root
// has made, such as "experiments -> /big"; the link's target is then the root. Later it removes and moves files only
// through an [os.Root], which does not follow links that the program or another account makes meanwhile.

// Roots are the folders that a job's paths may lie in, and its paths as they were before the first attempt.
type Roots struct {
	job   *job.Job
	dir   string   // the command's folder
	bases []string // folders that count without being named: the command's, the program's, the script's

	texts        [][]byte // the recipe and the script; read when a path asks for them
	textsRead    bool
	reads, moves map[string]place
	leaves       []leaf
	beyond       []string // targets of links that matched a glob before the first attempt
	refused      []string
	endless      []string // globs that match too much to look at
	search       *file.Search
}

// A place is a path or a glob below a folder without links.
type place struct {
	shown string // the folder as the user writes it
	root  string // the same, with links resolved
	rel   string // a glob below it
}

// A leaf is something that a trial leaves: the path below a place, whose first part contains [job.ScratchName].
type leaf struct {
	place
	below string
}

// NewRoots resolves the paths of a job. It is called before the first attempt.
func NewRoots(j *job.Job) *Roots {
	r := &Roots{job: j, dir: j.Command.Dir, reads: map[string]place{}, moves: map[string]place{},
		search: file.NewSearch()}
	r.base(r.dir)
	if prog, err := j.Command.Prog(); err == nil {
		r.base(prog.Dir)
		if path := prog.Path(); path != "" {
			r.base(filepath.Dir(path))
		}
	}
	for _, globs := range [][]string{j.Signs.Log, j.Signs.Recipes, j.Signs.States} {
		for _, g := range globs {
			if p, err := r.glob(g, false); err != nil {
				r.refuse(g)
			} else {
				r.reads[g] = p
				if !r.follow(p) {
					r.endless = append(r.endless, g)
				}
			}
		}
	}
	for _, g := range slices.Concat(j.Resume.Aside, j.Resume.InTheWay) {
		if p, err := r.glob(g, true); err != nil {
			r.refuse(g)
		} else {
			r.moves[g] = p
		}
	}
	for _, path := range j.Rehearsal.Leaves {
		if l, err := r.leaf(path); err != nil {
			r.refuse(path)
		} else {
			r.leaves = append(r.leaves, l)
		}
	}
	return r
}

// In returns the roots of a trial that starts in a folder of launch's own, to which its relative paths refer.
func (r *Roots) In(dir string) *Roots {
	if r == nil || dir == r.dir {
		return r
	}
	out := *r
	out.dir, out.bases, out.reads = dir, append([]string{dir}, r.bases...), map[string]place{}
	for pattern, p := range r.reads {
		if filepath.IsAbs(pattern) {
			out.reads[pattern] = p
		}
	}
	return &out
}

// Covers reports whether a folder lies within the roots.
func (r *Roots) Covers(folder string) bool {
	_, err := r.place(absolute(r.dir, folder), "", false)
	return err == nil
}

// Warning names the paths of the job that lead outside, or is "".
func (r *Roots) Warning() string {
	if len(r.endless) > 0 && len(r.refused) == 0 {
		return fmt.Sprintf("plugin %s names paths that match too many files, or take too long to find; launch finds "+
			"nothing by them: %s", r.job.Plugin, quoted(strings.Join(r.endless, ", ")))
	}
	if len(r.refused) == 0 {
		return ""
	}
	const few = 3
	names, more := r.refused, ""
	if len(names) > few {
		names, more = names[:few], fmt.Sprintf(" and %d more", len(names)-few)
	}
	return fmt.Sprintf("plugin %s names paths outside the folders of this command; launch ignores them: %s%s",
		r.job.Plugin, strings.Join(names, ", "), more)
}

func (r *Roots) refuse(path string) { r.refused = append(r.refused, quoted(path)) }

// quoted is a path of a plugin's in a message.
func quoted(path string) string {
	if len(path) > 200 {
		path = path[:200] + "…"
	}
	return fmt.Sprintf("%q", path)
}

// base adds a folder, as written and with links resolved: a plugin may use either.
func (r *Roots) base(dir string) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = dir
	}
	for _, d := range []string{filepath.Clean(dir), real} {
		if filepath.IsAbs(d) && d != "/" && !slices.Contains(r.bases, d) {
			r.bases = append(r.bases, d)
		}
	}
}

var errOutside = errors.New("it leads outside the folders of this command")

// glob resolves the leading parts of a glob that have no pattern.
func (r *Roots) glob(pattern string, moves bool) (place, error) {
	if strings.IndexByte(pattern, 0) >= 0 || pattern == "" {
		return place{}, errOutside
	}
	parts := split(filepath.Clean(absolute(file.EscapeGlob(r.dir), pattern)))
	n := slices.IndexFunc(parts, file.HasMeta)
	if n < 0 || n == len(parts) {
		n = len(parts) - 1
	}
	if n < 0 {
		return place{}, errOutside
	}
	fixed := make([]string, n)
	for i := range fixed {
		fixed[i] = file.Plain(parts[i])
	}
	// as in a container: then the whole disk is not the command's folder
	if r.dir == "/" && !filepath.IsAbs(pattern) && n > 0 {
		r.base("/" + fixed[0])
	}
	return r.place("/"+filepath.Join(fixed...), filepath.Join(parts[n:]...), moves)
}

func (r *Roots) leaf(path string) (leaf, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return leaf{}, errOutside
	}
	parts := split(filepath.Clean(absolute(r.dir, path)))
	n := slices.IndexFunc(parts, func(p string) bool { return strings.Contains(p, job.ScratchName) })
	if n < 0 { // launch removes nothing else
		return leaf{}, errOutside
	}
	p, err := r.place("/"+filepath.Join(parts[:n]...), "", true)
	return leaf{p, filepath.Join(parts[n:]...)}, err
}

// place resolves a folder, and puts rel below it. moves: files there will be moved or removed, not only read.
func (r *Roots) place(folder, rel string, moves bool) (place, error) {
	folder = filepath.Clean(folder)
	base := ""
	for _, b := range r.bases {
		if isWithin(b, folder) && len(b) > len(base) {
			base = b
		}
	}
	if base != "" {
		root, err := filepath.EvalSymlinks(base) // the user has started the command there
		if err != nil {
			return place{}, err
		}
		return walk(base, root, folder, rel)
	}
	if base = r.named(folder, moves); base == "" {
		return place{}, errOutside
	}
	at, err := walk("/", "/", base, "")
	if err != nil {
		return place{}, err
	}
	below, err := filepath.Rel(base, folder)
	if err != nil {
		return place{}, err
	}
	root, missing := at.root, split(file.Plain(at.rel))
	for len(missing) > 0 && isFolder(filepath.Join(root, missing[0])) {
		root, missing = filepath.Join(root, missing[0]), missing[1:]
	}
	if len(missing) == 0 {
		return walk(base, root, folder, rel)
	}
	// the folder does not exist yet
	return place{root, root, filepath.Join(file.EscapeGlob(filepath.Join(missing...)), file.EscapeGlob(below), rel)}, nil
}

// walk goes from a root down to a folder. If a link leads out of the root, its target becomes the root.
func walk(base, root, folder, rel string) (place, error) {
	below, err := filepath.Rel(base, folder)
	if err != nil {
		return place{}, err
	}
	p, at, missing := place{shown: base, root: root}, root, ""
	for i, part := range split(below) {
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		switch {
		case missing != "" || err != nil:
			missing = filepath.Join(missing, part)
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
		default:
			target, err := target(next)
			if errors.Is(err, fs.ErrNotExist) {
				missing = part
				continue
			}
			if err != nil {
				return place{}, err
			}
			at = target
			if !isWithin(p.root, target) {
				p.root, p.shown = target, filepath.Join(append([]string{base}, split(below)[:i+1]...)...)
			}
		}
	}
	inside, err := filepath.Rel(p.root, at)
	if err != nil {
		return place{}, err
	}
	p.rel = filepath.Join(file.EscapeGlob(inside), file.EscapeGlob(missing), rel)
	return p, nil
}

// target resolves a path. It follows only links that the user or root has made.
func target(path string) (string, error) {
	done, todo := "/", split(path)
	for links := 0; len(todo) > 0; {
		next := filepath.Join(done, todo[0])
		todo = todo[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > 40 || !ours(info) {
			return "", errOutside
		}
		to, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			done = "/"
		}
		todo = append(strings.FieldsFunc(to, func(c rune) bool { return c == '/' }), todo...) // with its ".."
	}
	return done, nil
}

// ours reports whether a file is the user's or root's.
func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// follow notes the targets of links that a glob matches now, before the first attempt. It returns false where the glob
// matches too much to look at.
func (r *Roots) follow(p place) bool {
	meta := slices.IndexFunc(split(p.rel), file.HasMeta)
	if meta < 0 {
		return true
	}
	from := len(split(filepath.Join(file.EscapeGlob(p.root), p.rel))) - len(split(p.rel)) +
		meta // the first part with a pattern
	r.search.Link = func(path string) {
		if len(split(path)) <= from {
			return
		}
		if to, err := target(path); err == nil && !isWithin(p.root, to) && !slices.Contains(r.beyond, to) {
			r.beyond = append(r.beyond, to)
		}
	}
	r.search.Glob(filepath.Join(file.EscapeGlob(p.root), p.rel))
	return !r.search.Over
}

// maxText bounds the text that is searched for the name of a folder, in bytes.
const maxText = 4 << 20

// named returns the folder that the arguments or the recipe name and that contains the given one, or "". Files that are
// only read may also lie beside a file that an argument names: a saved state from which the command resumes lies in its
// run's folder.
func (r *Roots) named(folder string, moves bool) string {
	var args []string
	for _, a := range r.job.Command.Args {
		_, value, _ := strings.Cut(a, "=")
		for _, v := range []string{a, value} {
			for _, b := range r.bases {
				if v != "" && len(v) < 4096 && strings.IndexByte(v, 0) < 0 {
					args = append(args, filepath.Clean(absolute(b, v)))
				}
			}
		}
	}
	for _, path := range args {
		if moves || slices.ContainsFunc(r.bases, func(b string) bool { return isWithin(b, path) }) {
			continue
		}
		// an executable, such as an interpreter, names no folder
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 == 0 {
			for range 2 {
				if path = filepath.Dir(path); path != "/" && isWithin(path, folder) {
					return path
				}
			}
		}
	}
	r.readTexts()
	for at := folder; at != "/"; at = filepath.Dir(at) {
		if slices.Contains(args, at) {
			return at
		}
		for _, name := range r.spelled(at) {
			for _, a := range r.job.Command.Args { // a shell's script is one argument with several words
				if mentions([]byte(a), name) {
					return at
				}
			}
			for _, text := range r.texts {
				if mentions(text, name) {
					return at
				}
			}
		}
	}
	return ""
}

// spelled returns the spellings by which a recipe may name a folder outside the command's.
func (r *Roots) spelled(folder string) []string {
	names := []string{folder}
	for _, b := range r.bases {
		if rel, err := filepath.Rel(b, folder); err == nil && len(strings.Trim(rel, "./")) > 0 {
			names = append(names, rel)
		}
	}
	for _, kv := range r.job.Command.Env {
		if home, ok := strings.CutPrefix(kv, "HOME="); ok && home != "/" && home != folder && isWithin(home, folder) {
			names = append(names, "~"+strings.TrimPrefix(folder, filepath.Clean(home)))
		}
	}
	return names
}

// mentions reports whether a text has the path as a whole, perhaps with a slash or a template's brace after it.
func mentions(text []byte, path string) bool {
	for {
		i := bytes.Index(text, []byte(path))
		if i < 0 {
			return false
		}
		before := i == 0 || bytes.IndexByte([]byte(" \t\r\n\"'`=:,;()[]{}"), text[i-1]) >= 0
		text = text[i+len(path):]
		after := bytes.TrimLeft(text, "/")
		if before && (len(after) == 0 || bytes.IndexByte([]byte(" \t\r\n\"'`,;#)]}&|"), after[0]) >= 0 || len(after) < len(text) && after[0] == '{') {
			return true
		}
	}
}

// readTexts reads the files that may name folders: the script, the recipe that the command names, and Python source of
// the project. It reads them itself, because a plugin's answer may contain any text.
func (r *Roots) readTexts() {
	if r.textsRead {
		return
	}
	r.textsRead = true
	c := r.job.Command
	var paths []string
	dirs := []string{r.dir}
	if prog, err := c.Prog(); err == nil {
		paths, dirs = append(paths, prog.Path()), append(dirs, prog.Dir)
	}
	project := func(path string) bool {
		return slices.ContainsFunc(r.bases, func(b string) bool { return isWithin(b, filepath.Clean(path)) })
	}
	for _, f := range r.job.Files {
		named := slices.ContainsFunc(c.Args, func(a string) bool { return f.Path != "" && strings.Contains(a, f.Path) })
		for _, d := range dirs {
			if path := absolute(d, f.Path); f.Format != job.Binary && (named || f.Format == job.Python && project(path)) && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	for _, s := range c.Sources {
		if project(s.Path) && !slices.Contains(paths, s.Path) {
			paths = append(paths, s.Path)
		}
	}
	for _, e := range r.job.Asked {
		r.texts = append(r.texts, []byte(e.To))
	}
	for _, path := range paths[:min(len(paths), 100)] {
		if f, _, err := regular(path); err == nil {
			if text, err := io.ReadAll(io.LimitReader(f, maxText)); err == nil {
				r.texts = append(r.texts, text)
			}
			f.Close()
		}
	}
}

// regular opens a file; anything else, such as a FIFO that would hang, is an error.
func regular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Glob returns what a glob of the job matches, within its roots.
func (r *Roots) Glob(pattern string) (paths []string) {
	if r == nil || slices.Contains(r.endless, pattern) {
		return nil
	}
	p, ok := r.reads[pattern]
	if !ok {
		var err error
		if p, err = r.glob(pattern, false); err != nil {
			return nil
		}
	}
	for _, hit := range p.hits(r.beyond) {
		paths = append(paths, filepath.Join(p.shown, hit))
	}
	return paths
}

// hits returns the matching paths below the place's root, without those that lead outside.
func (p place) hits(beyond []string) (rels []string) {
	for _, hit := range file.Glob(filepath.Join(file.EscapeGlob(p.root), p.rel)) {
		to, err := target(hit)
		if err != nil || !isWithin(p.root, to) && !slices.ContainsFunc(beyond,
			func(b string) bool { return isWithin(b, to) }) {
			continue
		}
		if rel, err := filepath.Rel(p.root, hit); err == nil {
			rels = append(rels, rel)
		}
	}
	return rels
}

// A RootFile may be moved.
type RootFile struct {
	Path string
	place
	rel string
}

// File returns the file at a path within the roots. ok is false if it does not exist or lies outside.
func (r *Roots) File(path string) (f RootFile, ok bool) {
	if r == nil {
		return f, false
	}
	p, err := r.glob(file.EscapeGlob(path), true)
	if err != nil {
		return f, false
	}
	for _, hit := range p.hits(nil) {
		return RootFile{path, p, hit}, true
	}
	return f, false
}

// Movable returns the files that a glob of [job.Resume.Aside], or of [job.Resume.InTheWay], matches.
func (r *Roots) Movable(pattern string) (files []RootFile) {
	if r == nil {
		return nil
	}
	p, ok := r.moves[pattern]
	if !ok {
		return nil
	}
	for _, hit := range p.hits(nil) {
		files = append(files, RootFile{filepath.Join(p.shown, hit), p, hit})
	}
	return files
}

// MoveInto moves the file into a new folder beside it, and returns that folder.
func (f RootFile) MoveInto(name string) (dir string, err error) {
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return "", err
	}
	defer root.Close()
	into := filepath.Join(filepath.Dir(f.rel), name)
	if err := root.MkdirAll(into, 0o755); err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(f.Path), name), root.Rename(f.rel, filepath.Join(into, filepath.Base(f.rel)))
}

// Leaves is called before a trial with its scratch name. It returns a function that removes what the trial has left:
// only what did not exist before.
func (r *Roots) Leaves(name string) (remove func()) {
	if r == nil {
		return func() {}
	}
	var ours []func()
	for _, l := range r.leaves {
		rel := filepath.Join(file.Plain(l.rel), strings.ReplaceAll(l.below, job.ScratchName, name))
		first := filepath.Join(file.Plain(l.rel), strings.ReplaceAll(split(l.below)[0], job.ScratchName, name))
		root, err := os.OpenRoot(l.root)
		if err != nil {
			continue
		}
		if _, err := root.Lstat(first); !errors.Is(err, fs.ErrNotExist) {
			root.Close()
			continue
		}
		ours = append(ours, func() {
			defer root.Close()
			for at := filepath.Dir(rel); isWithin(first, at); at = filepath.Dir(at) {
				if info, err := root.Lstat(at); err != nil || !info.IsDir() {
					return // the trial has made a link in the path
				}
			}
			root.RemoveAll(rel)
		})
	}
	return func() {
		for _, f := range ours {
			f()
		}
	}
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// isWithin reports whether a clean path, as it is written, is a folder or lies in it.
func isWithin(folder, path string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(p string) bool { return p == "" || p == "." })
}
