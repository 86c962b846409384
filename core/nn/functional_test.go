package nn_test

import (
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// functional are the networks of tools/capture/layers_functional.py, under the same names.
var functional = map[string]nn.Module{
	"bias of parts": func(t T, x X) X {
		y := t.Contiguous(tokens(t, a(t, x)))
		y = t.Hold(t.Call("b", y, func(t T, x X) X {
			q, v := t.Param("q", channels), t.Param("v", channels)
			bias := t.Cat(0, q, t.ZerosLike(v), v)
			return t.LinearWeight(x, t.Param("weight", 3*channels, channels), bias)
		}))
		p := t.Split(y, 2, channels, channels, channels)
		return image(t, t.Mul(p[0], p[2]), x)
	},
	"products of permuted casts": func(t T, x X) X {
		y := t.Hold(a(t, x))
		b, c, h, w := y.Dim(0), y.Dim(1), y.Dim(2), y.Dim(3)
		q := t.Permute(t.View(y, b, 2, 2, c/4, h*w), 0, 2, 1, 4, 3)
		unit := func(t T, q X) X { return t.NormalizeDim(q, -1) }
		k := t.Hold(t.Call("", q, unit))
		v := t.Hold(t.Call("", q, unit))
		return t.View(t.Permute(t.Matmul(q, t.Matmul(t.Transpose(k, -2, -1), v)), 0, 2, 1, 4, 3), b, c, h, w)
	},
	"rows of a table": func(t T, x X) X {
		y := t.Call("b", tokens(t, a(t, x)), func(t T, y X) X {
			index := t.Hold(t.Zeros(nn.I64, y.Dim(1)))
			return t.Mul(y, t.Lookup(t.Param("table", 64, channels), index, y.Dim(1), channels))
		})
		return image(t, y, x)
	},
	"average pool channels last": func(t T, x X) X {
		y := t.Hold(channelsLast(t, a(t, x)))
		p := t.Hold(tokens(t, t.AvgPoolBy(y, 2)))
		y = t.Rebind(y, t.Mul(t.Linear("l", p, channels, true), p))
		return t.View(t.Clone(t.Transpose(y, 1, 2)), x.Dim(0), channels, x.Dim(2)/2, x.Dim(3)/2)
	},
	"reentrant checkpoints": func(t T, x X) X {
		block := func(t T, x X) X {
			return t.Sequential("", x, conv(channels, 3).Module(), (*nn.Tape).GELU, conv(channels, 3).Module())
		}
		y := t.Hold(t.CheckpointReentrant("b", a(t, x), block))
		return t.Conv2d("c", t.CheckpointReentrant("d", y, block), conv(channels, 3))
	},
}

// On a card the backward of a looked-up row sorts the index, which on the CPU it does not.
func TestLookupSorts(t *testing.T) {
	peak := func(cpu bool) unit.Bytes {
		tape := nn.NewTape()
		tape.CPU = cpu
		index := tape.Hold(tape.Zeros(nn.I64, 1<<20))
		tape.Backward(tape.Mean(tape.Lookup(tape.Param("table", 64, 1), index, 1<<20, 1)))
		return tape.Peak().Bytes
	}
	if card, cpu := peak(false), peak(true); card-cpu < 40*unit.MiB || card-cpu > 48*unit.MiB {
		t.Errorf("%v on a card, %v on the CPU", card, cpu)
	}
}

// TestFunctional compares each with PyTorch's own account, as TestRecorded does.
func TestFunctional(t *testing.T) { compareAll(t, "testdata/functional_215.json", functional) }
