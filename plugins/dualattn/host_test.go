package dualattn

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// What the upstream project has of loaders: two fields, which its trainer hands on.
var (
	loadFields = []string{"    mixed_precision: bool = True\n", "    mixed_precision: bool = True\n    num_workers: int = 4\n    pin_memory: bool = True\n"}
	loads      = []string{"    def create(self):\n", "    def create(self):\n        loader = DataLoader(num_workers=self.config.num_workers, pin_memory=self.config.pin_memory)\n"}
)

func hostOf(t *testing.T, d gpu.Device, replace ...string) (*job.Job, *ladder.HostLadder) {
	t.Helper()
	j := recognized(t, files("three streams", replace...), fgvc()...)
	return j, priced(t, j, d).Host
}

func TestHostLadder(t *testing.T) {
	const sample = unit.Bytes(3 * 448 * 448 * 4)
	all := append(append([]string{}, loadFields...), loads...)
	for _, tt := range []struct {
		name    string
		replace []string
		turns   string
		unknown string
	}{
		{"as upstream has it", all, " 2 1 1,False 0,False", ""},
		{"not pinned", append(append([]string{}, all...), "pin_memory: bool = True", "pin_memory: bool = False"), " 2 1 0", ""},
		{"pinned whatever the field says", append(append([]string{}, all...), "pin_memory=self.config.pin_memory", "pin_memory=True"), " 2 1 0", ""},
		{"workers of the option", append(append([]string{}, all...), "        loader =", "        self.config.num_workers = args.num_workers\n        loader ="), " False", ""},
		{"fields that nothing reads", loadFields, "", "how many loader workers"},
		{"no such fields", loads, "", "how many loader workers"},
		{"a field that is computed", append([]string{loadFields[0], strings.Replace(loadFields[1], "= 4", "= count()", 1)}, loads...), " False", "how many loader workers"},
	} {
		j, h := hostOf(t, card(16*unit.GiB), tt.replace...)
		var turns []string
		for _, r := range h.Rungs {
			var to []string
			for _, e := range r.Edits {
				to = append(to, e.To)
			}
			turns = append(turns, strings.Join(to, ","))
		}
		if got := strings.Join(turns, " "); got != tt.turns {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.turns)
		}
		e := h.At(0, ladder.SharedMemory, 4)
		if !strings.Contains(e.Unknown, tt.unknown) || (tt.unknown == "") != e.Known() {
			t.Errorf("%s: %q, want %q", tt.name, e.Unknown, tt.unknown)
		}
		if e.Known() && e.Total() != 10*4*sample {
			t.Errorf("%s: /dev/shm %v, want %v", tt.name, e.Total(), 10*4*sample)
		}
		if tt.name != "as upstream has it" {
			continue
		}
		made, err := j.Rewrite(h.Rungs[len(h.Rungs)-1].Edits, t.TempDir())
		if err != nil || len(made.Files) != 1 || !strings.Contains(string(made.Files[0].Text), "num_workers: int = 0\n    pin_memory: bool = False\n") {
			t.Errorf("the rung is not made: %v", err)
		}
	}
}

func TestHostOnCPU(t *testing.T) {
	all := append(append([]string{}, loadFields...), loads...)
	_, onCard := hostOf(t, card(16*unit.GiB), all...)
	_, onCPU := hostOf(t, gpu.Device{Kind: gpu.CPU, Total: 8 * unit.GiB}, all...)
	pinned := func(h *ladder.HostLadder) unit.Bytes { return h.At(0, ladder.HostMemory, 4).Of(mem.Pinned) }
	if pinned(onCard) == 0 || pinned(onCPU) != 0 {
		t.Errorf("pinned: %v on a card, %v on a CPU", pinned(onCard), pinned(onCPU))
	}
}
