package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/confine"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/nvml"
	"github.com/launch-ml/launch/core/hostmem"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// deadlines of what happens before the program starts. What is not known by then is not waited for: a broken plugin
// or driver must not keep a training from running.
const (
	readDeadline   = 5 * time.Second
	driverDeadline = 3 * time.Second
)

// prepared is a command that was read, and all that is known before it starts.
type prepared struct {
	command  job.Command
	program  *command.Prog // nil where the command could not be understood
	unread   error         // why not
	job      *job.Job      // nil where no plugin recognised it
	run      *run.Run      // nil likewise
	device   *gpu.Device   // nil where none can be seen
	warnings []string
	failed   bool  // the plugin, so that nothing is known of the command
	err      error // what the user has to mend before anything can be started
	ending   chan struct{}
	// asksForHelp says that the command only wants the program's usage.
	asksForHelp bool
	told        bool // the warnings have why nothing is done
}

// close waits until the plugin's process has ended, which began when it had answered.
func (p *prepared) close() {
	if p.ending != nil {
		<-p.ending
	}
}

// prepare reads the command: which plugin, which job, which device, which ladders. It asks at most one plugin.
func prepare(ctx context.Context, s settings, args []string, ask asking) (*prepared, error) {
	dir, err := os.Getwd()
	p := &prepared{command: job.Command{Args: args, Dir: dir, Env: os.Environ(), Devices: s.GPUs}}
	p.warnings = append(p.warnings, s.Notes...)
	if err != nil {
		p.unread = fmt.Errorf("the current folder cannot be found: %w", err)
		return p, nil
	}
	if s.AsTyped != "" {
		p.unread, p.told = errors.New(s.AsTyped), true
	}
	if s.Plugin == "none" || s.AsTyped != "" {
		return p, nil
	}
	for _, name := range append([]string{dir}, args...) { // which a plugin is asked in JSON
		if !utf8.ValidString(name) {
			p.unread = fmt.Errorf("%q is no UTF-8 text", name)
			return p, nil
		}
	}
	prog, err := command.Program(args, p.command.Env, dir)
	if err == nil {
		p.program = &prog
	} else {
		p.unread = err
	}
	if p.program != nil && slices.ContainsFunc(p.program.Args, func(a string) bool { return a == "-h" || a == "--help" }) {
		p.asksForHelp = true // it will print that and end, whatever else it was told
		return p, nil
	}
	source, ok, err := p.pick(ctx, s, manifests())
	if err != nil {
		return nil, err
	}
	if !ok {
		return p, nil
	}
	looked := make(chan struct{})
	var d found
	go func(ctx context.Context) {
		defer close(looked)
		d = findDevice(ctx, s, p.command.Env)
	}(ctx)
	devices := func() found { <-looked; return d }
	ctx, cancel := withPatience(ctx, readDeadline)
	defer cancel()
	client, err := ask(ctx, source, &p.command)
	if err != nil {
		return p.without("%v", err), nil
	}
	p.ending = make(chan struct{})
	defer func() {
		go func() { // nobody waits for a plugin that has answered
			defer close(p.ending)
			client.Close()
		}()
	}()
	recognized, err := p.recognize(ctx, s, client, devices)
	var caution *plugin.Caution
	switch {
	case errors.As(err, &caution):
		p.warnings = append(p.warnings, caution.Error()+"; running as typed")
		p.unread, p.told = caution, true
		return p, nil
	case errors.Is(err, plugin.ErrNotMine):
		if s.Plugin != "auto" {
			p.err = fmt.Errorf("plugin %s does not know this command", s.Plugin)
		}
		return p, nil
	case errors.Is(err, host.ErrTrouble):
		return p.without("%v", err), nil
	case err != nil:
		p.err = fmt.Errorf("%w\n(--plugin none runs the command as typed)", err)
		return p, nil
	}
	j := recognized.Job()
	p.job = j
	p.confine()
	devices()
	p.warnings = append(p.warnings, d.warnings...)
	if d.err != nil {
		p.job, p.err = nil, d.err
		return p, nil
	}
	p.device = d.device
	switch short := j.Rehearsal; {
	case short.None != "" && (s.Rehearse || s.Fast):
		p.warnings = append(p.warnings, "no trial is made: "+short.None)
	case short.Partial != "" && s.Rehearse:
		p.warnings = append(p.warnings, "no rehearsal is made: "+short.Partial)
	}
	if p.device != nil && s.Reserve > 0 && s.Reserve >= p.device.Total {
		p.job, p.err = nil, fmt.Errorf("%s %v leaves nothing of a device of %v", s.name("reserve"), s.Reserve, p.device.Total)
		return p, nil
	}
	receipts := s.read()
	set, err := recognized.Ladders(ctx, pricedOn(p.device))
	switch {
	case errors.Is(err, host.ErrTrouble):
		p.job = nil
		return p.without("%v", err), nil
	case err != nil:
		p.job, p.err = nil, fmt.Errorf("%w\n(--plugin none runs the command as typed)", err)
		return p, nil
	}
	if why := p.untakable(j); why != "" {
		p.warnings = append(p.warnings, "settings in Python source stay as they are: "+why)
		j.Fixed = why
		withoutSource(j, set)
	}
	p.run = &run.Run{
		Job: j, Ladders: set,
		Limits: run.Limits{Allow: s.Allow, AsAsked: s.AsAsked, Fill: s.Fill, Fast: s.Fast, Rehearse: s.Rehearse, Anyway: s.Anyway},
		Rooms:  rooms(p.device),
		Room:   room(p.device, s), Empty: empty(p.device, s), Host: p.device != nil && p.device.Kind == gpu.CPU,
	}
	p.learn(s, receipts)
	if source.Path != "" { // another's plugin may plan what cannot be made
		if v := p.view(); v.Plan != nil {
			if _, err := j.Rewrite(v.Plan.Edits, attemptFolder); err != nil {
				p.job, p.run = nil, nil
				return p.without("plugin %s: %v", j.Plugin, err), nil
			}
		}
	}
	return p, nil
}

// confine leaves out what the job would touch outside its command's folders, and warns of it.
func (p *prepared) confine() {
	roots := confine.New(p.job)
	if w := roots.Warning(); w != "" {
		p.warnings = append(p.warnings, w)
	}
	if p.job.Exclusive != "" && !roots.Covers(p.job.Exclusive) {
		p.warnings = append(p.warnings, fmt.Sprintf("plugin %s locks %.200q, which is outside the folders of this command: another launch in the same experiment would not be noticed", p.job.Plugin, p.job.Exclusive))
		p.job.Exclusive = ""
	}
	if err := confine.CheckPuts(p.job.Rehearsal.Puts); err != nil {
		p.job.Rehearsal = job.Rehearsal{None: err.Error()}
	}
}

// learn corrects the ladders by what was measured before.
func (p *prepared) learn(s settings, receipts func() ([]mem.Receipt, error)) {
	rs, err := receipts()
	if err != nil {
		p.warnings = append(p.warnings, fmt.Sprintf("%v: nothing is learned from earlier runs", err))
	}
	if len(rs) == 0 {
		return
	}
	if set, learned := newBooks(s, p.job, p.device).learn(p.run.Ladders, rs); learned {
		p.run.Priced, p.run.Ladders = p.run.Ladders, set
	}
}

// recognize asks the plugin, and finds out first what it needs to know.
func (p *prepared) recognize(ctx context.Context, s settings, client plugin.Plugin, devices func() found) (plugin.Recognized, error) {
	r, err := plugin.Answer(ctx, client.Recognize, &p.command, needed{p, s, devices})
	if errors.Is(err, plugin.ErrInsatiable) {
		err = fmt.Errorf("%w: %w", host.ErrTrouble, err)
	}
	return r, err
}

// needed finds out what a plugin needs to know of a command.
type needed struct {
	p       *prepared
	s       settings
	devices func() found
}

// Devices implements [plugin.Finder].
func (f needed) Devices() int { return cmp.Or(f.s.GPUs, f.devices().count, -1) }

// Sources implements [plugin.Finder].
func (f needed) Sources(ctx context.Context, paths []string) []config.PythonSource {
	c, interpreter, dir := f.p.command, "", f.p.command.Dir
	if f.p.program != nil {
		interpreter, dir = python.Of(*f.p.program, c.Env).Interpreter, f.p.program.Dir
	}
	return overlay.Cache(filepath.Join(f.s.State, "sources")).Read(ctx, interpreter, c.Env, dir, paths)
}

// untakable says why the program is known beforehand not to take edited Python source, or "".
func (p *prepared) untakable(j *job.Job) string {
	if p.program == nil || !slices.ContainsFunc(j.Files, func(f job.File) bool { return f.Format == job.Python }) {
		return ""
	}
	return overlay.Refused(*p.program)
}

// withoutSource takes the rungs away that edit Python source.
func withoutSource(j *job.Job, set *ladder.Set) {
	inSource := func(edits []config.Edit) bool {
		return slices.ContainsFunc(edits, func(e config.Edit) bool {
			return slices.ContainsFunc(j.Files, func(f job.File) bool { return f.Format == job.Python && f.Path == e.At.Doc })
		})
	}
	for k := range set.Phases {
		l := &set.Phases[k]
		for i := len(l.Rungs) - 1; i >= 0; i-- {
			if inSource(l.Rungs[i].Edits) {
				l.Rungs = slices.Delete(l.Rungs, i, i+1)
				if i < l.Asked {
					l.Asked--
				}
			}
		}
	}
	for i := len(set.Shared.Rungs) - 1; i >= 0; i-- {
		if !inSource(set.Shared.Rungs[i].Edits) {
			continue
		}
		set.Shared.Rungs = slices.Delete(set.Shared.Rungs, i, i+1)
		if i < set.Shared.Asked {
			set.Shared.Asked--
		}
		for k := range set.Phases {
			for n := range set.Phases[k].Rungs {
				r := &set.Phases[k].Rungs[n]
				r.Estimates = slices.Delete(slices.Clone(r.Estimates), i, i+1)
			}
		}
	}
	if set.Host != nil {
		set.Host.Rungs = slices.DeleteFunc(set.Host.Rungs, func(r ladder.HostRung) bool { return inSource(r.Edits) })
	}
	if inSource(j.Rehearsal.Edits) {
		j.Rehearsal = job.Rehearsal{None: "its settings in Python source cannot be changed"}
	}
}

// without gives the plugin up and says why: the command runs as typed.
func (p *prepared) without(format string, args ...any) *prepared {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...)+"; running as typed")
	p.failed, p.told = true, true
	return p
}

// pricedOn is the device that a plugin prices for where none can be seen: a card of which nothing is known.
func pricedOn(d *gpu.Device) gpu.Device {
	if d == nil {
		return gpu.Device{Kind: gpu.CUDA}
	}
	return *d
}

func (p *prepared) pick(ctx context.Context, s settings, builtins []plugin.Manifest) (host.Source, bool, error) {
	if s.Plugin == "auto" {
		if p.program == nil {
			return host.Source{}, false, nil
		}
		// A built-in plugin comes first, so the search for others can be spared where one is meant.
		own, _ := host.Find(builtins, nil, nil)
		if src, ok := host.Pick(own, p.seen()); ok {
			return src, true, nil
		}
	}
	sources, left := findPlugins(ctx, s, builtins, false)
	if s.Plugin != "auto" {
		why := ""
		for _, l := range left {
			if l.Name() == s.Plugin {
				why = ": " + l.String()
				p.warnings = append(p.warnings, l.String())
			}
		}
		for _, src := range sources {
			if src.Manifest.Name == s.Plugin {
				return src, true, nil
			}
		}
		return host.Source{}, false, fmt.Errorf("there is no plugin %q; `launch plugins` lists those there are%s", s.Plugin, why)
	}
	p.warnings = append(p.warnings, failedNow(left)...)
	src, ok := host.Pick(sources, p.seen())
	return src, ok, nil
}

// seen is the command as a plugin's marks see it.
func (p *prepared) seen() plugin.Seen {
	prog := p.program
	script, root := prog.Script, prog.Dir
	if path := prog.Path(); path != "" {
		script, root = filepath.Base(path), filepath.Dir(path)
	}
	return plugin.Seen{
		Script: script,
		Args:   prog.Args,
		Exists: func(path string) bool {
			for _, dir := range []string{root, prog.Dir} {
				if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
					return true
				}
			}
			return false
		},
	}
}

// failedNow warns of plugins that were asked just now and failed: their user has waited for them, and does not again.
func failedNow(left []host.Left) (warnings []string) {
	for _, l := range left {
		if l.Fresh {
			warnings = append(warnings, fmt.Sprintf("%v\nIt is asked again in a day, after its file changes, or by `launch plugins`", l))
		}
	}
	return warnings
}

// findPlugins lists the plugins: built in, beside this program, in the user's folder, on PATH; and programs that are left
// out. again asks those once more that failed before.
func findPlugins(ctx context.Context, s settings, builtins []plugin.Manifest, again bool) ([]host.Source, []host.Left) {
	var dirs []string
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(exe))
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		dirs = append(dirs, filepath.Join(d, "launch", "plugins"))
	} else if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".local", "share", "launch", "plugins"))
	}
	dirs = append(dirs, filepath.SplitList(os.Getenv("PATH"))...)
	return host.Find(builtins, dirs, host.Asker(ctx, filepath.Join(s.State, "plugins.json"), again))
}

func manifests() (out []plugin.Manifest) {
	for _, b := range builtins {
		out = append(out, b().Manifest())
	}
	return out
}

// found is the device that the job would run on.
type found struct {
	device   *gpu.Device
	count    int // how many the program would see; 0 where that is not known
	warnings []string
	err      error // of the user's: there is no such device
}

// findDevice finds the fullest device that the job would use: it is what the job must fit.
func findDevice(ctx context.Context, s settings, env []string) (f found) {
	switch {
	case s.Device == "cpu":
		return found{device: hostDevice(s)}
	case s.VRAM > 0:
		return found{device: &gpu.Device{Kind: gpu.CUDA, Name: "a card of " + s.VRAM.String(), Total: s.VRAM, Planned: true}, count: 1}
	}
	ctx, cancel := context.WithTimeout(ctx, driverDeadline)
	defer cancel()
	all, err := nvml.List(ctx)
	switch {
	case errors.Is(err, nvml.ErrNoDriver):
		if s.Device != "auto" {
			f.err = fmt.Errorf("%s: %w; --device cpu takes this machine's memory, and --vram 12GiB plans for a card that is not here", s.said("device", s.Device), err)
		}
		return f
	case err != nil:
		f.warnings = append(f.warnings, fmt.Sprintf("the card is not known: %v", err))
		return f
	}
	seen, unsure, err := gpu.Visible(env, all)
	if s.Device != "auto" {
		seen, unsure, err = gpu.Visible([]string{"CUDA_VISIBLE_DEVICES=" + s.Device, "CUDA_DEVICE_ORDER=PCI_BUS_ID"}, all)
	}
	if err != nil {
		if s.Device != "auto" {
			f.err = fmt.Errorf("%s: it names none of the %d devices here; `launch gpus` lists them", s.said("device", s.Device), len(all))
			return f
		}
		f.warnings = append(f.warnings, err.Error())
		return f
	}
	if unsure {
		f.warnings = append(f.warnings, "the cards differ and CUDA numbers the fastest first, which the driver does not tell: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name cards by UUID")
	}
	f.count = len(seen)
	for i := range seen {
		if f.device == nil || seen[i].Free() < f.device.Free() {
			f.device = &seen[i]
		}
	}
	return f
}

// hostDevice is this machine's memory as the room. Without a limit of the user's, nothing is limited.
func hostDevice(s settings) *gpu.Device {
	d := &gpu.Device{Kind: gpu.CPU, Name: "this machine's memory", Total: s.Memory}
	if d.Total == 0 {
		if room := hostmem.Look().Memory; room != nil { // what the machine has, or the limit of a cgroup
			d.Total = room.Free
		}
	}
	return d
}

// rooms are those of the host beside the device's: not known where the card is not here, and so neither is its host.
func rooms(d *gpu.Device) ladder.HostRooms {
	if d != nil && d.Planned {
		return ladder.HostRooms{}
	}
	return hostmem.Look()
}

// room is what the job may take on the device; 0 where there is none. A device that is full is still a device: the room
// is then less than anything needs.
func room(d *gpu.Device, s settings) unit.Bytes {
	if d == nil || d.Total == 0 {
		return 0
	}
	return max(1, d.Free()-s.Reserve)
}

// empty is what the job could take if nobody else were on the device.
func empty(d *gpu.Device, s settings) unit.Bytes {
	if d == nil || d.Total == 0 {
		return 0
	}
	return max(1, d.Total-s.Reserve)
}

// view plans the first attempt, for a person or a script to see.
func (p *prepared) view() ui.View {
	v := ui.View{Run: p.run, Device: p.device, Warnings: p.warnings, Truths: p.job.Truths}
	itself := *p.run // not the trials that may come before it
	itself.Limits.Fast, itself.Limits.Rehearse = false, false
	v.Plan, v.Stop = itself.Next()
	if v.Plan == nil && v.Stop != nil {
		v.Plan = v.Stop.Refused
	}
	return v
}

// why says what is known of a command that no plugin has recognised.
func (p *prepared) why() string {
	switch {
	case p.unread != nil:
		return p.unread.Error()
	case p.failed:
		return "its plugin failed"
	}
	return "no plugin knows it"
}
