package declared

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/python"
)

// program is the program of a command, as declarations name it.
type program struct {
	command.Prog
	path   string        // of its source; "" if that is not known
	source python.Source // read when it is asked for
	read   bool
	list   *python.Options // read when it is asked for
}

func programOf(prog command.Prog, env []string) *program {
	p := &program{Prog: prog, path: prog.Path()}
	if prog.Kind == command.Module {
		below := filepath.Join(strings.Split(prog.Script, ".")...)
		for _, name := range []string{below + ".py", filepath.Join(below, "__main__.py")} {
			if _, err := os.Stat(filepath.Join(prog.Dir, name)); err == nil {
				p.path = filepath.Join(prog.Dir, name)
				return p
			}
		}
	}
	if prog.Kind == command.Module || prog.Kind == command.Installed {
		if path := python.Main(prog, env); !python.Packages(path) { // a library's own code is no project's
			p.path = path
		}
	}
	return p
}

// text is the source of the program; an empty one where it cannot be read.
func (p *program) text() python.Source {
	if !p.read && p.path != "" {
		p.source = python.ReadSource(p.path, maxFile)
	}
	p.read = true
	return p.source
}

// settings are the settings that the program takes, as the sources of its project declare them.
func (p *program) settings() python.Options {
	if p.list == nil {
		list := python.Options{}
		if p.path != "" {
			list = python.ReadOptions(p.path, p.Dir)
		}
		p.list = &list
	}
	return *p.list
}

// folders are those in which a declaration and what stands beside a script are looked for.
func (p *program) folders() []string {
	if p.path == "" || filepath.Dir(p.path) == filepath.Clean(p.Dir) {
		return []string{p.Dir}
	}
	return []string{filepath.Dir(p.path), p.Dir}
}

// name is the program's name for a person.
func (p *program) name() string {
	if p.Kind == command.Module {
		return p.Script
	}
	return filepath.Base(p.Script)
}

// is reports whether a declaration's script names the program: by the name or the end of the path of its file, by its
// module, or by the name of a program that is installed.
func (p *program) is(script string) bool {
	if p.Kind == command.Code {
		return false
	}
	file := p.path
	if p.Kind == command.Installed && filepath.Base(script) == filepath.Base(p.Script) {
		return true
	}
	if p.Kind == command.Module {
		if script == p.Script {
			return true
		}
		file = filepath.Join(strings.Split(p.Script, ".")...) + ".py"
	} else if file == "" || p.Kind == command.Installed {
		file = p.Script
	}
	if !strings.HasSuffix(script, ".py") && strings.Contains(script, ".") { // a module that is run as a file
		script = strings.ReplaceAll(script, ".", "/") + ".py"
	}
	parts, n := strings.Split(filepath.ToSlash(file), "/"), strings.Count(script, "/")+1
	if len(parts) < n {
		return false
	}
	ok, err := path.Match(script, strings.Join(parts[len(parts)-n:], "/"))
	return ok && err == nil
}

// fits returns why a declaration is not about the program, or "".
func (d *declaration) fits(p *program) string {
	switch {
	case !slices.ContainsFunc(d.Script, p.is):
		return "it is about " + strings.Join(d.Script, ", ")
	case len(d.Arguments) > 0 && !slices.ContainsFunc(p.Args, func(a string) bool {
		return slices.Contains(d.Arguments,
			a)
	}):
		return "it is about commands with the argument " + strings.Join(d.Arguments, " or ")
	case len(d.Beside) > 0 && !slices.ContainsFunc(d.Beside, p.exists):
		return "there is no " + strings.Join(d.Beside, " or ") + " beside the script"
	}
	for _, one := range d.Contains {
		if !slices.ContainsFunc(one, func(s string) bool { return p.contains(s) }) {
			return "the script does not contain " + strings.Join(one, " or ")
		}
	}
	return ""
}

// contains reports whether the script holds a text, outside of comments where it is a word of the code.
func (p *program) contains(s string) bool {
	if identifier.MatchString(s) {
		return strings.Contains(p.text().Code, s)
	}
	return strings.Contains(p.text().Text, s)
}

var identifier = lazy.MustCompile(`^\.?[A-Za-z_]\w*\(?$`)

// exists reports whether a path exists beside the script or in the command's folder.
func (p *program) exists(name string) bool {
	return slices.ContainsFunc(p.folders(), func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}

// declarationOf finds the declaration of a program: the file beside it, else a ready one.
func declarationOf(p *program) (*found, error) {
	none := error(plugin.ErrNotMine)
	for _, dir := range p.folders() {
		path := filepath.Join(dir, File)
		text, err := believed(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		d, err := parse(path, text)
		if why := d.fits(p); why != "" && len(d.Script) > 0 {
			none = fmt.Errorf("%w: %s: %s", plugin.ErrNotMine, path, why)
			break
		}
		if err != nil {
			return nil, err
		}
		name := filepath.Base(filepath.Dir(path)) + "/" + File
		return &found{declaration: d, origin: File, path: path, dir: filepath.Dir(path), called: "declared in " + name}, nil
	}
	if d := readyFor(p); d != nil {
		return d, nil
	}
	return nil, none
}

// found is a declaration and where it is from.
type found struct {
	*declaration
	origin string // in messages to the user
	path   string // in errors
	dir    string // to which its paths are relative
	called string // the job's dialect
	ready  bool
}

// believed is the text of a declaration that may be believed: it decides what is changed, and from what the program
// goes on.
func believed(path string) ([]byte, error) {
	told, err := private.ReadSettings(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, &plugin.Caution{Why: fmt.Sprintf("nothing of %s is taken: %v", path, err)}
	case told.Foreign != nil && !private.Approved().Has(told):
		return nil, &plugin.Caution{Why: fmt.Sprintf("nothing of %s is taken: %v (read it, and take it by `launch trust %s`)",
			path, told.Foreign, path)}
	}
	return told.Text, nil
}

// parse reads a declaration. With an error it returns what it has read before, its scripts at least, so that the
// caller knows whether the mistake concerns the command.
func parse(path string, text []byte) (*declaration, error) {
	d := &declaration{}
	doc, err := config.ParseYAML(text)
	if err != nil {
		return d, fmt.Errorf("reading %s: %w", path, err)
	}
	root := doc.Root()
	if n, ok := root.Get("version").Int(); ok && n > Version {
		err = wrong("version", root.Get("version"), "it is of format %d, and this launch reads formats up to %d: "+
			"it needs a newer launch", n, Version)
	} else if err = decode(root, d); err == nil {
		err = d.check(root)
	}
	if err == nil {
		return d, nil
	}
	if s := root.Get("script"); s.Exists() {
		d.Script = nil
		if decode(s, &d.Script) != nil {
			d.Script = nil
		}
	}
	var m *mistake
	if errors.As(err, &m) {
		return d, fmt.Errorf("%s, line %d: %w", path, max(1, m.line), m)
	}
	return d, fmt.Errorf("%s: %w", path, err)
}
