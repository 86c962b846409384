package declared

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
)

// Job implements [plugin.Recognized].
func (r *reading) Job() *job.Job { return r.job }

func (r *reading) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// left returns a caution for a command that the declaration leaves alone.
func (r *reading) left() error {
	for _, l := range r.Leave {
		all := true
		for _, a := range l.When {
			ok, err := r.holds(a)
			if err != nil {
				return err
			}
			all = all && ok
		}
		if all {
			return &plugin.Caution{Why: r.called + ": " + l.Why}
		}
	}
	return nil
}

// leavesAll reports whether every command is left alone: then no setting has to be declared.
func (d *declaration) leavesAll() bool {
	return slices.ContainsFunc(d.Leave, func(l exception) bool { return len(l.When) == 0 })
}

// recognize makes the job.
func (r *reading) recognize() error {
	r.uncertain()
	j := &job.Job{
		Dialect: r.called, Name: r.prog.name(), Options: r.options, Files: r.files, Signs: r.signs(), Batch: r.batch,
		Preferred: r.Prefer, Ignore: r.ignored(),
	}
	r.job = j
	j.Knobs = append(knob(job.MicroBatch, r.micro), knob(job.Accumulation, r.accum)...)
	for _, p := range r.Phases {
		if p.value.Micro != nil {
			s, err := r.find(p.value.Micro)
			if err != nil {
				return err
			}
			j.Knobs = append(j.Knobs, knob(knobOf(p.name), s)...)
		}
	}
	if r.Save != nil {
		j.Save = job.Save{Signal: r.Save.signal(), Stops: r.Save.Stops}
	}
	if err := r.states(); err != nil {
		return err
	}
	r.olderPackages()
	if err := r.shorten(); err != nil {
		return err
	}
	if err := r.data(); err != nil {
		return err
	}
	for _, g := range r.Rungs {
		if why := r.unplaced(g); why != "" {
			r.warn("rung %q is left out: %s", g.Name, why)
		}
	}
	if r.keeps && r.batch.Micro > 0 {
		r.effects() // tells what the program may count
	}
	j.Warnings = r.warnings
	return nil
}

// unplaced is why launch cannot make a rung; "" if it can, or if the rung is not for this job.
func (r *reading) unplaced(g rung) string {
	if ok, err := r.applies(g); err != nil || !ok {
		return ""
	}
	for _, a := range g.assignments() {
		if s, err := r.find(&a.place); err == nil && s.change == nil && !r.ready && !(s.known && same(s.value, a.value.any)) {
			return fmt.Sprintf("launch cannot change %s: %s", nameOf(s.at), s.fixed)
		}
	}
	return ""
}

// knob is a setting, or nothing where none is declared.
func knob(name string, s *setting) []job.Knob {
	if s == nil || s.at.Doc == "" {
		return nil
	}
	return []job.Knob{{Name: name, At: s.at, Value: s.text, Default: !s.set}}
}

// signs are what the program prints.
func (r *reading) signs() (s job.Signs) {
	add := func(sign job.Sign) {
		if sign.Pattern != "" {
			s.Lines = append(s.Lines, sign)
		}
	}
	add(job.Sign{Kind: job.Progress, Pattern: string(r.Progress)})
	add(job.Sign{Kind: job.Started, Pattern: string(r.Started)})
	add(job.Sign{Kind: job.SavedState, Pattern: string(r.Saved)})
	add(job.Sign{Kind: job.Succeeded, Pattern: string(r.Succeeded)})
	s.MustSucceed = r.Succeeded != ""
	for _, p := range r.Phases {
		add(job.Sign{Kind: job.Phase, Phase: p.name, Pattern: string(p.value.Started)})
		add(job.Sign{Kind: job.PhaseEnd, Phase: p.name, Pattern: string(p.value.Ended)})
	}
	for _, m := range r.Metric {
		add(job.Sign{Kind: job.Metric, Name: m.Name, Direction: m.direction(), Pattern: string(m.Pattern)})
	}
	for _, e := range r.Check {
		s.Checks = append(s.Checks, e.check())
	}
	for _, c := range r.Confirm {
		name := c.name
		if knob, ok := confirmed[name]; ok {
			name = knob
		}
		add(job.Sign{Kind: job.Setting, Knob: name, Pattern: string(c.value)})
	}
	return s
}

// ignored names the settings that do not change the memory, as [job.Job.Ignore] has them.
func (r *reading) ignored() (names []string) {
	for i := range r.Ignore {
		for _, one := range r.Ignore[i].each() {
			file, _, named := r.named(one)
			switch {
			case one.path != "" && named:
				names = append(names, filepath.Base(file)+": "+one.path)
			case one.path == "" && one.option():
				names = append(names, one.names...)
			case one.path == "":
				names = append(names, one.names[0]+"=")
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// states says how the program goes on from a saved state, and which folder is its own.
func (r *reading) states() error {
	j, args := r.job, r.prog.Args
	j.LastWords = r.LastWords
	var globs []string
	if r.Resume != nil {
		globs = r.Resume.globs
	}
	// a folder that nobody has typed is not locked: several runs may use it, as without launch
	_, j.Exclusive = own(globs, args, r.prog.Dir, r.value)
	j.Signs.States, _ = own(globs, args, r.prog.Dir, r.valueOrDefault)
	r.warnOfUnknown(globs)
	if r.Exclusive != "" {
		path, known := r.fill(r.Exclusive, false)
		if known {
			j.Exclusive = file.In(r.prog.Dir, path)
		}
	}
	for _, g := range r.InTheWay {
		filled, _ := r.fill(g, true)
		j.Resume.InTheWay = append(j.Resume.InTheWay, filled)
	}
	for _, g := range r.Clear {
		filled, _ := r.fill(g, true)
		j.Resume.Aside = append(j.Resume.Aside, filled)
	}
	automatic := r.Resume != nil && r.Resume.automatic // else an attempt that starts over would go on from them
	if r.batch.Micro > 0 && r.micro != nil && r.Resume != nil && !r.Resume.none {
		if r.effects(); r.counted != "" {
			r.warn("an attempt at another micro-batch starts over: %s", r.counted)
		}
	}
	if automatic || r.counted != "" || slices.ContainsFunc(r.Rungs, func(g rung) bool { return g.NewState }) {
		j.Resume.Aside = append(j.Resume.Aside, j.Signs.States...) // or could not read them
	}
	switch how := r.Resume; {
	case how == nil:
		j.Resume.None = r.origin + " names no option to resume by"
	case how.none:
		j.Resume.None = r.origin + " declares that the program cannot resume"
	case how.automatic:
		j.Resume.Automatic = true
	case how.option != nil && r.ResumeValue != "" && slices.ContainsFunc(j.Signs.States, patterned):
		// the program might take another one
		j.Resume.None = "the program itself chooses the state, and " + r.origin + " does not name one file"
	case how.option != nil:
		return r.resumeBy(settings[scalar]{{*how.option, scalar{any: cmp.Or(r.ResumeValue, statePath)}}})
	default:
		return r.resumeBy(how.set)
	}
	return nil
}

// statePath stands for the path of the state in a declaration.
const statePath = "{state}"

// resumeBy makes the edits of a resume.
func (r *reading) resumeBy(set settings[scalar]) error {
	for _, a := range set {
		s, err := r.find(&a.place)
		if err != nil {
			return err
		}
		if s.change == nil {
			r.job.Resume = job.Resume{InTheWay: r.job.Resume.InTheWay, Aside: r.job.Resume.Aside,
				None: fmt.Sprintf("launch cannot change %s: %s", nameOf(s.at), s.fixed)}
			return nil
		}
		to := a.value
		if text, ok := to.any.(string); ok {
			text, _ = r.fill(text, false)
			text = strings.ReplaceAll(text, statePath, job.SavedPath)
			to = scalar{any: text, text: text}
		}
		e, err := r.edit("resume", s, to, ladder.None)
		if err != nil {
			return err
		}
		if e.From != e.To || e.Add || e.Remove {
			r.job.Resume.Edits = append(r.job.Resume.Edits, e)
		}
	}
	return nil
}

// shorten says how the program is shortened for a trial.
func (r *reading) shorten() error {
	r.job.Rehearsal.None = "a declaration does not say how the program is shortened"
	if r.Rehearse == nil {
		return nil
	}
	r.job.Rehearsal = job.Rehearsal{Steps: r.Rehearse.Steps}
	for _, a := range r.Rehearse.Set {
		s, err := r.find(&a.place)
		if err != nil {
			return err
		}
		if s.change == nil {
			r.job.Rehearsal = job.Rehearsal{None: fmt.Sprintf("launch cannot change %s: %s", nameOf(s.at), s.fixed)}
			return nil
		}
		e, err := r.edit("rehearse", s, a.value, ladder.None)
		if err != nil {
			return err
		}
		if e.From != e.To || e.Add || e.Remove {
			r.job.Rehearsal.Edits = append(r.job.Rehearsal.Edits, e)
		}
	}
	return r.order()
}

// order has a rehearsal begin with the largest batch, by the first ordering that the packages of the command's Python
// have.
func (r *reading) order() error {
	h, out := r.Rehearse, &r.job.Rehearsal
	if h.Alike {
		return nil
	}
	out.Unordered = cmp.Or(h.NoOrder, r.origin+" names no setting that puts the largest batch first")
	for _, o := range h.Largest {
		if why := r.lacks(o.Needs); why != "" {
			out.Unordered = why
			continue
		}
		var edits []config.Edit
		for _, a := range o.Set {
			s, err := r.find(&a.place)
			if err != nil {
				return err
			}
			if s.change == nil {
				out.Unordered = fmt.Sprintf("launch cannot change %s: %s", nameOf(s.at), s.fixed)
				return nil
			}
			e, err := r.edit("largest batch first", s, a.value, ladder.None)
			if err != nil {
				return err
			}
			if e.From != e.To || e.Add || e.Remove {
				edits = append(edits, e)
			}
		}
		out.Largest, out.Unordered = edits, ""
		return nil
	}
	return nil
}

// data are the files and folders that the settings name. A name of a hub, which is no path, is not declared as data.
func (r *reading) data() error {
	for i := range r.Data {
		s, err := r.find(&r.Data[i])
		if err != nil {
			return err
		}
		text := strings.Trim(fmt.Sprint(s.value), `"'`)
		if !s.known || text == "" || strings.Contains(text, "://") {
			continue
		}
		if dir := r.prog.Dir; dir != r.command.Dir {
			text = file.In(dir, text)
		}
		r.job.Data = append(r.job.Data, job.Data{At: s.at, Path: text, What: "the data"})
	}
	return nil
}

// value is what a name in braces means in a path: an option's value, or one of values.
func (r *reading) value(name string) (string, bool) {
	if strings.HasPrefix(name, "-") {
		return optionOf(r.prog.Args, name)
	}
	a, ok := r.Values.get(name)
	if !ok || a.place == nil {
		return "", false
	}
	s, err := r.find(a.place)
	if err != nil || !s.known {
		return "", false
	}
	return strings.Trim(fmt.Sprint(s.value), `"'`), true
}

// valueOrDefault is as value. An option that is not typed has the program's own default, where that can be read.
func (r *reading) valueOrDefault(name string) (string, bool) {
	if v, ok := r.value(name); ok || !strings.HasPrefix(name, "-") {
		return v, ok
	}
	p := place{names: []string{name}}
	if o, ok := r.prog.settings().Lookup(name); ok {
		for _, other := range o.Names { // it may be typed by another of its names, or by the beginning of one
			for i, a := range r.prog.Args {
				typed, v, joined := strings.Cut(a, "=")
				if other != typed && !(len(typed) > 3 && strings.HasPrefix(other, typed)) {
					continue
				}
				if joined {
					return v, true
				}
				if i+1 < len(r.prog.Args) {
					return r.prog.Args[i+1], true
				}
			}
		}
	}
	if r.elsewhere(p) || r.otherwise(p) {
		return "", false
	}
	v, known := r.prog.defaultOf(p)
	return v, known && v != ""
}

// warnOfUnknown warns if no saved state may ever be found, because a part of their path is neither typed nor known from
// the program, which does not print the path either.
func (r *reading) warnOfUnknown(globs []string) {
	if pattern(r.Saved).has("path") || r.Resume == nil || r.Resume.none {
		return
	}
	for _, g := range globs {
		for _, ref := range reference.FindAllStringSubmatch(g, -1) {
			if v, ok := r.valueOrDefault(ref[1]); strings.HasPrefix(ref[1], "-") && (!ok || v == "") {
				r.warn("the folder of the saved states is not known, because %s is not typed and its default cannot be read: "+
					"a retry may not find them, and starts over. Type %s", ref[1], ref[1])
				return
			}
		}
	}
}

// fill puts the values of names into a path. In a glob they are escaped, and what is not known becomes "*".
func (r *reading) fill(text string, glob bool) (filled string, known bool) {
	known = true
	filled = reference.ReplaceAllStringFunc(text, func(ref string) string {
		name := ref[1 : len(ref)-1]
		if ref == statePath || ref == job.Scratch || ref == job.ScratchName {
			return ref
		}
		v, ok := r.value(name)
		switch {
		case ok && glob:
			return file.EscapeGlob(v)
		case ok:
			return v
		}
		known = false
		return "*"
	})
	return filled, known
}

// optionOf is the value of an option as it was typed.
func optionOf(args []string, option string) (string, bool) {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, option+"="); ok {
			return v, true
		}
		if a == option && i+1 < len(args) {
			return args[i+1], true
		}
	}
	return "", false
}
