package oom

import (
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// A Source is who has seen something.
type Source string

const (
	Output  Source = "output" // the program, or what ran it, printed it
	Status  Source = "exit"   // the way it ended
	Kernel  Source = "kernel" // the kernel's own count
	OnCard  Source = "card"   // looks at the card
	OnHost  Source = "host"   // looks at the host's memory
	Witness Source = "inside" // the hook within the program
)

// Evidence is one thing that was seen: what, where, and what it speaks for.
type Evidence struct {
	From Source `json:"from"`
	Line        // where it stands, of an output; else only its text, in our words
	// For is the memory that it says ran out; "none" where it speaks against that.
	For  Kind       `json:"for"`
	Sure Confidence `json:"sure"`
}

// Seen is what was seen of an attempt beside what it printed. The zero value is nothing at all, as of a log file.
type Seen struct {
	Exit   Exit
	Card   *Card   // nil where nobody looked at a card
	Host   *Host   // nil where nobody looked at the host's memory
	Inside *Inside // nil where the program ran without the hook
	// Limit is what the kernel held each process of the program to; 0: nothing. Resident is the most that one of them held.
	Limit, Resident unit.Bytes
}

// Card is what looks at a card have seen of it until the program ended.
type Card struct {
	Capacity unit.Bytes // what the driver can give out
	Free     unit.Bytes // the least that was free in the last looks
	Peak     unit.Bytes // the most that the job's own processes held
	// Others is what others held at the fullest of the last looks. Where the driver does not tell the job's processes from
	// theirs, as in a container, it is what was in use before the job began, and Who is empty.
	Others unit.Bytes
	Who    []Holder // the others, the largest first
	Looks  int      // how many there were; of too few nothing follows
	Every  time.Duration
	// Steady is for how long the job had held about the same before its last look, and At how much that was.
	Steady time.Duration
	At     unit.Bytes
}

// A Holder is a process of somebody's on the card.
type Holder struct {
	PID   int64      `json:"pid"` // of the host; in a container it names nobody
	Bytes unit.Bytes `json:"bytes"`
	Name  string     `json:"name,omitempty"` // of its program, and its owner, where they can be read
	User  string     `json:"user,omitempty"`
}

// Host is what looks at the host's memory have seen.
type Host struct {
	Room  unit.Bytes // what the job could take when it began
	Least unit.Bytes // the least that was left in the last looks
	By    string     // the tightest limit: "the memory limit of cgroup /job"
	Looks int
}

// Inside is what a hook within the program's processes reported.
type Inside struct {
	Hook    Handshake `json:"hook"`               // how far it was taken
	Refused []Refusal `json:"refused,omitempty"`  // out-of-memories, in the order of time, those that were caught too; of many the first and the last
	Count   int       `json:"refusals,omitempty"` // how many there were; torch catches some itself (cuDNN's search for an algorithm)
	Failure *Failure  `json:"failure,omitempty"`  // what ended a process; of several ranks the first
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

// settled is how long before a program's end an out-of-memory may lie that it died of: unwinding, a state that is saved on
// the way out, other ranks that wait.
const settled = time.Minute

// count is how many refusals there were.
func (in *Inside) count() int {
	if in == nil {
		return 0
	}
	return in.Count
}

// last is the refusal that the program died of, if it died of one: its own exception says so, or no other is known and it
// came right before the end.
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

// relayed reports whether an exception is a parent's, which a child of it died of (torch/multiprocessing/spawn.py).
func relayed(name string) bool { return strings.HasSuffix(name, "ProcessRaisedException") }

// full says that next to nothing of the card was free: less than a fiftieth, or than 256 MiB, which is what a small kernel
// module or a workspace takes.
func (c *Card) full() bool {
	return c != nil && c.Looks > 0 && c.Capacity > 0 && c.Free <= max(c.Capacity/50, 256*unit.MiB)
}

// roomy says that at no look less than a quarter of the card was free. A request that is larger fails on a roomy card too:
// so this speaks against words that have other meanings, and not against an allocator's own.
func (c *Card) roomy() bool {
	return c != nil && c.Looks >= 3 && c.Capacity > 0 && c.Free >= c.Capacity/4
}

// crowded says that others held more of the card than may be overlooked: the limits of gpuKind.
func (c *Card) crowded() bool {
	return c != nil && c.Looks > 0 && c.Capacity > 0 && c.Others > max(c.Capacity/10, unit.GiB)
}

// empty says that a fiftieth or less of what the job could take was left on the host.
func (h *Host) empty() bool { return h != nil && h.Looks > 0 && h.Room > 0 && h.Least <= h.Room/50 }
