package observe

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc"
)

// A Ranks follows the ranks of a program by looking at /proc. It is not for several goroutines.
type Ranks struct {
	root  int
	want  int
	outer string

	ranks  []Rank // that were seen, in order
	ended  time.Time
	left   time.Time // when the process of what had ended was gone
	moment uint64    // ended, in clock ticks
	fresh  bool

	next  time.Time     // of the next search for ranks
	wrote map[int]int64 // bytes, by process
	dying map[int]bool  // processes that End was called for
}

// A search for ranks reads much of /proc where a program has many processes: it takes a hundredth of the time at the
// most,
// but there is one every 10 s.
const (
	share  = 100
	seldom = 10 * time.Second
)

// FollowRanks returns a watch of a program by its first process. want is how many ranks the job has on this machine; 0:
// unknown.
func FollowRanks(pid, want int) *Ranks {
	return &Ranks{root: pid, want: want, outer: numberOf(environ(os.Getpid())), wrote: map[int]int64{},
		dying: map[int]bool{}}
}

// Look looks at the program's processes.
func (w *Ranks) Look() {
	now := time.Now()
	if w.ended.IsZero() {
		switch alive := len(w.alive()); {
		case alive == len(w.ranks):
		case alive == 0: // all at once, as at the end of a training
			w.ranks, w.next = nil, now
		default:
			w.end(now)
		}
	}
	if !w.ended.IsZero() && w.left.IsZero() && len(w.Waiting()) == len(w.alive()) {
		w.left = now
	}
	if w.ended.IsZero() && now.Before(w.next) {
		return
	}
	runtime.LockOSThread() // whose time is taken: on a busy machine a search mostly waits
	defer runtime.UnlockOSThread()
	began := threadTime()
	defer func() { w.next = now.Add(min(share*(threadTime()-began), seldom)) }()
	for _, r := range w.search(proc.Family(w.root)) {
		switch {
		case slices.Contains(w.ranks, r):
		case !w.ended.IsZero() && r.start > w.moment:
			w.fresh = true
		default:
			w.ranks = append(w.ranks, r)
		}
	}
}

func (w *Ranks) end(now time.Time) { w.ended, w.moment = now, ticks() }

func (w *Ranks) alive() []Rank {
	return slices.DeleteFunc(slices.Clone(w.ranks), func(r Rank) bool { return !r.alive() })
}

// Number is how many ranks were seen at the same time.
func (w *Ranks) Number() int { return len(w.ranks) }

// Ended returns when the first rank was seen to have ended while others lived on; zero if none has.
func (w *Ranks) Ended() time.Time { return w.ended }

// Left returns when the process of the rank that had ended was seen to be gone; zero while it is there.
func (w *Ranks) Left() time.Time { return w.left }

// End takes a rank as ended that cannot go on though its process is still there. It reports whether pid is a rank.
func (w *Ranks) End(pid int) bool {
	w.dying[pid] = true
	known := slices.ContainsFunc(w.ranks, func(r Rank) bool { return r.PID == pid })
	if known && w.ended.IsZero() {
		w.end(time.Now())
	}
	return known
}

// Fresh reports whether ranks have started after one had ended.
func (w *Ranks) Fresh() bool { return w.fresh }

// Waiting returns the ranks that are alive, of those that were there when the first one ended. A rank that cannot go
// on is
// none of them: it may still upload its log.
func (w *Ranks) Waiting() []Rank {
	if w.ended.IsZero() {
		return nil
	}
	return slices.DeleteFunc(w.alive(), func(r Rank) bool { return w.dying[r.PID] })
}

// much is what a rank may write between two looks, such as lines of a log, and not count as writing a file.
const much = 64 << 10

// Writing reports whether a rank has written more than a few lines since the last call, or waits for a disk.
func (w *Ranks) Writing(of []Rank) (busy bool) {
	for _, r := range of {
		for _, pid := range proc.Family(r.PID) {
			n := written(pid)
			if before, ok := w.wrote[pid]; !ok || n-before > much || onDisk(pid) {
				busy = true
			}
			w.wrote[pid] = n
		}
	}
	return busy
}

// Kill ends a rank with all that it has started.
func (r Rank) Kill() {
	for _, pid := range slices.Backward(proc.Family(r.PID)) {
		if pid != r.PID || r.alive() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

func (r Rank) alive() bool {
	state, _, start, ok := stat(r.PID)
	return ok && start == r.start && state != 'Z' && state != 'X'
}

// search finds the ranks of a family.
func (w *Ranks) search(family []int) []Rank {
	var all []process
	for _, pid := range family {
		_, parent, start, ok := stat(pid)
		if !ok {
			continue
		}
		env := environ(pid)
		all = append(all, process{pid: pid, parent: parent, start: start, number: numberOf(env), first: first(env),
			sockets: sockets(pid), torch: func() bool { return torch(pid) }})
	}
	return choose(all, w.outer, connections(w.root), w.want)
}

// numbers are the variables that give a process its number as a rank: of torch.distributed (torchrun, accelerate,
// Lightning, DeepSpeed), Open MPI, MPICH and Slurm.
var numbers = []string{"LOCAL_RANK=", "RANK=", "OMPI_COMM_WORLD_RANK=", "PMI_RANK=", "SLURM_PROCID="}

// numberOf returns the first of these variables in an environment, with its value; "" for none.
func numberOf(env []string) string {
	for _, name := range numbers {
		for _, kv := range env {
			if strings.HasPrefix(kv, name) {
				return kv
			}
		}
	}
	return ""
}

// first reports whether an environment is that of the first rank of a machine.
func first(env []string) bool {
	return slices.Contains(env, "LOCAL_RANK=0") || slices.Contains(env, "OMPI_COMM_WORLD_LOCAL_RANK=0") ||
		slices.Contains(env, "SLURM_LOCALID=0")
}

func environ(pid int) (env []string) {
	text, _ := os.ReadFile(path(pid, "environ"))
	for kv := range bytes.SplitSeq(text, []byte{0}) {
		env = append(env, string(kv))
	}
	return env
}

func path(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// stat reads the state, the parent and the start time of a process.
func stat(pid int) (state byte, parent int, start uint64, ok bool) {
	text, err := os.ReadFile(path(pid, "stat"))
	if err != nil {
		return 0, 0, 0, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name before it may hold anything
	if len(fields) < 20 {
		return 0, 0, 0, false
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return fields[0][0], parent, start, err == nil
}

// threadTime is how long this thread has had a core.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// ticks is the time since the machine's start in clock ticks, of which Linux shows programs 100 in a second.
func ticks() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return uint64(time.Duration(t.Nano()) / (10 * time.Millisecond))
}

// torch reports whether a process has loaded torch.
func torch(pid int) bool {
	text, _ := os.ReadFile(path(pid, "maps"))
	return bytes.Contains(text, []byte("/libtorch")) || bytes.Contains(text, []byte("/libc10"))
}

// sockets returns the inodes of a process's sockets.
func sockets(pid int) map[string]bool {
	dir := path(pid, "fd")
	entries, _ := os.ReadDir(dir)
	found := map[string]bool{}
	for _, e := range entries {
		link, _ := os.Readlink(dir + "/" + e.Name())
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			found[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return found
}

// connections returns, for the socket of each established TCP connection within a process's network, the socket at its
// other end.
func connections(pid int) map[string]string {
	ends := map[string]string{} // "local remote": inode
	for _, file := range []string{"net/tcp", "net/tcp6"} {
		text, _ := os.ReadFile(path(pid, file))
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "01" {
				ends[f[1]+" "+f[2]] = f[9]
			}
		}
	}
	pairs := map[string]string{}
	for ends1, inode := range ends {
		local, remote, _ := strings.Cut(ends1, " ")
		if other, ok := ends[remote+" "+local]; ok && other != "0" {
			pairs[inode] = other
		}
	}
	return pairs
}

// written is how much a process has written so far, to files and pipes; what it sends by sockets is not counted.
func written(pid int) int64 {
	text, _ := os.ReadFile(path(pid, "io"))
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "wchar: "); ok {
			v, _ := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			return v
		}
	}
	return 0
}

// onDisk reports whether a thread of a process waits for a disk.
func onDisk(pid int) bool {
	tasks, _ := os.ReadDir(path(pid, "task"))
	for _, t := range tasks {
		tid, _ := strconv.Atoi(t.Name())
		if state, _, _, ok := stat(tid); ok && state == 'D' {
			return true
		}
	}
	return false
}
