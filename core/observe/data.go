package observe

import (
	"bytes"
	"context"
	"strconv"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/unit"
)

// A job in host memory is limited by RLIMIT_DATA, which counts what VmData in /proc/PID/status shows, process by process
// (Linux, mm/mmap.c, may_expand_vm; fs/proc/task_mmu.c, task_mem). Resident pages are another quantity: libraries are
// among them, memory that was not touched is not. The kernel keeps no peak of VmData, so launch looks at it often. The
// kernel does keep a peak of the whole address space, VmPeak: where that has grown since the last look, and the rest of the
// address space has not changed, the difference is a peak of the data between two looks.
//
// Missed: a peak within a phase that is shorter than the time between two looks and lower than an earlier one.
// Counted by mistake: a file that is mapped and unmapped between two looks, at the very peak of the address space.

const (
	// dataLook is the time between two looks. Each is at the largest process and at one of the others in turn, so that the
	// cost does not grow with their number. The time does not depend on how long a look took: on a busy machine a look
	// mostly waits, and looks would become rare where they are needed.
	dataLook = 30 * time.Millisecond
	// Finding the processes may take 1 part in 1000 of a core, but is never put off for longer than familyMost.
	familyShare = 1000
	familyLeast = 500 * time.Millisecond
	familyMost  = 5 * time.Second
	// steady is how much the rest of the address space may change between two looks for VmPeak to prove a peak of the
	// data: loading a library maps more.
	steady = 256 * unit.KiB
)

// space is the address space of a process.
type space struct {
	data, size, peak unit.Bytes
}

// watchData looks at the processes of the job until ctx is done, and passes the largest data of one of them to see.
func watchData(ctx context.Context, pid func() int, see func(held unit.Bytes, counted bool)) {
	last := map[int]space{}
	var family []int
	var counted time.Time // when the family was
	every := time.Duration(0)
	// time.Ticker costs more: 2.4 % of a core where Nanosleep costs 1.4, at a hundred looks a second on a busy machine.
	pause := syscall.NsecToTimespec(int64(dataLook))
	largest, turn := 0, 0
	buf := make([]byte, 8<<10)
	for ctx.Err() == nil {
		syscall.Nanosleep(&pause, nil)
		began := time.Now()
		if root := pid(); root > 0 && began.Sub(counted) >= every {
			family = proc.Family(root)
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
