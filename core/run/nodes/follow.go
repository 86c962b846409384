package nodes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/launch-ml/launch/core/run"
)

// A Follower is the connection to the launch of node 0.
type Follower struct{ p *peer }

// again is the pause between two attempts to reach node 0.
const again = 250 * time.Millisecond

// ErrRefused is the error of a node that node 0 does not take.
var ErrRefused = errors.New("node 0 does not take this node")

// Join reaches the launch of node 0, which may start later. The error is ctx's, or why node 0 does not take this one.
func Join(ctx context.Context, at Place, key []byte, me Hello) (*Follower, error) {
	conf, err := settings(key)
	if err != nil {
		return nil, err
	}
	dial := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second, KeepAliveConfig: alive}, Config: conf}
	for {
		conn, err := dial.DialContext(ctx, "tcp", at.Address)
		if errors.Is(err, ErrKey) {
			return nil, fmt.Errorf("reaching node 0 at %s: %w", at.Address, err)
		}
		if err == nil {
			p := newPeer(conn)
			p.send(message{Hello: &me})
			m, wrong := p.receive(ctx)
			switch {
			case m != nil && m.Hello != nil:
				return &Follower{p}, nil
			case m != nil && m.Refused != "":
				conn.Close()
				return nil, fmt.Errorf("%w: %s", ErrRefused, m.Refused)
			}
			conn.Close()
			if wrong != nil {
				return nil, wrong
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(again):
		}
	}
}

// Close ends the connection.
func (f *Follower) Close() { f.p.conn.Close() }

// Carry makes the attempts that node 0 decides, until there is none. As [run.Run.Carry] it returns why.
func (f *Follower) Carry(ctx context.Context, r *run.Run, ex run.Executor, j run.Journal) (*run.Stop, error) {
	for {
		m, err := f.p.receive(ctx)
		switch {
		case err != nil:
			return nil, err
		case m == nil:
			return Gone(0), nil
		case m.Stop != nil:
			return m.Stop, nil
		case m.AskRoom:
			if r.Room, err = ex.Room(ctx); err != nil {
				return nil, fmt.Errorf("measuring the room: %w", err)
			}
			r.Rooms = ex.Rooms(ctx)
			f.p.send(message{Room: &rooms{r.Room, r.Rooms}})
		case m.Plan != nil:
			if stop, err := f.attempt(ctx, m.Plan, r, ex, j); stop != nil || err != nil {
				return stop, err
			}
		}
	}
}

// attempt carries out one plan. It returns a stop if node 0 has gone.
func (f *Follower) attempt(ctx context.Context, p *run.Plan, r *run.Run, ex run.Executor, j run.Journal) (*run.Stop,
	error) {
	if err := j.Planned(p); err != nil {
		return nil, fmt.Errorf("recording the plan: %w", err)
	}
	here, end := context.WithCancel(ctx)
	defer end()
	type done struct {
		out run.Outcome
		err error
	}
	over := make(chan done, 1)
	go func() {
		out, err := ex.Execute(here, p)
		over <- done{out, err}
	}()
	var d done
	var gone, told bool
	for in := f.p.in; ; {
		select {
		case m, ok := <-in:
			told = told || ok && m.End
			if gone = !ok; gone {
				in = nil
			}
			if gone || m.End {
				end()
			}
			continue
		case d = <-over:
		}
		break
	}
	if d.err != nil {
		f.p.send(message{Error: d.err.Error()})
		return nil, fmt.Errorf("attempt %d: %w", p.Attempt, d.err)
	}
	ended := gone || told
	if !gone {
		f.p.send(message{Outcome: &d.out, Ended: ended})
		m := f.merged(ctx)
		if gone = m == nil; !gone {
			d.out = adopt(d.out, *m, ended)
		}
	}
	if gone {
		d.out = adopt(d.out, run.Outcome{Ending: run.Interrupted, Cause: Gone(0).Why}, ended)
	}
	r.Attempts = append(r.Attempts, run.Attempt{Plan: *p, Outcome: d.out})
	if err := j.Ended(r.Last()); err != nil {
		return nil, fmt.Errorf("recording the attempt: %w", err)
	}
	if gone {
		return Gone(0), nil
	}
	return nil, nil
}

// merged waits for the outcome of all nodes; nil: node 0 has gone.
func (f *Follower) merged(ctx context.Context) *run.Outcome {
	for {
		m, err := f.p.receive(ctx)
		if m == nil || err != nil {
			return nil
		}
		if m.Merged != nil {
			return m.Merged
		}
	}
}
