package declared

import (
	"embed"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/plugin"
)

// The ready declarations are built in: one file for a project, in the format of a .launch-job.yaml. They are tried in
// the order of their names, after the file beside the script.
//
//go:embed ready/*.yaml
var readyFiles embed.FS

// marks are the marks of the ready declarations, so that launch reads none of them before it needs one. A test writes
// the file with -update.
//
//go:embed ready/marks.json
var marks []byte

// A readyMark is a ready declaration's name and marks.
type readyMark struct {
	Name  string        `json:"name"`
	Marks []plugin.Mark `json:"marks"`
}

var readyMarks = sync.OnceValue(func() (all []readyMark) {
	if json.Unmarshal(marks, &all) != nil {
		return nil // a test reads the file
	}
	return all
})

// readyFor returns the first ready declaration that is about a program, or nil.
func readyFor(p *program) *found {
	seen := plugin.Seen{Script: p.name(), Args: p.Args, Exists: p.exists, Source: func() string { return p.text().Text }}
	for _, r := range readyMarks() {
		if !slices.ContainsFunc(r.Marks, func(m plugin.Mark) bool { return m.Matches(seen) }) {
			continue
		}
		d, err := readReady(r.Name)
		if err == nil && d.fits(p) == "" {
			name := "the ready declaration " + r.Name
			return &found{declaration: d, origin: name, path: name, dir: p.folders()[0], called: "ready: " + r.Name, ready: true}
		}
	}
	return nil
}

// readReady reads a ready declaration by its name.
func readReady(name string) (*declaration, error) {
	file := "ready/" + name + ".yaml"
	text, err := readyFiles.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parse(file, text)
}

// marksOf are the marks of a ready declaration: one for each of its scripts.
func marksOf(d *declaration) (marks []plugin.Mark) {
	for _, script := range d.Script {
		base := path.Base(script)
		if !strings.HasSuffix(base, ".py") { // a module or a program, which marks name as files
			base = base[strings.LastIndexByte(base, '.')+1:] + ".py"
		}
		m := plugin.Mark{Script: base, Beside: d.Beside}
		for _, one := range d.Contains {
			m.Contains = append(m.Contains, one.String())
		}
		named := func(o plugin.Mark) bool { return o.Script == m.Script }
		if !slices.ContainsFunc(marks, named) {
			marks = append(marks, m)
		}
		if m.Script = script; !strings.ContainsAny(script, "./") && !slices.ContainsFunc(marks, named) {
			marks = append(marks, m) // an installed program is matched by its own name
		}
	}
	return marks
}
