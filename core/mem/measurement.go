package mem

import "github.com/launch-ml/launch/core/unit"

// The quantities that can be measured.
const (
	Allocated = "allocated" // live tensors on a card
	Reserved  = "reserved"  // by torch's caching allocator
	Used      = "used"      // by the job's processes, as the driver sees them
	Data      = "data"      // what RLIMIT_DATA counts, of the largest process
	Resident  = "resident"  // pages of the largest process; not comparable with an estimate
)

// A Bound relates a measurement to what the phase needs.
type Bound string

// The bounds.
const (
	Exact   Bound = ""         // a counter's peak
	Sampled Bound = "sampled"  // the largest of many samples; a peak between two of them was missed
	AtLeast Bound = "at least" // the phase failed at this amount
	AtMost  Bound = "at most"  // from before the phase began, or shared with another phase
)

// A Measurement is one measured peak of a phase.
type Measurement struct {
	Is    string     `json:"is"`
	Bytes unit.Bytes `json:"bytes"`
	Bound Bound      `json:"bound,omitempty"`
	From  string     `json:"from"` // the source: "the program's own print", "NVML", "/proc/PID/status"
}
