package sisr

import (
	"os"
	"strings"
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
	card, cpu := gpu.Device{Kind: gpu.CUDA, Total: 24 * unit.GiB, Capability: "8.6"}, gpu.Device{Kind: gpu.CPU, Total: 8 * unit.GiB}
	for name, tt := range map[string]struct {
		recipe *strings.Replacer
		device gpu.Device
		env    string
	}{
		"compact":                    {strings.NewReplacer(), card, ""},
		"on a CPU":                   {strings.NewReplacer(), cpu, ""},
		"segments expandable before": {strings.NewReplacer(), card, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
		"blocks that are not split":  {strings.NewReplacer("type: compact", "type: esrgan"), card, "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:32"},
		"a transformer":              {strings.NewReplacer("type: compact", "type: swinir_s"), card, ""},
		"a GAN in bfloat16": {strings.NewReplacer("type: compact\n", "type: span\nnetwork_d:\n  type: unetdiscriminatorsn\n", "use_amp: false", "use_amp: true\namp_bf16: true",
			"{type: l1loss, loss_weight: 1.0}", "{type: l1loss, loss_weight: 1.0}\n    - {type: ganloss, gan_type: vanilla, loss_weight: 0.1}"), card, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, map[string]string{"x.yml": tt.recipe.Replace(recipeYAML)}, map[string][2]int{"val/a.png": {96, 200}, "gt/a.png": {300, 300}})
			plugintest.Check(t, New(), job.Command{Args: []string{python, "train.py", "-opt", "x.yml"}, Dir: dir, Env: append(os.Environ(), tt.env)}, tt.device)
		})
	}
}

// The plugin's program passes the kit as any other author's does, on the example and on a recipe of these tests.
func TestProgram(t *testing.T) {
	python, env := plugintest.Torch(t, "2.4.0"), os.Environ()
	dir := folder(t, map[string]string{"x.yml": recipeYAML},
		map[string][2]int{"val/a.png": {96, 200}, "gt/a.png": {300, 300}})
	example := func(recipe string) job.Command {
		return job.Command{Args: []string{python, "train.py", "-opt", "options/" + recipe},
			Dir: "../../examples/sisr", Env: env}
	}
	plugintest.Program(t, "./launch-plugin-sisr",
		kit.Case{Name: "compact",
			Command: job.Command{Args: []string{python, "train.py", "-opt", "x.yml"}, Dir: dir, Env: env}},
		kit.Case{Name: "example, window attention", Command: example("train_window.yml")},
		kit.Case{Name: "example on a CPU", Command: example("tiny.yml"),
			Device: gpu.Device{Kind: gpu.CPU, Total: 8 * unit.GiB}})
}
