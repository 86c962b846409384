package nn

import "testing"

// Backward's scratch memory is there on a card alone, and larger where keys have fewer heads.
func TestFlashScratch(t *testing.T) {
	peak := func(keys int64, cpu bool) int64 {
		t := NewTape()
		t.CPU, t.ParamType = cpu, BF16
		head := func(name string, heads int64) Tensor { return t.MulScalar(t.Param(name, 2, heads, 100, 40)) }
		y := t.FlashSDPA(head("q", 8), head("k", keys), head("v", keys))
		t.Backward(t.Sum(y))
		return int64(t.Peak().Bytes)
	}
	const q = 4 * 2 * 8 * 128 * (64 + 1) // 100 tokens and 40 channels, rounded up
	if got := peak(8, false) - peak(8, true); got != q {
		t.Errorf("scratch memory of %d bytes, want %d", got, q)
	}
	const expanded = 2 * 2 * 8 * 100 * 40 * 2
	if got := peak(2, false) - peak(2, true); got != q+expanded {
		t.Errorf("of fewer heads of keys: scratch memory of %d bytes, want %d", got, q+expanded)
	}
}
