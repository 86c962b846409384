package oom

import (
	"strings"
	"testing"
)

// Memory that ran out in words that libraries, servers and schedulers have for it.
func TestOwnWordsOfMemory(t *testing.T) {
	for _, c := range []class{
		{name: "HTCondor's wrapper", kind: HostOOM, text: "Mon, 2 Mar 2026 11:05:34 CET(+0100):ERROR:Retry Job killed by " +
			"HTCondor due to excessive memory use (RSS=2048 MB). Will not retry it.\n"},
		{name: "TGI's main", kind: GPUUnspecified, text: "Error: Warmup(Generation(\"Not enough memory to handle 512 " +
			"prefill tokens. You need to decrease `--max-batch-prefill-tokens`\"))\n"},
		{name: "Boost.Compute's", kind: GPUUnspecified, text: "terminate called after throwing an instance of " +
			"'boost::compute::opencl_error'\n  what():  Memory Object Allocation Failure\n"},
		{name: "PyOpenCL's", kind: GPUUnspecified, text: began + inMain + "pyopencl._cl.MemoryError: clCreateBuffer " +
			"failed: MEM_OBJECT_ALLOCATION_FAILURE\n"},
		{name: "PyOpenCL's, of resources", kind: GPUUnspecified, text: began + inMain + "pyopencl._cl.RuntimeError: " +
			"clEnqueueReadBuffer failed: OUT_OF_RESOURCES\n"},
		{name: "OpenCL's host", kind: CPUAlloc, text: began + inMain + "lightgbm.basic.LightGBMError: Out of Host Memory\n"},
		{name: "CuPy's, in Chainer's log", kind: GPUUnspecified, text: "Exception in main training loop: out of memory to " +
			"allocate 1024 bytes (total 4096 bytes)\n" + began + inMain},
		{name: "Ollama's", kind: CPUAlloc, text: "success \nError: model requires more system memory (12.5 GiB) than is " +
			"available (3.5 GiB)\n"},
		{name: "a bare posix_memalign", kind: CPUAlloc, text: "enforce fail at CPUAllocator.cpp:56] posix_memalign(&data, " +
			"gAlignment, nbytes) == 0. 12 vs 0\n"},
	} {
		c.oom, c.fatal = true, true
		c.check(t)
	}
	for _, c := range []class{
		{name: "a hint", text: "If you see \"Not enough memory to handle 512 prefill tokens\", lower it.\nepoch 1\n"},
		{name: "a document", text: "If `model requires more system memory (1 GiB) than is available (0 GiB)` appears, " +
			"add it.\n"},
		{name: "another kill", text: "INFO the worker was not killed: its use of memory is no excessive one\n"},
	} {
		c.check(t)
	}
	r := reported(t, "Error: model requires more system memory (12.5 GiB) than is available (3.5 GiB)\n")
	if r.Requested == nil || r.Free == nil || *r.Requested != 25<<29 || *r.Free != 7<<29 {
		t.Errorf("Ollama's sizes: %v, %v free", r.Requested, r.Free)
	}
	r = reported(t, "Exception in main training loop: out of memory to allocate 1024 bytes (total 4096 bytes)\n"+began+
		inMain)
	if r.Requested == nil || *r.Requested != 1024 {
		t.Errorf("CuPy's size: %v", r.Requested)
	}
}

// NCCL's own segments have no part in the data pipeline.
func TestSharedMemoryOfNCCL(t *testing.T) {
	const failed = "[2026-03-02 21:34:20] n1:16:35 [0] misc/shmutils.cc:132 NCCL WARN Error while creating shared " +
		"memory segment /dev/shm/nccl-W (size 96), error: No space left on device (28)\n"
	r := reported(t, failed)
	if r.Kind != SharedMemory || r.Phase == Data || !strings.Contains(r.Cause, "NCCL") {
		t.Errorf("%s in %s: %s", r.Kind, r.Phase, r.Cause)
	}
	worker := reported(t, began+inMain+"RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is "+
		"possible that dataloader's workers are out of shared memory.\n")
	if worker.Phase != Data || strings.Contains(worker.Cause, "NCCL") {
		t.Errorf("a loader's worker is of the data pipeline: %s, %s", worker.Phase, worker.Cause)
	}
}

// Ends by other causes, in words of their own.
func TestOwnWordsOfOthers(t *testing.T) {
	for _, c := range [][2]string{
		{"nccl_system", "n-0:34:39 [4] ib_plugin.c:16 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<5> with " +
			"status=12 opcode=0 len=0 vendor err 129 (Recv)\n"},
		{"nccl_system", "  (5) INTERNAL:  NCCL: unhandled system error. Set NCCL_DEBUG=WARN for detail.\n"},
		{"cancelled", "03/02/2026 22:55:25;0008;PBS_Server.12;Job;7.h;Job deleted at request of root@h\n"},
		{"preempted", "job deleted\nJob deleted at request of root@h\njob preempted (node failure)\n"},
		{"exception", "[LightGBM] [Info] Using GPU Device: X\n[LightGBM] [Fatal] Check failed: (left_count) > (0) at " +
			"/s/t.cpp, line 6\n"},
		{"process_limit", "TERM_THREADLIMIT: job killed after reaching LSF thread limit.\nExited with exit code 143.\n"},
		{"time_limit", "TERM_CPULIMIT: job killed after reaching LSF CPU usage limit.\nExited with exit code 140.\n"},
		{"cancelled", "TERM_OWNER: job killed by owner.\nExited with exit code 130.\n"},
		{"nan", "Exception: Current loss scale already at minimum - cannot decrease scale anymore.\n"},
		{"worker_died", "2026-03-02 17:22:36,331 sagemaker-containers ERROR    ExecuteUserScriptError:\nCommand \"p\"\n"},
	} {
		if r := reported(t, c[1]); !r.Fatal || r.OOM || r.NotMemory != c[0] {
			t.Errorf("fatal %v, oom %v, %q in place of %q: %s", r.Fatal, r.OOM, r.NotMemory, c[0], r.Cause)
		}
	}
}

// An exception that torch raises again in another process names its own only below.
func TestReraisedIsNamed(t *testing.T) {
	const again = "RuntimeError: Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent " +
		"call last):\n"
	inner := call("/home/u/data.py", "__getitem__", "return read(i)") + "ValueError: no such sample\n"
	r := reported(t, began+inMain+again+inner)
	if !r.Fatal || !strings.HasPrefix(r.Cause, "ValueError: no such sample") || r.Frame != "data.py:7 in __getitem__" {
		t.Errorf("fatal %v at %q: %s", r.Fatal, r.Frame, r.Cause)
	}
	alone := reported(t, began+inMain+"RuntimeError: Caught ValueError in DataLoader worker process 0.\n")
	if !alone.Fatal || !strings.Contains(alone.Cause, "Caught ValueError") {
		t.Errorf("without what was raised, it is all there is: fatal %v, %s", alone.Fatal, alone.Cause)
	}
}

// Ray's actor names what its class could not import.
func TestFailedImportIsNamed(t *testing.T) {
	r := reported(t, "(main_task pid=77) "+began+inMain+"ray.exceptions.RayTaskError(RuntimeError): ray::Actor.start() "+
		"(pid=81, ip=10.0.0.1)\nRuntimeError: The actor with name Actor failed to import on the worker. This may be because "+
		"needed library dependencies are not installed in the worker environment:\n\n"+began+
		"  File \"/p/ray/function_manager.py\", line 7, in _load\n    pickle.loads(b)\n"+
		"ImportError: /p/fused.so: undefined symbol: _ZN3c105ErrorC2E\n")
	if !r.Fatal || r.OOM || !strings.Contains(r.Cause, "undefined symbol") {
		t.Errorf("fatal %v, %q: %s", r.Fatal, r.NotMemory, r.Cause)
	}
}

// Where several processes print at once, an exception's message stands in another line than its head.
func TestHeadlessMessages(t *testing.T) {
	for _, message := range []string{
		"Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cpu!",
		"mat1 and mat2 shapes cannot be multiplied (4x9 and 8x2)",
		"The size of tensor a (3) must match the size of tensor b (5) at non-singleton dimension 1",
		"element 0 of tensors does not require grad and does not have a grad_fn",
		"one of the variables needed for gradient computation has been modified by an inplace operation",
		"Trying to backward through the graph a second time",
		"Expected to have finished reduction in the prior iteration before starting a new one.",
		"expected scalar type Half but found Float",
	} {
		r := reported(t, began+began+inMain+inMain+message+"\n  0%|          | 0/75 [00:00<?, ?it/s]\n"+
			"E0304 05:06:07.1 8 api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 9) of binary: /usr/bin/python3\n")
		if !r.Fatal || r.OOM || r.NotMemory != "exception" || !strings.HasPrefix(r.Cause, message[:18]) {
			t.Errorf("fatal %v, %q: %s", r.Fatal, r.NotMemory, r.Cause)
		}
	}
	prose := reported(t, "# mat1 and mat2 must have the same type here\nmat1 and mat2 are 4 by 4\nstep 1 loss 0.4\n")
	if r := prose; r.Fatal {
		t.Errorf("prose: %s", r.Cause)
	}
}
