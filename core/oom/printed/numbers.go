package printed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// messageLines bounds the lines of one message.
const MessageLines = 14

// messageBytes bounds its length: of its lines the last may be longer. messageParts bounds how many ranks' messages one
// text may hold.
const MessageBytes, MessageParts = 4 << 10, 16

// squeeze joins the lines of a message without any white space. So the text is the same wherever a terminal, a pager or
// rich wrapped it, even within a word or a number, and the patterns below have no spaces. A line that begins with a
// time is no continuation: a newline separates its digits from a number before them.
func Squeeze(lines []Row) string {
	var b strings.Builder
	for _, l := range lines {
		if StartsAnew.MatchString(l.Body) {
			b.WriteByte('\n')
		}
		for _, f := range strings.Fields(l.Body) {
			b.WriteString(f)
		}
	}
	return b.String()
}

// StartsAnew is a line that begins with a time: it is no continuation of the one before.
var StartsAnew = rx(`^[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d|\d+\.\d\d\.\d{3})`)

const (
	size    = `(\d[\d,]*(?:\.\d*)?(?:[KMGT]i?B|[KMGT]|bytes|B))`
	xgbSize = `(\d[\d.]*(?:[KMG]?B)?)` // older versions print the bytes alone
)

// A number is one of [Numbers].
type numberOf func(*Numbers) **unit.Bytes

func requestedOf(n *Numbers) **unit.Bytes { return &n.Requested }

func capacityOf(n *Numbers) **unit.Bytes { return &n.Capacity }

func allocatedOf(n *Numbers) **unit.Bytes { return &n.Allocated }

func reservedOf(n *Numbers) **unit.Bytes { return &n.Reserved }

func freeOf(n *Numbers) **unit.Bytes { return &n.Free }

func allowedOf(n *Numbers) **unit.Bytes { return &n.Allowed }

func poolsOf(n *Numbers) **unit.Bytes { return &n.PrivatePools }

func noneOf(*Numbers) **unit.Bytes { return new(*unit.Bytes) }

// A form is a piece of a message, without white space, and the numbers in its groups, in their order.
type form struct {
	re   *pattern
	to   []numberOf
	when precedence
}

// A precedence says which of two forms counts.
type precedence uint8

const (
	keepsKnown    precedence = iota // what is known already stays
	replacesKnown                   // this takes the place of what is known
	onlyUnknown                     // this counts where neither the request nor the capacity is known
)

// torchForms are the pieces of PyTorch's message (c10/cuda/CUDACachingAllocator.cpp, format_size: binary prefixes, two
// decimals), old and new, of CUDA, HIP and XPU; and of MPS (aten/src/ATen/mps/MPSAllocator.mm).
var torchForms = []form{
	{rx(`Triedtoallocate` + size), []numberOf{requestedOf}, keepsKnown},
	{rx(`MPSallocated:` + size + `,otherallocations:` + size + `,maxallowed:` + size + `\)`),
		[]numberOf{allocatedOf, noneOf, allowedOf}, replacesKnown},
	// c10/cuda/CUDAMallocAsyncAllocator.cpp: five lines; the last has 2^64 bytes if no limit was set
	{rx(`Currentlyallocated:` + size + `Requested:` + size + `Devicelimit:` + size + `Free\(accordingtoCUDA\):` + size +
		`(?:PyTorchlimit\(setbyuser-suppliedmemoryfraction\):` + size + `)?`),
		[]numberOf{allocatedOf, requestedOf, capacityOf, freeOf, allowedOf}, replacesKnown},
	{rx(`totalcapac?i?tyof` + size), []numberOf{capacityOf}, keepsKnown},
	{rx(`ofwhich` + size + `isfree`), []numberOf{freeOf}, keepsKnown},
	{rx(size + `allowed;`), []numberOf{allowedOf}, keepsKnown},
	{rx(`with` + size + `allocatedinprivatepools`), []numberOf{poolsOf}, keepsKnown},
	{msgAllocated, []numberOf{allocatedOf}, replacesKnown},
	// a paste may end after this number
	{rx(`Oftheallocatedmemory` + size + `isallocated`), []numberOf{allocatedOf}, keepsKnown},
}

var (
	msgAllocated   = rx(`Oftheallocatedmemory` + size + `isallocatedbyPyTorch`)
	msgUnallocated = rx(`and` + size + `isreservedbyPyTorchbutunallocated`)
	msgThisProcess = rx(`thisprocesshas` + size + `memoryinuse`)
	msgOthers      = rx(`Process(\d+)has` + size + `memoryinuse`)

	// torch 1.x and 2.0; torch_npu's allocator (torch_npu/csrc/core/npu/NPUCachingAllocator.cpp) still prints it
	oldCapacity = rx(`(?:GPU|NPU|XPU|MUSA)\d*;` + size + `totalcapac`)
	oldNumber   = rx(`^` + size + `([A-Za-z]*)`)
)

// otherForms are those of other allocators.
var otherForms = []form{
	{rx(`youtriedtoallocate(\d+)bytes`), []numberOf{requestedOf}, keepsKnown},
	{rx(`Unabletoallocate` + size + `foranarray`), []numberOf{requestedOf}, keepsKnown},
	{rx(`FailedtoCUDA[cm]alloc(?:host)?(?:async)?(\d+)bytes`), []numberOf{requestedOf}, keepsKnown},
	{rx(`memoryallocationof(\d+)bytesfailed`), []numberOf{requestedOf}, keepsKnown},
	{rx(`(?:[Oo]utofmemory(?:whiletryingtoallocate|allocating|toallocate)|` +
		`EXHAUSTED:.{0,80}[Ff]ailedtoallocate(?:requestfor)?)` + size), []numberOf{requestedOf}, keepsKnown},
	// ggml's backends, Vulkan among them; ONNX Runtime, TensorRT, CuPy, MLX (rules.go says where): one of its groups has
	// it
	{rx(`(?:allocating` + size + `ondevice\d+:|[Dd]evicememoryallocationofsize(\d+)failed|` +
		`[Ff]ailedtoallocate(?:[A-Za-z]\w{0,20})?buffer,?(?:of)?size=?(\d[\d.]*(?:[KMGT]i?B)?)|` +
		`requestedbufferofsize(\d+)|amountofGPUmemory\((\d+)bytes\)|Outofmemoryallocating(\d[\d,]*)bytes|` +
		`Insufficientmemory\)Failedtoallocate(\d+)bytes|\[metal::malloc\]Attemptingtoallocate(\d+)bytes|` +
		`requestedbytesof(\d+)|ArrowMemoryError:.{0,40}?allocofsize(\d+)failed)`),
		slices.Repeat([]numberOf{requestedOf}, 10), keepsKnown},
	// tensorflow/core/common_runtime/bfc_allocator.cc, where it is a failure
	{rx(`ranoutofmemorytryingtoallocate` + size + `(?:\(rounded|requestedby|\.Current|\.See)`), []numberOf{requestedOf},
		keepsKnown},
	// TensorFlow's gpu_cudamallocasync_allocator.cc, on two lines
	{rx(`failedtoallocate(\d+)bytes:CUDAerror.{0,80}?Freememory/Totalmemory:(\d+)/(\d+)`),
		[]numberOf{requestedOf, freeOf, capacityOf}, replacesKnown},
	// XLA's allocator of a TPU
	{rx(`Attemptingtoreserve` + size + `atthebottomofmemory\.Thatwasnotpossible\.Thereare` + size + `free`),
		[]numberOf{requestedOf, freeOf}, replacesKnown},
	// XGBoost's src/common/device_helpers.cuh, later device_vector.cu: three lines
	{rx(`Memoryallocationerroronworker\d+:.{0,120}?-Freememory:` + xgbSize + `(?:\\+n)?-Requestedmemory:` + xgbSize),
		[]numberOf{freeOf, requestedOf}, replacesKnown},
	// Paddle's paddle/phi/core/memory/allocation/cuda_allocator.cc
	{rx(`Cannotallocate` + size + `memoryonGPU\d+,(?:` + size + `memoryhasbeenallocatedand)?availablememoryisonly` + size),
		[]numberOf{requestedOf, allocatedOf, freeOf}, replacesKnown},
	// MindSpore's mem_dynamic_allocator.cc, of its pool; CANN's runtime under an operation of torch_npu
	{rx(`TotalUsedMemStatistics:(\d+).{0,99}?plusallocsize:(\d+)ismorethantotalmemsize:(\d+)`),
		[]numberOf{allocatedOf, requestedOf, capacityOf}, replacesKnown},
	{rx(`CallrtMallocfail,purpose:[^:]{0,60}size:(\d+)`), []numberOf{requestedOf}, keepsKnown},
	{rx(`Used` + size + `of` + size + `\w+\.`), []numberOf{requestedOf, capacityOf}, onlyUnknown},             // XLA
	{rx(`systemmemory\(` + size + `\)thanisavailable\(` + size), []numberOf{requestedOf, freeOf}, keepsKnown}, // Ollama
}

// lastForms are what other forms are trusted before: c10/cuda/CUDACachingAllocator.cpp, of a request that it tries
// again.
var lastForms = []form{
	{rx(`failedwithOOMondevice\d+whiletryingto(?:allocate|map)(\d+)bytes\(free:(\d+),total:(\d+)\)`),
		[]numberOf{requestedOf, freeOf, capacityOf}, onlyUnknown},
}

var (
	// xla/service/hlo_rematerialization.cc, a line of its own
	XlaLimit = rx(`Can't reduce memory use below ` + size)
	tfTensor = rx(`withshape\[([\d,]+)\]andtype([a-z]+\d*)on/`)
	// tensorflow/core/framework/allocator.cc, AllocatorStats::DebugString
	TfLimit = rx(`(?:^|\] )\s*Limit: +(\d+)\s*$`)
	TfInUse = rx(`^\s*InUse: +(\d+)\s*$`)
	// vllm/v1/worker/gpu_worker.py
	vllmFree = rx(`Freememoryondevice(?:cuda:\d+)` +
		`?\((\d[\d.]*)/(\d[\d.]*GiB)\)onstartupislessthandesiredGPUmemoryutilization\([\d.]+,(\d[\d.]*GiB)\)`)
	// XLA's total of a program on a TPU: it is no request
	XlaTotal = rx(`Used \d[\d.]*\w* of \d[\d.]*\w* hbm`)
	// OneArray is what NumPy and TensorFlow print of the array that the host had no room for: its shape and its type.
	OneArray = rx(`(?:array|tensor) with shape ?([(\[][\d,\s]+[)\]]) and (?:data )?type ([a-z]\w*)`)
	// NoHole are the words of a BFC allocator, or of a text about one, for enough memory in pieces that are too small.
	NoHole = rx(`(?i)no contiguous|not? .{0,24}contiguous (?:hole|block|region|chunk|memory)`)
	// nvidia-smi's notation for used and total memory, for messages without numbers
	SmiUsage = rx(`(\d[\d,]*MiB)/(\d[\d,]*MiB)`)
)

// tfSizes are the bytes of an element: tensorflow/core/framework/types.cc.
var tfSizes = map[string]int64{"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int32": 4, "int64": 8, "uint8": 1,
	"int8": 1, "bool": 1, "int16": 2, "uint16": 2, "complex64": 8, "complex128": 16, "uint32": 4, "uint64": 8}

// prefixes of sizes. A bare or a decimal prefix means the binary one too: every program here prints binary sizes.
var prefixes = map[byte]float64{'K': float64(unit.KiB), 'M': float64(unit.MiB), 'G': float64(unit.GiB), 'T': float64(unit.TiB)}

// parseSize reads "14.00MiB", or a number without a unit, as bytes, unrounded. It is not ok for impossible sizes, such
// as the 2^64 bytes that Windows reports for "not available".
func ParseSize(s string) (float64, bool) {
	s = strings.ReplaceAll(s, ",", "")
	number, prefix := s, 1.
	if end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }); end >= 0 {
		number = s[:end]
		if p, ok := prefixes[s[end]]; ok {
			prefix = p
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(number, "."), 64)
	if err != nil {
		return 0, false
	}
	v *= prefix
	return v, v < math.MaxInt64/256
}

// find returns the size in re's first group, as bytes, unrounded.
func Find(re *pattern, s string) (float64, bool) {
	m := re.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	return ParseSize(m[1])
}

// rounded returns bytes rounded to the nearest: the printed number is rounded already.
func Rounded(v float64) *unit.Bytes { return new(unit.Bytes(math.Round(v))) }

// set takes the size in re's first group for a number that is not known yet.
func Set(to **unit.Bytes, re *pattern, s string) {
	if v, ok := Find(re, s); ok && *to == nil {
		*to = Rounded(v)
	}
}

// read takes the numbers of the forms that stand in a message.
func (n *Numbers) read(forms []form, s string) {
	for _, f := range forms {
		m := f.re.FindStringSubmatch(s)
		if m == nil || f.when == onlyUnknown && (n.Requested != nil || n.Capacity != nil) {
			continue
		}
		for i, number := range f.to {
			to := number(n)
			if v, ok := ParseSize(m[i+1]); ok && (f.when != keepsKnown || *to == nil) {
				*to = Rounded(v)
			}
		}
	}
}

// readNumbers reads the squeezed text of one message.
func ReadNumbers(s string) (n Numbers) {
	n.readOld(s)
	n.read(torchForms, s)
	if _, whole := Find(msgAllocated, s); whole {
		if u, ok := Find(msgUnallocated, s); ok {
			n.Reserved = new(*n.Allocated + *Rounded(u))
		}
	}
	n.readProcesses(s)
	n.read(otherForms, s)
	if m := tfTensor.FindStringSubmatch(s); m != nil && n.Requested == nil {
		n.Requested = tensorBytes(m[1], m[2])
	}
	if m := vllmFree.FindStringSubmatch(s); m != nil { // all in GiB; it asks before it takes any
		for i, to := range []**unit.Bytes{&n.Free, &n.Capacity, &n.Requested} {
			if v, ok := ParseSize(strings.TrimSuffix(m[i+1], "GiB") + "GiB"); ok {
				*to = Rounded(v)
			}
		}
		n.Allocated, n.Reserved = new(unit.Bytes(0)), new(unit.Bytes(0))
	}
	n.read(lastForms, s)
	return n
}

// readProcesses reads what PyTorch's message lists of this process and of others on the card.
func (n *Numbers) readProcesses(s string) {
	if v, ok := Find(msgThisProcess, s); ok && n.possible(v) {
		n.ProcessInUse = Rounded(v)
	}
	for _, m := range msgOthers.FindAllStringSubmatch(s, 64) {
		pid, err := strconv.ParseInt(m[1], 10, 64)
		if v, ok := ParseSize(m[2]); ok && err == nil && n.possible(v) {
			n.Others = append(n.Others, Process{pid, *Rounded(v)})
		}
	}
}

// oldLabels are what stands after the numbers of torch 1.x, 2.0 and torch_npu, in their order. The last is one of two:
// until 1.3 it was "cached", which is reserved and does not count what is allocated.
var oldLabels = []struct {
	label string
	to    numberOf
	last  bool
}{{"alreadyallocated", allocatedOf, false}, {"currentactive", noneOf, false}, {"free", freeOf, false},
	{"allowed", allowedOf, false}, {"reservedintotalby", reservedOf, true}, {"cached", reservedOf, true}}

// readOld reads the numbers of torch 1.x and 2.0, each with its label, up to where a paste has cut them: what is not
// there stays unknown.
func (n *Numbers) readOld(s string) {
	m := oldCapacity.FindStringSubmatchIndex(s)
	if m == nil {
		return
	}
	v, ok := ParseSize(s[m[2]:m[3]])
	if !ok {
		return
	}
	n.Capacity = Rounded(v)
	rest := s[m[1]:]
	for first := true; ; first = false {
		_, after, more := strings.Cut(rest, ";")
		p := oldNumber.FindStringSubmatch(after)
		if !more || p == nil {
			return
		}
		rest = after
		at := oldLabel(p[2])
		if at < 0 && first {
			at = 0 // what is allocated always comes first
		}
		if at < 0 {
			return
		}
		v, ok := ParseSize(p[1])
		if !ok {
			continue
		}
		l := oldLabels[at]
		if l.label == "cached" {
			v += float64(unit.Value(n.Allocated))
		}
		*l.to(n) = Rounded(v)
		if l.last {
			return
		}
	}
}

// oldLabel returns the place of the label that a text begins with, or of which a cut left the beginning; -1 if there
// is none.
func oldLabel(s string) int {
	for i, l := range oldLabels {
		if strings.HasPrefix(s, l.label) || s != "" && strings.HasPrefix(l.label, s) {
			return i
		}
	}
	return -1
}

// possible reports whether a process can hold that much of the card.
func (n *Numbers) possible(v float64) bool {
	return n.Capacity == nil || v <= 1.05*float64(*n.Capacity)
}

func tensorBytes(shape, dtype string) *unit.Bytes {
	b := tfSizes[dtype]
	for d := range strings.SplitSeq(shape, ",") {
		n, err := strconv.ParseInt(d, 10, 64)
		if err != nil || n <= 0 || b > math.MaxInt64/256/n {
			return nil
		}
		b *= n
	}
	if b == 0 {
		return nil
	}
	return new(unit.Bytes(b))
}

// count returns how many numbers are known: of two messages, the one with more is read.
func (n *Numbers) Count() int {
	c := len(n.Others)
	for _, p := range []*unit.Bytes{n.Requested, n.Capacity, n.Allocated, n.Reserved, n.Free, n.ProcessInUse, n.Allowed} {
		if p != nil {
			c++
		}
	}
	return c
}

// undecided reports whether the numbers that are missing may be those of contention or of fragmentation: what is
// neither free nor known to be this process's is large enough for one of them.
func (n *Numbers) Undecided() bool {
	if n.Reserved != nil && n.Free != nil || n.ProcessInUse != nil || n.Allowed != nil {
		return false
	}
	rest := *n.Capacity - unit.Value(n.Free) - n.own()
	pieces := n.Reserved == nil && rest >= *n.Requested && rest*20 >= *n.Capacity
	return pieces || rest > max(*n.Capacity/10, unit.GiB)
}

// Roomy reports whether far more than the request was free when it was refused: a twentieth of the card and 1 GiB
// beyond it. Our choice: a card that is nearly full may refuse a little less than it reports as free.
func (n *Numbers) Roomy() bool {
	return n.Requested != nil && n.Capacity != nil && n.Free != nil && n.Allowed == nil && *n.Requested <= *n.Capacity &&
		*n.Free-*n.Requested > max(*n.Capacity/20, unit.GiB)
}

// Siblings is how many other processes of one size hold the card, each no more than a context and a few buffers: the
// ranks of one job that all began on the same card. 0 where there are fewer than three.
func (n *Numbers) Siblings() int {
	const context, alike = 2 * unit.GiB, 64 * unit.MiB
	most, alone := 0, unit.Bytes(0) // how many, and what they hold together
	for _, p := range n.Others {
		same := 0
		for _, q := range n.Others {
			if d := p.Bytes - q.Bytes; q.Bytes <= context && d <= alike && d >= -alike {
				same++
			}
		}
		if same > most {
			most, alone = same, unit.Bytes(same)*p.Bytes
		}
	}
	if most < 3 || n.OtherHeld() > 3*alone { // then somebody else holds most of it
		return 0
	}
	return most
}

// own is what this process holds of the card, as far as can be known.
func (n *Numbers) own() unit.Bytes {
	if n.ProcessInUse != nil && *n.ProcessInUse >= unit.Value(n.Allocated) { // a broken NVML reports 0
		return *n.ProcessInUse
	}
	if n.Listed() { // at most one of them is ours
		return slices.MaxFunc(n.Others, func(p, q Process) int { return cmp.Compare(p.Bytes, q.Bytes) }).Bytes
	}
	reserved := max(unit.Value(n.Reserved), unit.Value(n.Allocated))
	// In a container NVML's pids are the host's, so our own process is listed as "Process N"; it is the one that holds
	// what we reserved and a CUDA context.
	for _, p := range n.Others {
		if p.Bytes >= reserved && p.Bytes <= reserved+4*unit.GiB {
			return p.Bytes
		}
	}
	return reserved + min(unit.GiB, unit.Value(n.Capacity)*6/100)
}

// Listed reports whether a message lists several processes on the card and does not show which of them is ours.
func (n *Numbers) Listed() bool {
	return len(n.Others) > 1 && n.ProcessInUse == nil && n.Reserved == nil && n.Allocated == nil
}

// OtherHeld is what other processes hold; never negative.
func (n *Numbers) OtherHeld() unit.Bytes {
	if n.Capacity == nil || n.Free == nil {
		return 0
	}
	return max(0, *n.Capacity-*n.Free-n.own())
}

// A Process is one that the message lists. It may be our own: in a container the message has the pids of the machine,
// which our process does not know.
type Process struct {
	PID   int64
	Bytes unit.Bytes
}

// MarshalJSON writes the pair [pid, bytes].
func (p Process) MarshalJSON() ([]byte, error) { return json.Marshal([2]int64{p.PID, int64(p.Bytes)}) }

// UnmarshalJSON reads the pair [pid, bytes].
func (p *Process) UnmarshalJSON(b []byte) error {
	var pair [2]int64
	err := json.Unmarshal(b, &pair)
	p.PID, p.Bytes = pair[0], unit.Bytes(pair[1])
	return err
}

// Numbers are what the message states; nil means not stated. Reserved is the total, allocated included.
type Numbers struct {
	Requested    *unit.Bytes `json:"requested_bytes"`
	Capacity     *unit.Bytes `json:"capacity_bytes"`
	Allocated    *unit.Bytes `json:"allocated_bytes"`
	Reserved     *unit.Bytes `json:"reserved_bytes"`
	Free         *unit.Bytes `json:"free_bytes"`
	ProcessInUse *unit.Bytes `json:"process_in_use_bytes,omitempty"`
	Allowed      *unit.Bytes `json:"allowed_bytes,omitempty"` // a memory fraction's limit
	PrivatePools *unit.Bytes `json:"private_pools_bytes,omitempty"`
	Others       []Process   `json:"other_processes,omitempty"`
}

// same reports whether two messages are about the same request.
func (n Numbers) Same(o Numbers) bool {
	return unit.Value(n.Requested) == unit.Value(o.Requested) && unit.Value(n.Allocated) == unit.Value(o.Allocated) &&
		unit.Value(n.Free) == unit.Value(o.Free)
}

var retryWords = []byte(" failed with OOM on device ")

// ReadRetry reads a line that an allocator printed before it asked again: the request, and the card's capacity and what
// was free of it.
func ReadRetry(text []byte) (n Numbers, ok bool) {
	if bytes.Contains(text, retryWords) {
		n.read(lastForms, Squeeze([]Row{{Body: string(text[:min(len(text), MaxRow)])}}))
	}
	return n, n.Requested != nil && n.Free != nil && n.Capacity != nil
}
