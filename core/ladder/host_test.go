package ladder

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// feeding is a ladder of a loader whose samples are a MiB, with knobs that can be turned.
func feeding(asked Feed, workers, prefetch, pinned bool) *HostLadder {
	edit := func(knob, to string) config.Edit {
		return config.Edit{Knob: knob, At: config.Address{Doc: "x.yml", Path: knob}, To: to, Cost: "none"}
	}
	return Feeds(asked, func(f Feed) (edits []config.Edit, ok bool) {
		if f.Workers != asked.Workers {
			edits = append(edits, edit("loader workers", "fewer"))
		}
		if f.Prefetch != asked.Prefetch {
			edits = append(edits, edit("prefetch", "less"))
		}
		if f.Pinned != asked.Pinned {
			edits = append(edits, edit("pinned memory", "off"))
		}
		return edits, (workers || f.Workers == asked.Workers) && (prefetch || f.Prefetch == asked.Prefetch) && (pinned || f.Pinned == asked.Pinned)
	}, func(f Feed) []mem.HostLine {
		l := mem.Loader{What: "training", Ranks: 1, Workers: f.Workers, Prefetch: f.Prefetch, Pinned: f.Pinned, Sample: unit.MiB, Samples: 1, From: "a MiB"}
		return append(l.Lines(), mem.HostLine{Item: mem.Item{Kind: mem.HostModel, What: "net", Bytes: 100 * unit.MiB}, When: mem.Starting})
	})
}

func names(l *HostLadder) string {
	var out []string
	for _, r := range l.Rungs {
		out = append(out, r.Name)
	}
	return strings.Join(out, " | ")
}

func TestFeeds(t *testing.T) {
	for name, tt := range map[string]struct {
		asked                     Feed
		workers, prefetch, pinned bool
		want                      string
	}{
		"all knobs": {Feed{8, 2, true}, true, true, true,
			"as asked | prefetch 1 | 4 loader workers, prefetch 1 | 2 loader workers, prefetch 1 | 1 loader worker, prefetch 1 | 1 loader worker, prefetch 1, no pinned copies | no loader workers, no pinned copies"},
		"workers alone": {Feed{6, 2, true}, true, false, false, "as asked | 3 loader workers | 1 loader worker | no loader workers"},
		"no knob":       {Feed{4, 2, true}, false, false, false, "as asked"},
		"none asked":    {Feed{0, 2, false}, true, true, true, "as asked"},
	} {
		l := feeding(tt.asked, tt.workers, tt.prefetch, tt.pinned)
		if got := names(l); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		s := set()
		s.Host = l
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is needed of either room, by hand: 4 workers × 2 ahead + 2 batches of 16 samples in /dev/shm, which count against
// the memory too, with as many pinned copies, a batch's samples in every worker, and the workers themselves. The model on
// its way to the card is none of that moment's.
func TestHostNeeds(t *testing.T) {
	l := feeding(Feed{4, 2, true}, true, true, true)
	const batch = 16 * unit.MiB
	if got := l.At(0, SharedMemory, 16).Total(); got != 10*batch {
		t.Errorf("/dev/shm: %v, want %v", got, 10*batch)
	}
	if got, want := l.At(0, HostMemory, 16).Total(), (10+10+4)*batch+4*64*unit.MiB; got != want {
		t.Errorf("memory: %v, want %v", got, want)
	}
	if got := l.At(0, SharedMemory, 4).Total(); got != 10*4*unit.MiB {
		t.Errorf("/dev/shm does not follow the micro-batch: %v", got)
	}
	last := len(l.Rungs) - 1
	if got := l.At(last, SharedMemory, 16).Total(); got != 0 {
		t.Errorf("without workers /dev/shm holds %v", got)
	}
	if got := l.At(last, HostMemory, 16).Total(); got != 100*unit.MiB {
		t.Errorf("without workers the peak is the start's 100 MiB and not %v", got)
	}
	if l.At(0, HostMemory, 0).Known() {
		t.Error("a micro-batch that is not known has a need")
	}
	ranks := mem.Loader{What: "training", Ranks: 2, Workers: 2, Prefetch: 2, Sample: unit.MiB, Fixed: 3}
	if got := mem.SharedMemory(ranks.Lines(), 99).Total(); got != 2*6*3*unit.MiB {
		t.Errorf("two ranks and batches of three: %v", got)
	}
}

func TestHostCheck(t *testing.T) {
	line := func(n unit.Bytes) []mem.HostLine {
		return []mem.HostLine{{Item: mem.Item{Kind: mem.Loaders, What: "training", Bytes: n}}}
	}
	edit := config.Edit{Knob: "loader workers", Cost: "none"}
	costly, taken := edit, edit
	costly.Cost, taken.Knob = "speed", "micro-batch"
	for says, l := range map[string]*HostLadder{
		"no rung":              {},
		"and edits it":         {Rungs: []HostRung{{Edits: []config.Edit{edit}}}},
		"cost nothing":         {Rungs: []HostRung{{Lines: line(2)}, {Edits: []config.Edit{costly}, Lines: line(1)}}},
		"less than nothing":    {Rungs: []HostRung{{Lines: line(-1)}}},
		"needs no less":        {Rungs: []HostRung{{Lines: line(1)}, {Edits: []config.Edit{edit}, Lines: line(1)}}},
		"on the shared ladder": {Rungs: []HostRung{{Lines: line(2)}, {Edits: []config.Edit{taken}, Lines: line(1)}}},
	} {
		s := set()
		s.Shared.Rungs = append(s.Shared.Rungs, Rung{Name: "8", Cost: Speed, Edits: []config.Edit{{Knob: "micro-batch", Cost: "speed"}, {Knob: "loader workers", Cost: "none"}}})
		for i := range s.Phases {
			for k := range s.Phases[i].Rungs {
				s.Phases[i].Rungs[k].Estimates = append(s.Phases[i].Rungs[k].Estimates, mem.Estimate{Unknown: "not priced"})
			}
		}
		s.Host = l
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want it to say %q", err, says)
		}
	}
}
