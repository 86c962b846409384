package oom

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// gpuKind decides why a GPU's allocator refused, from its numbers alone. The order of the rules matters:
//
//  1. more was asked for than the card has, or the numbers cannot be true: capacity
//  2. a limit on this process was reached while the card had room: fragmentation if the reserved memory would have sufficed,
//     else capacity, marked as a limit
//  3. far more than the request was free: neither full nor in pieces, so another limit than the card's memory
//  4. others hold more than a tenth of the card and more than 1 GiB: contention
//  5. the reserved, unallocated memory would have sufficed, and is a twentieth of the card or more: fragmentation. The
//     allocator has given back all whole blocks before it prints, so this is external fragmentation by definition
//  6. numbers that a paste has cut would decide between these: unspecified
//  7. else capacity
//
// The thresholds were set on collected logs, where most requests are tiny and most cards full: there the fragments would
// have lasted for a step or two.
func gpuKind(n *Numbers) (kind Kind, limit bool) {
	if n.Requested == nil {
		return GPUUnspecified, false
	}
	if n.Capacity == nil {
		if n.Allowed != nil && n.Allocated != nil {
			return GPUCapacity, true // MPS: the high-water mark
		}
		return GPUUnspecified, false
	}
	requested, capacity := *n.Requested, *n.Capacity
	allocated, reserved := value(n.Allocated), value(n.Reserved)
	free := value(n.Free)
	unallocated := max(0, reserved-allocated)
	served := n.Reserved != nil && unallocated >= requested && unallocated*20 >= capacity
	switch {
	case requested > capacity || allocated > capacity+capacity/50:
		return GPUCapacity, false
	case n.Allowed != nil && n.Free != nil && free >= requested:
		if served {
			return GPUFragmentation, true
		}
		return GPUCapacity, true
	case n.roomy():
		return GPUUnspecified, false
	case n.Allocated == nil && n.Reserved == nil && n.ProcessInUse == nil:
		if n.Free == nil || free >= requested {
			return GPUUnspecified, false // refused though there was room, for an unknown reason
		}
		return GPUCapacity, false
	case n.Free != nil && (n.Reserved != nil || n.ProcessInUse != nil) && n.others() > max(capacity/10, unit.GiB):
		return GPUContention, false
	case served:
		return GPUFragmentation, false
	case n.untold():
		return GPUUnspecified, false
	}
	return GPUCapacity, n.Allowed != nil && value(n.Allowed)-reserved < requested
}

// untold reports whether the numbers that are missing may be those of contention or of fragmentation: what is neither
// free nor known to be this process's is large enough for one of them.
func (n *Numbers) untold() bool {
	if n.Reserved != nil && n.Free != nil || n.ProcessInUse != nil || n.Allowed != nil {
		return false
	}
	rest := *n.Capacity - value(n.Free) - n.own()
	pieces := n.Reserved == nil && rest >= *n.Requested && rest*20 >= *n.Capacity
	return pieces || rest > max(*n.Capacity/10, unit.GiB)
}

// roomy reports whether far more than the request was free when it was refused: a twentieth of the card and 1 GiB
// beyond it. Our choice: a card that is nearly full may refuse a little less than it reports as free.
func (n *Numbers) roomy() bool {
	return n.Requested != nil && n.Capacity != nil && n.Free != nil && n.Allowed == nil && *n.Requested <= *n.Capacity &&
		*n.Free-*n.Requested > max(*n.Capacity/20, unit.GiB)
}

// siblings is how many other processes of one size hold the card, each no more than a context and a few buffers: the
// ranks of one job that all began on the same card. 0 where there are fewer than three.
func (n *Numbers) siblings() int {
	const context, alike = 2 * unit.GiB, 64 * unit.MiB
	most := 0
	for _, p := range n.Others {
		same := 0
		for _, q := range n.Others {
			if d := p.Bytes - q.Bytes; q.Bytes <= context && d <= alike && d >= -alike {
				same++
			}
		}
		most = max(most, same)
	}
	if most < 3 {
		return 0
	}
	return most
}

// own is what this process holds of the card, as far as can be known.
func (n *Numbers) own() unit.Bytes {
	if n.ProcessInUse != nil && *n.ProcessInUse >= value(n.Allocated) { // a broken NVML reports 0
		return *n.ProcessInUse
	}
	reserved := max(value(n.Reserved), value(n.Allocated))
	// In a container NVML's pids are the host's, so our own process is listed as "Process N"; it is the one that holds
	// what we reserved and a CUDA context.
	for _, p := range n.Others {
		if p.Bytes >= reserved && p.Bytes <= reserved+4*unit.GiB {
			return p.Bytes
		}
	}
	return reserved + min(unit.GiB, value(n.Capacity)*6/100)
}

// others is what other processes hold; never negative.
func (n *Numbers) others() unit.Bytes {
	if n.Capacity == nil || n.Free == nil {
		return 0
	}
	return max(0, *n.Capacity-*n.Free-n.own())
}

// messageLines bounds the lines of one message.
const messageLines = 14

// messageBytes bounds its length: of its lines the last may be longer. messageParts bounds how many ranks' messages one
// text may hold.
const messageBytes, messageParts = 4 << 10, 16

// squeeze joins the lines of a message without any white space. So the text is the same wherever a terminal, a pager or rich
// wrapped it, even within a word or a number, and the patterns below have no spaces. A line that begins with a time is no
// continuation: a newline separates its digits from a number before them.
func squeeze(lines []row) string {
	var b strings.Builder
	for _, l := range lines {
		if startsAnew.MatchString(l.body) {
			b.WriteByte('\n')
		}
		for _, f := range strings.Fields(l.body) {
			b.WriteString(f)
		}
	}
	return b.String()
}

var startsAnew = rx(`^[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d|\d+\.\d\d\.\d{3})`)

const (
	size    = `(\d[\d,]*(?:\.\d*)?(?:[KMGT]i?B|[KMGT]|bytes|B))`
	xgbSize = `(\d[\d.]*(?:[KMG]?B)?)` // older versions print the bytes alone
)

// The pieces of PyTorch's message (c10/cuda/CUDACachingAllocator.cpp, format_size: binary prefixes, two decimals), old and
// new, of CUDA, HIP and XPU; and of MPS (aten/src/ATen/mps/MPSAllocator.mm).
var (
	msgRequested   = rx(`Triedtoallocate` + size)
	msgCapacity    = rx(`totalcapac?i?tyof` + size)
	msgFree        = rx(`ofwhich` + size + `isfree`)
	msgThisProcess = rx(`thisprocesshas` + size + `memoryinuse`)
	msgOthers      = rx(`Process(\d+)has` + size + `memoryinuse`)
	msgAllowed     = rx(size + `allowed;`)
	msgAllocated   = rx(`Oftheallocatedmemory` + size + `isallocatedbyPyTorch`)
	msgCutShort    = rx(`Oftheallocatedmemory` + size + `isallocated`) // a paste may end after this number
	msgPools       = rx(`with` + size + `allocatedinprivatepools`)
	msgUnallocated = rx(`and` + size + `isreservedbyPyTorchbutunallocated`)

	// torch 1.x and 2.0; torch_npu's allocator (torch_npu/csrc/core/npu/NPUCachingAllocator.cpp) still prints it
	oldCapacity = rx(`(?:GPU|NPU|XPU|MUSA)\d*;` + size + `totalcapac`)
	oldNumber   = rx(`^` + size + `([A-Za-z]*)`)

	// c10/cuda/CUDAMallocAsyncAllocator.cpp: five lines; the last has 2^64 bytes if no limit was set
	asyncNumbers = rx(`Currentlyallocated:` + size + `Requested:` + size + `Devicelimit:` + size + `Free\(accordingtoCUDA\):` + size +
		`(?:PyTorchlimit\(setbyuser-suppliedmemoryfraction\):` + size + `)?`)

	mpsNumbers = rx(`MPSallocated:` + size + `,otherallocations:` + size + `,maxallowed:` + size + `\)`)

	cpuRequested   = rx(`youtriedtoallocate(\d+)bytes`)
	rustRequested  = rx(`memoryallocationof(\d+)bytesfailed`)
	numpyRequested = rx(`Unabletoallocate` + size + `foranarray`)
	ncclRequested  = rx(`FailedtoCUDA[cm]alloc(?:host)?(?:async)?(\d+)bytes`)
	xlaRequested   = rx(`(?:[Oo]utofmemory(?:whiletryingtoallocate|allocating)|` +
		`EXHAUSTED:.{0,80}[Ff]ailedtoallocate(?:requestfor)?)` + size)
	// xla/service/hlo_rematerialization.cc, a line of its own
	xlaLimit = rx(`Can't reduce memory use below ` + size)
	// XLA's allocator of a TPU
	xlaReserve = rx(`Attemptingtoreserve` + size + `atthebottomofmemory\.Thatwasnotpossible\.Thereare` + size + `free`)
	// XGBoost's src/common/device_helpers.cuh, later device_vector.cu: three lines
	xgbNumbers = rx(`Memoryallocationerroronworker\d+:.{0,120}?-Freememory:` + xgbSize + `-Requestedmemory:` +
		xgbSize)
	xlaUsed = rx(`Used` + size + `of` + size + `\w+\.`)
	// tensorflow/core/common_runtime/bfc_allocator.cc, where it is a failure
	tfRequested = rx(`ranoutofmemorytryingtoallocate` + size + `(?:\(rounded|requestedby|\.Current|\.See)`)
	tfTensor    = rx(`withshape\[([\d,]+)\]andtype([a-z]+\d*)on/`)
	// ggml's backends, Vulkan among them; ONNX Runtime, TensorRT, CuPy, MLX (rules.go says where)
	otherRequested = rx(`(?:allocating` + size + `ondevice\d+:|[Dd]evicememoryallocationofsize(\d+)failed|` +
		`[Ff]ailedtoallocate(?:[A-Za-z]\w{0,20})?buffer,?(?:of)?size=?(\d[\d.]*(?:[KMGT]i?B)?)|` +
		`requestedbufferofsize(\d+)|amountofGPUmemory\((\d+)bytes\)|Outofmemoryallocating(\d[\d,]*)bytes|` +
		`Insufficientmemory\)Failedtoallocate(\d+)bytes|\[metal::malloc\]Attemptingtoallocate(\d+)bytes|` +
		`requestedbytesof(\d+)|ArrowMemoryError:.{0,40}?allocofsize(\d+)failed)`)
	// TensorFlow's gpu_cudamallocasync_allocator.cc, on two lines
	tfAsync = rx(`failedtoallocate(\d+)bytes:CUDAerror.{0,80}?Freememory/Totalmemory:(\d+)/(\d+)`)
	// Paddle's paddle/phi/core/memory/allocation/cuda_allocator.cc
	paddleNumbers = rx(`Cannotallocate` + size + `memoryonGPU\d+,` + size +
		`memoryhasbeenallocatedandavailablememoryisonly` + size)
	tried = rx(`failedwithOOMondevice\d+whiletryingto(?:allocate|map)(\d+)bytes\(free:(\d+),total:(\d+)\)`)
	// tensorflow/core/framework/allocator.cc, AllocatorStats::DebugString
	tfLimit = rx(`(?:^|\] )\s*Limit: +(\d+)\s*$`)
	tfInUse = rx(`^\s*InUse: +(\d+)\s*$`)
	// vllm/v1/worker/gpu_worker.py
	vllmFree = rx(`Freememoryondevice(?:cuda:\d+)` +
		`?\((\d[\d.]*)/(\d[\d.]*GiB)\)onstartupislessthandesiredGPUmemoryutilization\([\d.]+,(\d[\d.]*GiB)\)`)
	// nvidia-smi's notation for used and total memory, for messages without numbers
	smiUsage = rx(`(\d[\d,]*MiB)/(\d[\d,]*MiB)`)
)

// tfSizes are the bytes of an element: tensorflow/core/framework/types.cc.
var tfSizes = map[string]int64{"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int32": 4, "int64": 8, "uint8": 1,
	"int8": 1, "bool": 1, "int16": 2, "uint16": 2, "complex64": 8, "complex128": 16, "uint32": 4, "uint64": 8}

// prefixes of sizes. A bare or a decimal prefix means the binary one too: every program here prints binary sizes.
var prefixes = map[byte]float64{'K': float64(unit.KiB), 'M': float64(unit.MiB), 'G': float64(unit.GiB), 'T': float64(unit.TiB)}

// parseSize reads "14.00MiB", or a number without a unit, as bytes, unrounded. It is not ok for impossible sizes, such as the
// 2^64 bytes that Windows reports for "not available".
func parseSize(s string) (float64, bool) {
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
func find(re *pattern, s string) (float64, bool) {
	m := re.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	return parseSize(m[1])
}

// rounded returns bytes rounded to the nearest: the printed number is rounded already.
func rounded(v float64) *unit.Bytes { return new(unit.Bytes(math.Round(v))) }

// set takes the size in re's first group for a number that is not known yet.
func set(to **unit.Bytes, re *pattern, s string) {
	if v, ok := find(re, s); ok && *to == nil {
		*to = rounded(v)
	}
}

// replace takes the sizes in re's groups, in their order, in place of what is known.
func replace(re *pattern, s string, to ...**unit.Bytes) {
	m := re.FindStringSubmatch(s)
	if m == nil {
		return
	}
	for i, to := range to {
		if v, ok := parseSize(m[i+1]); ok {
			*to = rounded(v)
		}
	}
}

// readNumbers reads the squeezed text of one message.
func readNumbers(s string) (n Numbers) {
	n.readTorch(s)
	n.readProcesses(s)
	n.readRequest(s)
	n.readLibraries(s)
	n.readTries(s)
	return n
}

// readTorch reads the messages of PyTorch's allocators.
func (n *Numbers) readTorch(s string) {
	set(&n.Requested, msgRequested, s)
	n.readOld(s)
	if m := mpsNumbers.FindStringSubmatch(s); m != nil {
		allocated, ok1 := parseSize(m[1])
		allowed, ok2 := parseSize(m[3])
		if ok1 && ok2 {
			n.Allocated, n.Allowed = rounded(allocated), rounded(allowed)
		}
	}
	replace(asyncNumbers, s, &n.Allocated, &n.Requested, &n.Capacity, &n.Free, &n.Allowed)
	set(&n.Capacity, msgCapacity, s)
	set(&n.Free, msgFree, s)
	set(&n.Allowed, msgAllowed, s)
	set(&n.PrivatePools, msgPools, s)
	if a, ok := find(msgAllocated, s); ok {
		n.Allocated = rounded(a)
		if u, ok := find(msgUnallocated, s); ok {
			n.Reserved = new(*n.Allocated + *rounded(u))
		}
	} else {
		set(&n.Allocated, msgCutShort, s)
	}
}

// readProcesses reads what PyTorch's message lists of this process and of others on the card.
func (n *Numbers) readProcesses(s string) {
	if v, ok := find(msgThisProcess, s); ok && n.possible(v) {
		n.ProcessInUse = rounded(v)
	}
	for _, m := range msgOthers.FindAllStringSubmatch(s, 64) {
		pid, err := strconv.ParseInt(m[1], 10, 64)
		if v, ok := parseSize(m[2]); ok && err == nil && n.possible(v) {
			n.Others = append(n.Others, Process{pid, *rounded(v)})
		}
	}
}

// readRequest reads the messages that state only what was asked for.
func (n *Numbers) readRequest(s string) {
	for _, re := range []*pattern{cpuRequested, numpyRequested, ncclRequested, rustRequested, xlaRequested} {
		set(&n.Requested, re, s)
	}
	if n.Requested != nil {
		return
	}
	if m := otherRequested.FindStringSubmatch(s); m != nil {
		for _, size := range m[1:] { // one of its groups has the size
			if v, ok := parseSize(size); ok {
				n.Requested = rounded(v)
			}
		}
	}
}

// readTries reads what an allocator prints of a request before it tries again: c10/cuda/CUDACachingAllocator.cpp.
func (n *Numbers) readTries(s string) {
	if m := vllmFree.FindStringSubmatch(s); m != nil {
		replace(vllmFree, s, &n.Free, &n.Capacity, &n.Requested)
		if v, ok := parseSize(m[1] + "GiB"); ok {
			n.Free, n.Allocated, n.Reserved = rounded(v), new(unit.Bytes(0)), new(unit.Bytes(0)) // it asks before it takes any
		}
	}
	if n.Requested == nil && n.Capacity == nil {
		replace(tried, s, &n.Requested, &n.Free, &n.Capacity)
	}
}

// readLibraries reads the messages of TensorFlow, Paddle and XLA.
func (n *Numbers) readLibraries(s string) {
	set(&n.Requested, tfRequested, s)
	replace(tfAsync, s, &n.Requested, &n.Free, &n.Capacity)
	replace(xlaReserve, s, &n.Requested, &n.Free)
	replace(xgbNumbers, s, &n.Free, &n.Requested)
	replace(paddleNumbers, s, &n.Requested, &n.Allocated, &n.Free)
	if m := xlaUsed.FindStringSubmatch(s); m != nil && n.Requested == nil && n.Capacity == nil {
		used, ok1 := parseSize(m[1])
		of, ok2 := parseSize(m[2])
		if ok1 && ok2 {
			n.Requested, n.Capacity = rounded(used), rounded(of)
		}
	}
	if m := tfTensor.FindStringSubmatch(s); m != nil && n.Requested == nil {
		n.Requested = tensorBytes(m[1], m[2])
	}
}

// oldLabels are what stands after the numbers of torch 1.x, 2.0 and torch_npu, in their order.
var oldLabels = []string{"alreadyallocated", "currentactive", "free", "allowed", "reservedintotalby", "cached"}

// readOld reads the numbers of torch 1.x and 2.0, each with its label, up to where a paste has cut them: what is not
// there stays unknown. Until 1.3 the last was "cached": reserved, not counting what is allocated.
func (n *Numbers) readOld(s string) {
	m := oldCapacity.FindStringSubmatchIndex(s)
	if m == nil {
		return
	}
	v, ok := parseSize(s[m[2]:m[3]])
	if !ok {
		return
	}
	n.Capacity = rounded(v)
	rest := s[m[1]:]
	for first := true; ; first = false {
		_, after, more := strings.Cut(rest, ";")
		p := oldNumber.FindStringSubmatch(after)
		if !more || p == nil {
			return
		}
		rest = after
		v, ok := parseSize(p[1])
		label := oldLabel(p[2])
		if label == "" && first {
			label = oldLabels[0] // it always comes first
		}
		switch {
		case label == "":
			return
		case !ok:
		case label == "alreadyallocated":
			n.Allocated = rounded(v)
		case label == "free":
			n.Free = rounded(v)
		case label == "allowed":
			n.Allowed = rounded(v)
		case label == "reservedintotalby":
			n.Reserved = rounded(v)
			return
		case label == "cached":
			n.Reserved = new(*rounded(v) + value(n.Allocated))
			return
		}
	}
}

// oldLabel returns the label that a text begins with, or of which a cut left the beginning; "" if there is none.
func oldLabel(s string) string {
	for _, l := range oldLabels {
		if strings.HasPrefix(s, l) || s != "" && strings.HasPrefix(l, s) {
			return l
		}
	}
	return ""
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
func (n *Numbers) count() int {
	c := len(n.Others)
	for _, p := range []*unit.Bytes{n.Requested, n.Capacity, n.Allocated, n.Reserved, n.Free, n.ProcessInUse, n.Allowed} {
		if p != nil {
			c++
		}
	}
	return c
}

// Since 2.13 torch prints a line for each request that the card refused, before it gives back what it caches and asks
// again (c10/cuda/CUDACachingAllocator.cpp). A program that succeeds may print thousands: they show a card that is
// full, and how much it lacked, and prove no failure.

// A Retry is one such line.
type Retry struct {
	Requested, Free, Total unit.Bytes
}

// Retries sums up those of a phase.
type Retries struct {
	Count int `json:"count"`
	// the most that a request was larger than what was free; 0 if it never was
	Short unit.Bytes `json:"short_bytes,omitempty"`
}

// Add adds one.
func (n *Retries) Add(r Retry) { n.Join(Retries{1, r.Requested - r.Free}) }

// Join adds others.
func (n *Retries) Join(o Retries) { n.Count, n.Short = n.Count+o.Count, max(n.Short, o.Short) }

// In returns a clause for a person: "41 times in validation, 380 MiB short". phase may be "".
func (n Retries) In(phase string) string {
	s := times(n.Count)
	if phase != "" {
		s += " in " + phase
	}
	if n.Short > 0 {
		s += fmt.Sprintf(", %v short", n.Short)
	}
	return s
}

var (
	retryWords = []byte(" failed with OOM on device ")
	retryLine  = rx(`memory (?:allocation|mapping) failed with OOM on device \d+ while trying to (?:allocate|` +
		`map) (\d+) bytes \(free: (\d+), total: (\d+)\)`)
)

// readRetry reads a line that an allocator printed before it asked again.
func readRetry(text []byte) (r Retry, ok bool) {
	if !bytes.Contains(text, retryWords) {
		return r, false
	}
	m := retryLine.FindStringSubmatch(string(text[:min(len(text), maxRow)]))
	if m == nil {
		return r, false
	}
	for i, to := range []*unit.Bytes{&r.Requested, &r.Free, &r.Total} {
		v, ok := parseSize(m[i+1])
		if !ok {
			return r, false
		}
		*to = *rounded(v)
	}
	return r, true
}
