package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// resultVersion is the version of [result]. Fields are added within a version and never change their meaning.
const resultVersion = 1

// result is the document of --json-file.
type result struct {
	Version int `json:"version"`
	// Summary has the main figures, one level deep.
	Summary  resultSummary `json:"summary"`
	Run      string        `json:"run,omitempty"`
	Ending   run.Ending    `json:"ending"`
	Code     int           `json:"exit_code"`       // launch's
	Error    string        `json:"error,omitempty"` // why launch started nothing
	Whose    string        `json:"whose,omitempty"`
	Stop     *run.Stop     `json:"stop,omitempty"`
	Job      *job.Job      `json:"job,omitempty"`
	Attempts []run.Attempt `json:"attempts,omitempty"`
	Outcome  *run.Outcome  `json:"outcome,omitempty"` // of a command that no plugin recognised
	// Metrics are those of the training as a whole; each attempt has its own, too.
	Metrics metric.Set `json:"metrics,omitempty"`
	// Mixed is from where the run is no longer what it began as, one line each; absent if it is.
	Mixed []string `json:"mixed,omitempty"`
	// Unlike lists what is no longer as when the run began, where launch for that reason did not go on with it.
	Unlike []string `json:"unlike,omitempty"`
	// Checklist is what the training should have reached at its end.
	Checklist []job.CheckResult `json:"checklist,omitempty"`
	// Infeasible is set if the command needs more memory than there is, at every cost that was allowed.
	Infeasible *run.Infeasible `json:"infeasible,omitempty"`
}

// resultSummary is the short form of a [result]. Its fields are those of a sweep's row. null: not known.
type resultSummary struct {
	Ending   run.Ending `json:"ending"`
	ExitCode int        `json:"exit_code"` // launch's
	Cause    string     `json:"cause"`     // why it ended so, in one line; "" after a success
	// Doubtful is why a success is doubtful; "" if it is not.
	Doubtful string `json:"doubtful"`
	// Resume is what became of the last attempt's resume: "resumed", "restarted" or "not checked"; "" if it had none.
	Resume string `json:"resume"`
	// Verdict is that of the last plan: "fits", "may not fit", "cannot fit", or "unknown" if there was none.
	Verdict  string      `json:"verdict"`
	Cost     *string     `json:"cost"`     // the highest cost of that plan's changes
	Changes  string      `json:"changes"`  // of that plan, from the job as asked
	Attempts int         `json:"attempts"` // that were made, without rehearsals and timings
	Short    int         `json:"out_of_memory"`
	Micro    *int64      `json:"micro_batch"` // of the last attempt, as the following
	Accum    *int64      `json:"accumulation"`
	Global   *int64      `json:"global_batch"`
	Peak     *unit.Bytes `json:"peak_bytes"`
	PeakIs   string      `json:"peak_is"` // which quantity the peak is
	Steps    *int64      `json:"steps"`   // the last step that was reported
}

// summary is the short form of what is known at the end.
func (r result) summary() resultSummary {
	s := resultSummary{Ending: r.Ending, ExitCode: r.Code, Cause: r.Error, Verdict: ladder.Unknown.String()}
	if r.Stop != nil {
		s.Cause = r.Stop.Why
		if r.Stop.Refused != nil {
			s.plan(r.Stop.Refused)
		}
	}
	last := r.Outcome
	if last != nil {
		s.Attempts = 1
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Plan.Trial != "" {
			continue
		}
		s.Attempts++
		if a.Outcome.Ending == run.OutOfMemory {
			s.Short++
		}
		s.plan(&a.Plan)
		s.Micro, s.Accum = known(a.Plan.Batch.Micro), known(a.Plan.Batch.Accumulation)
		s.Global = known(a.Plan.Batch.Global())
		last = &a.Outcome
	}
	if last == nil {
		return s
	}
	if s.Doubtful = last.Doubtful; last.Resumption != nil {
		s.Resume = last.Resumption.State
	}
	s.Peak, s.PeakIs, s.Steps = known(last.Peak), last.PeakIs, known(last.Iteration)
	if s.Cause == "" || last.Cause != "" {
		s.Cause = last.Cause
	}
	switch {
	case r.Ending == run.Succeeded && r.Code == 0:
		s.Cause = ""
	case s.Cause == "": // the program succeeded, and launch lost some of its output
		s.Cause = r.Whose
	}
	return s
}

// plan takes over the figures of a plan.
func (s *resultSummary) plan(p *run.Plan) {
	cost := p.Cost.String()
	s.Verdict, s.Cost, s.Changes = p.Verdict().String(), &cost, p.Changes()
}

// known returns a pointer to a value, or nil if it is zero.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// writeResult writes how a launch ended to --json-file, and sends the notices. Every end of a run comes here once.
func writeResult(s settings, say ui.Printer, r result) {
	defer s.notify(say, r.notice(s))
	if s.JSONFile == "" {
		return
	}
	if r.Job != nil {
		j := *r.Job
		j.Asked = record.MaskAsked(j.Asked)
		j.Command.Args, j.Command.Env = record.MaskArgs(j.Command.Args), record.MaskEnv(j.Command.Env)
		j.Command.Sources, j.Command.Formulas = nil, nil
		r.Job = &j
	}
	r.Metrics = run.Metrics(r.Attempts)
	if r.Job != nil {
		r.Checklist = run.Checklist(r.Job, r.Attempts)
	}
	last, room := r.Outcome, unit.Bytes(0)
	if n := len(r.Attempts); n > 0 {
		last, room = &r.Attempts[n-1].Outcome, r.Attempts[n-1].Plan.Room
	}
	if r.Ending == run.OutOfMemory || r.Stop != nil && r.Stop.Code == run.CannotFit {
		r.Infeasible = run.Short(r.Stop, last, room)
	}
	r.Version, r.Summary = resultVersion, r.summary()
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = private.Save(s.JSONFile, append(ui.CleanJSON(b), '\n'))
	}
	if err != nil {
		say.Warn("writing %s: %v", s.JSONFile, err)
	}
}

// checkJSONFile returns an error if --json-file cannot be written. It runs before the program starts.
func checkJSONFile(s settings) error {
	path := s.JSONFile
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", s.Value("json-file", path))
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: no folder %s", s.Value("json-file", path), filepath.Dir(path))
	}
	if !holdsJSON(path) {
		return fmt.Errorf("%s exists, and is no JSON: name another file, or remove it", s.Value("json-file", path))
	}
	return nil
}

// holdsJSON reports whether a file that launch is to replace may be one of its own: the user's script is not, which a
// mistyped flag names. A file that is called so, is empty or is not there may be written, and a pipe and a device.
func holdsJSON(path string) bool {
	if strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") {
		return true
	}
	path, err := private.Follow(path)
	if err != nil {
		return true // another account's link or file: it is not written, which stops no program
	}
	if strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".jsonl") { // perhaps cut short, as by a full disk
		return true
	}
	f, err := file.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head)
	head = bytes.TrimSpace(bytes.TrimPrefix(head[:n], []byte("\ufeff")))
	return n == 0 || bytes.HasPrefix(head, []byte("{")) || bytes.HasPrefix(head, []byte("["))
}

// An ownExit is an error of launch's own with an exit code other than 125.
type ownExit struct {
	error
	code int
}

// withResult writes an error of launch's own to --json-file, so that nobody takes an older result for this run's. An
// exitCode error has already written its result.
func withResult(s settings, err error) error {
	var code exitCode
	if err == nil || errors.As(err, &code) || checkJSONFile(s) != nil {
		return err
	}
	r := result{Ending: notRun, Code: run.OwnTrouble, Error: err.Error(),
		Whose: "launch's: nothing was started"}
	var own *ownExit
	if errors.As(err, &own) {
		r.Code = own.code
	}
	if other := (*unlikeError)(nil); errors.As(err, &other) {
		r.Run, r.Unlike = other.run, other.what
	}
	writeResult(s, reporter(s), r)
	return err
}

// notRun is the ending of a command that launch could not run.
const notRun run.Ending = "not run"

// notWatched is the ending of a program that took the place of launch.
const notWatched run.Ending = "not watched"

// id is how messages name a run.
func id(rec *record.Record) string {
	if rec == nil {
		return "(not recorded)"
	}
	return rec.ID
}
