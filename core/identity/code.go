package identity

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// Bounds on what is read of a project.
const (
	mostFiles   = 10_000
	mostFile    = 4 << 20 // of one file of source, in bytes
	mostRecipes = 200
	mostRoots   = 40
)

// dynamic matches source that imports, or runs, files which no import statement names.
var dynamic = lazy.MustCompile(`\bimport_module\(|\b__import__\(|\bspec_from_file_location\(|\bSourceFileLoader\(|` +
	`\brunpy\.|\bpkgutil\.|\bwalk_packages\(|\bexec\(|\bexecfile\(|\bcpp_extension\b|\bload_inline\(`)

// built are the endings of files that lie beside Python source and are compiled from, or loaded as, its extensions.
var built = []string{".so", ".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp", ".pyx", ".pxd"}

// readCode takes the files of the project that the command can run: the scripts, everything that they import from the
// project's folders, and what lies beside a file that imports by a computed name. It returns the names of the
// variables that they read.
func (id *Identity) readCode(s Subject, prog command.Prog, py python.Environment) (names []string) {
	c := closure{tree: newTree(), dir: s.Command.Dir, cache: openCache(s.Cache, s.Command.Dir), seen: map[string]bool{}}
	for _, t := range prog.Texts { // a shell script, as launch first read it
		id.Code = append(id.Code, File{Path: s.shown(s.absolute(t.Path)), Hash: digest([]byte(t.Text))})
		names = named(names, t.Text, expanded)
	}
	for _, arg := range s.Command.Args {
		if strings.ContainsAny(arg, " \n") { // a shell's script, or code
			names = append(named(names, arg, expanded), variablesIn(arg)...)
		}
	}
	files := python.Files(prog, s.Command.Env)
	if len(files) == 0 {
		id.Unknown = append(id.Unknown, "code")
		return names
	}
	first := filepath.Dir(files[0])
	if prog.Kind == command.Module {
		first = prog.Dir
	}
	c.roots = py.Roots(first)
	c.installed = func(dir string) bool { return len(py.Roots(dir)) == 0 || !slices.Contains(py.Roots(dir), dir) }
	c.above, c.hydra = above(first, s.Command.Dir), s.targets
	for _, path := range files {
		c.add(path)
	}
	for _, w := range wordsOf(s.Command.Args) { // a recipe may be a program
		path := found(w.value, s.Command.Dir)
		is := func(f File) bool { return s.absolute(f.Path) == path }
		if filepath.Ext(w.value) == ".py" && !slices.ContainsFunc(id.Recipes, is) {
			c.add(path)
		}
	}
	c.follow(id.texts(s))
	if c.cut {
		id.Unknown = append(id.Unknown, "code")
	}
	for _, f := range c.found {
		id.Code = append(id.Code, File{Path: s.shown(f.path), Hash: f.facts.Hash, Sought: f.sought})
		names = append(names, f.facts.Reads...)
		for _, im := range f.facts.Imports {
			module, _, _ := strings.Cut(im.Module, ".")
			id.imports[module] = true
		}
	}
	slices.SortFunc(id.Code, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	id.readOpened(s, c.found)
	id.parts, id.home = c.found, first
	id.Commit = commit(first)
	for _, r := range id.Recipes {
		if text, err := file.Read(s.absolute(r.Path), mostFile); err == nil {
			names = named(names, string(text), expanded)
		}
	}
	c.cache.save()
	return names
}

// above are the folders above a script's up to that in which its command runs: programs put the root of their project
// among the folders of their imports.
func above(first, dir string) (dirs []string) {
	dir = filepath.Clean(dir)
	for at := filepath.Dir(filepath.Clean(first)); at == dir || strings.HasPrefix(at, dir+"/"); at = filepath.Dir(at) {
		dirs = append(dirs, at)
	}
	return dirs
}

// targets are the texts of the files that Hydra composes for a file of source, as they may name modules.
func (s Subject) targets(f part) (texts []string) {
	if o := f.facts.Opens; o.Hydra != nil && !f.sought {
		for _, path := range s.composed(filepath.Join(filepath.Dir(f.path), o.Hydra[0]), o.Hydra[1]) {
			if text, err := file.Read(path, mostText); err == nil {
				texts = append(texts, string(text))
			}
		}
	}
	return texts
}

// scripts are the endings of files that are programs.
var scripts = []string{".sh", ".bash", ".zsh", ".py", ".pl", ".rb", ".lua", ".jl", ".r", ".R"}

// readScripts takes the scripts that the arguments of a command name that is no Python program launch understands.
func (id *Identity) readScripts(s Subject) {
	for _, arg := range s.Command.Args {
		path := found(arg, s.Command.Dir)
		text, err := file.Read(path, mostFile)
		if path == "" || err != nil || !slices.Contains(scripts, filepath.Ext(path)) && !bytes.HasPrefix(text, []byte("#!")) {
			continue
		}
		if f := (File{Path: s.shown(path), Hash: digest(text)}); !slices.Contains(id.Code, f) {
			id.Code = append(id.Code, f)
		}
	}
	if len(id.Code) == 0 {
		id.Unknown = append(id.Unknown, "code")
	}
}

// texts are the words in which a name of a module may stand: the arguments, and the text of the recipes.
func (id *Identity) texts(s Subject) (texts []string) {
	texts = append(texts, s.Command.Args...)
	for _, r := range id.Recipes {
		if text, err := file.Read(s.absolute(r.Path), mostFile); err == nil {
			texts = append(texts, string(text))
		}
	}
	return texts
}

// A closure collects the files that lead to one another by imports.
type closure struct {
	roots []string
	above []string // further ones, for modules that none of the roots has
	hydra func(part) []string
	tree  *tree
	dir   string // in which the command runs
	cache *cache
	seen  map[string]bool
	found []part
	seeks bool // what is added now was sought below a folder
	// installed reports whether a folder is one of installed packages.
	installed func(string) bool
	cut       bool // there were more than mostFiles
}

// A part is a file of the project, and what was read of it.
type part struct {
	path   string
	facts  facts
	sought bool
}

// add adds a file once.
func (c *closure) add(path string) {
	if path == "" || c.seen[path] {
		return
	}
	if len(c.found) >= mostFiles {
		c.cut = true
		return
	}
	c.seen[path] = true
	c.found = append(c.found, part{path, c.cache.read(path), c.seeks})
}

// follow adds what the files lead to, until nothing new is found: first what they import, then what those that import
// by a computed name may find. texts may name modules for these.
func (c *closure) follow(texts []string) {
	named := false
	folders := map[string]bool{}
	var below []string
	for i := 0; i < len(c.found) || len(below) > 0; i++ {
		if i == len(c.found) {
			c.seeks = true
			for _, dir := range below {
				c.below(dir)
			}
			if below = nil; i == len(c.found) {
				return
			}
		}
		f := c.found[i]
		dir := filepath.Dir(f.path)
		if !folders[dir] {
			folders[dir] = true
			for _, name := range c.tree.list(dir) {
				if slices.Contains(built, filepath.Ext(name)) {
					c.add(filepath.Join(dir, name))
				}
			}
		}
		c.reach(f)
		for _, im := range f.facts.Imports {
			c.imported(f.path, im)
		}
		for _, name := range f.facts.Opens.Scripts {
			c.add(found(name, c.dir, dir))
		}
		c.mentioned(c.hydra(f))
		if !f.facts.Dynamic {
			continue
		}
		below = append(below, dir)
		for _, name := range f.facts.Opens.Folders {
			if folder := found(name, c.dir, dir); folder != "" && folder != c.dir && folder != dir {
				below = append(below, folder)
			}
		}
		if !named {
			named = true
			c.mentioned(texts)
		}
	}
}

// reach adds the folders that a file adds to sys.path.
func (c *closure) reach(f part) {
	for _, r := range f.facts.Roots {
		dir := c.dir
		if r.Beside {
			dir = filepath.Dir(f.path)
		}
		root := r.Path
		if !filepath.IsAbs(root) {
			root = filepath.Join(dir, root)
		}
		if !slices.Contains(c.roots, root) && !c.installed(root) && len(c.roots) < mostRoots {
			c.roots = append(c.roots, root)
		}
	}
}

// imported adds the files of one import.
func (c *closure) imported(importer string, im python.Import) {
	name := strings.TrimLeft(im.Module, ".")
	if dots := len(im.Module) - len(name); dots > 0 {
		dir := filepath.Dir(importer)
		for range dots - 1 {
			dir = filepath.Dir(dir)
		}
		c.module(dir, name, im.Names)
		return
	}
	for _, root := range slices.Concat(c.roots, c.above) {
		if c.module(root, name, im.Names) {
			return
		}
	}
}

// module adds the files of a module below a folder: the packages on the way, the module, and those of the names that
// are modules themselves. It reports whether the first part of the name is there.
func (c *closure) module(dir, name string, names []python.Imported) bool {
	path, there := dir, name == ""
	file := ""
	if name == "" {
		file = c.tree.module(path)
		c.add(file)
	}
	for name := range strings.SplitSeq(name, ".") {
		if name == "" {
			break
		}
		path = filepath.Join(path, name)
		file = c.tree.module(path)
		c.add(file)
		if file == "" && !c.tree.folder(path) {
			return there
		}
		there = true
	}
	for _, n := range names {
		if n.Name != "*" {
			c.add(c.tree.module(filepath.Join(path, n.Name)))
		}
	}
	return there
}

// below adds all Python source below a folder.
func (c *closure) below(dir string) {
	for _, name := range c.tree.list(dir) {
		path := filepath.Join(dir, name)
		switch {
		case strings.HasSuffix(name, ".py"):
			c.add(path)
		case !skipped(name) && !c.tree.environment(path) && c.tree.folder(path) && len(c.found) < mostFiles:
			c.below(path)
		}
	}
}

// skipped reports whether a folder of that name holds no source of the project.
func skipped(name string) bool {
	switch name {
	case "node_modules", "site-packages", "__pycache__", "wandb", "docs", "tests":
		return true
	}
	return strings.HasPrefix(name, ".")
}

var dotted = lazy.MustCompile(`[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+`)

// mentioned adds the modules of the project whose dotted names stand in the texts: "target: ldm.models.Diffusion".
func (c *closure) mentioned(texts []string) {
	seen := map[string]bool{}
	for _, text := range texts {
		for _, name := range dotted.FindAllString(text, -1) {
			if seen[name] {
				continue
			}
			seen[name] = true
			module, last := name[:strings.LastIndexByte(name, '.')], name[strings.LastIndexByte(name, '.')+1:]
			for _, root := range slices.Concat(c.roots, c.above) {
				c.module(root, module, []python.Imported{{Name: last}})
			}
		}
	}
}

// A tree remembers the names in folders: a project's imports ask for the same folders again and again.
type tree struct {
	names map[string]map[string]bool // by folder; true: a folder
}

func newTree() *tree { return &tree{names: map[string]map[string]bool{}} }

func (t *tree) read(dir string) map[string]bool {
	names, ok := t.names[dir]
	if !ok {
		names = map[string]bool{}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries[:min(len(entries), mostFiles)] {
			is := e.IsDir()
			if e.Type()&os.ModeSymlink != 0 {
				info, err := os.Stat(filepath.Join(dir, e.Name()))
				is = err == nil && info.IsDir()
			}
			names[e.Name()] = is
		}
		t.names[dir] = names
	}
	return names
}

// list returns the names in a folder, sorted.
func (t *tree) list(dir string) (names []string) {
	for name := range t.read(dir) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// environment reports whether a folder holds an environment of Python's or of conda's, whatever its name is.
func (t *tree) environment(path string) bool {
	_, venv := t.read(path)["pyvenv.cfg"]
	_, conda := t.read(path)["conda-meta"]
	return venv || conda
}

func (t *tree) folder(path string) bool { return t.read(filepath.Dir(path))[filepath.Base(path)] }

// module is the file of a module by its path without an ending; "" if there is none.
func (t *tree) module(path string) string {
	here := t.read(filepath.Dir(path))
	base := filepath.Base(path)
	if here[base] {
		if is, ok := t.read(path)["__init__.py"]; ok && !is {
			return filepath.Join(path, "__init__.py")
		}
	}
	if is, ok := here[base+".py"]; ok && !is {
		return path + ".py"
	}
	return ""
}

// commit is the commit of the work tree in which a folder lies, as its files have it; "" if there is none. It does not
// start git, which would run what the work tree's configuration names.
func commit(dir string) string {
	for ; ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		if info, err := os.Stat(git); err == nil && info.IsDir() {
			return head(git)
		}
		if text, err := file.Read(git, 1<<12); err == nil { // of a worktree, or a submodule
			if at, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: "); ok {
				return head(file.In(dir, at))
			}
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// head resolves HEAD of a git folder. Source: git's documentation, gitrepository-layout.
func head(git string) string {
	read := func(name string) string {
		text, err := file.Read(filepath.Join(git, name), 1<<20)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(text))
	}
	at := read("HEAD")
	ref, symbolic := strings.CutPrefix(at, "ref: ")
	if !symbolic {
		return hexadecimal(at)
	}
	if !strings.HasPrefix(ref, "refs/") || strings.Contains(ref, "..") {
		return ""
	}
	if common := read("commondir"); common != "" { // a worktree has its own HEAD, and the branches of the repository
		git = file.In(git, common)
	}
	if at = hexadecimal(read(ref)); at != "" {
		return at
	}
	for line := range strings.Lines(read("packed-refs")) {
		if hash, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref {
			return hexadecimal(hash)
		}
	}
	return ""
}

// hexadecimal returns the text if it is the name of an object of git, else "".
func hexadecimal(text string) string {
	if len(text) != 40 && len(text) != 64 || strings.Trim(text, "0123456789abcdef") != "" {
		return ""
	}
	return text
}
