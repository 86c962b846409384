// Package ui writes everything that a person reads, and the JSON documents that scripts read.
//
// The rules:
//
//   - While a program runs, launch writes to standard error only, every line begins with "launch: ", and standard
//     output is the program's alone. Commands that run no program write their results to standard output.
//   - Before the program: the plan in at most four lines, or with --verbose all of it. Between two attempts: one line
//     with the cause, one with the remedy. At the end: one line, after a recovery three, and one for each thing that is
//     amiss with the result.
//   - A change is printed with its old value, new value, reason and cost.
//   - A number is printed with its kind: estimate or measured peak; allocated, reserved or used. An unknown number is
//     printed as unknown, never as zero.
//   - Colour only on a terminal without NO_COLOR. No spinner and no prompt, so that launch works in a shell loop.
package ui

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A View is a plan with all that is needed to print it.
type View struct {
	Run      *run.Run
	Plan     *run.Plan // also the refused one; nil where there is none
	Stop     *run.Stop // why nothing is started; nil where something is
	Device   *gpu.Device
	Limit    unit.Bytes // --memory's, for each process in host memory; 0: none
	Decimal  bool       // an amount was typed as in "8 GB", and read as 8 GiB
	Warnings []string
	Truths   []string // those of the job that are to be printed
	// Declaration is the path of the file that declares the job's settings, as the user would type it; "" if none does.
	Declaration string
	// Fails is why the program stops as it begins: its script is not there, or does not know an option.
	Fails error
	// Saves: while it runs, the program can be asked to save its state.
	Saves bool
	// Verbose adds every line of the estimates, and every rung that is not taken.
	Verbose bool
}

// Plan writes the plan for a person, on one screen: the job, what happens to it, its memory, the changes and what they
// cost, what was not taken, and how certain that is.
func (p Printer) Plan(v View) {
	p = p.fitted()
	j := v.Run.Job
	if v.Fails != nil {
		p.line("%s %v", p.red("it stops as it begins:"), v.Fails)
	}
	p.line("%s", p.bold(v.title()))
	p.line("%s", deviceLine(v))
	if v.Plan != nil {
		p.line("%s %s", p.bold("plan:"), p.answer(v))
		p.memory(v)
		if v.Verbose {
			for _, c := range v.Plan.Choices {
				p.phase(v, c)
			}
		}
		p.host(v)
		p.changes(v)
		if why := v.unfilled(); why != "" {
			p.line("--fill changes nothing: %s", why)
		}
		p.costs(v)
		p.alternatives(v)
		p.certainty(v)
	}
	p.before(v)
	for _, w := range append(append([]string{}, j.Warnings...), v.Warnings...) {
		p.line("%s %s", p.yellow("note:"), w)
	}
	for _, w := range v.Truths {
		p.line("%s %s", p.yellow("docs are wrong:"), w)
	}
	if v.Stop != nil {
		p.Stop(v.Run, v.Stop)
	}
}

// Again writes what happens to the command once more, where the text above it has scrolled the first time away.
func (p Printer) Again(v View, above string) {
	p = p.fitted()
	rows := 0
	for line := range strings.Lines(above) {
		rows++
		if w := textWidth(strings.TrimRight(line, "\n")); p.Width > 0 && w > 0 {
			rows += (w - 1) / p.Width
		}
	}
	if v.Plan != nil && p.Height > 0 && rows >= p.Height { // the prompt takes a line, too
		p.line("%s %s", p.bold("plan:"), p.answer(v))
	}
}

// before writes which short runs come before the run itself, or should.
func (p Printer) before(v View) {
	j := v.Run.Job
	switch limits := v.Run.Limits; {
	case v.Stop != nil || j.Rehearsal.None != "":
	case limits.Fast:
		p.line("%s short runs time a few sizes, up to this plan; the fastest is used", p.bold("first:"))
	case limits.Rehearse && j.Rehearsal.Partial == "":
		p.line("%s a short run goes through every phase once", p.bold("first:"))
	}
	if v.Stop == nil && v.close() && j.Rehearsal.None == "" && j.Rehearsal.Partial == "" && !v.Run.Limits.Rehearse {
		p.line("%s the estimate and the room differ by less than the estimate's own error; --rehearse tries every "+
			"phase before the run", p.yellow("close:"))
	}
}

// unfilled returns why --fill takes no rung above the job as asked; "" if it was not set, or the plan changes something.
func (v View) unfilled() string {
	r := v.Run
	moved := func(c run.Choice) bool { return c.Rung != r.Ladders.Ladder(c.Phase).Asked }
	if !r.Limits.Fill || v.Stop != nil || r.Room == 0 || v.Plan.Shared.Rung != r.Ladders.Shared.Asked || slices.ContainsFunc(v.Plan.Choices, moved) {
		return ""
	}
	var least *ladder.Rung // the mildest rung above, and of those the one nearest to the job as asked
	phase := ""
	for _, l := range append([]ladder.Ladder{r.Ladders.Shared}, r.Ladders.Phases...) {
		for i := range l.Rungs[:l.Asked] {
			if rung := &l.Rungs[i]; least == nil || rung.Cost <= least.Cost {
				least, phase = rung, l.Phase
			}
		}
	}
	switch {
	case least == nil && r.Job.Batch.Accumulation <= 1:
		return "the global batch is in one piece already"
	case least == nil:
		return "this job has no larger setting"
	case least.Cost > r.Limits.Allow:
		return fmt.Sprintf("every larger setting costs more than --allow %s; the mildest is %s, --allow %s", r.Limits.Allow, least.Name, least.Cost)
	case phase != ladder.Shared:
		switch e := least.At(r.Ladders.Shared.Asked); {
		case !e.Known() && e.Least() <= r.Room:
			return fmt.Sprintf("nothing measured yet shows that %s fits", least.Name)
		case e.Known() && e.Total() > r.Room:
			return fmt.Sprintf("no larger setting fits; %s needs %v of %v in %s", least.Name, e.Total(), r.Room, phase)
		}
	}
	return "no larger setting fits in every phase"
}

// margin is the error of estimates without unknown parts: 4.9 % at most, against recorded steps (docs/accuracy.md).
const margin = 0.05

// close reports whether the estimate of some phase differs from the room by less than its own error.
func (v View) close() bool {
	if v.Plan == nil || v.Run.Room == 0 {
		return false
	}
	return slices.ContainsFunc(v.Plan.Choices, func(c run.Choice) bool {
		total := c.Estimate.Total()
		off := math.Abs(float64(v.Run.Room - total))
		return (c.Verdict == ladder.May || c.Verdict == ladder.Fits) && off < margin*float64(total)
	})
}

// title names the job of the view, with its declaration by the path that the user would type.
func (v View) title() string {
	j := *v.Run.Job
	if v.Declaration != "" {
		j.Dialect = "declared in " + v.Declaration
	}
	return Title(&j)
}

// Title names a job in one line.
func Title(j *job.Job) string {
	parts := []string{j.Dialect}
	if j.Arch != "" {
		if j.Generation != "" {
			parts = append(parts, j.Arch+", "+j.Generation)
		} else {
			parts = append(parts, j.Arch)
		}
	}
	if j.Name != "" {
		parts = append(parts, fmt.Sprintf("%q", j.Name))
	}
	if b := j.Batch; b.Global() > 0 {
		parts = append(parts, "global batch "+batchText(b))
	}
	return OneLine(strings.Join(parts, " · ") + " (plugin " + j.Plugin + ")")
}

func batchText(b job.Batch) string {
	s := fmt.Sprintf("%d = %d × %d", b.Global(), b.Micro, b.Accumulation)
	switch {
	case b.Ranks <= 1:
	case b.Replicas: // one process has no ranks
		s += fmt.Sprintf(" × %d cards", b.Ranks)
	default:
		s += fmt.Sprintf(" × %d ranks", b.Ranks)
	}
	return s
}

// slowdown returns the expected time of a phase at its rung and the shared rung, relative to the job as asked.
func (v View) slowdown(c run.Choice) float64 {
	s := 1.0
	for _, c := range []run.Choice{c, v.Plan.Shared} {
		if l := v.Run.Ladders.Ladder(c.Phase); l != nil && c.Rung != l.Asked && l.Rungs[c.Rung].Slowdown > 0 {
			s *= l.Rungs[c.Rung].Slowdown
		}
	}
	return s
}

// changes writes what the plan does to the recipe, the command and the environment.
func (p Printer) changes(v View) {
	p.line("")
	p.asked(v.Run.Job)
	switch {
	case v.Stop != nil && len(v.Plan.Edits) == 0:
		return
	case v.Stop != nil:
		p.line("%s that are allowed, but not enough:", p.bold("changes"))
	case len(v.Plan.Edits) == 0 && len(v.Run.Job.Asked) > 0:
		p.line("launch itself changes nothing")
		return
	case len(v.Plan.Edits) == 0:
		p.line("nothing is changed: it runs as typed")
		return
	default:
		p.line("%s (%s), in a copy; your files stay as they are:", p.bold("changes"), v.Plan.Why)
	}
	wide := 0
	for _, e := range v.Plan.Edits {
		wide = max(wide, textWidth(e.Knob))
	}
	for i, e := range v.Plan.Edits {
		p.edit(e, min(wide, 26))
		if last := i+1 == len(v.Plan.Edits); e.Why != "" && (last || v.Plan.Edits[i+1].Why != e.Why) { // a reason for several edits is printed once
			p.line("    %s", e.Why)
		}
	}
	switch change, other := batchChange(v.Run.Job.Batch, v.Plan.Batch); {
	case other:
		p.line("  %s %s", p.yellow("!"), change)
	case change != "":
		p.line("  %s", change)
	}
}

// batchChange is what becomes of the global batch; "" where no part of it changes. other: it may be another one.
func batchChange(a, b job.Batch) (change string, other bool) {
	switch {
	case a == b:
		return "", false
	case a.Global() == 0:
		return "the global batch is not known, and may be another one", true
	case a.Global() != b.Global():
		return fmt.Sprintf("global batch %s instead of %s", batchText(b), batchText(a)), true
	}
	return "global batch stays " + batchText(b), false
}

// edit writes a change, with its knob padded to a width.
func (p Printer) edit(e config.Edit, wide int) {
	from, to := p.fromTo(e)
	p.line("  %s  %s → %s   %s   cost: %s", pad(e.Knob, wide), from, to, e.At.Path, e.Cost)
}

func (p Printer) fromTo(e config.Edit) (from, to string) {
	from, to = e.From, p.bold(e.To)
	if e.Add && from == "" {
		from = "not set"
	}
	switch {
	case e.Remove:
		to = p.bold("removed")
	case e.Add && e.To == "":
		to = p.bold("set") // a flag has no value
	}
	return from, to
}

// asked writes what the user has set beside the recipe. It has no cost: the job as asked has it.
func (p Printer) asked(j *job.Job) {
	if len(j.Asked) == 0 {
		return
	}
	if len(j.AskedInFiles()) > 0 {
		p.line("%s, in a copy; your files stay as they are:", p.bold("set by you"))
	} else {
		p.line("%s:", p.bold("set by you"))
	}
	for _, e := range j.Asked {
		from, to := p.fromTo(e)
		where := e.At.Path
		if where == e.Knob {
			where = ""
		}
		p.line("  %s %s → %s   %s", pad(e.Knob, 26), from, to, where)
	}
}

// Stop writes why nothing more is started, and what the user could allow.
func (p Printer) Stop(r *run.Run, s *run.Stop) {
	p.line("%s %s", p.red("stopped:"), s.Why)
	if b := s.Beyond; b != nil {
		why := ""
		if b.Why != "" {
			why = ", because " + b.Why
		}
		p.line("  next change: %s (cost: %s%s); %s allows it", b.Name, b.Cost, why, b.Flag)
	}
	if a := s.Absent; a != nil {
		allow := ""
		if a.Cost > r.Limits.Allow {
			allow = fmt.Sprintf("; --allow %s allows it", a.Cost)
		}
		p.line("  with %s installed, %s would fit (%v, cost: %s): pip install %s%s", a.Package, a.Name, a.Needs, a.Cost,
			a.Package, allow)
	}
	if s.Code == run.CannotFit {
		p.line("  to run it anyway: --anyway")
	}
}

// A Printer writes lines for a person.
type Printer struct {
	W      io.Writer
	Prefix string // "launch: " while a program runs
	Colour bool
	Quiet  bool // only what ended badly, and why
	// Verbose prints the whole checklist at the end of a run.
	Verbose bool
	// Kept, with Quiet, are the lines about attempts: they are written if the run ends badly, and dropped if a later
	// attempt succeeds. nil: they are written at once.
	Kept *bytes.Buffer
	// Width is that of the terminal, at which lines are wrapped; 0: they are not. Height is how many lines it shows; 0:
	// not known, or no terminal.
	Width, Height int
	// Bars draws bars beside the text. They show nothing that the text does not.
	Bars bool
}

// kept is the printer for a line about an attempt that may be recovered.
func (p Printer) kept() Printer {
	if p.Quiet && p.Kept != nil {
		p.W = p.Kept
	}
	return p
}

// writeKept writes what was kept.
func (p Printer) writeKept() {
	if p.Kept != nil {
		_, _ = p.Kept.WriteTo(p.W) // to the terminal, as all of the plan
	}
}

// line writes one text. All output for a person passes here or through raw: it is cleaned ([Clean]), and its second and
// later lines are indented.
func (p Printer) line(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), " \n")
	if text == "" && p.Prefix != "" {
		return // among a program's lines an empty one of launch's shows nothing
	}
	s := clean(p.Prefix+text, p.Colour)
	s = strings.TrimRight(strings.ReplaceAll(s, "\n", "\n"+indent), " ")
	if p.Width > 0 {
		s = wrap(s, p.Width)
	}
	p.raw(s)
}

// raw writes a line that was cleaned.
func (p Printer) raw(s string) { fmt.Fprintln(p.W, s) }

func (p Printer) paint(mark rune, s string) string {
	return string(mark) + Clean(s) + string(markEnd)
}

func (p Printer) bold(s string) string   { return p.paint(markBold, s) }
func (p Printer) red(s string) string    { return p.paint(markRed, s) }
func (p Printer) green(s string) string  { return p.paint(markGreen, s) }
func (p Printer) yellow(s string) string { return p.paint(markYellow, s) }
