package moco

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// What upstream's workers do with the number of loader workers.
var (
	v2Loads    = []string{"    return moco.builder.MoCo(", "    args.workers = int((args.workers + ngpus_per_node - 1) / ngpus_per_node)\n    loader = torch.utils.data.DataLoader(data, num_workers=args.workers, pin_memory=True)\n    return moco.builder.MoCo("}
	solarLoads = []string{
		"        config.batch_size = int(config.batch_size / ngpus_per_node)\n", "        config.batch_size = int(config.batch_size / ngpus_per_node)\n        config.num_workers = int((config.num_workers + ngpus_per_node - 1) / ngpus_per_node)\n",
		"drop_last=True)", "drop_last=True, num_workers=config.num_workers, pin_memory=True)",
	}
	solarWorkers = []string{"    epochs: int = 800\n", "    epochs: int = 800\n    num_workers: int = 8\n"}
)

func turned(h *ladder.HostLadder) string {
	var out []string
	for _, r := range h.Rungs {
		to := ""
		for _, e := range r.Edits {
			to += e.To
		}
		out = append(out, to)
	}
	return strings.Join(out, " ")
}

// A sample is two crops of 224 in float32, 1.15 MiB; a process has its share of the workers, rounded up, and two batches
// ahead for each. All processes of the node are counted, each with its micro-batch.
func TestHostLadder(t *testing.T) {
	const sample = unit.Bytes(2 * 3 * 224 * 224 * 4)
	v2 := checkout(t, "v2", map[string][]string{"main_moco.py": v2Loads})
	solar := checkout(t, "solar", map[string][]string{"src/training/train_moco.py": solarLoads, "src/config_low.py": solarWorkers})
	undivided := checkout(t, "solar", map[string][]string{"src/training/train_moco.py": solarLoads[2:], "src/config_low.py": solarWorkers})
	fixed := checkout(t, "solar", map[string][]string{"src/training/train_moco.py": {"    scaler =", "    config.num_workers = 3\n    scaler ="}, "src/config_low.py": solarWorkers})
	for _, tt := range []struct {
		name    string
		c       job.Command
		micro   int64
		samples unit.Bytes
		turned  string
		unknown string
	}{
		{"v2 on eight GPUs: 4 workers each", asked(v2, 8, with("main_moco.py", "-b", "256", "data")...), 32, 8 * 10 * 32, " 16 8 0", ""},
		{"v2 on three: 11 each", asked(v2, 3, with("main_moco.py", "-b", "96", "data")...), 32, 3 * 24 * 32, " 15 6 3 0", ""},
		{"v2 with -j 1", asked(v2, 1, with("main_moco.py", "-j", "1", "-b", "32", "data")...), 32, 4 * 32, " 0", ""},
		{"solar on two", asked(solar, 2, with("main.py")...), 32, 2 * 10 * 32, " 4 2 0", ""},
		{"solar on one without processes", asked(solar, 2, "main.py"), 64, 18 * 64, " 4 2 1 0", ""},
		{"a worker that does not divide them", asked(undivided, 2, with("main.py")...), 32, 2 * 18 * 32, " 4 2 1 0", ""},
		{"code that sets them itself", asked(fixed, 1, "main.py"), 64, 18 * 64, "", ""},
		{"settings without them", asked(checkout(t, "solar", nil), 1, "main.py"), 64, 0, "", "how many loader workers"},
		{"an option that nothing reads", asked(checkout(t, "v2", nil), 1, with("main_moco.py", "-b", "32", "data")...), 32, 66 * 32, "", ""},
	} {
		h := ladders(t, mine(t, tt.c), 24*unit.GiB).Host
		if got := turned(h); got != tt.turned {
			t.Errorf("%s: the rungs set %q, want %q", tt.name, got, tt.turned)
		}
		e := h.At(0, ladder.SharedMemory, tt.micro)
		if e.Total() != tt.samples*sample || (tt.unknown == "") != e.Known() || !strings.Contains(e.Unknown, tt.unknown) {
			t.Errorf("%s: /dev/shm %v (%s), want %v", tt.name, e.Total(), e.Unknown, tt.samples*sample)
		}
	}
	// moco-v3's guide: 4096 on 8 GPUs with 4 workers each is 8 × 512 images a GPU in the workers' hands, 4.6 GiB of two
	// crops each, and two batches in use.
	l := mem.Loader{Workers: 4, Prefetch: 2, Ranks: 1, Sample: sample, Samples: 1}
	if got := mem.SharedMemory(l.Lines(), 512).Total(); got != 10*512*sample {
		t.Errorf("a GPU of moco-v3: %v", got)
	}
}

func TestHostOnCPU(t *testing.T) {
	dir := checkout(t, "v2", map[string][]string{"main_moco.py": v2Loads})
	j := mine(t, asked(dir, 1, with("main_moco.py", "-b", "32", "data")...))
	set := plugintest.Ladders(t, New(), j.Command, gpu.Device{Kind: gpu.CPU, Total: 8 * unit.GiB})
	for _, it := range set.Host.At(0, ladder.HostMemory, 32).Items {
		if it.Kind == mem.Pinned || it.Kind == mem.HostModel {
			t.Errorf("without a card there is %s", it.Kind)
		}
	}
	if onCard := ladders(t, j, 24*unit.GiB).Host.At(0, ladder.HostMemory, 32); onCard.Of(mem.Pinned) == 0 {
		t.Error("pin_memory=True pins nothing")
	}
}
