package moco

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
	card := gpu.Device{Kind: gpu.CUDA, Total: 24 * unit.GiB}
	for name, tt := range map[string]struct {
		checkout string
		args     []string
		device   gpu.Device
		env      string
	}{
		"v2":                         {"v2", []string{"main_moco.py", "-a", "resnet18", "--batch-size", "64", "--mlp", "--multiprocessing-distributed", "--world-size", "1", "--rank", "0", "data"}, card, ""},
		"segments expandable before": {"v3", []string{"main_moco.py", "--batch-size", "64", "--multiprocessing-distributed", "--world-size", "1", "--rank", "0", "data"}, card, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
		"the satellite project":      {"solar", []string{"main.py"}, card, ""},
		"on a CPU":                   {"solar_exp", []string{"main.py"}, gpu.Device{Kind: gpu.CPU, Total: 8 * unit.GiB}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugintest.Check(t, New(), job.Command{Args: append([]string{python}, tt.args...), Dir: checkout(t, tt.checkout, nil), Env: append(os.Environ(), tt.env), Devices: 1}, tt.device)
		})
	}
}

// The plugin's program passes the kit as any other author's does, on the example and on a checkout of these tests.
func TestProgram(t *testing.T) {
	python, env := plugintest.Torch(t, "2.4.0"), os.Environ()
	args := []string{python, "main_moco.py", "-a", "resnet18", "--batch-size", "64", "--mlp",
		"--multiprocessing-distributed", "--world-size", "1", "--rank", "0", "data"}
	plugintest.Program(t, "./launch-plugin-moco",
		kit.Case{Name: "v2",
			Command: job.Command{Args: args, Dir: checkout(t, "v2", nil), Env: env}},
		kit.Case{Name: "example",
			Command: job.Command{Args: []string{python, "main.py"}, Dir: "../../examples/moco", Env: env}})
}
