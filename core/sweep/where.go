package sweep

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// A Condition is what the user wrote: comparisons such as "lr < 0.1", joined by "and" and "or". "and" binds tighter. On
// the right stands a value, or another key in braces. Two numbers are compared as numbers, anything else as text.
type Condition string

type comparison struct{ key, op, value string }

var comparisonText = lazy.MustCompile(`^(\S+?)\s*(<=|>=|!=|==|=|<|>)\s*(.*)$`)

// parse returns alternatives of comparisons that hold together.
func (c Condition) parse() (any [][]comparison, err error) {
	for _, or := range strings.Split(string(c), " or ") {
		var all []comparison
		for _, and := range strings.Split(or, " and ") {
			m := comparisonText.FindStringSubmatch(strings.TrimSpace(and))
			if m == nil {
				return nil, fmt.Errorf("%q is not a condition: write KEY OP VALUE, such as \"lr < 0.1\"", strings.TrimSpace(and))
			}
			all = append(all, comparison{m[1], m[2], strings.Trim(strings.TrimSpace(m[3]), `"`)})
		}
		any = append(any, all)
	}
	return any, nil
}

// keys lists the keys that the condition looks at.
func (c Condition) keys() (keys []string) {
	any, _ := c.parse()
	for _, all := range any {
		for _, one := range all {
			keys = append(keys, one.key)
			if other, ok := braced(one.value); ok {
				keys = append(keys, other)
			}
		}
	}
	return keys
}

func braced(text string) (string, bool) {
	inner, ok := strings.CutPrefix(text, "{")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(inner, "}")
}

// check returns an error if the condition cannot be read, or looks at a key that has no values.
func (c Condition) check(known map[string]bool) error {
	if _, err := c.parse(); err != nil {
		return err
	}
	for _, key := range c.keys() {
		if !known[key] {
			return fmt.Errorf("the condition %q: no key %s has values", string(c), key)
		}
	}
	return nil
}

// holds evaluates the condition. A comparison with a key that the row lacks does not hold.
func (c Condition) holds(a Assignment) (bool, error) {
	any, err := c.parse()
	if err != nil {
		return false, err
	}
	for _, all := range any {
		ok := true
		for _, one := range all {
			holds, err := one.holds(a)
			if err != nil {
				return false, fmt.Errorf("the condition %q: %w", string(c), err)
			}
			ok = ok && holds
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}

func (c comparison) holds(a Assignment) (bool, error) {
	left, ok := a.Get(c.key)
	right := c.value
	if other, is := braced(right); is {
		value, there := a.Get(other)
		right, ok = value, ok && there
	}
	if !ok {
		return false, nil
	}
	x, errX := strconv.ParseFloat(left, 64)
	y, errY := strconv.ParseFloat(right, 64)
	numbers := errX == nil && errY == nil
	equal := left == right || numbers && x == y
	switch c.op {
	case "=", "==":
		return equal, nil
	case "!=":
		return !equal, nil
	}
	if !numbers {
		return false, fmt.Errorf("%s %s %s compares what are not two numbers", left, c.op, right)
	}
	switch c.op {
	case "<":
		return x < y, nil
	case "<=":
		return x <= y, nil
	case ">":
		return x > y, nil
	}
	return x >= y, nil
}
