package overlay

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// A witness hears what a program's own Python processes say of their memory: what the card's allocator refused, and
// from where it was asked; the allocator's peaks; the exception that ended a process.
//
// It is a part of the hook that [Install] installs (witness.py), off unless launch or a plugin wants it. The program
// prints and returns what it would without it. What stands in the way is said ([oom.Handshake]) and never stops a run.
//
// It was tried on torch 1.13 and 2.15 without a card, and on a stand-in for torch._C that refuses requests: on no
// card yet.

//go:embed witness.py
var script []byte

// shared is what the parts of the hook have in common.
//
//go:embed shared.py
var shared []byte

const name = "witness.py"

// WitnessPart is what [Install] has to be given for processes to speak.
func WitnessPart() Part { return Part{Name: name, Text: slices.Concat(script, shared)} }

// A Witness hears the processes of one attempt, while they run and after.
type Witness struct {
	path string

	mu     sync.Mutex
	offset int64  // what was read of the report
	torn   []byte // the line that is not yet whole

	allocated, reserved unit.Bytes  // the highest peaks of any process and device
	refused             []line      // the first and the last
	counts              map[int]int // refusals, by process
	failure             *line
	dying               []int // processes that an out-of-memory ends
	booted, ran         int
	old, why            string       // why a process says nothing
	torches, cards      map[int]bool // processes that imported torch, and that use a card
	hook                oom.Handshake
}

// mostKept is how many refusals are kept of the first, and as many of the last.
const mostKept = 16

// WitnessOf is the witness of the processes that load an overlay's hook with [WitnessPart].
func WitnessOf(o *Overlay) *Witness {
	return &Witness{path: o.ReportFile(), counts: map[int]int{}, torches: map[int]bool{}, cards: map[int]bool{}}
}

// Peaks is the most that any process had allocated on a device, and the most that one had reserved, as far as they have
// said so: 0 if none has. last says that all who used a device have had their last word.
func (w *Witness) Peaks() (allocated, reserved unit.Bytes, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
	return w.allocated, w.reserved, w.hook.CUDA > 0 && len(w.cards) == 0
}

// Inside is all that was heard of a program that ended then.
func (w *Witness) Inside(ended time.Time) *oom.Inside {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
	in := &oom.Inside{Hook: w.handshake()}
	for _, l := range w.refused {
		in.Refused = append(in.Refused, oom.Refusal{PID: l.PID, Before: l.before(ended), Numbers: l.numbers(), Frames: l.frames()})
	}
	for _, n := range w.counts {
		in.Count += n
	}
	if l := w.failure; l != nil {
		in.Failure = &oom.Failure{PID: l.PID, Before: l.before(ended), Type: l.Type, Memory: l.Data,
			Allocated: l.Allocated, Reserved: l.Reserved, Frames: l.frames()}
	}
	return in
}

// Dying returns the processes that reported that an out-of-memory ends them. They may still be there: a process that
// ends
// may wait for its threads, or for the card.
func (w *Witness) Dying() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
	return slices.Clone(w.dying)
}

// Unheard returns the report of a program in which the hook could not run. why is the reason.
func Unheard(why string) *oom.Inside { return &oom.Inside{Hook: oom.Handshake{Why: why}} }

// A line is one that witness.py wrote, or the hook itself. Amounts are bytes; Time is in Unix milliseconds.
type line struct {
	Event string
	PID   int
	Time  int64 `json:"ms"`

	Python, Path, Error, Why, Version, Type string
	Observer, N, Device                     int
	Refusals                                int `json:"refused"`
	OOM                                     int

	Requested, Limit, Free, Total, Allocated, Reserved, Data unit.Bytes

	Frames []json.RawMessage
}

func (l *line) before(ended time.Time) time.Duration {
	return max(0, ended.Sub(time.UnixMilli(l.Time)))
}

// numbers are those of a refusal. What an observer is handed for the device's memory is the limit of a memory
// fraction where
// one is set (PyTorch, c10/cuda/CUDACachingAllocator.cpp, where oom_observers_ are called).
func (l *line) numbers() oom.Numbers {
	n := oom.Numbers{Requested: &l.Requested, Capacity: &l.Limit, Allocated: &l.Allocated, Reserved: &l.Reserved, Free: &l.Free}
	if l.Total > 0 && l.Limit < l.Total-l.Total/100 {
		n.Capacity, n.Allowed = &l.Total, &l.Limit
	}
	return n
}

func (l *line) frames() (out []oom.Frame) {
	for _, raw := range l.Frames {
		var f oom.Frame
		if json.Unmarshal(raw, &[]any{&f.Path, &f.Line, &f.Name}) == nil {
			out = append(out, f)
		}
	}
	return out
}

// read takes in what was written since.
func (w *Witness) read() {
	f, err := os.Open(w.path)
	if err != nil { // none has said anything
		return
	}
	defer f.Close()
	if _, err := f.Seek(w.offset, io.SeekStart); err != nil {
		return
	}
	fresh, _ := io.ReadAll(f)
	w.offset += int64(len(fresh))
	text := append(w.torn, fresh...)
	for {
		one, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			w.torn = bytes.Clone(text)
			return
		}
		text = rest
		l := &line{}
		if len(one) > 0 && json.Unmarshal(one, l) == nil {
			w.take(l)
		}
	}
}

func (w *Witness) take(l *line) {
	switch l.Event {
	case "boot":
		w.booted++
		w.old = l.Python
	case "error":
		if filepath.Base(l.Path) == name {
			w.why = "launch's hook could not be loaded: " + l.Error
		}
	case "witness":
		if l.Why == "" {
			w.ran++
		} else {
			w.why = l.Why
		}
	case "torch":
		w.hook.Torch, w.torches[l.PID] = l.Version, true
		if l.Why != "" {
			w.hook.Why = "torch's figures are not known: " + l.Why
		}
	case "cuda":
		w.hook.CUDA++
		w.cards[l.PID] = true
		w.hook.Observed += l.Observer
		if l.Why != "" {
			w.hook.Why = "the hook does not see refused requests: " + l.Why
		}
	case "peak":
		w.allocated, w.reserved = max(w.allocated, l.Allocated), max(w.reserved, l.Reserved)
	case "refused":
		w.counts[l.PID] = max(w.counts[l.PID], l.N)
		if w.refused = append(w.refused, *l); len(w.refused) > 2*mostKept {
			w.refused = append(w.refused[:mostKept], w.refused[mostKept+1:]...)
		}
	case "exit":
		w.counts[l.PID] = max(w.counts[l.PID], l.Refusals)
		delete(w.cards, l.PID)
	case "failed":
		if l.OOM != 0 {
			w.dying = append(w.dying, l.PID)
		}
		// A helper may fail, and nobody minds: what trains counts for more.
		if w.failure == nil || !w.torches[w.failure.PID] && w.torches[l.PID] {
			w.failure = l
		}
	}
}

// handshake says whether the hook was taken.
func (w *Witness) handshake() oom.Handshake {
	h := w.hook
	h.Processes = w.ran
	switch {
	case w.ran > 0:
	case w.booted == 0:
		h.Why = Unread
	case w.why != "":
		h.Why = w.why
	default:
		h.Why = fmt.Sprintf("the program runs Python %s, and the hook needs 3.8 or later", w.old)
	}
	return h
}
