package identity

import (
	"slices"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

var (
	// tools are packages that no number of a training depends on: what installs, checks, shows and reports.
	tools = lazy.MustCompile(`^(pip|wheel|uv|pipx|pipdeptree|virtualenv|build|twine|certifi|black|ruff|isort|` +
		`autopep8|yapf|flake8|pyflakes|` +
		`pycodestyle|pylint|mypy|mypy-extensions|pyright|pre-commit|pytest|pytest-.*|coverage|tox|nox|ipython|` +
		`ipython-.*|ipykernel|ipywidgets|` +
		`ipdb|pdbpp|pudb|debugpy|jedi|jupyter|jupyter-.*|jupyterlab|jupyterlab-.*|notebook|notebook-shim|` +
		`nbconvert|nbformat|nbclient|` +
		`nvitop|gpustat|py-spy|memory-profiler|line-profiler|snakeviz|tensorboard|tensorboard-.*|tensorboardx|` +
		`wandb|mlflow|mlflow-skinny|` +
		`comet-ml|neptune|clearml|aim|trackio|matplotlib|matplotlib-inline|seaborn|plotly|bokeh|pygments|rich|` +
		`colorama|termcolor|launch-ml)$`)
	// numbers are packages that change numbers where others only look whether they are there.
	numbers = lazy.MustCompile(`^(torch|pytorch|triton|nvidia|cuda|cudnn|cupy|jax|flax|tensorflow|keras|numpy|` +
		`scipy|numba|llvmlite|mkl|intel|tbb|` +
		`oneccl|apex|flash|xformers|sageattention|bitsandbytes|deepspeed|accelerate|transformers|transformer|` +
		`diffusers|peft|kernels|liger|` +
		`unsloth|pillow|opencv|pyturbojpeg|libjpeg|simplejpeg|albument|imageio|av|decord|tokenizers|sentencepiece|` +
		`tiktoken|regex|ftfy|` +
		`datasets|pyarrow|pandas|sklearn|scikit|habana|rocm|amd)`)
)

// apart reports whether a difference of packages decides no result: a tool, or a package that is new, that the code
// does not import, and that has nothing to do with numbers.
func (id *Identity) apart(d Difference) bool {
	name := python.Normal(d.Name)
	if tools.MatchString(name) {
		return true
	}
	if d.Was != nil || slices.Contains(id.Unknown, "code") || numbers.MatchString(name) {
		return false
	}
	requires, modules, known := id.py.Needs(d.Name)
	return known && !slices.ContainsFunc(requires, numbers.MatchString) &&
		!slices.ContainsFunc(modules, func(module string) bool { return id.imports[module] })
}
