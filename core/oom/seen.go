package oom

import (
	"fmt"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/unit"
)

// Seen is what was observed of an attempt besides its output. The zero value is nothing at all, as for a log file.
type Seen struct {
	Exit   Exit
	Card   *Card   // nil where no card was observed
	Host   *Host   // nil where host memory was not observed
	Inside *Inside // nil where the program ran without the hook
	// Limit is the kernel's limit on each process of the program; 0: none. Resident is the most that one of them held, and
	// Data the most of what the kernel counts for that limit, as far as it was measured.
	Limit, Resident, Data unit.Bytes
}

// Card sums up the observations of a card until the program ended.
type Card struct {
	Capacity unit.Bytes // all that the driver can allocate
	Free     unit.Bytes // the least that was free in the last observations
	Peak     unit.Bytes // the most that the job's own processes held
	// Others is what other processes held at the fullest of the last observations. Where the driver does not show which
	// processes are the job's, as in a container, it is what was in use before the job began, and Who is empty.
	Others unit.Bytes
	Who    []Holder // the others, the largest first
	Looks  int      // how many observations there were; too few prove nothing
	Every  time.Duration
	// Steady is for how long the job had held about the same amount before the last observation; At is that amount.
	Steady time.Duration
	At     unit.Bytes
	// Fault is what the driver said of the card when it was last looked at, if it no longer answered: "GPU is lost".
	// Mend is what helps, a clause.
	Fault, Mend string
}

// Host sums up the observations of host memory.
type Host struct {
	Room  unit.Bytes // what the job could take when it began
	Least unit.Bytes // the least that was left in the last observations
	By    string     // the tightest limit: "the memory limit of cgroup /job"
	Looks int
}

// Inside is what a hook within the program's processes reported.
type Inside struct {
	Hook    Handshake `json:"hook"`               // in how many processes it worked
	Refused []Refusal `json:"refused,omitempty"`  // out-of-memories in the order of time, caught ones included; if there are many, the first and the last
	Count   int       `json:"refusals,omitempty"` // how many there were; torch catches some itself (cuDNN's search for an algorithm)
	Failure *Failure  `json:"failure,omitempty"`  // what ended a process; if several ranks failed, the first
}

// A Refusal is an allocation that the card's allocator refused.
type Refusal struct {
	PID    int           `json:"pid"`
	Before time.Duration `json:"before_ns"` // the program's end
	printed.Numbers
	Frames []Frame `json:"frames,omitempty"` // outermost first
}

// A Failure is an exception that ended a process.
type Failure struct {
	PID       int           `json:"pid"`
	Before    time.Duration `json:"before_ns"`                 // the program's end
	Type      string        `json:"type"`                      // "torch.OutOfMemoryError"
	Memory    unit.Bytes    `json:"data_bytes,omitempty"`      // what the process had mapped as data; 0 if unknown
	Allocated unit.Bytes    `json:"allocated_bytes,omitempty"` // on its fullest card, when it had ended; 0 where it used none
	Reserved  unit.Bytes    `json:"reserved_bytes,omitempty"`
	Frames    []Frame       `json:"frames,omitempty"`
}

// settled is the longest time between an out-of-memory and the program's end that it caused: the program may still unwind
// its stack, save a state, or wait for other ranks.
const settled = time.Minute

// count is how many refusals there were.
func (in *Inside) count() int {
	if in == nil {
		return 0
	}
	return in.Count
}

// last is the refusal that the program died of, or nil: the one that its exception names or, without a known exception, one
// right before the end.
func (in *Inside) last() *Refusal {
	if in == nil || len(in.Refused) == 0 {
		return nil
	}
	f := in.Failure
	for i, r := range slices.Backward(in.Refused) {
		if f == nil && r.Before <= settled || f != nil && (f.PID == r.PID || printed.Relayed(f.Type)) &&
			r.Before-f.Before <= settled && printed.MemoryError(f.Type) {
			return &in.Refused[i]
		}
	}
	return nil
}

// full reports whether almost nothing of the card was free: at most a fiftieth, or 256 MiB, which a small kernel module or a
// workspace needs.
func (c *Card) full() bool {
	return c != nil && c.Looks > 0 && c.Capacity > 0 && c.Free <= max(c.Capacity/50, 256*unit.MiB)
}

// roomy reports whether every observation found a quarter of the card free. A larger request fails on a roomy card too: so
// this contradicts words that have other meanings, and not an allocator's own.
func (c *Card) roomy() bool {
	return c != nil && c.Looks >= 3 && c.Capacity > 0 && c.Free >= c.Capacity/4
}

// crowded reports whether other processes held a large part of the card, by the limits of gpuKind.
func (c *Card) crowded() bool {
	return c != nil && c.Looks > 0 && c.Capacity > 0 && c.Others > max(c.Capacity/10, unit.GiB)
}

// empty reports whether a fiftieth or less of the host memory that the job could take was left.
func (h *Host) empty() bool { return h != nil && h.Looks > 0 && h.Room > 0 && h.Least <= h.Room/50 }

// A Handshake says how far a hook within the program's processes was taken.
type Handshake struct {
	Processes int    `json:"processes"`       // Python processes that read it
	Torch     string `json:"torch,omitempty"` // the version that they imported; empty where none has
	CUDA      int    `json:"cuda"`            // processes that initialised CUDA
	Observed  int    `json:"observed"`        // those of them in which each request that the allocator refuses is seen
	Why       string `json:"why,omitempty"`   // why nothing was taken, or not all; a clause
}

// Taken reports whether any process read it.
func (h Handshake) Taken() bool { return h.Processes > 0 }

// String says it to a person, in one line.
func (h Handshake) String() string {
	if !h.Taken() {
		return "the hook was not taken: " + h.Why
	}
	s := fmt.Sprintf("the hook was read by %d Python processes", h.Processes)
	if h.Processes == 1 {
		s = "the hook was read by 1 Python process"
	}
	switch {
	case h.Torch == "":
		s += "; no torch was imported"
	case h.CUDA == 0:
		s += fmt.Sprintf("; torch %s; no CUDA was initialised", h.Torch)
	case h.CUDA == h.Observed:
		s += fmt.Sprintf("; torch %s; CUDA was observed in %d", h.Torch, h.CUDA)
	default:
		s += fmt.Sprintf("; torch %s; CUDA was observed in %d of %d", h.Torch, h.Observed, h.CUDA)
	}
	if h.Why != "" {
		s += "; " + h.Why
	}
	return s
}

// An Exit is how a program ended. The zero value is an unknown exit, as for a log file.
type Exit struct {
	Known  bool
	Code   int
	Signal int // the signal that killed it, 0 if none
	// Asked: launch itself passed on a signal of the user's, such as Ctrl-C.
	Asked   bool
	AskedBy int // which signal, where that is known
	// OOMKills counts the kernel's out-of-memory kills in the program's cgroups while it ran. With Counted, 0 means none on
	// the whole machine.
	OOMKills int
	Counted  bool
	// Local are processes on this machine that are known to be the program's; there may be more.
	Local map[int]bool
}

// Exited is the exit of a program that returned code by itself.
func Exited(code int) Exit { return Exit{Known: true, Code: code} }

// Killed is the exit of a program that died of a signal.
func Killed(signal int) Exit { return Exit{Known: true, Signal: signal} }

// fine reports whether a program ended well, by its exit and the plugin's meanings of exit codes.
func (e Exit) fine(codes map[int]string) bool {
	if e.Signal != 0 {
		return false
	}
	if meaning, ok := codes[e.Code]; ok && Ending(meaning) == Succeeded {
		return true
	}
	return e.Code == 0
}

// interrupted reports whether the user caused the exit.
func (e Exit) interrupted(codes map[int]string) bool {
	return e.Asked || e.Signal == sigint || e.Code == 128+sigint || Ending(codes[e.Code]) == Interrupted
}

// bySIGKILL reports whether SIGKILL ended the program, or what it ran in a shell.
func (e Exit) bySIGKILL() bool { return e.Signal == sigkill || e.Code == 128+sigkill }

const (
	sighup  = 1
	sigint  = 2
	sigabrt = 6
	sigbus  = 7
	sigkill = 9
	sigsegv = 11
	sigterm = 15
)
