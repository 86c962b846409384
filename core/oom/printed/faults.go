package printed

import "slices"

// A Fault is what ends programs though memory did not run out: what is printed of it, why it is, and what to do. All of
// the errors of a GPU, its driver and its libraries are here, since each has a cause and a remedy of its own.
type Fault struct {
	Name  string // Report.NotMemory
	Cause string // one line for a person
	// Spoken are words that a library, a shell or the kernel prints by itself; Raised are those of an exception.
	Spoken, Raised string
	// Crash: other messages may say why; Echo: it is what follows when another process has ended; Final: nothing that is
	// logged is like it.
	Crash, Echo, Final bool
	// Alone: it may be no failure, and counts only where nothing but the same follows.
	Alone bool
	Do    []Step
}

// A Step is one thing to do about a fault.
type Step struct{ What, Env, Run string }

// Late reports whether a device reports the fault at a later call than the one at fault.
func (f Fault) Late() bool {
	switch f.Name {
	case "device_assert", "device_fault", "illegal_access", "misaligned_address", "launch_failure", "launch_timeout",
		"ecc",
		"gpu_lost", "gpu_firmware":
		return true
	}
	return false
}

// FaultNamed returns the first fault of a name; its zero value if there is none.
func FaultNamed(name string) Fault {
	for _, f := range slices.Concat(Faults, Crashes, Codes, Alones) {
		if f.Name == name {
			return f
		}
	}
	return Fault{}
}

// inStep are the steps by which the call at fault is found: a device runs behind the program that calls it.
var inStep = Step{"the call that is at fault, shown by a run in step with the card", "CUDA_LAUNCH_BLOCKING=1", ""}

// Faults are tried in order, after the texts of memory and before those of any exception. CUDA's errors have the texts
// of of cudaGetErrorString and the names of cudaError_t (driver_types.h), CUresult (cuda.h) and hipError_t
// (hip_runtime_api.h); the numbers of XIDs are of NVIDIA's list of XID errors.
var Faults = []Fault{
	{Name: "kernel_resources",
		Cause: "a kernel asks for more on-chip memory, registers or threads than this GPU has: " +
			"smaller blocks or fewer stages, not a smaller batch",
		// triton/runtime/errors.py, OutOfResources; torch/_inductor/runtime/triton_heuristics.py
		// of a TPU: xla/service/memory_space_assignment
		Raised: `Ran out of memory in memory space (?:vmem|smem|cmem|sflag)|(?:exceeded|limit of) scoped vmem limit|` +
			`out of resources?: ?(?:shared memory|threads|registers|tensor memory|\w+)?,? ?Required:? ?\d+|` +
			`out of resources?: (?:shared memory|threads|registers|tensor memory)|OutOfResources|No valid triton configs|` +
			`[Ee]xceeds? the (?:maximum|limit of) .{0,20}shared memory|[Ss]hared memory size limit exceeded`,
		Spoken: `error.* uses too much shared (?:data|memory)|too many resources requested for launch|` +
			`\bCuError\(701\b|cudaErrorLaunchOutOfResources|CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES|` +
			`too many blocks in cooperative launch`},
	{Name: "no_kernel_image",
		Cause: "this build has no code for this GPU: it was compiled for other cards",
		Spoken: `no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU|` +
			`hipErrorNoBinaryForGpu|hipErrorSharedObjectInitFailed|(?:error|: )\W*invalid device function|` +
			`cudaErrorInvalidDeviceFunction|hipErrorInvalidDeviceFunction|PTX JIT compil|CUDA_ERROR_INVALID_PTX|` +
			`HSA_STATUS_ERROR_INVALID_ISA|TensileLibrary\S*.{0,80}for GPU arch|` +
			`is not defined for option 'gpu-(?:name|architecture)'|Unsupported gpu architecture '`,
		Do: []Step{
			{"a build that has code for this card: the newest release of torch for a CUDA that knows it, or the extension " +
				"compiled anew (TORCH_CUDA_ARCH_LIST has the card's number)", "",
				`python -c "import torch as t; print(t.__version__, t.version.cuda, t.cuda.get_arch_list(), ` +
					`t.cuda.get_device_capability())"`}}},
	{Name: "ecc",
		Cause: "the card's memory or links have an error that cannot be corrected: the card is at fault, not the program",
		Spoken: `[Uu]ncorrectable (?:ECC|NVLink|memory) error|cudaErrorECCUncorrectable|cudaErrorNvlinkUncorrectable|` +
			`CUDA_ERROR_(?:ECC|NVLINK)_UNCORRECTABLE|\bXid \([^)]*\): (?:48|64|74|95|140|171|172)\b|` +
			`\bXid \([^)]*\): \d+,.*(?:DBE|[Uu]ncorrect)|row.?remap\w* fail`,
		Do: []Step{
			{"another card: this one has to be reset or replaced by whoever runs the machine", "CUDA_VISIBLE_DEVICES=N",
				"nvidia-smi -q -d ECC,ROW_REMAPPER; journalctl -k -g Xid"}}},
	{Name: "gpu_lost",
		Cause: "the machine lost the card: it has fallen off the bus, or no longer answers",
		Spoken: `GPU has fallen off the bus|\bXid \([^)]*\): 79\b|\bGPU is lost\b|` +
			`Unable to determine the device handle for (?:GPU|gpu)|GPU_IS_LOST|_ERROR_DEVICE_LOST|ErrorDeviceLost|` +
			`DXGI_ERROR_DEVICE_(?:REMOVED|HUNG)|GPU hang\b|GPU reset (?:begin|failed)|HW Exception by GPU node`,
		Do: []Step{
			{"a reboot, then a look at the card's power, temperature and slot; another card until then", "",
				"nvidia-smi -q; journalctl -k -g 'Xid|NVRM|amdgpu'"}}},
	{Name: "gpu_firmware",
		Cause:  "the card's own firmware or driver stopped answering",
		Spoken: `\bXid \([^)]*\): (?:38|44|56|57|58|61|62|69|109|110|11[69]|12[0-9]|14[357]|15[0-9])\b|GSP RPC timeout`,
		Do: []Step{{"a reset of the card or a reboot, then a newer driver", "",
			"nvidia-smi -q; journalctl -k -g 'Xid|NVRM'"}}},
	{Name: "driver_mismatch",
		Cause: "the driver does not fit the CUDA libraries: it was updated without a restart, or is older than they need",
		Spoken: `[Dd]river/library version mismatch|unsupported display driver ?/ ?cuda driver combination|` +
			`cudaErrorSystemDriverMismatch|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|` +
			`forward compatibility was attempted on non supported HW|cudaErrorCompatNotSupportedOnDevice|` +
			`CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE`,
		Do: []Step{
			{"a restart of the machine, so that the loaded driver is the installed one", "",
				"nvidia-smi; cat /proc/driver/nvidia/version"},
			{"in a container: no libcuda of its own before the host's (cuda-compat in LD_LIBRARY_PATH)", "",
				"ldconfig -p | grep libcuda.so; echo $LD_LIBRARY_PATH"}}},
	{Name: "driver_old",
		Cause: "the driver is older than the CUDA that this program was built with",
		Spoken: `CUDA driver version is insufficient|cudaErrorInsufficientDriver|NVIDIA driver on your system is too old|` +
			`API call is not supported in the installed CUDA driver|cudaErrorCallRequiresNewerDriver|` +
			`requirement error: unsatisfied condition: cuda ?>=|hipErrorInsufficientDriver|` +
			// the code for this card is compiled by the driver, which has to know that much of PTX
			`compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion|CUDA_ERROR_UNSUPPORTED_PTX_VERSION`,
		Do: []Step{
			{"a newer driver, or a build for the CUDA that nvidia-smi names at its top right", "",
				`nvidia-smi; python -c "import torch; print(torch.version.cuda)"`}}},
	{Name: "bad_image",
		Cause: "the driver cannot read the code that it was given for this GPU: a newer toolkit made it, it is for another " +
			"card, or it is damaged",
		Spoken: `device kernel image is invalid|cudaErrorInvalidKernelImage|CUDA_ERROR_INVALID_IMAGE|hipErrorInvalidImage`,
		Do: []Step{
			{"a newer driver, or compilers of GPU code (torch, Triton and its ptxas) of no newer a CUDA than the one that " +
				"nvidia-smi names at its top right", "",
				`nvidia-smi; python -c "import torch; print(torch.version.cuda)"; pip show triton`},
			{"the code compiled anew, of which a copy is kept", "", "rm -r ~/.triton/cache"}}},
	{Name: "fabric",
		Cause: "the machine's NVSwitches are not set up: its fabric manager does not run, or is of another version",
		Spoken: `system not yet initialized|cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY|` +
			`[Ff]abric [Mm]anager.{0,40}(?:not running|failed)`,
		Do: []Step{{"the fabric manager of the driver's own version", "",
			"systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -i -A2 fabric"}}},
	{Name: "cpu_build",
		Cause: "this build has no code for the GPU: it was installed without it",
		Raised: `Torch not compiled with (?:CUDA|MPS|XPU|ROCm|HIP) enabled|(?:not compiled|built) with(?:out)? (?:CUDA|` +
			`GPU) (?:enabled|support)|module 'torch\._C' has no attribute '_cuda_|` +
			`Not compiled with (?:CUDA|GPU) support|wasn't (?:compiled|built) with (?:CUDA|GPU)|` +
			`was not (?:compiled|built) with (?:CUDA|GPU|NPU|XPU)|libbitsandbytes_cpu\.so: undefined symbol`,
		Do: []Step{{"a build for this kind of GPU, from the package's own index", "",
			`python -c "import torch; print(torch.__version__, torch.version.cuda, torch.version.hip)"`}}},
	{Name: "no_device",
		Cause: "this process sees no GPU: no driver, no access to it, or it is hidden",
		Spoken: `(?:error|Error|ERROR)\W.*(?:no CUDA-capable device is detected|no ROCm-capable device is detected)|` +
			`cudaErrorNoDevice\b|hipErrorNoDevice\b|could not select device driver|` +
			`NVIDIA-SMI has failed because it couldn't communicate|ROCk module is NOT loaded`,
		Raised: `No (?:CUDA|HIP|XPU|NPU) (?:GPUs|devices?) (?:are|is) available|Found no NVIDIA driver on your system|` +
			`CUDA is not available|No CUDA runtime is found|torch\.cuda\.is_available\(\) (?:is|returns?) False|` +
			`GPU is not available|no (?:supported )?gpu (?:backend )?(?:found|available)|` +
			`CUDA_ERROR_NO_DEVICE|No CUDA-capable device|NVMLError_(?:DriverNotLoaded|LibraryNotFound|Unknown)|` +
			`Failed to (?:detect|infer) (?:a )?device(?: type)?|No GPU/TPU found|Unable to initialize backend '(?:cuda|tpu)'`,
		Do: []Step{
			{"a look at what is there: the driver, and whether the container or the job was given a card", "",
				"nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES; ls -l /dev/nvidia*"},
			{"a card for the container (docker run --gpus all) or the job (sbatch --gres=gpu:1)", "", ""}}},
	{Name: "bad_ordinal",
		Cause: "a GPU is named by a number that this process does not see",
		Spoken: `(?:error|Error|ERROR|: )\W*invalid device ordinal|cudaErrorInvalidDevice\b|CUDA_ERROR_INVALID_DEVICE\b|` +
			`hipErrorInvalidDevice\b`,
		Raised: `[Ii]nvalid device (?:id|ordinal)|Attempting to deserialize object on (?:CUDA )?device \d+ but|` +
			`Invalid CUDA 'device=\S+' requested`,
		Do: []Step{
			{"as many processes as cards, and numbers from 0 on: what CUDA_VISIBLE_DEVICES leaves is numbered anew", "",
				"nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES"},
			{"a state of another machine read onto a card that is there: torch.load(path, map_location=\"cuda:0\")", "", ""}}},
	{Name: "gpu_busy",
		Cause: "the card is busy or unavailable: another process has it alone, or it hangs",
		Spoken: `(?:is/are|are|is) busy or unavailable|cudaErrorDevicesUnavailable|cudaErrorDeviceUnavailable|` +
			`CUDA_ERROR_DEVICE_UNAVAILABLE|exclusive-thread device already in use|cudaErrorDeviceAlreadyInUse`,
		Do: []Step{
			{"who has it, and whether it is in a mode for one process (Exclusive_Process)", "CUDA_VISIBLE_DEVICES=N",
				"nvidia-smi; nvidia-smi -q -d COMPUTE"}}},
	{Name: "mps_server",
		Cause: "CUDA's MPS server did not answer, or ended its clients after a fault of one of them",
		Spoken: `MPS client (?:failed|has been terminated|terminated)|MPS server (?:is not ready|failed)|cudaErrorMps\w+|` +
			`CUDA_ERROR_MPS_\w+`,
		Do: []Step{{"the MPS daemon restarted, or not used", "CUDA_MPS_PIPE_DIRECTORY=/dev/null",
			"ps ax | grep nvidia-cuda-mps; cat /var/log/nvidia-mps/*.log"}}},
	{Name: "device_assert",
		Cause: "a device-side assert: an index or label out of range; what comes after it on this device means nothing",
		Spoken: `device-side assert triggered|cudaErrorAssert\b|CUDA_ERROR_ASSERT\b|` +
			`\.(?:cuh?|hip):\d+: .*Assertion .* failed`,
		Do: []Step{
			{"the line that is at fault, shown by a run in step with the card, or on the CPU: an index or a label is out of " +
				"range", "CUDA_LAUNCH_BLOCKING=1", ""},
			{"labels from 0 to the number of classes - 1 (or ignore_index), token ids below the size of the embedding", "",
				""}}},
	{Name: "illegal_access",
		Cause: "a kernel on the GPU read or wrote where it may not",
		Spoken: `illegal memory access|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS|hipErrorIllegalAddress|` +
			`Memory access fault by GPU node|invalid program counter|cudaErrorInvalidPc|` +
			`an illegal instruction was encountered|` +
			`cudaErrorIllegalInstruction|[Hh]ardware stack error|operation not supported on global/shared address space|` +
			`HSA_STATUS_ERROR_(?:MEMORY_APERTURE_VIOLATION|EXCEPTION|ILLEGAL_INSTRUCTION)|\bXid \([^)]*\): (?:13|31)\b`,
		Do: []Step{inStep,
			{"an index, a shape or a stride that the kernel does not expect: the custom kernels first", "",
				"compute-sanitizer --tool memcheck python …"}}},
	{Name: "misaligned_address",
		Cause:  "a kernel on the GPU read or wrote at an address that its type does not allow",
		Spoken: `misaligned address|cudaErrorMisalignedAddress|CUDA_ERROR_MISALIGNED_ADDRESS`,
		Do: []Step{inStep, {"tensors whose start and strides are multiples of the vector that the kernel reads: " +
			".contiguous(), sizes that are multiples of 8; or another version of the extension", "", ""}}},
	{Name: "launch_timeout",
		Cause: "a kernel ran longer than a card with a display may: its watchdog ended it",
		Spoken: `the launch timed out and was terminated|cudaErrorLaunchTimeout|CUDA_ERROR_LAUNCH_TIMEOUT|` +
			`kIOGPUCommandBufferCallbackErrorTimeout|Caused GPU Timeout Error|ErrorImpactingInteractivity`,
		Do: []Step{
			{"a card without a display, or shorter kernels: smaller batches and tiles; on Windows a longer TdrDelay", "",
				"nvidia-smi -q -d DISPLAY"}}},
	{Name: "launch_failure",
		Cause: "a kernel crashed on the GPU, for a reason that CUDA does not name: an invalid access, or a card that fails",
		Spoken: `unspecified launch failure|cudaErrorLaunchFailure|CUDA_ERROR_LAUNCH_FAILED|hipErrorLaunchFailure|` +
			`\bXid \([^)]*\): (?:32|43|45)\b`,
		Do: []Step{inStep, {"the card's own errors, its power and its temperature", "",
			"nvidia-smi -q -d ECC,TEMPERATURE,POWER; journalctl -k -g Xid"}}},
	{Name: "launch_config",
		Cause: "a kernel was called with a grid or an argument that is not possible: often an empty tensor, or one too large",
		Spoken: `invalid configuration argument|cudaErrorInvalidConfiguration|` +
			`CUDA error: invalid argument|hipErrorInvalidConfiguration|NDArray dimension length > INT_MAX`,
		Do: []Step{{"the shapes of the tensors at that line: one of them is empty, or has more than 2^31 elements", "",
			""}, inStep}},
	{Name: "graph_capture",
		Cause: "a CUDA graph was being captured, and something was called that a graph cannot hold",
		Spoken: `operation (?:not permitted|would make the legacy stream depend|` +
			`failed due to a previous error) .{0,30}captur|cudaErrorStreamCapture\w+|CUDA_ERROR_STREAM_CAPTURE_\w+`,
		Do: []Step{{"without CUDA graphs (enforce_eager=True, mode=\"default\", --disable-cuda-graph), to see what it is",
			"", ""}}},
	{Name: "forked_cuda",
		Cause: "CUDA was used before the process was forked, and cannot be used in the child",
		Raised: `[Cc]annot re-initialize CUDA in forked subprocess|Cannot re-initialize (?:XPU|NPU) in forked|` +
			`CUDA (?:runtime )?error\W*initialization error`,
		Do: []Step{{"processes that are spawned, not forked; nothing of CUDA before they begin",
			"VLLM_WORKER_MULTIPROC_METHOD=spawn", ""},
			{`torch.multiprocessing.set_start_method("spawn"), or multiprocessing_context="spawn" for the loader`, "", ""}}},
	{Name: "peer_access",
		Cause:  "the cards cannot read each other's memory on this machine",
		Spoken: `peer access is not supported|cudaErrorPeerAccessUnsupported|peer mapping resources exhausted`,
		Do: []Step{{"copies through the host in place of peer access", "NCCL_P2P_DISABLE=1",
			"nvidia-smi topo -p2p r"}}},
	{Name: "cuda_unknown",
		Cause: "the driver is in a state that CUDA does not name: often after a suspend, or without nvidia_uvm",
		Spoken: `CUDA(?: driver| runtime)? error: unknown error|CUDA unknown error|cudaErrorUnknown\b|CUDA_ERROR_UNKNOWN\b|` +
			`OS call failed or operation not supported on this OS|cudaErrorOperatingSystem`,
		Do: []Step{{"the module loaded anew, or a reboot", "",
			"sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm; journalctl -k -g NVRM"}}},
	{Name: "cudnn_version",
		Cause: "cuDNN, or another CUDA library, is missing or of another version than the program was built with",
		Spoken: `CUDNN_STATUS_(?:SUBLIBRARY_\w+|VERSION_MISMATCH|RUNTIME_PREREQUISITE_MISSING|DEPRECATED)|` +
			`(?:Could not load|Unable to load|Error loading|Cannot load) (?:library|symbol|any of)\W.{0,60}` +
			`(?:cudnn|cublas|nvrtc|cusparse|cufft|nvJitLink)|` +
			`cuDNN version incompatibility|[Ll]oaded runtime CuDNN library: .*compiled with|cuDNN version mismatch`,
		Raised: `lib(?:cudnn|cublas|cublasLt|cudart|cusparse|cufft|nccl|nvrtc|nvJitLink|curand|cusolver)\S*: ` +
			`(?:cannot open shared object|undefined symbol)|__nvJitLink\w+|undefined symbol: (?:cudnn|cublas|nccl)\w+`,
		Do: []Step{
			{"one copy of each CUDA library, the one that the framework brings: others may come first by LD_LIBRARY_PATH",
				"LD_LIBRARY_PATH=",
				`python -m torch.utils.collect_env; pip list | grep -i nvidia; echo $LD_LIBRARY_PATH`}}},
	{Name: "cudnn_unsupported",
		Cause:  "cuDNN cannot compute this: the shape, the layout or the type of a tensor is not one that it supports",
		Spoken: `CUDNN_STATUS_(?:NOT_SUPPORTED|BAD_PARAM|ARCH_MISMATCH|INVALID_VALUE|LICENSE_ERROR)\w*`,
		Do: []Step{
			{"contiguous tensors of a usual type at that line; without cuDNN, to see whether it is the cause: " +
				"torch.backends.cudnn.enabled = False", "", ""},
			{"a driver, CUDA and cuDNN that belong together", "", "python -m torch.utils.collect_env"}}},
	{Name: "cudnn_failed",
		Cause: "a kernel of cuDNN failed: an error before it on this card, or a cuDNN that does not fit the card or the " +
			"driver",
		Spoken: `CUDNN_STATUS_(?:EXECUTION_FAILED\w*|MAPPING_ERROR)|miopenStatus(?:InternalError|UnknownError)|` +
			`MIOpen(?:\(HIP\))?:? Error`,
		Do: []Step{inStep,
			{"a driver, CUDA and cuDNN that belong together", "", "python -m torch.utils.collect_env"},
			{"without its choice by measurement: torch.backends.cudnn.benchmark = False", "", ""}}},
	{Name: "cublas_failed",
		Cause: "a matrix product failed on the GPU: its shapes or types do not fit, an index before it was out of range, " +
			"or cuBLAS does not fit the driver",
		Spoken: `(?:CUBLAS|HIPBLAS|ROCBLAS|rocblas|CUSPARSE|CUSOLVER)_(?:STATUS_|status_)(?:EXECUTION_FAILED|INVALID_VALUE|` +
			`NOT_SUPPORTED|ARCH_MISMATCH|MAPPING_ERROR|MATRIX_TYPE_NOT_SUPPORTED|\w*invalid_\w+|UNKNOWN)`,
		Do: []Step{inStep,
			{"one copy of cuBLAS, the one that the framework brings", "",
				"pip list | grep -i cublas; echo $LD_LIBRARY_PATH"}}},
	{Name: "duplicate_gpu",
		Cause:  "two ranks use the same card, and NCCL refuses that",
		Spoken: `Duplicate GPU detected ?: ?rank \d+ and rank \d+`,
		Do: []Step{{`one card for each rank: torch.cuda.set_device(int(os.environ["LOCAL_RANK"])), and no more ranks than ` +
			"cards", "", "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES"}}},
	{Name: "metal_fault",
		Cause: "the program was aborted: Metal, the system's GPU library, ended its work",
		Spoken: `\[METAL\] Command buffer execution failed|` +
			`kIOGPUCommandBufferCallbackError(?:Hang|PageFault|InvalidResource|BlackListed)`,
		Do: []Step{{"smaller batches and shorter sequences, so that each piece of work is short", "", ""},
			{"a newer version of the system and the framework", "", ""}}},
	{Name: "disk_full", Cause: "a file could not be written: the disk or a quota is full",
		Spoken: `No space left on device|[Dd]isk quota exceeded|not enough disk space|PytorchStreamWriter failed writing|` +
			`unexpected pos \d+ vs \d+|low on resource: ephemeral-storage`},
	{Name: "nan", Cause: "the loss, or another value, is no longer a finite number",
		// detr's engine.py, torchvision's references/detection/engine.py, and all who follow them, print this and exit
		Spoken: `(?i)\bloss became infinite or nan at\b|\bloss is (?:nan|-?inf\w*|not finite|tensor\(nan\S*|` +
			`non-finite)\W{1,4}(?:\w+ )?(?:stop|abort|exit|terminat|quit)`,
		Raised: `(?i)(?:NaN(?:/Inf)?|non-finite) (?:was )?(?:found|detected|encountered|loss)|loss (?:is|was|became|` +
			`turned) (?:an? )?(?:nan|inf|not finite)|` +
			`FloatingPointError|[Ll]oss scale (?:already at minimum|reached)|returned nan values|` +
			`(?:contains?|has|have|got|became|become|is|are) (?:a )?(?:NaNs?|Infs?)\b|` +
			`\b(?:NaNs?|nan)(?: or inf\w*)? (?:loss|values?|gradients?|in)\b|probability tensor contains either .?inf`},
	// A library that could not take what it needs to start (facts: the usual face of a full card, and of others).
	{Name: "no_workspace", Cause: "a library of the GPU could not start or found no algorithm: the usual face of a full " +
		"card, or of a broken installation",
		Raised: `Failed to call ThenRnn|Failed to get convolution algorithm|DNN library is not found|` +
			`cuDNN failed to initialize|DNN library initialization failed|Failed to create cu(?:DNN|BLAS) handle`,
		Spoken: `Unable to find a valid cuDNN algorithm|(?:GET|FIND) was unable to find an engine|` +
			`(?:CUDNN|CUBLAS|CUSOLVER|CUSPARSE)_STATUS_(?:NOT_INITIALIZED|INTERNAL_ERROR)`},
	{Name: "device_fault", Cause: "an error of the GPU or its libraries",
		Spoken: `Check failed: \w+ == (?:cudaSuccess|CUDA_SUCCESS)|(?:CUDA|HIP|XPU|MUSA)(?: driver)? error: |cuDNN error: |` +
			`(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|HIPBLAS)_STATUS_[A-Z_]+|NPU function error|Triton Error \[|` +
			`Native API failed|level_zero backend failed`},
	// torch_npu's csrc/distributed, and the collective library of Ascend's cards
	{Name: "hccl", Crash: true, Cause: "a collective operation between NPUs failed: another rank is gone, or the link",
		Spoken: `ERR02200|HCCL function error|\bHccl\w+, error code is \d+|hccl api failed|\bEI000[1-9]\b|` +
			`HcclCommInit\w* failed`,
		Do: []Step{{"the first rank that failed: its own log says why", "", "ls -t ~/ascend/log/debug/plog | head"},
			{"the links between the cards, and the same versions on all machines", "HCCL_CONNECT_TIMEOUT=1200",
				"hccn_tool -i 0 -link -g; npu-smi info"}}},
	{Name: "nccl_usage", Echo: true, Cause: "NCCL was called with what it does not take, or in several versions",
		Spoken: `ncclInvalidUsage|ncclInvalidArgument|NCCL version mismatch|Mismatched NCCL version`,
		Do: []Step{{"what NCCL itself says of it, in each rank's log", "NCCL_DEBUG=INFO", ""},
			{"the same torch and NCCL on all machines, one card for each rank", "",
				`python -c "import torch; print(torch.__version__, torch.cuda.nccl.version())"`}}},
	{Name: "nccl_system", Echo: true, Cause: "NCCL could not use the network or the system: a socket, InfiniBand, " +
		"shared memory; or the rank at the other end has ended",
		Spoken: `[Uu]nhandled system error|ncclSystemError|no socket interface found|` +
			`NET/\w+ ?: .*(?:[Ff]ail|[Ee]rror|status=[1-9])|Call to (?:connect|bind|accept|ibv_\w+|recv|send)\S* .*failed`,
		Do: []Step{{"the first rank that failed: its own log says why (several logs at once: launch explain rank*.log)",
			"NCCL_DEBUG=INFO", ""},
			{"the network between the machines by its name, and without InfiniBand, to see which it is",
				"NCCL_SOCKET_IFNAME=eth0 NCCL_IB_DISABLE=1", "ip -brief address"}}},
	{Name: "nccl", Echo: true, Cause: "another rank is gone, or the network between them",
		Spoken: `ncclUnhandledCudaError|ncclInternalError|ncclRemoteError|DistBackendError|NCCL error(?: in)?:|` +
			`NCCL Error \d+:|Connection (?:closed|reset) by (?:remote )?peer|[Ss]ocket [Tt]imeout`},
}

// Headless are messages of exceptions whose heads are in another line: several processes printed at once. They are
// ATen's (TensorIterator.cpp, LinearAlgebra.cpp, ExpandUtils.cpp, ScalarType's checks) and autograd's.
var Headless = rx(`^(?:Expected all tensors to be on the same device, but|` +
	`mat1 and mat2 (?:shapes cannot be multiplied|must have)|The size of tensor a \(\d+\) must match the size|` +
	`element \d+ of tensors does not require grad|` +
	`one of the variables needed for gradient computation has been|Trying to backward through the graph a second|` +
	`Expected to have finished reduction in the prior iteration|expected scalar type \w+ but found )`)

// Crashes are tried after all other texts but that of an exception: what a shell, a launcher or a language's runtime
// prints of a process that ended by a signal or gave up (bash's jobs.c, zsh's and fish's words, glibc's malloc.c,
// libc++abi, CPython's faulthandler.c, ggml.c). By a code alone, it is the end of another process.
var Crashes = []Fault{
	{Name: "heap_corrupted", Crash: true,
		Cause: "the program was aborted: native code wrote over memory that is not its own",
		Spoken: `free\(\): (?:invalid|double)|double free or corruption|(?:malloc|realloc|calloc)\(\): \w+|` +
			`corrupted size vs|corrupted double-linked|munmap_chunk\(\)|malloc_consolidate\(\)|` +
			`stack smashing detected|heap corruption detected|pointer being freed was not allocated|0x[cC]0000374`,
		Do: []Step{backtrace, versions}},
	{Name: "illegal_instruction", Crash: true,
		Cause:  "the program uses an instruction that this CPU does not have",
		Spoken: `(?:^|[\d:] +|zsh: |: )[Ii]llegal (?:hardware )?instruction\b|0x[cC]000001[dD]|` + bySignal("SIGILL"),
		Do: []Step{{"a build for this CPU, often one without AVX; or a newer CPU", "", "lscpu | grep -i flags"},
			backtrace}},
	{Name: "bus_error", Crash: true,
		Cause:  "a bus error: most often /dev/shm is full, or a file was cut short while it was memory-mapped",
		Spoken: `(?:^|[\d:] +|zsh: |: )[Bb]us error\b|` + bySignal("SIGBUS"),
		Do: []Step{{"more shared memory for the container (docker run --shm-size=8g), or fewer loader workers", "",
			"df -h /dev/shm"}, backtrace}},
	{Name: "arithmetic", Crash: true,
		Cause:  "native code divided by zero, or did what its type does not allow",
		Spoken: `(?:^|[\d:] +|zsh: |: )[Ff]loating point exception\b|` + bySignal("SIGFPE"),
		Do:     []Step{backtrace}},
	{Name: "crash", Crash: true,
		Cause: segfault,
		Spoken: `[Ss]egmentation fault\b|` + bySignal("SIGSEGV") + `|\bsegfault at [\da-f]|EXC_BAD_ACCESS|0x[cC]0000005\b|` +
			`Windows fatal exception: access violation|-1073741819\b|3221225477\b`,
		Do: []Step{backtrace, versions}},
	{Name: "missing_library", Crash: true,
		Cause:  "the program could not start: a library that it needs is not there",
		Spoken: `0x[cC]0000135\b|-1073741515\b|^dyld\S*: Library not loaded|error while loading shared libraries`,
		Do:     []Step{versions}},
	{Name: "stack_overflow", Crash: true,
		Cause: "the program crashed: its stack was used up",
		Spoken: `[Ss]tack overflow\b.{0,40}(?:core|abort|fatal)|0x[cC]00000[fF][dD]\b|has overflowed its stack|` +
			`Cannot recover from stack overflow`,
		Do: []Step{{"a larger stack, or less recursion", "", "ulimit -s unlimited"}, backtrace}},
	{Name: "aborted", Crash: true,
		Cause: aborted,
		Spoken: `terminate called (?:after throwing|without an active|recursively)|libc\+\+abi: terminating|` +
			`^\s*Aborted(?:!|\s*$|\s*\(|\s\s)|: line \d+: +\d+ Aborted\b|[Aa]bort trap\b|` +
			`^zsh: (?:abort|trace trap)\b|^zsh: IOT instruction|` + bySignal("SIGABRT") + `|` +
			bySignal("SIGTRAP") + `|[Tt]race/breakpoint trap|GGML_ABORT\b|\*\*\* Check failure stack trace|signal: aborted|` +
			`^F\d{4} .*Check failed: |^\d[\d :.-]+: F \S+:\d+\] |failed assertion [\x60']|: Assertion [\x60'].*' failed|` +
			`^Assertion failed: .*, line \d|` +
			`^Fatal (?:Python|glibc) error|^fatal runtime error|^LLVM ERROR: |^thread '.*' (?:\(\d+\) )?panicked at|` +
			`Fatal Python error: |0x[cC]0000409\b|terminated by signal SIG(?:ABRT|TRAP)`,
		Do: []Step{backtrace}},
	// bash's words in other languages (its po files)
	{Name: "aborted", Crash: true, Cause: aborted,
		Spoken: `已放弃|中止 \(|Abgebrochen \(|^Abandon\b.*\(|Abortado \(|Annullato \(|Аварийный останов|Przerwane \(`},
	{Name: "crash", Crash: true, Cause: segfault,
		Spoken: `段错误|区段错误|Speicherzugriffsfehler|Erreur de segmentation|Violación de segmento|Errore di segmentazione|` +
			`Falha de segmentação|Ошибка сегментирования|Naruszenie ochrony pamięci|세그멘테이션 오류`},
	{Name: "aborted", Final: true, Cause: aborted, Spoken: `GGML_ASSERT(?:\(.*\) failed|: \S)`},
	{Name: "crash", Crash: true, Cause: "the program crashed",
		Spoken: `The [Kk]ernel crashed while|[Kk]ernel (?:appears to have |has )?died\b|\(core dumped\)|` +
			`Caught signal \d+ \(`},
}

// Codes are the ends of processes by their exit code, as launchers and shells print it.
var Codes = []Fault{
	ended("crash", "139|-11", "SIGSEGV|11"), ended("aborted", "134|-6", "SIGABRT|6"), ended("bus_error", "135|-7",
		"SIGBUS|7"),
	ended("illegal_instruction", "132|-4", "SIGILL|4"), ended("arithmetic", "136|-8", "SIGFPE|8"),
	{Name: "timeout", Cause: "ended by a timeout: its time was over",
		Spoken: `timeout: sending signal (?:TERM|KILL|INT)|` + byCode("124"), Crash: true,
		Do: []Step{{"more time (timeout DURATION COMMAND ends what takes longer and exits with 124), and a resume from the " +
			"last saved state", "", ""}}},
	{Name: "bad_arguments", Cause: "the command has an argument or a setting that the program does not take", Final: true,
		// argparse.py, click/exceptions.py, hydra/_internal
		Spoken: `^\S+(?: \w+)?: error: (?:unrecognized arguments|the following arguments are required|argument \S+: |` +
			`ambiguous option|one of the arguments|too few arguments|Missing option)|` +
			`^Error: (?:No such (?:option|command)|Missing (?:argument|option)|Invalid value|Got unexpected extra)|` +
			`^error: unexpected argument|^\S+: unrecognized option|^Could not override '`,
		Do: []Step{{"the spelling of that argument, and what the program of this version takes", "",
			"python PROGRAM --help"}}},
}

// Alones are texts of a failure that others print too, and go on.
var Alones = []Fault{
	{Name: "weights_mismatch", Crash: true, Alone: true,
		Cause: "the weights are of another model or configuration",
		// torch/nn/modules/module.py, load_state_dict
		Spoken: `^\W*size mismatch for [\w.]+: copying a param|^\W*(?:Missing|Unexpected) key\(s\) in state_dict: `,
		Do: []Step{{"weights of the same model and configuration (number of classes, vocabulary, width); strict=False only " +
			"where that part is meant to be new", "", ""}}},
	{Name: "not_found", Crash: true, Alone: true, Cause: "the program or its file was not found",
		Spoken: `: command not found\s*$|can't open file '.*': \[Errno 2\]|^\S*sh: (?:line \d+: |\d+: )?\S+: (?:not found|` +
			`No such file or directory)\s*$|executable file not found in|^fish: Unknown command|^zsh: command not found`,
		Do: []Step{{"the path of the program, and the environment that has it", "", "pwd; which python; echo $PATH"}}},
}

const (
	aborted  = "the program was aborted: native code found an error that it cannot handle"
	segfault = "the program crashed: native code read or wrote where it may not"
)

// ended is the end of a process with one of some codes, or by a signal.
func ended(name, codes, signals string) Fault {
	by := `|(?:terminated|shutdown) (?:with|by) signal (?:`
	died := `)\b|died with <Signals\.(?:`
	f := Fault{Name: name, Spoken: byCode(codes) + by + signals + died + signals + `)\b`, Echo: true}
	for _, c := range Crashes {
		if c.Name == name && f.Cause == "" {
			f.Cause = c.Cause
		}
	}
	return f
}

// bySignal matches a signal's name where it is what ended a process, and no handler's.
func bySignal(name string) string {
	return `(?:by|with|signal:?|got) ` + name + `\b|\b` + name + `(?: received|\)| \()`
}

func byCode(codes string) string {
	return `(?:\*\*\* .*Error|[Ee]xit ?[Cc]ode|[Rr]eturn code|[Ee]xit status|[Ee]xited with(?: code)?|exitcode ?|` +
		`with status)[ :=]+\(?(?:` +
		codes + `)(?:[.,;)]|\s*$|\s*[([]|\) |\s+local_rank)`
}

var (
	backtrace = Step{"where it crashed, of every thread", "PYTHONFAULTHANDLER=1", ""}
	versions  = Step{"libraries that were built for each other: the newest crash after an update comes from a mixture", "",
		"python -m torch.utils.collect_env; pip check"}
)
