package stablesr

import (
	"reflect"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
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

// What was priced before it was asked for is the same answer, and is taken once.
func TestLaddersPricedAheadAreTheSame(t *testing.T) {
	j := stock(t)
	d, cpu := card(24*unit.GiB), gpu.Device{Kind: gpu.CPU, Total: 24 * unit.GiB}
	recognise := func() *recognized {
		t.Helper()
		r, err := New().Recognize(t.Context(), j.Command)
		if err != nil {
			t.Fatal(err)
		}
		return r.(*recognized)
	}
	bare := func(d gpu.Device) *ladder.Set { // nothing is ahead
		r, err := readCommand(j.Command)
		if err != nil {
			t.Fatal(err)
		}
		return newBuilder(r, j, d).build()
	}
	for range 2 {
		r := recognise()
		for _, d := range []gpu.Device{d, d, cpu, d} {
			if got, err := r.Ladders(t.Context(), d); err != nil || !reflect.DeepEqual(got, bare(d)) {
				t.Errorf("%s: the ladders are others (%v)", d.Kind, err)
			}
		}
	}
	r := recognise()
	b := newBuilder(r.recipe, j, d).apart()
	rungs, _ := b.expecting().shared(b.asked())
	for _, want := range []bool{true, false} {
		for _, g := range groups(rungs) {
			if got, ok := r.ahead.take(g.phase, g.variants); ok != want || ok && len(got) != len(g.variants) {
				t.Errorf("%s of %+v was priced ahead: %v, want %v", phases[g.phase].name, g.variants, ok, want)
			}
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

// What is priced ahead and fails, or is dropped, is done anew by whoever asks: nobody waits for it, and it ends nobody.
func TestAheadGivesUp(t *testing.T) {
	c := job.Command{Args: []string{"python", "main.py", "--train", "--base", "r.yaml", "--gpus", "0,"}, Env: env,
		Dir: checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})}
	r, err := readCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	dropped := &ahead{planned: make(chan struct{})}
	dropped.drop()
	mem.Together(dropped.plan(newBuilder(r, &job.Job{Command: c}, card(0))))
	close(dropped.planned)
	if len(dropped.prices) == 0 {
		t.Fatal("nothing was planned")
	}
	for name, a := range map[string]*ahead{"dropped": dropped, "failed": begin(&recipe{}, c)} {
		taken := make(chan bool)
		go func() {
			_, ok := a.take(training, dropped.prices[0].variants)
			taken <- ok
		}()
		select {
		case ok := <-taken:
			if ok {
				t.Errorf("%s: it was taken", name)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it is waited for", name)
		}
	}
}
