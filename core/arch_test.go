package core

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/launch-ml/launch/"

// mayImport is the architecture: which of our packages, and which of other people's, a package may import. It stands in
// testdata/imports.txt.
var mayImport = readImports()

func readImports() map[string][]string {
	text, err := os.ReadFile("testdata/imports.txt")
	if err != nil {
		panic(err)
	}
	may, dir := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		switch name := strings.TrimSpace(line); {
		case name == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			may[dir] = append(may[dir], name)
		default:
			dir = name
			may[dir] = nil
		}
	}
	return may
}

// only are packages of other people that one package alone may import, or the packages below it.
var only = map[string]string{
	"github.com/spf13/viper":         "cmd/launch",
	"github.com/hashicorp/go-plugin": "core/plugin",
	"github.com/NVIDIA/go-nvml":      "core/gpu/nvml",
	"github.com/creack/pty":          "core/proc",
	"github.com/expr-lang/expr":      "core/plugin/declared",
	"charm.land/lipgloss/v2":         "core/ui",
	"charm.land/bubbletea/v2":        "core/top",
}

// pluginMay is what a plugin's packages may import: the SDK's values, never the host, a process or a device.
var pluginMay = []string{"core/plugin", "core/gpu", "core/job", "core/ladder", "core/config",
	"core/config/command", "core/file", "core/lazy", "core/mem", "core/metric", "core/nn", "core/python",
	"core/unit"}

// imports lists what the Go files of a package import, with the file that does.
func imports(t *testing.T, root string) map[string]map[string]string {
	t.Helper()
	found := map[string]map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") && e.Name() != "..") {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		if found[dir] == nil {
			found[dir] = map[string]string{}
		}
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			found[dir][imp] = filepath.ToSlash(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// violations lists every import that the architecture does not allow. It reads the source itself rather than asking the
// go command, whose answer go test would cache.
func violations(found map[string]map[string]string) (out []string) {
	for dir, imps := range found {
		may, known := mayImport[dir]
		isPlugin := strings.HasPrefix(dir, "plugins/")
		if strings.HasPrefix(dir, "core") && !known && !strings.HasPrefix(dir, "core/proc/internal/") {
			out = append(out, dir+" is not in mayImport")
		}
		for imp, file := range imps {
			ours, isOurs := strings.CutPrefix(imp, module)
			name := imp
			if isOurs {
				name = ours
			}
			for theirs, home := range only {
				if (imp == theirs || strings.HasPrefix(imp, theirs+"/")) && dir != home && !strings.HasPrefix(dir, home+"/") {
					out = append(out, file+": only "+home+" may import "+theirs)
				}
			}
			switch {
			case strings.HasPrefix(dir, "core") && isOurs && (strings.HasPrefix(ours, "plugins/") || strings.HasPrefix(ours, "cmd/")):
				out = append(out, file+": core may not import "+ours)
			case known && (isOurs || strings.Contains(imp, ".")) && !slices.Contains(may, name):
				out = append(out, file+" may not import "+name)
			case isPlugin && isOurs && strings.HasPrefix(ours, "plugins/") && family(ours) != family(dir):
				out = append(out, file+": a plugin may not import another's "+ours)
			case isPlugin && isOurs && strings.HasPrefix(ours, "core") && !slices.Contains(pluginMay, ours):
				out = append(out, file+": a plugin may not import "+ours)
			}
		}
	}
	slices.Sort(out)
	return out
}

// family is "plugins/sisr" of "plugins/sisr/arch".
func family(dir string) string { return strings.Join(strings.SplitN(dir, "/", 3)[:2], "/") }

func TestArchitecture(t *testing.T) {
	found := imports(t, "..")
	for _, v := range violations(found) {
		t.Error(v)
	}
	for dir := range mayImport {
		if found[dir] == nil {
			t.Errorf("%s is in mayImport and has no code", dir)
		}
	}
	tour, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for dir := range found {
		if name, sub := strings.CutPrefix(dir, "core/"); sub && !strings.HasPrefix(name, "proc/internal/") && !strings.Contains(string(tour), "\n//\t"+name+" ") {
			t.Errorf("%s is not on the tour in core/doc.go", dir)
		}
	}
}

// The rules are rules: each way of breaking them is seen.
func TestArchitectureSeesViolations(t *testing.T) {
	for name, tt := range map[string]struct{ dir, imp, says string }{
		"core imports a plugin":         {"core/run", module + "plugins/sisr", "core may not import plugins/sisr"},
		"run imports a process":         {"core/run", module + "core/proc", "may not import core/proc"},
		"viper outside cmd":             {"core/record", "github.com/spf13/viper", "only cmd/launch may import"},
		"go-nvml in a command":          {"cmd/launch", "github.com/NVIDIA/go-nvml/pkg/nvml", "only core/gpu/nvml may import"},
		"a plugin starts processes":     {"plugins/sisr", module + "core/proc", "a plugin may not import core/proc"},
		"a plugin imports another":      {"plugins/moco", module + "plugins/sisr/arch", "may not import another's"},
		"a package that nobody planned": {"core/util", "fmt", "not in mayImport"},
	} {
		got := strings.Join(violations(map[string]map[string]string{tt.dir: {tt.imp: tt.dir + "/x.go"}}), "; ")
		if !strings.Contains(got, tt.says) {
			t.Errorf("%s: found %q, want it to say %q", name, got, tt.says)
		}
	}
}
