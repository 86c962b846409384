package oom

import (
	"fmt"
	"regexp/syntax"
	"time"
)

// A plugin's patterns come from a project's file, perhaps a stranger's, and the program waits while they are matched.
// RE2 is linear in a line, but a pattern with counted repetitions takes thousands of steps for each byte. So a pattern
// has a bound for one line, and a budget of time for all of them; without either it does not match.
const (
	// mostSteps bounds the instructions of a pattern times the bytes of a line: about a tenth of a second.
	mostSteps = 4 << 20
	// perStep is the longest that one such step takes.
	perStep = 50 * time.Nanosecond
	// free is the time that is not counted: a line's share of it does not slow down a program.
	free = 20 * time.Microsecond
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
	if took <= free {
		return
	}
	took = min(took, time.Duration(c.size*length)*perStep)
	c.spent += took
	r.budget.spent += took
}

// Slow describes the patterns that were not matched on every line, because that would have slowed down the program.
func (d *Detector) Slow() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.signs.signs {
		if c.slow {
			out = append(out, fmt.Sprintf("%s %.60q", c.sign.Kind, c.sign.Pattern))
		}
	}
	return out
}
