package core

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	"github.com/spf13/viper":         "cmd/launch/internal/settings",
	"github.com/hashicorp/go-plugin": "core/plugin",
	"github.com/NVIDIA/go-nvml":      "core/gpu/drivers",
	"github.com/creack/pty":          "core/proc",
	"github.com/expr-lang/expr":      "core/plugin/declared",
	"charm.land/lipgloss/v2":         "core/ui",
	"charm.land/bubbletea/v2":        "core/ui/top",
}

// door is the folder of the command line.
const door = "cmd/launch/internal/"

// doorFloors are the packages of the command line from the ground up: one imports only those of floors below its own.
// The commands stand on one floor, so that none imports another.
var doorFloors = [][]string{
	{"cli"},
	{"settings", "records"},
	{"sameness", "reading", "engine"},
	{"result"},
	{"claims"},
	{"carry"},
	{"check", "draft", "machine", "plan", "plugins", "receipts", "report", "run", "runs", "sbatch", "sweep", "trust"},
	{"root"},
}

// doorFloor is the floor of a package of the command line; -1: it has none.
func doorFloor(dir string) int {
	return slices.IndexFunc(doorFloors, func(all []string) bool {
		return slices.Contains(all, strings.TrimPrefix(dir, door))
	})
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
		if strings.HasPrefix(dir, door) && doorFloor(dir) < 0 {
			out = append(out, dir+" is not in doorFloors")
		}
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
			case strings.HasPrefix(dir, door) && strings.HasPrefix(ours, door) && doorFloor(ours) >= doorFloor(dir):
				out = append(out, file+": from its floor it may not import "+ours)
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
}

// TestTour wants every room on the tour, at one stop, and at most ten stops and what lies below them.
func TestTour(t *testing.T) {
	tour, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	stops, at := 0, map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^//\t[a-z]+ +([a-z, ]+): `).FindAllStringSubmatch(string(tour), -1) {
		stops++
		for room := range strings.SplitSeq(m[1], ", ") {
			at[room]++
		}
	}
	if stops != 11 {
		t.Errorf("the tour in core/doc.go has %d stops", stops)
	}
	for room := range rooms(imports(t, "..")) {
		if at[room] != 1 {
			t.Errorf("core/%s is at %d stops of the tour in core/doc.go", room, at[room])
		}
		delete(at, room)
	}
	for room := range at {
		t.Errorf("core/%s is on the tour in core/doc.go and has no code", room)
	}
}

// How large the house may be. Who wants one more merges two first, or finds an import that is not needed.
const (
	mostRooms    = 30   // folders directly under core
	mostPackages = 45   // under core
	mostFloors   = 8    // packages of core on the longest way down the imports
	mostLines    = 6000 // of the Go files of a package of core, without tests
	mainLines    = 400  // of cmd/launch
)

// rooms are the folders directly under core that hold packages.
func rooms(found map[string]map[string]string) map[string]bool {
	out := map[string]bool{}
	for dir := range found {
		if below, ok := strings.CutPrefix(dir, "core/"); ok {
			room, _, _ := strings.Cut(below, "/")
			out[room] = true
		}
	}
	return out
}

// floor is on which floor of core a package stands: 1 if it imports none of core.
func floor(found map[string]map[string]string, dir string, known map[string]int) int {
	if known[dir] == 0 {
		below := 0
		for imp := range found[dir] {
			if ours, ok := strings.CutPrefix(imp, module); ok && strings.HasPrefix(ours, "core/") {
				below = max(below, floor(found, ours, known))
			}
		}
		known[dir] = below + 1
	}
	return known[dir]
}

// tooLarge lists the limits that the house exceeds.
func tooLarge(found map[string]map[string]string, lines map[string]int) (out []string) {
	exceeds := func(what string, n, most int) {
		if n > most {
			out = append(out, fmt.Sprintf("%s: %d, and at most %d", what, n, most))
		}
	}
	exceeds("rooms directly under core", len(rooms(found)), mostRooms)
	packages, floors := 0, map[string]int{}
	for dir := range found {
		if strings.HasPrefix(dir, "core/") {
			packages++
			exceeds("the floor of "+dir, floor(found, dir, floors), mostFloors)
			exceeds("lines of "+dir, lines[dir], mostLines)
		}
	}
	exceeds("packages under core", packages, mostPackages)
	exceeds("lines of cmd/launch", lines["cmd/launch"], mainLines)
	return out
}

// lines counts the lines of the packages that imports has found.
func lines(t *testing.T, root string, found map[string]map[string]string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for dir := range found {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			out[dir] += bytes.Count(text, []byte("\n"))
		}
	}
	return out
}

func TestLimits(t *testing.T) {
	found := imports(t, "..")
	for _, v := range tooLarge(found, lines(t, "..", found)) {
		t.Error(v)
	}
}

// Each limit is seen.
func TestLimitsAreSeen(t *testing.T) {
	of := func(dirs ...string) map[string]map[string]string {
		found := map[string]map[string]string{}
		for i, dir := range dirs {
			found[dir] = map[string]string{}
			if i > 0 {
				found[dir][module+dirs[i-1]] = dir + "/x.go"
			}
		}
		return found
	}
	many := func(n int, format string) (out map[string]map[string]string) {
		out = map[string]map[string]string{}
		for i := range n {
			out[fmt.Sprintf(format, i)] = nil
		}
		return out
	}
	for name, tt := range map[string]struct {
		found map[string]map[string]string
		lines map[string]int
		says  string
	}{
		"rooms":    {many(mostRooms+1, "core/r%d"), nil, "rooms directly under core: 31"},
		"packages": {many(mostPackages+1, "core/r/p%d"), nil, "packages under core: 46"},
		"a floor": {of("core/a", "core/b", "core/c", "core/d", "core/e", "core/f", "core/g", "core/h", "core/i"), nil,
			"the floor of core/i: 9"},
		"a package":     {of("core/a"), map[string]int{"core/a": mostLines + 1}, "lines of core/a: 6001"},
		"cmd/launch":    {of(), map[string]int{"cmd/launch": mainLines + 1}, "lines of cmd/launch"},
		"nothing at it": {of("core/a", "core/b"), map[string]int{"core/a": mostLines, "cmd/launch": mainLines}, ""},
	} {
		got := strings.Join(tooLarge(tt.found, tt.lines), "; ")
		if (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s: found %q, want it to say %q", name, got, tt.says)
		}
	}
}

// The rules are rules: each way of breaking them is seen.
func TestArchitectureSeesViolations(t *testing.T) {
	for name, tt := range map[string]struct{ dir, imp, says string }{
		"core imports a plugin": {"core/run", module + "plugins/sisr", "core may not import plugins/sisr"},
		"run imports a process": {"core/run", module + "core/proc", "may not import core/proc"},
		"viper outside cmd":     {"core/record", "github.com/spf13/viper", "only " + door + "settings may import"},
		"go-nvml in a command": {"cmd/launch", "github.com/NVIDIA/go-nvml/pkg/nvml",
			"only core/gpu/drivers may import"},
		"a plugin starts processes":     {"plugins/sisr", module + "core/proc", "a plugin may not import core/proc"},
		"a plugin imports another":      {"plugins/moco", module + "plugins/sisr/arch", "may not import another's"},
		"a command imports another":     {door + "plan", module + door + "run", "may not import " + door + "run"},
		"a folder that nobody planned":  {door + "util", "fmt", "not in doorFloors"},
		"a package that nobody planned": {"core/util", "fmt", "not in mayImport"},
	} {
		got := strings.Join(violations(map[string]map[string]string{tt.dir: {tt.imp: tt.dir + "/x.go"}}), "; ")
		if !strings.Contains(got, tt.says) {
			t.Errorf("%s: found %q, want it to say %q", name, got, tt.says)
		}
	}
}
