// Package room measures the memory that a job may take: on its device, in host memory, in /dev/shm, beside what other
// launches have claimed there (claim.go). A [Room] is one value that holds the device, what the user reserved, and the
// limit that the kernel enforces.
package room

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
)

// DriverDeadline bounds the wait for the driver: a broken driver must not keep a training from running. A busy machine
// has more time ([proc.WithPatience]).
const DriverDeadline = 3 * time.Second

// Wish says where the user wants the job to run.
type Wish struct {
	Device  string     // "auto", "cpu", an index or a UUID; to choose from: "any", or a list of those
	VRAM    unit.Bytes // plan for a card of this size; 0: for this machine's cards
	Card    gpu.Card   // with VRAM: that card; the zero card if only its size is known
	Memory  unit.Bytes // with Device "cpu": the limit for each process; 0: none
	Reserve unit.Bytes // of the card, kept free
	Decimal bool       // an amount was typed as in "8 GB", and read as 8 GiB
}

// Limit is the limit for each process in host memory, which the kernel enforces (RLIMIT_DATA); 0: none.
func (w Wish) Limit() unit.Bytes {
	if w.Device != "cpu" {
		return 0
	}
	return w.Memory
}

// A Room is the memory that a job may take, on the fullest device that it would use.
type Room struct {
	Device   *gpu.Device // nil if none is known
	Devices  int         // how many the program would see; 0 if unknown
	Warnings []string
	wish     Wish
	all      []gpu.Device // what the driver lists
	seen     []gpu.Device // those that the program would see, or could be given
	promised unit.Bytes   // what other launches have claimed of the device and do not use yet
}

// Find measures the room of a job with this environment. It returns an error if this machine has no such device.
func Find(ctx context.Context, w Wish, env []string) (Room, error) {
	r := Room{wish: w}
	switch {
	case w.Device == "cpu":
		r.Device = hostDevice(w)
		return r, nil
	case w.VRAM > 0:
		name := cmp.Or(w.Card.Name, "a card") + " of " + w.VRAM.String()
		r.Device, r.Devices = &gpu.Device{Kind: w.Card.Kind(), Name: name, Total: w.VRAM, Planned: true}, 1
		if w.Card.Name != "" {
			r.Device.TotalFrom, r.Device.TotalSource = w.Card.From(), w.Card.Source
			r.Device.Capability = w.Card.Capability()
		}
		return r, nil
	}
	var err error
	r.all, err = list(ctx)
	switch {
	case errors.Is(err, drivers.ErrNoDriver):
		if w.Device != "auto" {
			return r, fmt.Errorf("%w; use --device cpu for host memory, or --vram 12GiB to plan for a card of that "+
				"size", err)
		}
		return r, nil
	case err != nil:
		r.Warnings = append(r.Warnings, fmt.Sprintf("launch cannot read the card: %v", err))
		return r, nil
	}
	err = r.among(env, Claims())
	r.Warnings = append(r.Warnings, blindSpots(r.Device, os.Geteuid())...)
	return r, err
}

// blindSpots are what the driver of a card does not tell this user.
func blindSpots(d *gpu.Device, user int) (out []string) {
	if d == nil {
		return nil
	}
	if d.Kind == gpu.XPU && user != 0 {
		out = append(out, "the driver of an Intel card tells only what your own processes hold: what others hold of it "+
			"is not counted")
	}
	if d.OnCard() && d.Total == 0 {
		out = append(out, "the driver does not tell how much memory the card has: --vram 16GiB plans for that much")
	}
	return out
}

// among chooses the fullest device that the job would use: the job must fit there. Of devices to choose from it takes
// the one with the most room, until [Room.Claim] chooses.
func (r *Room) among(env []string, held []Held) error {
	var seen []gpu.Device
	var unsure bool
	var err error
	listed := r.all
	all, silent := gpu.Answering(listed)
	r.all, r.Warnings = all, append(r.Warnings, silent...)
	if r.wish.Device != "auto" && r.wish.Device != Any {
		var ok bool
		if seen, ok = gpu.Pick(r.wish.Device, listed); !ok {
			return fmt.Errorf("no such device among the %d of this machine; run `launch gpus` for a list", len(listed))
		}
		if _, gone := gpu.Answering(seen); len(gone) > 0 {
			return errors.New(gone[0])
		}
	} else if len(all) > 0 || len(silent) == 0 {
		seen, unsure, err = gpu.Visible(env, r.all)
	}
	if r.wish.Device == Any && gpu.Narrowed(env, r.all) == "" {
		seen, unsure = gpu.Leaves(r.all), false
	}
	switch {
	case err != nil && r.wish.Chooses():
		return err
	case err != nil:
		r.Warnings = append(r.Warnings, err.Error())
		return nil
	}
	if unsure {
		r.Warnings = append(r.Warnings, "the cards differ, and CUDA's numbers for them are unknown (it numbers the "+
			"fastest first): set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name cards by UUID")
	}
	r.seen, r.Devices = seen, len(seen)
	switch offers := r.offers(seen, held); {
	case len(seen) == 0:
	case r.wish.Chooses():
		r.Devices = 1
		r.fullest([]Offer{slices.MaxFunc(offers, func(a, b Offer) int { return cmp.Compare(a.Free, b.Free) })})
	default:
		r.fullest(offers)
	}
	return nil
}

// hostDevice returns this machine's memory as a device.
func hostDevice(w Wish) *gpu.Device {
	d := &gpu.Device{Kind: gpu.CPU, Name: "this machine's memory", Total: w.Memory}
	if d.Total > 0 {
		d.Name += ", limited by --memory"
	} else if room := Host().Memory; room != nil { // the machine's free memory, or what a cgroup's limit leaves
		d.Total = room.Free
	}
	return d
}

// Again measures the room again. If the driver no longer answers, the last values stay.
func (r *Room) Again(ctx context.Context, env []string) {
	if r.Device == nil || r.Device.Planned || !r.Device.OnCard() {
		return
	}
	if now, err := Find(ctx, r.wish, env); err == nil && now.Device != nil {
		r.Device, r.all, r.seen, r.promised = now.Device, now.all, now.seen, now.promised
	}
}

// OnHost reports whether the job runs in host memory.
func (r Room) OnHost() bool { return r.Device != nil && r.Device.Kind == gpu.CPU }

// Shared reports whether the device takes its memory from the host's.
func (r Room) Shared() bool { return r.Device != nil && r.Device.Shared }

// Limit is the limit for each process in host memory; 0: none.
func (r Room) Limit() unit.Bytes { return r.wish.Limit() }

// Decimal reports whether an amount of it was typed as in "8 GB", and read as 8 GiB.
func (r Room) Decimal() bool { return r.wish.Decimal }

// Size is the memory that the job may take on the device; 0 if there is no device. For a full device it is 1 byte,
// which is less than any job needs.
func (r Room) Size() unit.Bytes {
	return r.less(func(d gpu.Device) unit.Bytes { return d.Free() - r.promised })
}

// Empty is the memory that the job could take if it had the device alone; 0 if there is no device.
func (r Room) Empty() unit.Bytes { return r.less(func(d gpu.Device) unit.Bytes { return d.Total }) }

func (r Room) less(of func(gpu.Device) unit.Bytes) unit.Bytes {
	if r.Device == nil || r.Device.Total == 0 {
		return 0
	}
	return max(1, of(*r.Device)-r.wish.Reserve)
}

// Reserved returns an error if the user's reserve leaves no memory of the device.
func (r Room) Reserved() error {
	if d, keep := r.Device, r.wish.Reserve; d != nil && keep > 0 && keep >= d.Total {
		return fmt.Errorf("%v leaves no memory of a device of %v", keep, d.Total)
	}
	return nil
}

// Host measures host memory and /dev/shm. With --vram they are unknown: the card's machine is another one.
func (r Room) Host() ladder.HostRooms {
	if r.Device != nil && r.Device.Planned {
		return ladder.HostRooms{}
	}
	return Host()
}
