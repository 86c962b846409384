package run

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
)

// weigh turns a success into a failure if the program's own reports contradict it: it resumed and made no step, or it
// trained with another batch or for another number of steps than planned.
func (r *Run) weigh(p *Plan, o *Outcome) {
	r.contradict(p, o)
	if p.Trial == "" {
		if o.Resumption = r.resumption(p, o); o.Resumption == nil {
			o.Resumption = r.byItself(p, o)
		}
		if o.Resumption == nil {
			o.WentOn = p.wentOn(o)
		}
		for _, why := range append(slices.Clip(r.inherited(p)), r.doubled(p, o)) {
			if why != "" && !slices.Contains(o.Changed, why) {
				o.Changed = append(o.Changed, why)
			}
		}
		o.doubt(p, r.astray(p, o))
	}
}

// contradict does so for what is certain.
func (r *Run) contradict(p *Plan, o *Outcome) {
	if p.Trial != "" || o.Ending == Interrupted {
		return
	}
	if why := r.Differs(p, o); why != "" && o.Untaken == "" {
		o.Ending, o.Untaken, o.Lied, o.Silent = Failed, why, false, false
		o.Cause = "it ran without the settings of the plan: " + why
	}
	o.Changed = r.Changed(p, o)
	if o.Ending != Succeeded || !r.Job.Signs.Has(job.Progress) {
		return
	}
	if steps := r.steps(o); o.Asked != "" && o.Early == "" && o.before(steps, r.Job.Signs) {
		// a program that leaves its loop at a signal prints its last lines all the same
		o.Ending, o.Cause, o.Claimed, o.Silent = Interrupted, o.Asked, false, false
		return
	}
	if p.Resume != nil && o.Stepped && !o.Varied && !o.Figures && o.Iteration == p.Resume.number() {
		o.Stepped = false // it only printed the iteration from which it resumes
	}
	steps, every := r.steps(o), max(1, r.Job.Signs.Every)
	if p.Resume != nil {
		every = max(every, mainCourse(p.Resume.At).every())
	}
	switch {
	case r.Cut != nil && r.Cut.Succeeded: // the training was complete when launch was killed
	// A step's own figures, such as its loss, show that it was made, even if the program counts it as step 0.
	case p.Resume != nil && !o.Stepped && !o.Figures && r.stepless(p, o, steps, every):
	case steps > 0 && o.Iteration > 0 && !r.Job.Signs.CountsMicro && tooFew(o.Iteration, steps, every,
		p.Resume != nil && p.Resume.Zero, mainCourse(o.Courses)):
		o.Short = fmt.Sprintf("the last step that it reported was %d of %d", o.Iteration, steps)
		if o.Doubt != "" { // it hid an out-of-memory and still printed its success line
			o.Ending, o.Lied, o.Cause = OutOfMemory, true, o.Doubt
		}
	}
}

// before reports whether a program that was told to stop had steps left to make.
func (o *Outcome) before(steps int64, signs job.Signs) bool {
	c := mainCourse(o.Courses)
	if c.fromZero() {
		steps--
	}
	return steps > 0 && o.Iteration > 0 && !signs.CountsMicro && (c == nil || !c.Falls) &&
		o.Iteration+max(1, signs.Every, c.every()) <= steps
}

// stepless weighs a success after a resume without a step: a failure, unless too few were left to be reported. done
// reports whether that decides it. every is the number of steps between two reports.
func (r *Run) stepless(p *Plan, o *Outcome, steps, every int64) (done bool) {
	switch {
	case r.unseen(): // its steps were not seen before, either
	case steps == 0 && every > 1: // fewer may have been left
		o.Doubtful = fmt.Sprintf("it resumed from %v, and no step was seen after that", p.Resume)
	case steps == 0 || max(p.Resume.number(), o.Iteration, r.reached())+every <= steps:
		o.Ending, o.Lied = Failed, true
		o.Cause = fmt.Sprintf("it resumed from %v and ended without a step", p.Resume)
	default:
		return false
	}
	return true
}

// unseen reports whether the patterns for progress matched nothing in any attempt before, although those attempts
// trained: they are not those of this program.
func (r *Run) unseen() bool {
	return (len(r.Attempts) > 0 || r.Cut != nil) && r.reached() == 0 &&
		!slices.ContainsFunc(r.Attempts, func(a Attempt) bool { return a.Outcome.Stepped || a.Outcome.Figures })
}

// reached returns the last iteration that any attempt has reported.
func (r *Run) reached() (most int64) {
	for _, a := range r.Attempts {
		if a.Plan.Trial == "" {
			most = max(most, a.Outcome.Iteration)
		}
	}
	if r.Cut != nil {
		most = max(most, r.Cut.Iteration)
	}
	return most
}

// steps returns the number of steps of the training, from its recipe or from the program; 0 if unknown.
func (r *Run) steps(o *Outcome) int64 {
	if r.Job.Steps > 0 {
		return r.Job.Steps
	}
	if o.Total == 0 && !r.Job.Signs.CountsMicro {
		for _, a := range r.Attempts {
			o = &a.Outcome
			if o.Total > 0 {
				return o.Total
			}
		}
		if r.Cut != nil {
			return r.Cut.Total
		}
	}
	return o.Total
}

var numbers = lazy.MustCompile(`\d+`)

// number returns the iteration of a state, or the last number in its name; -1 if it has neither.
func (s *State) number() int64 {
	if s.Iteration > 0 {
		return s.Iteration
	}
	if all := numbers.FindAllString(filepath.Base(s.Path), -1); len(all) > 0 {
		if n, err := strconv.ParseInt(all[len(all)-1], 10, 64); err == nil {
			return n
		}
	}
	return -1
}

// Differs returns how the batch and the number of steps that a program has reported so far differ from the plan; "" if
// they do not.
func (r *Run) Differs(p *Plan, o *Outcome) string {
	for _, e := range r.Job.With(p.Edits) {
		said, ok := o.Settings[e.Knob]
		said = strings.ReplaceAll(said, ",", "")
		if ok && (e.Knob == job.MicroBatch || e.Knob == job.Accumulation) && said == e.From && said != e.To {
			return fmt.Sprintf("the program reports %s %s, as in your recipe, but the plan has %s", e.Knob, said, e.To)
		}
	}
	if said, ok := o.Settings[job.GlobalBatch]; ok && p.Cost < ladder.Recipe {
		for _, a := range r.Attempts {
			was, ok := a.Outcome.Settings[job.GlobalBatch]
			if ok && a.Plan.Trial == "" && a.Plan.Cost < ladder.Recipe && !same(said, strings.ReplaceAll(was, ",", "")) {
				return fmt.Sprintf("the program reports a global batch of %s now, but reported %s in attempt %d", said,
					was, a.Plan.Attempt)
			}
		}
	}
	if why := r.dividesOtherwise(p, o); why != "" {
		return why
	}
	first := slices.IndexFunc(r.Attempts, func(a Attempt) bool { return a.Plan.Trial == "" && a.Outcome.Total > 0 })
	if o.Total == 0 || first < 0 || p.Cost >= ladder.Recipe || r.Attempts[first].Plan.Cost >= ladder.Recipe {
		return ""
	}
	was := r.Attempts[first]
	before, now := float64(was.Outcome.Total), float64(o.Total)
	if r.scales(&was, p, o)[0] != 1 { // these are forward passes, not optimizer steps
		before, now = before/float64(max(1, was.Plan.Batch.Accumulation)), now/float64(max(1, p.Batch.Accumulation))
	}
	if p.Resume != nil && p.Resume.leaves(before, now, mainCourse(o.Courses)) {
		return ""
	}
	if apart(before, now) {
		return fmt.Sprintf("the program trains for %.4g steps now, but trained for %.4g in attempt %d", now, before,
			was.Plan.Attempt)
	}
	return ""
}

// apart reports whether two numbers of steps differ by more than rounding.
func apart(before, now float64) bool {
	d := max(now-before, before-now)
	return d > 1 && d > before/100
}

// dividesOtherwise returns how the reported micro-batch and accumulation show that the global batch is another one than
// in an earlier attempt; "" if they do not. A program may report one of them alone, and in a unit of its own, such as
// for all ranks. So what it reports is compared in proportion to the plan.
func (r *Run) dividesOtherwise(p *Plan, o *Outcome) string {
	for _, a := range r.Attempts {
		if a.Plan.Trial != "" || max(p.Cost, a.Plan.Cost) >= ladder.Recipe {
			continue
		}
		was, now := 1.0, 1.0
		var before, after []string
		for _, s := range []struct {
			knob     string
			was, now int64 // planned
		}{
			{job.MicroBatch, a.Plan.Batch.Micro, p.Batch.Micro},
			{job.Accumulation, a.Plan.Batch.Accumulation, p.Batch.Accumulation},
		} {
			x, known := reported(&a.Outcome, s.knob)
			y, again := reported(o, s.knob)
			if !known || !again || s.was < 1 || s.now < 1 {
				continue
			}
			was, now = was*x/float64(s.was), now*y/float64(s.now)
			before = append(before, fmt.Sprintf("%s %g (planned: %d)", s.knob, x, s.was))
			after = append(after, fmt.Sprintf("%s %g (planned: %d)", s.knob, y, s.now))
		}
		if d := max(was-now, now-was); d > was/1000 {
			return fmt.Sprintf("the program reports %s now, and reported %s in attempt %d: the global batch is another one",
				strings.Join(after, " and "), strings.Join(before, " and "), a.Plan.Attempt)
		}
	}
	return ""
}

// reported is a number from 1 that the program has printed for a setting.
func reported(o *Outcome, knob string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.ReplaceAll(o.Settings[knob], ",", ""), 64)
	return n, err == nil && n >= 1
}

// An Open is an edit that the program does not confirm. Said is the value that it reports instead; "" if it reports
// none.
type Open struct{ Knob, To, Said string }

func (u Open) String() string {
	s := u.Knob
	if u.To != "" { // an option without a value has none
		s += " = " + u.To
	}
	if u.Said != "" {
		s += fmt.Sprintf(" (it reports %s)", u.Said)
	}
	return s
}

// Unconfirmed lists the edits, those that the user has asked for included, for which the program reports another value
// than planned, or no value, neither in its output nor in its own copy of the recipe. What launch passes directly
// counts as confirmed: the environment, and the arguments of a program that reads these settings only from there.
func (a *Attempt) Unconfirmed(j *job.Job) (out []Open) {
	for _, e := range j.With(a.Plan.Edits) {
		switch seen, ok := a.Outcome.Settings[e.Knob]; {
		case ok && !same(seen, e.To):
			out = append(out, Open{e.Knob, e.To, seen})
		case ok, slices.Contains(a.Outcome.Confirmed, e.At.Doc), e.At.Doc == config.EnvDoc, e.At.Doc == config.ArgvDoc && j.Signs.TakesArgv:
		// the program's progress shows whether it took these
		case e.At.Doc == config.ArgvDoc && slices.Contains(j.Asked, e): // an argument of the user's, as if typed
		case e.Knob == "resume", strings.Contains(e.To, job.FreePort):
		default:
			out = append(out, Open{e.Knob, e.To, ""})
		}
	}
	return out
}

// unprinted lists the edits of which the program neither printed the value nor saved the document. What launch passes
// directly is among them: that it was passed does not show that it was used.
func (a *Attempt) unprinted(j *job.Job) (out []string) {
	for _, e := range j.With(a.Plan.Edits) {
		if _, ok := a.Outcome.Settings[e.Knob]; ok || slices.Contains(a.Outcome.Confirmed, e.At.Doc) || e.Knob == "resume" ||
			strings.Contains(e.To, job.FreePort) {
			continue
		}
		out = append(out, Open{e.Knob, e.To, ""}.String())
	}
	return out
}

// reports reports whether the program has printed a part of the batch.
func (a *Attempt) reports() bool {
	return slices.ContainsFunc([]string{job.MicroBatch, job.Accumulation, job.GlobalBatch}, func(knob string) bool {
		return a.Outcome.Settings[knob] != ""
	})
}

// Misread lists the parts of the batch that nothing changed, and of which the program reports another number than was
// read from the command: the global batch is then another one than launch prints. With several ranks a program may
// report the sum of all, so nothing follows.
func (a *Attempt) Misread() (out []Open) {
	b := a.Plan.Batch
	if b.Ranks != 1 || b.Replicas {
		return nil
	}
	for _, s := range []struct {
		knob string
		read int64
	}{{job.MicroBatch, b.Micro}, {job.Accumulation, b.Accumulation}} {
		n, ok := reported(&a.Outcome, s.knob)
		edited := slices.ContainsFunc(a.Plan.Edits, func(e config.Edit) bool { return e.Knob == s.knob })
		if ok && !edited && s.read > 0 && n != float64(s.read) {
			out = append(out, Open{s.knob, strconv.FormatInt(s.read, 10), a.Outcome.Settings[s.knob]})
		}
	}
	return out
}

// same reports whether a printed value equals another one. Programs group digits, and write numbers and words in
// different ways.
func same(printed, value string) bool {
	if printed == value || strings.ReplaceAll(printed, ",", "") == value || plain(printed) == plain(value) {
		return true
	}
	a, err := strconv.ParseFloat(printed, 64)
	b, wrong := strconv.ParseFloat(value, 64)
	return err == nil && wrong == nil && a == b
}

// plain is a value without the quotes of a text and the spaces of a list, which Python prints in its own way.
func plain(value string) string {
	if n := len(value); n > 1 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	if strings.HasPrefix(value, "[") || strings.HasPrefix(value, "(") {
		return strings.NewReplacer(" ", "", `"`, "'").Replace(value)
	}
	return value
}

// Unmoved returns why the last two attempts show that the program does not use the settings, "" if they do not: nothing
// confirms the settings, and at another micro-batch memory ran out at the same figures.
func (r *Run) Unmoved(last *Attempt) string {
	if len(r.Attempts) < 2 || len(last.Unconfirmed(r.Job)) == 0 {
		return ""
	}
	was := &r.Attempts[len(r.Attempts)-2]
	a, b := was.Outcome.Report, last.Outcome.Report
	if was.Outcome.Ending != OutOfMemory || was.Plan.Batch.Micro == last.Plan.Batch.Micro || r.phaseOf(was.Outcome) != r.phaseOf(last.Outcome) ||
		a.Requested == nil || b.Requested == nil || a.Allocated == nil || b.Allocated == nil {
		return ""
	}
	close := func(x, y int64) bool { return 100*max(x-y, y-x) <= max(x, y) }
	if !close(int64(*a.Requested), int64(*b.Requested)) || !close(int64(*a.Allocated), int64(*b.Allocated)) {
		return ""
	}
	return fmt.Sprintf("it ran out of memory at micro-batch %d and at %d, both times with %[4]v allocated on a "+
		"request for %[3]v, and its output never confirms the settings",
		was.Plan.Batch.Micro, last.Plan.Batch.Micro, *b.Requested, *b.Allocated)
}
