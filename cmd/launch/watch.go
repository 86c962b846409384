package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/nvml"
	"github.com/launch-ml/launch/core/hostmem"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// watcher looks at the memory that a job holds while an attempt runs.
type watcher struct {
	*course
	*looks
	pid  atomic.Int64
	end  func()
	done []chan struct{}
}

// watch starts looking at the device, if it is one of the driver's, or at the processes, if their memory is limited.
func (x *executor) watch(ctx context.Context) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{course: newCourse(), looks: newLooks(x.settings.Sample), end: cancel}
	start := func(look func(context.Context)) {
		done := make(chan struct{})
		w.done = append(w.done, done)
		go func() {
			defer close(done)
			look(ctx)
		}()
	}
	start(func(ctx context.Context) { hostRoomWatch(ctx, hostmem.Look, w.host) })
	w.pooled = x.device == nil || x.device.Kind == gpu.CUDA
	switch d := x.device; {
	case d == nil || d.Planned:
	case d.Kind == gpu.CPU && x.settings.Memory > 0:
		w.is, w.from = mem.Data, "VmData in /proc/PID/status"
		start(func(ctx context.Context) { hostWatch(ctx, func() int { return int(w.pid.Load()) }, w.see) })
	case d.Kind == gpu.CUDA && d.UUID != "":
		w.is, w.from = mem.Used, "NVML"
		uuid, before, alone := d.UUID, d.Used, len(d.Processes) == 0
		start(func(ctx context.Context) {
			nvml.Watch(ctx, x.settings.Sample, func(_ time.Time, devices []gpu.Device) {
				for _, dev := range devices {
					if dev.UUID == uuid {
						w.card(dev, before, alone)
					}
				}
			}) // a driver that stops answering takes the figures away, not the training
		})
	}
	return w
}

func (w *watcher) started(pid int) { w.pid.Store(int64(pid)) }

// card takes one look at a card: the job's share is that of its own processes, or, where the driver does not tell them
// apart (in a container its pids are the host's), what came on top of what was in use before. With others on the card
// that may be theirs.
func (w *watcher) card(d gpu.Device, before unit.Bytes, alone bool) {
	used, known := unit.Bytes(0), false
	var who []oom.Holder
	for _, p := range d.Processes {
		switch {
		case p.Used < 0:
		case w.pid.Load() > 0 && descends(p.PID, int(w.pid.Load())):
			used, known = used+p.Used, true
		default:
			who = append(who, oom.Holder{PID: int64(p.PID), Bytes: p.Used, Name: p.Name, User: p.User})
		}
	}
	if !known {
		used = max(0, d.Used-before)
		w.doubt(!alone)
	}
	w.see(used, false)
	if others := d.Used - used; known {
		w.looks.card(d, used, others, who)
	} else {
		w.looks.card(d, used, before, nil)
	}
}

// stop ends the looking.
func (w *watcher) stop() {
	w.end()
	for _, done := range w.done {
		<-done
	}
	w.finish()
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
