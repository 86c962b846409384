package room

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// The fullest device that the program would see decides; a device that the user names outranks the environment.
func TestAmong(t *testing.T) {
	card := func(n int, uuid string, used unit.Bytes) gpu.Device {
		return gpu.Device{Kind: gpu.CUDA, Index: n, UUID: uuid, Name: "a card", Total: 24 * unit.GiB, Used: used}
	}
	all := []gpu.Device{card(0, "GPU-a", 0), card(1, "GPU-b", 20*unit.GiB), card(2, "GPU-c", 8*unit.GiB)}
	for name, tt := range map[string]struct {
		device, env string
		want        string // the UUID, or a part of the error or warning
		devices     int
	}{
		"all":                        {"auto", "", "GPU-b", 3},
		"those that it would see":    {"auto", "CUDA_VISIBLE_DEVICES=0,2", "GPU-c", 2},
		"by name":                    {"0", "CUDA_VISIBLE_DEVICES=1", "GPU-a", 1},
		"by UUID":                    {"GPU-c", "", "GPU-c", 1},
		"a name that is none":        {"7", "", "no such device among the 3", 0},
		"an environment with a typo": {"auto", "CUDA_VISIBLE_DEVICES=GPU-x", "GPU-x", 0},
	} {
		r := Room{wish: Wish{Device: tt.device}, all: all}
		got := ""
		if err := r.among(strings.Fields(tt.env), nil); err != nil {
			got = err.Error()
		} else if r.Device != nil {
			got = r.Device.UUID
		} else {
			got = strings.Join(r.Warnings, "; ")
		}
		if !strings.Contains(got, tt.want) || r.Devices != tt.devices {
			t.Errorf("%s: %q of %d, want %q of %d", name, got, r.Devices, tt.want, tt.devices)
		}
	}
}

// The limit, what is kept free and what is full are decided here and nowhere else.
func TestSize(t *testing.T) {
	for name, tt := range map[string]struct {
		room               Room
		size, empty, limit unit.Bytes
		reserved           bool
	}{
		"nothing known":          {Room{wish: Wish{Device: "auto", Memory: unit.GiB}}, 0, 0, 0, true},
		"a card in use":          {Room{Device: &gpu.Device{Total: 24 * unit.GiB, Used: 4 * unit.GiB}, wish: Wish{Device: "auto", Reserve: unit.GiB}}, 19 * unit.GiB, 23 * unit.GiB, 0, true},
		"a full card is no card": {Room{Device: &gpu.Device{Total: 24 * unit.GiB, Used: 24 * unit.GiB}, wish: Wish{Device: "auto"}}, 1, 24 * unit.GiB, 0, true},
		"all of it reserved":     {Room{Device: &gpu.Device{Total: 24 * unit.GiB}, wish: Wish{Device: "auto", Reserve: 24 * unit.GiB}}, 1, 1, 0, false},
		"a limit":                {Room{Device: &gpu.Device{Kind: gpu.CPU, Total: unit.GiB}, wish: Wish{Device: "cpu", Memory: unit.GiB}}, unit.GiB, unit.GiB, unit.GiB, true},
	} {
		if r := tt.room; r.Size() != tt.size || r.Empty() != tt.empty || r.Limit() != tt.limit || (r.Reserved() == nil) != tt.reserved {
			t.Errorf("%s: %v, empty %v, limit %v, %v", name, r.Size(), r.Empty(), r.Limit(), r.Reserved())
		}
	}
	if r := (Room{Device: &gpu.Device{Planned: true}}); r.Host().Memory != nil {
		t.Errorf("the host of a card that is not here has %v", r.Host().Memory)
	}
}

// What a limit promises counts once per rank, and claims of other accounts refuse nothing.
func TestPromise(t *testing.T) {
	two := PromiseOf(8*unit.GiB, job.Command{Args: []string{"torchrun", "--nproc_per_node=2", "train.py"}}, &job.Job{Batch: job.Batch{Ranks: 4}})
	if two.Ranks != 2 { // on this machine
		t.Errorf("torchrun starts %d", two.Ranks)
	}
	if four := PromiseOf(8*unit.GiB, job.Command{Args: []string{"train"}}, &job.Job{Batch: job.Batch{Ranks: 4}}); four.Ranks != 4 {
		t.Errorf("a job of four ranks promises %d times", four.Ranks)
	}
	mine, theirs := os.Geteuid(), os.Geteuid()+1
	for name, tt := range map[string]struct {
		p     Promise
		total unit.Bytes
		held  []Held
		want  string
		never bool
	}{
		"no limit":           {Promise{0, 1}, unit.GiB, nil, "", false},
		"an unknown machine": {Promise{unit.GiB, 1}, 0, nil, "", false},
		"fits":               {two, 16 * unit.GiB, nil, "", false},
		"too much for all": {
			two, 15 * unit.GiB, nil,
			"--memory 8 GiB for each of 2 processes, 16.0 GiB together, is more than the machine of 15.0 GiB", true,
		},
		"another launch's": {
			two, 20 * unit.GiB, []Held{{Want: host(8 * unit.GiB), UID: mine}}, "other launches hold 8.00 GiB", false,
		},
		"another account's": {two, 20 * unit.GiB, []Held{{Want: host(8 * unit.GiB), UID: theirs}}, "", false},
		"of another resource": {
			two, 20 * unit.GiB,
			[]Held{{Want: Want{Resource: Card("GPU-1"), Bytes: 8 * unit.GiB}, UID: mine}}, "", false,
		},
	} {
		if mine == 0 && name == "another account's" {
			tt.held[0].UID = 12345
		}
		err := tt.p.check("--memory 8 GiB", tt.total, "the machine", tt.held)
		var r *Refusal
		if got := errors.As(err, &r); got != (tt.want != "") || got && (!strings.Contains(r.Why, tt.want) || r.Never != tt.never) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	held := []Held{{Want: host(unit.GiB), UID: mine}, {Want: host(unit.GiB), UID: 4242}}
	if w := crowded(unit.GiB, held); len(w) != 1 ||
		!strings.Contains(w[0], "2.00 GiB, more than the 1.00 GiB of host memory") {
		t.Errorf("two accounts promise twice what there is: %q", w)
	}
}

func host(b unit.Bytes) Want { return Want{Resource: HostMemory, Bytes: b} }

// A limit is not called the machine's memory.
func TestHostDevice(t *testing.T) {
	for limit, want := range map[unit.Bytes]string{0: "this machine's memory",
		unit.GiB: "this machine's memory, limited by --memory"} {
		r, err := Find(t.Context(), Wish{Device: "cpu", Memory: limit}, nil)
		if err != nil || r.Device.Name != want || limit > 0 && r.Device.Total != limit {
			t.Errorf("%v: %+v, %v", limit, r.Device, err)
		}
	}
}

// What a driver does not tell is said.
func TestBlindSpots(t *testing.T) {
	arc := &gpu.Device{Kind: gpu.XPU, Total: 16 * unit.GiB}
	for _, tt := range []struct {
		d    *gpu.Device
		user int
		want int
	}{{nil, 1000, 0}, {arc, 0, 0}, {arc, 1000, 1}, {&gpu.Device{Kind: gpu.XPU}, 1000, 2},
		{&gpu.Device{Kind: gpu.HIP, Total: 1}, 1000, 0}, {&gpu.Device{Kind: gpu.CPU}, 1000, 0}} {
		if got := blindSpots(tt.d, tt.user); len(got) != tt.want {
			t.Errorf("%+v of user %d: %q", tt.d, tt.user, got)
		}
	}
}
