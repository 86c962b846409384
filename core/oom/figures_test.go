package oom

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom/printed"
)

// TestCutFigures: of a message that a paste has cut, the figures that are left count, and those that are missing are
// not zero.
func TestCutFigures(t *testing.T) {
	const asks = "RuntimeError: CUDA out of memory. Tried to allocate 48.00 MiB "
	const npu = "RuntimeError: NPU out of memory. Tried to allocate 90.00 MiB (NPU 3; 30.00 GiB total capacity; 28.40 " +
		"GiB " +
		"already allocated; 28.40 GiB current active; "
	for _, tt := range []struct {
		name, text string
		want       Kind
	}{
		{"after what is allocated, a full card", asks + "(GPU 1; 15.90 GiB total capacity; 15.02 GiB alre", GPUCapacity},
		{"before its label", asks + "(GPU 1; 15.90 GiB total capacity; 15.02 GiB", GPUCapacity},
		{"before its unit", asks + "(GPU 1; 15.90 GiB total capacity; 15.0", GPUUnspecified},
		{"after the capacity", asks + "(GPU 1; 15.90 GiB total capacity;", GPUUnspecified},
		{"who holds the rest is cut", asks + "(GPU 1; 15.90 GiB total capacity; 3.50 GiB already allocated; 7.10 ",
			GPUUnspecified},
		{"the rest may be pieces or others'", asks + "(GPU 1; 15.90 GiB total capacity; 3.50 GiB already allocated; 7.10 " +
			"MiB free; 9",
			GPUUnspecified},
		{"others hold the rest", asks + "(GPU 1; 15.90 GiB total capacity; 3.50 GiB already allocated; 7.10 MiB free; " +
			"3.60 GiB reserv", GPUContention},
		{"pieces", asks + "(GPU 1; 15.90 GiB total capacity; 11.50 GiB already allocated; 7.10 MiB free; 15.00 GiB " +
			"reserved in",
			GPUFragmentation},
		{"more than the card", strings.Replace(asks, "48.00 M", "48.00 G", 1) + "(GPU 1; 15.90 GiB total capacity;",
			GPUCapacity},
		{"a line break for the parenthesis", asks + "\nGPU 1; 15.90 GiB total capacity; 15.02 GiB already allocated; 0 " +
			"bytes free; " +
			"15.10 GiB reserved in total by PyTorch\n", GPUCapacity},
		{"a label that a line break cuts", asks + "(GPU 1; 15.90 GiB total capacity; 3.50 GiB already allocated; 7.10 MiB " +
			"free; 3.60\n" +
			"GiB reserved in total by", GPUContention},
		{"torch_npu", npu + "9.00 MiB free; 28.90 GiB reserved in total by PyTorch)", GPUCapacity},
		{"torch_npu, pieces", npu + "0 bytes free; 29.99 GiB reserved in total by PyTorch)", GPUFragmentation},
		{"torch_npu, others", strings.ReplaceAll(npu, "28.40", "2.40") + "9.00 MiB free; 2.50 GiB reserved in total by " +
			"PyTorch)",
			GPUContention},
		{"new words, others or pieces", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB. GPU 0 " +
			"has a total " +
			"capacity of 15.90 GiB of which 8.00 MiB is free. Of the allocated memory 3.50 GiB is allocated", GPUUnspecified},
	} {
		class{name: tt.name, oom: true, fatal: true, kind: tt.want, text: began + inMain + tt.text}.check(t)
	}
	all := printed.ReadNumbers(printed.Squeeze([]printed.Row{{Body: npu +
		"9.00 MiB free; 28.90 GiB reserved in total by PyTorch)"}}))
	if all.Count() != 5 || all.Capacity == nil || all.Reserved == nil || all.Reserved.String() != "28.9 GiB" {
		t.Errorf("read %+v of torch_npu's message", all)
	}
}

// TestXLALimit: the limit that XLA's compiler could not meet is the capacity, for a request above it.
func TestXLALimit(t *testing.T) {
	limit := "2024-01-02 03:04:05.6: W external/xla/xla/service/hlo_rematerialization.cc:2946] Can't reduce memory use " +
		"below " +
		"11.25GiB (12079595520 bytes) by rematerialization; only reduced to 30.00GiB (32212254720 bytes)\n"
	asks := "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
	class{name: "above it", oom: true, fatal: true, kind: GPUCapacity, text: limit + began + inMain + asks +
		"32212254720 bytes.\n"}.check(t)
	class{name: "below it", oom: true, fatal: true, kind: GPUUnspecified, text: limit + began + inMain + asks +
		"3221225472 bytes.\n"}.check(t)
}

// TestLeastCard: a limit of TensorFlow's that is smaller than any card was set, or is what others have
// left: which, nothing
// tells.
func TestLeastCard(t *testing.T) {
	stats := func(limit, used string) string {
		return "W core/framework/op_kernel.cc:1767] OP_REQUIRES failed: Resource exhausted: OOM when allocating " +
			"tensor with " +
			"shape[5,64,480,480] and type float on /device:GPU:0 by allocator GPU_0_bfc\nStats:\nLimit: " + limit + "\nInUse: " +
			used + "\n"
	}
	class{name: "a small limit", oom: true, fatal: true, kind: GPUUnspecified, text: stats("943652864",
		"731114496")}.check(t)
	class{name: "a card's limit", oom: true, fatal: true, kind: GPUCapacity, text: stats("9436528640",
		"9311144960")}.check(t)
}
