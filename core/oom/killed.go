package oom

import (
	"fmt"
	"strconv"

	"github.com/launch-ml/launch/core/job"
)

// killed compares what the output prints of a kill with the kernel's own count. The order of the rules matters:
//
//  1. A certain statement of the output is kept: a rank that was out of memory may be killed for it.
//  2. If the kernel counts a kill for memory, that is the cause of a program that was killed, that ended as one does whose
//     worker or rank was killed, or that does not print why. That is certain.
//  3. A SIGKILL on a machine that had no memory left is likely for lack of memory: if the kernel did not send it, a daemon
//     did that watches memory.
//  4. Otherwise, if the kernel has killed nothing for memory on the whole machine, a person or a program killed what was
//     killed there. This machine's count does not include what was killed elsewhere (srun, ssh).
func (r *Report) killed(seen Seen) {
	x := seen.Exit
	switch {
	case r.OOM && r.Fatal && r.Confidence == Certain || !x.Known:
	case x.OOMKills > 0:
		r.killedByKernel(x)
	case (x.killed() && r.mute() || r.Possible || r.workerKilled()) && seen.Host.empty():
		if !r.workerKilled() {
			r.What = "killed when the host's memory was used up"
		}
		r.holds(HostOOM, Likely)
		r.saw(OnHost, fmt.Sprintf("%v was left of %v (%s)", seen.Host.Least, seen.Host.Room, seen.Host.By), HostOOM, Likely)
	case x.Counted && x.OOMKills == 0:
		r.killedByHand(x)
	}
}

// killed reports whether SIGKILL ended the program, or what it ran in a shell.
func (x Exit) killed() bool { return x.Signal == sigkill || x.Code == 128+sigkill }

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
	case x.killed():
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
	case x.killed() && unexplained: // a shell reports a kill so: what it ran may have been elsewhere
		r.shot("killed by SIGKILL")
		r.Confidence = Likely
	case r.Possible && !x.killed():
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
	case "worker_died", "nccl", "terminated":
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

// ordered reports whether the output shows that a scheduler or a user ended the program.
func (r *Report) ordered() bool {
	switch r.NotMemory {
	case "time_limit", "preempted", "cancelled":
		return true
	}
	return false
}

// stopped returns who stopped the program, and why it is not tried again.
func (r *Report) stopped(x Exit) (cause, why string) {
	switch {
	case r.ordered():
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
