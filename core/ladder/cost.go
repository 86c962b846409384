package ladder

import (
	"fmt"
	"strings"
)

// A Cost says what a rung gives up, mildest first. The order is the order in which launch is allowed to take them.
type Cost int

const (
	None     Cost = iota // nothing: the job as asked, allocator settings
	Speed                // time only: the same mathematics
	Numerics             // rounding, or batch statistics
	Metrics              // comparability of the validation figures, not the trained model
	Recipe               // it is another experiment
	Model                // it is another model
)

var costs = [...]string{"none", "speed", "numerics", "metrics", "recipe", "model"}

// Costs lists the names of all costs, mildest first.
func Costs() []string { return costs[:] }

func (c Cost) String() string {
	if c < 0 || int(c) >= len(costs) {
		return fmt.Sprintf("cost(%d)", int(c))
	}
	return costs[c]
}

// Meaning is what a cost gives up, in words.
func (c Cost) Meaning() string {
	if c < 0 || int(c) >= len(costs) {
		return "unknown"
	}
	return [...]string{
		"nothing is given up",
		"time only: the mathematics is the same",
		"the mathematics is the same but for rounding or batch statistics",
		"figures of the validation are not comparable with those of other runs",
		"it is another experiment, with other results than the recipe's",
		"it is another model",
	}[c]
}

// ParseCost reads a cost by its name.
func ParseCost(s string) (Cost, error) {
	for i, name := range costs {
		if strings.EqualFold(strings.TrimSpace(s), name) {
			return Cost(i), nil
		}
	}
	return 0, fmt.Errorf("%q is not a cost; the costs are %s", s, strings.Join(costs[:], ", "))
}

// MarshalText implements encoding.TextMarshaler.
func (c Cost) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Cost) UnmarshalText(b []byte) (err error) {
	*c, err = ParseCost(string(b))
	return err
}
