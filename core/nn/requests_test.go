package nn

import (
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// What is live before a request, and the request itself, make up the peak where they are largest.
func TestRequests(t *testing.T) {
	tape := NewTape()
	x := tape.Hold(tape.Input(F32, 1, 3, 8, 8))
	y := tape.Call("a", x, Conv{Out: 4, K: 3}.Module())
	y = tape.Call("b", y, Conv{Out: 4, K: 3}.Module())
	tape.Backward(tape.Mean(y))
	var most unit.Bytes
	var first Alloc
	backward := 0
	tape.Requests(func(a Alloc, back bool, live unit.Bytes) {
		most = max(most, live+a.Bytes)
		if a.What == "a: torch.nn.functional.conv2d" && !back && first.Bytes == 0 {
			first = a
			if live != x.Bytes() {
				t.Errorf("%d bytes are live before the first convolution, want the input's %d", live, x.Bytes())
			}
		}
		if back {
			backward++
		}
	})
	if p := tape.Peak(); most != p.Bytes {
		t.Errorf("at most %d bytes by requests, the peak is %d", most, p.Bytes)
	}
	if first.Bytes != 4*4*8*8 || backward == 0 {
		t.Errorf("the first convolution asks for %d bytes, the backward makes %d requests", first.Bytes, backward)
	}
}
