package main

import (
	"errors"
	"fmt"

	"github.com/launch-ml/launch/core/claim"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/hostmem"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// wanted is what --memory lets the processes of a job have of the host's memory together: the limit holds for each of them. The
// workers of a loader are in no rank of their own: their memory is part of what the limit was chosen for.
func wanted(s settings, c job.Command, j *job.Job) (bytes unit.Bytes, ranks int64) {
	ranks = 1
	if j != nil {
		ranks = max(ranks, j.Batch.Ranks)
	}
	if prog, err := command.Program(c.Args, c.Env, c.Dir); err == nil {
		for _, l := range prog.Launchers {
			if n, _ := l.PerNode(c.Devices); n > 0 { // on this machine; a plugin counts those of all
				ranks = int64(n)
			}
		}
	}
	return limit(s) * unit.Bytes(ranks), ranks
}

// memoryRefused says why there is not as much host memory as --memory promises, with launch's exit code for that, or "".
func memoryRefused(s settings, c job.Command, j *job.Job) (why string, code int) {
	want, ranks := wanted(s, c, j)
	total, by := hostmem.Total()
	if want == 0 || total == 0 {
		return "", 0
	}
	if want > total {
		each := ""
		if ranks > 1 {
			each = fmt.Sprintf(" for each of %d processes, %v together,", ranks, want)
		}
		return fmt.Sprintf("%s%s is more than %s of %v", s.said("memory", s.Memory.String()), each, by, total), run.CannotFit
	}
	if taken := claim.Room(claim.Host, want, total, claim.List()); taken != nil {
		return taken.Error(), run.TryLater
	}
	return "", 0
}

// claimMemory takes what --memory promises, for as long as this launch lives. Where that is not to be had nothing is
// started, unless the user wants it anyway: the claim is nil then, and the error has been reported.
func claimMemory(s settings, say ui.Printer, c job.Command, j *job.Job) (*claim.Claim, error) {
	want, _ := wanted(s, c, j)
	if want == 0 {
		return nil, nil
	}
	why, code := memoryRefused(s, c, j)
	total, _ := hostmem.Total()
	var taken *claim.Taken
	held, err := claim.Take(claim.Host, want, total, s.Anyway || total == 0)
	switch {
	case code == run.CannotFit:
	case errors.As(err, &taken):
		why, code = taken.Error(), run.TryLater
	case err != nil:
		why, code = "", 0
		say.Warn("%v: another launch would not see what this one takes of the host's memory", err)
	}
	if why == "" {
		warnOfOthers(say, total)
		return held, nil
	}
	if s.Anyway {
		say.Warn("%s", why)
		return held, nil
	}
	held.Release()
	r := result{Version: 1, Ending: notRun, Code: code, Error: why, Job: j}
	if code == run.CannotFit {
		r.Ending = "refused"
		why += "; nothing was started (--anyway runs it)"
		r.Stop = &run.Stop{Why: why, Code: code}
	}
	say.Line("%s", why)
	writeResult(s, say, r)
	return nil, exitCode(code)
}

// warnOfOthers reports that too much is promised where the claims of other accounts, which refuse nothing, are counted.
func warnOfOthers(say ui.Printer, total unit.Bytes) {
	sum, others := unit.Bytes(0), unit.Bytes(0)
	for _, h := range claim.List() { // this launch's own is among them
		if h.Resource != claim.Host {
			continue
		}
		sum = min(sum+h.Bytes, 1<<60)
		if !h.Refuses() {
			others = min(others+h.Bytes, 1<<60)
		}
	}
	if others > 0 && total > 0 && sum > total {
		say.Warn("launches hold %v of %v of host memory by their --memory, %v of it other accounts'", sum, total, others)
	}
}
