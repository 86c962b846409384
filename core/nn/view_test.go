package nn

import (
	"fmt"
	"strings"
	"testing"
)

// A view of another number of elements is refused, as PyTorch refuses it: a formula that asks for one is wrong, or prices a
// network that cannot be built.
func TestViewOfAnotherNumberOfElements(t *testing.T) {
	for _, tt := range []struct {
		shape []int64
		ok    bool
	}{
		{[]int64{2, 12}, true}, {[]int64{24}, true}, {[]int64{-1, 6}, true}, {[]int64{4, -1, 2}, true}, {[]int64{24, 1, 1}, true},
		{[]int64{2, 3, 5}, false}, {[]int64{12}, false}, {[]int64{-1, 7}, false}, {[]int64{48}, false}, {[]int64{0, 24}, false},
	} {
		t.Run(fmt.Sprint(tt.shape), func(t *testing.T) {
			defer func() {
				if r := recover(); (r == nil) != tt.ok || r != nil && !strings.Contains(fmt.Sprint(r), "[2 3 4]") {
					t.Errorf("%v", r)
				}
			}()
			tape := NewTape()
			x := tape.Input(F32, 2, 3, 4)
			if y := tape.View(x, tt.shape...); y.Numel() != 24 {
				t.Errorf("%v elements", y.Numel())
			}
		})
	}
}
