package main

import (
	"errors"

	"github.com/launch-ml/launch/core/claim"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// claimMemory claims what --memory promises to a command, for as long as this launch lives. If the memory is not
// available, nothing is started, except with --anyway. An exitCode error was printed already.
func claimMemory(s settings, say ui.Printer, c job.Command, j *job.Job) (*claim.Claim, error) {
	held, warnings, err := room.PromiseOf(s.Limit(), c, j).Take(s.memoryCalled(), s.Anyway)
	for _, w := range warnings {
		say.Warn("%s", w)
	}
	var refused *room.Refusal
	if !errors.As(err, &refused) {
		return held, err
	}
	if s.Anyway {
		say.Warn("%s", refused.Why)
		return held, nil
	}
	why := refused.Why
	r := result{Version: 1, Ending: notRun, Code: run.TryLater, Error: why, Job: j}
	if refused.Never {
		r.Ending, r.Code = "refused", run.CannotFit
		why += "; nothing was started (--anyway runs it)"
		r.Stop = &run.Stop{Why: why, Code: r.Code}
	}
	say.Line("%s", why)
	writeResult(s, say, r)
	return nil, exitCode(r.Code)
}

// memoryCalled is how errors name the limit.
func (s settings) memoryCalled() string { return s.Value("memory", s.Memory.String()) }
