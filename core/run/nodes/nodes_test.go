package nodes

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// waits is a program that ends only when launch ends it.
var waits = run.Outcome{Ending: "waits"}

// A machine plays the attempts of one node.
type machine struct {
	room  unit.Bytes
	plays []run.Outcome // one for each attempt

	mu    sync.Mutex
	plans []run.Plan
	ended int // programs that launch has ended
}

func (m *machine) Room(context.Context) (unit.Bytes, error) { return m.room, nil }
func (m *machine) Rooms(context.Context) ladder.HostRooms   { return ladder.HostRooms{} }
func (m *machine) Planned(*run.Plan) error                  { return nil }
func (m *machine) Ended(*run.Attempt) error                 { return nil }
func (m *machine) Execute(ctx context.Context, p *run.Plan) (run.Outcome, error) {
	m.mu.Lock()
	out := m.plays[len(m.plans)]
	m.plans = append(m.plans, *p)
	m.mu.Unlock()
	if out.Ending != waits.Ending {
		return out, nil
	}
	<-ctx.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended++
	return run.Outcome{Ending: run.Interrupted, Cause: "SIGTERM"}, nil
}

// newRun is a job with two rungs: micro-batch 8, and 4.
func newRun() *run.Run {
	e := func(n unit.Bytes) []mem.Estimate {
		return []mem.Estimate{{Items: []mem.Item{{Kind: mem.Saved, What: "x", Bytes: n}}}}
	}
	edit := config.Edit{Knob: "micro-batch", At: config.Address{Doc: config.ArgvDoc, Path: "--batch"}, From: "8",
		To: "4", Cost: "speed"}
	set := &ladder.Set{
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{
			ladder.AsAsked(e(8 * unit.GiB)...),
			{Name: "micro-batch 4", Cost: ladder.Speed, Estimates: e(4 * unit.GiB), Edits: []config.Edit{edit}},
		}}},
	}
	return &run.Run{Job: &job.Job{Batch: job.Batch{Micro: 8, Accumulation: 1, Ranks: 3}}, Ladders: set,
		Limits: run.Limits{Allow: ladder.Metrics}}
}

// address is a free one of the loopback network, in which 127.0.0.2 is as good a machine as 127.0.0.1.
func address(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skipf("no loopback network: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}

var theJob = map[string]string{"--lr": "0", "--wd": "0", "--seed": "1"}

var key = []byte(strings.Repeat("k", 32))

type end struct {
	stop *run.Stop
	err  error
	run  *run.Run
}

// play carries a run on machines.
func play(t *testing.T, ms ...*machine) []end {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	at := address(t)
	ends := make([]end, len(ms))
	var all sync.WaitGroup
	for i, m := range ms {
		all.Add(1)
		go func() {
			defer all.Done()
			e := end{run: newRun()}
			place, me := Place{i, len(ms), at}, hello(i, len(ms), "1", theJob)
			if i == 0 {
				var l *Leader
				if l, e.err = Lead(ctx, place, key, me, m, func(int, string) {}); e.err == nil {
					if e.stop, e.err = e.run.Carry(ctx, l, m); e.err == nil {
						l.Stop(e.stop)
					}
					l.Close()
				}
			} else {
				var f *Follower
				if f, e.err = Join(ctx, place, key, me); e.err == nil {
					e.stop, e.err = f.Carry(ctx, e.run, m, m)
					f.Close()
				}
			}
			ends[i] = e
		}()
	}
	all.Wait()
	return ends
}

func ranOut() run.Outcome {
	return run.Outcome{Ending: run.OutOfMemory, Cause: "out of memory", Report: oom.Report{OOM: true, Fatal: true,
		Kind: oom.GPUCapacity, Phase: oom.TrainForward}, Phase: ladder.Training}
}

// An out-of-memory on the last of three nodes ends the attempt on all; all make the next one, as one attempt with one
// plan.
func TestOneDecision(t *testing.T) {
	silent := run.Outcome{Ending: run.Failed, Lied: true, Silent: true} // only rank 0 prints a success
	fine := run.Outcome{Ending: run.Succeeded, Settings: map[string]string{"micro-batch": "4"}}
	ms := []*machine{{room: 9 * unit.GiB, plays: []run.Outcome{waits, fine}}, {room: 9 * unit.GiB,
		plays: []run.Outcome{waits, silent}},
		{room: 9 * unit.GiB, plays: []run.Outcome{ranOut(), silent}}}
	for i, e := range play(t, ms...) {
		if e.err != nil || e.stop == nil || e.stop.Code != 0 || len(e.run.Attempts) != 2 {
			t.Fatalf("node %d: %+v", i, e)
		}
		for n, a := range e.run.Attempts {
			if ending := []run.Ending{run.OutOfMemory, run.Succeeded}[n]; a.Outcome.Ending != ending || a.Plan.Attempt != n+1 {
				t.Errorf("node %d, attempt %d: %+v", i, n+1, a.Outcome)
			}
		}
		if p := e.run.Attempts[1].Plan; len(p.Edits) != 1 || p.Edits[0].To != "4" ||
			e.run.Attempts[1].Outcome.Settings["micro-batch"] != "4" {
			t.Errorf("node %d: %+v", i, e.run.Attempts[1])
		}
	}
	if ms[0].ended != 1 || ms[1].ended != 1 || ms[2].ended != 0 {
		t.Errorf("ended: %d, %d, %d", ms[0].ended, ms[1].ended, ms[2].ended)
	}
}

// The fullest device of all nodes decides.
func TestFullest(t *testing.T) {
	fine := run.Outcome{Ending: run.Succeeded}
	for i, e := range play(t, &machine{room: 24 * unit.GiB, plays: []run.Outcome{fine}}, &machine{room: 5 * unit.GiB,
		plays: []run.Outcome{fine}}) {
		if e.err != nil || len(e.run.Attempts) != 1 || e.run.Attempts[0].Plan.Room != 5*unit.GiB ||
			len(e.run.Attempts[0].Plan.Edits) != 1 {
			t.Errorf("node %d: %+v %+v", i, e.err, e.run.Attempts)
		}
	}
	if least(0, 5) != 5 || least(5, 0) != 5 {
		t.Error("a node whose device is not visible decides")
	}
	a, b := &ladder.HostRoom{Free: 1}, &ladder.HostRoom{Free: 2}
	if got := leastHost(ladder.HostRooms{Memory: a}, ladder.HostRooms{Memory: b, Shm: b}); got.Memory != a ||
		got.Shm != b {
		t.Errorf("%+v", got)
	}
}

// dying closes its connections in the middle of the first attempt, as the kernel does for a killed launch.
func dying(t *testing.T, node int) (follower end, leader end) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	at := address(t)
	zero, one := &machine{room: unit.GiB * 9, plays: []run.Outcome{waits}}, &machine{room: unit.GiB * 9,
		plays: []run.Outcome{waits}}
	lead, follow := make(chan *Leader, 1), make(chan *Follower, 1)
	var all sync.WaitGroup
	all.Add(2)
	go func() {
		defer all.Done()
		l, err := Lead(ctx, Place{0, 2, at}, key, hello(0, 2, "1", theJob), zero, func(int, string) {})
		if err != nil {
			leader.err = err
			return
		}
		lead <- l
		leader.run = newRun()
		leader.stop, leader.err = leader.run.Carry(ctx, l, zero)
	}()
	go func() {
		defer all.Done()
		f, err := Join(ctx, Place{1, 2, at}, key, hello(1, 2, "1", theJob))
		if err != nil {
			follower.err = err
			return
		}
		follow <- f
		follower.run = newRun()
		follower.stop, follower.err = f.Carry(ctx, follower.run, one, one)
	}()
	l, f := <-lead, <-follow
	for running := func(m *machine) bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.plans) > 0 }; !running(zero) ||
		!running(one); {
		time.Sleep(time.Millisecond)
	}
	if node == 0 {
		l.Close()
	} else {
		f.Close()
	}
	all.Wait()
	if zero.ended != 1 || one.ended != 1 {
		t.Errorf("programs that were ended: %d, %d", zero.ended, one.ended)
	}
	return follower, leader
}

// A follower whose leader has died ends its program and stops with 75; so does a leader that has lost a node.
func TestGone(t *testing.T) {
	for node := range 2 {
		follower, leader := dying(t, node)
		if follower.err != nil || follower.stop == nil || follower.stop.Code != run.TryLater {
			t.Errorf("node %d died, and the follower stops with %+v", node, follower)
		}
		if !errors.Is(leader.err, ErrGone) {
			t.Errorf("node %d died, and the leader stops with %+v", node, leader)
		}
	}
}

// Whoever does not know the key neither decides nor is decided for; a node with another job is refused by its reason.
func TestStrangers(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	at := address(t)
	met, told := make(chan error, 1), make(chan string, 10)
	go func() {
		_, err := Lead(ctx, Place{0, 2, at}, key, hello(0, 2, "1", theJob), &machine{}, func(node int, why string) {
			told <- fmt.Sprint(node, " ", why)
		})
		met <- err
	}()
	if _, err := Join(ctx, Place{1, 2, at}, []byte(strings.Repeat("x", 32)), hello(1, 2, "1", theJob)); !errors.Is(err,
		ErrKey) {
		t.Errorf("another key: %v", err)
	}
	plain, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true})
	if err == nil { // TLS 1.3 reports a refused certificate when it reads
		fmt.Fprintln(plain, `{"hello":{"node":1,"nodes":2,"version":"1","job":"job"}}`)
		if n, err := plain.Read(make([]byte, 1)); err == nil {
			t.Errorf("a stranger reads %d bytes", n)
		}
		plain.Close()
	}
	for want, h := range map[string]Hello{
		"version":            hello(1, 2, "2", theJob),
		"node 0: --lr, --wd": hello(1, 2, "1", map[string]string{"--lr": "x", "--seed": "1"}),
		"expects":            hello(2, 3, "1", theJob),
		"train.py; --accept": {Node: 1, Nodes: 2, Version: "1", Job: theJob, Same: map[string]string{"train.py": "x"}},
	} {
		if _, err := Join(ctx, Place{h.Node, h.Nodes, at}, key, h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if got := <-told; !strings.HasPrefix(got, fmt.Sprint(h.Node)) || !strings.Contains(got, want) {
			t.Errorf("node 0 is told %q of a node that is refused for %s", got, want)
		}
	}
	select {
	case err := <-met:
		t.Fatalf("one of them was taken: %v", err)
	default:
	}
	if _, err := Join(ctx, Place{1, 2, at}, key, hello(1, 2, "1", theJob)); err != nil {
		t.Error(err)
	}
	if err := <-met; err != nil {
		t.Error(err)
	}
}

// Strangers that hold more connections than this process may have files do not keep a node from joining.
func TestManyStrangers(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	at := address(t)
	met := make(chan error, 1)
	go func() {
		_, err := Lead(ctx, Place{0, 2, at}, key, hello(0, 2, "1", theJob), &machine{}, func(int, string) {})
		met <- err
	}()
	low := was
	low.Cur = 150 // of both ends: they are one process here
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Skip(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	var held []net.Conn
	for range 400 {
		if c, err := net.DialTimeout("tcp", at, time.Second); err == nil {
			held = append(held, c)
		} else if len(held) > 40 { // room for the next
			held[0].Close()
			held = held[1:]
		}
	}
	time.Sleep(50 * time.Millisecond)
	for _, c := range held[:20] {
		c.Close()
	}
	if _, err := Join(ctx, Place{1, 2, at}, key, hello(1, 2, "1", theJob)); err != nil {
		t.Error(err)
	}
	if err := <-met; err != nil {
		t.Error(err)
	}
	for _, c := range held {
		c.Close()
	}
}

// Two launches that start together in one state folder get one key, which nobody else can read.
func TestKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	keys := make([][]byte, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Add(1)
		go func() { defer all.Done(); keys[i], _ = Key(dir) }()
	}
	all.Wait()
	for _, k := range keys {
		if len(k) < 32 || !bytes.Equal(k, keys[0]) {
			t.Errorf("%q and %q", k, keys[0])
		}
	}
	info, err := os.Stat(filepath.Join(dir, keyFile))
	if left, _ := os.ReadDir(dir); err != nil || info.Mode().Perm() != 0o600 || len(left) != 1 {
		t.Errorf("%v %v %v", info, err, left)
	}
	os.WriteFile(filepath.Join(dir, keyFile), []byte("short"), 0o600)
	if _, err := Key(dir); err == nil {
		t.Error("a key of five letters is taken")
	}
}

// Consequences do not decide, whenever they come.
func TestMerge(t *testing.T) {
	saved := &run.State{Path: "2.pt"}
	zero := result{0, run.Outcome{Ending: run.Failed, Cause: "connection closed", Saved: saved, Iteration: 2}, false}
	full := result{1, ranOut(), false}
	out := merge([]result{zero, full})
	if out.Ending != run.OutOfMemory || out.Saved != saved || out.Iteration != 2 || !strings.HasPrefix(out.Cause,
		"node 1: ") || !out.Report.OOM {
		t.Errorf("%+v", out)
	}
	if out := merge([]result{{1, run.Outcome{Ending: run.Failed, Cause: "x"}, false}, {0,
		run.Outcome{Ending: run.Interrupted}, true}}); out.Ending != run.Failed || out.Cause != "node 1: x" {
		t.Errorf("%+v", out)
	}
	if out := merge([]result{{1, run.Outcome{Ending: run.Failed, Silent: true}, false}, {0,
		run.Outcome{Ending: run.Succeeded}, false}}); out.Ending != run.Succeeded {
		t.Errorf("%+v", out)
	}
	mute, told := result{0, run.Outcome{Ending: run.Failed, Silent: true}, false}, result{1,
		run.Outcome{Ending: run.Succeeded, Saved: saved, Stepped: true}, false}
	if out := merge([]result{mute, told}); out.Ending != run.Succeeded || out.Saved != saved {
		t.Errorf("rank 0 on node 1: %+v", out)
	}
	if out := merge([]result{mute, mute}); out.Ending != run.Failed || !out.Silent {
		t.Errorf("no success was printed: %+v", out)
	}
	for want, o := range map[time.Duration]run.Outcome{soon: ranOut(), later: {Ending: run.Failed},
		0: {Ending: run.Succeeded}} {
		if got := patience(&o); got != want {
			t.Errorf("%s: %v", o.Ending, got)
		}
	}
}

func hello(node, of int, version string, job map[string]string) Hello {
	return Hello{Node: node, Nodes: of, Version: version, Job: job}
}
