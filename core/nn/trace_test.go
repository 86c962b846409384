package nn_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// record is a step of a small network: a convolution with a checkpointed one behind it, a loss, an optimizer.
func record(batch int64) nn.Peak {
	t := nn.NewTape()
	t.Part("net", func() {
		t.KeepGradients("net")
		x := t.Hold(t.Input(nn.F32, batch, 8, 32, 32))
		t.Autocast(nn.F16, func() {
			y := t.GELU(t.Conv2d("a", x, nn.Conv{Out: 16, K: 3, Pad: 1}))
			y = t.Checkpoint("b", y, func(t T, x X) X { return t.Softmax(t.Conv2d("c", x, nn.Conv{Out: 4, K: 3, Pad: 1})) })
			t.Backward(t.Mean(t.Norm(y, 1))) // of which backward makes temporaries
		})
	})
	t.OptimizerStep("net", 2*t.Size("net").GradBytes)
	return t.Peak()
}

// The sequence of requests is the peak's own: its largest sum is the peak, every block is given back once, and nothing is
// left when gradients are gone.
func TestTrace(t *testing.T) {
	p := record(4)
	live, peak := map[int32]unit.Bytes{}, unit.Bytes(0)
	sum, steps := unit.Bytes(0), 0
	for i, e := range p.Trace.Events {
		switch {
		case e.Block < 0:
			if name := p.Trace.Parts[-1-e.Block].Name; name != "net" {
				t.Errorf("the optimizer steps on %q", name)
			}
			steps++
		case e.Size > 0:
			if _, there := live[e.Block]; there {
				t.Fatalf("event %d asks for block %d again", i, e.Block)
			}
			live[e.Block] = p.Trace.Sizes[e.Size]
			sum += p.Trace.Sizes[e.Size]
		default:
			if _, there := live[e.Block]; !there {
				t.Fatalf("event %d gives back block %d, which is not there", i, e.Block)
			}
			sum -= live[e.Block]
			delete(live, e.Block)
		}
		peak = max(peak, sum)
	}
	if peak != p.Bytes || steps != 1 || len(live) != 0 {
		t.Errorf("%d bytes at the fullest, the peak is %d; %d optimizer steps, %d blocks left", peak, p.Bytes, steps, len(live))
	}
	net := p.Trace.Parts[1]
	if len(net.Params) != 4 || len(net.Weights) != 4 || net.Params[0] != 16*8*9*4 {
		t.Errorf("parameters %v, weights %v", net.Params, net.Weights)
	}
}

// An optimizer's temporaries are lists of tensors of the parameters' sizes, all there at once.
func TestOptimizerTemporaries(t *testing.T) {
	tape := nn.NewTape()
	tape.Part("net", func() { tape.Param("a", 100); tape.Param("b", 50) })
	tape.OptimizerStep("net", 2*tape.Size("net").GradBytes)
	var asked []unit.Bytes
	p := tape.Peak()
	for _, e := range p.Trace.Events {
		if e.Size > 0 {
			asked = append(asked, p.Trace.Sizes[e.Size])
		}
	}
	if !slices.Equal(asked, []unit.Bytes{400, 200, 400, 200}) || p.Bytes != 1200 {
		t.Errorf("asked for %v, %v at the fullest", asked, p.Bytes)
	}
}

// What lies between two sizes is what would have been recorded there.
func TestBetween(t *testing.T) {
	small, large := record(2), record(10)
	for n := int64(2); n <= 10; n++ {
		want := record(n)
		got, ok := small.Between(large, n-2, 8)
		if !ok || got.Bytes != want.Bytes || got.Moment != want.Moment || got.Saved != want.Saved || len(got.Trace.Events) != len(want.Trace.Events) ||
			!slices.Equal(got.Trace.Sizes, want.Trace.Sizes) {
			t.Fatalf("at %d: %v %q, recorded %v %q", n, got.Bytes, got.Moment, want.Bytes, want.Moment)
		}
		for i, e := range got.Trace.Events {
			if e != want.Trace.Events[i] {
				t.Fatalf("at %d event %d is %+v, recorded %+v", n, i, e, want.Trace.Events[i])
			}
		}
	}
	other := nn.NewTape()
	other.Backward(other.Mean(other.GELU(other.Conv2d("a", other.Input(nn.F32, 2, 8, 32, 32), nn.Conv{Out: 16, K: 3}))))
	if _, ok := small.Between(other.Peak(), 1, 2); ok {
		t.Error("two different networks are said to be one")
	}
	if _, ok := small.Between(nn.Peak{}, 1, 2); ok {
		t.Error("a peak without a tape is said to be of the same network")
	}
}

// What one line makes has another size, and nothing else has.
func TestResized(t *testing.T) {
	record := func(pool int64) nn.Peak {
		tape := nn.NewTape()
		x := tape.Hold(tape.Input(nn.F32, 2, 8, 32, 32))
		tape.Line("pool = pool[idx]")
		tape.Zeros(nn.F32, pool, 1000)
		tape.Line("")
		tape.Part("net", func() { tape.Backward(tape.Mean(tape.GELU(tape.Conv2d("a", x, nn.Conv{Out: 16, K: 3})))) })
		return tape.Peak()
	}
	full := record(600)
	for _, n := range []int64{6, 60, 600} {
		want := record(n)
		got, ok := full.Resized("pool = pool[idx]", n, 600)
		if !ok || got.Bytes != want.Bytes || got.Moment != want.Moment || !slices.Equal(got.Trace.Sizes, want.Trace.Sizes) || !slices.Equal(got.Trace.Events, want.Trace.Events) {
			t.Errorf("a pool of %d: %v, %v %q, recorded %v %q", n, ok, got.Bytes, got.Moment, want.Bytes, want.Moment)
		}
	}
	if _, ok := full.Resized("pool = other[idx]", 1, 2); ok {
		t.Error("a line that is not there makes something")
	}
	full.Done()
	if _, ok := full.Resized("pool = pool[idx]", 1, 2); ok {
		t.Error("a tape that is gone makes something")
	}
}

// A turn of a loop that is not recorded leaves the same parameters and the same peak.
func TestAlike(t *testing.T) {
	record := func(turns int, all bool) nn.Peak {
		tape := nn.NewTape()
		tape.NoGrad(func() {
			tape.Part("net", func() {
				x := tape.Hold(tape.Input(nn.F32, 2, 8, 32, 32))
				for i := range turns {
					if !all && i > 1 {
						tape.Alike(fmt.Sprint("block.", i), "block.1")
						continue
					}
					x = tape.Rebind(x, tape.Call(fmt.Sprint("block.", i), x, func(tape *nn.Tape, x nn.Tensor) nn.Tensor {
						y := tape.BatchNorm2d("norm", tape.Call("conv", x, nn.Conv{Out: 8, K: 3}.Module()))
						tape.FrozenParam("scale", 3)
						return tape.Add(x, y)
					}))
				}
			})
		})
		return tape.Peak()
	}
	want, got := record(6, true), record(6, false)
	if !reflect.DeepEqual(got.Trace.Parts, want.Trace.Parts) || got.Bytes != want.Bytes || got.Bytes == 0 || len(got.Trace.Events) >= len(want.Trace.Events) {
		t.Errorf("%v and %v, all recorded %v and %v", got.Trace.Parts, got.Bytes, want.Trace.Parts, want.Bytes)
	}
}

// However many sizes there are, each has one number.
func TestSizes(t *testing.T) {
	tape := nn.NewTape()
	for i := range int64(3000) {
		tape.Zeros(nn.F32, 1+i%1500)
	}
	p := tape.Peak()
	if len(p.Trace.Sizes) != 1501 || len(p.Trace.Events) != 6000 {
		t.Fatalf("%d sizes, %d events", len(p.Trace.Sizes), len(p.Trace.Events))
	}
	for i := range 3000 {
		if got, want := p.Trace.Sizes[p.Trace.Events[2*i].Size], unit.Bytes(4*(1+i%1500)); got != want {
			t.Fatalf("request %d is of %v, want %v", i, got, want)
		}
	}
}

// A tape whose memory is taken over says nothing any more, and the next one says what it would have said in memory of its
// own.
func TestDone(t *testing.T) {
	small, large, want := record(2), record(10), record(3)
	again := small
	small.Done()
	small.Done() // once is enough
	if _, ok := again.Between(large, 1, 8); ok {
		t.Error("a tape that is gone lies between something")
	}
	if _, ok := again.Between(again, 1, 8); ok {
		t.Error("something lies between tapes that are gone")
	}
	if got := record(3); got.Bytes != want.Bytes || got.Moment != want.Moment || !slices.Equal(got.Trace.Events, want.Trace.Events) ||
		!slices.EqualFunc(got.Trace.Parts, want.Trace.Parts, func(a, b nn.TracePart) bool {
			return a.Name == b.Name && slices.Equal(a.Params, b.Params) && slices.Equal(a.Weights, b.Weights) && slices.Equal(a.Buffers, b.Buffers)
		}) {
		t.Errorf("in used memory: %v %q, before: %v %q", got.Bytes, got.Moment, want.Bytes, want.Moment)
	}
	if len(large.Trace.Events) == 0 || large.Bytes == 0 {
		t.Error("another peak was touched")
	}
}
