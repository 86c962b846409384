package templates

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin/declared"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/plugin/plugintest"
)

// deadline bounds an answer. It is generous: the machine may be busy with other tests.
const deadline = time.Minute

var regexpGo = regexp.MustCompile(`(?m)^go \S+$`)

// interpreter is a Python with grpcio: `make deps` installs it.
func interpreter() string {
	if path := os.Getenv("LAUNCH_TEST_PYTHON"); path != "" {
		return path
	}
	return "/usr/bin/python3"
}

// checkout is this repository.
func checkout(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// write makes a plugin in a new folder.
func write(t *testing.T, p Plugin) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), p.Folder())
	if _, err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The template of a plugin in Go is a package of this repository, whose own test is the kit. What is made of it is
// built outside by cmd/launch's TestPluginOutside.
func TestGo(t *testing.T) {
	dir := write(t, Plugin{Name: "my-net", Kind: Go, Checkout: checkout(t)})
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexpGo.Find(ours)
	if !bytes.Contains(mod, line) || !bytes.Contains(mod, []byte("module launch-plugin-my-net\n")) {
		t.Errorf("go.mod lacks %q or its name:\n%s", line, mod)
	}
}

// A plugin in Python passes the kit as it is made, with an environment as pip would have made it.
func TestPython(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen interpreters")
	}
	dir := write(t, Plugin{Name: "my-net", Kind: Python, Checkout: checkout(t)})
	run := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Dir, c.Env = dir, append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	program := filepath.Join(dir, "launch-plugin-my-net")
	_, err := host.Ask(t.Context(), program)
	if err == nil || !strings.Contains(err.Error(), "there is no environment yet") {
		t.Errorf("without an environment: %v", err)
	}
	run(interpreter(), "-m", "venv", "--without-pip", "--system-site-packages", ".venv")
	sites, err := filepath.Glob(filepath.Join(dir, ".venv", "lib", "python3*", "site-packages"))
	if err != nil || len(sites) != 1 {
		t.Fatalf("site-packages: %v, %v", sites, err)
	}
	path := []byte(filepath.Join(checkout(t), "sdk", "python", "src") + "\n")
	if err := os.WriteFile(filepath.Join(sites[0], "sdk.pth"), path, 0o644); err != nil {
		t.Fatal(err)
	}
	run(filepath.Join(dir, ".venv", "bin", "python"), "-m", "unittest", "-q", "-b")
	manifest, err := host.Ask(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := kit.Read(filepath.Join(dir, "recipes"), os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	passes(t, kit.Options{Cases: cases, Open: func(ctx context.Context) (kit.Opened, error) {
		c, err := host.StartForTest(ctx, host.Source{Manifest: manifest, Path: program})
		if err != nil {
			return kit.Opened{}, err
		}
		return kit.Opened{Plugin: c, PID: c.PID(), Close: c.Close}, nil
	}})
}

// passes makes the kit's tests.
func passes(t *testing.T, o kit.Options) {
	t.Helper()
	o.Deadline = deadline
	report, err := kit.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Errorf("%v\n\t%s", f, f.Mend)
	}
	if report.Recognised() == 0 {
		t.Errorf("nothing was recognised: %+v", report.Cases)
	}
}

// A declared project passes the kit, and has an estimate.
func TestDeclared(t *testing.T) {
	dir := write(t, Plugin{Name: "my-net", Kind: Declared})
	c := job.Command{Args: []string{"python3", "train.py", "-b", "32"}, Dir: dir, Env: os.Environ()}
	other := c // ready declarations know some of the kit's own commands of other families
	other.Args = []string{"python3", "no_such_script.py"}
	passes(t, kit.Options{Cases: []kit.Case{{Name: "defaults", Command: c}},
		Foreign: []kit.Case{{Name: "other", Command: other}},
		Open:    func(context.Context) (kit.Opened, error) { return kit.Opened{Plugin: declared.New()}, nil }})
	set := plugintest.Ladders(t, declared.New(), c, kit.Card)
	if e := set.Phases[0].Rungs[0].At(0); !e.Known() {
		t.Errorf("there is no estimate: %s", e.Unknown)
	}
}

// The trainings of the three are one.
func TestSameTraining(t *testing.T) {
	want, err := files.ReadFile("declared/train.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go", "python"} {
		got, err := files.ReadFile(name + "/recipes/defaults/train_newplugin.py")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s has another training than declared (%v)", name, err)
		}
	}
}

// Nothing of the templates' own names is left, and nothing is written where files are.
func TestWrite(t *testing.T) {
	for _, kind := range []Kind{Go, Python, Declared} {
		p := Plugin{Name: "my-net", Kind: kind, Version: "v1.2.3"}
		dir := write(t, p)
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			for _, left := range []string{placeholder, "LAUNCH_VERSION", "LAUNCH_PLUGIN_SDK"} {
				if strings.Contains(string(text), left) || strings.Contains(path, left) {
					t.Errorf("%s has %q left", path, left)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if _, err := p.Write(dir); err == nil || !strings.Contains(err.Error(), "not empty: nothing was written") {
			t.Errorf("a folder with files: %v", err)
		}
		entries, err := os.ReadDir(filepath.Dir(dir))
		if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != p.Folder() }) {
			t.Errorf("it left %v beside the plugin (%v)", entries, err)
		}
		if _, err := p.Write(t.TempDir()); err != nil {
			t.Errorf("an empty folder: %v", err)
		}
	}
	for _, name := range []string{"", "A", "a b", "../a", "a/b", "-a", "a-", "ü", strings.Repeat("a", 41)} {
		if (Plugin{Name: name, Kind: Declared}).Check() == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}
