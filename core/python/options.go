package python

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// The settings that a Python training program takes are the options of its command line with their
// defaults, the keys of its configuration, and the constants of its script.
//
// [ReadOptions] reads the script and the files of its project that it imports, and runs nothing. A default that
// comes from code that is not read, or that is computed, is unknown.

// How says by what a program takes a setting.
type How string

const (
	Argparse    How = "argparse"
	HF          How = "HfArgumentParser"
	Click       How = "click"     // typer too
	Tyro        How = "tyro"      // names have dashes, and underscores as well
	Dataclass   How = "dataclass" // simple-parsing, pyrallis, draccus: names have underscores
	Fire        How = "fire"
	Absl        How = "absl"
	ByGlobals   How = "configurator" // constants of the script, by --name=value: nanoGPT
	ByConstants How = "constants"    // of the script; no argument changes them
	Hydra       How = "hydra"        // KEY=VALUE
	ByFile      How = "file"         // of settings, whose path the script has; no argument names it
)

// An Option is one setting.
type Option struct {
	// Names are all that it has: "-b", "--batch-size". For KEY=VALUE it is the key, for a constant its name. A
	// positional argument has none.
	Names []string
	Dest  string // the attribute that the program reads it by
	// Default is its value where nothing sets it, a string without quotes, an absent one "None". It counts only if Known.
	Default string
	Known   bool
	Type    string // as it is spelled: "int", "str2bool"
	Takes   config.Takes
	Choices []string
	Help    string
	Path    string // the file that declares it; "" for a recorded one of a library
	Line    int
	How     How
}

// Where names the line that declares the option, for a person.
func (o Option) Where() string {
	if o.Path == "" {
		return string(o.How) + "'s own"
	}
	return Place(o.Path, o.Line)
}

// An Options is what was found of a program.
type Options struct {
	Options []Option
	// Unread are places where options are declared that were not read: a library adds them, or their names are computed.
	Unread []string
	// Files are the files that were read, the script first.
	Files []Source
	// Targets are the files of the modules whose classes Hydra makes by a key _target_: no import names them.
	Targets []string
	// Cut says that there was more than is read at most.
	Cut bool
}

// Lookup returns the option of that name. Where several have it, its default is known only if they agree. The names
// of a program that takes dashes for underscores are compared so.
func (l Options) Lookup(name string) (found Option, ok bool) {
	for _, o := range l.Options {
		if !o.Named(name) {
			continue
		}
		if !ok {
			found, ok = o, true
			continue
		}
		if found.Known = found.Known && o.Known && found.Default == o.Default; !found.Known {
			found.Default = ""
		}
	}
	return found, ok
}

// Named reports whether the option has that name.
func (o Option) Named(name string) bool {
	if slices.Contains(o.Names, name) {
		return true
	}
	switch o.How {
	case HF, Tyro, Fire:
		return slices.ContainsFunc(o.Names, func(n string) bool { return len(n) > 2 && underscored(n) == underscored(name) })
	}
	return false
}

func underscored(name string) string {
	trimmed := strings.TrimLeft(name, "-")
	return name[:len(name)-len(trimmed)] + strings.ReplaceAll(trimmed, "-", "_")
}

// optionDefault is the default of an option, and whether it is known.
func optionDefault(l Options, name string) (string, bool) {
	o, ok := l.Lookup(name)
	return o.Default, ok && o.Known
}

// ReadOptions finds the settings of a script. Its imports are looked for beside it and below roots: the folder that the
// command is run in, of a module.
func ReadOptions(script string, roots ...string) Options {
	_, l := readOptions(script, roots)
	return l
}

func readOptions(script string, roots []string) (*reader, Options) {
	r := newReader(append([]string{filepath.Dir(script)}, roots...))
	r.folders = append(slices.Clone(roots), filepath.Dir(script))
	m := r.load(script)
	if m == nil {
		return r, Options{}
	}
	r.follow(m)
	for _, m := range r.order {
		r.argparse(m)
		r.absl(m)
		r.click(m)
	}
	r.dataclasses()
	r.fire(m)
	r.hydra(m)
	r.settingsFiles()
	r.constants(m)
	l := Options{Options: r.out, Unread: r.unread, Cut: r.cut, Targets: r.targets(script)}
	for _, m := range r.order {
		l.Files = append(l.Files, m.Source)
	}
	return r, l
}
