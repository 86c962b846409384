package advice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/unit"
)

// rx compiles a pattern when it is first used.
var rx = lazy.MustCompile

// The frameworks that a text may show by its frames. Each has names of its own for what every program has.
const (
	ofTorch        = "torch"
	ofTransformers = "transformers" // its Trainer
	ofLightning    = "lightning"
	ofDeepSpeed    = "deepspeed"
	ofAccelerate   = "accelerate"
	ofFSDP         = "fsdp" // torch's
	ofJAX          = "jax"
	ofTensorFlow   = "tensorflow"
	ofJulia        = "julia"
)

// Clues are what a text shows of the program itself: so that remedies have the syntax of that program's framework, and none
// needs a newer version.
type Clues struct {
	Uses     []string     `json:"uses"`                 // frameworks, by the paths of frames
	Torch    TorchVersion `json:"torch,omitzero"`       // by line numbers of torch's own files and the form of its messages
	Notebook bool         `json:"notebook,omitempty"`   // it ran in one
	Ranks    bool         `json:"ranks,omitempty"`      // several processes share the work, by torch.distributed
	Slurm    string       `json:"slurm_job,omitempty"`  // the job's number, as slurmstepd and srun name it
	Step     string       `json:"slurm_step,omitempty"` // of that job
	Device   string       `json:"device,omitempty"`     // "hip", "npu", "xpu", "mps", "tpu"; "" is CUDA, or not known
	Unified  bool         `json:"unified,omitempty"`    // the card takes its memory from the host's
	// Scheduler gave the job its memory: "lsf", "pbs", "ray"; Granted is how much, as it printed it.
	Scheduler string `json:"scheduler,omitempty"`
	Granted   string `json:"granted,omitempty"`
	// NoExpandable is why expandable segments are no remedy here; "" if they may be one.
	NoExpandable string `json:"no_expandable_segments,omitempty"`
	// MicroBatch and Accumulation are what the Trainer of transformers printed; 0 if it did not.
	MicroBatch   int64  `json:"micro_batch,omitempty"`
	Accumulation int64  `json:"accumulation,omitempty"`
	used         string // of host memory, as whoever ended the job printed it
	oldTF        bool   // TensorFlow 2.1 or older
	zero3        bool   // DeepSpeed shards the weights too
	hub          bool   // a model of transformers, by the frames of its library
	// Limit is the limit on each process of the run that launch set (--memory); 0: none. No text shows it.
	Limit unit.Bytes `json:"limit_bytes,omitempty"`
}

// use reports whether a text shows a framework.
func (c Clues) use(name string) bool { return slices.Contains(c.Uses, name) }

var (
	// frameworkPaths tell frameworks by the paths of frames, as they lie in the projects' own packages, and by names that only
	// they print.
	frameworkPaths = []struct {
		name string
		re   *lazy.Regexp
	}{
		{ofTransformers, rx(`transformers[/\\]trainer(?:_seq2seq)?\.py`)}, // src/transformers/trainer.py
		// src/lightning/pytorch, src/pytorch_lightning
		{ofLightning, rx(`(?:pytorch_lightning|lightning[/\\](?:pytorch|fabric))[/\\]\w+`)},
		{ofDeepSpeed, rx(`deepspeed[/\\](?:runtime|ops|__init__\.py)`)},                  // deepspeed/runtime/engine.py
		{ofAccelerate, rx(`accelerate[/\\](?:accelerator|optimizer|utils[/\\]\w+)\.py`)}, // src/accelerate/accelerator.py
		// torch/distributed/fsdp
		{ofFSDP, rx(`torch[/\\]distributed[/\\]fsdp[/\\]`)},
		// jax/_src/api.py; jaxlib/xla_client.py
		{ofJAX, rx(`RESOURCE_EXHAUSTED: (?:Out of memory while|XLA:)|[/\\]jax[/\\]_src[/\\]|` +
			`\b(?:XlaRuntimeError|JaxRuntimeError)\b`)},
		// tensorflow/python/framework/errors_impl.py
		{ofTensorFlow, rx(`[/\\]tensorflow[/\\]python[/\\]|op_kernel\.cc:1(?:7[4-9]|8)\d|` +
			`[/\\]keras[/\\]src[/\\]|by allocator \S*GPU_\d_bfc`)},
		{ofJulia, rx(`[/\\]\.julia[/\\]|^ERROR: LoadError: |\bCuError\(|^Effective GPU memory usage: `)},
		{ofTorch, rx(`[/\\]torch[/\\](?:nn|_tensor\.py|optim|autograd|utils|cuda|distributed)\b|allocated by PyTorch|` +
			`in total by PyTorch|out of memory\. Tried to allocate|tensor\(nan, device=|` +
			`\btorch\.(?:cuda\.)?OutOfMemoryError\b|DefaultCPUAllocator`)},
	}
	// torchLines are the lines of torch/nn/modules/module.py on which a module's call calls on, which nearly every release has
	// moved; two of a release are the call and the wrapped call. Read off tracebacks whose version shows otherwise too; that of
	// 1.13 off the file.
	torchLines = map[string]TorchVersion{
		"532": {104, 104}, "722": {106, 106}, "727": {107, 107}, "889": {108, 108}, "1051": {109, 109}, "1102": {110, 110},
		"1110": {111, 111}, "1130": {112, 112}, "1194": {113, 113}, "1501": {200, 200}, "1518": {201, 201}, "1527": {201, 201},
		"1511": {202, 202}, "1520": {202, 202}, "1532": {203, 203}, "1541": {203, 203}, "1553": {204, 204}, "1562": {204, 204},
		"1736": {205, 205}, "1747": {205, 205}, "1739": {206, 206}, "1750": {206, 206}, "1751": {207, 208}, "1762": {207, 208},
		"1773": {208, 208}, "1784": {208, 208}, "1775": {209, 209}, "1786": {209, 209},
	}
	// torchWords tell a version by the form of its messages (c10/cuda/CUDACachingAllocator.cpp; torch/_C/__init__.pyi).
	torchWords = []struct {
		re *lazy.Regexp
		is TorchVersion
	}{
		{rx(`\bPYTORCH_ALLOC_CONF\b`), TorchVersion{From: 209}},
		{rx(`\bAcceleratorError\b`), TorchVersion{From: 208}},
		{rx(`\btorch\.OutOfMemoryError\b`), TorchVersion{From: 205}},
		{rx(`has a total capacity of`), TorchVersion{From: 202}},
		{rx(`has a total capacty of`), TorchVersion{From: 201, To: 201}},
		{rx(`\btorch\.cuda\.OutOfMemoryError\b`), TorchVersion{From: 113}},
		{rx(`\(GPU \d+; [\d.]+ \w+ total capacity;`), TorchVersion{To: 200}},
		{rx(`[\d.]+ \w+ cached\)`), TorchVersion{To: 103}},
	}
)

var (
	moduleLine = rx(`torch[/\\]nn[/\\]modules[/\\]module\.py(?:", line |:)(\d+)`)
	// what slurmstepd and srun print: src/slurmd/slurmstepd/mgr.c, task_cgroup_memory.c
	slurmStep = rx(`StepId=(\d+)\.(\w+)|\*\*\* (?:JOB|STEP) (\d+)(?:\.(\w+))? ON|\bin step (\d+)\.(\w+) cgroup|\bin StepId=(\d+)\.(\w+)`)
	// how IPython names a cell's source: IPython/core/compilerop.py, ultratb.py
	cellFrame  = rx(`<ipython-input-\d+|[/\\]ipykernel_\d+[/\\]|\bCell In\s?\[\d+\]`)
	hubFrame   = rx(`[/\\]transformers[/\\](?:generation|models|modeling_utils)\b`)
	ranksFrame = rx(`torch[/\\]distributed[/\\]distributed_c10d\.py|local_rank: \d|\[rank\d+\]:`)
	// what the Trainer says before it begins: transformers/trainer.py
	trainerMicro = rx(`Instantaneous batch size per device = ([\d,]+)`)
	trainerAccum = rx(`Gradient Accumulation steps = ([\d,]+)`)
)

// oldTensorFlow are the lines of tensorflow/core/framework/op_kernel.cc at which releases up to 2.1 print a failure.
var oldTensorFlow = rx(`\bop_kernel\.cc:(?:\d{3}|1[0-6]\d\d)\]`)

// noExpandable are words that rule out expandable segments.
var noExpandable = []struct {
	re  *lazy.Regexp
	why string
}{
	{rx(`17179869184\.00 GiB`), "on WSL or Windows they are not supported"}, // NVML_VALUE_NOT_AVAILABLE, 2^64 B
	{rx(`(?:^\s*|\] )File "[A-Za-z]:\\`), "on Windows they are not supported"},
	{rx(`expandable_segments not supported`), "this platform does not support them"},
	{rx(`CUDA driver error: out of memory`), "they are on already"}, // only their cuMemCreate says it so
	{rx(`PeerToPeerAccess\.cpp`), "they need an NVML that works"},
	{rx(`\bHIP out of memory`), "they are not known to work on ROCm"},
	{rx(`\b(?:XPU|MUSA) out of memory|\bMPS backend out of memory`), "they are CUDA's"},
}

// CluesIn reads them in the lines that a detector keeps, not in all that the program printed.
func CluesIn(kept []string) Clues {
	c := Clues{Uses: []string{}}
	versions := true
	for _, line := range kept {
		c.readLine(line, &versions)
	}
	if !versions {
		c.Torch = TorchVersion{}
	}
	return c
}

// readLine takes the clues of one line. agree becomes false when two witnesses of torch's version contradict each
// other.
func (c *Clues) readLine(text string, agree *bool) {
	for _, f := range frameworkPaths {
		if !c.use(f.name) && f.re.MatchString(text) {
			c.Uses = append(c.Uses, f.name)
		}
	}
	for _, e := range engines {
		if !c.use(e.name) && e.re.MatchString(text) {
			c.Uses = append(c.Uses, e.name)
		}
	}
	c.readScheduler(text)
	c.oldTF = c.oldTF || oldTensorFlow.MatchString(text)
	c.zero3 = c.zero3 || strings.Contains(text, "deepspeed/runtime/zero/stage3.py")
	c.Unified = c.Unified || unified.MatchString(text)
	narrow := func(v TorchVersion) {
		both, ok := c.Torch.and(v)
		c.Torch, *agree = both, *agree && ok
	}
	if m := moduleLine.FindStringSubmatch(text); m != nil {
		if v, ok := torchLines[m[1]]; ok {
			narrow(v)
		}
	}
	for _, w := range torchWords {
		if w.re.MatchString(text) {
			narrow(w.is)
		}
	}
	if m := slurmStep.FindStringSubmatch(text); m != nil && c.Slurm == "" {
		groups := m[1:]
		for i := 0; i+1 < len(groups); i += 2 {
			if groups[i] != "" {
				c.Slurm, c.Step = groups[i], groups[i+1]
			}
		}
	}
	for _, w := range noExpandable {
		if c.NoExpandable == "" && w.re.MatchString(text) {
			c.NoExpandable = w.why
		}
	}
	for _, v := range devices {
		if c.Device == "" && v.re.MatchString(text) {
			c.Device = v.name
		}
	}
	c.hub = c.hub || hubFrame.MatchString(text)
	c.Ranks = c.Ranks || ranksFrame.MatchString(text)
	c.Notebook = c.Notebook || cellFrame.MatchString(text)
	c.MicroBatch = printedCount(trainerMicro.FindStringSubmatch(text), c.MicroBatch)
	c.Accumulation = printedCount(trainerAccum.FindStringSubmatch(text), c.Accumulation)
}

func printedCount(m []string, otherwise int64) int64 {
	if m == nil {
		return otherwise
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// A TorchVersion is what is known of a version: 100 × major + minor, from and to inclusive; 0 is not known.
type TorchVersion struct{ From, To int }

// MarshalText writes "2.1", "2.5 or later", "2.0 or earlier", "2.7 to 2.8".
func (v TorchVersion) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

func (v TorchVersion) String() string {
	text := func(n int) string { return fmt.Sprintf("%d.%d", n/100, n%100) }
	switch {
	case v.From == 0 && v.To == 0:
		return ""
	case v.From == v.To:
		return text(v.From)
	case v.To == 0:
		return text(v.From) + " or later"
	case v.From == 0:
		return text(v.To) + " or earlier"
	}
	return text(v.From) + " to " + text(v.To)
}

// olderThan reports whether the version is known to be older than n.
func (v TorchVersion) olderThan(n int) bool { return v.To > 0 && v.To < n }

// and narrows a version by further evidence. Evidence that contradicts comes from two programs: then nothing is known.
func (v TorchVersion) and(w TorchVersion) (TorchVersion, bool) {
	if w.From > v.From {
		v.From = w.From
	}
	if w.To > 0 && (v.To == 0 || w.To < v.To) {
		v.To = w.To
	}
	if v.To > 0 && v.From > v.To {
		return TorchVersion{}, false
	}
	return v, true
}
