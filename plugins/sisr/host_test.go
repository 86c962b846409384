package sisr

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// hosted prices a recipe with these lines in its training set, beside these files.
func hosted(t *testing.T, train string, files map[string]string, device gpu.Device, args ...string) *ladder.HostLadder {
	t.Helper()
	recipe := strings.Replace(recipeYAML, "    accum_iter: 1\n", "    accum_iter: 1\n"+train, 1)
	if strings.Contains(train, "    type:") {
		recipe = strings.Replace(recipe, "    type: pairedimagedataset\n    dataroot_gt: gt", "    dataroot_gt: gt", 1)
	}
	all := map[string]string{"x.yml": recipe}
	for k, v := range files {
		all[k] = v
	}
	dir := folder(t, all, map[string][2]int{"val/a.png": {64, 64}, "gt/1.png": {640, 480}, "gt/2.png": {1920, 1080}})
	if args == nil {
		args = []string{"python", "train.py", "-opt", "x.yml"}
	}
	j, err := recognize(t, dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return plugintest.Ladders(t, New(), j.Command, device).Host
}

func rungs(h *ladder.HostLadder) string {
	var out []string
	for _, r := range h.Rungs {
		var edits []string
		for _, e := range r.Edits {
			edits = append(edits, e.At.Path[strings.LastIndexByte(e.At.Path, '.')+1:]+"="+e.To)
		}
		out = append(out, strings.Join(edits, " "))
	}
	return strings.Join(out, " | ")
}

var card = gpu.Device{Kind: gpu.CUDA, Total: 12 * unit.GiB}

// A sample at a low-resolution crop of 64 and scale 2: 3 × (64² + 128²) × 4 B.
const pair = unit.Bytes(3 * (64*64 + 128*128) * 4)

func TestHostLadder(t *testing.T) {
	loaderOf := func(keys string) map[string]string { return map[string]string{"traiNNer/data/__init__.py": keys} }
	for name, tt := range map[string]struct {
		train   string
		files   map[string]string
		args    []string
		batches unit.Bytes // in /dev/shm, of 8 samples
		sample  unit.Bytes
		edits   string
	}{
		"redux as its recipes are": {"    num_worker_per_gpu: 4\n", nil, nil, 10, pair,
			" | prefetch_factor=1 | num_worker_per_gpu=2 prefetch_factor=1 | num_worker_per_gpu=1 prefetch_factor=1 | num_worker_per_gpu=1 prefetch_factor=1 pin_memory=false | " +
				"num_worker_per_gpu=0 persistent_workers=false prefetch_factor=null pin_memory=false"},
		"what the recipe says": {"    num_worker_per_gpu: 2\n    prefetch_factor: 8\n    pin_memory: false\n    persistent_workers: false\n", nil, nil, 18, pair,
			" | prefetch_factor=1 | num_worker_per_gpu=1 prefetch_factor=1 | num_worker_per_gpu=0 prefetch_factor=null"},
		"a loader that reads workers alone": {"    num_worker_per_gpu: 4\n    prefetch_factor: 8\n", loaderOf("n = opt.num_worker_per_gpu  # prefetch_factor, persistent_workers\n"), nil, 10, pair,
			" | num_worker_per_gpu=2 | num_worker_per_gpu=1"},
		"prefetch_mode cuda keeps its pinned memory": {"    num_worker_per_gpu: 1\n    prefetch_mode: cuda\n    prefetch_factor: 1\n", nil, nil, 3, pair,
			" | num_worker_per_gpu=0 persistent_workers=false prefetch_factor=null"},
		"prefetch_mode cpu is ahead by its queue": {"    num_worker_per_gpu: 1\n    prefetch_mode: cpu\n    num_prefetch_queue: 3\n    prefetch_factor: 1\n    pin_memory: false\n", nil, nil, 1 + 2 + 3 + 1, pair,
			" | num_worker_per_gpu=0 persistent_workers=false prefetch_factor=null"},
		"two processes have two loaders": {"    num_worker_per_gpu: 1\n    prefetch_factor: 1\n    pin_memory: false\n", nil,
			[]string{"torchrun", "--nproc-per-node", "2", "train.py", "--launcher", "pytorch", "-opt", "x.yml"}, 6, pair,
			" | num_worker_per_gpu=0 persistent_workers=false prefetch_factor=null"},
		"degradations are made on the card": {"    type: realesrgandataset\n    num_worker_per_gpu: 0\n    persistent_workers: false\n    prefetch_factor: ~\n    pin_memory: false\n", nil, nil, 0,
			3*(128+32)*(128+32)*4 + 3*21*21*4, ""},
	} {
		h := hosted(t, tt.train, tt.files, card, tt.args...)
		if got := rungs(h); got != tt.edits {
			t.Errorf("%s: %q, want %q", name, got, tt.edits)
		}
		if got := h.At(0, ladder.SharedMemory, 8); got.Total() != tt.batches*8*tt.sample || !got.Known() {
			t.Errorf("%s: /dev/shm %v (%s), want %v", name, got.Total(), got.Unknown, tt.batches*8*tt.sample)
		}
		if tt.batches == 0 && lineOf(h, mem.Loaders, 8) != 8*tt.sample {
			t.Errorf("%s: the batch is %v, want %v", name, lineOf(h, mem.Loaders, 8), 8*tt.sample)
		}
	}
}

func lineOf(h *ladder.HostLadder, kind mem.Kind, micro int64) (sum unit.Bytes) {
	for _, it := range h.At(0, ladder.HostMemory, micro).Items {
		if it.Kind == kind {
			sum += it.Bytes
		}
	}
	return sum
}

func TestHostLines(t *testing.T) {
	h := hosted(t, "    num_worker_per_gpu: 4\n", nil, card)
	if got, want := lineOf(h, mem.Pinned, 8), 10*8*pair; got != want {
		t.Errorf("pinned copies: %v, want %v", got, want)
	}
	if got, want := lineOf(h, mem.Decoded, 8), unit.Bytes(4*3*(1920*1080+1920*1080/4)); got != want {
		t.Errorf("decoded images: %v, want the largest, %v", got, want)
	}
	if lineOf(h, mem.Saving, 8) <= 0 {
		t.Error("a saved state takes nothing")
	}
	if got := lineOf(hosted(t, "    num_worker_per_gpu: 4\n    meta_info: x\n", nil, card, "sh", "-c", "cd val && python ../train.py -opt ../x.yml"), mem.Decoded, 8); got != 4*3*unit.MiB {
		t.Errorf("images that cannot be looked at take %v, and not a guess", got)
	}
	onCPU := hosted(t, "    num_worker_per_gpu: 4\n", nil, gpu.Device{Kind: gpu.CPU, Total: 4 * unit.GiB})
	if lineOf(onCPU, mem.Pinned, 8) != 0 {
		t.Error("without a card something is pinned")
	}
	for says, train := range map[string]string{"how many loader workers": "", "is not known": "    type: somebodysdataset\n    num_worker_per_gpu: 2\n"} {
		if h := hosted(t, train, nil, card); !strings.Contains(h.At(0, ladder.SharedMemory, 8).Unknown, says) {
			t.Errorf("%q: %q is known", says, train)
		}
	}
}
