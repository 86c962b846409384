package stablesr

import (
	"slices"
	"sync/atomic"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/mem"
)

// ahead is what is priced of a command before its ladders are asked for. Nearly all of the work needs nothing but the recipe,
// and the other processor would wait while one reads what else the command says.
type ahead struct {
	planned chan struct{} // closed when it is known what will be priced
	prices  []anticipated
	dropped atomic.Bool // nobody will take them
}

type anticipated struct {
	phase    int
	variants []variant
	bare     chan []mem.Tensors // gives them once, or is closed
}

// begin prices a command's recipe on a card. It gives up where it fails: whoever asks does the work anew, and it fails there.
func begin(r *recipe, c job.Command) *ahead {
	own := *r
	a := &ahead{planned: make(chan struct{})}
	go func() {
		defer func() { _ = recover() }()
		var tasks []func()
		func() {
			defer close(a.planned)
			tasks = a.plan(newBuilder(&own, &job.Job{Command: c}, gpu.Device{Kind: gpu.CUDA}))
		}()
		mem.Together(tasks)
	}()
	return a
}

// plan says what would be priced.
func (a *ahead) plan(b *builder) (tasks []func()) {
	if b.idleCard() != "" {
		return nil
	}
	rungs, _ := b.expecting().shared(b.asked())
	for _, g := range groups(rungs) {
		bare := make(chan []mem.Tensors, 1)
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

// drop leaves out what is not priced yet.
func (a *ahead) drop() { a.dropped.Store(true) }

// take takes bare estimates that were begun. ok is false where they were not.
func (a *ahead) take(phase int, vs []variant) (out []mem.Tensors, ok bool) {
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
