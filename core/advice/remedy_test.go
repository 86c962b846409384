package advice

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// Remedies are of the room that ran out, of what was being done in it, and of the torch that is there.
func TestRemediesOfTheRoom(t *testing.T) {
	b := func(n unit.Bytes) *unit.Bytes { return &n }
	torch := func(c Clues) Clues { c.Uses = append(c.Uses, ofTorch); return c }
	fatal := func(k oom.Kind, p oom.Phase, part oom.Part) oom.Report {
		return oom.Report{OOM: true, Fatal: true, Kind: k, Phase: p, Part: part}
	}
	of := func(r oom.Report, frame string) oom.Report { r.Frame = frame; return r }
	slack := func(allocated unit.Bytes) oom.Report {
		r := fatal(oom.GPUCapacity, oom.TrainForward, "")
		r.Numbers = oom.Numbers{Requested: b(unit.GiB), Capacity: b(40 * unit.GiB), Allocated: b(allocated),
			Reserved: b(38 * unit.GiB), Free: b(unit.GiB / 2)}
		return r
	}
	for name, tt := range map[string]struct {
		r    oom.Report
		c    Clues
		want string
		not  []string
	}{
		"a limit of launch's own": {fatal(oom.CPUAlloc, oom.TrainForward, ""), Clues{Limit: 700 * unit.MiB},
			"launch --memory 1100MiB", []string{"ulimit"}},
		"a request beyond that limit": {oom.Report{OOM: true, Fatal: true, Kind: oom.CPUAlloc, Phase: oom.Build,
			Numbers: oom.Numbers{Requested: b(unit.GiB)}}, Clues{Limit: 700 * unit.MiB}, "launch --memory 1800MiB",
			[]string{"ulimit"}},
		"a kill under it": {fatal(oom.HostOOM, oom.TrainForward, ""), Clues{Limit: 700 * unit.MiB},
			"launch --memory 1100MiB", []string{"docker run"}},
		"no limit of launch's": {fatal(oom.CPUAlloc, oom.TrainForward, ""), Clues{}, "ulimit -v",
			[]string{"launch --memory"}},
		"a host that builds": {fatal(oom.CPUAlloc, oom.Build, oom.Load), torch(Clues{}), "mmap=True",
			[]string{"map_location", "on the CPU"}},
		"a killed host that builds": {fatal(oom.HostOOM, oom.Build, oom.Load), torch(Clues{}), "mmap=True",
			[]string{"map_location", "on the CPU"}},
		"a host of an old torch": {fatal(oom.CPUAlloc, oom.Build, oom.Load), torch(Clues{Torch: TorchVersion{113, 113}}),
			"one state read at a time", []string{"mmap=True"}},
		"a host's step": {fatal(oom.CPUAlloc, oom.TrainBackward, ""), torch(Clues{Uses: []string{ofDeepSpeed}}),
			"half the micro-batch", []string{"on the CPU", "offload"}},
		"a step": {fatal(oom.GPUCapacity, oom.TrainForward, ""), torch(Clues{}), "numerics: half the micro-batch",
			[]string{"speed: half"}},
		"a step of a language model": {fatal(oom.GPUCapacity, oom.TrainForward, ""),
			torch(Clues{Uses: []string{ofTransformers}}), "speed: half the micro-batch", []string{"batch norm"}},
		"a host's optimizer": {fatal(oom.CPUAlloc, oom.Optimizer, oom.FirstStep),
			torch(Clues{Uses: []string{ofTransformers}}),
			"SGD", []string{"foreach", "fused", "offload", "8bit", "on the CPU"}},
		"an optimizer of torch 1.13": {fatal(oom.GPUCapacity, oom.Optimizer, ""), torch(Clues{Torch: TorchVersion{113,
			113}}), "sharded", []string{"foreach", "fused"}},
		"an optimizer of torch 2.4": {fatal(oom.GPUCapacity, oom.Optimizer, ""), torch(Clues{Torch: TorchVersion{204,
			204}}), "fused=True", []string{"or later"}},
		"an optimizer of an XPU": {fatal(oom.GPUCapacity, oom.Optimizer, ""), torch(Clues{Device: "xpu"}),
			"foreach=False", []string{"fused"}},
		"a state that is saved": {fatal(oom.CPUAlloc, oom.Checkpoint, oom.Save), torch(Clues{}), "written in parts",
			[]string{"as it is read", "mmap"}},
		"a state that is read": {fatal(oom.CPUAlloc, oom.Checkpoint, oom.Resume), torch(Clues{}), "mmap=True",
			[]string{"written in parts"}},
		"a state saved from a card": {fatal(oom.GPUCapacity, oom.Checkpoint, oom.Save), torch(Clues{}),
			"from a copy on the CPU", []string{"map_location"}},
		"a data set that builds": {of(fatal(oom.CPUAlloc, oom.Build, ""), "data.py:9 in load_dataset"),
			torch(Clues{}), "arrays that are memory-mapped", []string{"weights"}},
		"a data set's file, on a card": {of(fatal(oom.GPUCapacity, oom.Build, ""), "my_dataset.py:9 in __init__"),
			torch(Clues{}), "batches moved to the card", []string{"weights"}},
		"much that lies in pieces": {slack(30 * unit.GiB), torch(Clues{}), "segments that grow: 8.00 GiB are reserved",
			[]string{"a little"}},
		"little that does": {slack(37 * unit.GiB), torch(Clues{}), "may buy a little", nil},
	} {
		t.Run(name, func(t *testing.T) {
			text := told(tt.r, tt.c)
			if !strings.Contains(text, tt.want) {
				t.Errorf("it does not say %q:\n%s", tt.want, text)
			}
			for _, n := range tt.not {
				if strings.Contains(text, n) {
					t.Errorf("it says %q:\n%s", n, text)
				}
			}
		})
	}
}
