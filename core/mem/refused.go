package mem

import (
	"fmt"
	"strings"
)

// Refused, deferred, turns a shape that the tape refuses into an estimate that says so, of what was asked ("a micro-batch of 8
// with images of 224"): the job itself may still run.
func Refused(e *Tensors, asked func() string) {
	r := recover()
	if r == nil {
		return
	}
	why := strings.TrimPrefix(fmt.Sprint(r), "nn: ")
	switch shape, impossible := strings.CutPrefix(why, "impossible shape "); {
	case impossible && strings.Contains(shape, "-"):
		why = fmt.Sprintf("%s cannot be counted: there would be a tensor of %s", asked(), shape)
	case impossible:
		why = asked() + " is too large to be counted"
	default:
		why = fmt.Sprintf("%s does not fit the network: %s", asked(), why)
	}
	*e = Unpriced(why)
}
