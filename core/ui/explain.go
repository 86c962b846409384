package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// ExplanationVersion is the version of [Explanation]. Fields are added within a version and never change their
// meaning. In version 1 "oom" was true for a weak verdict as well; since 2 that is "possible".
const ExplanationVersion = 2

// An Explanation is the output of `launch explain`, for a person and as JSON. Scripts depend on the JSON, in which the report's
// fields stand beside the others.
type Explanation struct {
	Report oom.Report `json:"-"`

	Version int          `json:"version"`
	Source  Source       `json:"source"`
	Clues   advice.Clues `json:"clues"`
	// FitsAlone reports, if others held memory, whether the request would have been met without them; null: not known.
	FitsAlone *bool       `json:"fits_alone"`
	Remedies  []RemedyDoc `json:"remedies"` // the mildest cost first
	Run       *RunDoc     `json:"run,omitempty"`
}

// A Source is what was read.
type Source struct {
	Kind  string   `json:"kind"`  // "text", "notebook", "run"
	Files []string `json:"files"` // "-" is standard input
	// Cut is why an input could not be read to its end; "" if it was.
	Cut string `json:"cut,omitempty"`
}

// A RemedyDoc is a remedy; of a run also a rung of its ladders.
type RemedyDoc struct {
	advice.Remedy
	Ladder        string        `json:"ladder,omitempty"` // whose rung it is
	Edits         []config.Edit `json:"edits,omitempty"`  // that make the rung, of the job as asked
	EstimateBytes *unit.Bytes   `json:"estimate_bytes,omitempty"`
	RoomBytes     *unit.Bytes   `json:"room_bytes,omitempty"`
	Fits          string        `json:"fits,omitempty"`  // "fits", "may not fit", "cannot fit", "unknown"
	Allow         string        `json:"allow,omitempty"` // launch's flag that allows it; absent where it is allowed
}

// A RunDoc is a run as far as an explanation needs it.
type RunDoc struct {
	ID        string        `json:"id"`
	Job       string        `json:"job,omitempty"`
	Command   []string      `json:"command"`
	State     string        `json:"state"` // an ending, "doubtful", "running", "cut off", "not started"
	Cause     string        `json:"cause,omitempty"`
	ExitCode  int           `json:"exit_code"`
	Signal    int           `json:"signal,omitempty"`
	Lied      bool          `json:"lied,omitempty"` // it exited 0 though it failed
	Iteration int64         `json:"iteration"`
	Took      time.Duration `json:"took_ns"`
	Attempts  []AttemptDoc  `json:"attempts"`
	PeakBytes *unit.Bytes   `json:"peak_bytes"` // null: not measured
	PeakIs    string        `json:"peak_is,omitempty"`
	RoomBytes *unit.Bytes   `json:"room_bytes"` // null: not known
	// LimitBytes is the limit of each of its processes (--memory); absent where none was set.
	LimitBytes unit.Bytes `json:"limit_bytes,omitempty"`
	SavedState *run.State `json:"saved_state"`
	StartsOver bool       `json:"starts_over,omitempty"` // the next attempt cannot read that state
	Output     string     `json:"output,omitempty"`      // where what it printed is kept
	// Mixed is from where the run is no longer what it began as, one line each; absent if it is.
	Mixed     []string `json:"mixed,omitempty"`
	LastLines []string `json:"last_lines,omitempty"` // of that, where nothing else says why it failed
	Why       string   `json:"why,omitempty"`        // there is no further attempt
	// GoOn is the command that continues the run; absent where there is none, and then Not is the reason.
	GoOn []string `json:"go_on,omitempty"`
	When string   `json:"when,omitempty"` // that command makes sense: "once that is mended"
	Not  string   `json:"not,omitempty"`
}

// An AttemptDoc is the short form of an attempt.
type AttemptDoc struct {
	Number  int        `json:"number"`
	Changes string     `json:"changes"`
	Trial   run.Trial  `json:"trial"` // "rehearsal" or "timing", or "" for an attempt at the run itself
	Ending  run.Ending `json:"ending"`
	Cause   string     `json:"cause,omitempty"`
	Phase   string     `json:"phase,omitempty"`
}

// MarshalJSON writes the report's fields and the others side by side, all of them.
func (x Explanation) MarshalJSON() ([]byte, error) {
	report, err := whole(x.Report)
	if err != nil {
		return nil, err
	}
	type plain Explanation
	rest, err := whole(plain(x))
	if err != nil {
		return nil, err
	}
	return append(append(report[:len(report)-1], ','), rest[1:]...), nil
}

// Advise fills in the remedies: what would have helped in general, and the rungs of the run's own ladders.
func (x *Explanation) Advise(options []run.Option) {
	x.Version = ExplanationVersion
	x.Remedies = []RemedyDoc{}
	if fits, known := advice.FitsAlone(x.Report); known {
		x.FitsAlone = &fits
	}
	sets := map[string]bool{}
	for _, o := range options {
		for _, e := range o.Edits {
			if e.At.Doc == config.EnvDoc {
				sets[e.At.Path] = true
			}
		}
	}
	general := advice.Remedies(x.Report, x.Clues)
	for c := ladder.None; c <= ladder.Model; c++ {
		for _, m := range general {
			if m.Cost != c.String() || len(options) > 0 && !m.Launch() && (len(m.Env) == 0 || setsOne(m, sets)) {
				continue // the job's own rungs say the same in its own keys
			}
			x.Remedies = append(x.Remedies, RemedyDoc{Remedy: m})
		}
		for _, o := range options {
			if o.Cost == c {
				x.Remedies = append(x.Remedies, rungDoc(o))
			}
		}
	}
}

func setsOne(m advice.Remedy, sets map[string]bool) bool {
	for _, e := range m.Env {
		if name, _, _ := strings.Cut(e, "="); sets[name] {
			return true
		}
	}
	return false
}

func rungDoc(o run.Option) RemedyDoc {
	d := RemedyDoc{Remedy: advice.Remedy{What: o.Name, Cost: o.Cost.String()}, Ladder: o.Phase, Edits: o.Edits,
		Fits: o.Verdict.String()}
	if o.Estimate.Known() {
		total := o.Estimate.Total()
		d.EstimateBytes = &total
	}
	if o.Room > 0 {
		d.RoomBytes = &o.Room
	}
	if !o.Allowed {
		d.Allow = "--allow " + o.Cost.String()
	}
	return d
}

// Explain writes an explanation for a person.
func (p Printer) Explain(x Explanation) {
	if x.Run != nil {
		p.ranAs(x.Run)
	}
	switch {
	case x.Report.OOM || x.Report.Possible || x.Report.Fatal:
		p.died(x)
	case x.Run != nil && x.Run.Cause != "" && x.Run.State != string(run.Interrupted):
		p.line("  %s", x.Run.Cause)
	case x.Run == nil:
		what := "this text"
		if files := x.Source.Files; len(files) > 0 && files[0] != "-" {
			what = strings.Join(files[:min(3, len(files))], ", ")
			if n := len(files) - 3; n > 0 {
				what += fmt.Sprintf(" and %d more", n)
			}
		}
		p.line("nothing in %s shows that a program failed", what)
	}
	if x.Source.Cut != "" {
		p.line("%s %s", p.yellow("note:"), x.Source.Cut)
	}
	p.remedies(x)
	if x.Run != nil {
		p.goOn(x.Run)
	}
}

// ranAs writes what was run, and how it ended.
func (p Printer) ranAs(r *RunDoc) {
	what := r.Job
	if what == "" {
		what = strings.Join(r.Command, " ")
	}
	p.line("run %s · %s", r.ID, what)
	for i, a := range r.Attempts {
		if i+1 < len(r.Attempts) { // all but the last, which the next line has
			how := string(a.Ending)
			if a.Cause != "" {
				how = a.Cause
			}
			p.line("  attempt %d  %s%s: %s", a.Number, trial(a.Trial), a.Changes, how)
		}
	}
	last := ""
	if n := len(r.Attempts); n > 1 {
		last = fmt.Sprintf(" in attempt %d, %s", r.Attempts[n-1].Number, r.Attempts[n-1].Changes)
	} else if n == 1 && r.Attempts[0].Changes != "as asked" && r.Attempts[0].Changes != "" {
		last = ", " + r.Attempts[0].Changes
	}
	s := r.State
	if r.State == string(run.Succeeded) {
		s = p.green(s)
	} else if r.State == run.Doubtful {
		s = p.yellow(s)
	} else if r.State != "running" {
		s = p.red(s)
	}
	if r.Took >= time.Millisecond {
		s += " after " + short(r.Took)
	}
	s += last
	if r.Iteration > 0 {
		s += fmt.Sprintf(", at iteration %d", r.Iteration)
	}
	if r.Lied {
		s += fmt.Sprintf(" (although the program exited %d)", r.ExitCode)
	}
	p.line("%s", s)
	if r.PeakBytes != nil {
		of := ""
		if r.RoomBytes != nil {
			of = fmt.Sprintf(" of %v", *r.RoomBytes)
		}
		p.line("  measured peak %s%s", peakText(run.Ending(r.State), *r.PeakBytes, r.PeakIs), of)
	}
	if r.LimitBytes > 0 {
		p.line("  limit %v for each process (--memory)", r.LimitBytes)
	}
}

// died writes why a program failed.
func (p Printer) died(x Explanation) {
	if x.Run != nil {
		p.line("")
	}
	for i, l := range advice.Explain(x.Report) {
		if i == 0 {
			l = p.bold(l)
		}
		p.reason(l)
	}
	switch c := x.Clues; {
	case c.Slurm != "" && c.Step != "":
		p.line("  %-9s job %s, step %s", "slurm", c.Slurm, c.Step)
	case c.Slurm != "":
		p.line("  %-9s job %s", "slurm", c.Slurm)
	}
}

// reason writes a line of a reason: where it is too wide, the parts of a legend stand below each other, and what has a
// name, such as "asked by", beside it.
func (p Printer) reason(line string) {
	const named = 12 // columns of a name
	body := strings.TrimLeft(line, " ")
	lead := line[:len(line)-len(body)]
	switch parts := strings.Split(body, "   "); {
	case p.Width == 0 || textWidth(line) <= p.Width:
		p.line("%s", line)
	case len(lead) > 2 && len(parts) > 1:
		for _, part := range parts {
			p.Beside(lead+part[:min(2, len(part))], part[min(2, len(part)):])
		}
	case len(lead) == 2 && len(line) > named && line[named-1] == ' ':
		p.Beside(line[:named], line[named:])
	default:
		p.line("%s", line)
	}
}

// remedies writes what would have helped.
func (p Printer) remedies(x Explanation) {
	if len(x.Remedies) == 0 {
		return
	}
	p.line("")
	head := "what would have helped, mildest cost first:"
	costs := true
	switch {
	case !x.Report.OOM && !x.Report.Possible:
		head, costs = "what to do:", false
		for _, m := range x.Remedies {
			costs = costs || m.Cost != ladder.None.String()
		}
	case x.Report.Possible:
		head, costs = "what to do:", false
	case x.Run != nil && x.Remedies[len(x.Remedies)-1].Ladder != "":
		head = "what is left, mildest cost first:"
	case !x.Report.Fatal:
		head = "what would avoid it, mildest cost first:"
	}
	p.line("%s", p.bold(head))
	var cannot []string
	for _, m := range x.Remedies {
		if m.Fits == ladder.Not.String() {
			cannot = append(cannot, m.What)
			continue
		}
		indent := "  - "
		if costs {
			indent = fmt.Sprintf("  %-9s ", m.Cost)
		}
		p.Beside(indent, m.What+p.priced(m))
		blank := strings.Repeat(" ", len(indent)+2)
		for _, e := range m.Edits {
			p.line("%s%s", blank, p.bold(EditText(e)))
		}
		for _, e := range m.Env {
			p.whole("%s%s", blank, p.bold(e))
		}
		for _, f := range m.Flags {
			p.whole("%s%s: %s", blank, f.Of, p.bold(f.Text))
		}
		for _, c := range m.Run {
			p.whole("%s$ %s", blank, p.bold(c))
		}
	}
	if len(cannot) > 0 {
		p.Beside(fmt.Sprintf("  %-9s ", "too large"), strings.Join(cannot, "; "))
	}
	if apart := advice.Apart(x.Report, x.Clues); apart != "" {
		p.Beside(fmt.Sprintf("  %-9s ", "no help"), apart)
	}
}

// priced returns the estimate of a rung, and the flag that allows it.
func (p Printer) priced(m RemedyDoc) string {
	if m.Fits == "" {
		return ""
	}
	s := ": "
	switch {
	case m.EstimateBytes == nil:
		s += "its need is not known"
	case *m.EstimateBytes == 0: // the phase is left out
		s = ""
	case m.RoomBytes == nil:
		s += fmt.Sprintf("estimate %v", *m.EstimateBytes)
	case m.Fits == ladder.Fits.String():
		s += fmt.Sprintf("estimate %v of %v, %s", *m.EstimateBytes, *m.RoomBytes, p.green("fits"))
	default:
		s += fmt.Sprintf("estimate %v of %v, %s", *m.EstimateBytes, *m.RoomBytes, p.yellow(m.Fits))
	}
	switch {
	case m.Allow != "" && s == "":
		s = ": " + m.Allow
	case m.Allow != "":
		s += "; " + m.Allow
	}
	return s
}

// EditText returns an edit as a user would make it by hand: "x.yml: train.batch: 8 → 4", "--batch-size 4 (was 8)",
// "NAME=value".
func EditText(e config.Edit) string {
	was := ""
	if !e.Add && e.From != "" {
		was = fmt.Sprintf("  (was %s)", e.From)
	}
	switch {
	case e.Remove:
		return e.At.Path + " removed"
	case e.At.Doc == config.EnvDoc:
		return e.At.Path + "=" + e.To + was
	case e.At.Doc == config.ArgvDoc && strings.HasPrefix(e.At.Path, "-"):
		return strings.TrimSpace(e.At.Path+" "+e.To) + was
	case e.At.Doc == config.ArgvDoc:
		return e.At.Path + "=" + e.To + was
	}
	from := e.From
	if e.Add {
		from = "not set"
	}
	return fmt.Sprintf("%s: %s: %s → %s", e.At.Doc, e.At.Path, from, e.To)
}

// typed returns a command as a user types it, quoted for a shell.
func typed(args []string) string {
	words := slices.Clone(args)
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n'\"$;&|<>()") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// GoOn writes the command that continues a run, and from which state; or why there is none.
func (p Printer) GoOn(r *RunDoc) {
	switch {
	case len(r.GoOn) > 0:
		where := "from the beginning"
		if r.SavedState != nil && !r.StartsOver {
			where = fmt.Sprintf("from %v", r.SavedState)
		}
		if r.When != "" {
			where += ", " + r.When
		}
		p.line("resume:  %s   (%s)", p.bold(typed(r.GoOn)), where)
	case r.Not != "":
		p.line("resume:  %s", r.Not)
	}
}

// goOn writes how a run ended, how to continue it, and where its output is.
func (p Printer) goOn(r *RunDoc) {
	if len(r.LastLines) > 0 {
		p.line("")
		p.line("%s", p.bold("its last lines:"))
		for _, l := range r.LastLines {
			p.line("  %s", l)
		}
	}
	if r.Why == "" && len(r.GoOn) == 0 && r.Not == "" && r.Output == "" {
		return
	}
	p.line("")
	if r.Why != "" {
		p.line("stopped: %s", r.Why)
	}
	p.GoOn(r)
	if r.Output != "" {
		p.line("output:  %s", r.Output)
	}
}
