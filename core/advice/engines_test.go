package advice

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom"
)

// What helps has the names of whatever ran out, and leaves out what would not.
func TestOwnSettings(t *testing.T) {
	const (
		trace = "Traceback (most recent call last):\n  File \"/w/run.py\", line 9, in main\n    go(x)\n"
		step  = "activation checkpointing"
		sizes = "Tried to allocate 52.00 MiB. GPU 0 has a total capacity of 31.74 GiB of which 39.62 MiB is free. "
	)
	siblings := strings.Repeat("Process 7 has 1.19 GiB memory in use. ", 15)
	for name, tt := range map[string]struct {
		text string
		want []string
		not  string
	}{
		"vLLM, less free than its share": {trace + "ValueError: Free memory on device (59.32/79.15 GiB) on " +
			"startup is less " +
			"than desired GPU memory utilization (0.9, 71.24 GiB).\n", []string{"--gpu-memory-utilization 0.74"}, "--max-num"},
		"vLLM, the length that fits": {trace + "ValueError: To serve at least one request (4.11 GiB KV cache is needed, " +
			"which is larger than the available KV cache memory (4.0 GiB). Based on the available memory, the estimated " +
			"maximum model length is 127776.\n", []string{"--max-model-len 127776"}, step},
		"SGLang's graphs": {trace + "Exception: Capture cuda graph failed: CUDA out of memory. " + sizes + "\n  File " +
			"\"/p/sglang/srt/managers/scheduler.py\", line 9, in run\n", []string{"--mem-fraction-static 0.75"}, step},
		"llama.cpp's weights": {"load_tensors: loading model tensors\nggml_backend_cuda_buffer_type_alloc_buffer: " +
			"allocating " +
			"1448.04 MiB on device 0: cudaMalloc failed: out of memory\nmain: error: unable to load model\n",
			[]string{"-ngl (fewer)"}, "-ctk"},
		"a model named llama": {"[2026-03-04 05:06:07] llama_model: INFO: a decoder of 32 layers\n" + trace +
			"torch.OutOfMemoryError: CUDA out of memory. " + sizes + "\n", []string{step}, "-ngl"},
		"llama.cpp's context": {"llama_kv_cache: size = 4096.00 MiB\nllama_init_from_model: failed to initialize the " +
			"context: failed to allocate compute pp buffers\n", []string{"-ctk"}, step},
		"vLLM's workers": {"(RayWorkerWrapper pid=7) " + trace + "(RayWorkerWrapper pid=7) torch.OutOfMemoryError: CUDA " +
			"out of memory. " + sizes + "\n", []string{"--max-num-seqs"}, step},
		"a training beside vLLM": {"(EngineCore_DP0 pid=7) INFO the model is loaded\n" + began + call("/w/actor.py", "update",
			"loss.backward()") + call(library+"torch/_tensor.py", "backward", "torch.autograd.backward(") +
			"torch.OutOfMemoryError: CUDA out of memory. " + sizes + "\n", []string{step}, "--max-num-seqs"},
		"vLLM's core": {"(EngineCore_DP0 pid=7) INFO the model is loaded\n" + trace + "torch.OutOfMemoryError: CUDA out of " +
			"memory. " + sizes + "\n", []string{"--max-num-seqs"}, step},
		"ollama": {"Error: llama runner process has terminated: CUDA error: out of memory\n",
			[]string{"num_gpu", "OLLAMA_KV_CACHE_TYPE"}, step},
		"TGI": {"2026-03-04T05:06:07.1Z ERROR warmup:warmup: text_generation_client: lib.rs:33: Server error: Not enough " +
			"memory to handle 256 prefill tokens.\n", []string{"--num-shard 2"}, step},
		"text of transformers' generate": {began + call("/w/ask.py", "<module>", "out = model.generate(**x)") +
			call(library+"transformers/generation/utils.py", "generate", "self._sample(") +
			"torch.OutOfMemoryError: CUDA out of memory. " + sizes + "\n",
			[]string{`cache_implementation="offloaded"`, "fewer new tokens", `device_map="auto"`}, step},
		"text of another's generate": {began + call("/w/ask.py", "reply", "y = self._sharded_generate(") +
			"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory " +
			"in memory space hbm. Used 9.5G of 8.0G hbm. Exceeded hbm capacity by 1.5G.\n",
			[]string{"shorter prompts"}, step},
		"generate in a training": {began + call("/w/train.py", "train_one_epoch", "loss.backward()") +
			call(library+"torch/_tensor.py", "backward", "torch.autograd.backward(") +
			"torch.OutOfMemoryError: CUDA out of memory. " + sizes + "\n" +
			"    text = model.generate(**x)\n", []string{step}, "new tokens"},
		"pictures of diffusers": {began + call("/w/draw.py", "<module>", "image = pipe(words).images[0]") +
			call(library+"diffusers/pipelines/flux/pipeline_flux.py", "__call__", "self.vae.decode(z)") +
			"torch.OutOfMemoryError: CUDA out of memory. " + sizes + "\n",
			[]string{"pipe.vae.enable_tiling()", "pipe.enable_model_cpu_offload()"}, step},
		"ComfyUI": {"!!! Exception during processing !!! Allocation on device\n" + began + call("/w/execution.py", "execute",
			"out = work(x)") + call("/w/comfy/ldm/net.py", "forward", "y = block(x)") +
			"torch.OutOfMemoryError: Allocation on device\n", []string{"--lowvram"}, step},
		"a web page of pictures": {began + call("/w/stable-diffusion-webui/modules/call_queue.py", "f", "res = func(x)") +
			"torch.OutOfMemoryError: CUDA out of memory. " + sizes + "\n", []string{"--medvram"}, step},
		"embeddings": {began + call("/w/index.py", "<module>", "v = net.encode(texts)") +
			"torch.OutOfMemoryError: CUDA out of memory. " + sizes + "\n", []string{"fewer inputs at a time"}, step},
		"speech": {began + call("/w/hear.py", "<module>", "hear(x)") + call(library+"whisper/decoding.py", "decode", "f(x)") +
			"torch.OutOfMemoryError: CUDA out of memory. " + sizes + "\n", []string{"torch.inference_mode()"}, step},
		"weights of a pipeline": {began + call("/w/ask.py", "<module>", "ask = pipeline(task, device=0)") +
			call(library+"transformers/pipelines/base.py", "__init__", "self.model.to(self.device)") +
			call(library+"torch/nn/modules/module.py", "to", "return self._apply(convert)") +
			"torch.OutOfMemoryError: CUDA out of memory. " + sizes + "\n", []string{"sharded over cards"}, "inputs at a time"},
		"vLLM's cache": {trace + "ValueError: No available memory for the cache blocks. Try increasing " +
			"`gpu_memory_utilization`.\n", []string{"--kv-cache-dtype fp8", "0.95"}, step},
		"vLLM's steps": {"  File \"/p/vllm/v1/worker/gpu_worker.py\", line 9, in run\n" + trace + "torch.OutOfMemoryError: " +
			"CUDA out of memory. " + sizes + "\n", []string{"--max-num-seqs"}, "--kv-cache-dtype"},
		"vLLM on ROCm": {"INFO 03-02 08:32:01 [rocm.py:220] Using Triton Attention backend on V1 engine.\n" + trace +
			"ValueError: Free memory on device (10.5/64.0 GiB) on startup is less than desired GPU memory utilization (0.9, " +
			"57.6 GiB).\n", []string{"rocm-smi", "--gpu-memory-utilization 0.16"}, "nvidia-smi"},
		"llama.cpp on ROCm": {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 14136.04 MiB on device 0: cudaMalloc " +
			"failed: out of memory\nggml_gallocr_reserve_n: failed to allocate ROCm0 buffer of size 14822711296\n",
			[]string{"-ngl (fewer)"}, "nvidia-smi"},
		"vLLM, nothing free": {trace + "ValueError: Free memory on device (0.3/64.0 GiB) on startup is less than " +
			"desired GPU memory utilization (0.9, 57.6 GiB).\n", []string{"nvidia-smi"}, "vllm:"},
		"SGLang's cache": {trace + "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n",
			[]string{"--mem-fraction-static 0.9", "--kv-cache-dtype fp8_e4m3"}, step},
		"LightGBM's OpenCL": {"terminate called after throwing an instance of 'boost::wrapexcept<boost::compute::" +
			"opencl_error>'\n  what():  Memory Object Allocation Failure\n", []string{"device_type=cuda", "max_bin=63"},
			"two_round"},
		"LightGBM's CUDA": {"[LightGBM] [Fatal] [CUDA] out of memory /s/cuda_utils.cpp 23\n", []string{"max_bin=63"},
			"device_type=cuda"},
		"XGBoost's card": {trace + "xgboost.core.XGBoostError: [11:17:11] /w/device_vector.cu:23: Memory allocation error " +
			"on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory\n",
			[]string{"max_cached_hist_node", "QuantileDMatrix"}, "subsample"},
		"CuPy": {trace + "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 2,048 bytes (allocated so far: 4,096 " +
			"bytes).\n", []string{"MemoryPool(cupy.cuda.malloc_managed)"}, "free_all_blocks"},
		"Julia": {"ERROR: LoadError: Out of GPU memory trying to allocate 2.000 GiB\nEffective GPU memory usage: 99.0% " +
			"(7.9 GiB/8.0 GiB)\n", []string{"unsafe_free!"}, "reclaim"},
		"Ollama's host": {"Error: model requires more system memory (12.5 GiB) than is available (3.5 GiB)\n",
			[]string{"no model that needs more", "num_ctx"}, "ulimit"},
		"JAX on a CPU": {trace + "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating " +
			"20000000000 bytes.\n", []string{"jax.devices()"}, "ulimit"},
		"Ray's old monitor": {trace + "ray.memory_monitor.RayOutOfMemoryError: More than 95% of the memory on node n is " +
			"used (11.8 / 12.3 GB).\n", []string{"@ray.remote"}, "RAY_memory_usage_threshold"},
		"Torque's preemption": {"PBS Job Id: 7.h\njob deleted\njob preempted (node failure)\n", []string{"-r y"}, "sbatch"},
		"PBS's end of time": {"=>> PBS: job killed: walltime 3623 exceeded limit 3600\n", []string{"-l walltime"},
			"sbatch"},
		"LSF's end of time": {"TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n", []string{"-W HH:MM"},
			"sbatch"},
		"Slurm's end of time": {"slurmstepd: error: *** JOB 7 ON n CANCELLED AT 2026-03-02T09:09:37 DUE TO TIME LIMIT ***\n",
			[]string{"--time", "--signal=B:USR1"}, "walltime"},
		"Numba": {trace + "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in " +
			"CUDA_ERROR_OUT_OF_MEMORY\n", []string{"(del) before new ones"}, "deallocations"},
		"the driver's start": {trace + "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuInit results in " +
			"CUDA_ERROR_OUT_OF_MEMORY\n", []string{"could not start"}, "smaller parts"},
		"XGBoost's host": {trace + "xgboost.core.XGBoostError: std::bad_alloc\n", []string{"QuantileDMatrix"}, step},
		"LightGBM's host": {trace + "lightgbm.basic.LightGBMError: bad allocation\n", []string{"two_round=true"},
			step},
		"no training": {trace + "MemoryError\n", []string{"read in parts"}, step},
		"NCCL's buffers": {trace + "RuntimeError: NCCL error in: x.cpp:9, internal error\nLast error:\nFailed to " +
			"CUDA calloc " +
			"async 1920 bytes\n", []string{"NCCL_BUFFSIZE"}, "weights read"},
		"NCCL's segment": {"n1:97:183 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment " +
			"nccl-shm-recv-c4 (size 9)\n" + trace + "RuntimeError: NCCL error in: x.cpp:784, unhandled system error\n",
			[]string{"NCCL_SHM_DISABLE=1"}, "loader workers, a"},
		"a job's own ranks": {trace + "torch.OutOfMemoryError: CUDA out of memory. " + sizes + siblings + "Including " +
			"non-PyTorch memory, this process has 13.82 GiB memory in use.\n", []string{"set_device", "15 other"}, "itself"},
		"PBS's virtual memory": {"=>> PBS: job killed: vmem 3372163072 exceeded limit 2147483648\n",
			[]string{"-l vmem=3gb"}, "select"},
		"a machine's end": {"[7.1] " +
			"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task=python,pid=4,uid=2\n" +
			"[7.2] Out of memory: Killed process 4 (python) total-vm:9kB, anon-rss:8kB\n", []string{"more memory, or fewer"},
			"sbatch"},
		"a pod that used more": {"Message: The node was low on resource: memory. Container n was using " +
			"33554432Ki,\n  which " +
			"exceeds its request of 12Gi.\n", []string{"resources.limits.memory: 40Gi", "it used 32.0 GiB"}, "sbatch"},
		"Grid Engine's peak": {" Max vmem         = 64.0G\nfailed execd enforced h_vmem limit because:\n",
			[]string{"-l h_vmem=80G"}, "sbatch"},
		"an old TensorFlow": {"2019-01-04 14:16:00.8: W tensorflow/core/framework/op_kernel.cc:1318] OP_REQUIRES failed at " +
			"x.cc:1 : Resource exhausted: OOM when allocating tensor with shape[2,8] and type float on /device:GPU:0 by " +
			"allocator GPU_0_bfc\n", []string{step}, "mixed_bfloat16"},
		"Kaggle": {"Your notebook tried to allocate more memory than is available. It has restarted.\n",
			[]string{"a runtime with more memory"}, "sbatch"},
		"Spark": {"The executor with id 32 exited with exit code 137 (SIGKILL, possible container OOM).\n    " +
			"container name: " +
			"spark-kubernetes-executor\n", []string{"memoryOverhead"}, "loader workers"},
		"Ray's worker": {"(raylet) A worker died. There are some potential root causes. (1) The process is killed " +
			"by SIGKILL by " +
			"OOM killer.\nray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n",
			[]string{"/tmp/ray/session_latest"}, "torchrun"},
		"a loader's worker": {trace + "RuntimeError: DataLoader worker (pid(s) 77) exited unexpectedly\n",
			[]string{"num_workers=0"}, "torchrun"},
	} {
		d := reading(t, tt.text)
		text := told(d.Report(oom.Exited(1)), CluesIn(d.Kept()))
		for _, w := range tt.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: it does not say %q:\n%s", name, w, text)
			}
		}
		if strings.Contains(text, tt.not) {
			t.Errorf("%s: it says %q:\n%s", name, tt.not, text)
		}
	}
}
