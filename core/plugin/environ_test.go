package plugin

import (
	"slices"
	"testing"
)

// A plugin is told of what matters to memory, and of no secret.
func TestEnviron(t *testing.T) {
	env := []string{"PATH=/bin", "CUDA_VISIBLE_DEVICES=1", "HF_TOKEN=hf_1", "AWS_SECRET_ACCESS_KEY=s", "RECIPE=x.yml", "TORCH_TOKEN=t", "EDITOR=vi", "MINE_A=1", "MINE_KEY=2", "none"}
	for name, tt := range map[string]struct {
		list, args, want []string
	}{
		"the default":           {want: []string{"PATH=/bin", "CUDA_VISIBLE_DEVICES=1", "TORCH_TOKEN=***"}},
		"a list of its own":     {list: []string{"PATH", "MINE_*"}, want: []string{"PATH=/bin", "MINE_A=1", "MINE_KEY=***"}},
		"a secret by its name":  {list: []string{"HF_TOKEN"}, want: []string{"HF_TOKEN=hf_1"}},
		"the command refers":    {list: []string{"PATH"}, args: []string{"sh", "-c", "python train.py -opt ${RECIPE} $HF_TOKEN $EDITORS"}, want: []string{"PATH=/bin", "HF_TOKEN=***", "RECIPE=x.yml"}},
		"a star for everything": {list: []string{"*"}, want: []string{"PATH=/bin", "CUDA_VISIBLE_DEVICES=1", "HF_TOKEN=***", "AWS_SECRET_ACCESS_KEY=***", "RECIPE=x.yml", "TORCH_TOKEN=***", "EDITOR=vi", "MINE_A=1", "MINE_KEY=***"}},
	} {
		got := Manifest{Env: tt.list}.Environ(env, tt.args)
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
