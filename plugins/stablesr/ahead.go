package stablesr

import (
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
)

// ahead is a command whose prices are begun before they are asked for. Nearly all of the work needs nothing but the recipe,
// and the other processor would wait while one reads what else the command says.
type ahead struct {
	command job.Command
	read    chan struct{} // closed when the recipe is
	recipe  *recipe
	err     error
	planned chan struct{} // closed when it is known what will be priced
	prices  []anticipated
	dropped atomic.Bool // nobody will take them
}

type anticipated struct {
	phase    int
	variants []variant
	bare     chan []mem.Estimate // gives them once, or is closed
}

var _ plugin.Anticipator = (*stablesr)(nil)

// Anticipate implements [plugin.Anticipator].
func (s *stablesr) Anticipate(c job.Command) {
	if s.begun(c) != nil {
		return
	}
	a := &ahead{command: c, read: make(chan struct{}), planned: make(chan struct{})}
	s.ahead.Store(a)
	go a.begin()
}

// begin gives up where it fails: whoever asks does the work anew, and it fails there.
func (a *ahead) begin() {
	defer func() { recover() }()
	func() {
		defer close(a.read)
		a.recipe, a.err = readCommand(a.command)
	}()
	var tasks []func()
	func() {
		defer close(a.planned)
		if a.err == nil {
			tasks = a.plan()
		}
	}()
	mem.Together(tasks)
}

// plan says what would be priced on a card.
func (a *ahead) plan() (tasks []func()) {
	own := *a.recipe
	b := newBuilder(&own, &job.Job{Command: a.command}, gpu.Device{Kind: gpu.CUDA})
	if b.idleCard() != "" || own.ranks < 0 {
		return nil
	}
	rungs, _ := b.expecting().shared(b.asked())
	for _, g := range groups(rungs) {
		bare := make(chan []mem.Estimate, 1)
		a.prices = append(a.prices, anticipated{g.phase, g.variants, bare})
		tasks = append(tasks, func() {
			defer close(bare)
			if !a.dropped.Load() {
				bare <- b.bare(g.phase, g.variants)
			}
		})
	}
	return tasks
}

// begun is what was begun for a command, or nil.
func (s *stablesr) begun(c job.Command) *ahead {
	if a := s.ahead.Load(); a != nil && reflect.DeepEqual(a.command, c) {
		return a
	}
	return nil
}

// readAhead reads a command, unless that was begun.
func (s *stablesr) readAhead(c job.Command) (*recipe, error) {
	a := s.begun(c)
	if a == nil {
		return readCommand(c)
	}
	<-a.read
	if a.err != nil {
		return nil, a.err
	}
	if a.recipe == nil { // reading it failed otherwise
		return readCommand(c)
	}
	own := *a.recipe
	return &own, nil
}

// claim takes over what was begun for a command, once. It is nil where nothing was.
func (s *stablesr) claim(c job.Command) *ahead {
	if a := s.begun(c); a != nil && s.ahead.CompareAndSwap(a, nil) {
		return a
	}
	return nil
}

// drop leaves out what is not priced yet.
func (a *ahead) drop() {
	if a != nil {
		a.dropped.Store(true)
	}
}

// take takes bare estimates that were begun. ok is false where they were not.
func (a *ahead) take(phase int, vs []variant) (out []mem.Estimate, ok bool) {
	if a == nil {
		return nil, false
	}
	<-a.planned
	for i := range a.prices {
		if p := &a.prices[i]; p.phase == phase && slices.Equal(p.variants, vs) {
			out, ok = <-p.bare
			return out, ok
		}
	}
	return nil, false
}
