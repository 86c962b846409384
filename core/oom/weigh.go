package oom

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// noWorkspace names an error of CUDA's libraries that a full card causes, among many other things.
const noWorkspace = "no_workspace"

// weigh compares the text of a failure with what else was observed. Each source overrules those before it:
//
//  1. Words that have other meanings (Likely) are believed if the card was full, and not if a quarter of it was free.
//  2. Observations of the card show who holds it better than the message's sums.
//  3. The kernel's count of its own kills is certain; [Report.killed] compares a kill with it.
//  4. Near a limit, code that does not check an allocation dies of a fault.
//  5. The hook within the program knows what the allocator refused, and where, whatever was printed.
func (r Report) weigh(seen Seen) Report {
	r.onCard(seen.Card)
	r.killed(seen)
	r.unchecked(seen)
	r.inside(seen.Inside)
	if r.OOM {
		r.Cause = r.cause()
	}
	return r
}

// saw adds evidence, and the memory that it points to.
func (r *Report) saw(from Source, what string, speaksFor Kind, sure Confidence) {
	r.Evidence = append(r.Evidence[:len(r.Evidence):len(r.Evidence)], Evidence{From: from, Line: Line{Text: what}, For: speaksFor, Sure: sure})
}

// onCard compares the words of a failure with the observations of the card.
func (r *Report) onCard(c *Card) {
	if c == nil || c.Looks == 0 {
		return
	}
	r.trustWords(c)
	if !r.ofCard() {
		return
	}
	switch {
	case c.crowded() && (r.Kind == GPUUnspecified || r.Kind == GPUCapacity && !r.beyond(c.Capacity)):
		r.Kind = GPUContention
	case r.Kind == GPUUnspecified:
		r.Kind = GPUCapacity
	case r.Kind == GPUContention && c.Peak > 0 && !c.crowded() && r.Capacity != nil:
		r.Kind = GPUCapacity // the rest in the message's sums was our own process
	}
	if r.Kind == GPUContention {
		r.HeldBy = c.Who
		what, sure := "others held %v of %v", Certain
		if len(c.Who) == 0 { // the driver does not show whose the rest is
			what, sure = "others held %v of %v before the job began; who holds what now is not known", Likely
		}
		r.saw(OnCard, fmt.Sprintf(what, c.Others, c.Capacity), GPUContention, sure)
	}
	if c.Steady >= time.Minute && r.Phase == Unknown {
		r.saw(OnCard, fmt.Sprintf("the job had held a steady %v for %v before: what failed is no ordinary step", c.At, c.Steady.Round(time.Second)), r.Kind, Likely)
	}
}

// ofCard reports whether a card's memory ran out.
func (r *Report) ofCard() bool { return r.OOM && strings.HasPrefix(string(r.Kind), "gpu_") }

// trustWords decides, by how full the card was, on words that have other meanings than out of memory.
func (r *Report) trustWords(c *Card) {
	state := fmt.Sprintf("%v of %v were free when it was last observed", c.Free, c.Capacity)
	switch {
	case r.ofCard() && r.Confidence == Likely && c.roomy():
		r.saw(OnCard, state, NoMemory, Likely)
		r.OOM, r.Kind, r.NotMemory, r.Needs = false, NoMemory, "device_fault", 0
		r.Cause = "the words of a failed allocation, on a card with room: most often the card was broken by an error before them"
	case r.ofCard() && r.Confidence == Likely && c.full():
		r.saw(OnCard, state, r.Kind, Certain)
		r.Confidence = Certain
	case !r.OOM && r.NotMemory == noWorkspace && c.full():
		r.saw(OnCard, state, GPUCapacity, Likely)
		r.holds(GPUCapacity, Likely)
		r.What = "out of GPU memory: none was left for a library's workspace"
	}
}

// beyond reports whether the request would have failed on an empty card.
func (r *Report) beyond(capacity unit.Bytes) bool {
	return r.Requested != nil && *r.Requested > capacity
}

// unchecked makes memory the likely cause for a program that died near its limit as if it had not checked an allocation.
// The native code of torch and its libraries does so now and then.
func (r *Report) unchecked(seen Seen) {
	x := seen.Exit
	fault := x.Signal == sigsegv || x.Signal == sigbus || x.Signal == sigabrt
	// CPython's message for a C function that failed without an exception (Objects/call.c, _Py_CheckFunctionResult)
	mute := strings.HasPrefix(r.Cause, "SystemError: ") && strings.Contains(r.Cause, "without exception set") || strings.HasPrefix(r.Cause, "SystemError: returned NULL")
	// oneDNN's only message for an allocation that failed; it has other meanings, too
	mute = mute || strings.HasPrefix(r.Cause, "RuntimeError: could not create a primitive") ||
		strings.HasPrefix(r.Cause, "RuntimeError: could not execute a primitive")
	held := max(seen.Resident, seen.Data)
	if r.OOM || !fault && !mute || x.Asked || seen.Limit <= 0 || held <= seen.Limit*4/5 {
		return
	}
	r.holds(CPUAlloc, Likely)
	how := fmt.Sprintf("killed by signal %d", x.Signal)
	if !fault {
		how = r.Cause
	}
	r.What = fmt.Sprintf("%s with %v in use, under a limit of %v: "+
		"code that does not check or report its failed allocations ends like this", how, held, seen.Limit)
	r.saw(Status, r.What, CPUAlloc, Likely)
}

func (r *Report) inside(in *Inside) {
	if in == nil {
		return
	}
	last := in.last()
	died := 0
	if last != nil {
		died = 1
		r.refused(last)
	}
	r.Survived = max(r.Survived, in.Count-died)
	if f := in.Failure; f != nil && last == nil && r.Frame == "" && r.Fatal {
		r.Frame = own(framesOf(f.Frames))
	}
}

// refused takes over what the allocator's own observer reported of the out-of-memory that the program died of.
func (r *Report) refused(last *Refusal) {
	calls := framesOf(last.Frames)
	numbers := last.Numbers
	if r.Numbers.count() > numbers.count() { // the message has other processes and a limit
		numbers = r.Numbers
	}
	if !r.ofCard() {
		r.Kind, r.What = GPUUnspecified, "out of GPU memory"
	}
	r.holds(r.Kind, Certain)
	r.Numbers = numbers
	if kind, limit := gpuKind(&r.Numbers); r.Kind == GPUUnspecified {
		r.Kind, r.Limit = kind, limit
	}
	if r.Allocated != nil && r.Requested != nil {
		r.Needs = *r.Allocated + *r.Requested
	}
	if frame := own(calls); frame != "" {
		r.Frame = frame
	}
	if phase, exact := phaseOf(calls); phase != Unknown && (exact || r.Phase == Unknown) {
		r.Phase = phase
		if r.Stage == string(Unknown) || r.Stage == "" || exact {
			r.Stage = phase.Coarse()
		}
	}
	r.saw(Witness, "the allocator refused a request, by its own observer within the program", r.Kind, Certain)
}

func framesOf(frames []Frame) (out []frame) {
	for _, f := range frames {
		out = append(out, frame{path: f.Path, line: strconv.Itoa(f.Line), name: f.Name})
	}
	return out
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
