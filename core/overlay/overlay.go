// Package overlay reads settings in Python source, and serves edited copies of such files to a program in place of the
// files themselves, as go build -overlay does for Go.
//
// It runs no code of the user's and writes no file of the user's. [Read] parses. [Install] writes the copies, and a hook
// that Python loads at its start (hook/sitecustomize.py), into a folder of launch's own; two environment variables lead
// there. The program then finds the edited text wherever it would have read the file: in import, -m, as its script, in
// its children. The hook reports what it did, so that a program that did not take the settings ([Report], [Verdict]) can
// be stopped before it wastes time; some ways to start Python are known never to take them ([Refused]). The hook has
// parts that report memory (witness.py), and that save a state after an out-of-memory (lastwords.py).
package overlay

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/private"
)

//go:embed hook/sitecustomize.py
var hook []byte

// A File is a Python file that the program gets a copy of.
type File struct {
	Path   string   // absolute
	SHA256 string   // of the file that the copy was made from; a file that has changed since is not replaced
	Text   []byte   // the copy's
	Names  []string // the paths of the items that were edited, whose values are to be reported
}

// A Part is a script of launch's own that the hook runs as every Python process starts, after its own work: one hook serves
// all packages that need something from the program's processes. The hook executes its text, which works with Python 3.8 or
// later, and then calls the function
//
//	start(say, quiet, loader)
//
// that the text defines. There say(event, **fields) appends a line to the report, quiet(f) is f without its own exceptions, and loader is the
// class that reads modules. It keeps to the rules of hook/sitecustomize.py.
type Part struct {
	Name string // of a file
	Text []byte
}

// An Overlay is an installed overlay.
type Overlay struct {
	Env    []string // what the program's environment must have: PYTHONPATH and LAUNCH_OVERLAY
	files  []File
	report string
}

// manifest is overlay.json, which the hook reads. It must not contain true, false or null; hook/sitecustomize.py has the reason.
type manifest struct {
	Report string   `json:"report"`
	Files  []entry  `json:"files"`
	Parts  []string `json:"parts"`
}

type entry struct {
	Path   string              `json:"path"`
	Real   string              `json:"real"`
	SHA256 string              `json:"sha256"`
	Copy   string              `json:"copy"`
	Names  map[string][]string `json:"names"` // items' paths, and their keys
}

// Install writes the copies, the hook and its parts into dir, an absolute folder that is the attempt's own. env is the
// environment that the program would get; only its PYTHONPATH is read. A later Install in the same folder replaces the
// former.
func Install(dir string, files []File, env []string, parts ...Part) (*Overlay, error) {
	if !filepath.IsAbs(dir) || strings.ContainsRune(dir, filepath.ListSeparator) || !utf8.ValidString(dir) {
		return nil, fmt.Errorf("installing a source overlay: the folder %q cannot be put into PYTHONPATH", dir)
	}
	if err := private.MkdirAll(dir); err != nil { // the program will run what lies there
		return nil, fmt.Errorf("installing a source overlay: %w", err)
	}
	site, copies := filepath.Join(dir, "site"), filepath.Join(dir, "copies")
	for _, d := range []string{site, copies} {
		if d == copies && len(files) == 0 {
			continue
		}
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("installing a source overlay: %w", err)
		}
	}
	o := &Overlay{files: files, report: filepath.Join(dir, "report.jsonl")}
	for _, path := range []string{o.report, filepath.Join(dir, saveRequest)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("installing a source overlay: %w", err)
		}
	}
	entries, err := writeCopies(copies, files)
	if err != nil {
		return nil, err
	}
	m := manifest{Report: o.report, Files: entries, Parts: []string{}}
	texts := map[string][]byte{filepath.Join(site, "sitecustomize.py"): hook}
	for _, part := range parts {
		path := filepath.Join(dir, part.Name)
		m.Parts = append(m.Parts, path)
		texts[path] = part.Text
	}
	overlay := filepath.Join(dir, "overlay.json")
	if texts[overlay], err = json.Marshal(m); err != nil {
		return nil, err
	}
	for path, content := range texts {
		if err := private.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("installing a source overlay: %w", err)
		}
	}
	path := site
	if before := lookup(env, "PYTHONPATH"); before != "" { // an empty entry would mean the current folder
		path += string(filepath.ListSeparator) + before
	}
	o.Env = []string{"PYTHONPATH=" + path, "LAUNCH_OVERLAY=" + overlay}
	return o, nil
}

// writeCopies writes the edited copies into a folder, and returns what the hook has to know of each.
func writeCopies(folder string, files []File) ([]entry, error) {
	entries, seen := []entry{}, map[string]string{}
	for i, f := range files {
		real, err := filepath.EvalSymlinks(f.Path)
		if err != nil {
			return nil, fmt.Errorf("installing a source overlay: %w", err)
		}
		switch other, twice := seen[real]; {
		case !filepath.IsAbs(f.Path), !utf8.ValidString(f.Path + real):
			return nil, fmt.Errorf("installing a source overlay: the path %q is relative or no UTF-8", f.Path)
		case twice:
			return nil, fmt.Errorf("installing a source overlay: %s and %s are the same file", other, f.Path)
		}
		seen[real] = f.Path
		e := entry{Path: f.Path, Real: real, SHA256: f.SHA256, Names: map[string][]string{},
			Copy: filepath.Join(folder, strconv.Itoa(i)+"-"+filepath.Base(real))}
		for _, name := range f.Names {
			e.Names[name] = config.SplitPath(name)
		}
		if err := private.WriteFile(e.Copy, f.Text, 0o600); err != nil {
			return nil, fmt.Errorf("writing the edited copy of %s: %w", f.Path, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// lookup returns the value of a variable, the last one where it is set twice.
func lookup(env []string, name string) (value string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// Report reads what the program's processes have reported so far.
func (o *Overlay) Report() Report {
	text, err := os.ReadFile(o.report)
	if err != nil { // no process has reported yet
		return ParseReport(nil)
	}
	return ParseReport(text)
}

// ReportFile is where the program's processes write their reports.
func (o *Overlay) ReportFile() string { return o.report }

// Files returns what was installed.
func (o *Overlay) Files() []File { return o.files }

// Verdict is [Verdict] on what the program's processes have reported so far.
func (o *Overlay) Verdict(begun bool, since time.Duration) (State, string) {
	return Verdict(o.Report(), o.files, begun, since)
}
