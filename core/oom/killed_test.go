package oom

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// What ended it, by the words, the exit and the kernel's count together.
func TestKilled(t *testing.T) {
	const (
		worker  = traceback + "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. \n"
		gone    = traceback + "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly\n"
		spawned = "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL\n"
		limit   = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***\n"
	)
	local := map[int]bool{4711: true}
	counted := func(e Exit, kills int) Exit {
		e.Known, e.Counted, e.OOMKills, e.Local = true, true, kills, local
		return e
	}
	elsewhere := counted(Exited(1), 0)
	elsewhere.Local = nil
	uncounted := Exited(1)
	uncounted.Local = local
	asked := func(e Exit, by int) Exit {
		e.Known, e.Asked, e.AskedBy = true, true, by
		return e
	}
	trains := job.Signs{Lines: []job.Sign{{Kind: job.Started, Pattern: "starts to train"}, {Kind: job.Succeeded, Pattern: "end of training"},
		{Kind: job.Phase, Phase: "validation", Pattern: "validating"}}}
	for _, tt := range []struct {
		name, output string
		exit         Exit
		want         Ending
		kind         Kind
		sure         Confidence
		stage, cause string
		left         unit.Bytes // of 8 GiB that the host had, 0 if nobody looked
	}{
		{"the kernel, for memory", "", counted(Killed(9), 1), OutOfMemory, HostOOM, Certain, "build", "by its own count", 0},
		{"the same while it validates", "starts to train\nvalidating\n", counted(Killed(9), 1), OutOfMemory, HostOOM, Certain, "validation", "by its own count", 0},
		{"the kernel, after an error that it had printed", "starts to train\n" + traceback + "ValueError: x\n", counted(Killed(9), 1), OutOfMemory, HostOOM, Certain, "", "killed by the kernel", 0},
		{"somebody: the kernel killed nothing", "", counted(Killed(9), 0), Failed, NoMemory, Certain, "build", "killed nothing for memory", 0},
		{"nobody knows", "", Killed(9), Failed, NoMemory, "", "build", "sender unknown", 0},
		{"a worker, the kernel counts it", worker, counted(Exited(1), 1), OutOfMemory, HostOOM, Certain, "data", "a loader worker was killed for lack of host memory", 0},
		{"a worker, nothing is known of the kernel's count", worker, uncounted, OutOfMemory, HostOOM, Likely, "data", "a loader worker", 0},
		{"a worker of this machine, where the kernel killed nobody", worker, counted(Exited(1), 0), Failed, NoMemory, Certain, "data", "a loader worker was killed by SIGKILL, and the kernel", 0},
		{"a worker of another machine", worker, elsewhere, OutOfMemory, HostOOM, Likely, "data", "a loader worker", 0},
		{"a worker is gone, the kernel counts it", gone, counted(Exited(1), 1), OutOfMemory, HostOOM, Certain, "", "a process of the program was killed by the kernel", 0},
		{"a worker is gone, and was not killed", gone, counted(Exited(1), 0), Failed, NoMemory, Likely, "", "a process of the program ended", 0},
		{"a rank, the kernel counts it", spawned, counted(Exited(1), 1), OutOfMemory, HostOOM, Certain, "build", "by its own count", 0},
		{"a rank, somebody", spawned, counted(Exited(1), 0), Failed, NoMemory, Certain, "build", "a process of the program was killed by SIGKILL, and the kernel", 0},
		{"a rank, not known", spawned, Exited(1), Failed, HostOOM, Weak, "", "nothing here confirms it", 0},
		{"a pipe's other end was killed", traceback + "EOFError\n", counted(Exited(1), 1), OutOfMemory, HostOOM, Certain, "", "by its own count", 0},
		{"a pipe's other end is gone, and nobody was killed", traceback + "EOFError\n", counted(Exited(1), 0), Failed, NoMemory, Likely, "", "EOFError", 0},
		{"a file ended early, and nobody was killed", traceback + "EOFError: Ran out of input\n", counted(Exited(1), 1), Failed, NoMemory, Likely, "", "EOFError: Ran out of input", 0},
		{"an assertion, while another process was killed", traceback + "AssertionError: 3 != 4\n", counted(Exited(1), 1), Failed, NoMemory, Likely, "", "AssertionError: 3 != 4", 0},
		{"a rank ran out of the card, and the launcher was killed", traceback + message, counted(Killed(9), 1), OutOfMemory, GPUCapacity, Certain, "", "out of GPU memory", 0},
		{"a worker was killed, and the program did without", "end of training\n", counted(Exited(0), 2), Succeeded, NoMemory, "", "", "", 0},

		{"a worker, not by the kernel, where nothing was left", worker, counted(Exited(1), 0), OutOfMemory, HostOOM, Likely, "data", "a loader worker", 90 * unit.MiB},
		{"the program, likewise", "", counted(Killed(9), 0), OutOfMemory, HostOOM, Likely, "build", "when the host's memory was used up", 90 * unit.MiB},
		{"the program, where much was left", "", counted(Killed(9), 0), Failed, NoMemory, Certain, "build", "killed nothing", 4 * unit.GiB},

		{"SIGTERM to launch", "starts to train\n", asked(Killed(15), 15), Interrupted, NoMemory, "", "training", "stopped by SIGTERM, which was sent to launch", 0},
		{"the terminal is closed", "", asked(Killed(1), 1), Interrupted, NoMemory, "", "build", "SIGHUP", 0},
		{"Ctrl-C", "validating\n", asked(Killed(2), 2), Interrupted, NoMemory, "", "validation", "interrupted by the user", 0},
		{"Ctrl-C that it ignores to the end", "end of training\n", asked(Exited(0), 2), Succeeded, NoMemory, "", "", "", 0},
		{"Ctrl-C, and exit 0 without a word", "starts to train\n", asked(Exited(0), 2), Interrupted, NoMemory, "", "training", "interrupted by the user", 0},
		{"SIGTERM to the program", "", Killed(15), Failed, NoMemory, "", "build", "terminated by SIGTERM", 0},
		{"a time limit that came to launch too", limit, asked(Killed(9), 15), Interrupted, NoMemory, Certain, "", "time limit", 0},
		{"a time limit of the program's step alone", limit, counted(Killed(9), 0), Interrupted, NoMemory, Certain, "", "time limit", 0},
		{"a time limit that it met with success", limit + "end of training\n", Exited(0), Succeeded, NoMemory, "", "", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDetector(t, trains)
			write(t, d, Terminal, tt.output)
			seen := Seen{Exit: tt.exit}
			if tt.left > 0 {
				seen.Host = &Host{Room: 8 * unit.GiB, Least: tt.left, By: "this machine", Looks: 9}
			}
			v := d.Judge(seen, trains)
			r := v.Report
			if v.Ending != tt.want || r.Kind != tt.kind || r.Confidence != tt.sure || tt.stage != "" && r.Stage != tt.stage || !strings.Contains(v.Cause, tt.cause) {
				t.Errorf("judged %q, %s, %q in %q: %s\nwant %q, %s, %q in %q: %s", v.Ending, r.Kind, r.Confidence, r.Stage, v.Cause,
					tt.want, tt.kind, tt.sure, tt.stage, tt.cause)
			}
			if v.Retry != (tt.want == OutOfMemory) || (v.Ending == OutOfMemory) != (r.OOM && r.Fatal) && v.Ending != Succeeded {
				t.Errorf("retry %v (%s), report: oom %v, fatal %v", v.Retry, v.Why, r.OOM, r.Fatal)
			}
			if v.Ending == Succeeded && r.Survived != tt.exit.OOMKills {
				t.Errorf("outlived %d, want %d", r.Survived, tt.exit.OOMKills)
			}
		})
	}
}
