package oom

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/unit"
)

// A Kind is the memory that ran out. Each wants a different remedy.
type Kind string

const (
	GPUCapacity      Kind = "gpu_capacity"      // the card, or the limit set on it, is too small for the job
	GPUFragmentation Kind = "gpu_fragmentation" // enough is reserved, in pieces too small
	GPUContention    Kind = "gpu_contention"    // other processes hold the card
	GPUUnspecified   Kind = "gpu_unspecified"   // a GPU ran out, and the text does not show why
	HostOOM          Kind = "host_oom"          // a process was killed for the host's memory
	SharedMemory     Kind = "shm"               // /dev/shm is full
	CPUAlloc         Kind = "cpu_alloc"         // the host refused an allocation
	NoMemory         Kind = "none"              // memory is not the cause
)

// A Phase is the part of the program that failed.
type Phase string

const (
	Build         Phase = "build"
	Data          Phase = "data"
	TrainForward  Phase = "train_forward"
	TrainBackward Phase = "train_backward"
	Optimizer     Phase = "optimizer"
	Validation    Phase = "validation"
	Checkpoint    Phase = "checkpoint" // saving or loading a state
	Unknown       Phase = "unknown"
)

// Coarse returns the phase by its name in ladders and signs: the three parts of a step are all "training".
func (p Phase) Coarse() string {
	switch p {
	case TrainForward, TrainBackward, Optimizer:
		return "training"
	case "":
		return string(Unknown)
	}
	return string(p)
}

// signPhase maps a plugin's phase to this package's; "training" alone does not name a part of a step.
func signPhase(sign string) Phase {
	switch p := Phase(sign); p {
	case Build, Data, TrainForward, TrainBackward, Optimizer, Validation, Checkpoint:
		return p
	}
	return Unknown
}

// A Confidence is how far a report can be trusted.
type Confidence string

const (
	Certain Confidence = "certain" // the text has the allocator's, the kernel's or the plugin's own words for it
	Likely  Confidence = "likely"  // the usual meaning of the text, which has others
	Weak    Confidence = "weak"    // a process was killed, and nothing shows by whom
)

// A Line is where something was read.
type Line struct {
	Stream string `json:"stream,omitempty"`
	Number int    `json:"line"` // from 1; a carriage return starts no new line
	Text   string `json:"text"` // without escape sequences
}

// Numbers are what a message states, and a Process is one that it lists.
type (
	Numbers = printed.Numbers
	Process = printed.Process
)

// A Report is what the output shows about the end of a program.
type Report struct {
	OOM bool `json:"oom"` // something ran out of memory: never on a weak verdict
	// Possible: memory may be the cause, and nothing confirms it. Kind is the memory that it would be. Never with OOM.
	Possible bool `json:"possible"`
	// the program, or the step that printed it, ended there; also true for failures other than OOM
	Fatal bool `json:"fatal"`
	// WentOn: the output shows that the program went on after it.
	WentOn bool `json:"went_on,omitempty"`
	// LaterRun: it ended one program, and the same text goes on with another, which shows no failure.
	LaterRun bool  `json:"later_run,omitempty"`
	Kind     Kind  `json:"kind"`
	Phase    Phase `json:"phase"`
	// AnyForward: it is a forward pass, and no frame and no sign shows whether it is training's.
	AnyForward bool `json:"-"`
	printed.Numbers
	// Rank of the process that printed it, where several ran and the output shows it; else null.
	Rank  *int64 `json:"rank"`
	Frame string `json:"frame,omitempty"` // the innermost frame outside installed packages, "file.py:LINE in func"; null if unknown
	Cause string `json:"cause"`           // one line for a person
	What  string `json:"what"`            // the same in a few words, without place and amounts; "" where nothing was found

	Part       Part       `json:"part,omitempty"`        // what was going on in that phase, where it is known
	Stage      string     `json:"stage"`                 // Phase.Coarse, or the plugin's word for it
	Limit      bool       `json:"limit,omitempty"`       // a limit set for this process was reached, not the card's end
	NotMemory  string     `json:"not_memory,omitempty"`  // what ended it instead of memory: "time_limit", "disk_full", …
	Confidence Confidence `json:"confidence,omitempty"`  // empty where nothing was found
	Evidence   []Evidence `json:"evidence,omitempty"`    // the source of the verdict first, then what supports or contradicts it
	HeldBy     []Holder   `json:"held_by,omitempty"`     // for contention: who holds the rest of the card, the largest first
	Survived   int        `json:"survived,omitempty"`    // out-of-memories that the program survived
	Needs      unit.Bytes `json:"needs_bytes,omitempty"` // allocated + requested: at least so much; 0 if unknown
}

// MarshalJSON writes an unknown frame as null.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	out := struct {
		plain
		Frame *string `json:"frame"`
	}{plain: plain(r)}
	if r.Frame != "" {
		out.Frame = &r.Frame
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads a report. Before Possible existed, a weak verdict was written as an out-of-memory.
func (r *Report) UnmarshalJSON(b []byte) error {
	type plain Report
	err := json.Unmarshal(b, (*plain)(r))
	if r.OOM && r.Confidence == Weak {
		r.OOM, r.Possible = false, true
	}
	return err
}

// holds makes memory the cause of the end.
func (r *Report) holds(kind Kind, how Confidence) {
	r.OOM, r.Possible, r.Fatal, r.Kind, r.NotMemory, r.Confidence = true, false, true, kind, "", how
}

// OfCard reports whether a card's memory ran out.
func (r *Report) OfCard() bool { return r.OOM && strings.HasPrefix(string(r.Kind), "gpu_") }

// saw adds evidence, and the memory that it points to.
func (r *Report) saw(from Source, what string, speaksFor Kind, how Confidence) {
	r.Evidence = append(r.Evidence[:len(r.Evidence):len(r.Evidence)],
		Evidence{From: from, Line: Line{Text: what}, For: speaksFor, Sure: how})
}

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

// A Holder is another process on the card.
type Holder struct {
	PID   int64      `json:"pid"` // of the machine; inside a container no process has it
	Bytes unit.Bytes `json:"bytes"`
	Name  string     `json:"name,omitempty"` // of its program; User is its owner; both where they can be read
	User  string     `json:"user,omitempty"`
}

// String names a holder by what a person can search for.
func (h Holder) String() string {
	name := h.Name
	if name == "" {
		name = "process"
	}
	s := fmt.Sprintf("%s (pid %d", name, h.PID)
	if h.User != "" {
		s += ", " + h.User
	}
	return fmt.Sprintf("%s) with %v", s, h.Bytes)
}

// A Part is what was going on in a phase, where that is known: each has remedies of its own.
type Part string

const (
	Load         Part = "load"          // weights were read, while a model was built
	FirstStep    Part = "first_step"    // no step was finished before, of all or since it resumed: optimizer states are made now
	Metric       Part = "metric"        // a figure of merit was computed
	ImageLogging Part = "image_logging" // images or plots were made for a person to see
	SanityCheck  Part = "sanity_check"  // Lightning's few batches of validation before any training
	Save         Part = "save"          // a state was written
	Resume       Part = "resume"        // a state was read, to go on from it
)

// An Ending is how a run of a program ended, once its output, its exit and its signs were weighed.
type Ending string

const (
	Succeeded   Ending = "succeeded"
	Failed      Ending = "failed"
	OutOfMemory Ending = "out of memory"
	Interrupted Ending = "interrupted"
)

// A Verdict is the ending of one attempt.
type Verdict struct {
	Ending Ending
	Report Report
	Cause  string // one line for a person; empty after a success
	// Retry is true if another attempt with less memory may help; Why gives the reason for either.
	Retry bool
	Why   string
	// Lied: the program exited 0 though it failed.
	Lied bool
	// Silent: it exited 0 and nothing shows a failure, except that it never printed its success line.
	Silent bool
	// Doubt is the evidence against a success that only the exit code shows: the output ends with an out-of-memory. A pipe
	// and "|| true" hide an exit code.
	Doubt string
	// Broken is the error at which the output ends, though the program exited 0 and printed no line of success.
	Broken string
}

// Since 2.13 torch prints a line for each request that the card refused, before it gives back what it caches and asks
// again (c10/cuda/CUDACachingAllocator.cpp). A program that succeeds may print thousands: they show a card that is
// full, and how much it lacked, and prove no failure.

// A Retry is one such line.
type Retry struct {
	Requested, Free, Total unit.Bytes
}

// Retries sums up those of a phase.
type Retries struct {
	Count int `json:"count"`
	// the most that a request was larger than what was free; 0 if it never was
	Short unit.Bytes `json:"short_bytes,omitempty"`
}

// Add adds one.
func (n *Retries) Add(r Retry) { n.Join(Retries{1, r.Requested - r.Free}) }

// Join adds others.
func (n *Retries) Join(o Retries) { n.Count, n.Short = n.Count+o.Count, max(n.Short, o.Short) }

// In returns a clause for a person: "41 times in validation, 380 MiB short". phase may be "".
func (n Retries) In(phase string) string {
	s := unit.Times(n.Count)
	if phase != "" {
		s += " in " + phase
	}
	if n.Short > 0 {
		s += fmt.Sprintf(", %v short", n.Short)
	}
	return s
}

// A Frame is one call: a path, a line, a function.
type Frame struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Name string `json:"name"`
}
