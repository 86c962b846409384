package record

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// Masked stands for a secret that was not recorded.
const Masked = "***"

var (
	secretName = lazy.MustCompile(`(?i)secret|passw(or)?d|passphrase|(^|[-_.])(token|auth|authorization|credentials?)($|[-_.])|(api|access|private)[-_]?key`)
	secretURL  = lazy.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@`)
)

// MaskArgs returns the command line with what looks like a secret replaced: the values of flags and of assignments
// whose names say so, and passwords in addresses.
func MaskArgs(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		a = secretURL.ReplaceAllString(a, "${1}"+Masked+"@")
		name, _, assigned := strings.Cut(a, "=")
		switch {
		case assigned && secretName.MatchString(name):
			a = name + "=" + Masked
		case !assigned && strings.HasPrefix(a, "-") && secretName.MatchString(a) && i+1 < len(out) && !strings.HasPrefix(out[i+1], "-"):
			out[i+1] = Masked
		}
		out[i] = a
	}
	return out
}

// matters lists the beginnings of the names of environment variables that change what a training does on a card. The
// others are not recorded at all.
var matters = []string{"CUDA_", "PYTORCH_", "TORCH_", "NVIDIA_", "NCCL_", "OMP_", "MKL_", "MALLOC_", "SLURM_JOB", "SLURM_ARRAY",
	"LAUNCH_", "VIRTUAL_ENV=", "CONDA_PREFIX=", "PYTHONPATH=", "WORLD_SIZE=", "RANK=", "LOCAL_RANK="}

// MaskEnv returns the entries of the environment that matter to a record, with secrets replaced.
func MaskEnv(env []string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.ContainsFunc(matters, func(m string) bool { return strings.HasPrefix(kv, m) }) {
			continue
		}
		if secretName.MatchString(name) {
			kv = name + "=" + Masked
		}
		out = append(out, secretURL.ReplaceAllString(kv, "${1}"+Masked+"@"))
	}
	slices.Sort(out)
	return out
}
