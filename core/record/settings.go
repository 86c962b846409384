package record

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/run"
)

// readJob reads the settings with which the last attempt ran: the recipe's, the command's, and what launch changed.
func (s *side) readJob(r *run.Run) {
	j := r.Job
	s.values[kindCommand]["folder"] = j.Command.Dir
	s.values[kindVersions]["plugin"] = j.Plugin
	put(s.values, "arch", j.Arch)
	inRecipe := map[string]bool{}
	for _, f := range j.Files {
		doc, err := config.Parse(f.Path, f.Text)
		if len(f.Text) == 0 || err != nil {
			continue
		}
		leaves(doc.Root(), nil, func(path string, v config.Value) {
			inRecipe[path] = true
			text, ok := doc.Get(path)
			if !ok {
				text = v.Text()
			}
			put(s.values, path, strings.Join(strings.Fields(text), " "))
		})
	}
	arguments(s.values, s.run.Command)
	for _, k := range j.Knobs { // a knob that no file of the recipe has: an option, a default
		name := cmp.Or(k.At.Path, k.Name)
		if _, typed := s.values[kindSettings][name]; k.Value != "" && !inRecipe[name] && !typed {
			put(s.values, name, k.Value)
		}
	}
	for _, kv := range j.Command.Env {
		name, value, _ := strings.Cut(kv, "=")
		if environmentMatters.MatchString(name) {
			s.values[kindEnvironment][name] = value
		}
	}
	s.edited(r)
}

// edited overlays what the user set with --set, and what launch changed.
func (s *side) edited(r *run.Run) {
	edits := r.Job.Asked
	for _, a := range r.Attempts {
		if a.Plan.Trial == "" && a.Plan.Attempt == s.run.Attempt {
			edits = append(edits[:len(edits):len(edits)], a.Plan.Edits...)
		}
	}
	for _, e := range edits {
		switch {
		case e.Knob == "resume":
		case e.At.Doc == config.EnvDoc && e.Remove:
			delete(s.values[kindEnvironment], e.At.Path)
		case e.At.Doc == config.EnvDoc:
			s.values[kindEnvironment][e.At.Path] = e.To
		case e.Remove:
			delete(s.values[kindSettings], e.At.Path)
		default:
			put(s.values, e.At.Path, e.To)
		}
	}
}

// environmentMatters are the variables that change how a PyTorch program runs.
var environmentMatters = lazy.MustCompile(`^(CUDA_|PYTORCH_|TORCH_|NCCL_|OMP_|MKL_|MALLOC_|CUBLAS_|` +
	`NVIDIA_|LD_PRELOAD$|` +
	`LD_LIBRARY_PATH$|PYTHON|VIRTUAL_ENV$|CONDA_DEFAULT_ENV$|HF_HUB_OFFLINE$|SLURM_JOB_PARTITION$|SLURM_CPUS_PER_TASK$)`)

// Settings that choose what a training reads: by their own name ("dataroot_gt", "--data"), or by a name that means data
// only below a section of data ("data.root"). Other settings of such a section ("datasets.train.batch_size") are none.
var (
	diffData = lazy.MustCompile(`(?i)^-*(data|datasets?|data[_-]?(root|sets?|dir|path|files?|names?)([_-].*)?|corpus|` +
		`annotations?|meta_info|ann_file|(train|val|valid|test|eval)[_-]?(data|files?|dir|path|sets?))$`)
	place   = lazy.MustCompile(`(?i)^(root|paths?|dir|files?|name|split)$`)
	section = lazy.MustCompile(`(?i)(^|\.)(data|datasets?)(\.|$)`)
)

// ofData reports whether a setting chooses what a training reads.
func ofData(name string) bool {
	above, last := "", name
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		above, last = name[:i], name[i+1:]
	}
	return diffData.MatchString(last) || place.MatchString(last) && section.MatchString(above)
}

// put adds a setting, as data if its name is that of data. Secrets are masked: a diff is there to be shown.
func put(values map[string]map[string]string, name, value string) {
	if name == "" {
		return
	}
	kind := kindSettings
	if ofData(name) {
		kind = kindData
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	values[kind][name] = MaskArgs([]string{"--" + last, value})[1]
}

// bourneShells read their arguments as a program, which is compared as a whole.
var bourneShells = []string{"sh", "bash", "dash", "zsh"}

// arguments adds the options of a command, and its other words in order. An option before the script, as of python -u,
// takes no value.
func arguments(values map[string]map[string]string, args []string) {
	if len(args) == 0 {
		return
	}
	if slices.Contains(bourneShells, filepath.Base(args[0])) {
		values[kindCommand]["words"] = strings.Join(args, " ")
		return
	}
	var rest []string
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		switch {
		case !strings.HasPrefix(name, "-") || name == "-" || name == "--":
			rest = append(rest, args[i])
			continue
		case given:
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && len(rest) > 1:
			value = args[i+1]
			i++
		}
		put(values, name, value)
	}
	values[kindCommand]["words"] = strings.Join(rest, " ")
}

// leaves calls see for all settings below a value. A list is one setting.
func leaves(v config.Value, at []string, see func(path string, v config.Value)) {
	if v.Kind() != config.Map {
		if len(at) > 0 {
			see(config.JoinPath(at...), v)
		}
		return
	}
	for _, key := range v.Keys() {
		leaves(v.Get(key), append(at[:len(at):len(at)], key), see)
	}
}
