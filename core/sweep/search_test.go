package sweep

import (
	"strings"
	"testing"
	"time"
)

func TestSearchCheck(t *testing.T) {
	halve := &Rungs{Key: "--steps", Lengths: []string{"1", "2"}}
	grid := Space{Dimensions: []Dimension{{Keys: []string{"--lr"}}}}
	command, ask := []string{"python", "train.py"}, []string{"./searcher"}
	for name, c := range map[string]struct {
		search  *Search
		space   Space
		command []string
		want    string // "": it may be searched
	}{
		"none":                        {nil, grid, nil, ""},
		"halving":                     {&Search{Halve: halve, Metric: "loss"}, grid, command, ""},
		"a searcher":                  {&Search{Ask: ask, Metric: "loss", Patience: time.Second}, Space{}, command, ""},
		"both":                        {&Search{Halve: halve, Ask: ask}, Space{}, command, "decides itself how long"},
		"no command":                  {&Search{Halve: halve}, grid, nil, "needs a command"},
		"a searcher, and values":      {&Search{Ask: ask}, grid, command, "leave out the keys"},
		"less than no patience":       {&Search{Ask: ask, Patience: -1}, Space{}, command, "cannot be negative"},
		"patience with nobody":        {&Search{Halve: halve, Patience: 1}, grid, command, "is for --ask"},
		"a metric alone":              {&Search{Metric: "loss"}, grid, command, "is for a search"},
		"nothing that is asked for":   {&Search{}, grid, command, ""},
		"a length with values":        {&Search{Halve: &Rungs{Key: "--lr", Lengths: halve.Lengths}}, grid, command, "twice"},
		"a length that is no setting": {&Search{Halve: &Rungs{Key: "trial", Lengths: halve.Lengths}}, grid, command, "own"},
	} {
		err := c.search.check(c.space, c.command)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
