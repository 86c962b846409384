// Package plugintest tests a plugin that is written in Go, from the plugin's own tests:
//
//	func TestPromises(t *testing.T) {
//		plugintest.Check(t, mine.New(), job.Command{Args: []string{"python3", "train.py", "-opt", "x.yml"}, Dir: "testdata/project", Env: os.Environ()}, card)
//	}
//
// The checks are those of [github.com/launch-ml/launch/core/plugin/kit]; `launch plugins test` makes them of a plugin
// in any language. A small whole plugin is kit/testdata/faulty.
package plugintest

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/plugin/kit"
)

// deadline bounds an answer. It is generous: the machine may be busy with other tests.
const deadline = time.Minute

// Check makes all checks of p, on the command c and the device d. c.Dir is copied, and read from the copy; Python
// files that p asks for are read by the command's own interpreter, or by python3.
func Check(t testing.TB, p plugin.Plugin, c job.Command, d gpu.Device) {
	t.Helper()
	Report(t, p, kit.Case{Name: "command", Command: c, Device: d})
}

// Recipes makes all checks of p on the cases of a folder of recipes, as `launch plugins test` does.
func Recipes(t testing.TB, p plugin.Plugin, dir string, env []string) {
	t.Helper()
	cases, err := kit.Read(dir, env)
	if err != nil {
		t.Fatal(err)
	}
	Report(t, p, cases...)
}

// Program builds a plugin's program, such as "./launch-plugin-mine", and makes all checks of it in a process of its
// own, as launch starts it.
func Program(t testing.TB, pkg string, cases ...kit.Case) {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	Executable(t, path, kit.Options{Cases: cases})
}

// Executable makes the checks of a plugin's program, in any language, in a process of its own, as launch starts it. Of
// o, Open is set here.
func Executable(t testing.TB, path string, o kit.Options) {
	t.Helper()
	m, err := host.Ask(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	check(t, o, func(ctx context.Context) (kit.Opened, error) {
		c, err := host.StartForTest(ctx, host.Source{Manifest: m, Path: path})
		if err != nil {
			return kit.Opened{}, err
		}
		return kit.Opened{Plugin: c, PID: c.PID(), Close: c.Close}, nil
	})
}

// Report makes all checks of p on the cases.
func Report(t testing.TB, p plugin.Plugin, cases ...kit.Case) {
	t.Helper()
	check(t, kit.Options{Cases: cases}, func(context.Context) (kit.Opened, error) { return kit.Opened{Plugin: p}, nil })
}

func check(t testing.TB, o kit.Options, open func(context.Context) (kit.Opened, error)) {
	t.Helper()
	o.Open, o.Deadline = open, deadline
	report, err := kit.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Errorf("%v\n\t%s", f, f.Mend)
	}
	if report.Recognised() == 0 {
		t.Errorf("no case was recognised: %+v", report.Cases)
	}
}

// Ladders recognises the command c and prices it on the device d.
func Ladders(t testing.TB, p plugin.Plugin, c job.Command, d gpu.Device) *ladder.Set {
	t.Helper()
	r, err := plugin.Answer(t.Context(), p.Recognize, &c, kit.Finder{Command: c, Cache: t.TempDir()})
	if err != nil || r == nil || r.Job() == nil {
		t.Fatalf("%q is not recognised: %v", c.Args, err)
	}
	set, err := r.Ladders(t.Context(), d)
	if err != nil || set == nil {
		t.Fatalf("%q cannot be priced: %v", c.Args, err)
	}
	if err := set.Check(); err != nil {
		t.Fatalf("%q: launch refuses its ladders: %v", c.Args, err)
	}
	return set
}
