package plugin

import (
	"slices"
	"strings"
)

// Variables are the environment that a plugin is told of unless its manifest lists its own: what decides which Python and
// which cards a command uses, how many processes it starts, and what its allocators do. A name that ends with "*" is a prefix.
var Variables = []string{
	"PATH", "HOME", "LANG", "LC_*", "TZ", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD",
	"PYTHON*", "VIRTUAL_ENV", "CONDA_*", "PYENV_*", "UV_*", "PIXI_*", "MAMBA_ROOT_PREFIX", "XDG_CACHE_HOME",
	"HF_HOME", "CDPATH",
	"CUDA_*", "NVIDIA_*", "HIP_*", "ROCR_*", "PYTORCH_*", "TORCH_*", "TORCHINDUCTOR_*", "TRITON_*", "NCCL_*", "GLOO_*", "XFORMERS_*",
	"OMP_*", "MKL_*", "OPENBLAS_*", "MALLOC_*", "KMP_*", "NUMEXPR_*", "ACCELERATE_*", "DEEPSPEED_*", "PET_*", "PL_*",
	"WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
	"SLURM_*", "SLURMD_*", "OMPI_*", "PMI_*", "PMIX_*", "PBS_*", "LSB_*",
}

// Environ is what a plugin is told of a command's environment: the variables of its manifest, and those that the command's own
// words refer to ($NAME), without which a shell's command cannot be read. Of what looks like a secret it is told the name
// alone, unless its manifest has that name in full.
func (m Manifest) Environ(env, args []string) (told []string) {
	list := m.Env
	if len(list) == 0 {
		list = Variables
	}
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		switch {
		case !ok:
		case slices.Contains(list, name) && (len(m.Env) > 0 || !secret(name)):
			told = append(told, kv)
		case !slices.ContainsFunc(list, func(l string) bool { p, is := strings.CutSuffix(l, "*"); return is && strings.HasPrefix(name, p) }) && !refers(args, name):
		case secret(name):
			told = append(told, name+"=***")
		default:
			told = append(told, kv)
		}
	}
	return told
}

// secret reports whether a variable's value is probably nobody's business.
func secret(name string) bool {
	name = strings.ToUpper(name)
	for _, word := range []string{"TOKEN", "SECRET", "PASSW", "CREDENTIAL", "APIKEY", "JWT", "COOKIE"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return strings.HasSuffix(name, "KEY") || strings.HasSuffix(name, "_PW") || strings.HasSuffix(name, "_PASS") || strings.HasSuffix(name, "_AUTH")
}

// refers reports whether a word of the command names the variable as a shell does.
func refers(args []string, name string) bool {
	for _, a := range args {
		for rest, found := a, true; ; {
			if _, rest, found = strings.Cut(rest, "$"); !found {
				break
			}
			word := strings.TrimPrefix(rest, "{")
			if after, is := strings.CutPrefix(word, name); is && (after == "" || !wordByte(after[0])) {
				return true
			}
		}
	}
	return false
}

func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}
