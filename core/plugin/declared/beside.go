package declared

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
)

// Name is the plugin's name.
const Name = "declared"

// A Neighbour is the declaration that lies beside the script of a command. Its Path is "" where there is none.
type Neighbour struct {
	Path    string
	About   bool // it names the command's script
	Prefers bool // it is to be asked before any other plugin
}

// Beside finds the declaration beside a command's script, or in the command's folder. It reads no more of it than
// which script it is about and whether it says prefer: true. A file that may not be believed prefers nothing.
func Beside(prog command.Prog, env []string) Neighbour {
	dirs := []string{prog.Dir}
	for _, f := range python.Files(prog, env) {
		if prog.Kind != command.Installed || f != prog.File && !python.Packages(f) {
			dirs = slices.Insert(dirs, 0, filepath.Dir(f))
		}
	}
	for _, dir := range dirs {
		at := filepath.Join(dir, File)
		text, err := believed(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		n := Neighbour{Path: at}
		if err != nil {
			return n
		}
		doc, err := config.ParseYAML(text)
		if err != nil {
			return n
		}
		scripts := doc.Root().Get("script")
		names := []config.Value{scripts}
		for i := range scripts.Len() {
			names = append(names, scripts.Index(i))
		}
		seen := plugin.See(prog, env)
		n.About = slices.ContainsFunc(names, func(v config.Value) bool {
			name, ok := v.Str()
			return ok && name != "" && (plugin.Mark{Script: path.Base(name)}).Matches(seen)
		})
		prefers, _ := doc.Root().Get("prefer").Bool()
		n.Prefers = n.About && prefers
		return n
	}
	return Neighbour{}
}
