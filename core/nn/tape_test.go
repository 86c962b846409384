package nn_test

import (
	"fmt"
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// plane is one image of one channel, 1 MiB.
func plane(t T) X { return t.Hold(t.Input(nn.F32, 1, 1, 512, 512)) }

func peak(f func(t T, x X)) unit.Bytes {
	t := nn.NewTape()
	x := plane(t)
	t.NoGrad(func() { t.Scope("", func() { f(t, x) }, x) })
	return (t.Peak().Bytes - x.Bytes()) / unit.MiB
}

func TestLifetimes(t *testing.T) {
	for name, c := range map[string]struct {
		want unit.Bytes
		f    func(t T, x X)
	}{
		"f(g(h(x))): a temporary goes when it has been read": {2, func(t T, x X) { t.GELU(t.GELU(t.GELU(x))) }},
		"y = g(x); f(f(y)): a variable stays":                {3, func(t T, x X) { t.GELU(t.GELU(t.Hold(t.GELU(x)))) }},
		"y = g(x); y = f(f(y)): until it is bound anew": {3, func(t T, x X) {
			y := t.Hold(t.GELU(x))
			y = t.Rebind(y, t.GELU(t.GELU(y)))
			t.GELU(y)
		}},
		"a module's argument stays until it returns": {3, func(t T, x X) {
			t.Call("m", t.GELU(x), func(t T, x X) X { return t.GELU(t.GELU(x)) })
		}},
		"what a module holds goes when it returns": {2, func(t T, x X) {
			y := t.Call("m", x, func(t T, x X) X { return t.GELU(t.Hold(t.GELU(x))) })
			t.GELU(t.GELU(y))
		}},
		"binding anew in a function leaves the caller's variable": {3, func(t T, x X) {
			y := t.Hold(t.GELU(x))
			t.Call("m", y, func(t T, x X) X { return t.Rebind(x, t.GELU(x)) })
			t.GELU(t.Hold(t.GELU(y)))
			t.Cat(1, t.Narrow(y, 2, 256))
		}},
		"in place takes nothing": {1, func(t T, x X) { t.ReLUInplace(t.GELU(x)) }},
		"a view takes nothing":   {1, func(t T, x X) { t.View(t.GELU(x), 512, 512) }},
	} {
		if got := peak(c.f); got != c.want {
			t.Errorf("%s: %d MiB, not %d", name, got, c.want)
		}
	}
}

// Gradients that exist already are there during the forward; an optimizer's step frees them.
func TestAccumulation(t *testing.T) {
	run := func(keep bool) nn.Peak {
		tape := nn.NewTape()
		x := tape.Hold(tape.Input(nn.F32, 1, 512, 8, 8))
		if keep {
			tape.KeepGradients("net")
		}
		var y X
		tape.Part("net", func() { y = tape.Conv2d("conv", x, nn.Conv{Out: 512, K: 3}) })
		tape.Backward(tape.Mean(y))
		return tape.Peak()
	}
	size := unit.Bytes(512*512*9+512) * 4
	if first, next := run(false), run(true); next.ForwardPeak-first.ForwardPeak != size || first.Gradients != size ||
		next.Gradients != size {
		t.Errorf("%+v\n%+v", first, next)
	}
}

func TestSharedParameters(t *testing.T) {
	tape := nn.NewTape()
	x := tape.Hold(tape.Input(nn.F32, 1, 8, 4, 4))
	conv := nn.Conv{Out: 8, K: 3}
	tape.Conv2d("same", tape.Conv2d("same", x, conv), conv)
	if got := tape.Size().Params; got != 8*8*9+8 {
		t.Errorf("one path, %d parameters", got)
	}
}

func ExampleTape() {
	t := nn.NewTape()
	x := t.Hold(t.Input(nn.F32, 1, 64, 128, 128))
	t.Call("body.0.attn", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		q := t.Transpose(t.View(x, 1, 64, -1), 1, 2)
		k := t.View(x, 1, 64, -1)
		t.Line("attn = torch.bmm(q, k)")
		return t.Bmm(q, k)
	})
	for _, a := range t.Peak().Allocs {
		fmt.Println(a.Bytes, a.What)
	}
	// Output:
	// 4.00 MiB input
	// 1.00 GiB body.0.attn: attn = torch.bmm(q, k)
}
