package identity

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

var (
	// reads matches a variable that Python source reads by its name.
	reads = lazy.MustCompile(`(?:environ(?:\.get\(|\.setdefault\(|\.pop\(|\[)|getenvb?\()\s*b?["'](\w+)["']`)
	// within matches `"NAME" in os.environ`.
	within = lazy.MustCompile(`["'](\w+)["']\s+(?:not\s+)?in\s+(?:os\.)?environ`)
	// expanded matches a variable in a recipe, a shell script or an argument: ${oc.env:NAME,default}, ${NAME}, $NAME.
	expanded = lazy.MustCompile(`\$\{(?:oc\.env:|env:|oc\.decode:)?([A-Za-z_]\w*)|\$([A-Za-z_]\w*)`)
	// numeric are variables that change the numbers of a training, whether or not the project's files name them.
	numeric = lazy.MustCompile(`^(PYTHONHASHSEED|PYTHONOPTIMIZE|CUBLAS_WORKSPACE_CONFIG|NVIDIA_TF32_OVERRIDE|` +
		`TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|TORCH_CUDNN_\w+|PL_GLOBAL_SEED|PL_SEED_WORKERS|XLA_FLAGS|JAX_\w+|` +
		`TF_(?:DETERMINISTIC|CUDNN|ENABLE)_\w+|` +
		`TORCHDYNAMO_\w+|TORCH_COMPILE_\w+|TORCHINDUCTOR_\w+|PYTORCH_JIT|ACCELERATE_(?:MIXED|DOWNCAST|GRADIENT|` +
		`DYNAMO|USE)_\w+|FSDP_\w+|MKL_CBWR|KMP_DETERMINISTIC_REDUCTION)$`)
	// passing are variables that differ from start to start of one experiment: where it runs, as which user, how its
	// ranks meet, where it reports to. What they change is compared on its own, or changes no result.
	passing = lazy.MustCompile(`^(SLURM_|SLURMD_|PBS_|LSB_|OMPI_|PMI_|PMIX_|SSH_|XDG_|WANDB_|COMET_|MLFLOW_|NEPTUNE_|` +
		`AWS_|GOOGLE_|AZURE_|GITHUB_|HF_TOKEN$|HUGGING_FACE_HUB_TOKEN$|MASTER_|NCCL_|GLOO_|TORCHELASTIC_|TORCH_NCCL_|` +
		`TORCH_DISTRIBUTED_|KUBERNETES_|LAUNCH_|OMP_|MKL_NUM|GROUP_|ROLE_|(LOCAL_|NODE_)?RANK$|(LOCAL_)?WORLD_SIZE$|` +
		`CUDA_VISIBLE_DEVICES$|CUDA_DEVICE_ORDER$|CUDA_LAUNCH_BLOCKING$|NVIDIA_VISIBLE_DEVICES$|HIP_VISIBLE_DEVICES$|` +
		`ROCR_VISIBLE_DEVICES$|ZE_AFFINITY_MASK$|PYTORCH_((CUDA|HIP)_)?ALLOC_CONF$|TMPDIR$|TMP$|TEMP$|` +
		`HOME$|USER$|USERNAME$|LOGNAME$|HOST$|` +
		`HOSTNAME$|PATH$|PWD$|OLDPWD$|SHELL$|SHLVL$|TERM$|COLORTERM$|COLUMNS$|LINES$|LANG$|LC_|DISPLAY$|EDITOR$|_$|` +
		`PYTHONPATH$|PYTHONUNBUFFERED$|PYTHONDONTWRITEBYTECODE$|VIRTUAL_ENV$|CONDA_|LD_LIBRARY_PATH$|JOB_ID$|TZ$|` +
		`TQDM_|FORCE_COLOR$|NO_COLOR$|CI$|DEBUG$|VERBOS(E|ITY)$|LOGLEVEL$|LOG_LEVEL$|TMUX|STY$|WINDOW(ID)?$|XAUTHORITY$|` +
		`DBUS_|KRB5|JPY_|JUPYTER|IPYTHON|IPY_|COLAB_|KAGGLE_|VSCODE_|PYCHARM_|PYDEVD_|` +
		`MPLBACKEND$|MPLCONFIGDIR$|TERM_|APPTAINER_|` +
		`SINGULARITY_|TOKENIZERS_PARALLELISM$|TF_CPP_|GRPC_|GLOG_|ABSL_|TENSORBOARD_|CLEARML_|PYTHONWARNINGS$|` +
		`PYTHONFAULTHANDLER$|PYTHONPYCACHEPREFIX$|NUMEXPR_|OPENBLAS_NUM|VECLIB_|` +
		`TORCH_HOME$|HF_HOME$|HF_(HUB_|DATASETS_)?CACHE$|` +
		`HF_HUB_(OFFLINE|DISABLE_\w+|ENABLE_\w+|VERBOSITY)$|` +
		`HF_DATASETS_OFFLINE$|TRANSFORMERS_(CACHE|OFFLINE|VERBOSITY)$)`)

	// alias matches another name that source gives to the environment, or to what reads it.
	alias = lazy.MustCompile(`\b(?:environ|getenv)\s+as\s+(\w+)|` +
		`(?m:^\s*(\w+)\s*=\s*(?:dict\(\s*)?(?:os\.)?(?:environ|getenv)\b(?:\.copy\(\)|\.get)?\s*\)?\s*$)`)
	// readsBy matches a variable that source reads by the name of a constant.
	readsBy = lazy.MustCompile(`(?:environ(?:\.get\(|\.setdefault\(|\.pop\(|\[)|getenvb?\()\s*([A-Za-z_]\w*)\s*[,)\]]`)
	// constant matches a constant with a text that may be a variable's name.
	constant = lazy.MustCompile(`(?m:^\s*(\w+)\s*=\s*["'](\w+)["']\s*(?:#.*)?$)`)
	// stem matches how the names of several variables begin that source reads: by a loop over all of them, by a name that
	// is put together, or by a parser of arguments or settings that looks there.
	stem = lazy.MustCompile(`(?:environ(?:\.get\(|\[)|getenvb?\()\s*(?:[fF]["'](\w{3,})\{|["'](\w{3,})["']\s*\+)|` +
		`\benv_prefix\s*=\s*["'](\w{2,})["']|\bauto_envvar_prefix\s*=\s*["'](\w{2,})["']`)
	begins = lazy.MustCompile(`\.startswith\(\s*["']([A-Z][A-Z0-9]+_)["']`)
	loops  = lazy.MustCompile(`\benviron\.(?:items|keys|copy)\(|\bin\s+(?:os\.)?environ\b|\((?:os\.)?environ\)`)
	// bound matches a variable that an option or a field of settings takes its value from.
	bound = lazy.MustCompile(`\b(?:env|envvar|env_var|validation_alias)\s*=\s*\[?["'](\w+)["']`)
	// field matches a field of pydantic's settings, which are variables of the same names in any case.
	field = lazy.MustCompile(`(?m:^[ \t]+(\w+)[ \t]*:[ \t]*[A-Za-z])`)
	// set matches what follows the name where a variable is set and not read.
	set = lazy.MustCompile(`^\s*\]\s*=[^=]`)
)

// readEnv takes the variables that matter. names are those that the project's files read.
func (id *Identity) readEnv(s Subject, env []string, names []string) {
	last := map[string]string{}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			last[name] = value
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return passing.MatchString(name) })
	slices.Sort(names)
	id.Reads = slices.Compact(names)
	var all []string
	for name := range last {
		if numeric.MatchString(name) || id.reads(name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		if value, set := last[name]; set {
			id.Env = append(id.Env, s.hashed([]string{name + "=" + value}, id.Salt)[0])
		}
	}
}

// reads reports whether the project's files read a variable. Those of one stem are kept as "STEM*".
func (id *Identity) reads(name string) bool {
	if _, ok := slices.BinarySearch(id.Reads, name); ok {
		return true
	}
	return !passing.MatchString(name) && slices.ContainsFunc(id.Reads, func(read string) bool {
		stem, ok := strings.CutSuffix(read, "*")
		return ok && strings.HasPrefix(name, stem)
	})
}

// mayRead are words without which source reads no variable.
var mayRead = []string{"environ", "getenv", "env_prefix", "envvar", "env_var", "BaseSettings"}

// variablesIn are the variables that Python source reads.
func variablesIn(code string) (names []string) {
	names = bindsIn(code)
	names = named(names, code, within)
	take := func(text string, pattern interface {
		FindAllStringSubmatchIndex(string, int) [][]int
	}) {
		for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
			if !set.MatchString(text[at[1]:min(len(text), at[1]+20)]) {
				names = append(names, text[at[2]:at[3]])
			}
		}
	}
	take(code, reads)
	for _, m := range alias.FindAllStringSubmatch(code, -1) {
		take(code, regexp.MustCompile(`\b`+m[1]+m[2]+`(?:\.get\(|\.setdefault\(|\.pop\(|\[|\()\s*b?["'](\w+)["']`))
	}
	by := named(nil, code, readsBy)
	if len(by) == 0 {
		return names
	}
	for _, m := range constant.FindAllStringSubmatch(code, -1) {
		if slices.Contains(by, m[1]) {
			names = append(names, m[2])
		}
	}
	return names
}

// bindsIn are the variables that source reads without naming them where it reads: those of a stem, and those that
// options and settings are bound to.
func bindsIn(code string) (names []string) {
	stems := named(nil, code, stem)
	if loops.MatchString(code) {
		stems = named(stems, code, begins)
	}
	for _, s := range stems {
		names = append(names, s+"*", strings.ToUpper(s)+"*")
	}
	names = named(names, code, bound)
	if strings.Contains(code, "BaseSettings") {
		for _, name := range named(nil, code, field) {
			names = append(names, name, strings.ToUpper(name))
		}
	}
	return names
}

// named adds the variables that a text reads, by a pattern with the name in a group.
func named(into []string, text string, pattern *lazy.Regexp) []string {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		for _, name := range m[1:] {
			if name != "" {
				into = append(into, name)
			}
		}
	}
	return into
}

// number is the value of a variable that is a number; 0 for anything else.
func number(env []string, name string) int64 {
	for _, kv := range slices.Backward(env) {
		if n, value, ok := strings.Cut(kv, "="); ok && n == name {
			v, _ := strconv.ParseInt(value, 10, 64)
			return v
		}
	}
	return 0
}
