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

// RLIMIT_DATA limits a job in host memory. It counts, for each process, what VmData in /proc/PID/status shows (Linux,
// mm/mmap.c, may_expand_vm; fs/proc/task_mmu.c, task_mem). Resident pages are another quantity: they include libraries,
// and exclude memory that was never touched. The kernel keeps no peak of VmData, so launch reads it often. It does keep
// a peak of the whole address space, VmPeak: if that has grown since the last reading, and the rest of the address
// space has not changed, the difference is a peak of the data between two readings.
//
// Missed: a peak that is shorter than the time between two readings and lower than an earlier one. Counted by mistake:
// a file that is mapped and unmapped between two readings, exactly at the peak of the address space.

const (
	// dataLook is the time between two readings. Each reads the largest process and one of the others, in turn, so that
	// the cost does not grow with the number of processes. The time does not depend on how long a reading took: on a
	// busy machine a reading mostly waits, and readings would become rare when they are needed.
	dataLook = 30 * time.Millisecond
	// Finding the processes may take 1/1000 of a core's time, but happens at least every familyMost.
	familyShare = 1000
	familyLeast = 500 * time.Millisecond
	familyMost  = 5 * time.Second
	// steady is how much the rest of the address space may change between two readings, so that VmPeak still proves a
	// peak of the data. Loading a library changes it by more.
	steady = 256 * unit.KiB
)

// space is the size of a process's address space, in bytes.
type space struct {
	data, size, peak unit.Bytes
}

// watchData reads the processes of the job until ctx is done. It passes the largest data size of one process to see.
func watchData(ctx context.Context, pid func() int, see func(held unit.Bytes, counted bool)) {
	last := map[int]space{}
	var family []int
	var counted time.Time // when the processes were found
	every := time.Duration(0)
	// time.Ticker costs more: 2.4 % of a core, Nanosleep 1.4 %, at a hundred readings a second on a busy machine.
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

// spaceOf reads the three lines of /proc/PID/status. It returns false if the process is gone.
func spaceOf(pid int, buf []byte) (s space, ok bool) {
	// Not os.Open: it asks the poller each time, which doubles the cost of a reading.
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
		if !found { // a zombie has none of these lines
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
