package mem

import "github.com/launch-ml/launch/core/unit"

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
