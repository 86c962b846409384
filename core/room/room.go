// Package room measures the memory that a job may take: on its device, in host memory, in /dev/shm. A [Room] is one value
// that holds the device, what the user reserved, and the limit that the kernel enforces.
package room

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/nvml"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
)

// DriverDeadline bounds how long the driver is waited for: a broken driver must not keep a training from running.
const DriverDeadline = 3 * time.Second

// Wish is where the user wants the job to run.
type Wish struct {
	Device  string     // "auto", "cpu", an index or a UUID
	VRAM    unit.Bytes // plan for a card of this size that is not here; 0: for those that are here
	Memory  unit.Bytes // with Device "cpu": the limit of each process; 0: none
	Reserve unit.Bytes // of the card, kept free
}

// Limit is the limit of each process in host memory, which the kernel enforces (RLIMIT_DATA); 0: none.
func (w Wish) Limit() unit.Bytes {
	if w.Device != "cpu" {
		return 0
	}
	return w.Memory
}

// A Room is the memory that a job may take, on the fullest device that it would use.
type Room struct {
	Device   *gpu.Device // nil where none is known
	Devices  int         // how many the program would see; 0 where that is unknown
	Warnings []string
	wish     Wish
}

// Find measures the room of a job with this environment. The error says that the wish names no device of this machine.
func Find(ctx context.Context, w Wish, env []string) (Room, error) {
	r := Room{wish: w}
	switch {
	case w.Device == "cpu":
		r.Device = hostDevice(w)
		return r, nil
	case w.VRAM > 0:
		r.Device, r.Devices = &gpu.Device{Kind: gpu.CUDA, Name: "a card of " + w.VRAM.String(), Total: w.VRAM, Planned: true}, 1
		return r, nil
	}
	ctx, cancel := context.WithTimeout(ctx, DriverDeadline)
	defer cancel()
	all, err := nvml.List(ctx)
	switch {
	case errors.Is(err, nvml.ErrNoDriver):
		if w.Device != "auto" {
			return r, fmt.Errorf("%w; --device cpu takes this machine's memory, and --vram 12GiB plans for a card that is not here", err)
		}
		return r, nil
	case err != nil:
		r.Warnings = append(r.Warnings, fmt.Sprintf("the card is not known: %v", err))
		return r, nil
	}
	return r, r.among(all, env)
}

// among chooses the fullest device that the job would use: the job must fit there.
func (r *Room) among(all []gpu.Device, env []string) error {
	named := r.wish.Device != "auto"
	if named {
		env = []string{"CUDA_VISIBLE_DEVICES=" + r.wish.Device, "CUDA_DEVICE_ORDER=PCI_BUS_ID"}
	}
	seen, unsure, err := gpu.Visible(env, all)
	switch {
	case err != nil && named:
		return fmt.Errorf("it names none of the %d devices here; `launch gpus` lists them", len(all))
	case err != nil:
		r.Warnings = append(r.Warnings, err.Error())
		return nil
	}
	if unsure {
		r.Warnings = append(r.Warnings, "the cards differ, and CUDA numbers the fastest first, which the driver does not report: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name cards by UUID")
	}
	r.Devices = len(seen)
	for i := range seen {
		if r.Device == nil || seen[i].Free() < r.Device.Free() {
			r.Device = &seen[i]
		}
	}
	return nil
}

// hostDevice is this machine's memory as a device.
func hostDevice(w Wish) *gpu.Device {
	d := &gpu.Device{Kind: gpu.CPU, Name: "this machine's memory", Total: w.Memory}
	if d.Total == 0 {
		if room := Host().Memory; room != nil { // what the machine has, or the limit of a cgroup
			d.Total = room.Free
		}
	}
	return d
}

// Again measures the room once more. A driver that stopped answering leaves what was known last.
func (r *Room) Again(ctx context.Context, env []string) {
	if r.Device == nil || r.Device.Planned || r.Device.Kind == gpu.CPU {
		return
	}
	if now, err := Find(ctx, r.wish, env); err == nil && now.Device != nil {
		r.Device = now.Device
	}
}

// OnHost reports whether the job runs in host memory.
func (r Room) OnHost() bool { return r.Device != nil && r.Device.Kind == gpu.CPU }

// Limit is the limit of each process in host memory; 0: none.
func (r Room) Limit() unit.Bytes { return r.wish.Limit() }

// Size is what the job may take on the device; 0 where there is none. A device that is full is still a device: the room
// is then less than anything needs.
func (r Room) Size() unit.Bytes { return r.less(gpu.Device.Free) }

// Empty is what the job could take if nobody else used the device; 0 where there is none.
func (r Room) Empty() unit.Bytes { return r.less(func(d gpu.Device) unit.Bytes { return d.Total }) }

func (r Room) less(of func(gpu.Device) unit.Bytes) unit.Bytes {
	if r.Device == nil || r.Device.Total == 0 {
		return 0
	}
	return max(1, of(*r.Device)-r.wish.Reserve)
}

// Reserved reports whether the user's reserve leaves something of the device.
func (r Room) Reserved() error {
	if d, keep := r.Device, r.wish.Reserve; d != nil && keep > 0 && keep >= d.Total {
		return fmt.Errorf("%v leaves nothing of a device of %v", keep, d.Total)
	}
	return nil
}

// Host measures the rooms beside the device's. They are unknown where the card is not here, and so neither is its host.
func (r Room) Host() ladder.HostRooms {
	if r.Device != nil && r.Device.Planned {
		return ladder.HostRooms{}
	}
	return Host()
}
