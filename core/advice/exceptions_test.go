package advice

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom"
)

// What is to be done about an exception is read off its own line, in the words of whoever raised it.
func TestLapses(t *testing.T) {
	for line, want := range map[string]string{
		"ModuleNotFoundError: No module named 'einops'":                                       "pip show einops",
		"ImportError: cannot import name 'packaging' from 'pkg_resources' (/x/__init__.py)":   "pip show pkg_resources",
		"ImportError: /x/ext.so: undefined symbol: _ZN3c105ErrorC1E":                          "another version",
		"ImportError: numpy.core.multiarray failed to import":                                 "numpy<2",
		"FileNotFoundError: [Errno 2] No such file or directory: 'data/train.txt'":            "ls -l PATH",
		"PermissionError: [Errno 13] Permission denied: '/results'":                           "may write",
		"OSError: [Errno 5] Input/output error":                                               "file server",
		"RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x100 and 90x10)":           "shapes at that line",
		"ValueError: operands could not be broadcast together with shapes (3,2) (4,2)":        "shapes at that line",
		"RuntimeError: stack expects each tensor to be equal size, but got [3, 8] at entry 0": "collate_fn",
		"RuntimeError: Error(s) in loading state_dict for Net:": "same model and " +
			"configuration",
		"RuntimeError: Expected all tensors to be on the same device, but found two":           "one device",
		"RuntimeError: expected scalar type Half but found Float":                              "autocast",
		"RuntimeError: element 0 of tensors does not require grad and has no grad_fn":          "the graph of that loss",
		"RuntimeError: Expected to have finished reduction in the prior iteration before":      "find_unused_parameters",
		"OSError: x/y is not a local folder and is not a valid model identifier listed on 'h'": "huggingface-cli",
		"requests.exceptions.ConnectionError: Max retries exceeded with url: /api":             "proxy",
		"OSError: [Errno 98] Address already in use":                                           "another port",
		"torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients.":   "all ranks started",
		"yaml.scanner.ScannerError: mapping values are not allowed here":                       "settings file",
		"json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)":              "settings file",
		"omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct":                     "its spelling",
		"_pickle.UnpicklingError: invalid load key, 'v'.":                                      "git lfs",
		"_pickle.UnpicklingError: Weights only load failed.":                                   "weights_only=False",
		"TypeError: __init__() got an unexpected keyword argument 'evaluation_strategy'":       "evaluation_strategy",
		"AttributeError: module 'torch' has no attribute 'compile'":                            "the spelling of compile",
		"KeyError: 'pixel_values'":               "that key",
		"IndexError: index out of range in self": "embedding",
		"ValueError: num_samples should be a positive integer value, but got num_samples=0": "none was found",
		"AssertionError": "the line of the assertion",
		"wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=k)": "wandb login",
		"RuntimeError: FlashAttention only supports Ampere GPUs or newer.":                  "too old for that kernel",
		"OSError: CUDA_HOME environment variable is not set.":                               "nvcc --version",
	} {
		r := oom.Report{Fatal: true, Kind: oom.NoMemory, NotMemory: "exception", Cause: line,
			Evidence: []oom.Evidence{{Line: oom.Line{Text: line}}}}
		if got := told(r, Clues{}); !strings.Contains(got, want) {
			t.Errorf("%s: it does not say %q:\n%s", line, want, got)
		}
	}
	r := oom.Report{Fatal: true, Kind: oom.NoMemory, NotMemory: "exception", Cause: "CustomFailure: 7"}
	if all := Remedies(r, Clues{}); len(all) > 0 {
		t.Errorf("of an exception that it does not know it says %+v", all)
	}
}

// Each kind of card has names of its own, by the words of its allocator.
func TestDevicesByTheirWords(t *testing.T) {
	for line, want := range map[string]string{
		"RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 1; 60.96 GiB total capacity": "npu",
		"RuntimeError: MUSA out of memory. Tried to allocate 2.00 GiB":                                 "musa",
		"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.":                       "hip",
		"torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB.":                       "xpu",
		"RuntimeError: MPS backend out of memory (MPS allocated: 17.36 GB":                             "mps",
		"RuntimeError: [metal::malloc] Attempting to allocate 9 bytes which is greater than":           "mlx",
		"XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error.":                        "tpu",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.":                      "",
		"Memory_Allocation_Failure(EL0004): Failed to allocate memory.":                                "npu",
		"Memory access fault by GPU node-1 (Agent handle: 0x1b37) on address 0x7f76.":                  "hip",
		"RuntimeError: Native API failed. Native API returns: -1 (PI_ERROR_DEVICE_NOT_FOUND)":          "xpu",
	} {
		c := CluesIn([]string{line})
		if c.Device != want || c.own().name != want {
			t.Errorf("%s: %q, want %q", line, c.Device, want)
		}
		if unified := want == "mps" || want == "mlx"; c.Unified != unified {
			t.Errorf("%s: unified is %v", line, c.Unified)
		}
	}
	for _, line := range []string{"GPU 0: NVIDIA GB10 (UUID: GPU-1)", "NvMapMemAllocInternalTagged: 1075072515 error 12",
		"Orin (nvgpu)", "Linux tegra-ubuntu 5.15.0-1012-tegra-igx"} {
		if !CluesIn([]string{line}).Unified {
			t.Errorf("%s: not unified", line)
		}
	}
}

// No kind of card is given CUDA's names, whatever ended the program; each has its own.
func TestOwnNames(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"/w/train.py\", line 9, in main\n    loss.backward()\n"
	for _, tt := range []struct {
		device, text string
		want         []string
	}{
		{"npu", trace + "RuntimeError: NPU function error: call aclrtSynchronizeStream failed, error code is 507035\n",
			[]string{"env ASCEND_LAUNCH_BLOCKING=1", "$ npu-smi info"}},
		{"hip", trace + "RuntimeError: HIP error: an illegal memory access was encountered\n",
			[]string{"env AMD_SERIALIZE_KERNEL=3"}},
		{"hip", trace + "RuntimeError: HIP error: no kernel image is available for execution on the device\n",
			[]string{"PYTORCH_ROCM_ARCH"}},
		{"hip", trace + "torch.AcceleratorError: HIP error: out of memory\nSearch for `hipErrorOutOfMemory' in the docs\n",
			[]string{"$ rocm-smi"}},
		{"hip", "HW Exception by GPU node-6 (Agent handle: 0x8e8c4a0) reason :GPU Hang\nAborted (core dumped)\n",
			[]string{"$ rocm-smi; journalctl -k -g amdgpu"}},
		{"xpu", trace + "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)\n",
			[]string{"$ xpu-smi health -l"}},
		{"xpu", trace + "RuntimeError: Native API failed. Native API returns: -997 (a backend specific error)\n",
			[]string{"env UR_L0_SERIALIZE=2"}},
		{"xpu", trace + "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total " +
			"capacity of 15.11 GiB. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by " +
			"PyTorch but " +
			"unallocated.\n", []string{"env UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1", "15.1 GiB not told: free"}},
		{"npu", "(Worker pid=9) ERROR [v1/executor/multiproc_executor.py:824]   File " +
			"\"/p/vllm_ascend/worker/model_runner_v1.py\", line 2499, in _allocate\nRuntimeError: NPU out of memory. " +
			"Tried to allocate 2.57 GiB (NPU 0; 60.96 GiB total " +
			"capacity; 57.49 GiB already allocated; 1.96 GiB free; 57.62 GiB reserved in total by PyTorch)\n",
			[]string{"vllm --max-num-seqs", "captured graphs"}},
		{"", "NvMapMemAllocInternalTagged: 1075072515 error 12\n" + trace + "RuntimeError: NVML_SUCCESS == r INTERNAL " +
			"ASSERT FAILED at \"/opt/pytorch/c10/cuda/CUDACachingAllocator.cpp\":995\n", []string{"$ free -h"}},
		{"", "Device: NVIDIA GB10\nValueError: Free memory on device cuda:0 (101.3/121.69 GiB) on startup is less than " +
			"desired GPU memory utilization (0.87, 105.87 GiB).\n", []string{"$ free -h", "vllm --gpu-memory-utilization"}},
	} {
		d := reading(t, tt.text)
		c := CluesIn(d.Kept())
		text := told(d.Report(oom.Exited(1)), c)
		if c.Device != tt.device {
			t.Errorf("the device is %q, want %q, of:\n%s", c.Device, tt.device, tt.text)
		}
		for _, w := range tt.want {
			if !strings.Contains(text, w) {
				t.Errorf("it does not say %q:\n%s", w, text)
			}
		}
		for i, name := range []string{"nvidia-smi", "CUDA_VISIBLE", "CUDA_LAUNCH", "PYTORCH_CUDA", "TORCH_CUDA", "a CUDA ",
			"CUDA graphs", "compute-sanitizer"} {
			if (tt.device != "" || i < 2) && strings.Contains(text, name) {
				t.Errorf("it says %s:\n%s", name, text)
			}
		}
	}
}
