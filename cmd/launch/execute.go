package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/nvml"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// executor carries out plans on this machine. It implements [run.Executor].
type executor struct {
	settings settings
	job      *job.Job
	device   *gpu.Device
	record   *record.Record // nil where none can be kept
	say      ui.Printer
	exit     proc.Exit // of the last attempt: what launch itself ends as
	midLine  bool      // what the program printed last was no whole line, where launch's own words would follow it
	// firstBegan is when the run's first attempt began that was no trial.
	firstBegan time.Time
	settle     func() // what has to have happened before launch ends, and need not before the program starts; may be nil
}

// Room implements [run.Executor].
func (x *executor) Room(ctx context.Context) (unit.Bytes, error) {
	if x.device == nil || x.device.Planned || x.device.Kind == gpu.CPU {
		return room(x.device, x.settings), nil
	}
	f := findDevice(ctx, x.settings, x.job.Command.Env)
	if f.device != nil {
		x.device = f.device
	}
	return room(x.device, x.settings), nil // a driver that stopped answering leaves what was last known
}

// Execute implements [run.Executor].
func (x *executor) Execute(ctx context.Context, p *run.Plan) (run.Outcome, error) {
	dir, err := x.folder(p.Attempt)
	if err != nil && len(p.Edits) > 0 {
		return run.Outcome{}, err
	}
	if err != nil { // nothing has to be written: the training runs, and what it prints is not kept
		x.say.Warn("%v: what the program prints is not kept", err)
	}
	edits := slices.Clone(p.Edits)
	for i := range edits {
		if strings.Contains(edits[i].To, job.FreePort) {
			port, err := freePort()
			if err != nil {
				return run.Outcome{}, err
			}
			edits[i].To = strings.ReplaceAll(edits[i].To, job.FreePort, port)
		}
	}
	if p.Trial != "" {
		scratch := filepath.Join(dir, "scratch")
		if err := os.MkdirAll(scratch, 0o700); err != nil {
			return run.Outcome{}, fmt.Errorf("making a folder for the trial: %w", err)
		}
		defer os.RemoveAll(scratch)
		name := fmt.Sprintf("launch-trial-%d-%d", os.Getpid(), time.Now().UnixNano())
		for i := range edits {
			edits[i].To = strings.NewReplacer(job.Scratch, scratch, job.ScratchName, name).Replace(edits[i].To)
		}
		for _, path := range x.job.Rehearsal.Leaves {
			if strings.Contains(path, job.ScratchName) { // nothing else is ours to remove
				defer os.RemoveAll(absolute(x.job.Command.Dir, strings.ReplaceAll(path, job.ScratchName, name)))
			}
		}
	} else if p.Resume == nil {
		x.putAside(p)
	}
	made, err := x.job.Rewrite(edits, dir)
	if err != nil {
		return run.Outcome{}, err
	}
	a := attempt{command: made.Command, signs: x.job.Signs, dir: dir, trial: p.Trial, batch: p.Batch, steps: x.job.Rehearsal.Steps}
	var sources []overlay.File
	for _, f := range made.Files {
		if f.Format == job.Python {
			sources = append(sources, overlay.File{Path: f.Path, SHA256: f.Source.SHA256, Text: f.Text, Names: edited(edits, f.Path)})
		} else if f.Format == job.Binary {
			if err := patchedCopy(absolute(x.job.Command.Dir, f.From), f.Path, f.Patches); err != nil {
				return run.Outcome{}, fmt.Errorf("copying %s: %w", f.From, err)
			}
			defer os.Remove(f.Path) // it may be large, and is the user's own but for some bytes
		} else if err := renameio.WriteFile(f.Path, f.Text, 0o600); err != nil {
			return run.Outcome{}, fmt.Errorf("writing the edited copy of %s: %w", filepath.Base(f.Path), err)
		}
	}
	if len(sources) > 0 {
		if a.overlay, err = overlay.Install(dir, sources, a.command.Env); err != nil {
			return run.Outcome{}, fmt.Errorf("preparing the edited copies of Python source: %w", err)
		}
		a.command.Env = withEnv(a.command.Env, a.overlay.Env)
	}
	if p.Attempt > 1 || len(p.Edits) > 0 {
		x.say.Starting(p, x.firstBegan.IsZero())
	}
	out, err := x.attempt(ctx, a)
	if x.record == nil && dir != "" { // nothing is recorded, so nothing is left
		defer os.RemoveAll(dir)
	}
	if err != nil {
		return out, err
	}
	out.Confirmed = confirmed(x.job, made, out.Began)
	asSaved(&out, x.job, edits)
	if a.overlay != nil {
		asBuilt(&out, a.overlay.Report(), edits)
	}
	return out, nil
}

// patchedCopy copies a file and writes the patches into the copy.
func patchedCopy(from, to string, patches []job.Patch) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	for _, p := range patches {
		for _, b := range p.Bytes {
			if err == nil {
				_, err = out.WriteAt(b.New, b.At)
			}
		}
	}
	return errors.Join(err, out.Close())
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// freePort finds a port of this machine that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// edited lists the paths that edits change in a document.
func edited(edits []config.Edit, doc string) (paths []string) {
	for _, e := range edits {
		if e.At.Doc == doc {
			paths = append(paths, e.At.Path)
		}
	}
	return paths
}

// asSaved enters what stands at an edit's path in the copies that the program itself has written of its settings: the
// values that it really runs with, joined from all that it reads.
func asSaved(out *run.Outcome, j *job.Job, edits []config.Edit) {
	for _, path := range newest(j.Command.Dir, j.Signs.Recipes, out.Began) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		doc, err := config.Parse(path, text)
		if err != nil {
			continue
		}
		for _, e := range edits {
			if value, ok := doc.Get(e.At.Path); ok && e.At.Doc != config.ArgvDoc && !slices.Contains(out.Confirmed, e.At.Doc) {
				settle(out, e.Knob, value)
			}
		}
	}
}

// settle enters a setting as the program sees it, unless it said so itself.
func settle(out *run.Outcome, knob, value string) {
	if out.Settings == nil {
		out.Settings = map[string]string{}
	}
	if _, said := out.Settings[knob]; !said {
		out.Settings[knob] = value
	}
}

// asBuilt enters what the program itself said of the settings that it took from edited source: their values where it
// built them, and else that it has read the source.
func asBuilt(out *run.Outcome, r overlay.Report, edits []config.Edit) {
	for _, e := range edits {
		if value, ok := r.Value(e.At.Doc, e.At.Path); ok {
			settle(out, e.Knob, value)
		} else if r.Applied[e.At.Doc] > 0 && !slices.Contains(out.Confirmed, e.At.Doc) {
			out.Confirmed = append(out.Confirmed, e.At.Doc)
		}
	}
}

// putAside moves the saved states of this run's earlier attempts out of the way of one that starts over, into a folder
// beside them.
func (x *executor) putAside(p *run.Plan) {
	if x.firstBegan.IsZero() {
		return
	}
	var moved []string
	for _, g := range x.job.Resume.Aside {
		if !filepath.IsAbs(g) {
			g = filepath.Join(x.job.Command.Dir, g)
		}
		hits, _ := filepath.Glob(g)
		for _, path := range hits {
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(x.firstBegan.Truncate(time.Second)) {
				continue
			}
			dir := filepath.Join(filepath.Dir(path), fmt.Sprintf("before-attempt-%d-%s", p.Attempt, x.firstBegan.Format("20060102-150405")))
			if err := os.MkdirAll(dir, 0o755); err == nil {
				err = os.Rename(path, filepath.Join(dir, filepath.Base(path)))
				if err == nil {
					moved = append(moved, dir)
					continue
				}
			}
			x.say.Warn("%s could not be put aside (%v): the attempt may overwrite it", path, err)
		}
	}
	slices.Sort(moved)
	for _, dir := range slices.Compact(moved) {
		x.say.Line("this attempt starts over; what was saved before is in %s", dir)
	}
}

// confirmed lists the documents, as the edits name them, that the program took: it has kept their text.
func confirmed(j *job.Job, made *job.Rewritten, began time.Time) (docs []string) {
	for _, path := range newest(j.Command.Dir, j.Signs.Recipes, began) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, f := range made.Files {
			for _, original := range j.Files {
				if filepath.Base(original.Path) == filepath.Base(f.Path) && bytes.Contains(text, bytes.TrimSpace(f.Text)) {
					docs = append(docs, original.Path)
				}
			}
		}
	}
	return docs
}

// folder makes the folder of an attempt: in its run's record, or, where none can be kept, among the temporary files.
func (x *executor) folder(attempt int) (string, error) {
	if x.record != nil {
		if dir, err := x.record.Attempt(attempt); err == nil {
			return dir, nil
		}
	}
	dir, err := os.MkdirTemp("", "launch-attempt-")
	if err != nil {
		return "", fmt.Errorf("making a folder for the attempt: %w", err)
	}
	return dir, nil
}

// attempt is what one attempt runs.
type attempt struct {
	command job.Command
	signs   job.Signs
	dir     string // takes what it prints; "" keeps nothing
	trial   run.Trial
	steps   int64            // of a trial: after how many iterations launch ends it; 0 where it ends by itself
	batch   job.Batch        // as planned
	overlay *overlay.Overlay // nil where no Python source is edited
}

// attempt runs the command to its end and weighs how it ended.
func (x *executor) attempt(ctx context.Context, a attempt) (run.Outcome, error) {
	c, signs := a.command, a.signs
	detector, err := oom.NewDetector(signs)
	if err != nil {
		return run.Outcome{}, fmt.Errorf("plugin's signs: %w", err)
	}
	var failure sync.Map // job.Failed: the first line by which the program said that it failed
	pace := pace{}
	detector.OnEvent = func(e oom.Event) {
		switch e.Kind {
		case job.Failed:
			failure.LoadOrStore(job.Failed, strings.TrimSpace(e.Line.Text))
		case job.Progress:
			pace.see(e.Iteration)
		}
	}
	tap := newTap(detector, a.dir)
	defer tap.close()
	began := time.Now()
	if a.trial == "" && x.firstBegan.IsZero() {
		x.firstBegan = began
	}
	watch := x.watch(ctx, detector)
	guard, ctx := guarded(ctx, a, detector, tap)
	spec := proc.Spec{
		Args: c.Args, Dir: c.Dir, Env: c.Env, Tap: tap.take, Grace: x.settings.Grace, Started: watch.started,
	}
	if x.settings.TTY {
		spec.TTY = proc.Always
	}
	if a.trial != "" { // its output is nobody's: standard output is the run's own
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return run.Outcome{}, err
		}
		defer null.Close()
		spec.Stdin, spec.Stdout, spec.Stderr, spec.TTY = null, null, null, proc.Never
	}
	if x.device != nil && x.device.Kind == gpu.CPU && x.settings.Memory > 0 {
		spec.Limit = x.settings.Memory
		if x.job != nil {
			spec.Env = append(slices.Clone(c.Env), steadyHeap(c.Env)...)
		}
	}
	exit, err := proc.Run(ctx, spec)
	if x.settle != nil {
		x.settle()
	}
	why := guard.stop()
	peak, peaks := watch.stop()
	if err != nil {
		return run.Outcome{}, err
	}
	x.exit = exit
	x.midLine = a.trial == "" && tap.midLine()
	for _, path := range newest(c.Dir, signs.Log, began) {
		if f, err := os.Open(path); err == nil {
			io.Copy(detector.Stream(oom.Log), f)
			f.Close()
		}
	}
	seen := oom.Exit{Known: true, Code: exit.Code, Signal: int(exit.Signal), Asked: asked(exit) && why == "", OOMKills: max(0, exit.OOMKills)}
	v := detector.Judge(seen, signs)
	state := detector.State()
	out := run.Outcome{
		Ending: v.Ending, Code: exit.Code, Signal: int(exit.Signal), Report: v.Report, Phase: v.Report.Stage,
		Peak: peak, Peaks: peaks, Iteration: max(0, state.Iteration), Settings: state.Settings, Began: began, Took: exit.Took,
		Cause: v.Cause, Lied: v.Lied, Rate: pace.rate(a.batch, signs.CountsMicro),
	}
	out.PeakIs = run.Used
	switch host := x.device != nil && x.device.Kind == gpu.CPU; {
	case out.Peak > 0:
	case host:
		out.Peak, out.PeakIs = exit.MaxRSS, run.Resident
	default:
		out.Peak, out.PeakIs = state.Peak, run.Allocated
	}
	if out.Peak == 0 {
		out.PeakIs = "" // nothing was measured
	}
	if said, ok := failure.Load(job.Failed); ok && out.Ending == run.Failed && v.Report.Cause == "" {
		out.Cause = said.(string)
	}
	if spec.Limit > 0 && x.job != nil && out.Ending == run.Failed && starved(exit, spec.Limit) {
		out.Ending, out.Phase = run.OutOfMemory, state.Phase
		out.Cause = fmt.Sprintf("killed by %v with %v resident, under a limit of %v: code that does not check an allocation dies like that", exit.Signal, exit.MaxRSS, spec.Limit)
		out.Report.OOM, out.Report.Fatal, out.Report.Kind, out.Report.Cause = true, true, oom.CPUAlloc, out.Cause
	}
	switch {
	case why == enough && out.Ending != run.OutOfMemory:
		out.Ending, out.Cause, out.Lied = run.Succeeded, "", false
	case why != "" && why != enough:
		out.Ending, out.Cause, out.Untaken, out.Lied = run.Failed, "it ran without the settings that it was to have: "+why, why, false
	}
	if a.trial == "" && out.Iteration >= signs.StateAfter {
		out.Saved = saved(c.Dir, signs, began)
	}
	return out, nil
}

// starved reports whether a program under a memory limit died as one does whose allocation failed unchecked: by a fault of
// its own, near the limit. Torch's and its libraries' native code does so now and then.
func starved(exit proc.Exit, limit unit.Bytes) bool {
	return (exit.Signal == syscall.SIGSEGV || exit.Signal == syscall.SIGBUS || exit.Signal == syscall.SIGABRT) && len(exit.Signals) == 0 && exit.MaxRSS > limit*4/5
}

// asked reports whether somebody asked the program to stop. A job that was suspended and continued, or told to write a
// state (SIGUSR1, SIGUSR2), was not.
func asked(exit proc.Exit) bool {
	return exit.Interrupted || exit.Cancelled || slices.ContainsFunc(exit.Signals, func(s syscall.Signal) bool {
		return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT
	})
}

// steadyHeap makes glibc give memory back, so that what a limit measures is what the program uses: without it the peak
// is not even monotone in the batch. It is set for a limited job on a CPU only, and never over the user's own.
func steadyHeap(env []string) (add []string) {
	for _, kv := range []string{"MALLOC_ARENA_MAX=1", "MALLOC_MMAP_THRESHOLD_=65536", "OMP_NUM_THREADS=1"} {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			add = append(add, kv)
		}
	}
	return add
}

// newest returns of each glob the newest file that was written since, if there is one.
func newest(dir string, globs []string, since time.Time) (paths []string) {
	for _, g := range globs {
		if path, _ := newestOf(dir, g, since); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

func newestOf(dir, glob string, since time.Time) (path string, at time.Time) {
	for _, path := range writtenSince(dir, glob, since) {
		info, err := os.Stat(path)
		if err == nil {
			return path, info.ModTime()
		}
	}
	return "", at
}

// writtenSince returns the files of a glob that were written since, the newest first.
func writtenSince(dir, glob string, since time.Time) (paths []string) {
	if !filepath.IsAbs(glob) {
		glob = filepath.Join(dir, glob)
	}
	hits, _ := filepath.Glob(glob)
	at := map[string]time.Time{}
	for _, h := range hits {
		info, err := os.Stat(h)
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 && !info.ModTime().Before(earliest(info.ModTime(), since)) {
			paths, at[h] = append(paths, h), info.ModTime()
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return at[b].Compare(at[a]) })
	return paths
}

// earliest is the first time that a file written since can bear: the kernel's clock for files lags behind by a tick, and
// some file systems keep no fractions of a second.
func earliest(at, since time.Time) time.Time {
	if at.Nanosecond() == 0 {
		return since.Truncate(time.Second)
	}
	return since.Add(-20 * time.Millisecond)
}

// saved finds the newest state that was written since and is whole: what a resume would go on from.
func saved(dir string, signs job.Signs, since time.Time) *run.State {
	iteration, err := regexp.Compile(signs.StateIteration)
	if err != nil {
		return nil
	}
	var best *run.State
	for _, g := range signs.States {
		for _, path := range writtenSince(dir, g, since) {
			if !whole(path) {
				continue
			}
			s := &run.State{Path: path}
			if info, err := os.Stat(path); err == nil {
				s.Bytes = unit.Bytes(info.Size())
			}
			if m := iteration.FindStringSubmatch(filepath.Base(path)); len(m) > 1 {
				s.Iteration, _ = strconv.ParseInt(m[1], 10, 64)
			}
			if best == nil || s.Iteration > best.Iteration {
				best = s
			}
			break
		}
	}
	return best
}

// whole reports whether a file is not known to be torn: torch.save writes a zip archive, whose directory comes last.
func whole(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil {
		return false
	}
	if string(magic) != "PK\x03\x04" { // of another format: nothing is known against it
		return true
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	_, err = zip.NewReader(f, info.Size())
	return err == nil
}

// breakLine ends the program's last line, if it did not, before launch says something.
func (x *executor) breakLine() {
	if x.midLine {
		x.midLine = false
		fmt.Fprintln(os.Stderr)
	}
}

// tap hands what the program prints to the detector and keeps it in a file.
type tap struct {
	out, err io.Writer
	file     *os.File
	joined   bool         // both outputs go to one place
	last     byte         // the last byte of what stands where launch's words will
	first    atomic.Int64 // when it printed first, in Unix nanoseconds; 0 before
}

func newTap(d *oom.Detector, dir string) *tap {
	t := &tap{out: d.Stream(oom.Terminal), err: d.Stream(oom.Stderr)}
	if a, err := os.Stdout.Stat(); err == nil {
		b, err := os.Stderr.Stat()
		t.joined = err == nil && os.SameFile(a, b)
	}
	if dir != "" {
		// Without it the run goes on all the same: a full disk must not stop a training.
		t.file, _ = os.OpenFile(filepath.Join(dir, outputFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	return t
}

// outputFile is what a program printed, as it printed it, in its attempt's folder.
const outputFile = "output.log"

func (t *tap) take(from proc.Stream, p []byte) {
	if len(p) > 0 && t.first.Load() == 0 {
		t.first.Store(time.Now().UnixNano())
	}
	if len(p) > 0 && (from == proc.Error || t.joined) {
		t.last = p[len(p)-1]
	}
	if from == proc.Error {
		t.err.Write(p)
	} else {
		t.out.Write(p)
	}
	if t.file != nil {
		t.file.Write(p)
	}
}

// since is how long ago the program printed first; 0 if it has not.
func (t *tap) since() time.Duration {
	if first := t.first.Load(); first != 0 {
		return time.Since(time.Unix(0, first))
	}
	return 0
}

func (t *tap) midLine() bool { return t.last != 0 && t.last != '\n' }

func (t *tap) close() {
	if t.file != nil {
		t.file.Close()
	}
}

// watcher samples the card while an attempt runs.
type watcher struct {
	mu    sync.Mutex
	pid   int
	peak  unit.Bytes
	peaks map[string]unit.Bytes
	end   func()
	done  chan struct{}
}

// watch starts sampling the device, if it is one of the driver's.
func (x *executor) watch(ctx context.Context, d *oom.Detector) *watcher {
	w := &watcher{peaks: map[string]unit.Bytes{}, end: func() {}}
	if x.device == nil || x.device.Kind != gpu.CUDA || x.device.Planned || x.device.UUID == "" {
		return w
	}
	ctx, cancel := context.WithCancel(ctx)
	w.end, w.done = cancel, make(chan struct{})
	uuid, before := x.device.UUID, x.device.Used
	go func() {
		defer close(w.done)
		nvml.Watch(ctx, x.settings.Sample, func(_ time.Time, devices []gpu.Device) {
			for _, dev := range devices {
				if dev.UUID == uuid {
					w.see(dev, before, d.State().Phase)
				}
			}
		}) // a driver that stops answering takes the figures away, not the training
	}()
	return w
}

func (w *watcher) started(pid int) {
	w.mu.Lock()
	w.pid = pid
	w.mu.Unlock()
}

// see takes one look: the job's share is that of its own processes, or, where the driver does not tell them apart (in
// a container its pids are the host's), what came on top of what was in use before.
func (w *watcher) see(d gpu.Device, before unit.Bytes, phase string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	used, known := unit.Bytes(0), false
	for _, p := range d.Processes {
		if p.Used >= 0 && w.pid > 0 && descends(p.PID, w.pid) {
			used, known = used+p.Used, true
		}
	}
	if !known {
		used = max(0, d.Used-before)
	}
	w.peak = max(w.peak, used)
	if phase != "" {
		w.peaks[phase] = max(w.peaks[phase], used)
	}
}

func (w *watcher) stop() (unit.Bytes, map[string]unit.Bytes) {
	w.end()
	if w.done != nil {
		<-w.done
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peak, w.peaks
}

// descends reports whether a process is the ancestor or one of its descendants.
func descends(pid, ancestor int) bool {
	for range 64 {
		if pid == ancestor {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		// "pid (comm) state ppid …", and comm may hold anything, parentheses too.
		i := len(stat) - 1
		for i >= 0 && stat[i] != ')' {
			i--
		}
		var state byte
		var parent int
		if i < 0 {
			return false
		}
		if _, err := fmt.Sscanf(string(stat[i+1:]), " %c %d", &state, &parent); err != nil || parent <= 1 {
			return false
		}
		pid = parent
	}
	return false
}

// startCode is launch's exit code for a command that could not be started, and whether err is about that.
func startCode(err error) (int, bool) {
	var start *proc.StartError
	if errors.As(err, &start) {
		return start.ExitCode(), true
	}
	return 0, false
}
