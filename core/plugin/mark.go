package plugin

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/python"
)

// A Mark is what a command of the plugin's family looks like from outside. Every field that is set must hold.
type Mark struct {
	// Script matches the base name of the Python script ("train.py", "train*"), the name of a module
	// ("litgpt.finetune"), the last part of that name with ".py" ("finetune.py"), or the name of a program that a
	// Python package installs ("yolo").
	Script string `json:"script,omitempty"`
	// Flags are options of which one must be among the script's arguments, without regard to their number of dashes.
	Flags []string `json:"flags,omitempty"`
	// Beside are paths of which one must exist in the folder of the script or in the command's folder.
	Beside []string `json:"beside,omitempty"`
	// Contains are texts that the script's source must all hold, in its first MiB. An entry "a|b" means one of them.
	// The source of a program that a Python package installs is its own and that of the module that it starts.
	Contains []string `json:"contains,omitempty"`
}

// Seen is a command as a mark sees it.
type Seen struct {
	Script string            // base name of the script or of the installed program, or the module's dotted name
	Args   []string          // of the script
	Exists func(string) bool // whether a path exists beside the script or in the command's folder
	// Installed: Script names a program that a Python package installs. It matches by that name only.
	Installed bool
	// Source returns the text of the script, "" if it cannot be found or read; nil: it is not known.
	Source func() string
}

// See returns what the marks of plugins see of a command that starts with env. The script is read when a mark first
// asks for it.
func See(prog command.Prog, env []string) Seen {
	script, root := prog.Script, prog.Dir
	if path := prog.Path(); path != "" {
		script, root = filepath.Base(path), filepath.Dir(path)
	}
	if prog.Kind == command.Installed {
		script = filepath.Base(prog.Script)
	}
	files := sync.OnceValue(func() []string { return python.Files(prog, env) })
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	return Seen{
		Script: script, Installed: prog.Kind == command.Installed, Args: prog.Args,
		Exists: func(path string) bool {
			if exists(filepath.Join(root, path)) || exists(filepath.Join(prog.Dir, path)) {
				return true
			}
			return slices.ContainsFunc(files(), func(f string) bool {
				own := prog.Kind == command.Module || prog.Kind == command.Installed && f != prog.File && !python.Packages(f)
				return own && exists(filepath.Join(filepath.Dir(f), path))
			})
		},
		Source: sync.OnceValue(func() string {
			if prog.Kind == command.Code {
				return prog.Script
			}
			var b strings.Builder
			for _, f := range files() {
				b.WriteString(python.Head(f, maxSource))
				b.WriteByte('\n')
			}
			return b.String()
		}),
	}
}

// maxSource bounds what is read of a script for its marks.
const maxSource = 1 << 20

// Matches reports whether the command bears the mark.
func (m Mark) Matches(s Seen) bool {
	return m.names(s) && m.hasFlag(s) && (len(m.Beside) == 0 || slices.ContainsFunc(m.Beside, s.Exists)) && m.holds(s)
}

// names reports whether the mark's name is the script's.
func (m Mark) names(s Seen) bool {
	matches := func(name string) bool {
		ok, err := path.Match(m.Script, name)
		return ok && err == nil
	}
	if m.Script == "" || matches(s.Script) {
		return true
	}
	return !s.Installed && !strings.HasSuffix(s.Script, ".py") &&
		matches(s.Script[strings.LastIndexByte(s.Script, '.')+1:]+".py")
}

func (m Mark) hasFlag(s Seen) bool {
	return len(m.Flags) == 0 || slices.ContainsFunc(s.Args, func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && slices.ContainsFunc(m.Flags, func(f string) bool {
			return name != "" && name == strings.TrimLeft(f, "-")
		})
	})
}

// holds reports whether the script's source has every text that the mark looks for.
func (m Mark) holds(s Seen) bool {
	if len(m.Contains) == 0 {
		return true
	}
	if s.Source == nil {
		return false
	}
	source := s.Source()
	return !slices.ContainsFunc(m.Contains, func(text string) bool {
		return !slices.ContainsFunc(strings.Split(text, "|"), func(one string) bool { return strings.Contains(source, one) })
	})
}
