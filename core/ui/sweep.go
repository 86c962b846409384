package ui

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/unit"
)

// SweepVersion is the version of [SweepDoc]. Fields are added within a version and never change their meaning.
const SweepVersion = 1

// SweepDoc is the output of `launch sweep status --json` and `export --json`. Scripts depend on it.
type SweepDoc struct {
	Version int            `json:"version"`
	Name    string         `json:"name"`
	State   string         `json:"state"` // "running", "running on slurm", "ended", "stopped", "cut off"
	PID     int            `json:"pid,omitempty"`
	Code    int            `json:"exit_code"` // as it would be now
	Began   time.Time      `json:"began"`
	Dir     string         `json:"dir"`
	Folder  string         `json:"folder"` // of its journal and its trials
	Command []string       `json:"command"`
	Tree    *sweep.Tree    `json:"tree"` // null: the code is not under git
	Counts  map[string]int `json:"counts"`
	Rows    []SweepRow     `json:"rows"`
}

// SweepRow is a trial in a [SweepDoc], and a line of `export`.
type SweepRow struct {
	Trial      int              `json:"trial"`
	Name       string           `json:"name"`
	State      string           `json:"state"`
	Assignment sweep.Assignment `json:"assignment"`
	Command    []string         `json:"command,omitempty"` // of a row that was given as a command
	Starts     int              `json:"starts"`
	ExitCode   *int             `json:"exit_code"` // launch's; null: the trial has not ended
	Cost       *string          `json:"cost"`      // of the rung at which it ended; null: not known
	Beyond     bool             `json:"beyond_numerics"`
	Changes    string           `json:"changes"`  // of that rung from the job as asked
	Attempts   int              `json:"attempts"` // of all its starts
	Short      int              `json:"out_of_memory"`
	Micro      *int64           `json:"micro_batch"` // null: not known
	Accum      *int64           `json:"accumulation"`
	Global     *int64           `json:"global_batch"`
	Peak       *unit.Bytes      `json:"peak_bytes"` // null: not measured
	PeakIs     string           `json:"peak_is,omitempty"`
	Steps      *int64           `json:"steps"`
	Rate       *float64         `json:"samples_per_second"`
	Seconds    *float64         `json:"seconds"` // of all attempts of all its starts
	Metrics    metric.Set       `json:"metrics,omitempty"`
	Rung       int              `json:"rung,omitempty"`  // of successive halving, from 0
	First      int              `json:"first,omitempty"` // the trial of its first rung
	Run        string           `json:"run,omitempty"`
	Why        string           `json:"why,omitempty"`
	// Mixed is from where the row's run is no longer what it began as; absent if it is.
	Mixed   []string    `json:"mixed,omitempty"`
	Card    *sweep.Card `json:"card,omitempty"`     // of the last start; absent: the trial found its own
	PutBack int         `json:"put_back,omitempty"` // how often it was stopped because its card filled
	// NotProven are keys whose values the training is not known to have got; SameAs is an earlier trial that trained with
	// the same arguments and environment.
	NotProven []string   `json:"not_proven,omitempty"`
	SameAs    int        `json:"same_as,omitempty"`
	Began     *time.Time `json:"began"`
	Ended     *time.Time `json:"ended"`
}

// SweepDocument returns the document of a sweep. driver is the process that drives it now; 0: none.
func SweepDocument(h *sweep.History, folder string, driver int) SweepDoc {
	d := SweepDoc{Version: SweepVersion, Name: h.Spec.Name, PID: driver, Code: h.Code(), Began: h.At, Dir: h.Spec.Dir,
		Folder:  folder,
		Command: append([]string{}, h.Spec.Command...), Tree: h.Spec.Tree, Counts: map[string]int{}, Rows: []SweepRow{}}
	switch {
	case driver != 0:
		d.State = "running"
	case h.Spec.Engine != nil && len(h.Running()) > 0: // its tasks need no process here
		d.State = "running on " + h.Spec.Engine.Name
	case h.Spec.Engine != nil && len(h.Waiting()) == 0:
		d.State = "ended"
	case h.Over == nil:
		d.State = "cut off"
	case h.Over.Why != "":
		d.State = "stopped"
	default:
		d.State = "ended"
	}
	for state, n := range h.Count() {
		d.Counts[string(state)] = n
	}
	twins := h.Twins()
	for _, r := range h.Rows {
		row := RowOfTrial(h, r)
		row.SameAs = twins[r.Number]
		d.Rows = append(d.Rows, row)
	}
	return d
}

// RowOfTrial returns the document of one row.
func RowOfTrial(h *sweep.History, r *sweep.Row) SweepRow {
	row := SweepRow{Trial: r.Number, Name: sweep.Template{Sweep: h.Spec.Name}.Name(r.Number), State: string(r.State),
		Assignment: append(sweep.Assignment{}, r.Assignment...), Command: r.Command, Starts: r.Starts, Rung: r.Rung,
		First: r.First, Card: r.Card, PutBack: r.Stops, Began: known(r.Begun), Ended: known(r.Over)}
	res := r.Result
	if res == nil || r.State == sweep.Running || r.State == sweep.Waiting {
		return row
	}
	row.ExitCode, row.Beyond, row.Changes = &res.Code, res.Beyond(), res.Changes
	row.Attempts, row.Short, row.Run, row.Why, row.PeakIs = res.Attempts, res.Short, res.Run, res.Why, res.PeakIs
	row.Peak, row.Steps, row.Rate = known(res.Peak), known(res.Length), known(res.Rate)
	row.Micro, row.Accum, row.Global = known(res.Batch.Micro), known(res.Batch.Accumulation), known(res.Batch.Global())
	row.Seconds, row.Metrics = known(res.Took.Seconds()), res.Metrics
	row.Mixed = mixedOf(r)
	if r.State == sweep.Succeeded {
		row.NotProven = res.NotProven
	}
	if res.Cost != nil {
		cost := res.Cost.String()
		row.Cost = &cost
	}
	return row
}

// known returns a pointer to a value, or nil if it is zero.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Sweep writes a sweep as a table for a person.
func (p Printer) Sweep(h *sweep.History, driver int) {
	d := SweepDocument(h, "", driver)
	p.line("%s  %s · %s · began %s", p.bold(h.Spec.Name), d.State, Counts(h), h.At.Local().Format("2006-01-02 15:04"))
	if len(h.Spec.Command) > 0 {
		p.whole("command: %s", OneLine(Quote(h.Spec.Command)))
	}
	var titles, figures []string
	for _, r := range h.Rows {
		titles, figures = append(titles, rowTitle(r)), append(figures, figureOf(r))
	}
	wide := p.columnOf(10, titles)
	show := columns{
		figure:  p.columnOf(16, figures),
		cards:   slices.ContainsFunc(h.Rows, func(r *sweep.Row) bool { return r.Card != nil }),
		metrics: slices.ContainsFunc(h.Rows, func(r *sweep.Row) bool { return r.Result != nil && len(r.Result.Metrics) > 0 }),
	}
	header := fmt.Sprintf("%5s  %s  %-13s %s%-9s %-9s %-16s %-14s %s%-24s %s", "trial", pad("values", wide), "state",
		column("card", 5, show.cards), "cost", "attempts", "batch", "peak", column("metric", show.figure,
			show.metrics), "run", "changed")
	beyond := false
	var rows []tableRow
	for _, r := range h.Rows {
		rows = append(rows, p.sweepRow(r, wide, show))
		beyond = beyond || r.Result.Beyond() && r.State == sweep.Succeeded
	}
	p.grid(header, rows)
	for trial, of := range twinsInOrder(h) {
		p.line("trial %d is a duplicate of trial %d: both trained with the same arguments and environment", trial, of)
	}
	if beyond {
		p.line("* cost beyond numerics: compare this row with the others only after --same-plan, or with care")
	}
}

// columns are those that only some tables have.
type columns struct {
	cards, metrics bool
	figure         int // how wide the metric's is
}

// column is a cell of such a column, with the blank after it.
func column(text string, wide int, shown bool) string {
	if !shown {
		return ""
	}
	return pad(text, wide) + " "
}

func (p Printer) sweepRow(r *sweep.Row, wide int, show columns) (out tableRow) {
	cost, attempts, batch, peak, figure, run, changed := "", "", "", "", "", "", ""
	if res := r.Result; res != nil && r.State != sweep.Running && r.State != sweep.Waiting {
		if res.Cost != nil {
			cost = res.Cost.String()
			if res.Beyond() {
				cost += " *"
			}
		}
		if attempts = strconv.Itoa(res.Attempts); res.Short > 0 {
			attempts += fmt.Sprintf(" (%d oom)", res.Short)
		}
		batch, run, changed = batchCell(res.Batch), res.Run, OneLine(res.Changes)
		if res.Peak > 0 {
			peak = res.Peak.String()
		}
		figure = figureOf(r)
	}
	card := ""
	if r.Card != nil && r.State == sweep.Running {
		card = r.Card.String()
	}
	state := p.trialState(r)
	out.line = fmt.Sprintf("%5d  %s  %s %s%-9s %-9s %-16s %-14s %s%-24s %s", r.Number,
		pad(rowTitle(r), wide), pad(state, 13), column(card, 5, show.cards), cost, attempts, batch, peak,
		column(figure, show.figure, show.metrics), run, changed)
	out.title = fmt.Sprintf("%d  %s  %s", r.Number, rowTitle(r), state)
	out.fields = []string{field("card", card), field("cost", cost), field("attempts", attempts), field("batch", batch),
		field("peak", peak), figure, field("run", run), field("changed:", changed)}
	for _, what := range mixedOf(r) {
		out.below = append(out.below, fmt.Sprintf("%5s  %s", "", p.red(OneLine(what))))
	}
	if res := r.Result; res != nil && res.Why != "" && (r.State == sweep.Failed || r.State == sweep.OutOfMemory ||
		r.State == sweep.CannotFit || r.State == sweep.NoRoom || r.State == sweep.Died || r.State == sweep.Doubtful) {
		out.below = append(out.below, fmt.Sprintf("%5s  %s", "", OneLine(res.Why)))
	}
	if why := unproven(r); why != "" {
		out.below = append(out.below, fmt.Sprintf("%5s  %s", "", OneLine(why)))
	}
	return out
}

// figureOf is the first metric of a row that has ended, with its best value.
func figureOf(r *sweep.Row) string {
	if r.Result == nil {
		return ""
	}
	names := r.Result.Metrics.Names()
	if len(names) == 0 {
		return ""
	}
	m := r.Result.Metrics[names[0]]
	if m.Diverged || m.Best == nil {
		return OneLine(names[0]) + " diverged"
	}
	return OneLine(names[0]) + fmt.Sprintf(" %.5g", m.Best.Value)
}

// trialState is the state of a row, in its colour.
func (p Printer) trialState(r *sweep.Row) string {
	switch state := string(r.State); r.State {
	case sweep.Succeeded:
		if len(mixedOf(r)) > 0 {
			return state
		}
		return p.green(state)
	case sweep.Running, sweep.Waiting:
		return state
	case sweep.Doubtful:
		return p.yellow(state)
	default:
		return p.red(state)
	}
}

// mixedOf lists what of a row is of another experiment than the one that it, or its sweep, began as.
func mixedOf(r *sweep.Row) (all []string) {
	if r.Result != nil && r.State != sweep.Running && r.State != sweep.Waiting {
		all = append(all, r.Result.Mixed...)
	}
	for _, what := range r.Mixed {
		all = append(all, "mixed: "+what+" since the sweep began")
	}
	return all
}

func batchCell(b job.Batch) string {
	if b.Global() == 0 {
		return ""
	}
	s := fmt.Sprintf("%d × %d", b.Micro, b.Accumulation)
	if b.Ranks > 1 {
		s += fmt.Sprintf(" × %d", b.Ranks)
	}
	return s + fmt.Sprintf(" = %d", b.Global())
}

// rowTitle names a row by its values, or by its command.
func rowTitle(r *sweep.Row) string {
	if len(r.Command) > 0 {
		return OneLine(Quote(r.Command))
	}
	return OneLine(r.Assignment.String())
}

// sweepStates is the order in which states are counted.
var sweepStates = []sweep.State{sweep.Succeeded, sweep.Doubtful, sweep.Failed, sweep.OutOfMemory, sweep.CannotFit,
	sweep.NoRoom, sweep.Interrupted,
	sweep.Died, sweep.Running, sweep.Waiting}

// counts lists how many trials have each state.
// Counts is how many trials a sweep has, and how many of them are in each state.
func Counts(h *sweep.History) string {
	n := h.Count()
	var parts []string
	for _, s := range sweepStates {
		if n[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	return Count(len(h.Rows), "trial") + ": " + strings.Join(parts, ", ")
}

// Trial writes one line for a trial that starts or ends.
func (p Printer) Trial(h *sweep.History, r *sweep.Row) {
	name := sweep.Template{Sweep: h.Spec.Name}.Name(r.Number)
	bad := r.State != sweep.Running && r.State != sweep.Succeeded && r.State != sweep.Waiting &&
		r.State != sweep.Interrupted
	if p.Quiet && !bad {
		return
	}
	title, end := rowTitle(r), ""
	if p.Width > 0 {
		title = unit.Clip(title, 60)
	}
	res := r.Result
	switch r.State {
	case sweep.Running:
		if r.Stopping() {
			p.line("%s  %s  is asked to save and stop, and runs again later: %s", name, title, OneLine(r.PutBack))
			return
		}
		if r.Card != nil {
			end = " on card " + r.Card.String()
		}
		if r.Resume != "" {
			end += ", resumes run " + r.Resume
		}
	case sweep.Waiting:
		switch end = ", is put back"; {
		case r.StartsOver():
			end = ", starts over: its run cannot be resumed"
		case r.Crowded > 0 && res != nil && res.Ending == run.OutOfMemory:
			end += ": it ran out of memory while others held a part of its card"
		}
	default:
		if res.Changes != "" {
			end = fmt.Sprintf(", cost %v: %s", *res.Cost, res.Changes)
		}
		if bad && res.Why != "" {
			end += ": " + res.Why
		}
		if took := r.Over.Sub(r.Begun); took >= time.Second {
			end = fmt.Sprintf(" after %s", short(took)) + end
		}
	}
	p.line("%s  %s  %s%s", name, title, r.State, OneLine(end))
}

// SweepEnd writes the last lines of a sweep.
func (p Printer) SweepEnd(h *sweep.History, why string, code int) {
	p.Proof(h)
	if p.Quiet && code == 0 {
		return
	}
	down, beyond := 0, 0
	for _, r := range h.Rows {
		if r.State == sweep.Succeeded && r.Result.Down() {
			down++
		}
		if r.State == sweep.Succeeded && r.Result.Beyond() {
			beyond++
		}
	}
	p.line("sweep %s: %s", h.Spec.Name, Counts(h))
	if down > 0 {
		more := ""
		if beyond > 0 {
			more = fmt.Sprintf("; %d of them cost more than numerics and are marked in the table", beyond)
		}
		p.line("%s ran with other settings than asked%s", Count(down, "trial"), more)
	}
	if why != "" {
		p.line("the sweep was stopped: %s", why)
	}
	if n := h.Count()[sweep.Doubtful]; n > 0 {
		p.line("%s exited 0 and contradicted a success: launch sweep status %s prints why", Count(n, "trial"), h.Spec.Name)
	}
	if code != 0 && slices.ContainsFunc(h.Rows, func(r *sweep.Row) bool {
		return r.State != sweep.Succeeded && r.State != sweep.Doubtful
	}) {
		p.line("run what did not succeed again: launch sweep resume %s", h.Spec.Name)
	}
	if slices.ContainsFunc(h.Rows, func(r *sweep.Row) bool {
		return r.Result != nil && !r.Result.Known && r.Result.Ending == run.OutOfMemory
	}) {
		p.line("launch did not recognise the command of what ran out of memory; %s", ToDeclare)
	}
}

// SweepCSV writes the rows as CSV, with a column for the best value of each metric and for each key.
func SweepCSV(w io.Writer, h *sweep.History) error {
	var keys, figures []string
	seen := map[string]bool{}
	for _, r := range h.Rows {
		if r.Result != nil {
			for _, name := range r.Result.Metrics.Names() {
				if name = "metric " + name; !slices.Contains(figures, name) {
					figures = append(figures, name)
				}
			}
		}
		for _, s := range r.Assignment {
			if !seen[s.Key] {
				seen[s.Key] = true
				keys = append(keys, s.Key)
			}
		}
	}
	out := csv.NewWriter(w)
	_ = out.Write(append([]string{"trial", "name", "state", "starts", "exit_code", "cost", "beyond_numerics", "changes",
		"attempts", "out_of_memory", "micro_batch", "accumulation", "global_batch", "peak_bytes", "steps",
		"samples_per_second", "seconds", "run", "why", "command"}, slices.Concat(figures, keys)...))
	for _, r := range h.Rows {
		d := RowOfTrial(h, r)
		line := []string{strconv.Itoa(d.Trial), d.Name, d.State, strconv.Itoa(d.Starts), cellOf(d.ExitCode), cellOf(d.Cost),
			strconv.FormatBool(d.Beyond), d.Changes, strconv.Itoa(d.Attempts), strconv.Itoa(d.Short), cellOf(d.Micro),
			cellOf(d.Accum),
			cellOf(d.Global), "", cellOf(d.Steps), cellOf(d.Rate), cellOf(d.Seconds), d.Run, d.Why, Quote(d.Command)}
		if d.Peak != nil {
			line[13] = strconv.FormatInt(int64(*d.Peak), 10)
		}
		for _, name := range figures {
			cell := ""
			if m, ok := d.Metrics[strings.TrimPrefix(name, "metric ")]; ok && m.Best != nil && !m.Diverged {
				cell = strconv.FormatFloat(m.Best.Value, 'g', -1, 64)
			}
			line = append(line, cell)
		}
		for _, key := range keys {
			value, _ := r.Assignment.Get(key)
			line = append(line, value)
		}
		for i := range line {
			line[i] = Clean(line[i])
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// cellOf is a value of a table; "" if it is not known.
func cellOf[T any](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

// SweepPlanDoc is the output of `launch sweep plan --json`.
type SweepPlanDoc struct {
	Version int        `json:"version"`
	Name    string     `json:"name"`
	Fits    bool       `json:"fits"` // false: a row will not fit, or might not
	Shared  *sharedDoc `json:"same_plan"`
	Rows    []QuoteDoc `json:"rows"`
}

type sharedDoc struct {
	Settings sweep.Assignment `json:"settings"`
	Cost     string           `json:"cost"`
}

// QuoteDoc is one row of it.
type QuoteDoc struct {
	sweep.Trial
	Quote sweep.Quote `json:"plan"`
}

// SweepPlan returns the document of a sweep's plans.
func SweepPlan(s sweep.Spec, trials []sweep.Trial, quotes []sweep.Quote) SweepPlanDoc {
	d := SweepPlanDoc{Version: SweepVersion, Name: s.Name, Fits: true, Rows: []QuoteDoc{}}
	if s.SharedCost != nil {
		d.Shared = &sharedDoc{append(sweep.Assignment{}, s.Shared...), s.SharedCost.String()}
	}
	for i, t := range trials[:min(len(trials), len(quotes))] {
		q := quotes[i]
		d.Rows = append(d.Rows, QuoteDoc{t, q})
		d.Fits = d.Fits && q.Stop == "" && (q.Verdict == "fits" || q.Verdict == "unknown" || q.Verdict == "" || q.Open)
	}
	return d
}

// SweepPlan writes the plans of a sweep's rows as a table.
func (p Printer) SweepPlan(s sweep.Spec, d SweepPlanDoc) {
	on := ""
	if len(d.Rows) > 0 && d.Rows[0].Quote.Device != "" {
		on = " · planned for " + d.Rows[0].Quote.Device
	}
	p.line("%s  %s%s", p.bold(s.Name), Count(len(d.Rows), "trial"), OneLine(on))
	p.SamePlan(s)
	var titles []string
	for _, r := range d.Rows {
		titles = append(titles, rowTitle(&sweep.Row{Trial: r.Trial}))
	}
	wide := p.columnOf(10, titles)
	packed := slices.ContainsFunc(d.Rows, func(r QuoteDoc) bool { return r.Quote.Card != "" })
	header := fmt.Sprintf("%5s  %s  %s%10s  %10s  %10s  %-12s  %-9s  %-9s  %s", "trial", pad("values", wide),
		column("card", 5, packed), "as asked", "planned", "room", "", "cost",
		"steps", "change")
	var rows []tableRow
	for _, r := range d.Rows {
		q, title := r.Quote, rowTitle(&sweep.Row{Trial: r.Trial})
		verdict, cost, rung := q.Verdict, q.Cost.String(), OneLine(q.Rung)
		switch {
		case q.Plugin == "":
			verdict, cost, rung = "unknown", "", "not recognised: it runs as typed"
		case q.Slow > 1:
			rung += fmt.Sprintf(" (about %.2g × the time)", q.Slow)
		}
		asked, needs, room, steps := amount(q.Asked), amount(q.Needs), amount(q.Room), cellOf(known(q.Steps))
		row := tableRow{
			line: fmt.Sprintf("%5d  %s  %s%10s  %10s  %10s  %s  %-9s  %-9s  %s", r.Number, pad(title, wide),
				column(q.Card, 5, packed), asked, needs, room, p.fit(pad(verdict, 12)), cost, steps, rung),
			title: fmt.Sprintf("%d  %s  %s", r.Number, title, p.fit(verdict)),
			fields: []string{field("card", q.Card), field("as asked", asked), field("planned", needs), field("room", room),
				field("cost", cost), field("steps", steps), rung},
		}
		if q.Stop != "" {
			row.below = append(row.below, fmt.Sprintf("%5s  %s", "", OneLine(q.Stop)))
		}
		if b := q.Beyond; b != nil {
			row.below = append(row.below, fmt.Sprintf("%5s  %s would allow: %s (cost %v)", "", OneLine(b.Flag),
				OneLine(b.Name), b.Cost))
		}
		rows = append(rows, row)
	}
	p.grid(header, rows)
	if slices.ContainsFunc(d.Rows, func(r QuoteDoc) bool { return r.Quote.Plugin == "" }) {
		p.line("%s", ToDeclare)
	}
}

// amount is an amount of memory; 0 is one that is not known.
func amount(b unit.Bytes) string {
	if b == 0 {
		return "unknown"
	}
	return b.String()
}

func (p Printer) fit(verdict string) string {
	switch strings.TrimSpace(verdict) {
	case "fits":
		return p.green(verdict)
	case "cannot fit", "may not fit":
		return p.red(verdict)
	}
	return verdict
}

// SamePlan writes the one plan that all rows share, if there is one.
func (p Printer) SamePlan(s sweep.Spec) {
	switch {
	case s.SharedCost == nil:
	case len(s.Shared) == 0:
		p.line("one plan for all rows: as asked")
	default:
		p.line("one plan for all rows, cost %v: %s", *s.SharedCost, OneLine(s.Shared.String()))
	}
}
