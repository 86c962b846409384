package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/room"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	"github.com/launch-ml/launch/core/ui"
)

// receipts is where they are kept: beside the runs, and for longer.
func (s settings) receipts() record.Receipts {
	return record.Receipts{Path: filepath.Join(s.State, "receipts.jsonl")}
}

// books is what receipts are written with, and what is learned from them is applied to.
type books struct {
	job     *job.Job
	machine mem.Machine
	program string
	project string // digests: of the command's folder, and of its interpreter
	python  string
}

func newBooks(s settings, j *job.Job, d *gpu.Device) books {
	b := books{job: j, machine: machineOf(s, j.Command, d), program: programOf(j), project: digest(j.Command.Dir)}
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
func machineOf(s settings, c job.Command, d *gpu.Device) mem.Machine {
	if d == nil {
		return mem.Machine{}
	}
	m := mem.Machine{Kind: d.Kind}
	env := c.Env
	if d.Kind == gpu.CUDA {
		m.Card, m.Total, m.Capability, m.Driver = d.Name, d.Total, d.Capability, d.Driver
	} else if s.Memory > 0 {
		env = append(slices.Clone(env), attempt.SteadyHeap(env)...)
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

// programOf is a digest of the job with micro-batch and accumulation left out, so that it is the same at every size.
func programOf(j *job.Job) string {
	var edits []config.Edit
	for _, k := range j.Knobs {
		if (k.Name == job.MicroBatch || k.Name == job.Accumulation) && k.Dead == "" {
			edits = append(edits, config.Edit{Knob: k.Name, At: k.At, From: k.Value, To: "1", Add: k.Default})
		}
	}
	made, err := j.Rewrite(edits, intake.AttemptFolder)
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
func (b books) key(set *ladder.Set, phase string, shared, rung int) mem.Key {
	k := mem.Key{Plugin: b.job.Plugin, Arch: b.job.Arch, Generation: b.job.Generation, Phase: phase, Program: b.program, Project: b.project, Python: b.python, Settings: map[string]string{}}
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

// learn returns the ladders as the receipts correct them, and whether they do. A phase of which that would break the
// ladder's order stays as it was priced.
func (b books) learn(set *ladder.Set, receipts []mem.Receipt) (*ladder.Set, bool) {
	if len(receipts) == 0 || b.machine.Kind == "" {
		return set, false
	}
	out, corrected := *set, false
	out.Phases = slices.Clone(set.Phases)
	for n, l := range set.Phases {
		type priced struct {
			key mem.Key
			e   mem.Estimate
		}
		rungs := map[string]priced{}
		keys := make([][]mem.Key, len(l.Rungs))
		for i, r := range l.Rungs {
			for s, e := range r.Estimates {
				k := b.key(set, l.Phase, s, i)
				keys[i] = append(keys[i], k)
				rungs[fmt.Sprint(k.Settings)] = priced{k, e} // a map prints in order
			}
		}
		lessons := mem.Learn(receipts, b.key(set, l.Phase, set.Shared.Asked, l.Asked), b.machine, func(k mem.Key) (mem.Estimate, bool) {
			p, ok := rungs[fmt.Sprint(k.Settings)]
			return p.e, ok && p.key.Program == k.Program
		})
		out.Phases[n].Rungs = slices.Clone(l.Rungs)
		learned := false
		for i := range l.Rungs {
			r := &out.Phases[n].Rungs[i]
			r.Estimates = slices.Clone(r.Estimates)
			for s := range r.Estimates {
				r.Estimates[s] = lessons.Apply(r.Estimates[s], keys[i][s])
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

// write makes the receipts of an attempt that has ended. Only a phase that was gone through completely was measured; one
// that ran out of memory needs at least what it was refused.
func (b books) write(name string, r *run.Run, a *run.Attempt) (out []mem.Receipt) {
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
		rec := mem.Receipt{
			Version: mem.ReceiptVersion, Run: name, Attempt: a.Plan.Attempt, Time: o.Began.Add(o.Took).UTC().Truncate(time.Second),
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

func newReceipts() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "receipts",
		Short: "list what was predicted and what was measured; export it, import it",
		Long: `Every finished attempt leaves a receipt of each phase that it went through: what was predicted of its memory, line by
line, and what was measured, with card, driver, torch and settings. The next estimate on this machine uses them:

  the same phase of the same architecture   the measurement itself at a size that was measured, straight lines between two
  another job on the same card and driver   the context only
  another job of the same project, on the CPU, with the same interpreter and torch   Python and torch
  a model without a formula                 a line in the micro-batch, through what the same program took at others

A plan says which receipts it used. --receipts=false (or "receipts: false" in .launch.yaml) plans without them; they are written
all the same. A phase that failed counts only as needing more than it could have. Kept are the newest five of one phase
at the same settings on the same machine, and of all the newest 500, those of this machine first. They are lines of the
file receipts.jsonl in the state folder; launch receipts drop RUN forgets those of one run. What was imported counts only where nothing was
seen here, never lowers an estimate below its counted lines, and is not believed where it is far from the estimate.

On a card, what the program prints of its own peak counts more than what the driver shows, which is looked at every
second. On the CPU with --memory, what the limit counts (VmData) is looked at thirty times a second: a peak that is
shorter than that, and lower than one before it, is not seen.`,
		Example: "  launch receipts\n  launch receipts --json | jq '.[].measured'\n  launch receipts export a100.jsonl\n  launch receipts import a100.jsonl",
		Args:    takes(0, 0, "no argument: it lists them; launch receipts export and launch receipts import take a file"),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			rs, bad, err := s.receipts().Read()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(append([]mem.Receipt{}, rs...))
			}
			say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
			say.Receipts(rs)
			if bad > 0 {
				say.Warn("lines of %s that are no receipts and do not count: %d", s.receipts().Path, bad)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the receipts as JSON")
	c.AddCommand(&cobra.Command{
		Use: "drop RUN", Short: "forget what was learned from a run", Args: takes(1, 1, "one run, as launch runs and launch receipts name it"),
		Long: `drop removes the receipts of one run: no estimate learns from it any more. The run's record stays.`,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			name := args[0]
			if id, err := record.In(s.State).Find(name); err == nil { // else its record is gone, and the receipts are not
				name = id
			}
			n, err := s.receipts().Drop(name)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("there is no receipt of run %s; launch receipts --json lists them", name)
			}
			fmt.Printf("%s of run %s removed\n", ui.Count(n, "receipt"), name)
			return nil
		},
	}, &cobra.Command{
		Use: "export [FILE]", Short: "write the receipts, a line of JSON each, to a file or to standard output", Args: takes(0, 1, "one file, or none for standard output"),
		Long: `export writes the receipts, a line of JSON each. They hold settings and figures, names of cards and versions; no paths, no
command and no name of the machine.`,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			rs, _, err := s.receipts().Read()
			if err != nil {
				return err
			}
			var text []byte
			for _, r := range rs {
				b, err := json.Marshal(r)
				if err != nil {
					return fmt.Errorf("writing a receipt: %w", err)
				}
				text = append(append(text, b...), '\n')
			}
			if len(args) == 0 || args[0] == "-" {
				_, err = os.Stdout.Write(ui.CleanJSON(text))
				return err
			}
			if err := writeJSON(args[0], text); err != nil {
				return fmt.Errorf("writing the receipts: %w", err)
			}
			ui.Printer{W: os.Stdout}.Line("%s written to %s", ui.Count(len(rs), "receipt"), args[0])
			return nil
		},
	}, &cobra.Command{
		Use: "import FILE", Short: "add the receipts of a file that export wrote; - is standard input", Args: takes(1, 1, "one file that launch receipts export wrote, or - for standard input"),
		Long: `import adds the receipts of a file that are not there yet. A line that is no receipt is reported with its number and
left out; the exit code is then 1.`,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			in := io.Reader(os.Stdin)
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("reading receipts: %w", err)
				}
				defer f.Close()
				in = f
			}
			added, known, problems, err := s.receipts().Import(in, time.Now())
			for _, p := range problems {
				ui.Printer{W: os.Stderr, Prefix: "launch: "}.Line("%s: %v", args[0], p)
			}
			if err != nil {
				return err
			}
			fmt.Printf("%s added, %d known already, %s left out\n", ui.Count(added, "receipt"), known, ui.Count(len(problems), "line"))
			if there, kept, err := s.receipts().Bound(); err == nil && kept < there {
				fmt.Printf("of the %d that are there now the newest %d are kept, those of this machine first\n", there, kept)
			}
			if len(problems) > 0 {
				return exitCode(1)
			}
			return nil
		},
	})
	return c
}

// learner begins to read the receipts that estimates learn from. A file that cannot be read teaches nothing, which is reported.
func (s settings) learner() intake.Learner {
	if !s.Receipts {
		return func(_ *job.Job, _ room.Room, set *ladder.Set) (*ladder.Set, bool, error) { return set, false, nil }
	}
	var rs []mem.Receipt
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		rs, _, err = s.receipts().Read()
	}()
	return func(j *job.Job, r room.Room, set *ladder.Set) (*ladder.Set, bool, error) {
		<-done
		if len(rs) == 0 {
			return set, false, err
		}
		set, learned := newBooks(s, j, r.Device).learn(set, rs)
		return set, learned, err
	}
}
