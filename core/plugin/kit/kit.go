// Package kit tests a plugin: it makes the checks that a plugin has to pass before launch can rely on it, and returns
// what it found as values.
//
// Most of it is one question, asked about every rung: if the user had typed what this rung makes of the job, would
// the plugin answer the same? A rung's edits are made in a copy of the case's folder, as launch makes them, and the
// plugin reads and prices the result as it would any command. A knob that is turned where nobody reads it, an
// estimate that forgets a setting, an edit that cannot be made: each shows as two answers that differ. The kit cannot
// decide whether a price is true; that takes PyTorch (docs/accuracy.md).
//
// `launch plugins test` prints the findings; [github.com/launch-ml/launch/core/plugin/plugintest.Check] is the same for
// a Go test.
package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

// A Finding is one way in which a plugin failed a check.
type Finding struct {
	Check string `json:"check"`           // its name in [Checks]
	Case  string `json:"case,omitempty"`  // empty where no case was asked
	Where string `json:"where,omitempty"` // the rung, the knob, the file or the command
	Want  string `json:"expected"`
	Saw   string `json:"saw"`
	Mend  string `json:"mend"` // what to do about it
}

func (f Finding) String() string {
	s := f.Check
	for _, part := range []string{f.Case, f.Where} {
		if part != "" {
			s += ": " + part
		}
	}
	return s + ": expected " + f.Want + ", saw " + f.Saw
}

// A Case is a command that the plugin is tested on.
type Case struct {
	Name    string
	Command job.Command // its folder is copied, and only the copy is used
	Device  gpu.Device  // the zero value: [Card]
	Expects Expects
	// Sets names the variables of the command's environment that the case itself sets.
	Sets []string
}

// Expects is what the author of a case knows about it. The zero value: the plugin recognises the command.
type Expects struct {
	Micro, Accumulation, Ranks int64 // 0: not known
	Phases                     []string
	Declined                   bool   // it is not of this family
	Caution                    bool   // it is of this family, and left alone
	Wrong                      string // a part of the plugin's error about the command
}

// Card is the device of a case that names none.
var Card = gpu.Device{Kind: gpu.CUDA, Name: "a card of 24 GiB", Total: 24 * unit.GiB, Capability: "8.6"}

// An Opened is a plugin that can be asked.
type Opened struct {
	plugin.Plugin
	// PID is the process that the plugin runs in, and that starts nothing beside it; 0: the processes that the plugin
	// starts are not watched.
	PID   int
	Close func() // may be nil
}

// Options describe a test.
type Options struct {
	// Open starts the plugin. It is called again after the plugin crashed or did not answer.
	Open  func(context.Context) (Opened, error)
	Cases []Case
	// Deadline bounds each answer. launch waits for 5 seconds.
	Deadline time.Duration
	// Foreign are commands of other families; nil: those of [Foreign].
	Foreign []Case
	// Quick leaves out the garbage, which takes most of the time.
	Quick bool
}

// A Result is what became of one case.
type Result struct {
	Case string `json:"case"`
	// Outcome is "recognised", "declined", "left alone", "refused" or "failed".
	Outcome string `json:"outcome"`
	About   string `json:"about,omitempty"` // the job, or the plugin's own sentence
}

// A Report is the outcome of a test.
type Report struct {
	Manifest plugin.Manifest `json:"plugin"`
	Cases    []Result        `json:"cases"`
	Checked  []string        `json:"checked"` // the checks that could be made
	Findings []Finding       `json:"findings"`
}

// Recognised returns the number of cases that were recognised.
func (r *Report) Recognised() (n int) {
	for _, c := range r.Cases {
		if c.Outcome == recognised {
			n++
		}
	}
	return n
}

// Passed reports whether all checks passed, and something was recognised.
func (r *Report) Passed() bool { return len(r.Findings) == 0 && r.Recognised() > 0 }

// maxFindings bounds the findings of one check on one case: a mistake shows on every rung.
const maxFindings = 20

// A tester tests one plugin.
type tester struct {
	Options
	ctx      context.Context
	temp     string
	manifest plugin.Manifest

	mu     sync.Mutex
	opened *Opened // nil: it has to be started
	report *Report
	hung   int // answers that did not come
	starts bool
}

// Run tests a plugin. The error is about the test itself: the plugin cannot be started, a case cannot be copied.
func Run(ctx context.Context, o Options) (*Report, error) {
	temp, err := os.MkdirTemp("", "launch-kit-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the test: %w", err)
	}
	defer os.RemoveAll(temp)
	o.Deadline = cmp.Or(o.Deadline, 5*time.Second)
	t := &tester{Options: o, ctx: ctx, temp: temp, report: &Report{Findings: []Finding{}}}
	defer t.close()
	p, err := t.open()
	if err != nil {
		return nil, err
	}
	t.manifest = p.Manifest()
	t.report.Manifest = t.manifest
	t.checkManifest()
	for _, c := range o.Cases {
		if err := t.run(c); err != nil {
			return nil, fmt.Errorf("recipe %s: %w", c.Name, err)
		}
	}
	if o.Foreign == nil {
		t.Foreign = Foreign()
	}
	if err := t.foreign(); err != nil {
		return nil, err
	}
	t.loaded()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("testing the plugin: %w", err)
	}
	for i, f := range t.report.Findings {
		t.report.Findings[i].Mend = Of(f.Check).Mend
	}
	slices.SortFunc(t.report.Checked, byTable)
	slices.SortStableFunc(t.report.Findings, func(a, b Finding) int { return byTable(a.Check, b.Check) })
	return t.report, nil
}

// byTable compares names of checks by their places in [Checks].
func byTable(a, b string) int {
	at := func(name string) int { return slices.IndexFunc(Checks, func(c Check) bool { return c.Name == name }) }
	return cmp.Compare(at(a), at(b))
}

// held notes that a check could be made.
func (t *tester) held(check string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.report.Checked, check) {
		t.report.Checked = append(t.report.Checked, check)
	}
}

// find adds a finding.
func (t *tester) find(f Finding) {
	t.held(f.Check)
	t.mu.Lock()
	defer t.mu.Unlock()
	same := 0
	for _, other := range t.report.Findings {
		if other == f {
			return
		}
		if other.Check == f.Check && other.Case == f.Case {
			same++
		}
	}
	if same < maxFindings {
		t.report.Findings = append(t.report.Findings, f)
	}
}

// open returns the plugin, and starts it if it is not running.
func (t *tester) open() (*Opened, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opened != nil {
		return t.opened, nil
	}
	p, err := t.Open(t.ctx)
	if err != nil {
		return nil, fmt.Errorf("starting the plugin: %w", err)
	}
	t.opened = &p
	return t.opened, nil
}

// close ends the plugin, so that the next question starts it anew.
func (t *tester) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opened != nil && t.opened.Close != nil {
		t.opened.Close()
	}
	t.opened = nil
}

// folder makes a new folder.
func (t *tester) folder() (string, error) {
	dir, err := os.MkdirTemp(t.temp, "case-")
	if err != nil {
		return "", fmt.Errorf("making a folder for a case: %w", err)
	}
	return dir, nil
}

// errHung is the error of a question that was not answered before the deadline.
var errHung = errors.New("no answer before the deadline")
