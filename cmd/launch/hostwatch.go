package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// The look at a job on the host's memory. A limit there is RLIMIT_DATA, which counts what VmData in /proc/PID/status
// shows, process by process (Linux, mm/mmap.c, may_expand_vm; fs/proc/task_mmu.c, task_mem); pages that are resident are
// another thing, libraries included and lazily touched memory not. The kernel keeps no peak of VmData, so it is looked
// at often. It does keep one of the whole address space, VmPeak: where that has grown since the last look, and what is
// not data has not changed, the difference is a peak of the data that no look has met.
//
// What is missed: a peak within a phase that is shorter than the time between two looks and lower than one before it.
// What is taken for data: a file that is mapped and unmapped between two looks, at the very peak of the address space.

const (
	// hostLook is between two looks, each at the largest process and at one of the others in turn, so that the cost does
	// not follow how many there are. Nor does the time between looks follow what one took: on a busy machine that is
	// mostly waiting, and the looks would come too seldom where they are needed.
	hostLook = 30 * time.Millisecond
	// Finding the processes may take 1 part in 1000 of a core, but is never put off for longer than familyMost.
	familyShare = 1000
	familyLeast = 500 * time.Millisecond
	familyMost  = 5 * time.Second
	// steady is by how much what is not data may change between two looks for VmPeak to tell a peak of data: the
	// loading of a library maps more.
	steady = 256 * unit.KiB
)

// space is what a process has mapped.
type space struct {
	data, size, peak unit.Bytes
}

// hostWatch looks at the processes of the job until ctx is done, and hands see the most data that one of them holds.
func hostWatch(ctx context.Context, pid func() int, see func(held unit.Bytes, counted bool)) {
	last := map[int]space{}
	var family []int
	var counted time.Time // when the family was
	every := time.Duration(0)
	// A ticker of the runtime's costs more: 2.4 % of a core where this costs 1.4, at a hundred looks a second on a busy machine.
	pause := syscall.NsecToTimespec(int64(hostLook))
	largest, turn := 0, 0
	buf := make([]byte, 8<<10)
	for ctx.Err() == nil {
		syscall.Nanosleep(&pause, nil)
		began := time.Now()
		if root := pid(); root > 0 && began.Sub(counted) >= every {
			family = descendants(root)
			counted = time.Now()
			every = min(max(familyLeast, familyShare*counted.Sub(began)), familyMost)
		}
		var held unit.Bytes
		exact := false
		if len(family) == 0 {
			continue
		}
		turn = (turn + 1) % len(family)
		for n, p := range []int{largest, family[turn]} {
			if p == 0 || n == 1 && p == largest {
				continue
			}
			now, ok := spaceOf(p, buf)
			if !ok {
				delete(last, p)
				if p == largest {
					largest = 0
				}
				continue
			}
			most, peak := now.data, false
			if was, seen := last[p]; seen && now.peak > was.peak {
				if other := now.size - now.data; abs(other-(was.size-was.data)) <= steady && now.peak-other >= most {
					most, peak = now.peak-other, true
				}
			}
			last[p] = now
			if now.data > last[largest].data || largest == 0 {
				largest = p
			}
			if most > held {
				held, exact = most, peak
			}
		}
		if held > 0 {
			see(held, exact)
		}
	}
}

func abs(b unit.Bytes) unit.Bytes { return max(b, -b) }

// spaceOf reads the three lines of /proc/PID/status; false where the process is gone.
func spaceOf(pid int, buf []byte) (s space, ok bool) {
	// Without os.File, whose every opening asks the poller first: it doubles what a look costs.
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/status", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return s, false
	}
	n, err := syscall.Read(fd, buf)
	syscall.Close(fd)
	if err != nil {
		return s, false
	}
	for _, want := range []struct {
		name string
		into *unit.Bytes
	}{{"\nVmPeak:", &s.peak}, {"\nVmSize:", &s.size}, {"\nVmData:", &s.data}} {
		_, rest, found := bytes.Cut(buf[:n], []byte(want.name))
		if !found { // a zombie has no memory
			return s, false
		}
		var kib int64
		for _, c := range bytes.TrimLeft(rest, " \t") {
			if c < '0' || c > '9' {
				break
			}
			kib = kib*10 + int64(c-'0')
		}
		*want.into = unit.Bytes(kib) * unit.KiB
	}
	return s, true
}

// descendants lists a process and all that it has started and that still belong to it.
func descendants(pid int) []int {
	family := []int{pid}
	for i := 0; i < len(family) && len(family) < 1000; i++ {
		lists, _ := filepath.Glob("/proc/" + strconv.Itoa(family[i]) + "/task/*/children")
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, word := range bytes.Fields(text) {
				if child, err := strconv.Atoi(string(word)); err == nil {
					family = append(family, child)
				}
			}
		}
	}
	return family
}
