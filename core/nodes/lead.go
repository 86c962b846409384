package nodes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A Leader carries out plans on all nodes. It implements [run.Executor].
type Leader struct {
	run.Executor // of this node
	// Prepare makes a plan the same for all nodes: it chooses the ports. May be nil.
	Prepare func(*run.Plan) error

	peers []*peer
	host  ladder.HostRooms
	gone  error // a node that was lost
}

// Lead waits for the launches of all other nodes. The error is ctx's, or about the address. refused is called with each
// node that cannot take part, and why, from several goroutines.
func Lead(
	ctx context.Context, at Place, key []byte, me Hello, ex run.Executor, refused func(node int, why string),
) (*Leader, error) {
	conf, err := settings(key)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(at.Address)
	if err != nil {
		return nil, fmt.Errorf("the address of node 0: %w", err)
	}
	listen := net.ListenConfig{KeepAliveConfig: alive}
	l, err := listen.Listen(ctx, "tcp", at.Address)
	if err != nil { // a name that is not this machine's own, as behind a load balancer
		l, err = listen.Listen(ctx, "tcp", ":"+port)
	}
	if err != nil {
		return nil, fmt.Errorf("listening for the other nodes: %w", err)
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	lead := &Leader{Executor: ex, peers: make([]*peer, at.Nodes)}
	joined := make(chan *peer)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go accept(ctx, l, func(conn net.Conn) { greet(ctx, tls.Server(conn, conf), me, joined, refused) })
	for missing := at.Nodes - 1; missing > 0; {
		select {
		case p := <-joined:
			if lead.peers[p.node] != nil {
				p.send(message{Refused: fmt.Sprintf("node %d is there already", p.node)})
				p.conn.Close()
				continue
			}
			lead.peers[p.node] = p
			missing--
		case <-ctx.Done():
			lead.Close()
			return nil, context.Cause(ctx)
		}
	}
	return lead, nil
}

const (
	// mostStrangers bounds the connections that have not shown the key yet. Anybody may make them, and each takes a file.
	mostStrangers = 64
	// A node that knows the key shows it in milliseconds.
	greeting = 20 * time.Second
)

// accept takes connections until the listener is closed. Of too many that are still greeted it closes the oldest. Where
// this process has no files left it waits: the port is anybody's, and the run is not theirs to end.
func accept(ctx context.Context, l net.Listener, greet func(net.Conn)) {
	var mu sync.Mutex
	var open []net.Conn
	closeOldest := func(most int) {
		mu.Lock()
		defer mu.Unlock()
		for len(open) > most {
			open[0].Close()
			open = open[1:]
		}
	}
	for pause := time.Duration(0); ctx.Err() == nil; {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			mu.Lock()
			n := len(open)
			mu.Unlock()
			closeOldest(n / 2)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		pause = 0
		closeOldest(mostStrangers - 1)
		mu.Lock()
		open = append(open, conn)
		mu.Unlock()
		go func() {
			greet(conn)
			mu.Lock()
			open = slices.DeleteFunc(open, func(c net.Conn) bool { return c == conn })
			mu.Unlock()
		}()
	}
}

// greet takes a connection. Whoever does not know the key, or makes another job, is not let in.
func greet(ctx context.Context, conn *tls.Conn, me Hello, joined chan<- *peer, refused func(int, string)) {
	_ = conn.SetDeadline(time.Now().Add(greeting)) // a closed connection fails at the next read
	if conn.HandshakeContext(ctx) != nil {
		conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	p := newPeer(conn)
	limited, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	m, _ := p.receive(limited)
	if m == nil || m.Hello == nil {
		conn.Close()
		return
	}
	if why := m.Hello.refused(me); why != "" {
		refused(m.Hello.Node, why)
		p.send(message{Refused: why})
		conn.Close()
		return
	}
	p.node, p.unlike = m.Hello.Node, differ(m.Hello.Same, me.Same)
	p.send(message{Hello: &me})
	select {
	case joined <- p:
	case <-ctx.Done():
		conn.Close()
	}
}

// refused returns why a node cannot take part in the run of node 0, or "".
func (h Hello) refused(zero Hello) string {
	switch {
	case h.Nodes != zero.Nodes || h.Node < 1 || h.Node >= zero.Nodes:
		return fmt.Sprintf("it is node %d of %d, and node 0 expects nodes 1 to %d", h.Node, h.Nodes, zero.Nodes-1)
	case h.Version != zero.Version:
		return fmt.Sprintf("its launch has version %s, and that of node 0 %s", h.Version, zero.Version)
	}
	if names := differ(h.Job, zero.Job); len(names) > 0 {
		return "its command or its recipe differs from that of node 0: " + some(names)
	}
	if names := differ(h.Same, zero.Same); len(names) > 0 && !h.Accept && !zero.Accept {
		return "it is not what node 0 is: " + some(names) + "; --accept lets it take part all the same"
	}
	return ""
}

// some names the first few.
func some(names []string) string {
	const few = 5
	more := ""
	if len(names) > few {
		more = fmt.Sprintf(" and %d more", len(names)-few)
		names = names[:few]
	}
	return strings.Join(names, ", ") + more
}

// Unlike lists what of the nodes is not as on node 0, a line for each node, where that was accepted.
func (l *Leader) Unlike() (lines []string) {
	for _, p := range l.peers {
		if p != nil && len(p.unlike) > 0 {
			lines = append(lines, fmt.Sprintf("node %d has another %s", p.node, some(p.unlike)))
		}
	}
	return lines
}

// differ returns the names under which two jobs do not have the same, sorted.
func differ(a, b map[string]string) (names []string) {
	for name, sum := range a {
		if b[name] != sum {
			names = append(names, fmt.Sprintf("%.100s", name))
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, fmt.Sprintf("%.100s", name))
		}
	}
	slices.Sort(names)
	return names
}

// Close ends the connections. The other nodes stop with 75 unless [Leader.Stop] was called.
func (l *Leader) Close() {
	for _, p := range l.peers {
		if p != nil {
			p.conn.Close()
		}
	}
}

// Stop tells the other nodes why there is no next attempt.
func (l *Leader) Stop(s *run.Stop) {
	for _, p := range l.peers[1:] {
		p.send(message{Stop: s})
	}
}

// ErrGone is the error of a plan that cannot be carried out because a node was lost.
var ErrGone = errors.New("a node was lost")

// Room implements [run.Executor]: the fullest device of all nodes decides.
func (l *Leader) Room(ctx context.Context) (unit.Bytes, error) {
	if l.gone != nil {
		return 0, l.gone
	}
	for _, p := range l.peers[1:] {
		p.send(message{AskRoom: true})
	}
	room, err := l.Executor.Room(ctx)
	if err != nil {
		return 0, err
	}
	l.host = l.Executor.Rooms(ctx)
	for _, p := range l.peers[1:] {
		m, err := p.receive(ctx)
		switch {
		case err != nil:
			return 0, err
		case m == nil || m.Room == nil:
			return 0, fmt.Errorf("%w: %s", ErrGone, Gone(p.node).Why)
		}
		room, l.host = least(room, m.Room.Room), leastHost(l.host, m.Room.Host)
	}
	return room, nil
}

// Changed implements [run.Keeper].
func (l *Leader) Changed(s run.State) string {
	if k, ok := l.Executor.(run.Keeper); ok {
		return k.Changed(s)
	}
	return ""
}

// Lost implements [run.Keeper].
func (l *Leader) Lost(lost []run.Loss, from run.State) {
	if k, ok := l.Executor.(run.Keeper); ok {
		k.Lost(lost, from)
	}
}

// Rooms implements [run.Executor].
func (l *Leader) Rooms(context.Context) ladder.HostRooms { return l.host }

// An arrival is the result of a node, or why there is none.
type arrival struct {
	result
	err error
}

// outcome waits for that of a plan.
func (p *peer) outcome(ctx context.Context) arrival {
	m, err := p.receive(ctx)
	switch {
	case err != nil || m == nil || m.Outcome == nil && m.Error == "":
		return arrival{result{node: p.node}, fmt.Errorf("%w: %s", ErrGone, Gone(p.node).Why)}
	case m.Error != "":
		return arrival{result{node: p.node}, fmt.Errorf("node %d: %s", p.node, m.Error)}
	}
	return arrival{result: result{p.node, *m.Outcome, m.Ended}}
}

// Execute implements [run.Executor]. The attempt ends on all nodes before it returns.
func (l *Leader) Execute(ctx context.Context, p *run.Plan) (run.Outcome, error) {
	if l.Prepare != nil {
		if err := l.Prepare(p); err != nil {
			return run.Outcome{}, err
		}
	}
	here, end := context.WithCancel(ctx)
	defer end()
	came := make(chan arrival, len(l.peers))
	for _, q := range l.peers[1:] {
		q.send(message{Plan: p})
		go func() { came <- q.outcome(context.WithoutCancel(ctx)) }() // a node that ends closes the connection
	}
	go func() {
		out, err := l.Executor.Execute(here, p)
		came <- arrival{result{0, out, here.Err() != nil && ctx.Err() == nil}, err}
	}()
	var results []result
	var failed error
	var limit <-chan time.Time
	for range l.peers {
		var a arrival
		for waiting := true; waiting; {
			select {
			case a = <-came:
				waiting = false
			case <-limit:
				limit = nil
				end()
				for _, q := range l.peers[1:] {
					q.send(message{End: true})
				}
			}
		}
		if a.err != nil {
			failed = errors.Join(failed, a.err)
			a.out = run.Outcome{Ending: run.Failed, Untaken: a.err.Error()}
		}
		results = append(results, a.result)
		if d := patience(&a.out); d > 0 && (limit == nil || d == soon) {
			limit = time.After(d)
		}
	}
	if failed != nil {
		l.gone = failed
		return run.Outcome{}, failed
	}
	out := merge(results)
	for _, q := range l.peers[1:] {
		q.send(message{Merged: &out})
	}
	return out, nil
}
