package dualattn

import (
	"os"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// Every rung of every ladder is priced as the job that it makes would be.
func TestPromises(t *testing.T) {
	python := plugintest.Torch(t, "2.4.0")
	for name, tt := range map[string]struct {
		model, task, dataset string
		device               gpu.Device
		env                  string
	}{
		"segments expandable before": {"three streams", "fgvc", "cub", card(16 * unit.GiB), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
		"re-identification":          {"three streams", "reid", "market1501", card(16 * unit.GiB), ""},
		"on a CPU":                   {"overwritten", "fgvc", "cub", gpu.Device{Kind: gpu.CPU, Total: 8 * unit.GiB}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, files(tt.model))
			plugintest.Check(t, New(), job.Command{Args: []string{python, "train.py", "--task", tt.task, "--dataset", tt.dataset}, Dir: dir, Env: append(os.Environ(), tt.env)}, tt.device)
		})
	}
}

// The plugin's program passes the kit as any other author's does, on the example and on a project of these tests.
func TestProgram(t *testing.T) {
	python, env := plugintest.Torch(t, "2.4.0"), os.Environ()
	command := func(dir, task, dataset string) job.Command {
		return job.Command{Args: []string{python, "train.py", "--task", task, "--dataset", dataset}, Dir: dir, Env: env}
	}
	plugintest.Program(t, "./launch-plugin-dualattn",
		kit.Case{Name: "re-identification", Command: command(write(t, files("three streams")), "reid", "market1501")},
		kit.Case{Name: "example", Command: command("../../examples/dualattn", "fgvc", "shapes")})
}
