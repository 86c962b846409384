package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
)

// result is the result of a start that is over. A launch that could not write it, because a disk was full or it was
// killed, may have written its run's record, which then has it; else its exit code tells whether the row succeeded.
func (x *Options) result(s sweep.Start, pid int, exit *os.ProcessState) sweep.Result {
	text, err := private.ReadFile(x.Result(s.Trial, s.Number))
	if err == nil {
		r, err := sweep.ReadResult(text)
		if err == nil {
			return r
		}
		if len(text) > 0 && json.Valid(text) {
			return sweep.Result{Ending: sweep.NotRun, Code: run.OwnTrouble, Why: err.Error()}
		}
	}
	lost := sweep.Result{Ending: sweep.Lost, Why: "its launch ended without a result"}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		lost.Why = err.Error()
	}
	h := x.history(s, pid)
	if h != nil {
		if r, ok := Recorded(h); ok {
			return r
		}
		if h.Run() != nil {
			lost.Run, lost.Known = h.ID, true
		}
	}
	if s.Resume != "" { // it had not begun to carry the run, which is as it was
		lost.Run, lost.Known = s.Resume, true
	}
	if exit != nil && exit.Exited() {
		return byCode(lost, exit.ExitCode())
	}
	return lost
}

// byCode is the result of a launch that left nothing but its exit code.
func byCode(r sweep.Result, code int) sweep.Result {
	r.Code = code
	const unwritten = "launch could not write its result: "
	switch code {
	case 0: // launch exits so after a success alone
		r.Ending, r.Why = run.Succeeded, unwritten+"its exit code 0 is all that is known"
	case run.TryLater:
		r.Ending = run.Interrupted
	case run.CannotFit:
		r.Ending = sweep.Refused
	case run.OwnTrouble:
		r.Ending = sweep.NotRun
	default:
		r.Ending, r.Why = run.Failed, fmt.Sprintf("%sit exited %d", unwritten, code)
	}
	return r
}

// history is the record of the run that a start has begun or resumed; nil if it left none.
func (x *Options) history(s sweep.Start, pid int) *record.History {
	if x.Mark != nil {
		return x.Runs.OfRow(x.Mark(s.Trial, s.Number), s.Resume, s.Since)
	}
	id := s.Resume
	if id == "" && pid != 0 {
		id = x.Runs.BegunBy(pid, record.Here(), s.Since)
	}
	if id == "" {
		return nil
	}
	h, _ := x.Runs.Read(id)
	return h
}

// Recorded is the result that a run's record has; false if the run had not come to its end.
func Recorded(h *record.History) (r sweep.Result, ok bool) {
	last, outcome, stop := h.Events[len(h.Events)-1], h.LastOutcome(), h.Stop()
	switch {
	case outcome == nil:
		return r, false
	case last.Code != nil:
	case last.Kind != record.Ended || outcome.Ending != run.Succeeded: // of a success only its end may be missing
		return r, false
	}
	d := map[string]any{"version": 1, "run": h.ID, "ending": outcome.Ending, "stop": stop, "outcome": outcome}
	if last.Code != nil {
		d["exit_code"] = *last.Code
	}
	if of := h.Run(); of != nil {
		delete(d, "outcome")
		all := h.Tried()
		d["job"], d["attempts"], d["metrics"] = of.Job, all, run.Metrics(all)
		var mixed []string
		for _, m := range of.Mixed {
			mixed = append(mixed, m.String())
		}
		d["mixed"] = mixed
		if outcome.Ending == run.OutOfMemory || stop != nil && stop.Code == run.CannotFit {
			d["infeasible"] = run.Short(stop, outcome, 0)
		}
	}
	text, err := json.Marshal(d)
	if err == nil {
		r, err = sweep.ReadResult(text)
	}
	return r, err == nil
}

// mostRead is how much of a trial's output is read at its beginning, and as much at its end.
const mostRead = 1 << 20

// Printed implements [sweep.Keeper].
func (x *Options) Printed(trial int) string {
	f, err := private.Open(Output(x.Folder(trial)), os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, mostRead))
	if info, err := f.Stat(); err == nil && info.Size() > mostRead {
		end, _ := io.ReadAll(io.NewSectionReader(f, max(mostRead, info.Size()-mostRead), mostRead))
		text = append(append(text, '\n'), end...)
	}
	return string(text)
}
