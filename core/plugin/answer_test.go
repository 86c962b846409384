package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
)

// finder writes down what it was asked for.
type finder struct{ asked []string }

func (f *finder) Devices() int {
	f.asked = append(f.asked, "devices")
	return 2
}

func (f *finder) Sources(_ context.Context, paths []string) (read []config.PythonSource) {
	f.asked = append(f.asked, fmt.Sprint(paths))
	for _, path := range paths {
		read = append(read, config.PythonSource{Path: path})
	}
	return read
}

func (f *finder) Formulas(_ context.Context, formulas []job.Formula) (counted []job.Counted) {
	for _, g := range formulas {
		f.asked = append(f.asked, g.Function+string(g.Config))
		counted = append(counted, job.Counted{Formula: g})
	}
	return counted
}

func TestAnswer(t *testing.T) {
	needs := func(paths ...string) error { return fmt.Errorf("reading: %w", &Need{Sources: paths}) }
	formulas := func(configs ...string) error {
		n := &Need{}
		for _, c := range configs {
			n.Formulas = append(n.Formulas, job.Formula{File: "/a.py", Function: "f", Config: json.RawMessage(c)})
		}
		return n
	}
	endless := slices.Repeat([]error{needs("/a")}, 100)
	for name, tt := range map[string]struct {
		errs    []error // of one round after the other; then there is an answer
		devices int     // that the user has named
		asked   []string
		rounds  int
		err     error
	}{
		"an answer at once":             {rounds: 1},
		"another family's":              {errs: []error{ErrNotMine}, rounds: 1, err: ErrNotMine},
		"an import after the other":     {errs: []error{needs("/a"), needs("/b", "/c")}, asked: []string{"[/a]", "[/b /c]"}, rounds: 3},
		"a file is read once":           {errs: []error{needs("/a", "/a"), needs("/a", "/b"), needs("/b")}, asked: []string{"[/a]", "[/b]"}, rounds: 4},
		"devices and files":             {errs: []error{&Need{Devices: true, Sources: []string{"/a"}}}, asked: []string{"devices", "[/a]"}, rounds: 2},
		"devices are counted once":      {errs: []error{&Need{Devices: true}, &Need{Devices: true}}, asked: []string{"devices"}, rounds: 3},
		"the user has named the number": {errs: []error{&Need{Devices: true}}, devices: 4, rounds: 2},
		"wrong after what was needed":   {errs: []error{needs("/a"), ErrNotMine}, asked: []string{"[/a]"}, rounds: 2, err: ErrNotMine},
		"a formula is run once": {errs: []error{formulas(`{"a":1,"b":2}`, `{"b":2, "a":1}`, `3`),
			formulas(`{"b":2,"a":1}`)}, asked: []string{`f{"a":1,"b":2}`, "f3"}, rounds: 3},
		"the last round": {errs: endless[:rounds-1], asked: []string{"[/a]"}, rounds: rounds},
		"more and more":  {errs: endless, asked: []string{"[/a]"}, rounds: rounds, err: ErrInsatiable},
	} {
		f, c, n := &finder{}, job.Command{Devices: tt.devices}, 0
		answer, err := Answer(t.Context(), func(_ context.Context, c job.Command) (string, error) {
			n++
			if n <= len(tt.errs) {
				return "", tt.errs[n-1]
			}
			return "mine", nil
		}, &c, f)
		if !errors.Is(err, tt.err) || (answer == "mine") != (tt.err == nil) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		if !reflect.DeepEqual(f.asked, tt.asked) || n != tt.rounds {
			t.Errorf("%s: it looked for %q in %d rounds, want %q in %d", name, f.asked, n, tt.asked, tt.rounds)
		}
	}
}
