// Package ui writes everything that a person reads, and the JSON documents that scripts read.
//
// The rules:
//
//   - While a program runs, launch writes to standard error only, every line begins with "launch: ", and standard
//     output is the program's alone. Commands that run no program write their results to standard output.
//   - Before the program: the plan, on one screen. Between two attempts: one line with the cause, one with the remedy.
//     At the end: a summary.
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
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A View is a plan with all that is needed to print it.
type View struct {
	Run      *run.Run
	Plan     *run.Plan // also the refused one; nil where there is none
	Stop     *run.Stop // why nothing is started; nil where something is
	Device   *gpu.Device
	Warnings []string
	Truths   []string // those of the job that are to be printed
	// Declaration is the path of the file that declares the job's settings, as the user would type it; "" if none does.
	Declaration string
}

// Plan writes the plan for a person, on one screen.
func (p Printer) Plan(v View) {
	j := v.Run.Job
	p.line("%s", p.bold(v.title()))
	p.line("%s", deviceLine(v))
	if v.Plan != nil {
		for _, c := range v.Plan.Choices {
			p.phase(v, c)
		}
		p.host(v)
		p.learned(v.Plan)
		p.changes(v)
		if why := v.unfilled(); why != "" {
			p.line("--fill changes nothing: %s", why)
		}
	}
	switch limits := v.Run.Limits; {
	case v.Stop != nil || j.Rehearsal.None != "":
	case limits.Fast:
		p.line("%s short runs time a few sizes, up to this plan; the fastest is used", p.bold("first:"))
	case limits.Rehearse && j.Rehearsal.Partial == "":
		p.line("%s a short run goes through every phase once", p.bold("first:"))
	}
	if v.Stop == nil && v.close() && j.Rehearsal.None == "" && j.Rehearsal.Partial == "" && !v.Run.Limits.Rehearse {
		p.line("%s the estimate and the room differ by less than the estimate's own error; --rehearse tries every phase before the run", p.yellow("close:"))
	}
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

// learned writes which receipts a plan's estimates used.
func (p Printer) learned(plan *run.Plan) {
	var runs []string
	for _, c := range plan.Choices {
		for _, id := range c.Estimate.Learned {
			if name, _, _ := strings.Cut(id, "/"); !slices.Contains(runs, name) {
				runs = append(runs, name)
			}
		}
	}
	if len(runs) == 0 {
		return
	}
	p.line("")
	more := ""
	if n := len(runs) - 3; n > 0 {
		runs, more = runs[:3], fmt.Sprintf(" and %d more", n)
	}
	p.line("the estimates use the receipts of run %s%s; --receipts=false plans without them", strings.Join(runs, ", "), more)
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

func deviceLine(v View) string {
	if v.Device == nil {
		return "no device: there is no NVIDIA driver here. Use --vram 12GiB to plan for a card, or --device cpu --memory 8GiB for this machine"
	}
	d := v.Device
	s := d.Name
	switch {
	case d.Planned: // its name has the amount
		s += " (given, not measured)"
	case d.Total > 0:
		s += ", " + d.Total.String()
	}
	if others := d.Used; others > 0 && d.Kind == gpu.CUDA {
		s += fmt.Sprintf(", %v in use by others", others)
	}
	return s + fmt.Sprintf(" · room for this job %v", v.Run.Room)
}

// phase writes the table of one phase: as asked beside as planned.
func (p Printer) phase(v View, c run.Choice) {
	l := v.Run.Ladders.Ladder(c.Phase)
	asked := l.Rungs[l.Asked].At(v.Run.Ladders.Shared.Asked)
	planned := c.Estimate
	p.line("")
	if !asked.Known() && !planned.Known() {
		p.line("  %s  %s: %s", p.bold(c.Phase), p.yellow("unknown"), planned.Unknown)
		if len(planned.Items) > 0 { // what is counted so far is a lower bound
			for _, row := range ledger(planned, planned) {
				p.line("    %s %12s", pad(row.name, 34), cell(row.planned))
			}
			if least := planned.Least(); least > 0 {
				p.line("    %s %12v   %s", pad("so far, at least", 34), least, p.yellow("the rest is unknown"))
			}
		}
		return
	}
	changed := c.Rung != l.Asked || v.Plan.Shared.Rung != v.Run.Ladders.Shared.Asked
	if changed {
		name := c.Name
		if c.Rung == l.Asked { // the change is on the shared ladder
			name = v.Plan.Shared.Name
		}
		p.line("  %-36s %12s %12s   %s", p.bold(pad(c.Phase, 36)), "as asked", "planned", name)
	} else {
		p.line("  %-36s %12s", p.bold(pad(c.Phase, 36)), "as asked")
	}
	for _, row := range ledger(asked, planned) {
		cells := fmt.Sprintf("%12s", cell(row.asked))
		if changed {
			cells += fmt.Sprintf(" %12s", cell(row.planned))
		}
		p.line("    %s %s", pad(row.name, 34), cells)
	}
	total := fmt.Sprintf("%12s", askedTotal(asked))
	if changed {
		total += fmt.Sprintf(" %12v", planned.Total())
	}
	p.line("    %s %s   %s", pad("estimate", 34), total, p.verdict(v, c))
	if s := v.slowdown(c); s >= slower {
		p.line("    expected to take %.3g times as long (a rule of thumb)", s)
	}
	if r := planned.Reserved; r > planned.Total()+planned.Total()/20 {
		p.line("    given more room, the allocator caches up to %v and returns most of it under pressure", r)
	}
	if f := asked.FirstFailing(v.Run.Room); f != nil && v.Run.Room > 0 {
		p.line("    as asked, the first request that fails: %v, %s", f.Bytes, f.What)
	}
}

// slower is the expected slowdown from which a plan prints it. Activation checkpointing is above, a split into a few pieces below.
const slower = 1.25

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

func askedTotal(e mem.Estimate) string {
	if !e.Known() {
		return "unknown"
	}
	return e.Total().String()
}

func (p Printer) verdict(v View, c run.Choice) string {
	room := v.Run.Room
	if room == 0 {
		return ""
	}
	left := room - c.Estimate.Total()
	switch c.Verdict {
	case ladder.Fits:
		return p.green(fmt.Sprintf("fits, %v left", left))
	case ladder.May:
		return p.yellow(fmt.Sprintf("may not fit: %v too much, but part of the estimate is a guess", -left))
	case ladder.Not:
		return p.red(fmt.Sprintf("cannot fit: %v are certain, %v too much", c.Estimate.Certain(), c.Estimate.Certain()-room))
	}
	return p.yellow("unknown: " + c.Estimate.Unknown)
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
	for i, e := range v.Plan.Edits {
		p.edit(e)
		if last := i+1 == len(v.Plan.Edits); e.Why != "" && (last || v.Plan.Edits[i+1].Why != e.Why) { // a reason for several edits is printed once
			p.line("    %s", e.Why)
		}
	}
	switch a, b := v.Run.Job.Batch, v.Plan.Batch; {
	case a == b:
	case a.Global() == 0:
		p.line("  %s the global batch is not known, and may be another one", p.yellow("!"))
	case a.Global() != b.Global():
		p.line("  %s global batch %s instead of %s", p.yellow("!"), batchText(b), batchText(a))
	default:
		p.line("  global batch stays %s", batchText(b))
	}
}

func (p Printer) edit(e config.Edit) {
	from, to := p.fromTo(e)
	p.line("  %s %s → %s   %s   cost: %s", pad(e.Knob, 26), from, to, e.At.Path, e.Cost)
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
		p.line("  next rung: %s (cost: %s); %s allows it", b.Name, b.Cost, b.Flag)
	}
	if s.Code == run.CannotFit {
		p.line("  to run it anyway: --anyway")
	}
}

// row is a line of a phase's table.
type row struct {
	name           string
	asked, planned unit.Bytes
}

// minor is the share of a phase below which its lines are added up into one.
const minor = 0.01

// ledger joins the lines of two estimates by part and kind, and adds up the minor ones.
func ledger(asked, planned mem.Estimate) []row {
	var rows []row
	at := map[string]int{}
	put := func(it mem.Item, into func(*row) *unit.Bytes) {
		name := strings.TrimSpace(it.What + " " + string(it.Kind))
		if it.What == "" || it.What == string(it.Kind) {
			name = string(it.Kind)
		}
		if it.Guess {
			name += " (guess)"
		}
		i, ok := at[name]
		if !ok {
			i = len(rows)
			at[name] = i
			rows = append(rows, row{name: name})
		}
		*into(&rows[i]) += it.Bytes
	}
	for _, it := range asked.Items {
		put(it, func(r *row) *unit.Bytes { return &r.asked })
	}
	for _, it := range planned.Items {
		put(it, func(r *row) *unit.Bytes { return &r.planned })
	}
	a, b := asked.Total(), planned.Total()
	var shown []row
	rest, n := row{}, 0
	for _, r := range rows {
		if float64(r.asked) >= minor*float64(a) || float64(r.planned) >= minor*float64(b) || float64(-r.asked) >= minor*float64(a) || float64(-r.planned) >= minor*float64(b) {
			shown = append(shown, r)
			continue
		}
		rest.asked, rest.planned, n = rest.asked+r.asked, rest.planned+r.planned, n+1
	}
	if n > 0 {
		rest.name = fmt.Sprintf("%d smaller lines", n)
		shown = append(shown, rest)
	}
	return shown
}

func cell(b unit.Bytes) string {
	if b == 0 {
		return "-"
	}
	return b.String()
}

// pad fills to n columns, counting runes.
func pad(s string, n int) string {
	if w := len([]rune(s)); w < n {
		return s + strings.Repeat(" ", n-w)
	}
	return s
}

// A Printer writes lines for a person.
type Printer struct {
	W      io.Writer
	Prefix string // "launch: " while a program runs
	Colour bool
	Quiet  bool // only what ended badly, and why
	// Kept, with Quiet, are the lines about attempts: they are written if the run ends badly, and dropped if a later
	// attempt succeeds. nil: they are written at once.
	Kept *bytes.Buffer
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
		p.Kept.WriteTo(p.W)
	}
}

// line writes one text. All output for a person passes here: it is cleaned ([Clean]), and its second and later lines are indented.
func (p Printer) line(format string, args ...any) {
	s := clean(p.Prefix+strings.TrimRight(fmt.Sprintf(format, args...), " \n"), p.Colour)
	fmt.Fprintln(p.W, strings.TrimRight(strings.ReplaceAll(s, "\n", "\n"+indent), " "))
}

func (p Printer) paint(mark rune, s string) string {
	return string(mark) + Clean(s) + string(markEnd)
}

func (p Printer) bold(s string) string   { return p.paint(markBold, s) }
func (p Printer) red(s string) string    { return p.paint(markRed, s) }
func (p Printer) green(s string) string  { return p.paint(markGreen, s) }
func (p Printer) yellow(s string) string { return p.paint(markYellow, s) }
