package sisr

import (
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// searches is a line that turns cudnn.benchmark on.
var searches = lazy.MustCompile(`cudnn\.benchmark\s*=\s*True`)

// benchmarks reports whether the program sets cudnn.benchmark, by its code and recipe: traiNNer-redux unless it is to
// be deterministic (train.py:268 at 68629319), BasicSR always (basicsr/train.py:96 at 8d56e3a0), neosr without a seed
// (neosr/utils/options.py:194 at 31c70226).
func (x *checkout) benchmarks() bool {
	path := x.prog.Path()
	if x.recipe.dialect == &neosr {
		path, _ = x.find("neosr/utils/options.py")
		if x.recipe.at("manual_seed").Exists() {
			return false
		}
	}
	return path != "" && !x.recipe.bool("deterministic") && python.ReadSource(path, maxRecipe).Has(searches)
}
