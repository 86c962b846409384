package oom

import (
	"fmt"
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// TestWentOn: programs that went on after an out-of-memory, by their own words.
func TestWentOn(t *testing.T) {
	const full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
	cut := began + call("tool.py", "wrapper", "return work(size)") + call("tool.py", "work", "y = net(x)")
	for _, c := range []class{
		{name: "a server's next request", oom: true, text: began + inMain + full +
			"Output generated in 0.31 seconds (0 tokens)\n"},
		{name: "a web server", oom: true, text: began + inMain + full + "10.0.0.9 - - [02/Jan/2026 03:04:05] \"POST /run " +
			"HTTP/1.1\" 500 -\n"},
		{name: "a page that polls", oom: true, fatal: true, text: began + inMain + full + "INFO:     10.0.0.9:4077 - \"GET " +
			"/jobs/7/state HTTP/1.1\" 200 OK\n"},
		{name: "no server", oom: true, fatal: true, text: began + inMain + full + "Output directory: runs/7\n"},
		{name: "logged, then done", oom: true, text: "2026-01-02 03:04:05,678 Sample 3 did not work: RESOURCE_EXHAUSTED: " +
			"Out of memory " +
			"while trying to allocate 9663676416 bytes.\n2026-01-02 03:04:06,012 Done\n"},
		{name: "logged, and nothing after it", oom: true, fatal: true, text: "2026-01-02 03:04:05,678 Sample 3 did not " +
			"work: " +
			"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9663676416 bytes.\n2026-01-02 03:04:06,012 Cleaning\n"},
		{name: "a script's word after the program's end", oom: true, fatal: true,
			text: "2026-01-02 03:04:05,678 Sample 3 did not work: " +
				"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9663676416 bytes.\nDone\n"},
		{name: "a smaller batch, above its traceback", oom: true, text: "OOM detected, reducing the batch to 6.\n" + cut},
		{name: "no smaller batch", oom: true, fatal: true, text: "OOM detected, reducing the batch to 0.\n" + cut},
		{name: "another traceback", fatal: true, oom: false, kind: NoMemory, text: cut},
		{name: "a test that failed", oom: true, text: "FAILED [0.03s] tests/test_big.py::test_all - " + full +
			"FAILED [0.01s] tests/test_big.py::test_some - AssertionError: no\n"},
		{name: "FSDP's warning without its head", oom: true, phase: Checkpoint,
			text: "may be invalid after returning from state_dict() " +
				"call. Please check clone implementation of a.b. Error: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; " +
				"8.00 GiB " +
				"total capacity; 7.90 GiB already allocated; 0 bytes free; 7.92 GiB reserved in total by PyTorch)\n"},
		{name: "a task of Ray", oom: true, fatal: true, kind: GPUUnspecified, text: began + inMain +
			"ray.exceptions.RayTaskError(OutOfMemoryError): ray::Learner.fit() (pid=7, ip=10.0.0.2)\n"},
	} {
		c.check(t)
	}
	for name, stamp := range map[string]string{"logging": "2026-03-04 05:06:0%d,123 - fit - %s - ",
		"vLLM": "(Worker pid=7) " +
			"%[2]s 03-04 05:06:0%[1]d [fit.py:7] ", "absl": "%.1[2]s0304 05:06:0%[1]d.123456 77 fit.py:7] "} {
		for _, raised := range []string{"ImportError: libcudart.so.12: cannot open shared object file: No such file",
			"KeyError: 'plot'", "RuntimeError: CUDA error: invalid device function"} {
			said := func(second int, level, words string) string { return fmt.Sprintf(stamp, second, level) + words + "\n" }
			steps := said(4, "INFO", "step 1/9 loss 0.5") + said(6, "INFO", "step 2/9 loss 0.4")
			class{name: name + ", " + raised, text: said(3, "WARNING", "an option is off:") + began + inMain + raised + "\n" +
				steps}.check(t)
			lost := reported(t, said(3, "ERROR", "no step of rank 1:")+began+inMain+raised+"\n"+steps+
				"E0304 05:06:08.1 8 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 1 "+
				"(pid: 9) of binary: /usr/bin/python3\n")
			if !lost.Fatal || lost.NotMemory == "worker_died" {
				t.Errorf("%s, an error of one rank: fatal %v, %q: %s", name, lost.Fatal, lost.NotMemory, lost.Cause)
			}
		}
	}
	const reserve = "E xla_util.cc:90] RESOURCE_EXHAUSTED: Attempting to reserve 4.00G at the bottom of memory. That " +
		"was not possible. " +
		"There are 5.00G free, 0B reserved, and 3.00G reservable.\n"
	class{name: "XLA's pieces", oom: true, fatal: true, kind: GPUFragmentation, text: reserve}.check(t)
	if r := reported(t, reserve); unit.Value(r.Requested) != 4*unit.GiB || unit.Value(r.Free) != 5*unit.GiB {
		t.Errorf("read %v and %v", r.Requested, r.Free)
	}
}
