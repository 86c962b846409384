package room

import (
	"maps"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// A sweep tells what its own launches use from what others use or have claimed.
func TestUse(t *testing.T) {
	open := onCard(4 * g)
	open.Open = true
	procs := func(of ...unit.Bytes) (out []gpu.Process) { // the launch of 11, 12 and so on is 10
		for i := 0; i < len(of); i += 2 {
			out = append(out, gpu.Process{PID: int(of[i]), Used: of[i+1]})
		}
		return out
	}
	own := []int{10, 20}
	for name, tt := range map[string]struct {
		used   unit.Bytes
		procs  []gpu.Process
		held   []Held
		blind  bool
		others unit.Bytes
		own    map[int]unit.Bytes
		vgpu   bool // the driver lists no process
	}{
		"an empty card": {},
		"own trials, with their claims": {used: 7 * g, procs: procs(11, 4*g, 21, 3*g), held: []Held{held(10,
			onCard(9*g))}, own: map[int]unit.Bytes{10: 4 * g, 20: 3 * g}},
		"another's process": {used: 9 * g, procs: procs(11, 4*g, 99, 5*g), others: 5 * g,
			own: map[int]unit.Bytes{10: 4 * g}},
		"another's claim": {used: 4 * g, procs: procs(11, 4*g), held: []Held{held(30,
			onCard(6*g))}, others: 6 * g, own: map[int]unit.Bytes{10: 4 * g}},
		"another's claim, used in part": {used: 4 * g, procs: procs(31, 4*g), held: []Held{held(30,
			onCard(6*g))}, others: 6 * g},
		"a launch that may take all":    {held: []Held{held(30, open)}, others: 24 * g},
		"what is not listed":            {used: 2 * g, others: 2 * g},
		"a process that has ended":      {used: 5 * g, procs: procs(7777, 5*g)},
		"in a container: it is the own": {used: 5 * g, held: []Held{held(10, onCard(6*g))}, blind: true},
		"MPS's server: it is the own": {used: 5 * g, procs: []gpu.Process{{PID: 99, Used: 5 * g, Name: "nvidia-cuda-mps"}},
			held: []Held{held(10, onCard(6*g))}},
		"a driver that lists no process": {used: 5 * g, held: []Held{held(10, onCard(6*g))}, vgpu: true},
		"in a container: more than the own": {used: 9 * g, held: []Held{held(10, onCard(6*g))}, blind: true,
			others: 3 * g},
		"in a container: another's claim counts once": {used: 5 * g, held: []Held{held(30, onCard(6*g))},
			blind: true, others: 6 * g},
	} {
		l := ledger{held: tt.held, blind: tt.blind, descends: func(pid, launch int) bool { return pid/10*10 == launch },
			visible: func(pid int) bool { return pid < 1000 }}
		u := l.use(gpu.Device{UUID: "GPU-1", Total: 24 * g, Used: tt.used, Processes: tt.procs, Unlisted: tt.vgpu}, own)
		if u.Others != tt.others || !maps.Equal(u.Own, tt.own) {
			t.Errorf("%s: others %v, own %v; want %v, %v", name, u.Others, u.Own, tt.others, tt.own)
		}
	}
}

// A claim grows with what is used, and becomes that when the job has been in all its phases.
func TestUses(t *testing.T) {
	ClaimsWithin(t.TempDir())
	made, err := DecideClaims(nil, func([]Held) ([]Want, error) {
		return []Want{onCard(10 * g)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &Hold{claims: made}
	defer h.Release()
	want := func(b unit.Bytes, settled bool) {
		t.Helper()
		held := Claims()
		i := slices.IndexFunc(held, func(h Held) bool { return h.Resource == Card("GPU-1") })
		if i < 0 || held[i].Bytes != b || held[i].Settled != settled {
			t.Errorf("%+v; want %v, settled %t", held, b, settled)
		}
	}
	h.Uses("GPU-1", 6*g, false)
	want(10*g, false)
	h.Uses("GPU-2", 20*g, true)
	want(10*g, false)
	h.Uses("GPU-1", 11*g, false)
	want(11*g, false)
	made[0].Set(10*g, false)
	h.Uses("GPU-1", 6*g, true)
	want(6*g+6*g/grows+growsBy, true)
	h.Uses("GPU-1", 8*g, true)
	want(8*g+8*g/grows, true)
	made[0].Set(10*g, true)
	h.Uses("GPU-1", 6*g, true)
	want(10*g, false)
}
