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
	class{name: "a message in another JSON", kind: NoMemory, text: "{\n\"title\": \"Help\",\n\"message\": \"CUDA error: " +
		"out of " +
		"memory\"\n}\n"}.check(t)
}
