package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// RunRow is a run in the list of runs.
type RunRow struct {
	ID       string     `json:"id"`
	State    string     `json:"state"`               // an ending, "running", or "cut off"
	Host     string     `json:"host,omitempty"`      // where it runs, if that is another machine
	LastSign *time.Time `json:"last_sign,omitempty"` // of that machine
	Began    time.Time  `json:"began"`
	Plugin   string     `json:"plugin,omitempty"`
	Name     string     `json:"name,omitempty"`
	Arch     string     `json:"arch,omitempty"`
	Attempts int        `json:"attempts"`
	Changes  string     `json:"changes,omitempty"`
	// Mixed is from where the run is no longer what it began as, one line each; absent if it is.
	Mixed   []string   `json:"mixed,omitempty"`
	Peak    unit.Bytes `json:"peak_bytes,omitempty"` // absent: not measured
	Command []string   `json:"command"`
}

// RowOf summarises a run. life is whether a launch is running it now.
func RowOf(h *record.History, life record.Life) RunRow {
	row := RunRow{ID: h.ID, State: "cut off"}
	switch {
	case len(h.Events) == 0 || h.Events[0].Kind != record.Started && h.Events[0].Kind != record.Followed:
		row.State = "damaged" // its beginning cannot be read
		return row
	case life.Alive:
		row.State = "running"
		if life.Host != "" {
			row.Host, row.LastSign = life.Host, &life.Sign
		}
	}
	for _, e := range h.Events {
		if row.Began.IsZero() {
			row.Began = e.Time
		}
		switch {
		case e.Kind == record.Followed:
			row.Command, row.Attempts = e.Args, 1
		case e.Kind == record.Stopped && h.Events[0].Kind == record.Followed:
			row.State = "not started"
		case e.Kind == record.Ended && e.Outcome != nil:
			row.State, row.Peak = stateOf(e.Outcome), e.Outcome.Peak
		}
	}
	r := h.Run()
	if r == nil {
		return row
	}
	row.Plugin, row.Name, row.Arch, row.Command = r.Job.Plugin, r.Job.Name, r.Job.Arch, r.Job.Command.Args
	row.Attempts = len(h.Tried())
	for _, m := range r.Mixed {
		row.Mixed = append(row.Mixed, m.String())
	}
	if last := r.Last(); last != nil {
		row.Changes, row.Peak = last.Plan.Changes(), last.Outcome.Peak
		if h.Stop() != nil {
			row.State = stateOf(&last.Outcome)
		}
	} else if s := h.Stop(); s != nil {
		row.State = "refused"
		if s.Why == string(run.Interrupted) { // before anything was run
			row.State = s.Why
		}
	}
	return row
}

// stateOf is the state of a run whose last attempt has ended: its ending, or "doubtful".
func stateOf(out *run.Outcome) string {
	if out.Ending == run.Succeeded && out.Doubtful != "" {
		return run.Doubtful
	}
	return string(out.Ending)
}

// Runs writes the list of runs, the newest last.
func (p Printer) Runs(rows []RunRow) {
	if len(rows) == 0 {
		p.line("no runs")
		return
	}
	var all []tableRow
	var titles []string
	for _, r := range rows {
		titles = append(titles, OneLine(r.Title()))
	}
	wide := p.columnOf(40, titles)
	for i, r := range rows {
		what := titles[i]
		state := r.State
		for _, m := range r.Mixed {
			r.Changes = strings.TrimSuffix(m+"; "+r.Changes, "; ")
		}
		switch {
		case len(r.Mixed) > 0:
			state = p.yellow(state)
		case r.State == string(run.Succeeded):
			state = p.green(state)
		case r.State == "running":
		case r.State == run.Doubtful:
			state = p.yellow(state)
		default:
			state = p.red(state)
		}
		peak := ""
		if r.Peak > 0 {
			peak = "peak " + r.Peak.String()
		}
		if r.State == "running" && r.Host != "" {
			r.Changes = strings.TrimPrefix(r.Changes+"; ", "; ") + fmt.Sprintf("on %s, last sign %s ago", r.Host, short(time.Since(*r.LastSign)))
		}
		tries := Count(r.Attempts, "attempt")
		all = append(all, tableRow{
			line: fmt.Sprintf("%s  %s %s %s %s  %s", r.ID, pad(state, 14), pad(tries, 11), pad(what, wide), pad(peak, 14),
				r.Changes),
			title: fmt.Sprintf("%s  %s", r.ID, state), fields: []string{what, tries, peak, r.Changes},
		})
	}
	p.grid("", all)
}

// Show writes a recorded run, attempt by attempt.
func (p Printer) Show(h *record.History, life record.Life) {
	row := RowOf(h, life)
	state := row.State
	if len(row.Mixed) > 0 {
		state += ", mixed"
	}
	p.line("%s  %s", p.bold(h.ID), state)
	if row.State == "running" {
		p.line("  running   as %v", life)
	}
	p.whole("  command   %s", OneLine(strings.Join(row.Command, " ")))
	p.whole("  record    %s", h.Dir)
	for _, path := range h.Outputs() {
		if left := record.LeftOut(path); left > 0 {
			p.line("  output    %s lacks %v of what it printed", path, left)
		}
	}
	r := h.Run()
	if r == nil {
		p.identity(h)
		for _, e := range h.Events {
			if e.Outcome != nil {
				p.outcome(e.Outcome)
				p.allAdvice(e.Outcome.Advice)
			}
		}
		return
	}
	p.line("  job       %s", Title(r.Job))
	p.identity(h)
	for _, m := range r.Mixed {
		p.line("  %s", p.red(OneLine(m.String())))
	}
	for _, e := range r.Job.Asked {
		before, to := p.fromTo(e)
		p.line("  set by you %s: %s → %s", e.Knob, before, to)
	}
	for i, a := range h.Tried() {
		p.attempt(i+1, a, row.State == "running" && i+1 == len(h.Tried()))
	}
	p.results(r.Job, h.Tried(), row.State == "running")
	if s := h.Stop(); s != nil && row.State != s.Why && (row.State != run.Doubtful || s.Why != string(run.Succeeded)) {
		p.Stop(r, s)
	}
	if row.State == "cut off" {
		p.line("  launch was killed; launch explain %s prints the command that continues it, and from where", h.ID)
	}
}

// attempt writes an attempt: what it changed, what each phase needed, and how it ended.
func (p Printer) attempt(number int, a run.Attempt, running bool) {
	p.line("  attempt %d  %s%s (%s)", number, trial(a.Plan.Trial), p.bold(a.Plan.Changes()), a.Plan.Why)
	for _, e := range a.Plan.Edits {
		if e.Knob == "resume" {
			continue // the saved state is printed instead
		}
		from, to := p.fromTo(e)
		p.line("      %s: %s → %s", e.Knob, from, to)
	}
	for _, c := range a.Plan.Choices {
		if c.Estimate.Known() {
			of := ""
			if a.Plan.Room > 0 { // else no device was seen
				of = fmt.Sprintf(" of %v", a.Plan.Room)
			}
			p.line("      %s: %s%s%s", c.Phase, estimateText(c.Estimate), of, measuredText(a.Outcome.Measured[c.Phase]))
		}
	}
	switch {
	case a.Outcome.Ending != "":
		p.outcome(&a.Outcome)
	case running:
		p.line("      still running")
	default:
		p.line("      cut off: launch was killed before it ended")
	}
}

// identity writes what makes the run the same run, in short: the record has the rest.
func (p Printer) identity(h *record.History) {
	id := h.Identity()
	if id == nil {
		return
	}
	code, packages := "not known", "packages not known"
	if !slices.Contains(id.Unknown, "code") {
		code = fmt.Sprintf("%s (%s", id.OfCode(), Count(len(id.Code), "file"))
		if id.Commit != "" {
			code += fmt.Sprintf(", commit %.12s%s", id.Commit, changedCode(h))
		}
		code += ")"
	}
	if !slices.Contains(id.Unknown, "packages") {
		packages = fmt.Sprintf("%s (%s)", Count(len(id.Packages), "package"), id.OfPackages())
	}
	p.line("  identity  code %s", code)
	if id.Python != "" {
		p.line("            Python %s %s, %s", id.Release, OneLine(id.Python), packages)
	}
	for _, f := range id.Recipes {
		p.line("            recipe %s (%.12s)", OneLine(f.Path), f.Hash)
	}
	for _, kv := range id.Env {
		p.line("            variable %s", OneLine(kv))
	}
	for _, t := range id.Data {
		p.line("            data %s: %s, %v", OneLine(t.Path), Count(t.Files, "file"), unit.Bytes(t.Bytes))
	}
	if len(id.Unknown) > 0 {
		p.line("            not known: %s", OneLine(strings.Join(id.Unknown, ", ")))
	}
}

// changedCode is what is known of the changes of a run's code since the commit.
func changedCode(h *record.History) string {
	switch path, known := h.Changes(); {
	case !known:
		return ""
	case path == "":
		return " without changes"
	default:
		return " with changes, which are in " + OneLine(path)
	}
}

// results writes what the attempts of a run together came to, and what to change.
func (p Printer) results(j *job.Job, attempts []run.Attempt, running bool) {
	p.metrics("  ", run.Metrics(attempts))
	p.allAdvice(adviceOf(attempts))
	if !running {
		p.allChecked(run.Checklist(j, attempts))
	}
}

// metrics writes a line for each metric.
func (p Printer) metrics(indent string, all metric.Set) {
	for _, name := range all.Names() {
		p.line("%smetric    %s", indent, OneLine(MetricText(all[name])))
	}
}

// MetricText describes a metric in one line.
func MetricText(m metric.Metric) string {
	at := func(q *metric.Point) string {
		s := strconv.FormatFloat(q.Value, 'g', 6, 64)
		if q.Step != metric.NoStep {
			s += fmt.Sprintf(" at step %d", q.Step)
		}
		return s
	}
	s := m.Name + ": "
	switch {
	case m.Best == nil:
		return s + "never a finite number"
	case m.Diverged:
		s += "the last value is no finite number"
	case m.Last == nil:
		s += "no value since it was resumed"
	default:
		s += at(m.Last)
	}
	if m.Last == nil || *m.Last != *m.Best {
		s += ", best " + at(m.Best)
	}
	return s
}

func (p Printer) outcome(out *run.Outcome) {
	s := string(out.Ending) + " after " + short(out.Took)
	if out.Cause != "" {
		s += ": " + out.Cause
	}
	p.line("      %s", s)
	if out.Doubtful != "" {
		p.line("      %s: %s", run.Doubtful, OneLine(out.Doubtful))
	}
	if out.Short != "" && out.Short != out.Doubtful {
		p.line("      %s", out.Short)
	}
	if out.Early != "" && out.Short != "" {
		p.line("      it printed why: %s", OneLine(out.Early))
	}
	if text := out.Resumption.Text(); text != "" {
		p.line("      resume: %s", text)
	}
	if out.WentOn != "" {
		p.line("      %s", out.WentOn)
	}
	for _, changed := range out.Changed {
		p.line("      another training: %s", changed)
	}
	p.passedOver("      ", out)
	if out.LastWords != nil {
		p.line("      %v", out.LastWords)
	}
	if out.Pressure != nil && (out.Pressure.Saved > 0 || len(out.Retries) == 0) {
		p.line("      %v", out.Pressure)
	}
	if missed := out.Missed(); missed != "" {
		p.line("      %s", missed)
	}
	if out.Saved != nil {
		if out.Saved.Iteration > 0 {
			p.line("      saved state: iteration %d, %s", out.Saved.Iteration, out.Saved.Path)
		} else {
			p.line("      saved state: %s", out.Saved.Path)
		}
	}
	if out.Peak > 0 {
		p.line("      measured peak: %s", peakText(out.Ending, out.Peak, out.PeakIs)+with(out.PeakWith))
	}
	if len(out.Retries) > 0 {
		p.line("      %s", retriesText(out.Retries))
	}
	if in := out.Inside; in != nil {
		p.line("      inside: %v", in.Hook)
	}
}

// measuredText returns what was measured of a phase, to be printed after its estimate.
func measuredText(ms []mem.Measurement) (s string) {
	for _, m := range ms {
		s += fmt.Sprintf(", measured %s %s%s", boundText(m), m.Is, with(m.With))
	}
	return s
}

// boundText is a measured amount, and whether the need is at most or at least that.
func boundText(m mem.Measurement) string {
	return strings.TrimSpace(BoundSign(m.Bound) + " " + m.Bytes.String())
}

// BoundSign is how a need is to a measurement that is only a bound; "" for any other. A phase that ran after a larger
// one has such a bound, which is no miss of its estimate.
func BoundSign(b mem.Bound) string {
	return map[mem.Bound]string{mem.AtMost: "≤", mem.AtLeast: "≥"}[b]
}

// with names what a measurement has in it that the job does not need.
func with(what string) string {
	if what == "" {
		return ""
	}
	return " (with " + what + ")"
}

// Receipts writes what was predicted and what was measured, the newest last.
func (p Printer) Receipts(rs []record.Receipt) {
	if len(rs) == 0 {
		p.line("no receipt yet")
		return
	}
	var rows []tableRow
	for _, r := range rs {
		arch := r.Job.Arch
		if arch == "" {
			arch = r.Job.Plugin + " " + r.Job.Program
		}
		priced, planned := "unknown", "unknown"
		if r.Predicted.Known() {
			priced = r.Predicted.Total().String()
		}
		if r.Planned > 0 {
			planned = r.Planned.String()
		}
		on := r.Machine.Card
		if on == "" {
			on = r.Machine.Kind
		}
		for i, m := range r.Measured {
			amount, is := boundText(m), m.Is+with(m.With)
			measured := fmt.Sprintf("measured %s %s", amount, is)
			if i > 0 {
				rows = append(rows, tableRow{fields: []string{measured},
					line: fmt.Sprintf("%-16s %-26s %-12s %12s %12s %12s   %s", "", "", "", "", "", amount, is)})
				continue
			}
			when := r.Time.Local().Format("2006-01-02 15:04")
			rest := fmt.Sprintf("micro-batch %s · %s, torch %s", orUnknown(r.Job.Settings["micro-batch"]), on,
				orUnknown(r.Machine.Torch))
			rows = append(rows, tableRow{
				line: fmt.Sprintf("%-16s %-26s %-12s %12s %12s %12s   %s · %s", when, OneLine(arch),
					OneLine(r.Job.Phase), priced, planned, amount, is, rest),
				title:  fmt.Sprintf("%s  %s, %s", when, OneLine(arch), OneLine(r.Job.Phase)),
				fields: []string{rest, field("priced", priced), field("planned", planned), measured}})
		}
	}
	p.grid(fmt.Sprintf("%-16s %-26s %-12s %12s %12s %12s", "", "", "", "priced", "planned", "measured"), rows)
}

func orUnknown(s string) string {
	return cmp.Or(s, "unknown")
}

// trial returns the kind of a short run, to be printed before its changes.
func trial(t run.Trial) string {
	if t == "" {
		return ""
	}
	return string(t) + ", "
}
