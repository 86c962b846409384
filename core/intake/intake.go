// Package intake turns a command into a run: it finds the program that the command starts and the plugin that knows it,
// answers the plugin's questions, measures the room, and gets the job's ladders.
package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
	"github.com/launch-ml/launch/core/trace"
)

// Deadline bounds how long a plugin may delay the program's start. A broken plugin must not keep a training from
// running.
const Deadline = 5 * time.Second

// AttemptFolder is the placeholder, in a rewritten command, for the folder that an attempt will make.
const AttemptFolder = "{attempt}"

// Options are the settings by which a command is read.
type Options struct {
	Plugins
	Ask     Asker
	Plugin  string // "auto", "none" or a name
	AsTyped string // why launch runs every command as typed; "" if it need not
	Wish    room.Wish
	GPUs    int // how many the command would see; 0: this machine's
	Limits  run.Limits
	// FormulaTime is how long the formulas of a plugin may take; 0: none is run.
	FormulaTime time.Duration
	Set         []string // KEY=VALUE: settings that the user asks for beside the recipe; see [Asked]
	// Called names settings in errors.
	Called Called
	// Learner starts to read what earlier runs measured.
	Learner func() Learner
	// Trace is which commands are traced, for what the ladders do not know.
	Trace Tracing
	// TraceTime is how much CPU time a trace may take.
	TraceTime time.Duration
	// Runs: the command is run after it was read. Otherwise nothing of its project's is started.
	Runs bool
}

// Called names settings in errors, so that the user finds them.
type Called interface {
	// Name is "--grace", "LAUNCH_GRACE", or "grace in FILE".
	Name(key string) string
	// Value is Name with the setting's value.
	Value(key, value string) string
}

// A Learner corrects ladders by what earlier runs measured, and reports whether it did.
type Learner func(*job.Job, room.Room, *ladder.Set) (set *ladder.Set, learned bool, err error)

// A Reading is what launch knows of a command before the program starts.
type Reading struct {
	Command  job.Command
	Job      *job.Job // nil if no plugin recognised the command
	Run      *run.Run // nil if Job is
	Room     room.Room
	Warnings []string
	// Err is a mistake that the user has to correct before launch starts anything.
	Err error
	// Failed: the plugin failed, so nothing is known about the command.
	Failed bool
	// AsksForHelp: the command only prints the program's usage.
	AsksForHelp bool
	// Explained: the warnings say why launch changes nothing.
	Explained bool
	// Declaration is the path of the file that declares the job's settings, as the user would type it; "" if none does.
	Declaration string
	// Foreseer has traced the job; nil if nothing did.
	Foreseer *Foreseer

	other   string        // the plugin's name, if it is by another author
	program *command.Prog // nil if the command was not understood
	seeing  *plugin.Seen  // what the marks of plugins see of it, once they were asked
	unread  error         // why it was not understood
	ending  chan struct{}
	source  host.Source // the plugin that is asked
	clock   *proc.Patience
}

// Close waits for the end of the plugin's process. Read stops that process after its last answer, but does not wait.
func (r *Reading) Close() {
	if r.ending != nil {
		<-r.ending
	}
}

// Why returns the reason why no plugin has recognised the command.
func (r *Reading) Why() string {
	switch {
	case r.unread != nil:
		return r.unread.Error()
	case r.Failed:
		return "its plugin failed"
	}
	return "no plugin knows it"
}

// Declarable reports whether a declaration could have launch recognise the command: launch knows its script, and no
// plugin knows it.
func (r *Reading) Declarable() bool {
	return r.Job == nil && r.program != nil && r.program.Kind != command.Code && !r.Failed && !r.Explained &&
		!r.AsksForHelp
}

// NamesRecipe reports whether an argument looks like the recipe or script of a training. Its user may expect more of
// launch than to run the command.
func (r *Reading) NamesRecipe() bool {
	return slices.ContainsFunc(r.Command.Args, func(arg string) bool {
		return slices.ContainsFunc(strings.Fields(arg), func(w string) bool {
			w = strings.Trim(w, `"'`)
			return strings.HasSuffix(w, ".yml") || strings.HasSuffix(w, ".yaml") || strings.HasSuffix(w, ".toml") || strings.HasPrefix(w, "train") && strings.HasSuffix(w, ".py")
		})
	})
}

// Without ignores the plugin, with a warning that gives the reason: the command runs as typed.
func (r *Reading) Without(format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	hint := ""
	if r.other != "" && !strings.Contains(why, "launch plugins") {
		hint = fmt.Sprintf(" (`launch plugins remove %s` removes the plugin)", r.other)
	}
	what, more, _ := strings.Cut(why, "\n") // below what happened, the plugin's own last lines
	r.Warnings = append(r.Warnings, strings.TrimSuffix(what+"; running as typed"+hint+"\n"+more, "\n"))
	r.Failed, r.Explained = true, true
	r.Job, r.Run = nil, nil
}

// refuse stops with an error, before launch starts anything.
func (r *Reading) refuse(err error) {
	r.Job, r.Run, r.Err = nil, nil, err
}

// Read reads a command that starts in the current folder. It asks one plugin after the other, until one knows the
// command. It returns an error only for a wrong setting.
func Read(ctx context.Context, o Options, args []string) (*Reading, error) {
	r := &Reading{}
	err := r.read(ctx, o, args)
	unread := r.Job == nil && r.Err == nil && !r.AsksForHelp && !r.Failed
	if o.Trace == Everything && err == nil && unread && r.program != nil {
		r.traceTyped(ctx, o)
	}
	if len(o.Set) > 0 && r.Job == nil && r.Err == nil && !r.AsksForHelp { // as typed, the program would use other settings
		r.Err = r.needsPlugin()
	}
	return r, err
}

func (r *Reading) read(ctx context.Context, o Options, args []string) error {
	if !r.understand(o, args) {
		return nil
	}
	q, err := r.queue(o)
	if err != nil {
		return err
	}
	source, ok := q.next(r, o)
	if !ok {
		return nil
	}
	look := lookFor(ctx, o.Wish, r.Command.Env)
	clock, cancel := proc.WithPatience(ctx, Deadline)
	defer cancel()
	r.clock = clock
	var mistake error // of a declaration that is preferred
	for ok && r.ask(clock, o, source, look) {
		if r.Err != nil {
			mistake, r.Err = r.Err, nil
		}
		source, ok = q.next(r, o)
	}
	switch {
	case mistake == nil:
		r.noteDeclaration(source)
	case r.Job != nil:
		r.Warnings = append(r.Warnings, fmt.Sprintf("%v\nplugin %s reads the command instead", errors.Unwrap(mistake),
			r.Job.Plugin))
	case !ok:
		r.refuse(mistake)
	}
	return nil
}

// ask asks a plugin for the job, and makes the run. It returns true if the next plugin is to be asked: this one has
// declined, or is a declaration with a mistake beside a command that another plugin may know (r.Err).
func (r *Reading) ask(ctx context.Context, o Options, source host.Source, look func() (room.Room, error)) (next bool) {
	r.source, r.other = source, ""
	if source.Path != "" {
		r.other = source.Manifest.Name
	}
	client, err := o.Ask(ctx, source, &r.Command)
	if err != nil {
		r.Without("%v", err)
		return false
	}
	known, declined := r.recognize(ctx, o, client, look)
	if next = o.Plugin == "auto" && (declined || r.Err != nil && r.preferred(source)); next {
		client.Close() // one process at a time
		return true
	}
	r.ending = make(chan struct{})
	defer func() {
		go func() { // the plugin has answered: do not wait for its end
			defer close(r.ending)
			client.Close()
		}()
	}()
	var asked *edited
	if known != nil && len(o.Set) > 0 {
		if known, asked = r.recognizeAsked(ctx, o, client, look); asked != nil {
			defer asked.remove()
		}
	}
	if known != nil && r.measure(o, look) && r.price(ctx, o, known, asked) && source.Path != "" {
		r.checkEdits()
	}
	return false
}

// understand finds the program of the command. It returns false if no plugin is to be asked.
func (r *Reading) understand(o Options, args []string) bool {
	dir, err := os.Getwd()
	r.Command = job.Command{Args: args, Dir: dir, Env: os.Environ(), Devices: o.GPUs}
	switch {
	case err != nil:
		r.unread = fmt.Errorf("launch cannot find the current folder: %w", err)
		return false
	case o.AsTyped != "":
		r.unread, r.Explained = errors.New(o.AsTyped), true
		return false
	case o.Plugin == "none":
		return false
	}
	for _, name := range append([]string{dir}, args...) { // the question to a plugin is JSON
		if !utf8.ValidString(name) {
			r.unread = fmt.Errorf("%q is not valid UTF-8", name)
			return false
		}
	}
	prog, err := command.Program(args, r.Command.Env, dir)
	if err != nil {
		r.unread = err
		return true // a plugin that the user names may know it
	}
	r.program, r.Command.Texts = &prog, prog.Texts
	r.AsksForHelp = slices.ContainsFunc(prog.Args, func(a string) bool { return a == "-h" || a == "--help" })
	return !r.AsksForHelp // with these the program only prints its usage
}

// lookFor starts to measure the room, and returns a function that waits for the result.
func lookFor(ctx context.Context, w room.Wish, env []string) func() (room.Room, error) {
	var r room.Room
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err = room.Find(ctx, w, env)
	}()
	return func() (room.Room, error) { <-done; return r, err }
}

// recognize asks the plugin for the job. It returns nil if there is none; declined: the plugin does not know the
// command.
func (r *Reading) recognize(ctx context.Context, o Options, client plugin.Plugin,
	look func() (room.Room, error)) (known plugin.Recognized, declined bool) {
	known, err := plugin.Answer(ctx, client.Recognize, &r.Command, finder{r, o, look, nil})
	var caution *plugin.Caution
	switch {
	case errors.As(err, &caution):
		r.Warnings = append(r.Warnings, caution.Error()+"; running as typed")
		r.unread, r.Explained = caution, true
	case errors.Is(err, plugin.ErrNotMine):
		if o.Plugin != "auto" {
			r.refuse(fmt.Errorf("plugin %s does not know this command", o.Plugin))
		}
		return nil, true
	case errors.Is(err, plugin.ErrInsatiable):
		r.Without("%v: %v", host.ErrTrouble, err)
	case errors.Is(err, host.ErrTrouble):
		r.Without("%v", err)
	case err != nil:
		if r.other != "" {
			err = fmt.Errorf("plugin %s: %w", r.other, err)
		}
		r.refuse(asTypedHint(err))
	default:
		r.Job = known.Job()
		r.confine()
		return known, false
	}
	return nil, false
}

func asTypedHint(err error) error {
	return fmt.Errorf("%w\n(--plugin none runs the command as typed)", err)
}

// finder answers a plugin's questions about a command. It implements [plugin.Finder].
type finder struct {
	r    *Reading
	o    Options
	look func() (room.Room, error)
	// asked has the copies of Python source with the settings that the user asks for; nil: there are none.
	asked *edited
}

func (f finder) Devices() int {
	if f.o.GPUs != 0 {
		return f.o.GPUs
	}
	found, _ := f.look()
	return cmp.Or(found.Devices, -1)
}

func (f finder) Sources(ctx context.Context, paths []string) []config.PythonSource {
	c, interpreter, dir := f.r.Command, "", f.r.Command.Dir
	if f.r.program != nil {
		interpreter, dir = python.Of(*f.r.program, c.Env).Interpreter, f.r.program.Dir
	}
	return f.asked.sources(paths, func(paths []string) []config.PythonSource {
		return overlay.Cache(filepath.Join(f.o.State, "sources")).Read(ctx, interpreter, c.Env, dir, paths, f.may())
	})
}

// Formulas runs the formulas of a plugin. It has a deadline of its own: torch alone takes seconds to import.
func (f finder) Formulas(ctx context.Context, formulas []job.Formula) []job.Counted {
	defer f.r.clock.Hold()()
	c := f.r.Command
	runner := trace.Formulas{Env: c.Env, Dir: c.Dir, Cache: filepath.Join(f.o.State, "formulas"),
		Deadline: f.o.FormulaTime}
	if p := f.r.program; p != nil {
		runner.Interpreter, runner.Env = python.Of(*p, c.Env).Interpreter, p.Environ(c.Env)
		runner.Dir, runner.Script = p.Dir, p.Path()
	}
	runner.Roots = trace.Roots(c.Dir, runner.Script, f.r.source.Path)
	if !f.o.Runs {
		g := f.ground()
		runner.Foreign, runner.Env = g.Holds, g.Environ(runner.Env)
	}
	return runner.Run(ctx, formulas)
}

// ground is what may have been cloned together with the command's script.
func (f finder) ground() private.Ground {
	dirs := []string{f.r.Command.Dir}
	if p := f.r.program; p != nil {
		dirs = append(dirs, p.Dir)
		if path := p.Path(); path != "" {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return private.GroundOf(dirs...)
}

// may is what may be started to read a command's source. It is nil where the command is run anyway.
func (f finder) may() overlay.May {
	if f.o.Runs {
		return nil
	}
	return f.ground().Start
}

// confine removes from the job what lies outside the command's folders, with a warning.
func (r *Reading) confine() {
	roots := states.NewRoots(r.Job)
	if w := roots.Warning(); w != "" {
		r.Warnings = append(r.Warnings, w)
	}
	if r.Job.Exclusive != "" && !roots.Covers(r.Job.Exclusive) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("plugin %s locks %.200q, which is outside the folders of this "+
			"command: launch would not notice another launch in the same experiment", r.Job.Plugin, r.Job.Exclusive))
		r.Job.Exclusive = ""
	}
	err := states.CheckPuts(r.Job.Rehearsal.Puts)
	if err == nil {
		err = roots.CheckRehearsal()
	}
	if err != nil {
		r.Job.Rehearsal = job.Rehearsal{None: err.Error()}
	}
}

// measure takes the measured room. It returns false if the settings and the room exclude each other.
func (r *Reading) measure(o Options, look func() (room.Room, error)) bool {
	found, err := look()
	r.Warnings = append(r.Warnings, found.Warnings...)
	if err != nil {
		r.refuse(fmt.Errorf("%s: %w", o.Called.Value("device", o.Wish.Device), err))
		return false
	}
	r.Room = found
	switch short := r.Job.Rehearsal; {
	case short.None != "" && (o.Limits.Rehearse || o.Limits.Fast):
		r.Warnings = append(r.Warnings, "launch makes no trial: "+short.None)
	case short.Partial != "" && o.Limits.Rehearse:
		r.Warnings = append(r.Warnings, "launch does not rehearse: "+short.Partial)
	}
	if err := found.Reserved(); err != nil {
		r.refuse(fmt.Errorf("%s %w", o.Called.Name("reserve"), err))
		return false
	}
	return true
}

// price asks for the ladders and makes the run. It returns false if there is no run.
func (r *Reading) price(ctx context.Context, o Options, known plugin.Recognized, asked *edited) bool {
	learn := o.Learner()
	device := gpu.Device{Kind: gpu.CUDA} // if none is visible: an unknown card
	if r.Room.Device != nil {
		device = *r.Room.Device
	}
	set, err := known.Ladders(ctx, device)
	switch {
	case errors.Is(err, host.ErrTrouble):
		r.Without("%v", err)
		return false
	case err != nil:
		r.refuse(asTypedHint(err))
		return false
	}
	asked.ladders(set)
	r.Job.Merged = nil
	if why := fixedSource(r.program, r.Job); why != "" {
		r.Warnings = append(r.Warnings, "launch leaves the settings in Python source as they are: "+why)
		r.Job.Fixed = why
		withoutSource(r.Job, set)
	}
	if o.Trace == Everything || o.Trace == Unpriced && unpriced(set) {
		r.Foreseer = NewForeseer(o, r.Job, r.Room)
		release := r.clock.Hold()
		r.Warnings = append(r.Warnings, r.Foreseer.price(ctx, set)...)
		release()
	}
	r.Run = &run.Run{
		Job: r.Job, Ladders: set, Limits: o.Limits,
		Rooms: r.Room.Host(), Room: r.Room.Size(), Empty: r.Room.Empty(), Host: r.Room.OnHost(), Shared: r.Room.Shared(),
	}
	learned, is, err := learn(r.Job, r.Room, set)
	if err != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%v: estimates do not use earlier runs", err))
	}
	if is {
		r.Run.Priced, r.Run.Ladders = set, learned
	}
	if r.Foreseer != nil {
		defer r.clock.Hold()()
		first := func() *run.Plan { p, _ := r.Run.First(); return p }
		r.Warnings = append(r.Warnings, r.Foreseer.promise(ctx, r.Run, first)...)
		r.startsAllTheSame(o, r.Foreseer)
	}
	return true
}

// checkEdits ignores the plugin if launch cannot make the edits of its first plan. It is for plugins that are other
// programs.
func (r *Reading) checkEdits() {
	first, _ := r.Run.First()
	if first == nil {
		return
	}
	if _, err := r.Job.Rewrite(first.Edits, AttemptFolder); err != nil {
		r.Without("plugin %s: %v", r.Job.Plugin, err)
	}
}
