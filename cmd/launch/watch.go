package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/nvml"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// watcher samples the card while an attempt runs.
type watcher struct {
	mu    sync.Mutex
	pid   int
	peak  unit.Bytes
	peaks map[string]unit.Bytes
	end   func()
	done  chan struct{}
}

// watch starts sampling the device, if it is one of the driver's.
func (x *executor) watch(ctx context.Context, d *oom.Detector) *watcher {
	w := &watcher{peaks: map[string]unit.Bytes{}, end: func() {}}
	if x.device == nil || x.device.Kind != gpu.CUDA || x.device.Planned || x.device.UUID == "" {
		return w
	}
	ctx, cancel := context.WithCancel(ctx)
	w.end, w.done = cancel, make(chan struct{})
	uuid, before := x.device.UUID, x.device.Used
	go func() {
		defer close(w.done)
		nvml.Watch(ctx, x.settings.Sample, func(_ time.Time, devices []gpu.Device) {
			for _, dev := range devices {
				if dev.UUID == uuid {
					w.see(dev, before, d.State().Phase)
				}
			}
		}) // a driver that stops answering takes the figures away, not the training
	}()
	return w
}

func (w *watcher) started(pid int) {
	w.mu.Lock()
	w.pid = pid
	w.mu.Unlock()
}

// see takes one look: the job's share is that of its own processes, or, where the driver does not tell them apart (in
// a container its pids are the host's), what came on top of what was in use before.
func (w *watcher) see(d gpu.Device, before unit.Bytes, phase string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	used, known := unit.Bytes(0), false
	for _, p := range d.Processes {
		if p.Used >= 0 && w.pid > 0 && descends(p.PID, w.pid) {
			used, known = used+p.Used, true
		}
	}
	if !known {
		used = max(0, d.Used-before)
	}
	w.peak = max(w.peak, used)
	if phase != "" {
		w.peaks[phase] = max(w.peaks[phase], used)
	}
}

func (w *watcher) stop() (unit.Bytes, map[string]unit.Bytes) {
	w.end()
	if w.done != nil {
		<-w.done
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peak, w.peaks
}

// descends reports whether a process is the ancestor or one of its descendants.
func descends(pid, ancestor int) bool {
	for range 64 {
		if pid == ancestor {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		// "pid (comm) state ppid …", and comm may hold anything, parentheses too.
		i := len(stat) - 1
		for i >= 0 && stat[i] != ')' {
			i--
		}
		var state byte
		var parent int
		if i < 0 {
			return false
		}
		if _, err := fmt.Sscanf(string(stat[i+1:]), " %c %d", &state, &parent); err != nil || parent <= 1 {
			return false
		}
		pid = parent
	}
	return false
}
