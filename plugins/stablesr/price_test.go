package stablesr

import (
	"reflect"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

// Rungs are priced together: by two micro-batches of each kind, by one pool. Each is what it would be by itself, line by
// line, the logging of at most eight images too.
func TestRungsArePricedAsByThemselves(t *testing.T) {
	j, d := stock(t), card(80*unit.GiB)
	set := laddersOf(t, j, d)
	r, err := readCommand(j.Command)
	if err != nil {
		t.Fatal(err)
	}
	b := newBuilder(r, j, d)
	rungs, _ := b.shared(b.asked())
	for n, p := range phases {
		seen, phase := 0, p.name
		for _, s := range rungs {
			for i, rung := range set.Shared.Rungs {
				if rung.Name != s.Name {
					continue
				}
				seen++
				got, want := set.Ladder(phase).Rungs[0].At(i), b.price(n, []variant{s.variant})[0]
				if len(got.Items) != len(want.Items) || got.Reserved != want.Reserved {
					t.Errorf("%s, %s: %d lines, %v reserved; by itself %d, %v", phase, s.Name, len(got.Items), got.Reserved, len(want.Items), want.Reserved)
					continue
				}
				for k := range want.Items {
					if got.Items[k] != want.Items[k] {
						t.Errorf("%s, %s: %+v; by itself %+v", phase, s.Name, got.Items[k], want.Items[k])
					}
				}
			}
		}
		if seen < 8 {
			t.Errorf("%s: only %d rungs were compared", phase, seen)
		}
	}
}

// A pool of another size is priced at any micro-batch, also between two that were recorded.
func TestPoolsAtAnyMicroBatch(t *testing.T) {
	j, d := stock(t), card(80*unit.GiB)
	r, err := readCommand(j.Command)
	if err != nil {
		t.Fatal(err)
	}
	b := newBuilder(r, j, d)
	of := func(micro, queue int64) variant { return variant{micro: micro, accum: 1, queue: queue, size: b.size} }
	vs := []variant{of(6, 60), of(1, 60), of(2, 60), of(3, 24), of(1, 12)}
	for i, got := range b.price(training, vs) {
		want := b.price(training, vs[i:i+1])[0]
		if !got.Known() || got.Total() != want.Total() || got.Total() == 0 || got.Reserved != want.Reserved {
			t.Errorf("%+v: %v, %v reserved; by itself %v, %v", vs[i], got.Total(), got.Reserved, want.Total(), want.Reserved)
		}
	}
}

// What was begun before it was asked for is the same answer, for the command that it was begun for and no other, and once.
func TestAnticipatedLaddersAreTheSame(t *testing.T) {
	j, other := stock(t), stock(t)
	ladders := func(p plugin.Plugin, j *job.Job, d gpu.Device) *ladder.Set {
		t.Helper()
		set, err := p.Ladders(t.Context(), j, d)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	d, cpu := card(24*unit.GiB), gpu.Device{Kind: gpu.CPU, Total: 24 * unit.GiB}
	want, onCPU := ladders(New(), j, d), ladders(New(), j, cpu)
	p := New().(*stablesr)
	p.Anticipate(j.Command)
	got, err := p.Recognize(t.Context(), j.Command)
	if err != nil {
		t.Fatal(err)
	}
	if got.Warnings = j.Warnings; !reflect.DeepEqual(got, j) { // which say how full the disk is just now
		t.Errorf("recognised as %+v", got)
	}
	if a := p.claim(other.Command); a != nil {
		t.Error("another command's prices were taken")
	}
	if got := ladders(p, j, cpu); !reflect.DeepEqual(got, onCPU) || p.ahead.Load() != nil {
		t.Error("on the CPU the ladders are others, or a card's prices are still looked for")
	}
	p.Anticipate(j.Command)
	for range 2 {
		if got := ladders(p, j, d); !reflect.DeepEqual(got, want) || p.ahead.Load() != nil {
			t.Error("the ladders are others, or were not taken from what was begun")
		}
	}
	p.Anticipate(j.Command)
	r, err := readCommand(j.Command)
	if err != nil {
		t.Fatal(err)
	}
	b := newBuilder(r, j, d)
	rungs, _ := b.expecting().shared(b.asked())
	a := p.claim(j.Command)
	for _, g := range groups(rungs) {
		if got, ok := a.take(g.phase, g.variants); !ok || len(got) != len(g.variants) {
			t.Errorf("%s of %+v was not begun", phases[g.phase].name, g.variants)
		}
	}
}

// Where the command refuses every other division of the batch, what was priced ahead is of micro-batches that nobody takes: the
// rungs that are left are priced as they are.
func TestRungsThatWereNotExpected(t *testing.T) {
	j, d := stock(t, "lightning.trainer={accumulate_grad_batches: 4}"), card(80*unit.GiB)
	set := laddersOf(t, j, d)
	r, err := readCommand(j.Command)
	if err != nil {
		t.Fatal(err)
	}
	b, seen := newBuilder(r, j, d), 0
	for i, rung := range set.Shared.Rungs {
		v := b.asked()
		switch rung.Name {
		case knobStruct:
			v.structCkpt = true
		case "high-resolution crop 384":
			v.size = 384
		case "high-resolution crop 256":
			v.size = 256
		case "pool of 60":
			v.queue = 60
		case "pool of 18":
			v.queue = 18
		case "as asked":
		default:
			t.Fatalf("there is a rung %q", rung.Name)
		}
		for n, p := range phases {
			got, want := set.Ladder(p.name).Rungs[0].At(i), b.price(n, []variant{v})[0]
			if seen++; !got.Known() || got.Total() != want.Total() || got.Reserved != want.Reserved {
				t.Errorf("%s, %s: %v, want %v", p.name, rung.Name, got.Total(), want.Total())
			}
		}
	}
	if seen < 3*len(phases) {
		t.Errorf("only rungs %+v", set.Shared.Rungs)
	}
}

// What is begun ahead and fails, or is dropped, is done anew by whoever asks: nobody waits for it, and it ends nobody.
func TestAheadGivesUp(t *testing.T) {
	(&ahead{}).begin() // which has not even a channel to close
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
	a := &ahead{command: job.Command{Args: []string{"python", "main.py", "--train", "--base", "r.yaml", "--gpus", "0,"}, Dir: dir, Env: env}, read: make(chan struct{}), planned: make(chan struct{})}
	a.drop()
	a.begin()
	if len(a.prices) == 0 {
		t.Fatal("nothing was planned")
	}
	taken := make(chan bool)
	go func() {
		_, ok := a.take(a.prices[0].phase, a.prices[0].variants)
		taken <- ok
	}()
	select {
	case ok := <-taken:
		if ok {
			t.Error("what was dropped was taken")
		}
	case <-time.After(time.Minute):
		t.Error("what was dropped is waited for")
	}
}
