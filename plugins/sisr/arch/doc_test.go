package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

func Example() {
	n, _, err := Build(Spec{Type: "esrgan", Scale: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	e := Training(StepConfig{Net: n, Batch: 4, LQ: 64, AMP: nn.BF16, Losses: []Loss{{Type: "l1loss", Weight: 1}}})
	for _, it := range e.Items {
		if it.Bytes > unit.MiB {
			fmt.Println(it.Kind, it.What, it.Bytes)
		}
	}
	// Output:
	// parameters network_g 63.7 MiB
	// optimizer states network_g 127 MiB
	// inputs batch 3.19 MiB
	// saved tensors network_g 1.73 GiB
	// saved tensors network_g 31.8 MiB
	// transients network_g 65.5 MiB
}
