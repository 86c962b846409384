package oom

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/lazy"
)

// A pattern is a regular expression that is compiled when it is first used: most programs never fail.
type pattern = lazy.Regexp

func rx(source string) *pattern { return lazy.MustCompile(source) }

// A nature says what a text means for the program that printed it.
type nature uint8

const (
	// raised is a text that comes in an exception: printed with no exception's name and no traceback above it, somebody
	// caught it and reports it.
	raised nature = iota
	// spoken is a text that a library, the kernel or a scheduler prints by itself when the program cannot go on.
	spoken
	// decreed is a text by which a scheduler ends the program, whatever stands before it.
	decreed
	// survived is a text that says that the program goes on.
	survived
	// retried is what an allocator prints of a refused request that it tries again: evidence of a full card, proof of
	// nothing.
	retried
	// consequence is what follows when another rank, worker or signal ended the program; it never is the cause.
	consequence
)

// Weights order findings: the heaviest fatal one is what ended the program, the first among equals.
const (
	sure      = 100 // the allocator, the kernel or the scheduler in its own words
	probable  = 90  // says "out of memory" without numbers
	ordered   = 85  // somebody ordered the end: time limit, preemption, Ctrl-C
	broken    = 70  // a fault of the device or of the code, which other messages then repeat
	suspected = 60  // usually memory, unless the device is broken
	exception = 50  // any other exception
	killed    = 40  // killed by SIGKILL, by whom is not said
	echo      = 20  // a consequence
)

// A rule is one text that this package knows.
type rule struct {
	name   string // of a failure that is not memory, Report.NotMemory
	kind   Kind
	weight int
	nature nature
	re     *pattern
	// pressed: the allocator prints it right before its caller fails, whose own words may not name memory.
	pressed bool
	// loose: its words are no program's own, and count only where they end one.
	loose bool
	// alone: it counts only where nothing but the same follows; late: a device that prints it does no more work.
	alone, late bool
	cause       string // one line for a person; of memory, the device that ran out
}

// The rules of the table: gpu, host and shm are of memory that ran out, kill of processes that were killed for the
// host's memory, wentOn of a card's memory where the program goes on, other of what is not memory.
func gpu(weight int, n nature, res ...string) rule {
	return rule{kind: GPUUnspecified, weight: weight, nature: n, re: oneOf(res), cause: "out of GPU memory"}
}

func host(weight int, n nature, res ...string) rule {
	return rule{kind: CPUAlloc, weight: weight, nature: n, re: oneOf(res), cause: "out of host memory"}
}

func kill(weight int, n nature, res ...string) rule {
	return rule{kind: HostOOM, weight: weight, nature: n, re: oneOf(res), cause: "out of host memory"}
}

func shm(weight int, n nature, res ...string) rule {
	return rule{kind: SharedMemory, weight: weight, nature: n, re: oneOf(res), cause: "shared memory (/dev/shm) is full"}
}

func wentOn(res ...string) rule { return gpu(probable, survived, res...).because("") }

func other(name string, weight int, n nature, cause string, res ...string) rule {
	return rule{name: name, kind: NoMemory, weight: weight, nature: n, re: oneOf(res), cause: cause}
}

func (r rule) because(cause string) rule {
	r.cause = cause
	return r
}

func (r rule) only() rule {
	r.loose = true
	return r
}

func (r rule) press() rule {
	r.pressed = true
	return r
}

func oneOf(res []string) *pattern { return rx(strings.Join(res, "|")) }

// rules are tried in order on each line of an excerpt; the first that matches is the line's meaning. What is survived
// stands before what is fatal, the particular before the general; and before all a kernel's lack of on-chip memory,
// which has the words of a card's.
var rules = slices.Concat(faultRules(printed.Faults[:1]), memoryRules, faultRules(printed.Faults[1:]),
	faultRules(printed.Codes), otherRules, faultRules(printed.Crashes), faultRules(printed.Alones), lastRules)

// faultRules are the rules of faults: one of their own words, one of an exception's.
func faultRules(faults []printed.Fault) (out []rule) {
	for _, f := range faults {
		weight, nature := broken, spoken
		switch {
		case f.Echo:
			weight, nature = echo+10, consequence
		case f.Final:
			weight, nature = exception, decreed
		case f.Crash:
			weight = exception
		}
		if f.Spoken != "" {
			r := other(f.Name, weight, nature, f.Cause, f.Spoken)
			r.alone, r.late = f.Alone, f.Late()
			out = append(out, r)
		}
		if f.Raised != "" {
			out = append(out, other(f.Name, weight, raised, f.Cause, f.Raised))
		}
	}
	return out
}

var memoryRules = []rule{
	// --- met and outlived -------------------------------------------------------------------------------------------
	// TensorFlow tsl/framework/bfc_allocator.cc: the caller asked for a try.
	wentOn(`ran out of memory trying to allocate .*caller indicates that this is not a failure`),
	// its state, which it prints where the caller fails: DumpMemoryLog
	gpu(suspected, spoken,
		`bfc_allocator\.cc:\d+\] +(?:Stats:|Summary of in-use Chunks by size|Sum Total of in-use chunks:|`+
			`total_region_allocated_bytes_)`,
		`[Rr]an out of memory trying to allocate `).press(),
	// c10/cuda/CUDACachingAllocator.cpp, since torch 2.13: each failed cudaMalloc or cuMemCreate, before it is tried again
	gpu(probable, retried, `memory (?:allocation|mapping) failed with OOM on device \d+`).press().because(""),
	// TensorFlow stream_executor/cuda/cuda_driver.cc logs each size it tries, at level I, and goes on with less.
	wentOn(`\b[IWE] .*failed to allocate .* from device: CUDA_ERROR_OUT_OF_MEMORY`),
	// a loop that lowers its batch after each failure, and has none left
	gpu(probable, spoken,
		`(?i)\bOOM detected\b.*\breduc\w* .{0,40}\bto 0\b`).because("out of memory at every batch size down to one"),
	wentOn(
		`(?i)attempting to recover from OOM|\bOOM in all workers, skipping|\bOOM detected\b.*(?:recover|retry|reduc|skip)`),
	wentOn(`(?i)(?:out ?of ?memory\w*|\bCUDA OOM\b)[^.]{0,80}(?:\b(?:using|falling back to|fall back to|switching to) |` +
		`\b(?:skip(?:ping|ped)?|retry(?:ing)?|recover(?:ed|ing)?|reducing|halving|ignoring)\b)`),
	wentOn(`(?i)\bskip(?:ping|ped) (?:\w+ ){0,4}(?:batch|step|sample)\b.{0,40}\b(?:due to OOM\b|` +
		`(?:due to|because of|after) (?:an? )?(?:CUDA )?out[ -]of[ -]memory)`),
	wentOn(`(?i)\b(?:copy|copying|moving|move) .{0,60} to CPU due to (?:CUDA )?(?:OOM|out of memory)`),
	wentOn(`(?i)microbatch size will be decreased|Batch size \d+ failed, trying batch size \d+`),

	// a warning of Python's, as FSDP's of a tensor that it could not clone for a state
	// (torch/distributed/fsdp/_state_dict_utils.py)
	wentOn(`\b[A-Z]\w*Warning: .*(?:CUDA|HIP|XPU) out of memory`,
		`Please check clone implementation of .*(?:CUDA|HIP|XPU) out of memory`),
	// distributed/nanny.py: the worker is started again
	kill(probable, survived, `Worker exceeded \d+% memory budget`).because(""),
	// sglang's scheduler takes requests back; c10/cuda/CUDAFunctions.cpp warns, and there is no GPU then
	wentOn(`(?i)out of memory happened\b.*retract|Warning: CUDA initialization: .*: out of memory`),

	// --- PyTorch's caching allocator: c10/cuda/CUDACachingAllocator.cpp and its like ---------------------------------
	gpu(sure, raised, `(?:CUDA|HIP|XPU|MPS backend|NPU|MUSA) out of memory(?:\.|\b.{0,12}(?:Tried to|\(MPS|$))`),
	// the same assert stands in two files: in the allocator it replaces the message, in PeerToPeerAccess NVML is broken
	other("nvml", suspected, spoken, "NVML does not work here, and expandable segments need it",
		`(?:NVML_SUCCESS|nvml\w*\().*INTERNAL ASSERT FAILED.*PeerToPeerAccess`),
	gpu(suspected, spoken, `NVML_SUCCESS == r\b.*INTERNAL ASSERT FAILED`),
	gpu(suspected, spoken, `INTERNAL ASSERT FAILED at .*CUDACachingAllocator\.cpp`),
	// where a paste ends
	gpu(probable, raised, `Error: (?:CUDA|HIP) out of(?: m\w{0,4})?$`),
	// ComfyUI's execution.py, and the report of an error that it shows; it serves on, and the work failed
	gpu(probable, spoken, `!!! Exception during processing ?!!! (?:Allocation on device|.*\bout of memory)`,
		`Exception Type:[* ]*(?:torch\.)?(?:cuda\.)?OutOfMemoryError`),
	// expandable segments: cuMemCreate's own error
	gpu(probable, spoken, `CUDA driver error: out of memory`),
	// caffe2/core/common_gpu.h, CUDA_ENFORCE
	gpu(probable, spoken, `error == cudaSuccess\. 2 vs 0\b`),
	// THC's check (pytorch 0.x and Lua torch, lib/THC/THCGeneral.c); glog's CHECK in Caffe and MXNet; MXNet's storage
	// managers
	gpu(probable, spoken,
		`THCudaCheck(?:Warn)? FAIL .*error=2 ?: out of memory|cuda runtime error \(2\) ?: ?out of memory`,
		`Check failed: \w+ == (?:cudaSuccess|CUDA_SUCCESS).{0,60}out of memory`,
		`pooled_storage_manager\.h:\d+: .*out of memory|Could not launch .*status: out of memory`),
	// CTranslate2's src/cuda/utils.h, as faster-whisper shows it; XGBoost's src/common/device_helpers.cuh; Thrust's
	// exception
	gpu(probable, spoken, `CUDA failed with error out of memory|Memory allocation error on worker \d+: `,
		`\bsystem_error\b.{0,200}\bout of memory|what\(\): .{0,200}\bout of memory\s*$`),
	// RAPIDS' allocator (rmm/error.hpp); Triton (third_party/nvidia/backend/driver.c); LightGBM (cuda_utils.hu); FAISS
	// (StandardGpuResources.cpp); bitsandbytes; TensorRT-LLM; SGLang's scheduler; Jittor; MindSpore; torch_npu
	gpu(probable, spoken,
		`bad_alloc: (?:out_of_memory|RMM fail|cudaError|CUDA error)|RMM_ERROR_OUT_OF_MEMORY|rmm::(?:out_of_memory|bad_al)`,
		`Triton Error \[\w+\]: out of memory|CUDA runtime error in .{1,200}: out of memory`,
		`\[CUDA\] out of memory|[Ee]rror out of memory at line \d|MIOpen Error: .*Memory not available to allocate`,
		`cuda\w+ (?:error|failed:?|failure:?) out of memory|CUDA failure 2: out of memory|(?:Prefill|Decode) out of memory\.`,
		`\bCuError\(2[,)]|GPU memory is overflow`),
	gpu(probable, spoken, `memory isn't enough and alloc failed|is more than total mem size : \d|error code is 207001|`+
		`ACL_ERROR_RT_MEMORY_ALLOCATION|EL0004\S* `).press(),
	gpu(probable, decreed, `^ERROR: Out of GPU memory trying`, `\bNot enough memory to handle \d+ `),
	// C programs' check macros, of ggml and the CUDA samples, say where: "CUDA error 2 at file.cu:462: out of memory"
	gpu(probable, spoken,
		`(?i)\b(?:CUDA|HIP|hip)(?: runtime)?(?: API)? ?(?:status )?error(?: \(?2\)?)?\)?(?: at .{1,200}:\d+)? ?: ?`+
			`(?:out of memory|hipErrorOutOfMemory|cudaErrorMemoryAllocation)`),
	gpu(probable, spoken, `\b(?:CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory)\b`,
		`cudaMalloc (?:retry )?failed: out of memory|Out of memory error on GPU \d+|\berror: '[\w ]+'\(2\) at \S+:\d+`),

	// --- CUDA's libraries: a broken device answers with the same status ---------------------------------------------
	gpu(suspected, spoken,
		`\b(?:CUBLAS|CUDNN|CUSPARSE|CUSOLVER|CUFFT|HIPBLAS|ROCBLAS|MIOPEN)_STATUS_(?:ALLOC_FAILED|MEMORY_ERROR|NO_MEMORY)`,
		`CUFFT_ALLOC_FAILED`),
	gpu(probable, spoken,
		`Failed to CUDA (?:calloc|malloc)\b|NCCL WARN .*Cuda failure 2\b|\bCuda failure (?:2 )?'out of memory'`).
		because("out of GPU memory while NCCL set up its buffers"),

	// --- other runtimes -----------------------------------------------------------------------------------------------
	// ggml: ggml-backend.cpp, ggml-alloc.c and each backend name the buffer; the CPU's is the host's
	host(probable, spoken,
		`(?:failed|unable) to allocate (?:CPU|\w+_Host) buffer|cpu_buffer_type_alloc_buffer: failed to allocate`,
		`ErrorOutOfHostMemory|(?:VK|UR|PI|ZE|CL)_(?:RESULT_)?(?:ERROR_)?OUT_OF_HOST_MEMORY|: +Out of Host Memory\b`),
	gpu(probable, spoken, `(?:failed|unable) to allocate [A-Za-z]+\d* buffer\b|: failed to allocate buffer,? (?:of )?size`,
		`[Dd]evice memory allocation of size \d+ failed|\b(?:CUDA|ROCm)\b.* alloc failed .*out of memory`),
	gpu(suspected, spoken, `failed to allocate (?:compute (?:\w+ )?buffers?|buffer for (?:the )?kv cache)`),
	// Vulkan (vulkan_enums.hpp), SYCL and Level Zero (ur_api.h), OpenCL (cl.h, and the words of Boost.Compute's
	// exception/opencl_error.hpp), Metal (Metal.framework), MLX (metal/allocator.cpp)
	gpu(probable, spoken,
		`ErrorOutOfDeviceMemory|VK_ERROR_OUT_OF_DEVICE_MEMORY|(?:UR|PI|ZE)_(?:RESULT_)?ERROR_OUT_OF_DEVICE_MEMORY`,
		`MEM_OBJECT_ALLOCATION_FAILURE|Memory Object Allocation Failure|CommandBufferCallbackErrorOutOfMemory`,
		`\[metal::malloc\] .*(?:greater than the maximum|Unable to allocate|Resource limit)|`+
			`\[malloc\w*\] Unable to allocate`),
	gpu(suspected, spoken, `\b(?:UR|PI|ZE|CL)_(?:RESULT_)?(?:ERROR_)?OUT_OF_RESOURCES\b|\bNV_ERR_NO_MEMORY\b`,
		`\bcl[A-Z]\w+ failed: (?i:out.of.resources)\b`), // PyOpenCL's
	// aten/src/ATen/native/mps/OperationUtils.mm, of one buffer that is larger than Metal allows; DirectML's E_OUTOFMEMORY
	gpu(probable, raised, `Invalid buffer size: [\d.]+ [KMGT]i?B`, `8007000E\b`, `block with size larger than \d+ ?GB`),
	// torch-directml; Habana's PyTorch bridge; TensorRT's virtualMemoryBuffer.cpp; cupy/cuda/memory.pyx
	gpu(probable, spoken,
		`not (?:have )?enough GPU (?:video )?memory|Cuda Driver \(out of memory\)|Error Code \d+: OutOfMemory\b`,
		`PT_DEVMEM.{0,40}Allocation failed|[Rr]equested amount of GPU memory \(\d+ bytes\) could not be allocated`,
		`\b[Oo]ut of memory (?:allocating [\d,]+ bytes \(allocated so far|to allocate \d+ bytes \(total \d)`),
	// AWS's Neuron runtime, nrt_status.h: NRT_RESOURCE
	gpu(suspected, raised, `nrt_\w*alloc\w* status=4\b`).because("out of accelerator memory"),
	// onnxruntime/core/framework/bfc_arena.cc, of whichever device the arena is
	gpu(probable, spoken, `Failed to allocate memory for requested buffer of size \d+`,
		`Available memory of \d+ is smaller than requested bytes of \d+`).because("out of memory, of a GPU it seems"),

	// --- JAX, XLA, TensorFlow -----------------------------------------------------------------------------------------
	// its figures, where it prints them, are above it
	gpu(sure, spoken, `OOM when allocating tensor with shape.*device:(?:GPU|TPU|DML|XLA_GPU)`),
	host(sure, spoken, `OOM when allocating tensor with shape.*device:(?:XLA_)?CPU`),
	gpu(probable, spoken, `OOM when allocating tensor with shape`),
	// tensorflow/core/common_runtime/gpu/gpu_util.cc: the copy's target was not allocated
	gpu(suspected, spoken, `Dst tensor is not initialized`),
	// the exception's name alone, as a notebook prints it above its traceback
	gpu(suspected, raised, `\bResourceExhaustedError\b(?:: |:?\s*$| \(see above)`),
	// vllm/v1/worker/gpu_worker.py, vllm/v1/core/kv_cache_utils.py; sglang/srt/model_executor/model_runner.py
	gpu(suspected, raised, `Free memory on device .{0,60}on startup is less than desired GPU memory utilization`).
		because("too little GPU memory was free at the start"),
	gpu(suspected, raised, `No available memory for the cache blocks|larger than the available KV cache memory`,
		`larger than the maximum number of tokens that can be stored in KV cache`,
		`Not enough memory\. Please try (?:to increase|increasing) --mem-fraction-static`).
		because("too little GPU memory for the cache of keys and values"),
	// xla/pjrt/cpu: the host's own device has other words than a card's allocator, and no size in GiB
	host(sure, spoken, `(?:RESOURCE_EXHAUSTED|Resource exhausted|`+
		`INTERNAL): (?:Error dispatching computation: )*Out of memory allocating \d+ bytes`),
	gpu(sure, spoken, `(?:RESOURCE_EXHAUSTED|Resource exhausted): .*(?:[Oo]ut of memory|OOM|[Ff]ailed to allocate).*\d`,
		`Ran out of memory in memory space \w+|^Out of memory while trying to allocate \d+ bytes`,
		`RESOURCE_EXHAUSTED: Attempting to (?:reserve|allocate) \d[\d.]*[KMGT]?B?\b`).because("out of accelerator memory"),
	gpu(suspected, raised, `INTERNAL: Failed to allocate \d+ bytes`).because("out of accelerator memory"),

	// --- the host refuses an allocation -------------------------------------------------------------------------------
	host(sure, raised, `DefaultCPUAllocator: (?:can't allocate memory|not enough memory)`),
	// Theano's sandbox/cuda/cuda_ndarray.cu, under Python's MemoryError; what the process itself holds is not in it
	gpu(sure, raised, `Error allocating \d+ bytes of device memory \(out of memory\)`),
	host(sure, raised,
		`(?:\b_?ArrayMemoryError|\bMemoryError): Unable to allocate|Unable to allocate [\d.]+ ?\w+ for an array`),
	other("open_files", broken, spoken, "too many open files: a limit of the process, not memory "+
		"(ulimit -n; a sharing strategy that uses files)",
		`[Tt]oo many open files|received 0 items of ancdata`),
	// aten/src/ATen/MapAllocator.cpp: of a shared tensor that is small, a process has too many maps (mmap(2), ENOMEM)
	other("map_count", broken, spoken, "a map of a file or of a small shared tensor was refused: a process has "+
		"too many maps (vm.max_map_count), not too little memory", `Memory mapping file failed: Cannot allocate memory`,
		`unable to (?:mmap|map) \d{1,7} bytes from file <(?:/?torch_|filename not specified).*Cannot allocate memory`),
	// TH's own allocator, before torch 1.0: lib/TH/THGeneral.c
	host(sure, raised, `Torch: not enough memory: you tried to (?:re)?allocate`),
	// OpenCV's core/src/alloc.cpp names its function OutOfMemoryError; Windows' ERROR_COMMITMENT_LIMIT
	host(probable, spoken,
		`\(-4:Insufficient memory\)|OpenCV.*Insufficient memory|WinError 1455|os error 1455|[Pp]aging file is too small`),
	host(probable, spoken,
		`std::bad_alloc|memory allocation of \d+ bytes failed|\bbad allocation\s*$|posix_memalign\(.{1,60} == 0\. 12 vs 0`,
		`(?:cudaHostAlloc|cudaMallocHost|hipHostMalloc)\w* failed\b.{0,40}out of memory`,
		`(?:\[Errno 12\]|errno 12|\(12\)|fork:|mmap:|malloc:?).{0,40}[Cc]annot allocate memory`,
		`[Cc]annot allocate memory.{0,30}(?:errno=12|\(12\)|Errno 12)|java\.lang\.OutOfMemoryError`,
		`JavaScript heap out of memory|^MemoryError\b|\bMemoryError:?\s*$`),
	host(probable, raised,
		`\b(?:RuntimeError|OSError|Error): .*(?:[Cc]annot allocate memory|CUDA error: host|cudaHostAlloc)`),

	{kind: CPUAlloc, weight: probable, nature: spoken, re: printed.RefusedAbroad, cause: "out of host memory"},
	// MindSpore's minddata, of the host's own part of its data; LLVM, which then aborts; Ollama's llm/server.go
	host(probable, decreed, `is terminated with err msg.{0,40}: ?Out of memory`, `\bLLVM ERROR: out of memory`,
		`\bmodel requires more system memory \(.{1,24}\) than is available`),
	// pyarrow/error.pxi, of Status::OutOfMemory in cpp/src/arrow/memory_pool.cc
	host(probable, raised, `\bArrowMemoryError\b(?:: |:?\s*$)`),

	// ECS and AWS Batch give this as the reason of a stopped container
	kill(sure, spoken, `Container killed due to memory usage`),
	// c10/cuda/CUDAMallocAsyncAllocator.cpp
	gpu(sure, raised,
		`Allocation on device ?\d* would exceed allowed memory|(?:Error: |Message:\*\* )Allocation on device\b`,
		`processing !!! Allocation on device`),

	// accelerate/utils/memory.py: each size down to one ran out of memory, and was caught
	gpu(probable, raised,
		`No executable batch size found, reached zero`).because("out of memory at every batch size down to one"),

	// Ray prints the name of a task's exception in brackets (python/ray/exceptions.py), but not for a lack of host memory
	gpu(probable, raised, `\bRayTaskError\((?:torch\.)?(?:cuda\.)?OutOfMemoryError\)`),
	// an exception by its name alone, such as DataParallel's "Caught OutOfMemoryError in replica 0"; and what C programs say
	gpu(probable, raised, `\b(?:torch\.|cuda\.)*OutOfMemoryError\b(?:: |:?\s*$)`),
	gpu(probable, spoken, `\b[Ee]rror: [Oo]ut of memory\b`).because("out of memory, of a GPU it seems"),
	// the same in other words, of an exception
	gpu(probable, raised,
		`(?i)\b(?:CUDA|HIP|XPU|NPU|MUSA|MPS|TPU|GPU|VRAM|cuDNN|cuBLAS|device|accelerator)\b[^.]{0,40}\bout[ -]of[ -]memory\b`,
		`(?i)\bout[ -]of (?:the )?(?:GPU|CUDA|device|video|graphics|accelerator|VRAM|HBM)\b[ -]?(?:memory)?`,
		`(?i)\b(?:GPU|CUDA|device|video) memory (?:is )?(?:exhausted|insufficient|full)\b|insufficient (?:GPU|CUDA) memory`,
	).only(),

	// --- /dev/shm -----------------------------------------------------------------------------------------------------
	shm(sure, spoken, `Error while creating shared memory segment |shm\w*\.(?:h|cc):\d+ NCCL WARN .*No space left`,
		`nccl-\w+.{0,120}No space left on`).because("shared memory (/dev/shm) is full: NCCL has no room for its buffers"),
	shm(sure, spoken,
		`insufficient shared memory \(shm\)|[Bb]us error.*out of shared memory|workers? (?:are|is) out of shared memory`,
		`(?:unable to (?:write to|resize|allocate shared memory|open shared memory)|/torch_\d|/dev/shm).{0,120}No space left`,
		`No space left on device.{0,60}(?:/dev/shm|shared memory)`),
	shm(probable, spoken, `unable to (?:allocate|resize) shared memory`),

	// --- the host kills -----------------------------------------------------------------------------------------------
	// Ray lists what may have been (src/ray/raylet/worker_pool.cc), the kernel among it: that says nothing
	other("worker_died", echo, consequence, "a process of the program ended",
		`There are some potential root causes|Some common causes include`),
	// src/ray/raylet/node_manager.cc
	kill(sure, spoken, `[1-9]\d* [Ww]orkers? \(tasks / actors\) killed due to memory pressure`,
		`\bRayOutOfMemoryError: `,
		`[Ww]orkers? (?:was|were) killed due to (?:memory pressure|the node running low on memory)`),
	// Slurm's slurmstepd, old and new words; the kernel's mm/oom_kill.c; Kubernetes; Ray; LSF; PBS; Grid Engine
	kill(sure, spoken, `Detected \d+ oom[-_]kill event|have been (?:OOM[ -]Killed|killed by the cgroup out-of-memory)`,
		`\bOUT_OF_MEMORY\b.*(?:slurm|State|\b0:125)|State: OUT_OF_MEMORY|(?:Exceeded|exceeded) (?:job|step) memory limit`,
		`exceeded memory limit \(\d+ > \d+\), being killed|oom-kill:|(?:Out of memory|out of memory): Kill(?:ed)? process`,
		`Memory cgroup out of memory|: tasks? [\d,-]+: Out Of Memory|\bOUT_OF_ME\+`,
		`\bOOMKilled(?:"?\s*[:=]\s*"?[Tt]rue|[^"':=\w]|["'](?:[^:]|$)|$)|Failed with result 'oom-kill'`,
		`killed by (?:the )?(?:cgroup|kernel)?.{0,12}(?:OOM|out-of-memory)[- ]?(?:killer|handler)?`),
	kill(sure, spoken,
		`node (?:was |is )?(?:running )?low on (?:resource: )?memory|TERM_MEMLIMIT|job killed.*memory (?:usage )?limit`,
		`\b(?:mem|vmem|pmem|pvmem|rss)\b (?:job total )?\d+ ?\w* exceed\w* (?:resource )?limit|`+
			`hard limit "?\w*(?:vmem|rss|data)\b|memory usage threshold|systemd-oomd.*[Kk]illed`,
		`^Job exceeded a memory resource limit|enforced h_(?:vmem|rss|data)\w* limit`,
		`^Killed /\S+ due to memory |[Kk]illed .{0,40}\bexcessive memory|sending SIG(?:TERM|KILL) to process \d+ .*badness`,
		// YARN's containers; HTCondor's starter; Vertex AI; Colab and Kaggle
		`for exceeding (?:\w+ )?memory limits|gone over (?:cgroup )?memory limit|`+
			`replica \w+ \d+ ran out-of-memory and exited`,
		`\b[Jj]ob .{0,40}\bput on hold by .*\b[Mm]emory|[Hh]old [Rr]eason\b.*\b[Mm]emory`,
		`crashed after using all available RAM|tried to allocate more memory than is available`),
	// distributed/scheduler.py of Dask, once a task's workers have died several times
	kill(suspected, raised,
		`\bKilledWorker: Attempted to run task`).because("workers were killed, most often for lack of host memory"),
	kill(suspected, spoken, `DataLoader worker \(pid\S* ?\d+\S*\) is killed by signal: Killed`).
		because("a loader worker was killed for lack of host memory"),
	// deepspeed/launcher/launch.py logs how a rank ended, as an error of its own: nobody goes on after that
	kill(killed, decreed, `exits with return code ?= ?(?:-9|137)\b`).because(""),
	kill(killed, spoken,
		`^\s*\*{0,2}Killed\*{0,2}\s*$|: line \d+: +\d+ Killed\b|\[\d+\]\+? +Killed\b|: tasks? [\d,-]+: Killed|^\d+ Killed\b`,
		`zsh: killed\b|\[\d+\] +[+-]? *\d+ killed\b|Signal 9 \(SIGKILL\) received by|Signals\.SIGKILL`,
		`(?:terminated|shutdown) (?:with|by) signal (?:SIGKILL|9\b)`,
		`(?:exit ?code|return code|exit status|exited with code)[ :=]+\(?(?:-9|137)\b|interrupted by signal 9|signal: killed`,
		`\*\*\* .*Error 137\b`,
		`[Tt]erminated by signal 9\b|failed \(exitcode: -9\)`).because(""),
	{kind: HostOOM, weight: killed, nature: spoken, re: printed.EndedAbroad},
}

// otherRules are of what is no memory, though it may look so.
var otherRules = []rule{
	other("time_limit", ordered, decreed, "the scheduler's time limit",
		`CANCELLED AT .* DUE TO TIME LIMIT|State: TIMEOUT\b|\bTIMEOUT +\d+:\d+\b|walltime \d+ exceeded limit`,
		`TERM_(?:RUN|CPU)LIMIT|(?:hit|reached|exceeded) (?:the )?(?:job )?time limit|DUE to SIGNAL Terminated`),
	other("preempted", ordered+1, decreed, "preempted by the scheduler",
		`CANCELLED AT .* DUE TO (?:PREEMPTION|NODE FAIL|JOB REQUEUE)|State: (?:PREEMPTED|NODE_FAIL)\b`,
		`\b(?:PREEMPTED|NODE_FAIL) +\d+:\d+\b|^job preempted\b|TERM_PREEMPT\b`,
		`(?:job|instance|node|worker|task|container|VM) (?:has been|was|is being|will be) preempted|PreemptionError`),
	other("cancelled", ordered, decreed, "cancelled through the scheduler",
		`\*\*\* (?:JOB|STEP) .*CANCELLED AT|State: CANCELLED\b|\bCANCELLED(?:\+| by \d+)? +\d+:\d+\b`,
		`^(?:.*;)?Job deleted at request of |TERM_(?:FORCE_)?(?:OWNER|ADMIN)\b`),
	other("process_limit", ordered, decreed, "the scheduler's limit of processes or threads", `TERM_(?:THREAD|PROCESS)L`),
	other("interrupted", ordered, spoken, "interrupted by the user",
		`^KeyboardInterrupt|[^\w'"(\x60.]KeyboardInterrupt\b|Detected KeyboardInterrupt|[Ii]nterrupted by (?:the )?user`,
		`Signal 2 \(SIGINT\) received|Received SIGINT`),
	// torch/distributed/elastic: agent/server/api.py, multiprocessing/api.py; DeepSpeed's launcher/launch.py
	other("interrupted", ordered, decreed, "interrupted by the user",
		`Received (?:2|Signals\.SIGINT) death signal|SignalException: .* got signal: 2\b|process received SIGINT, exiting`),
	other("terminated", killed, decreed, "terminated by SIGTERM", `\bprocess received SIGTERM, exiting`),
	other("terminated", killed, consequence, "ended by SIGHUP: its terminal or its session was closed",
		`Received (?:1|Signals\.SIGHUP) death signal|SignalException: .* got signal: 1\b|closing signal SIGHUP`,
		`Signal 1 \(SIGHUP\) received|^\s*Hangup\s*$`),
	other("nccl", suspected, consequence, "a collective operation timed out: another rank is gone or stuck",
		`collective operation timeout|Timed out waiting \d+ms`),
	other("nccl", suspected, consequence, "another rank or the network is gone", `NCCL operations have failed or timed`),
	other("terminated", killed, consequence, "terminated by SIGTERM",
		`[Rr]eceived (?:signal )?(?:SIGTERM|15|Signals\.SIGTERM)|Signal 15 \(SIGTERM\) received|^\s*Terminated\s*$`,
		`SignalException|(?i:exit ?code|return code)[ :=]+(?:-15|143)\b`),
	other("worker_died", echo, consequence, "a process of the program ended",
		`ChildFailedError|ProcessRaisedException|ProcessExitedException|CalledProcessError`,
		`DataLoader worker \(pid.*exited unexpectedly|BrokenPipeError|ConnectionResetError|BrokenProcessPool`,
		`Killing subprocess|Sending process \d+ closing signal|exits with return code|exitcode +:|failed \(exitcode:`,
		`UserScriptError|FAILED \(exitcode \d+\)|Process failed with exitcode|srun: error: .*Exited with exit code [1-9]`,
		`mpirun noticed that process rank \d+|worker process has died|WorkerCrashedError|ActorDiedError`,
		`llama runner (?:process )?(?:has )?(?:terminated|no longer running)`),
}

// lastRules are an exception that no other rule knows.
var lastRules = []rule{
	{name: "exception", kind: NoMemory, weight: exception, nature: raised, re: exceptionLine},
	{name: "exception", kind: NoMemory, weight: exception, nature: raised, re: printed.Headless},
	// LightGBM's include/LightGBM/utils/log.h, which throws it
	{name: "exception", kind: NoMemory, weight: exception - 1, nature: decreed, re: rx(`^\[LightGBM\] \[Fatal\] `)},
}

// exceptionLine is how Python prints an exception that nobody caught: its name first on the line. A warning is none.
var exceptionLine = rx(`^(?:[A-Za-z_]\w*\.)*(_?[A-Z]\w*(?:Error|Exception|Exhausted|Interrupt|Failure|Exit|Timeout)|` +
	`OutOfResources|Exception)(?::\s|:?\s*$)`)

// NoWorkspace names an error of CUDA's libraries that a full card causes, among many other things.
const NoWorkspace = "no_workspace"

// A text may end inside a traceback: a paste that was cut, a process that was killed while it printed. Then a program
// failed there, whatever it printed before, and its last line is missing. It may still be known why: an allocator's
// own warnings stand right above the failure that they cause, and the exception itself need not name memory.

// cutOffRule is a traceback without its last line.
var cutOffRule = rule{name: "cut_off", kind: NoMemory, weight: echo + 5, nature: raised,
	cause: "the text ends inside a traceback, before the exception's own line"}

// launchedRule is that of a launcher of processes: of another process's end.
var launchedRule = rule{name: "worker_died", kind: NoMemory, weight: echo, nature: consequence,
	cause: "a process of the program ended"}

// anyException is an exception whose name does not end as those of head do.
var anyException = rule{name: "exception", kind: NoMemory, weight: exception, nature: raised}
