package drivers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/gpu"
)

// List returns the devices of this machine, MIG slices behind their cards: NVIDIA's, and where there are none, those
// that Linux's own files show (AMD's, else Intel's, else a Jetson's). The error wraps [ErrNoDriver] where there is
// none of these.
func List(ctx context.Context) ([]gpu.Device, error) {
	all, err := listNVIDIA(ctx)
	if !none(all, err) {
		return completed(all), err
	}
	others, late := new(files).look(ctx)
	switch {
	case late != nil:
		return nil, late
	case len(others) > 0:
		return others, nil
	}
	return all, err
}

// look is devices, for as long as ctx lasts: a driver that hangs keeps who reads its files.
func (f *files) look(ctx context.Context) ([]gpu.Device, error) { return moving(ctx, f.devices) }

// still is how long no file is read by a driver that hangs, and rounds how many of these are waited for at most.
const (
	still  = time.Second
	rounds = 30
)

// moving is what read returns. Past ctx's deadline it is waited for as long as files are read: many of them are, and a
// busy machine gives this process little time.
func moving(ctx context.Context, read func() []gpu.Device) ([]gpu.Device, error) {
	done := make(chan []gpu.Device, 1)
	go func() { done <- read() }()
	select {
	case all := <-done:
		return all, nil
	case <-ctx.Done():
	}
	before, late := int64(-1), errors.Is(ctx.Err(), context.DeadlineExceeded)
	for i := 0; i < rounds && late && before != reads.Load(); i++ {
		before = reads.Load()
		select {
		case all := <-done:
			return all, nil
		case <-time.After(still):
		}
	}
	return nil, fmt.Errorf("reading the kernel's files of the cards: no answer: %w", ctx.Err())
}

// none reports whether NVIDIA's driver has no card, or is not there.
func none(all []gpu.Device, err error) bool {
	return len(all) == 0 && (err == nil || errors.Is(err, ErrNoDriver))
}

// Watch looks at the devices at once and then every so often, and hands each look to see, until ctx is done or the
// driver fails. It returns nil when ctx ended it.
func Watch(ctx context.Context, every time.Duration, see func(time.Time, []gpu.Device)) error {
	empty := false // the driver is there, and has no card
	nvidia, cancel := context.WithCancel(ctx)
	defer cancel()
	f := new(files)
	err := watchNVIDIA(nvidia, every, func(at time.Time, all []gpu.Device) {
		if len(all) == 0 {
			if others, _ := f.look(ctx); len(others) > 0 {
				empty = true
				cancel()
			}
		}
		if !empty {
			see(at, completed(all))
		}
	})
	if ctx.Err() != nil || !empty && !errors.Is(err, ErrNoDriver) {
		return err
	}
	for seen := false; ; seen = true {
		all, late := f.look(ctx)
		if late != nil {
			return nil
		}
		if len(all) == 0 && !seen {
			return err
		}
		see(time.Now(), all)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// onSystem reports whether a CUDA compute capability is that of a card in a system on a chip, which shares its memory:
// Jetson and GB10 (developer.nvidia.com/cuda-gpus; Thor is 10.1 for CUDA 12 and 11.0 for CUDA 13).
func onSystem(capability string) bool {
	return slices.Contains([]string{"5.3", "6.2", "7.2", "8.7", "10.1", "11.0", "12.1"}, capability)
}

// completed fills in the memory of cards that have none of their own, and what lists say in WSL: there they are empty,
// whatever runs.
func completed(all []gpu.Device) []gpu.Device {
	_, wsl := os.Stat(filepath.Join(Root, "dev/dxg"))
	for i := range all {
		if all[i].Shared {
			all[i].Total, all[i].Used = hostMemory()
		}
		all[i].Unlisted = all[i].Unlisted || wsl == nil && len(all[i].Processes) == 0
	}
	return all
}
