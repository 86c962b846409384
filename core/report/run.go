package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// Input is what was read of a run.
type Input struct {
	History *record.History
	Life    record.Life
	Device  *gpu.Device // nil: none was seen
	// Curves are the memory over time of each attempt, in the order of the attempts; nil where there is none.
	Curves []*observe.Curve
	// Diffs are the differences of the recipe of each attempt; "" where there is none.
	Diffs []string
	// Explained is what `launch explain` prints of the run.
	Explained []string
	Torch     string // "" if unknown
	LeftOut   []string
	Mask      record.Mask
	Version   string // of the launch that makes the report
	Now       time.Time
}

// The bounds of a page. What they leave out is counted on the page.
const (
	maxRungs    = 60
	maxItems    = 120
	maxDiff     = 400
	maxLines    = 120
	maxAttempts = 60
	// maxText is how long one text may be, in characters.
	maxText = 2000
)

// A tried attempt is an attempt, and its place in the JSON document.
type tried struct {
	run.Attempt
	plan, outcome string // places; outcome is "" if the attempt has no end
}

// attempts returns what [record.History.Tried] does, with places. Of a command that no plugin recognised it returns the
// one attempt, whose plan is empty.
func attempts(h *record.History) (out []tried) {
	open := false
	for i, e := range h.Events {
		at := fmt.Sprintf("events.%d.", i)
		switch {
		case e.Kind == record.Planned && e.Plan != nil:
			out, open = append(out, tried{run.Attempt{Plan: *e.Plan}, at + "plan", ""}), true
		case e.Kind == record.Ended && e.Attempt != nil:
			t := tried{*e.Attempt, at + "attempt.plan", at + "attempt.outcome"}
			if n := len(out); open && out[n-1].Plan.Attempt == t.Plan.Attempt {
				out[n-1] = t
			} else {
				out = append(out, t)
			}
			open = false
		case e.Kind == record.Followed:
			out = append(out, tried{run.Attempt{Plan: run.Plan{Attempt: 1}}, "", ""})
		case e.Kind == record.Ended && e.Outcome != nil && len(out) > 0:
			out[len(out)-1].Outcome, out[len(out)-1].outcome = *e.Outcome, at+"outcome"
		}
	}
	return out
}

// OfRun returns the report of a run. It is a pure function.
func OfRun(in Input) Report {
	h := in.History
	row := ui.RowOf(h, in.Life)
	r := Report{Name: h.ID, Title: h.ID, State: row.State, Command: ui.Quote(record.MaskArgs(row.Command)),
		By:   by(in.Version, in.Now),
		Good: row.State == string(run.Succeeded) || row.State == "running"}
	j := h.Run()
	if j != nil && len(j.Mixed) > 0 {
		r.State, r.Good = row.State+", mixed", false
	}
	if j != nil {
		r.Title = ui.Title(j.Job)
		r.Notes = append(append([]string{}, j.Job.Warnings...), j.Job.Truths...)
		r.Asked = edits(j.Job.Asked)
	}
	all := attempts(h)
	r.Summary = summary(h, row, all)
	for i, t := range all {
		if i == maxAttempts {
			r.Notes = append(r.Notes, fmt.Sprintf("%d more attempts are not in this report", len(all)-i))
			break
		}
		a := attemptOf(t, i+1 == len(all) && row.State == "running")
		if i < len(in.Diffs) {
			a.Diff = diffLines(in.Diffs[i])
		}
		r.Attempts = append(r.Attempts, a)
	}
	r.Notes = append(r.Notes, in.LeftOut...)
	r.Notes = append(r.Notes, unwatched(in, all)...)
	r.Ladders = ladders(h, all)
	if j != nil && row.State != "running" {
		r.Checks = checks(j.Job, all)
	}
	if !r.Good && len(in.Explained) > 0 {
		r.Failure = &Failure{Lines: cut(in.Explained, maxLines)}
	}
	environment(&r, in, j)
	r.Plots = append(r.Plots, memoryPlot(in.Curves, all, r.State == "running"))
	if d, ok := breakdownPlot(all); ok {
		r.Plots = append(r.Plots, d)
	}
	r.mask(in.Mask)
	return r
}

// by names what made the report.
func by(version string, now time.Time) string {
	return fmt.Sprintf("launch %s made this report, %s.", version, minute(now))
}

// summary is what a reader wants first.
func summary(h *record.History, row ui.RunRow, all []tried) (out []Fact) {
	out = append(out, Fact{Name: "began", Value: minute(row.Began)})
	if r := h.Run(); r != nil {
		for _, m := range r.Mixed {
			out = append(out, Fact{Name: "two experiments", Value: m.String()})
		}
	}
	var took time.Duration
	peak, metrics := (*Num)(nil), []run.Attempt{}
	is, most := "", unit.Bytes(0)
	for _, t := range all {
		took += t.Outcome.Took
		metrics = append(metrics, t.Attempt)
		if t.Outcome.Peak > most {
			most, is = t.Outcome.Peak, t.Outcome.PeakIs
			peak = bytesNum(t.outcome+".peak_bytes", most)
		}
	}
	if took > 0 {
		out = append(out, Fact{Name: "ran for", Value: lasting(took) + " in " + ui.Count(len(all), "attempt")})
	}
	out = append(out, Fact{Name: "largest peak", Value: orElse(is, "not measured"), Num: peak})
	if n := len(all); n > 0 && all[n-1].Plan.Room > 0 {
		out = append(out, Fact{Name: "room", Num: bytesNum(all[n-1].plan+".room_bytes", all[n-1].Plan.Room)})
	} else {
		out = append(out, Fact{Name: "room", Value: "not known: launch saw no device"})
	}
	if n := len(all); n > 0 {
		out = append(out, Fact{Name: "settings", Value: orElse(changes(all[n-1]), run.AsAsked)})
	}
	out = append(out, metricFacts(run.Metrics(metrics), all)...)
	if s := h.Stop(); s != nil && s.Why != row.State {
		out = append(out, Fact{Name: "stopped", Value: s.Why})
		if b := s.Beyond; b != nil {
			out = append(out, Fact{Name: "next change", Value: fmt.Sprintf("%s (cost %v): %s", b.Name, b.Cost, b.Flag)})
		}
	}
	return out
}

// checks is the checklist of a run that has ended.
func checks(j *job.Job, all []tried) (out []Fact) {
	var attempts []run.Attempt
	for _, t := range all {
		attempts = append(attempts, t.Attempt)
	}
	for _, it := range run.Checklist(j, attempts) {
		out = append(out, Fact{Name: it.Name, Value: ui.ItemText(it)})
	}
	return out
}

// changes names what an attempt changed; "" for a command that no plugin recognised.
func changes(t tried) string {
	if t.plan == "" {
		return ""
	}
	return t.Plan.Changes()
}

// metricFacts are the metrics of the run, with the best values' places.
func metricFacts(all metric.Set, of []tried) (out []Fact) {
	for _, name := range all.Names() {
		f := Fact{Name: name, Value: strings.TrimPrefix(ui.MetricText(all[name]), name+": ")}
		if m := all[name]; m.Best != nil && m.Last != nil && !m.Diverged {
			f.Value = fmt.Sprintf("best, at step %d; last %g at step %d", m.Best.Step, m.Last.Value, m.Last.Step)
		}
		for _, t := range slices.Backward(of) {
			m, ok := t.Outcome.Metrics[name]
			if ok && m.Best != nil && all[name].Best != nil && *m.Best == *all[name].Best {
				f.Num = floatNum(t.outcome+".metrics."+name+".best.value", m.Best.Value)
				break
			}
		}
		out = append(out, f)
	}
	return out
}

// attemptOf describes an attempt. running: it has no end because it still runs.
func attemptOf(t tried, running bool) Attempt {
	p, out := &t.Plan, &t.Outcome
	if p.Why == run.AsAsked {
		p.Why = "" // it is what was changed: nothing
	}
	a := Attempt{Number: p.Attempt, Kind: string(p.Trial), Changes: orElse(changes(t), run.AsAsked), Why: p.Why,
		Ending: string(out.Ending), Good: out.Ending == run.Succeeded && out.Doubtful == "", Edits: edits(p.Edits)}
	switch {
	case out.Ending == "" && running:
		a.Ending, a.Good = "running", true
	case out.Ending == "":
		a.Ending = "cut off: launch was killed before it ended"
	}
	add := func(f Fact) { a.Facts = append(a.Facts, f) }
	if out.Took > 0 {
		add(Fact{Name: "took", Num: tookNum(t.outcome+".took_ns", out.Took)})
	}
	if p.Room > 0 {
		add(Fact{Name: "room", Num: bytesNum(t.plan+".room_bytes", p.Room)})
	}
	if out.Peak > 0 {
		is := out.PeakIs
		if out.Ending == run.OutOfMemory {
			is += ", at least"
		}
		if out.PeakWith != "" {
			is += ", with " + out.PeakWith
		}
		add(Fact{Name: "measured peak", Value: is, Num: bytesNum(t.outcome+".peak_bytes", out.Peak)})
	}
	if out.Iteration > 0 {
		add(Fact{Name: "last iteration", Num: countNum(t.outcome+".iteration", out.Iteration)})
	}
	if out.Rate > 0 {
		add(Fact{Name: "samples a second", Num: speedNum(t.outcome+".samples_per_second", out.Rate)})
	}
	if g := p.Batch.Global(); g > 0 {
		add(Fact{Name: "global batch", Value: batchText(p)})
	}
	if p.Resume != nil {
		add(Fact{Name: "resumed from", Value: p.Resume.String()})
	}
	if out.Saved != nil {
		add(Fact{Name: "saved state", Value: out.Saved.String()})
	}
	saving(out, add)
	ends(out, add)
	for i, c := range p.Choices {
		a.Phases = append(a.Phases, phaseOf(t, i, c))
	}
	if out.Ending != "" && !a.Good && (out.Report.OOM || out.Report.Possible || out.Report.Fatal) {
		a.Evidence = cut(advice.Explain(out.Report), maxLines)
	}
	return a
}

// saving adds what was saved on request or after an out-of-memory, and memory that ran short.
func saving(out *run.Outcome, add func(Fact)) {
	if w := out.LastWords; w != nil {
		name := "after the out-of-memory"
		if w.Asked {
			name = "saved on request"
		}
		add(Fact{Name: name, Value: w.String()})
	}
	if out.Pressure != nil {
		add(Fact{Name: "memory", Value: out.Pressure.String()})
	}
}

// ends adds what became of an attempt's resume, and what ended it.
func ends(out *run.Outcome, add func(Fact)) {
	if text := out.Resumption.Text(); text != "" {
		add(Fact{Name: "resume", Value: text})
	}
	if out.Doubtful != "" {
		add(Fact{Name: run.Doubtful, Value: out.Doubtful})
	}
	for _, why := range []string{out.Cause, out.Doubt, out.Untaken, out.Left, out.Short, out.WentOn,
		strings.Join(out.Changed, "; ")} {
		if why != "" {
			add(Fact{Name: "ended by", Value: why})
		}
	}
}

func batchText(p *run.Plan) string {
	s := fmt.Sprintf("%d = micro-batch %d × accumulation %d", p.Batch.Global(), p.Batch.Micro, p.Batch.Accumulation)
	if p.Batch.Ranks > 1 {
		s += fmt.Sprintf(" × %d ranks", p.Batch.Ranks)
	}
	return s
}

// phaseOf puts what was predicted of a phase beside what was measured.
func phaseOf(t tried, i int, c run.Choice) Phase {
	at := fmt.Sprintf("%s.choices.%d.estimate", t.plan, i)
	p := Phase{Name: c.Phase, Rung: c.Name, Cost: c.Cost.String(), Verdict: c.Verdict.String(),
		Unknown: c.Estimate.Unknown}
	for k, it := range c.Estimate.Items {
		if k == maxItems {
			p.Items = append(p.Items, Item{What: fmt.Sprintf("and %d more lines", len(c.Estimate.Items)-k)})
			break
		}
		p.Items = append(p.Items, Item{string(it.Kind), it.What, it.From, it.Guess,
			*bytesNum(fmt.Sprintf("%s.items.%d.bytes", at, k), it.Bytes)})
	}
	if c.Estimate.Known() && len(c.Estimate.Items) > 0 {
		p.Predicted = bytesNum(at+".items.*.bytes", c.Estimate.Total())
	}
	for k, m := range t.Outcome.Measured[c.Phase] {
		p.Measured = append(p.Measured, Measured{m.Is, boundOf(m.Bound), m.From, m.With,
			*bytesNum(fmt.Sprintf("%s.measured.%s.%d.bytes", t.outcome, c.Phase, k), m.Bytes), off(c.Estimate, m)})
	}
	if n := t.Outcome.Retries[c.Phase]; n.Count > 0 {
		p.Retries = fmt.Sprintf("the card refused %s, which the allocator tried again", ui.Count(n.Count, "request"))
	}
	return p
}

// boundOf is what a measurement is, beside its amount.
func boundOf(b mem.Bound) string {
	if sign := ui.BoundSign(b); sign != "" {
		return sign
	}
	return string(b)
}

// off compares a measurement with the estimate; "" where they are of two kinds or one is a bound only.
func off(e mem.Estimate, m mem.Measurement) string {
	total := e.Total()
	comparable := m.Is == mem.Used || m.Is == mem.Data
	if !e.Known() || total <= 0 || !comparable || m.With != "" || m.Bound == mem.AtMost || m.Bound == mem.AtLeast {
		return ""
	}
	switch percent := 100 * float64(m.Bytes-total) / float64(total); {
	case percent > -0.5 && percent < 0.5:
		return "as predicted"
	case percent < 0:
		return fmt.Sprintf("%.0f %% less than predicted", -percent)
	default:
		return fmt.Sprintf("%.0f %% more than predicted", percent)
	}
}

func edits(all []config.Edit) (out []Edit) {
	for _, e := range all {
		d := Edit{Knob: e.Knob, Where: e.At.Doc + ": " + e.At.Path, From: e.From, To: e.To, Cost: e.Cost, Why: e.Why}
		if e.Add {
			d.From = "not set"
		}
		switch {
		case e.Remove:
			d.To = "removed"
		case e.Add && e.To == "":
			d.To = "set" // a flag has no value
		}
		out = append(out, d)
	}
	return out
}

// ladders are the ladders of the run, and which attempts stood on which rung.
func ladders(h *record.History, all []tried) (out []Ladder) {
	at, room := "", unit.Bytes(0)
	r := h.Run()
	for i, e := range h.Events {
		if e.Kind == record.Started && e.Run != nil {
			at = fmt.Sprintf("events.%d.run.ladders", i)
		}
	}
	if r == nil || r.Ladders == nil || at == "" {
		return nil
	}
	shared := r.Ladders.Shared.Asked
	if n := len(all); n > 0 {
		shared, room = all[n-1].Plan.Shared.Rung, all[n-1].Plan.Room
	} else {
		room = r.Room
	}
	if len(r.Ladders.Shared.Rungs) > 1 {
		out = append(out, ladderOf(r.Ladders.Shared, at+".shared", -1, room, all))
	}
	for i, l := range r.Ladders.Phases {
		d := ladderOf(l, fmt.Sprintf("%s.phases.%d", at, i), shared, room, all)
		if len(r.Ladders.Shared.Rungs) > 1 && shared < len(r.Ladders.Shared.Rungs) {
			d.At = r.Ladders.Shared.Rungs[shared].Name
		}
		out = append(out, d)
	}
	return out
}

// ladderOf describes a ladder. shared is the rung of the shared ladder at which it is priced; -1: it is that ladder.
func ladderOf(l ladder.Ladder, at string, shared int, room unit.Bytes, all []tried) Ladder {
	d := Ladder{Phase: l.Phase}
	for i, rung := range l.Rungs {
		if i == maxRungs {
			d.More = len(l.Rungs) - i
			break
		}
		g := Rung{Name: rung.Name, Cost: rung.Cost.String(), Asked: i == l.Asked, Taken: taken(l.Phase, i, all)}
		for _, e := range rung.Edits {
			g.Edits = append(g.Edits, ui.EditText(e))
		}
		if shared >= 0 && shared < len(rung.Estimates) {
			e := rung.Estimates[shared]
			if e.Known() && len(e.Items) > 0 {
				g.Estimate = bytesNum(fmt.Sprintf("%s.rungs.%d.estimates.%d.items.*.bytes", at, i, shared), e.Total())
			}
			if room > 0 {
				g.Verdict = ladder.Told(e, room).String()
			}
		}
		d.Rungs = append(d.Rungs, g)
	}
	return d
}

// taken names the attempts that stood on a rung of a phase, and how they ended.
func taken(phase string, rung int, all []tried) string {
	var out []string
	for _, t := range all {
		c := t.Plan.Choice(phase)
		if phase == ladder.Shared {
			c = &t.Plan.Shared
		}
		if t.plan == "" || c == nil || c.Rung != rung {
			continue
		}
		s := fmt.Sprintf("attempt %d", t.Plan.Attempt)
		if t.Outcome.Ending == run.OutOfMemory && (t.Outcome.Phase == phase || t.Outcome.Phase == "") {
			s += ": out of memory"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// unwatched are the attempts whose memory was not recorded over time.
func unwatched(in Input, all []tried) (out []string) {
	var without []string
	for i, t := range all {
		if i >= len(in.Curves) || in.Curves[i] == nil {
			without = append(without, fmt.Sprint(t.Plan.Attempt))
		} else if in.Curves[i].Doubted {
			out = append(out, fmt.Sprintf("attempt %d: the driver did not list the job's processes, so part of the memory "+
				"over time may belong to others", t.Plan.Attempt))
		}
	}
	if len(without) > 0 {
		out = append(out, fmt.Sprintf("no memory was recorded over time in attempt %s: launch reads it on a card that the "+
			"driver shows, and in host memory with --memory", strings.Join(without, ", ")))
	}
	return out
}

// environment describes the machine and the software, as far as the record has them.
func environment(r *Report, in Input, j *run.Run) {
	add := func(name, value string) {
		if value != "" {
			r.Environment = append(r.Environment, Fact{Name: name, Value: value})
		}
	}
	if d := in.Device; d != nil {
		r.Environment = append(r.Environment, Fact{Name: "device", Value: d.Name, Num: deviceNum(in.History, d)})
		add("compute capability", d.Capability)
		add("driver", d.Driver)
	} else {
		add("device", "none was seen")
	}
	if l := in.History.Limit(); l > 0 {
		add("limit for each process", l.String()+" (--memory)")
	}
	add("torch", orElse(in.Torch, "not known"))
	if j == nil {
		add("plugin", "none recognised the command: it ran as typed")
		return
	}
	add("plugin", strings.TrimSuffix(j.Job.Plugin+", "+j.Job.Dialect, ", "))
	add("folder", j.Job.Command.Dir)
	if m := j.Rooms.Memory; m != nil {
		add("free host memory", m.Free.String()+" ("+m.By+")")
	}
	if m := j.Rooms.Shm; m != nil {
		add("free in /dev/shm", m.Free.String())
	}
	add("allowed cost", j.Limits.Allow.String())
	r.Variables = append(r.Variables, j.Job.Command.Env...)
}

func deviceNum(h *record.History, d *gpu.Device) *Num {
	for i, e := range h.Events {
		if e.Kind == record.Started && e.Device != nil {
			if d.Total == 0 {
				return nil
			}
			return bytesNum(fmt.Sprintf("events.%d.device.total_bytes", i), d.Total)
		}
	}
	return nil
}

// diffLines marks the lines of a difference.
func diffLines(text string) (out []Line) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		switch {
		case text == "" || strings.HasPrefix(l, "diff "):
			continue
		case i == maxDiff:
			return append(out, Line{"@", fmt.Sprintf("… and %d more lines", len(lines)-i)})
		case strings.HasPrefix(l, "+++") || strings.HasPrefix(l, "---"):
			out = append(out, Line{"@", l})
		case l != "" && strings.Contains("+-@", l[:1]):
			out = append(out, Line{l[:1], l})
		default:
			out = append(out, Line{" ", l})
		}
	}
	return out
}

// cut returns at most n lines.
func cut(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	return append(slices.Clone(lines[:n]), fmt.Sprintf("… and %d more lines", len(lines)-n))
}

func orElse(s, other string) string {
	return cmp.Or(s, other)
}
