package oom

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom/printed"
	"github.com/launch-ml/launch/core/unit"
)

// weigh compares the text of a failure with what else was observed. Each source overrules those before it:
//
//  1. Words that have other meanings (Likely) are believed if the card was full, and not if a quarter of it was free.
//     A card that no longer answers is the cause of such words, and of an error of the card.
//  2. Observations of the card show who holds it better than the message's sums.
//  3. The kernel's count of its own kills is certain; [Report.killed] compares a kill with it.
//  4. Near a limit, code that does not check an allocation dies of a fault.
//  5. The hook within the program knows what the allocator refused, and where, whatever was printed.
func (r Report) weigh(seen Seen) Report {
	r.onCard(seen.Card)
	r.weighKill(seen)
	r.unchecked(seen)
	r.inside(seen.Inside)
	if r.OOM {
		r.Cause = r.causeLine()
	}
	return r
}

// onCard compares the words of a failure with the observations of the card.
func (r *Report) onCard(c *Card) {
	if c == nil {
		return
	}
	if r.gone(c); c.Looks == 0 {
		return
	}
	r.trustWords(c)
	if !r.OfCard() {
		return
	}
	switch {
	case c.crowded() && (r.Kind == GPUUnspecified || r.Kind == GPUCapacity && unit.Value(r.Requested) <= c.Capacity):
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

// gone makes a card that no longer answers the cause of what it explains: not of an allocator's own numbers, and not of
// an error of the program's.
func (r *Report) gone(c *Card) {
	shows := printed.FaultNamed(r.NotMemory).Late() || r.secondhand() || slices.Contains([]string{"cuda_unknown",
		"no_device", NoWorkspace, "cublas_failed", "cudnn_failed", "aborted"}, r.NotMemory)
	if c.Fault == "" || r.OOM && (!r.OfCard() || r.Requested != nil) || !r.OOM && !shows && !r.mute() {
		return
	}
	r.holds(NoMemory, Certain)
	r.OOM, r.NotMemory, r.Needs = false, "gpu_lost", 0
	r.Cause = fmt.Sprintf("the card stopped answering the driver while the program ran (%s): %s", c.Fault, c.Mend)
	r.saw(OnCard, "the driver says of the card: "+c.Fault, NoMemory, Certain)
}

// trustWords decides, by how full the card was, on words that have other meanings than out of memory.
func (r *Report) trustWords(c *Card) {
	state := fmt.Sprintf("%v of %v were free when it was last observed", c.Free, c.Capacity)
	switch {
	case r.OfCard() && r.Confidence == Likely && c.roomy():
		r.saw(OnCard, state, NoMemory, Likely)
		r.OOM, r.Kind, r.NotMemory, r.Needs = false, NoMemory, "device_fault", 0
		r.Cause = "the words of a failed allocation, on a card with room: most often the card was broken by an error before them"
	case r.OfCard() && r.Confidence == Likely && c.full():
		r.saw(OnCard, state, r.Kind, Certain)
		r.Confidence = Certain
	case !r.OOM && r.NotMemory == NoWorkspace && c.full():
		r.saw(OnCard, state, GPUCapacity, Likely)
		r.holds(GPUCapacity, Likely)
		r.What = "out of GPU memory: none was left for a library's workspace"
	}
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
	if r.Numbers.Count() > numbers.Count() { // the message has other processes and a limit
		numbers = r.Numbers
	}
	if !r.OfCard() {
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
		out = append(out, frame{path: strings.ReplaceAll(f.Path, `\`, "/"), line: strconv.Itoa(f.Line), name: f.Name})
	}
	return out
}

// weighKill compares what the output prints of a kill with the kernel's own count. The order of the rules matters:
//
//  1. A certain statement of the output is kept: a rank that was out of memory may be killed for it.
//  2. If the kernel counts a kill for memory, that is the cause of a program that was killed, that ended as one does whose
//     worker or rank was killed, or that does not print why. That is certain.
//  3. A SIGKILL on a machine that had no memory left is likely for lack of memory: if the kernel did not send it, a daemon
//     did that watches memory.
//  4. Otherwise, if the kernel has killed nothing for memory on the whole machine, a person or a program killed what was
//     killed there. This machine's count does not include what was killed elsewhere (srun, ssh).
func (r *Report) weighKill(seen Seen) {
	x := seen.Exit
	switch {
	case r.OOM && r.Fatal && r.Confidence == Certain || !x.Known:
	case x.OOMKills > 0:
		r.killedByKernel(x)
	case (x.bySIGKILL() && r.mute() || r.Possible || r.workerKilled()) && seen.Host.empty():
		if !r.workerKilled() {
			r.What = "killed when the host's memory was used up"
		}
		r.holds(HostOOM, Likely)
		r.saw(OnHost, fmt.Sprintf("%v was left of %v (%s)", seen.Host.Least, seen.Host.Room, seen.Host.By), HostOOM, Likely)
	case x.Counted && x.OOMKills == 0:
		r.killedByHand(x)
	}
}

// mute reports whether the output gives no cause.
func (r *Report) mute() bool { return r.Cause == "" && !r.OOM }

// workerKilled reports whether the output says that a worker was killed; it says so after any kill.
func (r *Report) workerKilled() bool {
	return r.OOM && r.Fatal && r.Kind == HostOOM && r.Confidence == Likely
}

// killedByKernel makes the kernel's kills for memory the cause of what they explain.
func (r *Report) killedByKernel(x Exit) {
	switch {
	case r.workerKilled():
		r.starved(r.What, x)
	case x.bySIGKILL():
		r.starved("killed by the kernel for lack of host memory (by its own count)", x)
	case r.mute() || r.Possible || r.secondhand():
		r.starved("a process of the program was killed by the kernel for lack of host memory (by its own count)", x)
	}
}

// killedByHand reports kills on a machine where the kernel killed nothing for memory.
func (r *Report) killedByHand(x Exit) {
	unexplained := r.mute() || r.Possible
	switch {
	case r.workerKilled() && x.Local[r.pid()]:
		r.shot("a loader worker was killed by SIGKILL")
	case x.Signal == sigkill && unexplained:
		r.shot("killed by SIGKILL")
	case x.bySIGKILL() && unexplained: // a shell reports a kill so: what it ran may have been elsewhere
		r.shot("killed by SIGKILL")
		r.Confidence = Likely
	case r.Possible && !x.bySIGKILL():
		r.shot("a process of the program was killed by SIGKILL")
	}
}

// starved records that the kernel killed it.
func (r *Report) starved(what string, x Exit) {
	r.holds(HostOOM, Certain)
	r.What = what
	r.saw(Kernel, fmt.Sprintf("the kernel killed %d of its processes for lack of memory, by the count of their cgroups", x.OOMKills), HostOOM, Certain)
}

// shot records that the kernel did not kill it.
func (r *Report) shot(what string) {
	r.holds(NoMemory, Certain)
	r.OOM, r.NotMemory, r.What = false, byHand, what
	r.Cause = what + ", and the kernel of this machine killed nothing for memory meanwhile: it was a kill -9, a scheduler, " +
		"or a daemon that watches memory (earlyoom, systemd-oomd)"
	r.saw(Kernel, "no process was killed for memory on this machine", NoMemory, Certain)
}

// byHand names a SIGKILL that did not come from the kernel.
const byHand = "killed"

// secondhand reports whether the program ended because another of its processes had ended.
func (r *Report) secondhand() bool {
	switch r.NotMemory {
	case "worker_died", "nccl", "nccl_system", "nccl_usage", "terminated":
		return true
	}
	return r.Cause == "EOFError" // a pipe raises it, without a message, when the process at its other end is gone
}

// workerPID is how torch names a worker (torch/csrc/DataLoader.cpp, THPModule_errorIfAnyWorkerFails, and
// torch/utils/data/dataloader.py).
var workerPID = rx(`DataLoader worker \(pid\S* ?(\d+)`)

// pid is the process id of the worker that the evidence names, or 0.
func (r *Report) pid() int {
	if len(r.Evidence) == 0 {
		return 0
	}
	m := workerPID.FindStringSubmatch(r.Evidence[0].Text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// place takes the phase from the signs if the output does not show it: the phase that was running or, if the program never
// reported that training began, the build. It leaves a refused allocation alone: its message shows the phase.
func (r *Report) place(state State, signs job.Signs) {
	if r.OOM && r.Kind != HostOOM || r.Phase != Unknown && r.Phase != "" || r.Stage != string(Unknown) && r.Stage != "" {
		return
	}
	switch {
	case state.Phase != "":
		r.Phase, r.Stage = signPhase(state.Phase), state.Phase
	case !state.Started && signs.Has(job.Started):
		r.Phase, r.Stage = Build, string(Build)
	}
}

// stopped returns who stopped the program, and why it is not tried again.
func (r *Report) stopped(x Exit) (cause, why string) {
	if r.ordered() {
		return r.Cause, "the scheduler ended it, and would do so again"
	}
	return AskedBy(x.AskedBy), "it was stopped on purpose"
}

// AskedBy describes who stopped a program by a signal that came to launch.
func AskedBy(signal int) string {
	switch signal {
	case sigterm:
		return "stopped by SIGTERM, which was sent to launch"
	case sighup:
		return "stopped by SIGHUP: its terminal was closed"
	}
	return "interrupted by the user"
}
