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

// mayImport is the architecture: which of our packages, and which of other people's, a package may import.
var mayImport = map[string][]string{
	"core":                      {},
	"core/unit":                 {},
	"core/lazy":                 {},
	"core/metric":               {},
	"core/claim":                {"core/private", "core/unit", "golang.org/x/sys/unix"},
	"core/private":              {"github.com/google/renameio/v2"},
	"core/file":                 {},
	"core/nn":                   {"core/unit"},
	"core/mem":                  {"core/gpu", "core/nn", "core/unit"},
	"core/config":               {"core/file", "core/lazy", "go.yaml.in/yaml/v3", "github.com/pelletier/go-toml/v2", "github.com/pelletier/go-toml/v2/unstable"},
	"core/config/command":       {"core/lazy", "mvdan.cc/sh/v3/syntax"},
	"core/job":                  {"core/config", "core/config/command", "core/metric"},
	"core/confine":              {"core/config/command", "core/job"},
	"core/python":               {"core/file", "core/lazy", "core/config", "core/config/command"},
	"core/overlay":              {"core/lazy", "core/config", "core/config/command", "core/private", "core/unit"},
	"core/gpu":                  {"core/unit"},
	"core/gpu/nvml":             {"core/gpu", "core/unit", "github.com/NVIDIA/go-nvml/pkg/nvml"},
	"core/ladder":               {"core/config", "core/mem", "core/unit"},
	"core/room":                 {"core/claim", "core/config/command", "core/gpu", "core/gpu/nvml", "core/job", "core/ladder", "core/unit"},
	"core/intake":               {"core/config", "core/config/command", "core/confine", "core/gpu", "core/job", "core/ladder", "core/overlay", "core/plugin", "core/plugin/host", "core/private", "core/python", "core/room", "core/run", "core/unit"},
	"core/oom":                  {"core/job", "core/lazy", "core/metric", "core/unit"},
	"core/witness":              {"core/oom", "core/overlay", "core/unit"},
	"core/proc":                 {"core/unit", "github.com/creack/pty", "golang.org/x/term", "golang.org/x/sys/unix"},
	"core/plugin":               {"core/config", "core/gpu", "core/job", "core/ladder", "core/mem", "core/unit", "core/plugin/internal/wire"},
	"core/plugin/declared":      {"core/file", "core/config", "core/config/command", "core/gpu", "core/job", "core/ladder", "core/mem", "core/metric", "core/plugin", "core/python", "core/trust"},
	"core/plugin/internal/wire": {"core/file", "github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "google.golang.org/grpc", "google.golang.org/grpc/codes", "google.golang.org/grpc/status", "google.golang.org/protobuf/types/known/wrapperspb"},
	"core/plugin/host":          {"core/file", "core/gpu", "core/job", "core/ladder", "core/plugin", "core/plugin/internal/wire", "core/private", "github.com/hashicorp/go-plugin", "github.com/hashicorp/go-plugin/runner", "github.com/hashicorp/go-hclog", "golang.org/x/sys/unix"},
	"core/plugin/plugintest":    {"core/config", "core/config/command", "core/gpu", "core/job", "core/ladder", "core/mem", "core/oom", "core/overlay", "core/plugin", "core/python", "core/unit"},
	"core/run":                  {"core/config", "core/job", "core/ladder", "core/lazy", "core/mem", "core/metric", "core/oom", "core/unit"},
	"core/observe":              {"core/gpu", "core/gpu/nvml", "core/job", "core/ladder", "core/mem", "core/oom", "core/proc", "core/unit"},
	"core/attempt":              {"core/config", "core/config/command", "core/confine", "core/file", "core/job", "core/ladder", "core/observe", "core/oom", "core/overlay", "core/private", "core/proc", "core/python", "core/receipt", "core/record", "core/room", "core/run", "core/states", "core/unit", "core/witness"},
	"core/states":               {"core/job", "core/private", "core/proc", "core/run", "core/unit", "github.com/fsnotify/fsnotify", "golang.org/x/sys/unix"},
	"core/receipt":              {"core/config", "core/config/command", "core/gpu", "core/job", "core/ladder", "core/mem", "core/oom", "core/private", "core/python", "core/record", "core/run", "core/unit", "golang.org/x/sys/unix"},
	"core/record":               {"core/job", "core/lazy", "core/private", "core/run", "core/unit", "golang.org/x/sys/unix", "mvdan.cc/sh/v3/syntax"},
	"core/trust":                {"core/private", "github.com/google/renameio/v2", "golang.org/x/sys/unix"},
	"core/explain":              {"core/attempt", "core/file", "core/job", "core/oom", "core/record", "core/run", "core/ui"},
	"core/sweep":                {"core/config", "core/config/command", "core/job", "core/ladder", "core/lazy", "core/metric", "core/run", "core/unit", "go.yaml.in/yaml/v3", "mvdan.cc/sh/v3/syntax"},
	"core/sweep/store":          {"core/private", "core/sweep", "golang.org/x/sys/unix"},
	"core/sweep/ask":            {"core/metric", "core/sweep", "core/unit"},
	"core/sweep/tree":           {"core/sweep"},
	"core/sweep/local":          {"core/private", "core/record", "core/run", "core/sweep", "golang.org/x/sys/unix"},
	"core/ui":                   {"core/config", "core/gpu", "core/job", "core/ladder", "core/mem", "core/metric", "core/oom", "core/plugin", "core/receipt", "core/record", "core/run", "core/sweep", "core/unit"},
}

// only are packages of other people that one package alone may import, or the packages below it.
var only = map[string]string{
	"github.com/spf13/viper":         "cmd/launch",
	"github.com/hashicorp/go-plugin": "core/plugin",
	"github.com/NVIDIA/go-nvml":      "core/gpu/nvml",
	"github.com/creack/pty":          "core/proc",
}

// pluginMay is what a plugin's packages may import: the SDK's values, never the host, a process or a device.
var pluginMay = []string{"core/plugin", "core/gpu", "core/job", "core/ladder", "core/config", "core/config/command", "core/file", "core/lazy", "core/mem", "core/metric", "core/nn", "core/python", "core/unit"}

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
