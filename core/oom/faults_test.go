package oom

import (
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom/printed"
)

// Each fault of a device, its driver and its libraries has a name of its own, in the words of whoever prints it.
func TestFaults(t *testing.T) {
	for name, texts := range map[string][]string{
		"no_kernel_image": {
			began + inMain + "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device\n" +
				"CUDA kernel errors might be asynchronously reported at some other API call\n",
			"CUDA error: no kernel image is available for execution on the device\n  current device: 1, in function ggml_op " +
				"at ops.cu:31\n  hipGetLastError()\nops.cu:31: CUDA error\nAborted (core dumped)\n",
			began + inMain + "RuntimeError: HIP error: invalid device function\nHIP kernel errors might be reported later\n",
			"rocBLAS error: Cannot read /opt/x/TensileLibrary.dat: Illegal seek for GPU arch : gfx1036\nAborted\n",
			"nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"},
		"ecc": {
			began + inMain + "RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
			"[ 8123.4] NVRM: Xid (PCI:0000:4b:00): 48, pid=901, name=python, An uncorrectable double bit error (DBE)\n",
			began + inMain + "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution\n"},
		"gpu_lost": {
			"[77123.9] NVRM: Xid (PCI:0000:0b:00): 79, pid='<unknown>', GPU has fallen off the bus.\n",
			"Unable to determine the device handle for GPU0000:0B:00.0: Unknown Error\n",
			began + inMain + "pynvml.NVMLError_GpuIsLost: GPU is lost\n"},
		"driver_mismatch": {
			"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90\n",
			began + inMain + "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported " +
				"display driver / cuda driver combination\n",
			began + inMain + "RuntimeError: CUDA error: forward compatibility was attempted on non supported HW\n"},
		"driver_old": {
			began + inMain + "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version\n",
			began + inMain + "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n",
			began + inMain + "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.\n",
			"docker: Error response from daemon: nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.6\n"},
		"bad_image": {
			began + inMain + "torch.AcceleratorError: CUDA error: device kernel image is invalid\n",
			began + inMain + "cupy_backends.cuda.api.driver.CUDADriverError: CUDA_ERROR_INVALID_IMAGE: device kernel image " +
				"is invalid\n"},
		"fabric": {began + inMain + "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet " +
			"initialized\n"},
		"cpu_build": {began + inMain + "AssertionError: Torch not compiled with CUDA enabled\n",
			began + inMain + "AssertionError: Torch not compiled with XPU enabled\n"},
		"no_device": {
			began + inMain + "RuntimeError: No CUDA GPUs are available\n",
			began + inMain + "RuntimeError: Found no NVIDIA driver on your system. Please check that you have one.\n",
			began + inMain + "RuntimeError: CUDA error: no CUDA-capable device is detected\n",
			began + inMain + "RuntimeError: No HIP GPUs are available\n",
			"docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].\n",
			"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"},
		"bad_ordinal": {began + inMain + "RuntimeError: CUDA error: invalid device ordinal\n",
			began + inMain + "RuntimeError: Attempting to deserialize object on CUDA device 3 but " +
				"torch.cuda.device_count() is 1.\n"},
		"gpu_busy": {began + inMain + "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable\n",
			began + inMain + "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"},
		"device_assert": {
			"/b/aten/src/ATen/native/cuda/Indexing.cu:1289: indexSelect: block: [9,0,0], thread: [1,0,0] Assertion " +
				"`srcIndex < srcSelectDimSize` failed.\n" + began + inMain +
				"RuntimeError: CUDA error: device-side assert triggered\n",
			began + inMain + "RuntimeError: HIP error: device-side assert triggered\n"},
		"illegal_access": {
			began + inMain + "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n",
			"Memory access fault by GPU node-1 (Agent handle: 0x5581) on address 0x7f11. Reason: Page not present or " +
				"supervisor privilege.\nAborted (core dumped)\n",
			"terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: an illegal instruction was " +
				"encountered\n",
			"[rank2]:[E1101 02:03:04.1 ProcessGroupNCCL.cpp:1895] [PG ID 0 Rank 2] Process group watchdog thread " +
				"terminated with exception: CUDA error: an illegal memory access was encountered\n"},
		"misaligned_address": {began + inMain + "RuntimeError: CUDA error: misaligned address\n"},
		"launch_timeout": {began + inMain + "RuntimeError: CUDA error: the launch timed out and was terminated\n",
			"libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command buffer execution " +
				"failed: Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)\n"},
		"launch_failure": {began + inMain + "RuntimeError: CUDA error: unspecified launch failure\n",
			"cudaErrorLaunchFailure: unspecified launch failure in prior launch\n"},
		"launch_config": {began + inMain + "RuntimeError: CUDA error: invalid configuration argument\n"},
		"graph_capture": {began + inMain + "RuntimeError: CUDA error: operation not permitted when stream is capturing\n"},
		"forked_cuda": {began + inMain + "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with " +
			"multiprocessing, you must use the 'spawn' start method\n"},
		"cuda_unknown": {began + inMain + "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up " +
			"environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start.\n"},
		"cudnn_version": {
			"2026-03-04 05:06:07.1: E tensorflow/stream_executor/cuda/cuda_dnn.cc:343] Loaded runtime CuDNN library: 7.0.4 " +
				"but " +
				"source was compiled with: 7.2.1.  CuDNN library needs to match.\nSegmentation fault (core dumped)\n",
			"Could not load library libcudnn_ops.so.9. Error: libcudnn_ops.so.9: cannot open shared object file\nAborted\n",
			"Unable to load any of {libcudnn_graph.so.9.1.0, libcudnn_graph.so.9.1, libcudnn_graph.so.9}\nInvalid handle. " +
				"Cannot load symbol cudnnCreateTensorDescriptor\nAborted (core dumped)\n",
			began + inMain + "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found " +
				"runtime version (8, 9, 7).\n",
			began + inMain + "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH\n",
			began + inMain + "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n"},
		"cudnn_unsupported": {began + inMain + "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may " +
			"appear if you passed in a non-contiguous input.\n"},
		"cudnn_failed": {began + inMain + "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED\n",
			began + inMain + "RuntimeError: miopenStatusUnknownError\n"},
		"cublas_failed": {began + inMain + "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling " +
			"`cublasSgemm( handle, opa, opb, m, n, k)`\n"},
		"nccl_system": {"w0: [rank0]: RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for " +
			"details)\n" +
			"Traceback (most recent call last):\n  File \"/usr/lib/python3.10/runpy.py\", line 196, in run\n    main()\n"},
		"duplicate_gpu": {began + inMain + "torch.distributed.DistBackendError: NCCL error in: x.cpp:1275, invalid usage " +
			"(run with NCCL_DEBUG=WARN for details), NCCL version 2.21.5\nncclInvalidUsage: This usually reflects invalid " +
			"usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 3 and rank 0 both on CUDA device 1000\n"},
		"kernel_resources": {began + inMain + "RuntimeError: CUDA error: too many resources requested for launch\n",
			began + inMain + "torch._inductor.exc.InductorError: RuntimeError: No valid triton configs. OutOfMemoryError: " +
				"out of resource: triton_red_fused_2 Required: 163840 Hardware limit:101376\n"},
		"metal_fault": {"libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command " +
			"buffer execution failed: Internal Error (0000000e:Internal Error)\nzsh: abort      mlx_run --x\n"},
	} {
		for _, text := range texts {
			if r := reported(t, text); !r.Fatal || r.OOM || r.NotMemory != name {
				t.Errorf("%s: fatal %v, oom %v, %q: %s\n%s", name, r.Fatal, r.OOM, r.NotMemory, r.Cause, text)
			}
		}
	}
}

// A crash is known by the words of whoever reports it: a runtime, a shell, a launcher.
func TestCrashes(t *testing.T) {
	for name, texts := range map[string][]string{
		"aborted": {
			"libc++abi: terminating due to uncaught exception of type std::runtime_error: unsupported layout\n",
			"step 3 loss 1.5\nzsh: abort      python3 train.py --epochs 2\n",
			"step 3 loss 1.5\nAbort trap: 6\n",
			"./run.sh: line 4: 70211 Abort trap: 6           python train.py\n",
			"/src/ggml/src/ggml.c:3004: GGML_ASSERT(ggml_can_mul_mat(a, b)) failed\n",
			"[2026-03-04 05:06:07][DEBUG] core: ggml.c:11: GGML_ASSERT(n_rows > 0) failed\n[2026-03-04 05:06:09][ERROR] \n",
			"Error: runner process has terminated: signal: aborted (core dumped)\n",
			"2026-03-04 05:06:07.8: F tensorflow/core/kernels/conv_ops.cc:659] Check failed: algorithms\n已放弃 (核心已转储)\n",
			"Abgebrochen (Speicherabzug geschrieben)\n",
			"GGML_ASSERT: /src/ggml-cuda.cu:4711: ptr == (void *) (pool_addr + pool_used)\n",
			"terminate called after throwing an instance of 'std::out_of_range'\n  what():  vector::_M_range_check\n",
			"terminate called without an active exception\n",
			"fish: Job 1, 'python train.py' terminated by signal SIGABRT (Abort)\n",
			"run.sh: line 9: 4411 Aborted                 (core dumped) python train.py\n",
			"thread 'main' panicked at src/loader.rs:41:9:\ncalled `Option::unwrap()` on a `None` value\n",
			"python: /src/lib/Ops.cpp:81: void mlir::cast(): Assertion `isa<To>(v) && \"cast\"' failed.\n",
			"Process finished with exit code 134 (interrupted by signal 6: SIGABRT)\n",
			"LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.shfl\n",
			"/b/MPSNDArray.mm:788: failed assertion `[MPSNDArray initWithDevice:] Error: product of sizes'\n"},
		"crash": {
			"epoch 2\nzsh: segmentation fault  python train.py\n",
			"epoch 2\nSegmentation fault: 11\n",
			"Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n  File \"a.py\", " +
				"line 3 in f\n",
			"fish: Job 1, 'python train.py' terminated by signal SIGSEGV (Address boundary error)\n",
			"Process finished with exit code 139 (interrupted by signal 11: SIGSEGV)\n",
			"Process finished with exit code -1073741819 (0xC0000005)\n",
			"[ 991.2] python[4411]: segfault at 8 ip 00007f11 sp 00007ffc error 4 in libtorch_cpu.so\n",
			"RuntimeError: DataLoader worker (pid 811) is killed by signal: Segmentation fault.\n",
			"The command exited with code 139.\n", "[a1-n0-0] terminated with exit code (139). Reason [Error].\n",
			"torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGSEGV\n",
			"段错误 (核心已转储)\n", "Erreur de segmentation (core dumped)\n"},
		"heap_corrupted": {"free(): invalid pointer\nAborted (core dumped)\n", "double free or corruption (!prev)\n",
			"malloc(): unaligned tcache chunk detected\nAborted\n", "corrupted size vs. prev_size\n",
			"*** stack smashing detected ***: terminated\n",
			"python(123,0x1f) malloc: *** error for object 0x6: pointer being freed was not allocated\n"},
		"illegal_instruction": {"Illegal instruction (core dumped)\n",
			"zsh: illegal hardware instruction  python -c 'import torch'\n", "run.sh: line 2: 88 Illegal instruction     " +
				"python\n"},
		"bus_error":  {"Bus error (core dumped)\n", "zsh: bus error  python train.py\n", "exit code: 135\n"},
		"arithmetic": {"make: *** [Makefile:9: train] Error 136\n"},
		"timeout": {"epoch 1 loss 0.4\ncommand exited with exit code 124\n", "timeout: sending signal TERM to command " +
			"'python'\n"},
		"bad_arguments": {"usage: fit.py [-h] [--lr LR]\nfit.py: error: unrecognized arguments: --learning 3\n",
			"usage: fit.py [-h]\nfit.py: error: the following arguments are required: --data\n",
			"Usage: fit [OPTIONS]\nTry 'fit --help' for help.\n\nError: No such option: --lrr\n"},
	} {
		for _, text := range texts {
			if r := reported(t, text); !r.Fatal || r.OOM || r.Possible || r.NotMemory != name {
				t.Errorf("%s: fatal %v, oom %v, %q: %s\n%s", name, r.Fatal, r.OOM, r.NotMemory, r.Cause, text)
			}
		}
	}
}

// Faults that a program met and went on.
func TestFaultsThatEndNothing(t *testing.T) {
	const tuning = "E0303 01:02:03.4 77 torch/_inductor/select_algorithm.py:2100] [3/0] "
	for name, text := range map[string]string{
		"a choice": tuning + "Runtime error during autotuning: \n" + tuning + "No valid triton configs. OutOfResources: " +
			"out of resource: shared memory, Required: 140000, Hardware limit: 101376. Reducing block sizes or " +
			"`num_stages` may help.. \n" + tuning + "Ignoring this choice.\nTraining finished\n",
		"a choice that was compiled ahead": "Exception No valid triton configs. OutOfMemoryError: out of resource: " +
			"triton_mm Required: 262144 Hardware limit:101376 for benchmark choice TritonTemplateCaller(x.py)\n" + began +
			inMain + "torch._inductor.runtime.triton_heuristics.NoTritonConfigsError: No valid triton configs. " +
			"OutOfMemoryError: out of resource: triton_mm Required: 262144 Hardware limit:101376\nstep 3 loss 0.4\n",
		"torch looks for a card": "/usr/lib/torch/cuda/__init__.py:118: UserWarning: CUDA initialization: The NVIDIA " +
			"driver on your system is too old (found version 11040).\n  return torch._C._cuda_getDeviceCount() > 0\n",
		"TensorFlow looks for a card": "2026-01-02 03:04:05.6: E external/local_xla/xla/stream_executor/cuda/" +
			"cuda_driver.cc:266] failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error\nEpoch 1/3\n",
		"a handler": "Registered SIGSEGV handler\nfaulthandler is on for segmentation faults\n" +
			"step 1 loss 0.4\n",
		"prose about codes":       "exit code 124 means a timeout\non exit code: 139 restart\nstep 1 loss 0.4\n",
		"a linter's line":         "model.py: error: expected type int\nAborted runs so far: 0\nstep 1 loss 0.4\n",
		"code 0":                  "the command exited with exit code 0\nexit code 1240 is none\n",
		"an argument's own error": "2026-01-01 00:00:00 [error] argument x: ignored\nstep 4 loss 0.2\n",
		"cuDNN's plan": "/usr/lib/torch/nn/conv.py:456: UserWarning: Plan failed with a cudnnException: " +
			"cudnnFinalizeDescriptorFailed cudnn_status: CUDNN_STATUS_NOT_SUPPORTED (Triggered internally at Conv.cpp:1)\n",
	} {
		if r := reported(t, text); r.Fatal || r.OOM {
			t.Errorf("%s: fatal %v, oom %v: %s", name, r.Fatal, r.OOM, r.Cause)
		}
	}
}

// Every fault has a cause and something to do, and a name that no other has.
func TestFaultTable(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range slices.Concat(printed.Faults, printed.Crashes, printed.Codes) {
		if f.Crash || f.Echo || f.Final {
			seen[f.Name] = false // a name may have several causes
		}
		if f.Cause == "" || strings.HasSuffix(f.Cause, ".") || seen[f.Name] || f.Spoken+f.Raised == "" {
			t.Errorf("the fault %q has no cause, a sentence's end, no text, or another's name", f.Name)
		}
		seen[f.Name] = true
	}
}

// An out-of-memory in the words of others than PyTorch's allocator, and what only sounds like one.
func TestOtherWordsForIt(t *testing.T) {
	for _, c := range []class{
		{name: "an engine's", text: began + inMain + "RuntimeError: GPU ran out of memory while capturing graphs\n"},
		{name: "llama.cpp's context", text: "llama_init_from_model: failed to initialize the context: failed to allocate " +
			"compute pp buffers\nmain: error: unable to load model\n"},
		{name: "Triton's", text: began + inMain + "RuntimeError: Triton Error [CUDA]: out of memory\n"},
		{name: "SGLang's", text: began + inMain + "RuntimeError: Prefill out of memory. Try to lower your batch size.\n"},
		{name: "LightGBM's", text: "[LightGBM] [Fatal] [CUDA] out of memory /src/cuda/cuda_utils.cu 12\n"},
		{name: "bitsandbytes'", text: "Error out of memory at line 380 in file /src/csrc/pythonInterface.c\n"},
		{name: "an NPU's", text: began + inMain + "RuntimeError: NPU function error: aclrtMalloc, error code is 207001\n"},
		{name: "in another's text", text: began + inMain +
			"RuntimeError: worker 3 failed with OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')\n"},
		{name: "a library's, over two lines", text: "terminate called after throwing an instance of 'CUDA::error'\n  " +
			"what():  " +
			"/src/SimpleMalloc.hpp(42):\nerror: out of memory\n"},
		{name: "Metal's largest buffer", text: began + inMain + "RuntimeError: Invalid buffer size: 24.10 GB\n"},
		{name: "TensorRT-LLM's", text: "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMalloc(p, n): out of memory " +
			"(/src/b.h:2)\n"},
		{name: "XLA's constants", text: began + inMain +
			"jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to allocate 100000256 bytes for new constant\n"},
		{name: "CUDA.jl's", text: "ERROR: Out of GPU memory trying to allocate 2.000 GiB\nEffective GPU memory usage: 99%\n"},
	} {
		c.oom, c.fatal, c.kind = true, true, GPUUnspecified
		c.check(t)
	}
	for _, c := range []class{
		{name: "systemd's", text: "Mar 04 05:06:07 h systemd-oomd[811]: Killed /user.slice/a.scope due to memory pressure " +
			"for " +
			"/user.slice being 68.70% > 50.00% for > 20s\n"},
		{name: "earlyoom's", text: "Mar 04 05:06:07 h earlyoom[811]: sending SIGTERM to process 44 uid 1000 \"python\": " +
			"badness 902\n"},
		{name: "Slurm's step", text: "slurmstepd: error: Exceeded step memory limit at some point.\n"},
		{name: "HTCondor's", text: "Error from slot1@n1: Job has gone over cgroup memory limit of 2048 megabytes.\n"},
		{name: "Dask's", text: began + inMain + "distributed.scheduler.KilledWorker: Attempted to run task 'x' on 4 " +
			"different " +
			"workers, but all those workers died while running it.\n"},
	} {
		c.oom, c.fatal, c.kind = true, true, HostOOM
		c.check(t)
	}
	for _, c := range []class{
		{name: "an advice", text: "HINT: if the GPU runs out of memory, lower max_num_seqs\nstep 1 loss 0.4\n"},
		{name: "a setting", text: "device out of memory policy: none\nGPU out of memory handler installed\n"},
		{name: "a source", text: "    raise RuntimeError('CUDA out of memory')\nstep 1 loss 0.4\n"},
	} {
		c.check(t)
	}
}

// stamped puts a stamp before each line, as a logger does whose records have one line each.
func stamped(stamp, text string) string {
	out := ""
	for line := range strings.Lines(text) {
		out += stamp + line
	}
	return out
}

// A traceback with something before each of its lines is one, whatever that is; a warning's is none.
func TestStampedTracebacks(t *testing.T) {
	const frames = "  File \"/home/u/fit.py\", line 41, in step\n    loss = f(x)\n"
	for _, stamp := range []string{"2026-03-04 05:06:07,891 - trainer - ERROR - ", "[2026-03-04 05:06:07] [rank 3] ",
		"E0304 05:06:07.123000 4411 fit.py:12] [1/0] ", "05:06:07 | ERROR    | run:main:7 | ", "fit-worker-0: ", "stderr: ",
		"2026-03-04T05:06:07.1Z ERROR app: "} {
		oom := stamped(stamp, began+frames+refused)
		if r := reported(t, oom); !r.OOM || !r.Fatal || r.Frame != "fit.py:41 in step" {
			t.Errorf("%q: oom %v, fatal %v, at %q: %s", stamp, r.OOM, r.Fatal, r.Frame, r.Cause)
		}
		key := stamped(stamp, began+frames+"KeyError: 'pixel_values'\n")
		if r := reported(t, key); r.OOM || !r.Fatal || r.NotMemory != "exception" || r.Cause != "KeyError: 'pixel_values'" {
			t.Errorf("%q: oom %v, fatal %v, %q: %s", stamp, r.OOM, r.Fatal, r.NotMemory, r.Cause)
		}
	}
	caught := stamped("2026-03-04 05:06:07 WARNING loader: ", began+frames+"KeyError: 'caption'\n") + "epoch 1 loss 0.4\n"
	if r := reported(t, caught); r.Fatal {
		t.Errorf("a warning's: %s", r.Cause)
	}
	const noted = "(Worker_TP0 pid=41) WARNING 03-04 05:06:07 [optional.py:12] "
	absent := "an optional kernel is left out\n" + began + frames +
		"ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n"
	for text, fatal := range map[string]bool{
		stamped(noted, absent) + "(Worker_TP0 pid=41) INFO 03-04 05:06:08 [run.py:3] captured\n": false,
		stamped(noted, absent): true, // it was the last that was said
		stamped(strings.Replace(noted, "WARNING", "ERROR", 1), absent) + "epoch 1 is begun\n": true,
		stamped(noted, began+frames+"KeyError: 'crop'\n") + "ready\n":                         false,
	} {
		if r := reported(t, text); r.Fatal != fatal || r.OOM {
			t.Errorf("fatal %v, oom %v: %s\n%s", r.Fatal, r.OOM, r.Cause, text)
		}
	}
}

// What is logged of a device's fault, or printed alone of weights that do not fit, ends a program if nothing follows.
func TestLoggedFaults(t *testing.T) {
	const (
		fault    = "2026-03-04 05:06:07,891 ERROR worker: CUDA error: an illegal memory access was encountered\n"
		mismatch = "size mismatch for head.weight: copying a param with shape torch.Size([10, 64]) from checkpoint, the " +
			"shape " +
			"in current model is torch.Size([7, 64]).\n"
	)
	for name, tt := range map[string]struct{ text, what string }{
		"a logged fault":      {"epoch 1 loss 0.5\n" + fault, "illegal_access"},
		"a fault of one step": {"step 1 loss 0.5\n" + fault + "step 2 loss 0.4\nstep 3 loss 0.3\n", ""},
		"a warning of one":    {strings.Replace(fault, "ERROR", "WARNING", 1), ""},
		"weights":             {mismatch, "weights_mismatch"},
		"keys of weights": {"Missing key(s) in state_dict: \"a.weight\", \"a.bias\". \n\t" + mismatch,
			"weights_mismatch"},
		"weights of a lenient loader": {"The model and loaded state dict do not match exactly\n\n" + mismatch + "start " +
			"training\n", ""},
		"no program": {"bash: accelerate: command not found\n", "not_found"},
		"no file": {"python: can't open file '/w/fit.py': [Errno 2] No such file or directory\n",
			"not_found"},
		"a tool that is not needed": {"sh: 1: nvidia-smi: not found\nepoch 1 loss 0.4\n", ""},
	} {
		if r := reported(t, tt.text); r.Fatal != (tt.what != "") || r.NotMemory != tt.what {
			t.Errorf("%s: fatal %v, %q: %s", name, r.Fatal, r.NotMemory, r.Cause)
		}
	}
}
