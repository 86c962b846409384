package attempt

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A launcher may exit 0 after launch has ended its ranks: the attempt has failed. A user who presses Ctrl-C comes
// first.
func TestEndedRanks(t *testing.T) {
	e := ended{peers: 1, exit: proc.Exit{Cancelled: true}}
	if x := e.forVerdict(); x.Asked || x.Code != 1 {
		t.Errorf("%+v", x)
	}
	e.verdict.Ending, e.onHost = run.Failed, true
	if out := outcome(e, job.Signs{}); out.Ending != run.OutOfMemory || !out.Report.OOM ||
		out.Report.Kind != oom.CPUAlloc || !out.Report.Fatal {
		t.Errorf("a launcher that printed nothing: %+v", out)
	}
	e.exit.Interrupted = true
	if x := e.forVerdict(); !x.Asked || x.Code != 0 {
		t.Errorf("interrupted: %+v", x)
	}
	e.verdict.Ending = run.OutOfMemory
	if out := outcome(e, job.Signs{}); !out.Lied || out.Code != 0 {
		t.Errorf("%+v", out)
	}
}

// What an attempt came to follows from what was observed alone: the exit, the verdict, the program's lines, the
// peaks, and why
// launch ended it.
func TestOutcome(t *testing.T) {
	signs := job.Signs{Lines: []job.Sign{{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)`}}}
	trained := oom.State{Iteration: 12, Moved: true, Varied: true}
	for name, tt := range map[string]struct {
		e    ended
		want string // ending, cause, peak and its quantity; then flags
	}{
		"a success": {ended{verdict: oom.Verdict{Ending: run.Succeeded}, state: trained, peak: unit.GiB, is: mem.Used},
			"succeeded '' 1.00 GiB used stepped"},
		"it printed its own success": {ended{verdict: oom.Verdict{Ending: run.Succeeded}, state: oom.State{Iteration: 12, Moved: true, Succeeded: true}},
			"succeeded '' 0 B  stepped claimed"},
		"a failure that its first line explains": {ended{verdict: oom.Verdict{Ending: run.Failed, Cause: "exit code 3"}, failure: "no such dataset"},
			"failed 'no such dataset' 0 B  fatal"},
		"a failure that the report explains better": {ended{verdict: oom.Verdict{Ending: run.Failed, Cause: "segmentation fault", Report: oom.Report{Cause: "segmentation fault"}}, failure: "no such dataset"},
			"failed 'segmentation fault' 0 B  fatal"},
		"the keeper was killed: nobody knows": {ended{verdict: oom.Verdict{Ending: run.Succeeded, Lied: true}, keeper: proc.ErrKeeper},
			"failed '" + proc.ErrKeeper.Error() + "' 0 B  fatal"},
		"a trial that has taken its steps": {ended{verdict: oom.Verdict{Ending: run.Interrupted, Cause: "SIGTERM"}, state: trained, why: enough},
			"succeeded '' 0 B  stepped"},
		"a trial that ran out of memory before": {ended{verdict: oom.Verdict{Ending: run.OutOfMemory, Cause: "CUDA out of memory"}, why: enough},
			"out of memory 'CUDA out of memory' 0 B "},
		"other settings than planned": {ended{verdict: oom.Verdict{Ending: run.Succeeded, Lied: true}, why: "micro-batch 32"},
			"failed 'it ran without the settings of the plan: micro-batch 32' 0 B  fatal untaken"},
		"nothing looked, on the host": {ended{verdict: oom.Verdict{Ending: run.Succeeded}, onHost: true, exit: proc.Exit{MaxRSS: unit.GiB}},
			"succeeded '' 1.00 GiB " + run.Resident},
		"nothing looked, on a card": {ended{verdict: oom.Verdict{Ending: run.Succeeded}, exit: proc.Exit{MaxRSS: unit.GiB}, state: oom.State{Iteration: -1, Peak: 3 * unit.GiB}, hookPeak: 2 * unit.GiB},
			"succeeded '' 3.00 GiB " + run.Allocated},
		"the hook saw more than the program printed": {ended{verdict: oom.Verdict{Ending: run.Succeeded}, state: oom.State{Peak: unit.GiB}, hookPeak: 2 * unit.GiB},
			"succeeded '' 2.00 GiB " + run.Allocated},
	} {
		out := outcome(tt.e, signs)
		got := fmt.Sprintf("%s '%s' %v %s", out.Ending, out.Cause, out.Peak, out.PeakIs)
		for _, f := range []struct {
			word string
			on   bool
		}{{"stepped", out.Stepped}, {"claimed", out.Claimed}, {"fatal", out.Report.Fatal}, {"untaken", out.Untaken != ""}} {
			if f.on {
				got += " " + f.word
			}
		}
		if strings.TrimSpace(got) != strings.TrimSpace(tt.want) || out.Lied {
			t.Errorf("%s: %s (lied %v), want %s", name, got, out.Lied, tt.want)
		}
	}
}

// Who asked a program to stop is found out from its exit; a signal of launch's own is none.
func TestForVerdict(t *testing.T) {
	for name, tt := range map[string]struct {
		e     ended
		asked bool
		by    syscall.Signal
	}{
		"nobody":                    {ended{}, false, 0},
		"Ctrl-C in the terminal":    {ended{exit: proc.Exit{Interrupted: true}}, true, syscall.SIGINT},
		"a scheduler":               {ended{exit: proc.Exit{Signals: []syscall.Signal{syscall.SIGCONT, syscall.SIGTERM}}}, true, syscall.SIGTERM},
		"told to save its state":    {ended{exit: proc.Exit{Signals: []syscall.Signal{syscall.SIGUSR1}}}, false, 0},
		"launch, for its settings":  {ended{exit: proc.Exit{Cancelled: true}, why: "micro-batch 32"}, false, syscall.SIGTERM},
		"cancelled from the inside": {ended{exit: proc.Exit{Cancelled: true}}, true, syscall.SIGTERM},
	} {
		tt.e.at = time.Now()
		if got := tt.e.forVerdict(); got.Asked != tt.asked || got.AskedBy != int(tt.by) || !got.Known {
			t.Errorf("%s: asked %v by %d, want %v by %d", name, got.Asked, got.AskedBy, tt.asked, tt.by)
		}
	}
	if e := (ended{exit: proc.Exit{OOMKills: -1}}).forVerdict(); e.Counted || e.OOMKills != 0 {
		t.Errorf("kills that nobody counts are %+v", e)
	}
}

// The peak of an attempt is marked if the measurement that it is has memory in it that the job does not need.
func TestBeside(t *testing.T) {
	ms := map[string][]mem.Measurement{"training": {{Is: mem.Allocated, Bytes: 8, Bound: mem.AtMost, With: mem.Trials},
		{Is: mem.Used, Bytes: 9}}}
	for _, tt := range []struct {
		is   string
		peak unit.Bytes
		want string
	}{{mem.Allocated, 8, mem.Trials}, {mem.Used, 9, ""}, {mem.Allocated, 7, ""}} {
		if got := beside(run.Outcome{PeakIs: tt.is, Peak: tt.peak, Measured: ms}); got != tt.want {
			t.Errorf("%d %s: %q, want %q", tt.peak, tt.is, got, tt.want)
		}
	}
}
