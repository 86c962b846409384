package plugin

import (
	"context"
	"errors"
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
)

// rounds is how often a plugin may ask for more before it answers: an import is followed from file to file.
const rounds = 6

// ErrInsatiable is returned by [Answer] for a plugin that still has a [Need] after the last round.
var ErrInsatiable = errors.New("it asks for more and more files")

// A Finder finds out what a plugin needs to know, because it takes a process or a look at the machine.
type Finder interface {
	// Devices returns how many GPUs the command would see, or -1 where that is not known.
	Devices() int
	// Sources reads Python files by their absolute paths. It returns one source for each; a file that could not be read has
	// its Problem.
	Sources(ctx context.Context, paths []string) []config.PythonSource
	// Formulas runs formulas. It returns one answer for each; one that could not be run has its Problem.
	Formulas(ctx context.Context, formulas []job.Formula) []job.Counted
}

// Answer calls recognize, which is [Plugin.Recognize], until it no longer returns a [Need], and returns its last answer. What it needs it
// gets from find, once, and *c keeps it for the next round.
func Answer[T any](ctx context.Context, recognize func(context.Context, job.Command) (T, error), c *job.Command, find Finder) (T, error) {
	for range rounds {
		answer, err := recognize(ctx, *c)
		var need *Need
		if !errors.As(err, &need) {
			return answer, err
		}
		if need.Devices && c.Devices == 0 {
			c.Devices = find.Devices()
		}
		var unread []string
		for _, path := range need.Sources {
			if c.Source(path) == nil && !slices.Contains(unread, path) {
				unread = append(unread, path)
			}
		}
		if len(unread) > 0 {
			c.Sources = append(c.Sources, find.Sources(ctx, unread)...)
		}
		var open []job.Formula
		for _, f := range need.Formulas {
			if c.Counted(f) == nil && !slices.ContainsFunc(open, f.Same) {
				open = append(open, f)
			}
		}
		if len(open) > 0 {
			c.Formulas = append(c.Formulas, find.Formulas(ctx, open)...)
		}
	}
	var none T
	return none, ErrInsatiable
}
