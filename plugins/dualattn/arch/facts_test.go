package arch

import (
	"fmt"
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

func base() Net {
	return Net{Height: 448, Width: 448, Patch: 16, Classes: 200, Dim: 768, Heads: 12, Hidden: 3072, Layers: 12, Local: 1, Dropout: .1, TopK: .1}
}

func TestX(t *testing.T) {
	n := base()
	fmt.Println(Size(n).Params)
	n.ExtraBlock = true
	fmt.Println(Size(n).Params)
	for _, tt := range []struct {
		name string
		f    func(n *Net)
		amp  nn.DType
	}{
		{"three amp", func(n *Net) {}, nn.F16},
		{"three fp32", func(n *Net) {}, nn.F32},
		{"head amp", func(n *Net) { n.Loop = LastPairs }, nn.F16},
		{"ckpt amp", func(n *Net) { n.Loop = Recomputed }, nn.F16},
		{"ckpt fp32", func(n *Net) { n.Loop = Recomputed }, nn.F32},
		{"p0 amp", func(n *Net) { n.Dropout = 0 }, nn.F16},
		{"p0 fp32", func(n *Net) { n.Dropout = 0 }, nn.F32},
		{"384 amp", func(n *Net) { n.Height, n.Width = 384, 384 }, nn.F16},
		{"384 fp32", func(n *Net) { n.Height, n.Width = 384, 384 }, nn.F32},
		{"256x128 amp", func(n *Net) { n.Height, n.Width, n.TopK = 256, 128, .3 }, nn.F16},
		{"256x128 fp32", func(n *Net) { n.Height, n.Width, n.TopK = 256, 128, .3 }, nn.F32},
		{"256 amp", func(n *Net) { n.Height, n.Width, n.TopK = 256, 256, .3 }, nn.F16},
	} {
		n := base()
		tt.f(&n)
		p1, p2 := Peak(StepConfig{Net: n, Batch: 2, Accumulate: 2, AMP: tt.amp}), Peak(StepConfig{Net: n, Batch: 3, Accumulate: 2, AMP: tt.amp})
		fmt.Printf("%-14s saved/sample %.4f casts %.4f  peak/sample %.4f fwd/sample %.4f const %.4f  %s\n", tt.name, float64(p2.Saved-p1.Saved)/1e9, float64(p1.SavedCasts)/1e9, float64(p2.Bytes-p1.Bytes)/1e9, float64(p2.ForwardPeak-p1.ForwardPeak)/1e9, float64(3*p1.Bytes-2*p2.Bytes)/1e9, p1.Moment)
	}
	for _, l := range []Loop{ThreeStreams, LastPairs, Recomputed} {
		n := base()
		n.Loop = l
		for _, b := range []int64{1, 2, 4, 8, 16} {
			c := StepConfig{Net: n, Batch: b, Accumulate: 16 / b, AMP: nn.F16, LastVal: 2}
			e, v := Training(c), Validation(c)
			fmt.Printf("%d %d: %.2f  val %.2f\n", l, b, float64(e.Total())/1e9, float64(v.Total())/1e9)
		}
	}
}
