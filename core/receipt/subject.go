package receipt

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/record"
)

// A Subject is what receipts are about: a job, and the machine that it runs on.
type Subject struct {
	job     *job.Job
	machine Machine
	program string
	project string // digests: of the command's folder, and of its interpreter
	python  string
}

// Of is a job on a device, nil for none. limited says that its memory on a CPU is, which settles its heap
// ([python.SteadyHeap]).
func Of(j *job.Job, d *gpu.Device, limited bool) Subject {
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

// digest names a path without telling it; "" stays what it is.
func digest(path string) string {
	if path == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// machineOf is what memory depends on beside the job, torch left out.
func machineOf(env []string, d *gpu.Device, limited bool) Machine {
	if d == nil {
		return Machine{}
	}
	m := Machine{Kind: d.Kind}
	if d.Kind == gpu.CUDA {
		m.Card, m.Total, m.Capability, m.Driver = d.Name, d.Total, d.Capability, d.Driver
	} else if limited {
		env = append(slices.Clone(env), python.SteadyHeap(env)...)
	}
	m.Allocator = allocatorOf(env, d.Kind)
	return m
}

// allocators are the variables that change how much of what is freed stays taken, by the kind of device.
var allocators = map[string][]string{
	gpu.CUDA: {"PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_ALLOC_CONF=", "PYTORCH_NO_CUDA_MEMORY_CACHING=", "CUBLAS_WORKSPACE_CONFIG="},
	gpu.CPU:  {"MALLOC_", "OMP_NUM_THREADS=", "MKL_NUM_THREADS=", "LD_PRELOAD="},
}

func allocatorOf(env []string, kind string) string {
	last := map[string]string{}
	for _, kv := range env {
		if slices.ContainsFunc(allocators[kind], func(p string) bool { return strings.HasPrefix(kv, p) }) {
			name, value, _ := strings.Cut(kv, "=")
			if name == "LD_PRELOAD" {
				value = filepath.Base(value) // which allocator, not where it lies
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

// attemptFolder stands for the folder that an attempt will make, as in a printed command.
const attemptFolder = "{attempt}"

// programOf is a digest of the job with micro-batch and accumulation left out, so that it is the same at every size.
func programOf(j *job.Job) string {
	var edits []config.Edit
	for _, k := range j.Knobs {
		if (k.Name == job.MicroBatch || k.Name == job.Accumulation) && k.Dead == "" {
			edits = append(edits, config.Edit{Knob: k.Name, At: k.At, From: k.Value, To: "1", Add: k.Default})
		}
	}
	made, err := j.Rewrite(edits, attemptFolder)
	if err != nil { // then it is another program at every size, and less is learned
		made = &job.Rewritten{Command: j.Command}
	}
	h := sha256.New()
	put := func(parts ...string) {
		for _, p := range parts {
			fmt.Fprintf(h, "%d %s", len(p), p)
		}
	}
	put(j.Command.Dir, j.Plugin, j.Dialect)
	put(record.MaskArgs(made.Command.Args)...)
	for _, f := range j.Files {
		text := string(f.Text)
		for _, g := range made.Files {
			if cmp.Or(g.From, g.Path) == f.Path && g.Format == f.Format && len(g.Text) > 0 {
				text = string(g.Text)
			}
		}
		if text == "" && f.Source != nil {
			text = f.Source.SHA256
		}
		put(filepath.Base(f.Path), text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// key is what a receipt is of where a phase stands on a rung.
func (s Subject) key(set *ladder.Set, phase string, shared, rung int) Key {
	k := Key{Plugin: s.job.Plugin, Arch: s.job.Arch, Generation: s.job.Generation, Phase: phase, Program: s.program, Project: s.project, Python: s.python, Settings: map[string]string{}}
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
