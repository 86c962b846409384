package carry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/run/nodes"
	"github.com/launch-ml/launch/core/ui"
)

// stopIn is how long a program may take to stop when another node has ended the attempt.
const stopIn = 2 * time.Second

// errNobody is the cause of a wait for other nodes that was too long.
var errNobody = errors.New("the launches of the other nodes did not come")

// carryOn makes the attempts of a run, on all its nodes.
func (c *Carrier) carryOn(
	ctx context.Context, at nodes.Place, r *run.Run, x *attempt.Executor, j *keeper, say ui.Printer,
) (*run.Stop, error) {
	if at.Nodes < 2 {
		return r.Carry(ctx, x, j)
	}
	key, err := nodes.Key(c.Options.State)
	if err != nil {
		return nil, err
	}
	me := nodes.Hello{Node: at.Node, Nodes: at.Nodes, Version: c.Version, Job: agreed(r),
		Same: alike(j.began.Get()), Accept: c.Accept}
	wait, end := waiting(ctx, x.Signals)
	defer end()
	var stop *run.Stop
	if at.Node > 0 {
		f, err := nodes.Join(wait, at, key, me)
		if err != nil {
			return unmet(err)
		}
		defer f.Close()
		end()
		stop, err = f.Carry(ctx, r, x, j)
		return stop, err
	}
	say.Line("node 0 of %d: waiting for the other nodes at %s", at.Nodes, at.Address)
	l, err := nodes.Lead(wait, at, key, me, x, func(node int, why string) {
		say.Warn("node %d cannot take part: %s", node, why)
	})
	if err != nil {
		return unmet(err)
	}
	defer l.Close()
	end()
	if unlike := l.Unlike(); len(unlike) > 0 {
		j.mark(run.Mix{What: unlike}, nil)
	}
	l.Prepare = func(p *run.Plan) (err error) {
		p.Edits, err = attempt.WithPorts(p.Edits)
		return err
	}
	stop, err = r.Carry(ctx, l, j)
	switch {
	case errors.Is(err, nodes.ErrGone):
		return &run.Stop{Why: err.Error(), Code: run.TryLater}, nil
	case err == nil:
		l.Stop(stop)
	}
	return stop, err
}

// unmet is the end of a run whose nodes did not meet.
func unmet(err error) (*run.Stop, error) {
	if errors.Is(err, nodes.ErrRefused) { // it must not train another way beside the others
		return &run.Stop{Why: err.Error(), Code: run.OwnTrouble, Unlike: []string{"this node is not as node 0"}}, nil
	}
	if errors.Is(err, nodes.ErrKey) { // nor may one that cannot learn what the others do
		return &run.Stop{Why: fmt.Sprintf("%v: copy the file from node 0, or share the folder that holds it", err),
			Code: run.OwnTrouble, Unlike: []string{"the key of the nodes"}}, nil
	}
	if errors.Is(err, errNobody) {
		return &run.Stop{Why: err.Error(), Code: run.TryLater}, nil
	}
	return nil, err
}

// waiting returns the context of a wait for other nodes. A signal ends it.
func waiting(ctx context.Context, signals attempt.Signals) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeoutCause(ctx, nodes.Meeting, errNobody)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for ctx.Err() == nil {
			if signals != nil {
				if err := signals.Pending(); err != nil {
					cancel(err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return ctx, func() { cancel(nil); stop() }
}
