package oom

import (
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// A Source is where evidence comes from.
type Source string

const (
	Output  Source = "output" // the program, or what ran it, printed it
	Status  Source = "exit"   // the way it ended
	Kernel  Source = "kernel" // the kernel's own count
	OnCard  Source = "card"   // observations of the card
	OnHost  Source = "host"   // observations of host memory
	Witness Source = "inside" // the hook within the program
)

// Evidence is one thing that was observed, where, and which memory it points to.
type Evidence struct {
	From Source `json:"from"`
	Line        // where the output has it; other sources have only a text, in our words
	// For is the memory that ran out according to it; "none" if it contradicts that.
	For  Kind       `json:"for"`
	Sure Confidence `json:"sure"`
}

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
}

// A Holder is another process on the card.
type Holder struct {
	PID   int64      `json:"pid"` // of the machine; inside a container no process has it
	Bytes unit.Bytes `json:"bytes"`
	Name  string     `json:"name,omitempty"` // of its program; User is its owner; both where they can be read
	User  string     `json:"user,omitempty"`
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
	Numbers
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

// A Frame is one call: a path, a line, a function.
type Frame struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Name string `json:"name"`
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
		if f == nil && r.Before <= settled || f != nil && (f.PID == r.PID || relayed(f.Type)) && r.Before-f.Before <= settled && memoryError(f.Type) {
			return &in.Refused[i]
		}
	}
	return nil
}

// memoryError reports whether an exception's type may be an out-of-memory's. Until torch 1.12 it was a RuntimeError, and
// programs wrap it.
func memoryError(name string) bool {
	name = name[strings.LastIndexByte(name, '.')+1:]
	return name == "OutOfMemoryError" || name == "MemoryError" || name == "RuntimeError" || name == "AcceleratorError" || relayed(name)
}

// relayed reports whether an exception is the parent's report of a child's death (torch/multiprocessing/spawn.py).
func relayed(name string) bool { return strings.HasSuffix(name, "ProcessRaisedException") }

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
