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
	// With is memory in it that the phase does not need: [Trials], or "".
	With string `json:"with,omitempty"`
}

// Trials are the workspaces of cuDNN's trials. With torch.backends.cudnn.benchmark the first convolution of each shape
// tries all algorithms with one workspace, as large as the largest of them wants and the card has. It is given back
// before the algorithm that was chosen runs; where it is refused, half of it is tried, and algorithms that want more
// are left out (get_plans_from_find, generate_and_filter_plans, run_single_conv and try_plans in
// aten/src/ATen/native/cudnn/Conv_v8.cpp of pytorch/pytorch at 06ca69ca; in torch 1 getMaxWorkspaceSize, Workspace and
// try_all in Conv_v7.cpp at 01b468ad). So it is in the allocator's peaks, and no job needs it: traiNNer-redux's Stream
// at batch 32 printed a peak of 8.09 GiB, and 6.40 GiB reserved in the same line (RTX 3060, torch 2.9, fork at
// ea36e5c8), a ratio to the estimate of 1.39 at five batches.
const Trials = "cudnn.benchmark's trials"
