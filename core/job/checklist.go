package job

import (
	"fmt"
	"math"
	"slices"
)

// A Rule is what the values of a [Check] have to be.
type Rule string

// The rules. A launch that does not know a rule reports that it could not check it.
const (
	Finite Rule = "finite" // each value is a finite number
	Within Rule = "within" // each value is a finite number from Min to Max
	Moving Rule = "moving" // the values differ: with the group "series", those of at least one series
)

// Rules are all rules.
var Rules = []Rule{Finite, Within, Moving}

// A Check is one line of the list that launch goes through at the end of a run: a pattern, a bound and a window. It
// changes neither how a run is judged nor its exit code.
type Check struct {
	// Name is what is true if the check is met: "the loss weights change".
	Name string `json:"name"`
	// Pattern is an RE2 expression over the lines that the program prints, or writes to its log, with a group "value".
	// It may match a line several times. Group "step", if there is one: the step of the value; without it, that of the
	// last progress. Group "series", if there is one, tells the values of several figures apart.
	Pattern string `json:"pattern"`
	Rule    Rule   `json:"rule"`
	// Min and Max are the bounds of Within; one of them may be nil.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// Last is the window: only the last values of each series, so many of them, count; 0: all.
	Last int `json:"last,omitempty"`
	// After leaves out values of earlier steps, and those whose step is unknown; 0: all count.
	After int64 `json:"after,omitempty"`
	// Least is how many values there have to be; with fewer it could not be checked. 0: one, and two of Moving.
	Least int `json:"least,omitempty"`
	// Hint is what the user should look at if the check is not met: one sentence, or "".
	Hint string `json:"hint,omitempty"`
}

// Bounds of the checks of a plugin's answer.
const (
	maxChecks = 50
	maxWindow = 100
	maxHint   = 500
)

// Fewest is how many values there have to be.
func (c Check) Fewest() int {
	if c.Rule == Moving {
		return max(2, c.Least)
	}
	return max(1, c.Least)
}

// Check returns why c is no valid check. Its pattern is checked with those of the signs.
func (c Check) Check() error {
	bad := func(f *float64) bool { return f != nil && (math.IsNaN(*f) || math.IsInf(*f, 0)) }
	switch {
	case c.Name == "" || len(c.Name) > maxName:
		return fmt.Errorf("its check %.100q has a name of %d bytes", c.Name, len(c.Name))
	case len(c.Pattern) > maxPath || len(c.Hint) > maxHint:
		return fmt.Errorf("its check %q is too long", c.Name)
	case c.Last < 0 || c.Last > maxWindow || c.Least < 0 || c.Last > 0 && c.Fewest() > c.Last || c.After < 0:
		return fmt.Errorf("its check %q asks for %d of the last %d values", c.Name, c.Fewest(), c.Last)
	case bad(c.Min) || bad(c.Max) || c.Min != nil && c.Max != nil && *c.Min > *c.Max:
		return fmt.Errorf("its check %q has bounds that no number is within", c.Name)
	case c.Rule == Within && c.Min == nil && c.Max == nil:
		return fmt.Errorf("its check %q has no bound", c.Name)
	}
	return nil
}

// checkAll checks the list. size checks a pattern.
func checkAll(all []Check, size func(what, pattern string) error) error {
	if len(all) > maxChecks {
		return fmt.Errorf("it has %d checks", len(all))
	}
	for i, c := range all {
		if err := c.Check(); err != nil {
			return err
		}
		if slices.ContainsFunc(all[:i], func(o Check) bool { return o.Name == c.Name }) {
			return fmt.Errorf("it has two checks %q", c.Name)
		}
		if err := size(fmt.Sprintf("the check %q", c.Name), c.Pattern); err != nil {
			return err
		}
	}
	return nil
}
