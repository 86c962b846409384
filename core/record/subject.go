package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/python"
)

// A Subject is what receipts describe: a job on a machine. It makes the receipts of the job's attempts, and corrects the
// job's ladders by earlier receipts.
type Subject struct {
	job     *job.Job
	machine Machine
	program string
	project string // digest of the command's folder
	python  string // digest of the interpreter's path
}

// SubjectOf returns the subject of a job on a device. With d nil it has no machine: it makes no receipts and
// corrects nothing. limited reports whether launch limits the job's memory on a CPU and so sets its heap
// ([python.SteadyHeap]).
func SubjectOf(j *job.Job, d *gpu.Device, limited bool) Subject {
	s := Subject{job: j, machine: machineOf(j.Command.Env, d, limited), program: programOf(j), project: digest(j.Command.Dir)}
	if prog, err := command.Program(j.Command.Args, j.Command.Env, j.Command.Dir); err == nil {
		p := python.Of(prog, j.Command.Env)
		s.python = digest(p.Interpreter)
		if d != nil {
			s.machine.Torch = p.TorchBuild()
		}
	}
	return s
}

// digest identifies a path without revealing it; "" for "".
func digest(path string) string {
	if path == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// machineOf describes the device and the allocator, without torch.
func machineOf(env []string, d *gpu.Device, limited bool) Machine {
	if d == nil {
		return Machine{}
	}
	m := Machine{Kind: d.Kind}
	if d.OnCard() {
		m.Card, m.Total, m.Driver = d.Name, d.Total, d.Driver
		m.Capability = cmp.Or(d.Capability, d.Arch)
	} else if limited {
		env = append(slices.Clone(env), python.SteadyHeap(env)...)
	}
	m.Allocator = allocatorOf(env, d.Kind)
	return m
}

// allocators lists, for each kind of device, the variables that change how much freed memory the process keeps.
var allocators = map[string][]string{
	gpu.CUDA: {"PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_ALLOC_CONF=", "PYTORCH_NO_CUDA_MEMORY_CACHING=", "CUBLAS_WORKSPACE_CONFIG="},
	gpu.HIP: {"PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_HIP_ALLOC_CONF=", "PYTORCH_ALLOC_CONF=",
		"PYTORCH_NO_CUDA_MEMORY_CACHING=", "PYTORCH_NO_HIP_MEMORY_CACHING=", "CUBLAS_WORKSPACE_CONFIG=",
		"HIPBLAS_WORKSPACE_CONFIG=", "HIPBLASLT_WORKSPACE_SIZE="},
	gpu.XPU: {"PYTORCH_ALLOC_CONF="},
	gpu.CPU: {"MALLOC_", "OMP_NUM_THREADS=", "MKL_NUM_THREADS=", "LD_PRELOAD="},
}

func allocatorOf(env []string, kind string) string {
	last := map[string]string{}
	for _, kv := range env {
		if slices.ContainsFunc(allocators[kind], func(p string) bool { return strings.HasPrefix(kv, p) }) {
			name, value, _ := strings.Cut(kv, "=")
			if name == "LD_PRELOAD" {
				value = filepath.Base(value) // the library, not its folder
			}
			last[name] = value
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(last)) {
		out = append(out, name+"="+last[name])
	}
	return strings.Join(out, " ")
}

// key identifies a phase at a shared rung and a rung of its own ladder.
func (s Subject) key(set *ladder.Set, phase string, shared, rung int) ReceiptKey {
	k := ReceiptKey{Plugin: s.job.Plugin, Arch: s.job.Arch, Generation: s.job.Generation, Phase: phase,
		Program: s.program, Project: s.project, Python: s.python, Settings: map[string]string{}}
	for _, knob := range s.job.Knobs {
		if knob.Dead == "" && knob.Value != "" {
			k.Settings[knob.Name] = knob.Value
		}
	}
	both, own := set.Shared.Rungs[shared], set.Ladder(phase).Rungs[rung]
	for _, values := range []map[string]int64{set.Values, both.Values, own.Values} {
		for name, v := range values {
			k.Settings[name] = strconv.FormatInt(v, 10)
		}
	}
	for _, e := range append(slices.Clone(both.Edits), own.Edits...) {
		if k.Settings[e.Knob] = e.To; e.Remove {
			delete(k.Settings, e.Knob)
		}
	}
	return k
}
