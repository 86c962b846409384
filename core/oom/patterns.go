package oom

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"time"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/unit"
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

var (
	// figures is what a report of a step has beside its number (BasicSR and its forks name losses l_pix, l_g_total), and
	// about what a line about a resume has, or a bar before its first step.
	figures = lazy.MustCompile(`(?:(?:loss|Loss|LOSS)\W{1,4}|\bl_\w{1,20}: )-?\d`)
	about   = lazy.MustCompile(`(?i)\b(resum|load|restor|continu|start|from)|\?it/s`)
)

// Figures reports whether the line has what only a step has: its loss.
func (e Event) Figures() bool {
	return figures.MatchString(e.Line.Text) && !about.MatchString(e.Line.Text)
}

// A plugin's patterns come from a project's file, perhaps a stranger's, and the program waits while they are matched.
// RE2 is linear in a line, but a pattern with counted repetitions takes thousands of steps for each byte. So a pattern
// has a bound for one line, and a budget of time for all of them; without either it does not match.
const (
	// mostSteps bounds the instructions of a pattern times the bytes of a line: about a tenth of a second.
	mostSteps = 4 << 20
	// perStep is the longest that one such step takes.
	perStep = 50 * time.Nanosecond
	// uncounted is the time that is not counted: a line's share of it does not slow down a program.
	uncounted = 20 * time.Microsecond
	// at first, and then as a part of the time that has passed, one pattern and all patterns together may take this.
	oneAtFirst, oneOf100 = 500 * time.Millisecond, 2
	allAtFirst, allOf100 = time.Second, 8
)

// budget is the time that matching may take. The zero budget is full.
type budget struct {
	began time.Time
	spent time.Duration
}

// instructions is the size of a pattern's program.
func instructions(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 1
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 1
	}
	return len(prog.Inst)
}

// may reports whether a sign is matched on a line of that length at a time.
func (r *signReader) may(c *compiled, length int, now time.Time) bool {
	if c.size == 0 {
		c.size = instructions(c.sign.Pattern)
	}
	if c.size*length > mostSteps {
		c.slow = true
		return false
	}
	if c.spent < oneAtFirst/8 { // most never come near
		return true
	}
	passed := now.Sub(r.budget.began)
	over := c.spent > oneAtFirst+passed*oneOf100/100 ||
		r.budget.spent > allAtFirst+passed*allOf100/100 && c.spent > r.budget.spent/time.Duration(len(r.signs)+1)
	c.slow = c.slow || over
	return !over
}

// charge adds the time of a match. On a busy machine the clock goes on while this process does not: what cannot have
// been the pattern is not counted.
func (r *signReader) charge(c *compiled, length int, took time.Duration) {
	if took <= uncounted {
		return
	}
	took = min(took, time.Duration(c.size*length)*perStep)
	c.spent += took
	r.budget.spent += took
}

type compiled struct {
	sign  job.Sign
	check int // the index of a check; 0 of a sign
	re    *pattern
	group map[string]int
	mark  uint64 // 0: no word of it is certain, so every line is tried
	word  string

	size  int // of its program; 0 before it was first matched
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
		for _, pattern := range printed.Early {
			lines = append(lines, job.Sign{Kind: StoppedEarly, Pattern: pattern})
		}
	}
	for i, s := range lines {
		tree, err := syntax.Parse(s.Pattern, syntax.Perl)
		if err != nil {
			return nil, fmt.Errorf("reading the %s sign: %w", s.Kind, err)
		}
		r.announces = r.announces || s.Kind == job.Phase
		c := compiled{sign: s, re: rx(s.Pattern), group: map[string]int{}, word: requiredWord(s.Pattern),
			check: max(0, i-len(signs.Lines))}
		for g, name := range tree.CapNames() {
			c.group[name] = g
		}
		if c.word != "" {
			c.mark = 1 << (printed.FirstSign + i%(64-printed.FirstSign))
		} else {
			r.always = true
		}
		r.signs = append(r.signs, c)
	}
	return r, nil
}

func (r *signReader) addWords(words map[string]uint64) {
	for _, c := range r.signs {
		if c.mark != 0 {
			words[c.word] |= c.mark
		}
	}
}

// requiredWord is the longest literal that every match of the pattern contains, in lower case; "" if none is long
// enough to be looked for.
func requiredWord(pattern string) string {
	if word := lazy.Literal(pattern); len(word) > 2 {
		return word
	}
	return ""
}

// match calls found for every sign in text, with where its match ends.
func (r *signReader) match(text []byte, marks uint64, found func(i int, e Event, end int)) {
	if !r.always && marks>>printed.FirstSign == 0 {
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
	if n, err := strconv.ParseInt(printed.Digits(group("step")), 10, 64); err == nil {
		e.Step = n
	}
	if g := group("iteration"); g != "" {
		if n, err := strconv.ParseInt(printed.Digits(g), 10, 64); err == nil {
			e.Iteration = n
		}
	}
	if g := group("total"); g != "" {
		e.Total, _ = strconv.ParseInt(printed.Digits(g), 10, 64)
	}
	amount := func(g string) (b unit.Bytes) {
		if g != "" {
			b, _ = unit.Parse(printed.Digits(g) + group("unit"))
		}
		return b
	}
	e.Bytes, e.Reserved = amount(group("bytes")), amount(group("reserved"))
	return e
}
