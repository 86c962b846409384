package arch

import (
	"fmt"
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

func TestY(t *testing.T) {
	for _, amp := range []nn.DType{nn.F16, nn.F32} {
		for _, dp := range []bool{false, true} {
			s := func(l int64) float64 {
				n := base()
				n.Layers = l
				n.DropPath = dp
				a, b := Peak(StepConfig{Net: n, Batch: 3, Accumulate: 2, AMP: amp}), Peak(StepConfig{Net: n, Batch: 2, Accumulate: 2, AMP: amp})
				return float64(a.Saved - b.Saved)
			}
			N, D, A := 785., 768., 12.*785*785
			k, m := 28., 56.
			if amp == nn.F32 {
				k = 36
			}
			for l := int64(1); l < 4; l++ {
				fmt.Println(amp, dp, l, (s(l+1)-s(l)-k*A-m*N)/N/D)
			}
			fmt.Println("rest", (s(1)-k*A-m*N)/N/D)
		}
	}
}
