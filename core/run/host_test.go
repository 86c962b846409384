package run

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// fed is a job of the sisr kind with 8 loader workers, 2 batches ahead each, whose samples are a MiB: at a micro-batch
// of 16 that is 272 MiB in /dev/shm, and 912 MiB of memory.
func fed(at func(batch unit.Bytes) mem.Estimate) *Run {
	r := sr(training(at), validation(func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }))
	for i, micro := range []int64{16, 8, 4, 2, 2} {
		r.Ladders.Phases[0].Rungs[i].Values = map[string]int64{"micro-batch": micro}
	}
	asked := ladder.Feed{Workers: 8, Prefetch: 2}
	r.Ladders.Host = ladder.Feeds(asked, func(f ladder.Feed) (edits []config.Edit, ok bool) {
		edit := func(knob string) {
			edits = append(edits, config.Edit{Knob: knob, At: config.Address{Doc: "x.yml", Path: knob}, Cost: "none"})
		}
		if f.Prefetch != asked.Prefetch {
			edit("prefetch")
		}
		if f.Workers != asked.Workers {
			edit("workers")
		}
		return edits, true
	}, func(f ladder.Feed) []mem.HostLine {
		return mem.Loader{What: "training", Ranks: 1, Workers: f.Workers, Prefetch: f.Prefetch, Sample: unit.MiB, Samples: 1}.Lines()
	})
	return r
}

func room(n unit.Bytes) *ladder.HostRoom { return &ladder.HostRoom{Free: n, By: "a test"} }

func hostOOM(kind oom.Kind) Outcome {
	return Outcome{Ending: OutOfMemory, Code: 1, Phase: ladder.Training, Report: oom.Report{OOM: true, Fatal: true, Kind: kind, Cause: string(kind)}}
}

func knobsOf(p *Plan) string {
	var out []string
	for _, e := range p.Edits {
		out = append(out, e.Knob)
	}
	return strings.Join(out, ", ")
}

func TestFirstHostPlan(t *testing.T) {
	const M = unit.MiB
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	large := func(b unit.Bytes) mem.Estimate { return sure(g, b*g, 0) } // 8 × 2 fits
	for _, tt := range []struct {
		name        string
		at          func(unit.Bytes) mem.Estimate
		memory, shm *ladder.HostRoom
		want, card  string
	}{
		{"room enough", small, room(4 * g), room(g), "as asked", "as asked"},
		{"nothing is known", small, nil, nil, "as asked", "as asked"},
		{"docker's /dev/shm of 64 MiB", small, room(4 * g), room(64 * M), "2 loader workers, prefetch 1", "as asked"},
		{"/dev/shm of 170 MiB", small, room(4 * g), room(170 * M), "prefetch 1", "as asked"},
		{"it follows the micro-batch that the card allows", large, room(4 * g), room(150 * M), "as asked", "8 × 2"},
		{"memory", small, room(700 * M), room(g), "4 loader workers, prefetch 1", "as asked"},
		{"guesses refuse nothing, and no rung at all does", small, room(M), room(M), "no loader workers", "as asked"},
		{"a full /dev/shm is not an unknown one", small, nil, room(0), "no loader workers", "as asked"},
	} {
		r := fed(tt.at)
		r.Rooms = ladder.HostRooms{Memory: tt.memory, Shm: tt.shm}
		p, stop := r.Next()
		if stop != nil {
			t.Errorf("%s: stopped: %+v", tt.name, stop)
			continue
		}
		if p.Host.Name != tt.want || p.Choices[0].Name != tt.card {
			t.Errorf("%s: %q beside %q, want %q beside %q", tt.name, p.Host.Name, p.Choices[0].Name, tt.want, tt.card)
		}
		if (tt.want == "as asked") != (knobsOf(p) == "" || tt.card != "as asked") {
			t.Errorf("%s: it edits %q", tt.name, knobsOf(p))
		}
		if tt.want != "as asked" && !strings.Contains(p.Why, "loaders as asked need") {
			t.Errorf("%s: why is %q", tt.name, p.Why)
		}
		r.Limits.AsAsked = true
		if p, _ := r.Next(); p.Host.Rung != 0 {
			t.Errorf("%s: --as-asked stands on %q", tt.name, p.Host.Name)
		}
	}
}

// The rooms are never mixed up: an out-of-memory of the card moves nothing of the host's ladder, one of the host nothing
// of the card's, and neither measures the other.
func TestRoomsAreApart(t *testing.T) {
	r := fed(func(b unit.Bytes) mem.Estimate { return sure(g, b*g/2, 0) })
	r.Rooms = ladder.HostRooms{Memory: room(4 * g), Shm: room(g)}
	for i, step := range []struct {
		card, host string
		then       Outcome
	}{
		{"as asked", "as asked", hostOOM(oom.SharedMemory)},
		{"as asked", "prefetch 1", oomIn(ladder.Training, 0, 0)},
		{"8 × 2", "prefetch 1", hostOOM(oom.HostOOM)},
		{"8 × 2", "4 loader workers, prefetch 1", oomIn(ladder.Training, 0, 0)},
		{"4 × 4", "4 loader workers, prefetch 1", Outcome{Ending: Succeeded}},
	} {
		p, stop := r.Next()
		if stop != nil {
			t.Fatalf("attempt %d: stopped: %s", i+1, stop.Why)
		}
		if p.Choices[0].Name != step.card || p.Host.Name != step.host {
			t.Fatalf("attempt %d is %q, %q; want %q, %q (%s)", i+1, p.Choices[0].Name, p.Host.Name, step.card, step.host, p.Why)
		}
		if i == 1 && (knobsOf(p) != "prefetch" || !strings.Contains(p.Why, "/dev/shm ran out") || !strings.Contains(p.Host.Why, "nothing on the card")) {
			t.Errorf("attempt 2 edits %s because %s", knobsOf(p), p.Why)
		}
		if i == 1 && p.Choices[0].Estimate.Of(mem.Correction) != 0 {
			t.Error("the host's measurement corrected the card's estimate")
		}
		if i == 2 && p.Why != `"as asked" ran out of memory in training` || i == 2 && p.Changes() != "8 × 2; prefetch 1" {
			t.Errorf("attempt 3 is %q because %s", p.Changes(), p.Why)
		}
		if i == 2 { // even where the host's rooms have become too small meanwhile
			r.Rooms.Shm = room(1)
			if p, _ := r.Next(); p.Host.Name != step.host {
				t.Errorf("after an out-of-memory of the card the loaders are fed by %q", p.Host.Name)
			}
			r.Rooms.Shm = room(g)
		}
		r.Attempts = append(r.Attempts, Attempt{*p, step.then})
	}
}

// A full /dev/shm in a phase is no measurement of what the phase needs of the card: nobody's results are changed for it.
func TestHostMeasuresNoPhase(t *testing.T) {
	r := fed(func(unit.Bytes) mem.Estimate { return sure(g, g, 0) })
	r.Ladders.Phases[1].Rungs = validation(func(p unit.Bytes) mem.Estimate { return sure(g, 10*g, p*g/64) })
	for _, o := range []Outcome{hostOOM(oom.SharedMemory), hostOOM(oom.GPUContention)} {
		p, _ := r.Next()
		if o.Report.Kind == oom.SharedMemory {
			o.Phase = ladder.Validation
		}
		r.Attempts = append(r.Attempts, Attempt{*p, o})
	}
	r.Room++
	if p, stop := r.Next(); stop != nil || names(p) != "as asked, as asked" || p.Host.Name != "prefetch 1" {
		t.Errorf("plan %+v, stop %+v", p, stop)
	}
}

// What ran out was needed and more: rungs that this proves too large are passed over, in that room.
func TestHostMeasurement(t *testing.T) {
	r := fed(func(unit.Bytes) mem.Estimate { return sure(g, g, 0) })
	r.Rooms = ladder.HostRooms{Memory: room(64 * g), Shm: room(4 * g)}
	p, _ := r.Next()
	o := hostOOM(oom.SharedMemory)
	o.Saved = &State{Path: "s", Iteration: 7}
	r.Attempts = append(r.Attempts, Attempt{*p, o}) // it needed 4 GiB, not 272 MiB
	r.Rooms.Shm = room(g)                           // and others have taken the rest since
	p, stop := r.Next()
	if stop != nil || p.Host.Name != "2 loader workers, prefetch 1" {
		t.Fatalf("plan %+v, stop %+v; want 2 workers: 4 × 1 would need 1.2 GiB", p.Host, stop)
	}
	if p.Resume == nil || p.Edits[len(p.Edits)-1].Knob != "resume" {
		t.Error("it does not go on from what was saved")
	}
	items := p.Host.Need(ladder.SharedMemory).Estimate.Items
	if items[len(items)-1].Kind != mem.Correction {
		t.Errorf("the correction is no line: %+v", items)
	}
	if items := p.Host.Need(ladder.HostMemory).Estimate.Items; items[len(items)-1].Kind == mem.Correction {
		t.Error("/dev/shm corrected the memory")
	}
}

func TestHostLadderEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		lie  func(*Run)
		kind oom.Kind
		at   oom.Phase
		says string
	}{
		{"used up", func(r *Run) { r.Ladders.Host.Rungs = r.Ladders.Host.Rungs[:1] }, oom.SharedMemory, oom.Data, "no setting of the loaders needs less"},
		{"no ladder", func(r *Run) { r.Ladders.Host = nil }, oom.HostOOM, oom.Data, "no change that launch can make frees"},
		{"no loader yet", func(*Run) {}, oom.HostOOM, oom.Build, "no loader was running yet"},
		{"a request of the program's own", func(*Run) {}, oom.CPUAlloc, oom.TrainForward,
			"no change that launch can make frees"},
	} {
		r := fed(func(unit.Bytes) mem.Estimate { return sure(g, g, 0) })
		tt.lie(r)
		p, _ := r.Next()
		o := hostOOM(tt.kind)
		o.Report.Phase = tt.at
		r.Attempts = append(r.Attempts, Attempt{*p, o})
		if p, stop := r.Next(); stop == nil || !strings.Contains(stop.Why, tt.says) {
			t.Errorf("%s: plan %+v, stop %+v", tt.name, p, stop)
		}
	}
	r := fed(func(unit.Bytes) mem.Estimate { return sure(g, g, 0) })
	for range 20 {
		p, stop := r.Next()
		if stop != nil {
			if len(r.Attempts) != len(r.Ladders.Host.Rungs) {
				t.Errorf("%d attempts on %d rungs", len(r.Attempts), len(r.Ladders.Host.Rungs))
			}
			return
		}
		r.Attempts = append(r.Attempts, Attempt{*p, hostOOM(oom.SharedMemory)})
	}
	t.Error("it never ends")
}

// On a CPU the host's memory is the device's room: its ladders answer, as before; /dev/shm is a room of its own there too.
func TestHostOnCPU(t *testing.T) {
	r := fed(func(unit.Bytes) mem.Estimate { return unknown() })
	r.Host = true
	r.Rooms = ladder.HostRooms{Memory: room(1), Shm: room(g)}
	p, _ := r.Next()
	if p.Host.Rung != 0 || p.Host.Need(ladder.HostMemory) != nil {
		t.Errorf("it is fed by the memory that the phases are fitted to: %+v", p.Host)
	}
	r.Attempts = append(r.Attempts, Attempt{*p, hostOOM(oom.HostOOM)})
	if p, _ := r.Next(); p == nil || p.Choices[0].Name != "8 × 2" || p.Host.Rung != 0 {
		t.Errorf("after an out-of-memory: %+v", p)
	}
	r.Attempts[0].Outcome = hostOOM(oom.SharedMemory)
	if p, _ := r.Next(); p == nil || p.Choices[0].Name != "as asked" || p.Host.Name != "prefetch 1" {
		t.Errorf("after a full /dev/shm: %+v", p)
	}
}

// A rung of the card's that holds the host's setting where it was gives way to the host's rung.
func TestHostEditReplaces(t *testing.T) {
	r := fed(func(b unit.Bytes) mem.Estimate { return sure(g, b*g, 0) })
	held := config.Edit{Knob: "workers", At: config.Address{Doc: "x.yml", Path: "workers"}, To: "held", Cost: "none"}
	r.Ladders.Phases[0].Rungs[1].Edits = append(r.Ladders.Phases[0].Rungs[1].Edits, held)
	if p, _ := r.Next(); knobsOf(p) != "micro-batch, workers" || p.Edits[1].To != "held" {
		t.Errorf("as asked of the host: %s", knobsOf(p))
	}
	r.Rooms.Shm = room(0)
	if p, _ := r.Next(); strings.Count(knobsOf(p), "workers") != 1 || p.Edits[1].To == "held" {
		t.Errorf("it is edited twice, or not at all: %+v", p.Edits)
	}
}

// On a CPU the room is that of the process that trains. What its loader workers take in theirs is said, and holds nothing up.
func TestWorkersBesideTheLimit(t *testing.T) {
	r := fed(func(unit.Bytes) mem.Estimate { return sure(g, g, 0) })
	r.Host, r.Rooms.Memory = true, room(unit.MiB)
	c := r.hostAt(0, 16, 0)
	n := c.Need(ladder.Apart)
	// 18 batches in /dev/shm, 8 in the making, 64 MiB of each worker's own.
	if want := (18+8)*16*unit.MiB + 8*64*unit.MiB; n == nil || n.Estimate.Total() != want || n.Verdict != ladder.Unknown || c.Need(ladder.HostMemory) != nil {
		t.Fatalf("%+v, want %v", n, want)
	}
	if p, stop := r.Next(); stop != nil || p.Host.Rung != 0 {
		t.Errorf("held up by it: %+v, %+v", p, stop)
	}
	last := len(r.Ladders.Host.Rungs) - 1 // no workers: the batches are made in the process itself, and are its own
	if n := r.hostAt(last, 16, 0); r.Ladders.Host.Rungs[last].Name != "no loader workers" ||
		n.Need(ladder.Apart).Estimate.Total() != 0 {
		t.Errorf("without workers: %+v", n)
	}
	r.Host = false
	if c := r.hostAt(0, 16, 0); c.Need(ladder.Apart) != nil || c.Need(ladder.HostMemory) == nil {
		t.Errorf("with a card: %+v", c)
	}
}

// Where the card has no memory of its own, what the plan needs of it is gone for the loaders.
func TestSharedMemoryOfACard(t *testing.T) {
	r := fed(func(unit.Bytes) mem.Estimate { return sure(g, g, 0) })
	asked := r.hostAt(0, 16, 0)
	needs := asked.Need(ladder.HostMemory).Estimate.Total()
	r.Rooms.Memory = room(needs)
	p, _ := r.Next()
	if p.Host.Rung != 0 || p.Need() == 0 {
		t.Fatalf("with memory of its own: rung %d, %v of the card", p.Host.Rung, p.Need())
	}
	r.Shared = true
	if p, _ := r.Next(); p.Host.Rung == 0 || p.Host.Need(ladder.HostMemory).Room.Free != max(0, needs-p.Need()) {
		t.Errorf("shared: rung %d, %+v", p.Host.Rung, p.Host.Need(ladder.HostMemory))
	}
	r.Rooms.Memory = room(needs + p.Need())
	if p, _ := r.Next(); p.Host.Rung != 0 {
		t.Errorf("with room for both: rung %d", p.Host.Rung)
	}
}
