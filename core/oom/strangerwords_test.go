package oom

import (
	"strings"
	"testing"
)

// Memory that ran out in words that no other rule had.
func TestSchedulersAndRuntimesOwnWords(t *testing.T) {
	for _, c := range []class{
		{name: "PBS's total of a job", kind: HostOOM, text: "=>> PBS: job killed: mem job total 90112 kb exceeded limit " +
			"90000 kb\n"},
		{name: "Torque's", kind: HostOOM, text: "Aborted by PBS Server\nJob exceeded a memory resource limit " +
			"(vmem, pvmem, " +
			"etc.). Job was aborted\nSee Administrator for help\n"},
		{name: "Grid Engine's", kind: HostOOM, text: "failed execd enforced h_vmem limit because:\njob 4.1 died through " +
			"signal KILL (9).\n"},
		{name: "Windows' C++", kind: CPUAlloc, text: began + inMain + "lightgbm.basic.LightGBMError: bad allocation\n"},
		{name: "a path that looks like a hedge", kind: GPUUnspecified, text: began + inMain + "xgboost.core.XGBoostError: " +
			"[01:02:03] /src/c_api/../common/device_helpers.cuh:39: Memory allocation error on worker 0: std::bad_alloc: " +
			"out_of_memory: CUDA error at: /opt/rmm/cuda_memory_resource.hpp\n"},
		{name: "a debugger's", kind: GPUContention, text: "Exception has occurred: RuntimeError\nCUDA out of " +
			"memory. Tried " +
			"to allocate 20.00 MiB (GPU 0; 7.93 GiB total capacity; 2.81 GiB already allocated; 25.38 MiB free; 3.06 GiB " +
			"reserved in total by PyTorch)\n  File \"/w/net.py\", line 48, in forward\n    y = f(x)\n  File \"/w/fit.py\", " +
			"line 18, in <module>\n    fit()\n"},
	} {
		c.oom, c.fatal = true, true
		c.check(t)
	}
}

// Words of other limits, and of a fault that a call for memory only reports.
func TestWordsBesideMemory(t *testing.T) {
	for _, c := range []class{
		{name: "a pod's message", kind: HostOOM, oom: true, fatal: true, text: "  message: 'The node was low on resource: " +
			"memory. Container n was using 355Ki,\n    which exceeds its request of 12Gi. '\n  phase: Failed\n"},
		{name: "a pod's disk", kind: NoMemory, fatal: true, text: "Message:   The node was low on resource: " +
			"ephemeral-storage. Container n was using 342Ki, which exceeds its request of 0.\n"},
		{name: "HTCondor's policy", kind: HostOOM, oom: true, fatal: true, text: "7.0 u 11/7 23:48 Job in status 2 put on " +
			"hold by SYSTEM_PERIODIC_HOLD due to memory usage 3000000.\n"},
		{name: "NCCL's segment", kind: SharedMemory, oom: true, fatal: true, text: "n1:97:183 [0] include/shm.h:48 NCCL " +
			"WARN Error while creating shared memory segment nccl-shm-recv-c4 (size 9637888)\n" + began + inMain +
			"RuntimeError: NCCL error in: x.cpp:784, unhandled system error, NCCL version 2.7.8\n"},
		{name: "pinned memory", kind: CPUAlloc, oom: true, fatal: true, text: "[ERROR] " +
			"MD(5,f,python):2026-03-04-05:06:07.1" +
			" [arena.cc:250] Init] cudaHostAlloc failed, ret[2], out of memory\n[ERROR] MD(5,f,python):2026-03-04-05:06:07.2 " +
			"[task.cc:67] operator()] Task:  - thread(1) is terminated with err msg: Out of memory. Memory malloc failed.\n"},
		{name: "earlyoom's settings", kind: NoMemory, text: "mars 27 18:46:05 h earlyoom[14]: sending SIGTERM " +
			"when mem <=  " +
			"4.00% and swap <= 10.00%,\nmars 27 18:46:05 h systemd[1]: Started systemd-oomd.service\n"},
		{name: "work that goes on", kind: NoMemory, text: "INFO: study 3 put on hold, memory usage 3 GB\nINFO " +
			"creating shared " +
			"memory segment psm_1 for the loader\nEpoch 12 10:11:12 step 100: loss 0.31\nEpoch 12 10:11:13 step 200: loss " +
			"0.30\n"},
		{name: "a kernel's fault at an allocation", kind: NoMemory, fatal: true, text: began + inMain + "MemoryError: " +
			"std::bad_alloc: CUDA error (failed to allocate 16 bytes) at: rmm/cuda.cpp:43: cudaErrorIllegalAddress " +
			"an illegal " +
			"memory access was encountered\n"},
	} {
		c.check(t)
	}
	out := reported(t, "terminate called after throwing an instance of 'std::out_of_range'\n  what():  "+
		"basic_string::substr: "+
		"__pos (which is 14) > this->size() (which is 0)\nAborted (core dumped)\n")
	if out.NotMemory != "aborted" || !strings.Contains(out.Cause, "basic_string::substr") {
		t.Errorf("an abort has the words of what(): %q, %s", out.NotMemory, out.Cause)
	}
	died := reported(t, "subprocess.CalledProcessError: Command '['python', 't.py']' died with <Signals.SIGABRT: 6>.\n")
	if died.NotMemory != "aborted" || !died.Fatal {
		t.Errorf("a process that died with a signal: %q, %s", died.NotMemory, died.Cause)
	}
	what := reported(t, "terminate called after throwing an instance of 'std::runtime_error'\n  what():  NCCL error in: "+
		"NCCLUtils.hpp:181, unhandled cuda error, NCCL version 21.0.3\nAborted (core dumped)\n")
	if what.NotMemory != "nccl" || !what.Fatal {
		t.Errorf("what() says more than that it was aborted: %q", what.NotMemory)
	}
}

// The ends of their processes, in the words of servers; what a logger puts in quotation marks is no source.
func TestServersEnds(t *testing.T) {
	const tgi = "2026-03-04T05:06:07.1Z ERROR shard-manager: text_generation_launcher: Shard process was " +
		"signaled to shutdown " +
		"with signal "
	for name, text := range map[string]string{
		"bus_error":           tgi + "7 rank=1\nError: ShardCannotStart\n",
		"illegal_instruction": tgi + "4 rank=0\nError: ShardCannotStart\n",
		"kernel_resources":    "ERROR: LoadError: CUDAdrv.CuError(701, nothing)\nStacktrace:\n",
		"worker_died": "time=2026-03-04T05:06:07.1Z level=ERROR source=server.go:42 msg=\"llama runner terminated\" " +
			"error=\"exit status 2\"\n",
	} {
		if r := reported(t, text); !r.Fatal || r.OOM || r.NotMemory != name {
			t.Errorf("%s: fatal %v, oom %v, %q: %s", name, r.Fatal, r.OOM, r.NotMemory, r.Cause)
		}
	}
	killed := reported(t, "time=2026-03-04T05:06:07.1Z level=ERROR msg=\"error loading llama server\" "+
		"error=\"llama runner "+
		"process has terminated: signal: killed\"\n")
	if !killed.Fatal || !killed.Possible || killed.OOM {
		t.Errorf("a runner that was killed: fatal %v, possible %v, oom %v", killed.Fatal, killed.Possible, killed.OOM)
	}
	warmup := class{name: "a warmup", oom: true, fatal: true, kind: GPUUnspecified, text: "2026-03-04T05:06:07.1Z ERROR " +
		"warmup{max_prefill_tokens=256}:warmup: text_generation_client: lib.rs:33: Server error: Not enough " +
		"memory to handle " +
		"256 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\n"}
	warmup.check(t)
}

// What these print of sizes.
func TestStrangersSizes(t *testing.T) {
	mindspore := reported(t, "[ERROR] PRE_ACT(5,f,python):2026-03-04-05:06:07.1 [mem_dynamic_allocator.cc:39] Add] "+
		"TotalUsedMemStatistics : 9000 plus alloc size : 2000 is more than total mem size : 10000.\n"+began+inMain+
		"RuntimeError: Allocate memory failed\n")
	if !mindspore.OOM || mindspore.Requested == nil || *mindspore.Requested != 2000 || *mindspore.Capacity != 10000 {
		t.Errorf("MindSpore's: %+v", mindspore)
	}
	paddle := reported(t, began+inMain+"ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate "+
		"2.000000GB memory on GPU 0, available memory is only 1.000000GB.\n")
	if paddle.Requested == nil || *paddle.Requested != 2<<30 || paddle.Free == nil || *paddle.Free != 1<<30 {
		t.Errorf("Paddle's: %v of %v", paddle.Requested, paddle.Free)
	}
	two := reported(t, "2026-03-04 05:06:07.1: W op_kernel.cc:1763] Resource exhausted: OOM when allocating tensor with "+
		"shape[1,64,64,3] and type float on /job:localhost/device:CPU:0 by allocator cpu\n2026-03-04 05:06:07.2: W "+
		"op_kernel.cc:1751] Resource exhausted: MemoryError: Unable to allocate 184. MiB for an array with shape "+
		"(9, 9) and "+
		"data type float32\n")
	if two.Requested == nil || *two.Requested != 64*64*3*4 {
		t.Errorf("of two messages, the first one's size: %v", two.Requested)
	}
}

// The frames of a debugger are the innermost first; what fills a card as one size many times is the same job's.
func TestDebuggersFrame(t *testing.T) {
	r := reported(t, "Exception has occurred: RuntimeError\nCUDA out of memory. Tried to allocate 2.00 GiB\n"+
		"  File \"/w/net.py\", line 48, in forward\n    y = f(x)\n  File \"/w/fit.py\", line 18, in <module>\n    fit()\n")
	if !r.Fatal || r.Frame != "net.py:48 in forward" {
		t.Errorf("fatal %v, at %q", r.Fatal, r.Frame)
	}
}

// A process that torchrun ended after another had failed is not the cause.
func TestStoppedByTorchrun(t *testing.T) {
	text := func(code string) string {
		return "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \nfit.py FAILED\nFailures:\n[1]:\n" +
			"  rank      : 0 (local_rank: 0)\n  exitcode  : -9 (pid: 11)\n  traceback : Signal 9 (SIGKILL) received " +
			"by PID 11\n" +
			"Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : " + code +
			" (pid: 12)\n  error_file: <N/A>\n"
	}
	if r := reported(t, text("1")); r.Possible || !r.Fatal {
		t.Errorf("the first failure was no kill: possible %v, %s", r.Possible, r.Cause)
	}
	if r := reported(t, text("-9")); !r.Possible || !r.Fatal {
		t.Errorf("the first failure was a kill: possible %v, %s", r.Possible, r.Cause)
	}
}

// A headline that ends in a colon has its first detail.
func TestHeadlineHasItsDetail(t *testing.T) {
	r := reported(t, began+inMain+
		"RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: \"a.b\".\n")
	const want = `RuntimeError: Error(s) in loading state_dict for Net: Missing key(s) in state_dict: "a.b".`
	if r.Cause != want {
		t.Errorf("it is %q, and should be %q", r.Cause, want)
	}
}

// What the runtimes of an NPU log of its memory is what a traceback below it ended by, were it not cut off.
func TestRefusalAboveACutTraceback(t *testing.T) {
	for _, said := range []string{
		"[mem_pool.cc:77] Take] TotalUsed : 900 plus alloc size : 200 is more than total mem size : 1000.",
		"[mem_pool.cc:78] Take] Malloc device memory failed, error code is 207001",
	} {
		log := class{name: said, oom: true, fatal: true, text: "epoch 1 loss 0.4\n[ERROR] PRE_ACT(9,f,python):" + said +
			"\n" +
			began + inMain + call("/p/mindspore/ops.py", "run", "real_run(x)")}
		log.check(t)
	}
}

// A rank that lost another one has not waited for it in vain: which of both NCCL's summary says is not to be known.
func TestLostPeerIsNoTimeout(t *testing.T) {
	const summary = "[rank3]:[E ProcessGroupNCCL.cpp:523] [Rank 3] Some NCCL operations have failed or timed out.\n"
	lost := reported(t, "n3:70:91 [0] socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n1<4077>"+
		"\n"+summary)
	if !lost.Fatal || lost.OOM || lost.NotMemory != "nccl" || strings.Contains(lost.Cause, "timed out") {
		t.Errorf("a lost peer: fatal %v, %q: %s", lost.Fatal, lost.NotMemory, lost.Cause)
	}
	late := reported(t, "[rank3]:[E ProcessGroupNCCL.cpp:474] [Rank 3] Watchdog caught collective operation timeout: "+
		"WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600041 milliseconds\n"+summary)
	if !late.Fatal || late.NotMemory != "nccl" || !strings.Contains(late.Cause, "timed out") {
		t.Errorf("a timeout: fatal %v, %q: %s", late.Fatal, late.NotMemory, late.Cause)
	}
}
