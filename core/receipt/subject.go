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
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
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
	b := Subject{job: j, machine: machineOf(j.Command, d, limited), program: programOf(j), project: digest(j.Command.Dir)}
	if prog, err := command.Program(j.Command.Args, j.Command.Env, j.Command.Dir); err == nil {
		b.python = digest(python.Of(prog, j.Command.Env).Interpreter)
	}
	return b
}

// digest names a path without telling it; "" stays what it is.
func digest(path string) string {
	if path == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// machineOf is what memory depends on beside the job.
func machineOf(c job.Command, d *gpu.Device, limited bool) Machine {
	if d == nil {
		return Machine{}
	}
	m := Machine{Kind: d.Kind}
	env := c.Env
	if d.Kind == gpu.CUDA {
		m.Card, m.Total, m.Capability, m.Driver = d.Name, d.Total, d.Capability, d.Driver
	} else if limited {
		env = append(slices.Clone(env), python.SteadyHeap(env)...)
	}
	m.Allocator = allocatorOf(env, d.Kind)
	if prog, err := command.Program(c.Args, c.Env, c.Dir); err == nil {
		m.Torch = python.Of(prog, c.Env).TorchBuild()
	}
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
func (b Subject) key(set *ladder.Set, phase string, shared, rung int) Key {
	k := Key{Plugin: b.job.Plugin, Arch: b.job.Arch, Generation: b.job.Generation, Phase: phase, Program: b.program, Project: b.project, Python: b.python, Settings: map[string]string{}}
	for _, knob := range b.job.Knobs {
		if knob.Dead == "" && knob.Value != "" {
			k.Settings[knob.Name] = knob.Value
		}
	}
	s, r := set.Shared.Rungs[shared], set.Ladder(phase).Rungs[rung]
	for _, values := range []map[string]int64{set.Values, s.Values, r.Values} {
		for name, v := range values {
			k.Settings[name] = strconv.FormatInt(v, 10)
		}
	}
	for _, e := range append(slices.Clone(s.Edits), r.Edits...) {
		if k.Settings[e.Knob] = e.To; e.Remove {
			delete(k.Settings, e.Knob)
		}
	}
	return k
}

// Learn returns the ladders as the receipts correct them, and whether they do. A phase of which that would break the
// ladder's order stays as it was priced.
func (b Subject) Learn(set *ladder.Set, receipts []Receipt) (*ladder.Set, bool) {
	if len(receipts) == 0 || b.machine.Kind == "" {
		return set, false
	}
	out, corrected := *set, false
	out.Phases = slices.Clone(set.Phases)
	for n, l := range set.Phases {
		type priced struct {
			key Key
			e   mem.Estimate
		}
		rungs := map[string]priced{}
		keys := make([][]Key, len(l.Rungs))
		for i, r := range l.Rungs {
			for s, e := range r.Estimates {
				k := b.key(set, l.Phase, s, i)
				keys[i] = append(keys[i], k)
				rungs[fmt.Sprint(k.Settings)] = priced{k, e} // a map prints in order
			}
		}
		lessons := learn(receipts, b.key(set, l.Phase, set.Shared.Asked, l.Asked), b.machine, func(k Key) (mem.Estimate, bool) {
			p, ok := rungs[fmt.Sprint(k.Settings)]
			return p.e, ok && p.key.Program == k.Program
		})
		out.Phases[n].Rungs = slices.Clone(l.Rungs)
		learned := false
		for i := range l.Rungs {
			r := &out.Phases[n].Rungs[i]
			r.Estimates = slices.Clone(r.Estimates)
			for s := range r.Estimates {
				r.Estimates[s] = lessons.apply(r.Estimates[s], keys[i][s])
				learned = learned || len(r.Estimates[s].Learned) > 0
			}
		}
		if !learned || out.Check() != nil {
			out.Phases[n] = l
			continue
		}
		corrected = true
	}
	if !corrected {
		return set, false
	}
	return &out, true
}

// Receipts makes the receipts of an attempt that has ended. Only a phase that was gone through completely was measured; one
// that ran out of memory needs at least what it was refused.
func (b Subject) Receipts(name string, r *run.Run, a *run.Attempt) (out []Receipt) {
	o := &a.Outcome
	if o.Untaken != "" || b.machine.Kind == "" || len(a.Unconfirmed(b.job)) > 0 { // what it ran with is not known
		return nil
	}
	set, failed := cmp.Or(r.Priced, r.Ladders), o.Phase
	if set.Ladder(failed) == nil {
		failed = ladder.Training
	}
	elsewhere := map[string]string{} // what the plan sets for one phase it does not set for another, and the program has it in all
	for _, c := range a.Plan.Choices {
		for _, e := range set.Ladder(c.Phase).Rungs[c.Rung].Edits {
			elsewhere[e.Knob] = e.To
		}
	}
	for _, c := range a.Plan.Choices {
		k := b.key(set, c.Phase, a.Plan.Shared.Rung, c.Rung)
		if contradicted(k.Settings, elsewhere, o.Settings) {
			continue
		}
		rec := Receipt{
			Version: Version, Run: name, Attempt: a.Plan.Attempt, Time: o.Began.Add(o.Took).UTC().Truncate(time.Second),
			Job: k, Machine: b.machine, Ending: string(o.Ending), Planned: c.Estimate.Total(),
		}
		if h := a.Plan.Host; h != nil && r.Ladders.Host != nil { // how it was fed is a setting as any other
			for _, e := range r.Ladders.Host.Rungs[h.Rung].Edits {
				k.Settings[e.Knob] = e.To
			}
		}
		raw := set.Ladder(c.Phase).Rungs[c.Rung].At(a.Plan.Shared.Rung)
		rec.Predicted.Unknown, rec.Predicted.Reserved = raw.Unknown, raw.Reserved
		rec.Predicted.Items = slices.Clone(raw.Items)
		if i := slices.IndexFunc(c.Estimate.Items, func(it mem.Item) bool { return it.What == run.ResumedState }); i >= 0 {
			rec.Predicted.Items = append(rec.Predicted.Items, c.Estimate.Items[i])
			k.Settings[run.ResumedState] = "yes"
		}
		for i := range rec.Predicted.Items {
			rec.Predicted.Items[i].From = "" // the run's record has it
		}
		if !c.Estimate.Known() {
			rec.Planned = 0
		}
		switch {
		case o.Ending == run.OutOfMemory && failed == c.Phase: // though it may have passed before
			rec.Measured = refused(a, b.machine.Kind)
		case slices.Contains(o.Passed, c.Phase):
			rec.Measured = slices.Clone(o.Measured[c.Phase])
			if len(rec.Measured) == 0 && o.PeakIs == run.Resident {
				rec.Measured = []mem.Measurement{{Is: mem.Resident, Bytes: o.Peak, Bound: mem.AtMost, From: "getrusage"}}
			}
			if c.Phase == ladder.Training && hidden(a) {
				for i := range rec.Measured {
					rec.Measured[i].Bound = mem.AtMost
				}
			}
		}
		if rec.Check() == nil {
			out = append(out, rec)
		}
	}
	return out
}

// contradicted reports whether the program ran with other settings than it was given, for this phase or for another.
func contradicted(given, elsewhere, said map[string]string) bool {
	for knob, value := range said {
		want, ok := given[knob]
		if value = strings.ReplaceAll(value, ",", ""); ok && value != want && value != elsewhere[knob] {
			if _, err := strconv.ParseFloat(want, 64); err == nil {
				return true
			}
		}
	}
	return false
}

// hidden reports whether another phase, of which the program may have said no word, could have made the peak that was
// taken for training's.
func hidden(a *run.Attempt) bool {
	training := a.Plan.Choice(ladder.Training)
	return slices.ContainsFunc(a.Plan.Choices, func(c run.Choice) bool {
		return c.Phase != ladder.Training && !slices.Contains(a.Outcome.Passed, c.Phase) && len(a.Outcome.Measured[c.Phase]) == 0 &&
			(!c.Estimate.Known() || 10*c.Estimate.Total() > 9*training.Estimate.Total())
	})
}

// refused is what an out-of-memory proves that its phase needs.
func refused(a *run.Attempt, kind string) (out []mem.Measurement) {
	rep, message := a.Outcome.Report, "the out-of-memory message"
	switch {
	case kind == gpu.CPU && rep.Kind == oom.CPUAlloc && a.Plan.Room > 0:
		return []mem.Measurement{{Is: mem.Data, Bytes: a.Plan.Room + 1, Bound: mem.AtLeast, From: "the limit that it ran into"}}
	case kind == gpu.CPU || rep.Kind == oom.GPUContention || rep.Kind == oom.GPUFragmentation || rep.Allocated == nil || rep.Requested == nil:
		return nil
	}
	out = append(out, mem.Measurement{Is: mem.Allocated, Bytes: *rep.Allocated + *rep.Requested, Bound: mem.AtLeast, From: message})
	if rep.Reserved != nil && rep.ProcessInUse != nil && *rep.ProcessInUse > *rep.Reserved { // the difference is the context
		out = append(out, mem.Measurement{Is: mem.Reserved, Bytes: *rep.Reserved, Bound: mem.AtLeast, From: message},
			mem.Measurement{Is: mem.Used, Bytes: *rep.ProcessInUse, Bound: mem.AtLeast, From: message})
	}
	return out
}
