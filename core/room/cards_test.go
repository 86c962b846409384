package room

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

const g = unit.GiB

// held is a claim of another launch of this account.
func held(pid int, w Want) Held { return Held{Want: w, PID: pid, UID: os.Geteuid()} }

func onCard(b unit.Bytes) Want { return Want{Resource: Card("GPU-1"), Bytes: b} }

// What is promised and what is used count once each, whoever uses it.
func TestOffer(t *testing.T) {
	open := onCard(4 * g)
	open.Open = true
	waits := onCard(4 * g)
	waits.Waiting = true
	theirs := held(10, onCard(20*g))
	theirs.UID = os.Geteuid() + 1
	if theirs.Refuses() {
		t.Fatal("another account's claim refuses")
	}
	procs := func(of ...unit.Bytes) (out []gpu.Process) { // pids 11, 12, …: those of launches 10, 20 and so on are 11, 21
		for i := 0; i < len(of); i += 2 {
			out = append(out, gpu.Process{PID: int(of[i]), Used: of[i+1]})
		}
		return out
	}
	for name, tt := range map[string]struct {
		used  unit.Bytes
		procs []gpu.Process
		held  []Held
		blind bool
		want  unit.Bytes
		open  bool
		vgpu  bool // the driver lists no process
	}{
		"an empty card":                {want: 24 * g},
		"another's process":            {used: 5 * g, procs: procs(99, 5*g), want: 19 * g},
		"a claim that is not used yet": {held: []Held{held(10, onCard(10*g))}, want: 14 * g},
		"a claim that is used in part": {
			used: 4 * g, procs: procs(11, 4*g), held: []Held{held(10, onCard(10*g))}, want: 14 * g,
		},
		"a claim that is exceeded": {
			used: 12 * g, procs: procs(11, 12*g), held: []Held{held(10, onCard(10*g))}, want: 12 * g,
		},
		"two processes of one launch": {
			used: 8 * g, procs: procs(11, 4*g, 12, 4*g), held: []Held{held(10, onCard(10*g))}, want: 14 * g,
		},
		"a claim and another's process": {
			used: 9 * g, procs: procs(11, 4*g, 99, 5*g), held: []Held{held(10, onCard(10*g))}, want: 9 * g,
		},
		"two claims, one of them used": {
			used: 4 * g, procs: procs(11, 4*g), held: []Held{held(10, onCard(6*g)), held(20, onCard(6*g))}, want: 12 * g,
		},
		"a desktop that is not listed": {
			used: g, held: []Held{held(10, onCard(10*g))}, want: 13 * g,
		},
		"in a container: its use may be the claim's": {
			used: 10 * g, blind: true, held: []Held{held(10, onCard(10*g))}, want: 14 * g,
		},
		"in a container: never less than is used": {
			used: 12 * g, blind: true, held: []Held{held(10, onCard(10*g))}, want: 12 * g,
		},
		"a process of another namespace": {
			used: 10 * g, procs: procs(7777, 10*g), held: []Held{held(10, onCard(10*g))}, want: 14 * g,
		},
		"a process whose use is not told": {
			used: 10 * g, procs: procs(11, -1), held: []Held{held(10, onCard(10*g))}, want: 14 * g,
		},
		"MPS's server, which holds what its clients hold": {
			used: 10 * g, procs: []gpu.Process{{PID: 99, Used: 10 * g, Name: "nvidia-cuda-mps"}},
			held: []Held{held(10, onCard(10*g))}, want: 14 * g,
		},
		"a driver that lists no process": {
			used: 10 * g, vgpu: true, held: []Held{held(10, onCard(10*g))}, want: 14 * g,
		},
		"a claim of unknown size": {
			used: 3 * g, procs: procs(11, 3*g), held: []Held{held(10, open)}, want: 21 * g, open: true,
		},
		"a launch that waits": {held: []Held{held(10, waits)}, want: 24 * g},
		"another account's claim": {
			used: 2 * g, procs: procs(11, 2*g), held: []Held{theirs}, want: 22 * g,
		},
		"another card's claim": {
			held: []Held{held(10, Want{Resource: Card("GPU-2"), Bytes: 9 * g})}, want: 24 * g,
		},
		"more promised than there is": {
			used: 20 * g, procs: procs(99, 20*g), held: []Held{held(10, onCard(10*g))}, want: 0,
		},
	} {
		l := ledger{
			held: tt.held, blind: tt.blind,
			descends: func(pid, launch int) bool { return pid/10 == launch/10 && pid != 99 },
			visible:  func(pid int) bool { return pid != 7777 },
		}
		o := l.offer(gpu.Device{UUID: "GPU-1", Total: 24 * g, Used: tt.used, Processes: tt.procs, Unlisted: tt.vgpu})
		if o.Free != tt.want || o.Open != tt.open || o.Empty != 24*g {
			t.Errorf("%s: %v free (open: %v), want %v", name, o.Free, o.Open, tt.want)
		}
	}
	l := ledger{reserve: 2 * g, visible: func(int) bool { return true }}
	if o := l.offer(gpu.Device{UUID: "GPU-1", Total: 24 * g, Used: 20 * g}); o.Free != 2*g || o.Empty != 22*g {
		t.Errorf("with a reserve: %v of %v", o.Free, o.Empty)
	}
}

// Of a card that shares the machine's memory the claims are those of host memory.
func TestOfferOfSharedMemory(t *testing.T) {
	soc := gpu.Device{UUID: "soc", Shared: true, Total: 60 * g, Used: 15 * g}
	held := func(pid int, w Want) Held { return Held{Want: w, PID: pid, UID: os.Geteuid()} }
	l := ledger{descends: func(pid, launch int) bool { return pid/10 == launch/10 },
		visible: func(int) bool { return true },
		held: []Held{held(10, Want{Resource: Of(soc), Bytes: 10 * g}), held(20, Want{Resource: HostMemory, Bytes: 4 * g}),
			held(30, Want{Resource: Card("GPU-1"), Bytes: 20 * g})}}
	if o := l.offer(soc); o.Free != 31*g || o.Claims != 2 {
		t.Errorf("%v free beside %d claims", o.Free, o.Claims)
	}
	soc.Unlisted = true // what is used may be the claims', and may be that of anything else
	if o := l.offer(soc); o.Free != 31*g {
		t.Errorf("%v free where no process is listed", o.Free)
	}
	soc.Unlisted = false
	soc.Processes = []gpu.Process{{PID: 11, Used: 9 * g}} // of the first, as a GB10's driver lists it
	if o := l.offer(soc); o.Free != 40*g {
		t.Errorf("%v free with what one claim has taken", o.Free)
	}
	if o := l.offer(gpu.Device{UUID: "GPU-1", Total: 24 * g}); o.Free != 4*g {
		t.Errorf("%v free of another card", o.Free)
	}
}

// needs is a job that needs so much as asked and, at a cost, half of it.
func needs(b unit.Bytes) func(unit.Bytes) Share {
	return func(room unit.Bytes) Share {
		switch {
		case b <= room:
			return Share{Bytes: b}
		case b/2 <= room:
			return Share{Bytes: b / 2, Rank: 1}
		}
		return Share{Never: true}
	}
}

func TestChoose(t *testing.T) {
	offer := func(free, empty unit.Bytes) Offer { return Offer{Free: free * g, Empty: empty * g} }
	claimed := func(o Offer, open bool) Offer { o.Claims, o.Open = 1, open; return o }
	for name, tt := range map[string]struct {
		offers  []Offer
		on      func(unit.Bytes) Share
		cards   int
		patient bool
		want    string
	}{
		"the tightest card that fits": {
			[]Offer{offer(24, 24), offer(10, 24), offer(12, 12)}, needs(10 * g), 1, true, "[1] fits",
		},
		"the first of equals": {
			[]Offer{offer(24, 24), offer(24, 24)}, needs(10 * g), 1, true, "[0] fits",
		},
		"no card now: wait": {
			[]Offer{offer(9, 24), offer(4, 24)}, needs(10 * g), 1, true, "waits for 10.0 GiB among [0 1]",
		},
		"no card now: the one with most": {
			[]Offer{offer(4, 24), offer(9, 24)}, needs(10 * g), 1, false, "[1]",
		},
		"as asked on a large card, not less": {
			[]Offer{offer(8, 8), offer(9, 24)}, needs(10 * g), 1, true, "waits for 10.0 GiB among [1]",
		},
		"not patient: on the card of its plan": {
			[]Offer{offer(8, 8), offer(9, 24)}, needs(10 * g), 1, false, "[1]",
		},
		"as asked on none: the milder plan": {
			[]Offer{offer(8, 8), offer(9, 9)}, needs(16 * g), 1, true, "[0] fits",
		},
		"on none at all": {
			[]Offer{offer(4, 8), offer(5, 8)}, needs(40 * g), 1, true, "never [1]",
		},
		"no cards": {nil, needs(g), 1, true, "never []"},
		"two cards": {
			[]Offer{offer(24, 24), offer(9, 24), offer(12, 24)}, needs(10 * g), 2, true, "[2 0] fits",
		},
		"two cards, one is free": {
			[]Offer{offer(24, 24), offer(9, 24)}, needs(10 * g), 2, true, "waits for 10.0 GiB among [0 1]",
		},
		"two cards, one large enough": {
			[]Offer{offer(24, 24), offer(9, 9)}, needs(10 * g), 2, true, "[1 0] fits",
		},
		"unknown: a card without claims": {
			[]Offer{claimed(offer(20, 24), false), offer(22, 24), offer(23, 24)}, Unknown.On, 1, true, "[2] fits",
		},
		"unknown: none without claims": {
			[]Offer{claimed(offer(20, 24), false)}, Unknown.On, 1, true, "waits for 0 B among [0]",
		},
		"unknown, not patient: refused": {
			[]Offer{claimed(offer(20, 24), false)}, Unknown.On, 1, false, "waits for 0 B among [0]",
		},
		"unknown: others use half of it": {
			[]Offer{offer(12, 24)}, Unknown.On, 1, true, "waits for 0 B among [0]",
		},
		"a card whose claim is open": {
			[]Offer{claimed(offer(20, 24), true)}, needs(10 * g), 1, true, "waits for 10.0 GiB among [0]",
		},
		"an open card is the last, if not patient": {
			[]Offer{claimed(offer(20, 24), true), offer(8, 24)}, needs(10 * g), 1, false, "[1]",
		},
	} {
		c := Choose(tt.offers, Need{Cards: tt.cards, On: tt.on}, tt.patient)
		got := fmt.Sprint(c.At)
		switch {
		case c.Never:
			got = "never " + got
		case c.Fits:
			got += " fits"
		case len(c.At) == 0:
			got = fmt.Sprintf("waits for %v among %v", c.Want.Bytes, c.Among)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// A launch that waits is overtaken for a while, and then has a card.
func TestKeep(t *testing.T) {
	now := time.Now()
	waits := func(ago time.Duration, b unit.Bytes, among ...string) Held {
		h := held(10, Want{Resource: Card(""), Bytes: b, Waiting: true, Among: among})
		h.Since = now.Add(-ago)
		return h
	}
	for name, tt := range map[string]struct {
		held  []Held
		since time.Duration
		want  []unit.Bytes
	}{
		"nobody waits": {nil, 0, []unit.Bytes{6 * g, 8 * g}},
		"for a moment": {
			[]Held{waits(time.Second, 10*g, "GPU-1", "GPU-2")}, 0, []unit.Bytes{6 * g, 8 * g},
		},
		"too long: the card with most": {
			[]Held{waits(2*time.Minute, 10*g, "GPU-1", "GPU-2")}, 0, []unit.Bytes{6 * g, 0},
		},
		"too long, but there is room beside": {
			[]Held{waits(2*time.Minute, 5*g, "GPU-2")}, 0, []unit.Bytes{6 * g, 3 * g},
		},
		"one that waits for longer still": {
			[]Held{waits(2*time.Minute, 10*g, "GPU-1", "GPU-2")}, 3 * time.Minute, []unit.Bytes{6 * g, 8 * g},
		},
		"two: a card each": {
			[]Held{waits(2*time.Minute, 10*g, "GPU-1", "GPU-2"), waits(3*time.Minute, 10*g, "GPU-1", "GPU-2")}, 0,
			[]unit.Bytes{0, 0},
		},
		"a card that it cannot use": {
			[]Held{waits(2*time.Minute, 10*g, "GPU-1")}, 0, []unit.Bytes{0, 8 * g},
		},
		"a card that is too small for it": {
			[]Held{waits(2*time.Minute, 30*g, "GPU-1", "GPU-2")}, 0, []unit.Bytes{6 * g, 8 * g},
		},
	} {
		offers := []Offer{
			{Device: gpu.Device{UUID: "GPU-1"}, Free: 6 * g, Empty: 24 * g},
			{Device: gpu.Device{UUID: "GPU-2"}, Free: 8 * g, Empty: 24 * g},
		}
		var got []unit.Bytes
		for _, o := range keep(offers, tt.held, now.Add(-tt.since), now) {
			got = append(got, o.Free)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	host := waits(2*time.Minute, 10*g)
	host.Resource = HostMemory
	if o := keep([]Offer{{Free: 12 * g, Empty: 16 * g}}, []Held{host}, now, now); o[0].Free != 2*g {
		t.Errorf("of host memory %v are left", o[0].Free)
	}
}

// What launch may choose from: whole cards and slices; what the environment or a list names; never a card in slices.
func TestCandidates(t *testing.T) {
	all := []gpu.Device{
		{Kind: gpu.CUDA, Index: 0, UUID: "GPU-a", Total: 24 * g, Used: 20 * g},
		{Kind: gpu.CUDA, Index: 1, UUID: "GPU-b", Total: 24 * g},
		{Kind: gpu.CUDA, Index: 2, UUID: "GPU-c", Total: 40 * g, MIG: true},
		{Kind: gpu.CUDA, Index: 2, UUID: "MIG-1", Total: 10 * g, MIG: true, Parent: "GPU-c"},
		{Kind: gpu.CUDA, Index: 2, UUID: "MIG-2", Total: 10 * g, MIG: true, Parent: "GPU-c"},
	}
	for name, tt := range map[string]struct {
		device, env string
		cards       int
		want        string
	}{
		"any": {"any", "", 1, "GPU-a GPU-b MIG-1 MIG-2"},
		"any of those in the allocation": {
			"any", "CUDA_VISIBLE_DEVICES=GPU-a,MIG-2 CUDA_DEVICE_ORDER=PCI_BUS_ID", 1, "GPU-a MIG-2",
		},
		"a list": {"0,MIG-2", "CUDA_VISIBLE_DEVICES=1", 1, "GPU-a MIG-2"},
		"any, of none": {
			"any", "CUDA_VISIBLE_DEVICES=", 1, "CUDA_VISIBLE_DEVICES=: hides every device from the program",
		},
		"more than there are": {
			"0,MIG-2", "", 2, "too few cards: the command uses 2, and there are 1 to choose from",
		},
		"not to choose: the first":     {"auto", "", 0, "GPU-a"},
		"not to choose: for two ranks": {"auto", "", 2, "GPU-a GPU-b"},
		"what it was given":            {"auto", "CUDA_VISIBLE_DEVICES=GPU-b,GPU-a", 0, "GPU-b GPU-a"},
		"one by name":                  {"1", "", 1, "GPU-b"},
		"a slice by name":              {"MIG-2", "", 1, "MIG-2"},
	} {
		r := Room{wish: Wish{Device: tt.device}, all: all}
		err := r.among(strings.Fields(tt.env), nil)
		var cards []gpu.Device
		if err == nil {
			cards, err = r.cards(strings.Fields(tt.env), &Need{Cards: tt.cards})
		}
		got := strings.ReplaceAll(Names(cards), ",", " ")
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// A card that is only planned is not claimed, nor is the host's memory by way of a card.
func TestNoCard(t *testing.T) {
	for name, d := range map[string]*gpu.Device{
		"no device":           nil,
		"planned":             {Kind: gpu.CUDA, UUID: "GPU-1", Planned: true},
		"the host":            {Kind: gpu.CPU},
		"a card without UUID": {Kind: gpu.CUDA},
	} {
		r := Room{wish: Wish{Device: "auto"}, Device: d}
		if cards, err := r.cards(nil, &Need{}); len(cards) > 0 || err != nil {
			t.Errorf("%s: %v, %v", name, cards, err)
		}
	}
	var none *Hold
	none.Release()
	none.Uses("GPU-1", g, true)
	if err := none.Plan(&Room{}, g); err != nil || none.Devices() != nil || len(none.Env([]string{"A=b"})) != 1 {
		t.Errorf("a hold of nothing: %v", err)
	}
}
