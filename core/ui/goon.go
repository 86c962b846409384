package ui

import (
	"cmp"
	"strings"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
)

// Take enters what an outcome reports of a run.
func (d *RunDoc) Take(out *run.Outcome) {
	d.Cause, d.ExitCode, d.Signal, d.Lied, d.Iteration, d.Took = cmp.Or(out.Cause, out.Doubtful), out.Code,
		out.Signal, out.Lied, out.Iteration, out.Took
	if out.Peak > 0 {
		d.PeakBytes, d.PeakIs = &out.Peak, out.PeakIs
	}
}

// Continue enters the command that continues a run, or why there is none. stop and out are how the run, and its last attempt,
// ended; nil where they did not. r is nil for a command that no plugin recognised.
func (d *RunDoc) Continue(r *run.Run, stop *run.Stop, out *run.Outcome) {
	d.continues(r, stop, out)
	if len(d.GoOn) > 0 && r != nil && record.HasMask(r.Job.Command.Args) { // a secret of the command was not recorded
		d.GoOn = append(append(d.GoOn, "--"), r.Job.Command.Args...)
		d.When = strings.TrimPrefix(d.When+", with the secrets in the place of "+record.Masked, ", ")
	}
}

func (d *RunDoc) continues(r *run.Run, stop *run.Stop, out *run.Outcome) {
	again := func(when string, flags ...string) {
		d.GoOn, d.When = append([]string{"launch", "resume", d.ID}, flags...), when
		if d.SavedState == nil {
			d.GoOn = append(d.GoOn, "--from-start")
		}
	}
	if stop != nil && out != nil && stop.Why != string(out.Ending) {
		d.Why = stop.Why
	}
	switch {
	case d.State == "running" || d.State == string(run.Succeeded), d.State == run.Doubtful:
	case r == nil:
		d.Not = "by hand: no plugin knows this command, so launch knows no way to resume it (" + ToDeclare + ")"
	case d.State == "cut off":
		again("")
	case out == nil || stop == nil:
	case len(stop.Unlike) > 0:
		again("to mix both experiments, marked so", "--accept")
	case out.Untaken != "", stop.Code == run.OwnTrouble:
		d.Not = "once the settings reach the program"
	case stop.Beyond != nil:
		d.StartsOver = stop.Beyond.Over
		again(cmp.Or(stop.Beyond.Name, ""), strings.Fields(stop.Beyond.Flag)...)
	case stop.By != "":
		again("")
	case stop.Code == run.TryLater:
		again("once there is room")
	case out.Ending == run.Interrupted:
		again("")
	case out.Ending == run.Failed && (out.Report.NotMemory == "time_limit" || out.Report.NotMemory == "preempted"):
		again("with more time")
	case out.Ending == run.Failed:
		again("once what stopped it is mended")
	default:
		d.Not = "launch knows no change with which this job would fit"
	}
}

// Quote is a command as a shell would read it. Words in braces stand as they are: "{attempt}" is the folder that an attempt makes.
func Quote(args []string) string {
	var out []string
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`*?[]{}()<>|&;!#~") && !strings.HasPrefix(a+"/",
			"{attempt}/") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out = append(out, a)
	}
	return strings.Join(out, " ")
}
