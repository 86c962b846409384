package oom

import (
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/checklist"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/unit"
)

// Marks of words. The signs share the bits above these.
const (
	markMemory uint64 = 1 << iota
	markFailure
	markFrame
	firstSign = 3
)

// An Event is a sign that was read.
type Event struct {
	Kind      job.SignKind
	Phase     string // of the sign
	Knob      string // of the sign
	Iteration int64  // group "iteration"; -1 where the pattern has none
	Total     int64  // group "total"; 0 where the pattern has none
	Path      string // group "path"
	Bytes     unit.Bytes
	Reserved  unit.Bytes // group "reserved"; 0 where the pattern has none
	Value     string     // group "value"
	Step      int64      // group "step", or the last iteration before; metric.NoStep where there is neither
	Name      string     // of the sign
	Direction metric.Direction
	Line      Line
	Check     int    // the index of the plugin's check that it is a value of; 0 for signs
	Series    string // group "series"
}

// checked is the kind of the values of a check. They are no signs: nothing is judged by them.
const checked job.SignKind = "check"

// StoppedEarly is the kind of a line in which a program prints that it ends before its last step, and why. Every
// program that reports its progress has these signs. They are passed to OnEvent, and change no state.
const StoppedEarly job.SignKind = "stopped early"

// early are the words for it. They count only after the last step, so that a setting of that name is none. Each has a
// literal, without which it would be tried on every line.
var early = []string{
	`(?i)\bearly[ _-]?stop(?:ped|ping)?(?:[^:=\w]|[:=]\s*[^\s\d]|$)`,
	`(?i)\bstop(?:ped|ping)\b.{0,40}\bearly\b`,
	`(?i)\bpatience\b.{0,60}\b(?:reached|exceeded|exhausted|ran out|is over)\b`,
	`(?i)\bno improvement\b.{0,80}\bstop`,
	`(?i)\bstopping (?:the )?training\b`,
	`(?i)\b(?:has |have |training )converged\b`,
	`(?i)^\W*converged\b`,
	`(?i)\bconverged (?:at|after|in)\b`,
	`(?i)\bstopped: .{0,60}\breached\b`,
	`(?i)\b(?:target|goal|max_steps|max_epochs)\b.{0,60}\breached\b`,
	`(?i)\breached\b.{0,20}\b(?:target|goal|desired|max(?:imum)?)\b`,
	`(?i)\b(?:target|goal)\b.{0,40}\bachieved\b`,
	`(?i)\bno improvement\b.{0,80}\b(?:halt|exit|terminat|end|quit)`,
	`(?i)\bstopped improving\b`,
	`(?i)\btrial\b.{0,30}\bpruned\b`,
	`(?i)\btime (?:limit|budget)\b.{0,40}\b(?:reached|exceeded|is over)\b`,
	`(?i)\bmax(?:imum)?[ _]?(?:train(?:ing)?[ _])?time\b.{0,40}\b(?:reached|exceeded)\b`,
}

// figures is what a report of a step has beside its number, and about what a line about a resume has, or a bar before its first step.
var (
	figures = lazy.MustCompile(`(?i)loss\W{1,4}-?\d`)
	about   = lazy.MustCompile(`(?i)\b(resum|load|restor|continu|start|from)|\?it/s`)
)

// Figures reports whether the line has what only a step has: its loss.
func (e Event) Figures() bool {
	return figures.MatchString(e.Line.Text) && !about.MatchString(e.Line.Text)
}

// A State is what the signs have shown so far.
type State struct {
	Phase       string // the current one: of the last Phase sign that has not ended; "training" once started; "" before
	Iteration   int64  // the highest; -1 before any
	Moved       bool   // there was a Progress sign other than of iteration 0, which a bar shows before training begins
	Varied      bool   // Progress signs had different iterations
	Figures     bool   // a Progress sign was on a line with what only a step has: its loss
	Total       int64  // of the last Progress sign that had one
	Saved       *Event // the last saved state
	Resumed     *Event
	Started     bool
	Succeeded   bool
	Failed      bool
	Interrupted bool
	OutOfMemory int // OutOfMemory signs
	Survived    int // Survived signs
	Peak        unit.Bytes
	Settings    map[string]string // knob: value, as the program confirmed it
	Metrics     metric.Set
	Rates       *metric.Track // the learning rate
	Updates     *metric.Track // how many optimizer steps the training has
	Events      int
	outer       string // the phase to which PhaseEnd returns
	Announced   int64  // the total of a Started sign; 0 for none
	restarts    bool   // Progress counts from the beginning again, as a bar does that has an epoch's steps

	// Checks are the values of the plugin's checks, in their order; nil before any.
	Checks []checklist.Values
	// SurvivedLine is the first line with a Survived sign.
	SurvivedLine string
}

type compiled struct {
	sign  job.Sign
	check int // the index of a check; 0 of a sign
	re    *regexp.Regexp
	group map[string]int
	mark  uint64 // 0: no word of it is certain, so every line is tried
	word  string

	size  int // of its program
	spent time.Duration
	slow  bool // it was not matched on some line
}

// A signReader finds a plugin's signs in lines.
type signReader struct {
	signs       []compiled
	checks      []job.Check
	any         bool
	announces   bool // there are signs of where other phases begin
	always      bool
	progress    uint64 // marks of the signs of progress alone
	codes       map[int]string
	mustSucceed bool
	budget      budget
}

func newSignReader(signs job.Signs) (*signReader, error) {
	r := &signReader{any: len(signs.Lines)+len(signs.Checks) > 0, codes: signs.Codes, mustSucceed: signs.MustSucceed,
		checks: signs.Checks, budget: budget{began: time.Now()}}
	lines := slices.Clone(signs.Lines)
	for _, c := range signs.Checks {
		lines = append(lines, job.Sign{Kind: checked, Pattern: c.Pattern, Name: c.Name})
	}
	if signs.Has(job.Progress) {
		for _, pattern := range early {
			lines = append(lines, job.Sign{Kind: StoppedEarly, Pattern: pattern})
		}
	}
	for i, s := range lines {
		re, err := regexp.Compile(s.Pattern)
		if err != nil {
			return nil, fmt.Errorf("reading the %s sign: %w", s.Kind, err)
		}
		r.announces = r.announces || s.Kind == job.Phase
		c := compiled{sign: s, re: re, group: map[string]int{}, word: requiredWord(s.Pattern), check: max(0,
			i-len(signs.Lines)), size: instructions(s.Pattern)}
		for g, name := range re.SubexpNames() {
			c.group[name] = g
		}
		if c.word != "" {
			c.mark = 1 << (firstSign + i%(64-firstSign))
		} else {
			r.always = true
		}
		r.signs = append(r.signs, c)
	}
	r.progress = progressMarks(r.signs)
	return r, nil
}

func (r *signReader) addWords(words map[string]uint64) {
	for _, c := range r.signs {
		if c.mark != 0 {
			words[c.word] |= c.mark
		}
	}
}

// requiredWord returns the longest literal that every match of the pattern contains, in lower case, or "".
func requiredWord(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	word := longestLiteral(re.Simplify())
	if len(word) < 3 {
		return ""
	}
	return word
}

func longestLiteral(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if r > 0x7e {
				return "" // folding is for ASCII only
			}
		}
		return strings.ToLower(string(re.Rune))
	case syntax.OpCapture, syntax.OpPlus:
		return longestLiteral(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return longestLiteral(re.Sub[0])
		}
	case syntax.OpConcat:
		best := ""
		for _, sub := range re.Sub {
			if w := longestLiteral(sub); len(w) > len(best) {
				best = w
			}
		}
		return best
	}
	return ""
}

// match calls found for every sign in text, with where its match ends.
func (r *signReader) match(text []byte, marks uint64, found func(i int, e Event, end int)) {
	if !r.always && marks>>firstSign == 0 {
		return
	}
	now := time.Now()
	for i := range r.signs {
		c := &r.signs[i]
		if c.mark != 0 && marks&c.mark == 0 || !r.may(c, len(text), now) {
			continue
		}
		var all [][]int
		if c.sign.Kind == checked {
			all = c.re.FindAllSubmatchIndex(text, mostValues)
		} else if m := c.re.FindSubmatchIndex(text); m != nil {
			all = [][]int{m}
		}
		then := time.Now()
		r.charge(c, len(text), then.Sub(now))
		now = then
		for _, m := range all {
			found(i, c.event(text, m), m[1])
		}
	}
}

// mostValues bounds how many values of a check one line may have.
const mostValues = 32

// event makes the event of a match.
func (c *compiled) event(text []byte, m []int) Event {
	group := func(name string) string {
		if g, ok := c.group[name]; ok && g > 0 && m[2*g] >= 0 {
			return string(text[m[2*g]:m[2*g+1]])
		}
		return ""
	}
	e := Event{Kind: c.sign.Kind, Phase: c.sign.Phase, Knob: c.sign.Knob, Iteration: -1, Check: c.check,
		Series: group("series"),
		Path:   group("path"), Value: group("value"), Name: c.sign.Name, Direction: c.sign.Direction, Step: metric.NoStep}
	if n, err := strconv.ParseInt(digits(group("step")), 10, 64); err == nil {
		e.Step = n
	}
	if g := group("iteration"); g != "" {
		if n, err := strconv.ParseInt(digits(g), 10, 64); err == nil {
			e.Iteration = n
		}
	}
	if g := group("total"); g != "" {
		e.Total, _ = strconv.ParseInt(digits(g), 10, 64)
	}
	amount := func(g string) (b unit.Bytes) {
		if g != "" {
			b, _ = unit.Parse(digits(g) + group("unit"))
		}
		return b
	}
	e.Bytes, e.Reserved = amount(group("bytes")), amount(group("reserved"))
	return e
}

// digits strips what groups digits.
func digits(s string) string { return grouping.Replace(s) }

var grouping = strings.NewReplacer(",", "", "_", "", " ", "")

// event records a sign.
func (s *stream) event(e Event, number int, text string) {
	e.Line = Line{Stream: s.name, Number: number, Text: text}
	if (e.Kind == job.Metric || e.Kind == job.Rate || e.Kind == job.Updates || e.Kind == checked ||
		e.Kind == job.SavedState) &&
		e.Step == metric.NoStep {
		e.Step = s.iteration()
	}
	if e.Kind == checked {
		s.state.value(s.d.signs.checks, e)
		return
	}
	if s.state.another(e) {
		return
	}
	if e.Kind != StoppedEarly {
		s.state.take(e)
	}
	if e.Kind == job.OutOfMemory || e.Kind == job.Survived || e.Kind == job.Failed {
		s.record.event = &e
	}
	if s.d.OnEvent != nil {
		s.d.OnEvent(e)
	}
}

// iteration is the one that a value on this stream belongs to. A log file is read later than the terminal, which has
// come further by then: where it reports progress, its own counts.
func (s *stream) iteration() int64 {
	if s.name == Log && s.state.Moved && !s.state.restarts {
		return s.state.Iteration
	}
	return s.d.iteration()
}

// iteration is the highest of all streams: a bar and a validation's results may be on different ones. NoStep if
// there is none, or if it is only a count within an epoch.
func (d *Detector) iteration() int64 {
	n := int64(metric.NoStep)
	for _, s := range d.streams {
		if s.state.restarts {
			return metric.NoStep
		}
		if s.state.Events > 0 {
			n = max(n, s.state.Iteration)
		}
	}
	return n
}

// another reports whether a bar counts something else than the steps of the training: the program has announced their
// number, and this is another one.
func (t *State) another(e Event) bool {
	return e.Kind == job.Progress && e.Total > 0 && t.Announced > 0 && e.Total != t.Announced
}

func (t *State) take(e Event) {
	if t.Events == 0 {
		t.Iteration = -1
	}
	t.Events++
	switch e.Kind {
	case job.Started:
		t.Started = true
		if e.Total > 0 {
			t.Total, t.Announced = e.Total, e.Total
		}
		t.Phase, t.outer = "training", "training"
	case job.Progress:
		t.restarts = t.restarts || e.Iteration < t.Iteration
		t.Varied = t.Varied || t.Moved && e.Iteration != t.Iteration
		t.Moved = t.Moved || e.Iteration != 0
		t.Figures = t.Figures || e.Figures()
		if e.Total > 0 {
			t.Total = e.Total
		}
		t.Iteration = max(t.Iteration, e.Iteration)
		t.Phase, t.outer = "training", "training"
	case job.SavedState:
		t.Saved = &e
	case job.Resumed:
		t.Resumed = &e
		t.Iteration = max(t.Iteration, e.Iteration)
	case job.Phase:
		if t.Phase != e.Phase {
			t.outer, t.Phase = t.Phase, e.Phase
		}
	case job.PhaseEnd:
		if t.Phase == e.Phase {
			t.Phase = t.outer
		}
	case job.Memory:
		t.Peak = max(t.Peak, e.Bytes)
	case job.OutOfMemory:
		t.OutOfMemory++
	case job.Survived:
		if t.Survived++; t.Survived == 1 {
			t.SurvivedLine = e.Line.Text
		}
	case job.Interrupted:
		t.Interrupted = true
	case job.Succeeded:
		t.Succeeded = true
	case job.Failed:
		t.Failed = true
	case job.Setting:
		if t.Settings == nil {
			t.Settings = map[string]string{}
		}
		t.Settings[e.Knob] = e.Value
	case job.Metric:
		t.measure(e)
	case job.Rate, job.Updates:
		t.compared(e)
	}
}

// compared keeps a value by which attempts are compared.
func (t *State) compared(e Event) {
	switch {
	case e.Kind == job.Rate:
		t.Rates = t.track(t.Rates, e)
	case !t.Moved: // later it may be how many updates were made
		t.Updates = t.track(t.Updates, e)
	}
}

// track adds a value by its step. Where steps count from the beginning again, as in an epoch's bar, it has no place.
func (t *State) track(to *metric.Track, e Event) *metric.Track {
	v, err := metric.Parse(e.Value)
	step := e.Step
	if !t.Moved && step <= 0 {
		step = metric.NoStep
	}
	if err != nil || t.restarts || t.Moved && step == metric.NoStep {
		return to
	}
	if to == nil {
		to = &metric.Track{}
	}
	to.Add(metric.Point{Value: v, Step: step})
	return to
}

// measure adds a value of a metric. What is no number is none: a pattern may match more than its author meant.
func (t *State) measure(e Event) {
	v, err := metric.Parse(e.Value)
	if err != nil {
		return
	}
	t.Metrics.Add(e.Name, e.Direction, metric.Point{Value: v, Step: e.Step})
}

// value takes a value of a check.
func (t *State) value(checks []job.Check, e Event) {
	if t.Checks == nil {
		t.Checks = make([]checklist.Values, len(checks))
	}
	t.Checks[e.Check].Add(checks[e.Check], e.Series, checklist.Point{Value: e.Value, Step: e.Step,
		Line: strings.TrimSpace(e.Line.Text)})
}

// values adds those of a stream, whose values count if it is the log, or if no stream before had any.
func (t *State) values(of []checklist.Values, isLog bool) {
	for i, v := range of {
		if t.Checks == nil {
			t.Checks = make([]checklist.Values, len(of))
		}
		if has := len(v.Series) > 0 || v.Early > 0; has && (isLog || len(t.Checks[i].Series) == 0) {
			t.Checks[i] = v
		}
	}
}

// trainedOn reports whether a step was made since the last state was saved: what was printed of that is over.
func (t *State) trainedOn() bool {
	return t.Saved != nil && t.Saved.Step >= 0 && t.Iteration > t.Saved.Step && !t.restarts
}

// fine reports whether the signs allow a success.
func (t *State) fine(mustSucceed bool) bool {
	return !t.Failed && !t.Interrupted && (t.Succeeded || !mustSucceed && t.OutOfMemory <= t.Survived)
}

// Stepped reports whether the program reported a step. For a program whose success is shown by progress alone, each report is
// of a finished step, the one of iteration 0 as well.
func (t *State) Stepped(signs job.Signs) bool {
	if t.Moved {
		return true
	}
	return t.Succeeded && slices.ContainsFunc(signs.Lines, func(s job.Sign) bool {
		return s.Kind == job.Succeeded && slices.ContainsFunc(signs.Lines, func(p job.Sign) bool { return p.Kind == job.Progress && p.Pattern == s.Pattern })
	})
}

// State returns what the signs have shown so far. The phase is the log's, if the log has signs; of counts and progress it is
// the highest of all streams, because the same line may be in each.
func (d *Detector) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state()
}

// now is the state of a stream, with the signs of a record that is not known to be complete.
func (s *stream) now() State {
	t := s.state
	t.Rates, t.Updates = t.Rates.Clone(), t.Updates.Clone()
	t.Settings, t.Metrics, t.Checks = maps.Clone(t.Settings), maps.Clone(t.Metrics), slices.Clone(t.Checks)
	for i, v := range t.Checks {
		t.Checks[i] = v.Clone()
	}
	s.record.matchWith(s.d, func(e Event) {
		if (e.Kind == job.Metric || e.Kind == job.Rate || e.Kind == job.Updates || e.Kind == checked) &&
			e.Step == metric.NoStep {
			e.Step = s.iteration()
		}
		e.Line.Text = string(s.record.text)
		switch e.Kind {
		case StoppedEarly:
			return
		case checked:
		default:
			t.take(e)
			return
		}
		t.value(s.d.signs.checks, e)
	})
	return t
}

func (d *Detector) state() State {
	out := State{Iteration: -1}
	for _, s := range d.streams {
		t := s.now()
		out.values(t.Checks, s.name == Log)
		if t.Events == 0 {
			continue
		}
		if out.Events == 0 || s.name == Log {
			out.Phase = t.Phase
		}
		if out.Saved == nil || t.Saved != nil && t.Saved.Iteration > out.Saved.Iteration {
			out.Saved = t.Saved
		}
		if out.Resumed == nil {
			out.Resumed = t.Resumed
		}
		out.Iteration = max(out.Iteration, t.Iteration)
		out.Moved, out.Varied, out.Figures = out.Moved || t.Moved, out.Varied || t.Varied, out.Figures || t.Figures
		if out.Total == 0 || t.Total > 0 && s.name == Log {
			out.Total = t.Total
		}
		out.Started = out.Started || t.Started
		out.Succeeded = out.Succeeded || t.Succeeded
		out.Failed = out.Failed || t.Failed
		out.Interrupted = out.Interrupted || t.Interrupted
		out.OutOfMemory = max(out.OutOfMemory, t.OutOfMemory)
		out.Survived = max(out.Survived, t.Survived)
		if out.SurvivedLine == "" || t.SurvivedLine != "" && s.name == Log {
			out.SurvivedLine = t.SurvivedLine
		}
		out.Rates, out.Updates = first(s.name, out.Rates, t.Rates), first(s.name, out.Updates, t.Updates)
		out.Peak = max(out.Peak, t.Peak)
		out.Events = max(out.Events, t.Events)
		for knob, value := range t.Settings { // the log's word counts most, and of the others the first stream's
			if _, said := out.Settings[knob]; said && s.name != Log {
				continue
			}
			if out.Settings == nil {
				out.Settings = map[string]string{}
			}
			out.Settings[knob] = value
		}
		for name, m := range t.Metrics { // likewise
			if _, known := out.Metrics[name]; known && s.name != Log {
				continue
			}
			if out.Metrics == nil {
				out.Metrics = metric.Set{}
			}
			out.Metrics[name] = m
		}
	}
	return out
}

// first is the track that counts: the log's, else that of the first stream that has one.
func first(stream string, have, here *metric.Track) *metric.Track {
	if here != nil && (have == nil || stream == Log) {
		return here
	}
	return have
}

// phaseFor returns the phase by signs at this moment: the stream's own if it has any, else the best other.
func (d *Detector) phaseFor(s *stream) string {
	if s.state.Events > 0 {
		return s.state.Phase
	}
	return d.state().Phase
}
