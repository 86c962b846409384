package oom

import (
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// TestOtherPrograms: the words of other libraries for a full card.
func TestOtherPrograms(t *testing.T) {
	for _, c := range []class{
		{name: "CTranslate2", text: began + call("/home/u/say.py", "run", "model = WhisperModel('x')") +
			"RuntimeError: CUDA failed with error out of memory\n"},
		{name: "XGBoost", text: began + inMain + "xgboost.core.XGBoostError: [10:20:30] /src/tree/updater_gpu_hist.cu:700: " +
			"Exception " +
			"in gpu_hist: /src/common/device_helpers.cuh:400: Memory allocation error on worker 2: std::bad_alloc: " +
			"cudaErrorMemoryAllocation: out of memory\n- Free memory: 1048576\n- Requested memory: 2097152\n"},
		{name: "XGBoost's cache", text: began + inMain + "xgboost.core.XGBoostError: /src/common/device_helpers.cuh:400: " +
			"Memory " +
			"allocation error on worker 0: Caching allocator\n- Free memory: 1048576\n- Requested memory: 2097152\n"},
		{name: "a bad allocation of an extension", text: began + inMain +
			"MemoryError: bad allocation: cudaErrorMemoryAllocation: out of memory\n"},
		{name: "Thrust", text: "terminate called after throwing an instance of 'thrust::system::system_error'\n" +
			"  what():  radix_sort: failed on 2nd step: cudaErrorMemoryAllocation: out of memory\n"},
		{name: "Thrust in Python", text: began + inMain + "RuntimeError: thrust::system::system_error: parallel_for: out " +
			"of memory\n"},
		{name: "a notebook's JSON", text: "{\n\t\"name\": \"RuntimeError\",\n\t\"message\": \"CUDA error: out of " +
			"memory\nSome more " +
			"words.\n\",\n\t\"stack\": \"----\nRuntimeError   Traceback (most recent call last)\nCell In[4], line 1\n" +
			"----> 1 run()\n\"\n}\n"},
		{name: "on one line", text: "{\"name\": \"AcceleratorError\", \"message\": \"CUDA error: out of memory\n\", " +
			"\"stack\": \"\"}\n"},
		{name: "HIP's samples", text: "info: allocate device mem (  7.63 MB)\n" +
			"error: 'hipErrorOutOfMemory'(2) at square.cpp:76\n"},
		{name: "MIOpen", text: "MIOpen Error: /src/hip/handlehip.cpp:70: Memory not available to allocate buffer: 6553\n" +
			"F tensorflow/stream_executor/rocm/rocm_dnn.cc:1603] Check failed: status == miopenStatusSuccess (7 vs. 0)\n"},
		{name: "an engine on ROCm", text: "ds4: ROCm model arena alloc failed for tensor-span:105 (1792.00 MiB chunk): " +
			"out of memory\n"},
		{name: "NVIDIA's driver, of one memory", text: "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory " +
			"[NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359\n"},
	} {
		c.oom, c.fatal, c.kind = true, true, GPUUnspecified
		c.check(t)
	}
	for _, figures := range []string{"- Free memory: 1048576\n- Requested memory: 2097152\n",
		"- Free memory: 1MB\n- Requested memory: 2MB\n"} {
		r := reported(t, "XGBoostError: Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: "+
			"out of memory\n"+figures)
		if unit.Value(r.Requested) != 2<<20 || unit.Value(r.Free) != 1<<20 {
			t.Errorf("read %v and %v of %q", r.Requested, r.Free, figures)
		}
	}
	class{name: "one block", kind: GPUUnspecified, oom: true, fatal: true, text: began + inMain + "RuntimeError: " +
		"Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.85 GiB " +
		"(GPU  0; 15.56 GiB total capacity; 0 bytes already allocated; 0 bytes reserved in total by PyTorch)\n"}.check(t)
	class{name: "SYCL", kind: CPUAlloc, oom: true, fatal: true, text: began + inMain + "RuntimeError: Native " +
		"API failed. Native API returns: -6 (PI_ERROR_OUT_OF_HOST_MEMORY) -6 (PI_ERROR_OUT_OF_HOST_MEMORY)\n"}.check(t)
	class{name: "a message in another JSON", kind: NoMemory, text: "{\n\"title\": \"Help\",\n\"message\": \"CUDA error: " +
		"out of " +
		"memory\"\n}\n"}.check(t)
}
