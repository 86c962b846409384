// Package templates has the folders that `launch plugins new` makes: a plugin in Go, one in Python, and a project with
// a declaration. Each lies here as it is tested; only its name and the version of the SDK are filled in.
package templates

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

//go:embed all:go all:python all:declared
var files embed.FS

// A Kind is what a plugin is written in.
type Kind string

// The kinds.
const (
	Go       Kind = "go"
	Python   Kind = "python"
	Declared Kind = "declared"
)

// A Plugin is what is made.
type Plugin struct {
	Name string
	Kind Kind
	// Version is the version of launch's module that a Go plugin is built with, and a Python plugin's SDK taken from.
	Version string
	// Checkout, if not "", is the absolute path of a checkout of launch that is used in place of that version.
	Checkout string
}

var validName = lazy.MustCompile(`^[a-z][a-z0-9]*([-_][a-z0-9]+)*$`)

// Check reports whether the plugin can be made.
func (p Plugin) Check() error {
	switch {
	case !validName.MatchString(p.Name) || len(p.Name) > 40:
		return fmt.Errorf("%q is no name for a plugin: use small letters, digits, - and _, and begin with a letter", p.Name)
	case p.Kind != Declared && p.Version == "" && p.Checkout == "":
		return errors.New("the version of launch to build with is not known")
	}
	return nil
}

// Folder is the name of the plugin's folder.
func (p Plugin) Folder() string {
	if p.Kind == Declared {
		return p.Name
	}
	return "launch-plugin-" + p.Name
}

// placeholder is the plugin's name in the templates.
const placeholder = "newplugin"

// renamed are files that would mean something to this repository's tools under their own names.
var renamed = map[string]string{"go.mod.txt": "go.mod", "gitignore.txt": ".gitignore"}

// Write makes the plugin in dir, which must not exist, or be an empty folder. It returns the files' paths below dir.
// Where it fails, what it has written is removed.
func (p Plugin) Write(dir string) (written []string, err error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s is there already and not empty: nothing was written", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	// A folder of its own is filled first: a plugin is there as a whole or not at all.
	parent := filepath.Dir(filepath.Clean(dir))
	work, err := os.MkdirTemp(parent, ".launch-new-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return nil, err
	}
	root := string(p.Kind)
	err = fs.WalkDir(files, root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == "__pycache__":
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		to := p.fill(strings.TrimPrefix(name, root+"/"))
		if as, ok := renamed[path.Base(to)]; ok {
			to = path.Join(path.Dir(to), as)
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		written = append(written, to)
		return p.put(filepath.Join(work, filepath.FromSlash(to)), p.fill(string(text)))
	})
	if err == nil && p.Kind == Go && p.Checkout != "" {
		err = p.sums(work)
		written = append(written, "go.sum")
	}
	if err == nil {
		os.Remove(dir) // an empty folder, and nothing else
		err = os.Rename(work, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	return written, nil
}

// sums writes the checksums that the checkout has of what it is built on, so that they are not asked for again.
func (p Plugin) sums(dir string) error {
	text, err := os.ReadFile(filepath.Join(p.Checkout, "go.sum"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), text, 0o644)
}

// put writes one file. A program, which begins with "#!", can be executed.
func (p Plugin) put(path, text string) error {
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	if filepath.Base(path) == "go.mod" && p.Checkout != "" {
		text += fmt.Sprintf("\nreplace %s => %q\n", module, p.Checkout)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}

const module = "github.com/launch-ml/launch"

// fill puts the plugin's name and the SDK into a text or a path.
func (p Plugin) fill(text string) string {
	python := strings.ReplaceAll(p.Name, "-", "_")
	version := p.Version
	if version == "" {
		version = "v0.0.0"
	}
	sdk := "launch-plugin @ git+https://" + module + "@" + version + "#subdirectory=sdk/python"
	if p.Checkout != "" {
		at := url.URL{Scheme: "file", Path: filepath.Join(p.Checkout, "sdk", "python")}
		sdk = "launch-plugin @ " + at.String()
	}
	return strings.NewReplacer(
		"launch_plugin_"+placeholder, "launch_plugin_"+python, "test_"+placeholder, "test_"+python,
		placeholder, p.Name, "LAUNCH_VERSION", version, "LAUNCH_PLUGIN_SDK", sdk,
	).Replace(text)
}
