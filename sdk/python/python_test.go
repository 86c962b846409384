// Package python has the tests of the Python SDK that need launch: its examples pass the kit as any plugin does.
package python

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// interpreter is a Python with grpcio and torch: `make deps` installs them.
func interpreter(t *testing.T) string {
	t.Helper()
	path := os.Getenv("LAUNCH_TEST_PYTHON")
	if path == "" {
		path = "/usr/bin/python3"
	}
	if out, err := exec.Command(path, "-c", "import grpc, torch").CombinedOutput(); err != nil {
		t.Fatalf("%s lacks grpcio or torch; `make deps` installs them: %v\n%s", path, err, out)
	}
	return path
}

// example is an example's plugin: a client for each command, whose process ends when it has been priced.
type example struct {
	*host.Client
	t      *testing.T
	source host.Source
}

// Recognize implements [plugin.Plugin].
func (e example) Recognize(ctx context.Context, c job.Command) (plugin.Recognized, error) {
	r, err := connect(e.t, e.source).Recognize(ctx, c)
	if err != nil {
		return nil, err
	}
	return &recognized{Recognized: r, again: func() (plugin.Recognized, error) {
		return connect(e.t, e.source).Recognize(ctx, r.Job().Command)
	}}, nil
}

// recognized may be priced several times, each time by a process of its own.
type recognized struct {
	plugin.Recognized
	again  func() (plugin.Recognized, error)
	priced bool
}

// Ladders implements [plugin.Recognized].
func (r *recognized) Ladders(ctx context.Context, d gpu.Device) (*ladder.Set, error) {
	now := r.Recognized
	if r.priced {
		var err error
		if now, err = r.again(); err != nil {
			return nil, err
		}
	}
	r.priced = true
	return now.Ladders(ctx, d)
}

func connect(t *testing.T, s host.Source) *host.Client {
	t.Helper()
	c, err := host.Start(t.Context(), s, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// find finds a plugin's program as launch does. Its first line asks env for python3: the interpreter comes first on
// the PATH.
func find(t *testing.T, path string) host.Source {
	t.Helper()
	bin := t.TempDir()
	script := "#!/bin/sh\nexec " + interpreter(t) + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := host.Ask(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return host.Source{Manifest: manifest, Path: path}
}

var card = gpu.Device{Kind: gpu.CUDA, Name: "a card", Total: 24 * unit.GiB, Capability: "8.6", Planned: true}

// The examples keep what every plugin promises.
func TestExamples(t *testing.T) {
	for name, args := range map[string][]string{
		"tinytext": {"train_text.py", "-c", "run.json", "--batch-size=2"},
		"tinynet":  {"train_net.py", "-b", "2", "--accumulate", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			source := find(t, filepath.Join("examples", name, "launch-plugin-"+name))
			c := job.Command{Args: append([]string{interpreter(t)}, args...), Env: os.Environ(),
				Dir: filepath.Join("examples", name, "project")}
			plugintest.Check(t, example{connect(t, source), t, source}, c, card)
		})
	}
}
