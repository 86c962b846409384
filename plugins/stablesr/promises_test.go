package stablesr

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
		from   string
		recipe func(string) string
		args   []string
		device gpu.Device
		env    string
	}{
		"stock":                             {"checkout", nil, []string{"main.py", "--train", "--base", "r.yaml", "--gpus", "0,"}, card(24 * unit.GiB), ""},
		"on a CPU":                          {"checkout", nil, []string{"main.py", "--train", "--base", "r.yaml"}, gpu.Device{Kind: gpu.CPU, Total: 64 * unit.GiB}, ""},
		"edges, segments expandable before": {"edge", edged, []string{"main.py", "--train", "--base", "r.yaml", "--gpus", "0,"}, card(40 * unit.GiB), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
		"a fork with averages": {"fork", replace("use_ema: False", "use_ema: True"),
			[]string{"main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--actual_resume", "m.ckpt"},
			card(40 * unit.GiB), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := ""
			if tt.from == "fork" {
				dir = fork(t, map[string]func(string) string{"r.yaml": tt.recipe})
			} else {
				dir = checkoutDir(t, tt.from, map[string]func(string) string{"r.yaml": tt.recipe})
			}
			plugintest.Check(t, New(), job.Command{Args: append([]string{python}, tt.args...), Dir: dir, Env: append(os.Environ(), tt.env)}, tt.device)
		})
	}
}

// The plugin's program passes the kit as any other author's does, on the example and on a checkout of these tests.
func TestProgram(t *testing.T) {
	python, env := plugintest.Torch(t, "2.4.0"), os.Environ()
	stock := []string{python, "main.py", "--train", "--base", "r.yaml", "--gpus", "0,"}
	example := []string{python, "main.py", "--train", "--base", "configs/demo.yaml", "--gpus", "0,", "--name", "demo"}
	recipe := map[string]func(string) string{"r.yaml": nil}
	plugintest.Program(t, "./launch-plugin-stablesr",
		kit.Case{Name: "stock",
			Command: job.Command{Args: stock, Dir: checkoutDir(t, "checkout", recipe), Env: env}},
		kit.Case{Name: "example",
			Command: job.Command{Args: example, Dir: "../../examples/stablesr", Env: env}})
}
