package mem

import (
	"fmt"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// ReceiptVersion is the version of [Receipt]. Fields are added within a version and never change their meaning.
const ReceiptVersion = 1

// A Receipt is one phase of one finished attempt: what was predicted of its memory beside what was measured, and on
// what. It is a value, kept by core/record; what it teaches is [Learn]'s.
type Receipt struct {
	Version int       `json:"v"`
	Run     string    `json:"run"` // the name of the run
	Attempt int       `json:"attempt"`
	Time    time.Time `json:"time"`
	Job     Key       `json:"job"`
	Machine Machine   `json:"machine"`
	Ending  string    `json:"ending"`
	// Imported says that it was written elsewhere: nobody here saw what it says.
	Imported bool `json:"imported,omitempty"`
	// Predicted is the estimate as the plugin priced it, without the single requests and without corrections: what was
	// learned by then is not learned from again.
	Predicted Estimate `json:"predicted"`
	// Planned is the same after corrections, by which it is seen whether learning made it better; absent where unknown.
	Planned  unit.Bytes    `json:"planned_bytes,omitempty"`
	Measured []Measurement `json:"measured"`
}

// ID names a receipt: there is one of a phase of an attempt.
func (r Receipt) ID() string { return fmt.Sprintf("%s/%d/%s", r.Run, r.Attempt, r.Job.Phase) }

// A Key is what a receipt is of: a phase of a job at its settings.
type Key struct {
	Plugin     string `json:"plugin"`
	Arch       string `json:"arch,omitempty"`
	Generation string `json:"generation,omitempty"`
	Phase      string `json:"phase"`
	// Settings are the knobs and the rung's values that it ran with: "micro-batch": "16".
	Settings map[string]string `json:"settings,omitempty"`
	// Program is a digest of the command and its recipe, micro-batch and accumulation left out. It tells models apart
	// of which no formula says anything.
	Program string `json:"program,omitempty"`
	// Project and Python are digests of the command's folder and of its interpreter's path: what a program imports before its
	// first tensor is the project's, and which packages there are the interpreter's. Empty where they are not known.
	Project string `json:"project,omitempty"`
	Python  string `json:"python,omitempty"`
}

// A Machine is what memory depends on beside the job.
type Machine struct {
	Kind       string     `json:"kind"`                  // "cuda" or "cpu"
	Card       string     `json:"card,omitempty"`        // its name
	Total      unit.Bytes `json:"total_bytes,omitempty"` // of a card; a limit on a CPU changes nothing of what is needed
	Capability string     `json:"capability,omitempty"`
	Driver     string     `json:"driver,omitempty"`
	Torch      string     `json:"torch,omitempty"`     // its whole version, build included; empty where it is not known
	Allocator  string     `json:"allocator,omitempty"` // the environment's settings of it
}

// The quantities that a measurement can be of.
const (
	Allocated = "allocated" // live tensors on a card
	Reserved  = "reserved"  // by torch's caching allocator
	Used      = "used"      // by the job's processes, as the driver sees them
	Data      = "data"      // what RLIMIT_DATA counts of the largest process
	Resident  = "resident"  // pages of the largest process: comparable with no estimate
)

// A Bound says how a measurement stands to what the phase needs.
type Bound string

// The bounds.
const (
	Exact   Bound = ""         // a counter's peak
	Sampled Bound = "sampled"  // the largest of many looks: what was between two of them was not seen
	AtLeast Bound = "at least" // it failed there
	AtMost  Bound = "at most"  // it was there before the phase began, or another phase shares it
)

// A Measurement is one measured peak.
type Measurement struct {
	Is    string     `json:"is"`
	Bytes unit.Bytes `json:"bytes"`
	Bound Bound      `json:"bound,omitempty"`
	From  string     `json:"from"` // who measured: "the program's own print", "NVML", "/proc/PID/status"
}

// Find returns the receipt's measurement of a quantity.
func (r Receipt) Find(is string) (Measurement, bool) {
	for _, m := range r.Measured {
		if m.Is == is {
			return m, true
		}
	}
	return Measurement{}, false
}

// limits of what a receipt may say: it may come from a stranger's file.
const (
	mostBytes = 1 << 50
	mostLines = 500
	mostText  = 500
)

// Check reports the first way in which r is no receipt.
func (r Receipt) Check() error {
	switch {
	case r.Version < 1:
		return fmt.Errorf("it is no receipt: it has no version")
	case r.Version > ReceiptVersion:
		return fmt.Errorf("it is of a newer launch (version %d, this one reads %d)", r.Version, ReceiptVersion)
	case r.Run == "" || r.Attempt < 1 || r.Time.IsZero() || r.Job.Plugin == "" || r.Job.Phase == "":
		return fmt.Errorf("it does not say of which run, attempt, time, plugin and phase it is")
	case r.Machine.Kind != "cuda" && r.Machine.Kind != "cpu":
		return fmt.Errorf("%q is no kind of machine", r.Machine.Kind)
	case len(r.Measured) == 0:
		return fmt.Errorf("nothing was measured")
	case len(r.Predicted.Items) > mostLines || len(r.Measured) > mostLines || len(r.Job.Settings) > mostLines || len(r.Predicted.Allocs) > 0:
		return fmt.Errorf("it has more lines than a receipt has")
	case r.Planned < 0 || r.Planned > mostBytes || r.Predicted.Reserved < 0 || r.Predicted.Reserved > mostBytes || r.Machine.Total < 0 || r.Machine.Total > mostBytes:
		return fmt.Errorf("an amount of memory is out of range")
	}
	texts := []string{r.Run, r.Job.Plugin, r.Job.Arch, r.Job.Generation, r.Job.Phase, r.Job.Program, r.Job.Project, r.Job.Python, r.Machine.Card, r.Machine.Capability,
		r.Machine.Driver, r.Machine.Torch, r.Machine.Allocator, r.Ending, r.Predicted.Unknown}
	for k, v := range r.Job.Settings {
		texts = append(texts, k, v)
	}
	for _, m := range r.Measured {
		if m.Bytes <= 0 || m.Bytes > mostBytes {
			return fmt.Errorf("%d bytes %s are out of range", m.Bytes, m.Is)
		}
		if !slices.Contains([]string{Allocated, Reserved, Used, Data, Resident}, m.Is) {
			return fmt.Errorf("%q is no quantity", m.Is)
		}
		if !slices.Contains([]Bound{Exact, Sampled, AtLeast, AtMost}, m.Bound) {
			return fmt.Errorf("%q is no bound", m.Bound)
		}
		texts = append(texts, m.From)
	}
	for _, it := range r.Predicted.Items {
		if it.Bytes < 0 || it.Bytes > mostBytes {
			return fmt.Errorf("the line %s of %s is out of range", it.Kind, it.What)
		}
		texts = append(texts, string(it.Kind), it.What, it.From)
	}
	if r.Predicted.Known() && r.Predicted.Total() <= 0 {
		return fmt.Errorf("what was predicted is neither lines nor unknown")
	}
	for _, t := range texts {
		if len(t) > mostText {
			return fmt.Errorf("a text of %d bytes is longer than those of a receipt", len(t))
		}
		for _, c := range t {
			if c < ' ' || c == 0x7f { // it will stand on a terminal
				return fmt.Errorf("%q has control characters", t)
			}
		}
	}
	return nil
}

// arch reports whether two keys are of the same phase of the same architecture.
func (k Key) arch(o Key) bool {
	return k.Plugin == o.Plugin && k.Arch == o.Arch && k.Generation == o.Generation && k.Phase == o.Phase && (k.Arch != "" || k.Program == o.Program)
}

// imports reports whether what two keys are of imports the same: known to be of one project and one interpreter. What is not
// known, in receipts of before it was kept too, is not the same.
func (k Key) imports(o Key) bool {
	return k.Project != "" && k.Project == o.Project && k.Python != "" && k.Python == o.Python
}

// otherPython reports whether two keys are known to be of two interpreters.
func (k Key) otherPython(o Key) bool {
	return k.Python != "" && o.Python != "" && k.Python != o.Python
}

// How near two machines are. What is measured of a nearer one counts; that of others is then not looked at.
const (
	foreign   = iota // nothing carries over
	otherCard        // live tensors do
	sameCard         // and what the card's kernels ask for
	sameAll          // and the context: driver, torch and allocator are the same
)

func (m Machine) near(o Machine) int {
	switch {
	case m.Kind != o.Kind:
		return foreign
	case m == o, m.Kind == "cpu" && m.Torch == o.Torch && m.Allocator == o.Allocator:
		return sameAll
	case m.Kind == "cpu": // of another torch even the imports are others
		return foreign
	case m.Card == o.Card && m.Total.Round(unit.GiB) == o.Total.Round(unit.GiB):
		return sameCard
	}
	return otherCard
}
