// Package report tells what came of a run or a sweep, once it is over: why it ended and what would have helped
// ([Explain]), a page to look at and to share, and a notice to whoever waits for it ([Notice]).
//
// A page is self-contained HTML, or Markdown for an issue, with plots as SVG and PNG.
//
// [Gather] reads the record of a run. [OfRun] and [OfSweep] are pure functions from what was read to a
// [Report], in which every number names its place in the JSON document of the same record. [HTML] and [Markdown]
// write a report.
package report

import (
	"fmt"
	"strconv"
	"time"

	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// A Num is a number of the record.
type Num struct {
	// At is its place in `launch show --json`, of a sweep in `launch sweep status --json`: keys and indices joined by
	// dots. A "*" stands for every index: the number is then the sum.
	At    string
	Value string // as JSON has it
	Text  string // for a person
}

// A Fact is a name and a value.
type Fact struct {
	Name, Value string
	Num         *Num // beside the value, or in its place; nil: none
}

// A Report is what a page shows. All its texts are masked.
type Report struct {
	Name    string // of the run or the sweep
	Title   string
	State   string
	Good    bool // it succeeded, or is on its way
	Command string
	Summary []Fact
	Notes   []string // what a reader has to know before anything else
	Checks  []Fact   // the checklist at the end of a run

	Attempts    []Attempt
	Ladders     []Ladder
	Asked       []Edit // set by the user, with --set
	Failure     *Failure
	Environment []Fact
	Variables   []string // of the environment

	Sweep *Sweep // nil: a run
	Plots []Drawing
	By    string // the launch that made the report, and when
}

// An Attempt is one attempt of a run.
type Attempt struct {
	Number   int
	Kind     string // "rehearsal", "timing"; "": an attempt at the run itself
	Changes  string
	Why      string
	Ending   string // "running", "cut off", or as the record has it
	Good     bool
	Facts    []Fact
	Phases   []Phase
	Edits    []Edit
	Diff     []Line // of the recipe, as asked and as it was run
	Evidence []string
}

// A Phase is what was predicted and what was measured of a phase.
type Phase struct {
	Name      string
	Rung      string
	Cost      string
	Verdict   string
	Predicted *Num   // nil: not known
	Unknown   string // why it is not known
	Items     []Item
	Measured  []Measured
	Retries   string
}

// An Item is a line of an estimate.
type Item struct {
	Kind, What, From string
	Guess            bool
	Bytes            Num
}

// A Measured is a measured peak.
type Measured struct {
	Is, Bound, From, With string
	Bytes                 Num
	// Off compares it with the prediction: "12 % less than predicted"; "" where the two are not comparable.
	Off string
}

// An Edit is one change of a setting.
type Edit struct{ Knob, Where, From, To, Cost, Why string }

// A Line is a line of a difference, with its mark: "+", "-", "@" or " ".
type Line struct{ Mark, Text string }

// A Ladder is the rungs of a phase.
type Ladder struct {
	Phase string
	At    string // the rung of the shared ladder at which it is priced
	Rungs []Rung
	More  int // rungs that are not listed
}

// A Rung is one way to run a phase.
type Rung struct {
	Name, Cost, Verdict, Taken string
	Asked                      bool
	Estimate                   *Num // nil: not known
	Edits                      []string
}

// A Failure is why a run ended otherwise than with success.
type Failure struct {
	Lines []string // as `launch explain` prints them
}

// A Sweep is the table of a sweep.
type Sweep struct {
	Columns []Column
	Rows    []Row
	More    int // rows that are not listed
}

// A Column is a column of the table.
type Column struct {
	Name    string
	Numeric bool
}

// A Row is a trial.
type Row struct {
	Key   string // links it with the shapes of the plots
	Good  bool
	Cells []Cell
}

// A Cell is a value of the table. Num is nil for a text, and for a number that is not known.
type Cell struct {
	Text string
	Num  *Num
}

// bytesNum is an amount of memory.
func bytesNum(at string, b unit.Bytes) *Num {
	return &Num{At: at, Value: strconv.FormatInt(int64(b), 10), Text: b.String()}
}

// countNum is a count.
func countNum(at string, n int64) *Num {
	s := strconv.FormatInt(n, 10)
	return &Num{At: at, Value: s, Text: s}
}

// floatNum is a number with a fraction.
func floatNum(at string, f float64) *Num {
	return &Num{At: at, Value: strconv.FormatFloat(f, 'g', -1, 64), Text: strconv.FormatFloat(f, 'g', 6, 64)}
}

// speedNum is a measured speed or time, of which four digits mean something.
func speedNum(at string, f float64) *Num {
	n := floatNum(at, f)
	n.Text = ui.Figure(f, 4)
	return n
}

// tookNum is a duration in nanoseconds.
func tookNum(at string, d time.Duration) *Num {
	return &Num{At: at, Value: strconv.FormatInt(int64(d), 10), Text: lasting(d)}
}

// lasting writes a duration for a person.
func lasting(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// minute writes a time for a person, with its zone: the reader may live in another one.
func minute(t time.Time) string { return t.Format("2006-01-02 15:04 MST") }
