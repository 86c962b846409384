package record

import (
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
)

func TestAllocator(t *testing.T) {
	env := []string{"PATH=/bin", "PYTORCH_CUDA_ALLOC_CONF=a", "MALLOC_ARENA_MAX=1", "PYTORCH_CUDA_ALLOC_CONF=b", "LD_PRELOAD=/opt/lib/libjemalloc.so"}
	if s := allocatorOf(env, "cuda"); s != "PYTORCH_CUDA_ALLOC_CONF=b" {
		t.Errorf("on a card %q", s)
	}
	if s := allocatorOf(env, "cpu"); s != "LD_PRELOAD=libjemalloc.so MALLOC_ARENA_MAX=1" {
		t.Errorf("on a CPU %q", s)
	}
}

// A limit on a CPU sets the heap, which makes it another machine. A limit changes nothing on a card.
func TestMachine(t *testing.T) {
	env := []string{"OMP_NUM_THREADS=4"}
	card := &gpu.Device{Kind: gpu.CUDA, Name: "A100", Total: 40 << 30, Capability: "8.0", Driver: "550.1"}
	for name, tt := range map[string]struct {
		on      *gpu.Device
		limited bool
		want    Machine
	}{
		"no device":      {nil, true, Machine{}},
		"a CPU":          {&gpu.Device{Kind: gpu.CPU, Total: 1 << 30}, false, Machine{Kind: "cpu", Allocator: "OMP_NUM_THREADS=4"}},
		"a limited CPU":  {&gpu.Device{Kind: gpu.CPU, Total: 1 << 30}, true, Machine{Kind: "cpu", Allocator: "MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=65536 OMP_NUM_THREADS=4"}},
		"a card":         {card, false, Machine{Kind: "cuda", Card: "A100", Total: 40 << 30, Capability: "8.0", Driver: "550.1"}},
		"a limited card": {card, true, Machine{Kind: "cuda", Card: "A100", Total: 40 << 30, Capability: "8.0", Driver: "550.1"}},
	} {
		s := SubjectOf(&job.Job{Command: job.Command{Args: []string{"./train"}, Dir: "/w", Env: env}}, tt.on, tt.limited)
		if s.machine != tt.want {
			t.Errorf("%s: %+v, want %+v", name, s.machine, tt.want)
		}
		if s.project == "" || s.project == digest("/v") {
			t.Errorf("%s: the project is %q", name, s.project)
		}
	}
}
