package sisr

import (
	"strings"
	"testing"
)

// Whether cudnn.benchmark is on follows from the program's own code and its recipe.
func TestBenchmarks(t *testing.T) {
	const on, deterministic = "torch.backends.cudnn.benchmark = True\n", "deterministic: true\n"
	const toml = "name = \"n\"\nmodel_type = \"image\"\nscale = 4\n[datasets.train]\npatch_size = 64\nbatch_size = " +
		"8\n[network_g]\ntype = \"compact\"\n[train]\nema = 0.999\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"traiNNer-redux's": {map[string]string{"train.py": "if opt.deterministic:\n    " +
			"torch.backends.cudnn.benchmark = False\nelse:\n    " + on, "x.yml": recipeYAML}, true},
		"deterministic": {map[string]string{"train.py": on, "x.yml": recipeYAML + deterministic}, false},
		"turned off": {map[string]string{"train.py": strings.Replace(on, "True", "False", 1),
			"x.yml": recipeYAML}, false},
		"in a comment":         {map[string]string{"train.py": "# " + on, "x.yml": recipeYAML}, false},
		"no script to be read": {map[string]string{"x.yml": recipeYAML}, false},
		"neosr's, without a seed": {map[string]string{"train.py": "",
			"neosr/utils/options.py": "seed = random.randint(1, 2)\n" + on, "x.toml": toml}, true},
		"neosr's, with one": {map[string]string{"train.py": "", "neosr/utils/options.py": on,
			"x.toml": "manual_seed = 1\n" + toml}, false},
		"neosr's, without its options": {map[string]string{"train.py": on, "x.toml": toml}, false},
	} {
		opt := "x.yml"
		if tt.files[opt] == "" {
			opt = "x.toml"
		}
		j, err := recognize(t, folder(t, tt.files, nil), "python", "train.py", "-opt", opt)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if j.Signs.Benchmark != tt.want {
			t.Errorf("%s: %v, want %v", name, j.Signs.Benchmark, tt.want)
		}
	}
}
