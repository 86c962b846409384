// Package draft writes the first version of a declaration: it reads a command and its script, and runs nothing.
//
// Each line that it found has a comment with the file and line of the source, and with how sure it is: proof.go looks
// for what the code does with a setting, loops.go for what the training loop prints, restore.go for what a resume
// restores. What it could not find, or is less than likely, is a line that is commented out, and an entry of
// [Draft.Missing].
package draft

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/python"
)

// Name is the name of the file that a draft becomes.
const Name = ".launch-job.yaml"

// maxFiles bounds how many files of a project are searched for what it prints and saves.
const (
	maxFiles = 60
	maxFile  = 1 << 20
)

// A Draft is a declaration that nobody has checked yet.
type Draft struct {
	Path    string   // where it belongs: beside the script
	Text    string   // the declaration
	Missing []string // what was not found, and where to look for it
	Signs   []Sign   // the patterns of the draft
	Found   int      // lines that were found
	// Loads says that launch can use it as it is: it has the micro-batch, or a global batch from which that is derived.
	Loads bool
}

// A Sign is a pattern of what the program prints.
type Sign struct{ Key, Pattern string }

// ErrNoScript says that a command runs no script that can be read.
var ErrNoScript = errors.New("the script of the command cannot be read")

// Of drafts the declaration of a command that is started with env.
func Of(prog command.Prog, env []string) (*Draft, error) {
	path := scriptOf(prog, env)
	if path == "" {
		return nil, fmt.Errorf("%w: %s", ErrNoScript, strings.Join(prog.Argv, " "))
	}
	source := python.ReadSource(path, maxFile)
	if !source.Exists() {
		return nil, fmt.Errorf("%w: %s", ErrNoScript, path)
	}
	source = withoutOthers(source, prog)
	home := filepath.Dir(path)
	if python.Packages(path) { // an installed package is not the user's to write in
		home = prog.Dir
	}
	d := &drafting{prog: prog, path: path, list: python.ReadOptions(path, prog.Dir)}
	d.Path = filepath.Join(home, Name)
	sources, cut := python.Reachable(rootOf(prog, path), source, maxFiles,
		func(path string) python.Source { return python.ReadSource(path, maxFile) })
	d.cut = cut || d.list.Cut
	for _, target := range d.list.Targets {
		more, cut := python.Reachable(rootOf(prog, path), python.ReadSource(target, maxFile), maxFiles,
			func(path string) python.Source { return python.ReadSource(path, maxFile) })
		sources, d.cut = append(sources, more...), d.cut || cut
	}
	seen := map[string]bool{}
	for _, s := range sources {
		if !seen[s.Path] {
			seen[s.Path] = true
			d.files = append(d.files, &file{Syntax: s.Syntax()})
		}
	}
	for _, part := range []func(){d.script, d.batch, d.validation, d.batchNorm, d.rungs, d.ignore, d.signs,
		d.states, d.saving} {
		part()
	}
	d.render()
	return &d.Draft, nil
}

// scriptOf is the path of the file that a command runs, or "".
func scriptOf(prog command.Prog, env []string) string {
	if prog.Kind == command.Module {
		below := filepath.Join(strings.Split(prog.Script, ".")...)
		for _, root := range []string{prog.Dir, filepath.Join(prog.Dir, "src")} {
			for _, name := range []string{below + ".py", filepath.Join(below, "__main__.py")} {
				if _, err := os.Stat(filepath.Join(root, name)); err == nil {
					return filepath.Join(root, name)
				}
			}
		}
	}
	return cmp.Or(prog.Path(), python.Main(prog, env))
}

// rootOf is the folder below which a script's imports are: that of the package that it is in, where the command does
// not run it as a file.
func rootOf(prog command.Prog, path string) string {
	root := filepath.Dir(path)
	if prog.Kind == command.Script {
		return root
	}
	for range 20 {
		if _, err := os.Stat(filepath.Join(root, "__init__.py")); err != nil {
			break
		}
		root = filepath.Dir(root)
	}
	return root
}

// drafting is a draft that is being made.
type drafting struct {
	Draft
	prog   command.Prog
	path   string
	list   python.Options
	files  []*file // the script first
	lines  []entry
	micro  *setting
	accum  *setting
	values map[string]string // names of places, for paths
	order  []string          // of values
	cut    bool              // there are more files than were read
	defs   map[string][]defined
	all    []setting // those of the program, once they are read

	live    map[*file][]bool
	calls   map[string][]call
	growing map[string]bool

	readings  map[string]*reading
	everyCall map[string][]call
	paths     map[string]globbed

	saves     []save
	searched  bool // for saves
	cleared   bool // what an attempt that starts over finds in its way is drafted
	savedHint entry
}

// A file is a source of the project.
type file struct{ *python.Syntax }

// An entry is one key of the draft.
type entry struct {
	text  string   // "key: value"; further lines of it are indented
	notes []string // comments before it
	where string   // a comment at its end
	found bool     // otherwise it is commented out
}

// add adds a key that was found.
func (d *drafting) add(where, format string, args ...any) {
	d.lines = append(d.lines, entry{text: fmt.Sprintf(format, args...), where: where, found: true})
	d.Found++
}

// miss adds a key that was not found: what it may look like, and where to look.
func (d *drafting) miss(example, look string) {
	d.lines = append(d.lines, entry{text: example, notes: []string{look}})
	key, _, _ := strings.Cut(example, ":")
	d.Missing = append(d.Missing, key+": "+look)
}

// hint adds a key that is left to its author, without an entry in the list of what is missing.
func (d *drafting) hint(example, note string) {
	d.lines = append(d.lines, entry{text: example, notes: []string{note}})
}

// render writes the draft's text.
func (d *drafting) render() {
	var b strings.Builder
	b.WriteString("# A draft by launch init, and not checked yet. A comment tells where each line was found, and " +
		"how sure it\n# is: sure is what the code shows, likely what names and help texts tell. Check them, and " +
		"complete what is " +
		"missing.\n")
	for _, e := range d.lines {
		for _, n := range e.notes {
			comment(&b, n)
		}
		first := true
		for line := range strings.SplitSeq(e.text, "\n") {
			if !e.found {
				line = "# " + line
			}
			if first && e.where != "" {
				line = fmt.Sprintf("%s  # %s", line, e.where)
			}
			first = false
			b.WriteString(line + "\n")
		}
	}
	d.Text = b.String()
}

// comment writes a note as lines of at most 110 characters.
func comment(b *strings.Builder, note string) {
	column := 0
	for i, word := range strings.Fields(note) {
		switch {
		case i == 0 || column+len(word) > 108:
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString("# ")
			column = 2
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteString("\n")
}

// script names the script, as the reader of declarations matches it.
func (d *drafting) script() {
	name := filepath.Base(d.path)
	switch d.prog.Kind {
	case command.Module:
		name = d.prog.Script
	case command.Installed:
		d.add(sure+"the program starts "+d.relative(d.path), "script: %s", scalar(filepath.Base(d.prog.Script)))
		return
	}
	d.add("", "script: %s", scalar(name))
}

// scalar is a text as a YAML scalar.
func scalar(s string) string {
	if s == "" || strings.ContainsAny(s, ":#{}[],&*!|>'\"%@`\\ ?") || strings.HasPrefix(s, "-") &&
		!strings.HasPrefix(s, "--") {
		return quoted(s)
	}
	return s
}

// quoted is a text in single quotes.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// relative is a path as a declaration beside the script names it.
func (d *drafting) relative(path string) string {
	if rel, err := filepath.Rel(filepath.Dir(d.Path), path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}

// place is where a line of the project is, for a comment.
func (d *drafting) place(f *file, token int) string {
	return fmt.Sprintf("%s:%d", d.relative(f.Path), f.LineOf(token))
}
