package oom

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// A class is one way in which a text was misread, with texts that were written for it.
type class struct {
	name, text    string
	oom, possible bool
	fatal         bool
	kind          Kind  // "" : not compared
	phase         Phase // "" : not compared
}

func (c class) check(t *testing.T) {
	t.Helper()
	t.Run(c.name, func(t *testing.T) {
		r := reported(t, c.text)
		if r.OOM != c.oom || r.Possible != c.possible || r.Fatal != c.fatal {
			t.Errorf("oom %v, possible %v, fatal %v; want %v, %v, %v: %s", r.OOM, r.Possible, r.Fatal, c.oom, c.possible,
				c.fatal, r.Cause)
		}
		if c.kind != "" && r.Kind != c.kind {
			t.Errorf("kind %s, want %s: %s", r.Kind, c.kind, r.Cause)
		}
		if c.phase != "" && r.Phase != c.phase {
			t.Errorf("phase %s, want %s: %s", r.Phase, c.phase, r.Cause)
		}
		if !r.OOM && r.Confidence == Certain && strings.HasPrefix(string(r.Kind), "gpu") {
			t.Errorf("certain of no out-of-memory: %+v", r)
		}
	})
}

const (
	began   = "Traceback (most recent call last):\n"
	refused = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 10.76 GiB total capacity; 8.90 " +
		"GiB already allocated; " +
		"1.11 GiB free; 9.10 GiB reserved in total by PyTorch)\n"
	inMain = "  File \"/home/u/prog.py\", line 9, in main\n    work()\n"
	warned = "[W906 10:00:00.1 CUDACachingAllocator.cpp:3934] memory allocation failed with OOM on device 0 while " +
		"trying to allocate 1000341504 bytes (free: 916848640, total: 25243287552).\n"
	library = "/home/u/v/lib/python3.11/site-packages/"
)

// call is a frame of a traceback with its source line.
func call(path, name, source string) string {
	return "  File \"" + path + "\", line 7, in " + name + "\n    " + source + "\n"
}

var forwarded = call(library+"torch/nn/modules/module.py", "_call_impl", "return forward_call(*args, "+
	"**kwargs)") + call("/home/u/net.py", "forward", "y = self.conv(x)")

// TestAdviceProvesNothing: words about what may have been, and lists of causes.
func TestAdviceProvesNothing(t *testing.T) {
	for _, c := range []class{
		{name: "Ray's list, as it is now", fatal: true, kind: NoMemory, text: began + inMain +
			"ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n" +
			"The actor is dead because its worker process has died. Worker exit detail: connection error code 2. Some " +
			"common causes include: (1) the process was killed by the OOM killer " +
			"due to high memory usage, (2) it was stopped by hand, or (3) it crashed.\n"},
		{name: "a possible cause", fatal: true, kind: NoMemory, text: began + inMain + "RuntimeError: a worker is " +
			"gone. This may be because it was killed by the OOM killer.\n"},
		{name: "a list of causes", fatal: true, kind: NoMemory, text: "Possible reasons:\n  - the container was " +
			"OOMKilled\n  - out of memory on the GPU\n" + began + inMain + "ValueError: bad\n"},
		{name: "a banner", fatal: true, kind: NoMemory, text: "If a job of yours is killed by the OOM killer, ask for " +
			"more with --mem.\nsrun: error: n1: task 3: Exited with exit code 1\n"},
		{name: "help at the end of a good run", text: "epoch 2 loss 0.3\nTraining finished. If you see CUDA out of " +
			"memory, reduce the batch.\n"},
		{name: "a page", text: "## Trouble\n- When you get `RuntimeError: CUDA out of memory. Tried to allocate 2.00 " +
			"GiB (GPU 0; 8.00 GiB total capacity; 7.00 GiB already allocated)`, lower it.\n"},
		{name: "what Slurm says did happen", oom: true, fatal: true, kind: HostOOM, text: "Some of your processes may " +
			"have been killed by the cgroup out-of-memory handler.\n"},
		{name: "a full /dev/shm, as torch guesses it", oom: true, fatal: true, kind: SharedMemory,
			text: "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory " +
				"(shm).\n"},
		{name: "numbers are no advice", oom: true, fatal: true, kind: GPUCapacity, text: "It might be too large\n" +
			began + inMain + refused},
	} {
		c.check(t)
	}
}

// TestKilledWhileItEnds: workers that are killed while their program ends its work.
func TestKilledWhileItEnds(t *testing.T) {
	worker := "RuntimeError: DataLoader worker (pid 21) is killed by signal: Killed.\n"
	leaving := call("/usr/lib/python3.11/multiprocessing/util.py", "_run_finalizers", "finalizer()")
	over := "10/10 [00:10<00:00]\nTraining completed.\n"
	for _, c := range []class{
		{name: "after the end", oom: true, kind: HostOOM, text: over + began + leaving + worker},
		{name: "before it", oom: true, fatal: true, kind: HostOOM, text: "epoch 1 loss 0.5\n" + began + inMain + worker},
		{name: "in a validation after it", oom: true, fatal: true, kind: HostOOM, text: over + began +
			call("/home/u/prog.py", "validate", "for x in loader:") + worker},
		{name: "Ray's, after the end", oom: true, kind: HostOOM, text: over + "(raylet) 2 Workers (tasks / actors) " +
			"killed due to memory pressure (OOM), 0 Workers crashed due to other reasons\n"},
	} {
		c.check(t)
	}
}

// TestWeakIsPossible: `jq -e .oom` must not fire on a kill that nobody explains.
func TestWeakIsPossible(t *testing.T) {
	class{name: "torchrun before its table", possible: true, fatal: true, kind: HostOOM,
		text: "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 8) of " +
			"binary: /usr/bin/python3\n" + began +
			call("/home/u/v/bin/torchrun", "<module>", "sys.exit(main())") + call(library+"torch/distributed/run.py",
			"main", "run(args)")}.check(t)
	class{name: "another code", fatal: true, kind: NoMemory,
		text: "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 8) of " +
			"binary: /usr/bin/python3\n"}.check(t)
	var r Report
	if err := json.Unmarshal([]byte(`{"oom": true, "fatal": true, "kind": "host_oom", "confidence": "weak"}`),
		&r); err != nil || r.OOM || !r.Possible {
		t.Errorf("a record of an older launch: %v, %+v", err, r)
	}
}

// TestCutOff: a text that ends inside a traceback is of a program that failed.
func TestCutOff(t *testing.T) {
	frames := call("/home/u/prog.py", "<module>", "main()") + call(library+"some/engine.py", "start",
		"self.process.start()")
	for _, c := range []class{
		{name: "a traceback", fatal: true, kind: NoMemory, text: "epoch 1 loss 0.5\n" + began + frames},
		{name: "whose last frames would tell", fatal: true, phase: Unknown, text: began + call("/home/u/prog.py",
			"train", "self.call_hook('after_epoch')") + call("/home/u/hooks.py", "call_hook", "f()")},
		{name: "in a frame's line", fatal: true, kind: NoMemory, text: began + frames + "  File \"/home/u/v/li"},
		{name: "below a bar", fatal: true, text: "[>>>  ] 3/30, 3.1 task/s, ETA:    8sTraceback (most recent call " +
			"last):\n" + frames},
		{name: "in rich's box", fatal: true, text: "╭─── Traceback (most recent call last) ───╮\n│ /home/u/prog.py:17 " +
			"in <module>          │\n│ ❱ 17 │   main()                           │"},
		{name: "its first line alone", text: "epoch 1 loss 0.5\n" + began},
		{name: "a whole one that was logged", text: "WARNING cannot plot:\n" + began + frames + "ValueError: x\nepoch " +
			"2 loss 0.4\nepoch 3 loss 0.3\n", fatal: true},
		{name: "a notebook's", oom: true, fatal: true, text: "OutOfMemoryError                          Traceback " +
			"(most recent call last)\nCell In[7], line 1\n----> 1 trainer.fit()\n"},
		{name: "TensorFlow's state above it", oom: true, fatal: true, kind: GPUCapacity,
			text: "I tensorflow/core/common_runtime/bfc_allocator.cc:1010] Stats:\n" +
				"Limit:                  5511577600\nInUse:                  5511000000\nMaxInUse:               " +
				"5511204800\n" + began + frames},
		{name: "torch's warning above it", oom: true, fatal: true, kind: GPUCapacity, text: warned +
			"Process SpawnProcess-1:\n" + began + frames},
		{name: "and progress between", fatal: true, kind: NoMemory, text: warned + "step 1 loss 0.5\nstep 2 loss " +
			"0.4\nstep 3 loss 0.3\n" + began + frames},
		{name: "of a launcher", fatal: true, kind: NoMemory, text: began + call("/usr/bin/torchrun", "<module>",
			"sys.exit(main())")},
	} {
		c.check(t)
	}
	d := newDetector(t, job.Signs{})
	d.Write([]byte(began + frames))
	if r := d.Report(Exited(0)); r.Fatal {
		t.Errorf("with an exit of 0: %+v", r)
	}
}

// TestLaterLinesFlipNothing: what stands below a fatal traceback and is not about it.
func TestLaterLinesFlipNothing(t *testing.T) {
	trace := began + inMain + refused
	for name, below := range map[string]string{
		"a logger's own trouble": "wandb: WARNING retrying with batch upload\nwandb: Synced 5 files\n",
		"another's warning": "/usr/lib/x.py:3: UserWarning: no flash attention, falling back to plain " +
			"attention\n  warnings.warn(\n",
		"a person's words":  "\nI tried reducing the batch size to 1, it is the same.\n",
		"a person's advice": "```\nReducing batch size to 2 did not help. Switching to a smaller model works.\n",
		"another's comment": "\nann · comment · 2024-01-02\nDecreasing the batch size.\n",
	} {
		class{name: name, oom: true, fatal: true, kind: GPUCapacity, text: trace + below}.check(t)
	}
	class{name: "its own", oom: true, kind: GPUCapacity, text: trace + "Decreasing batch size to: 8\n"}.check(t)
}

// TestWords that name an out-of-memory.
func TestWords(t *testing.T) {
	const logged = "2026-01-02 03:04:05,678 sample 7 was not read\n" + began + inMain + "ValueError: not a sound\n"
	records := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf("2026-01-02 03:05:%02d,000 prepared part %d\n", i, i)
		}
		return text
	}
	for _, c := range []class{
		{name: "raylet", oom: true, fatal: true, kind: HostOOM, text: "(raylet) node_manager.cc:3064: 12 Workers " +
			"(tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons\n"},
		{name: "THC alone", oom: true, fatal: true, kind: GPUUnspecified, text: "THCudaCheck FAIL " +
			"file=/pytorch/aten/src/THC/THCGeneral.cpp line=58 error=2 : out of memory\n"},
		{name: "THC's other errors", text: "THCudaCheck FAIL file=/pytorch/aten/src/THC/THCGeneral.cpp line=405 " +
			"error=11 : invalid argument\nepoch 1 loss 0.5\n"},
		{name: "MXNet", oom: true, fatal: true, kind: GPUUnspecified, text: began + inMain + "mxnet.base.MXNetError: " +
			"[08:45:46] src/storage/./pooled_storage_manager.h:157: cudaMalloc failed: out of memory\n"},
		{name: "Caffe", oom: true, fatal: true, kind: GPUUnspecified, text: "F0903 14:31:26.1 924 syncedmem.cpp:56] " +
			"Check failed: error == cudaSuccess (2 vs. 0)  out of memory\n*** Check failure stack trace: ***\n"},
		{name: "Caffe's other checks", fatal: true, kind: NoMemory, text: "F0903 14:31:26.1 924 syncedmem.cpp:56] " +
			"Check failed: error == cudaSuccess (77 vs. 0)  an illegal memory access was encountered\n"},
		{name: "Dst tensor", oom: true, fatal: true, kind: GPUUnspecified, text: began + inMain +
			"tensorflow.python.framework.errors_impl.InternalError: Failed copying input tensor from CPU:0 to GPU:0: Dst " +
			"tensor is not initialized.\n"},
		{name: "AOT Inductor after a refusal", oom: true, fatal: true, kind: GPUCapacity, text: warned + began +
			inMain + "RuntimeError: aoti_torch_empty_strided(2, a, b) API call failed at aoti_runtime.h, line 80\n"},
		{name: "a mapping that failed", oom: true, fatal: true, kind: GPUCapacity, text: warned + began + inMain +
			"RuntimeError: CUDA driver error: device not ready\n"},
		{name: "the same alone", fatal: true, kind: NoMemory, text: began + inMain + "RuntimeError: CUDA driver " +
			"error: device not ready\n"},
		{name: "another failure after a refusal", fatal: true, kind: NoMemory, text: warned + began + inMain +
			"KeyError: 'x'\n"},
		{name: "refusals alone", text: warned + warned + "epoch 1 loss 0.5\n"},
		{name: "vLLM at its start", oom: true, fatal: true, kind: GPUContention, phase: Build, text: "(EngineCore_0 " +
			"pid=1) ERROR 09-28 15:47:24 [core.py:718] Traceback (most recent call last):\n" +
			"(EngineCore_0 pid=1) ERROR 09-28 15:47:24 [core.py:718]   File \"" + library +
			"vllm/v1/worker/gpu_worker.py\", line 180, in init_device\n" +
			"(EngineCore_0 pid=1) ERROR 09-28 15:47:24 [core.py:718] ValueError: Free memory on device (59.32/79.15 GiB) " +
			"on startup is less than desired GPU memory utilization (0.9, 71.24 GiB).\n"},
		{name: "hung up", fatal: true, kind: NoMemory, text: "Received 1 death signal, shutting down " +
			"workers\ntorch.distributed.elastic.multiprocessing.api.SignalException: Process 2411 got signal: 1\n"},
		{name: "Ctrl-C of torchrun", fatal: true, kind: NoMemory, text: "W0227 17:39:41 2938 " +
			"torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGINT death signal, shutting down workers\n"},
		{name: "Ctrl-C of DeepSpeed's launcher", fatal: true, kind: NoMemory,
			text: "{'loss': 0.7}\n[2026-01-02 03:04:05,678] " +
				"[INFO] [launch.py:319:sigkill_handler] Killing subprocess 71\n[2026-01-02 03:04:06,012] [INFO] " +
				"[launch.py:328:sigkill_handler] Main process received SIGINT, exiting\n"},
		{name: "SIGTERM by Paddle's launcher", fatal: true, kind: NoMemory, text: "LAUNCH INFO 2026-01-02 03:04:05,678 Pod " +
			"failed\nLAUNCH INFO 2026-01-02 03:04:05,679 Exit code -15\n"},
		{name: "records that go on", kind: NoMemory, text: logged + records(12) + "2026-01-02 04:00:00,000 loss: 11.706\n"},
		{name: "records of its end", fatal: true, kind: NoMemory, text: logged + records(3) +
			"2026-01-02 04:00:00,000 loss: 11.706\n"},
		{name: "a warning", oom: true, phase: Checkpoint, text: library +
			"torch/distributed/fsdp/_state_dict_utils.py:312: UserWarning: Failed to clone() tensor with name x. Error: " +
			"CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 8.00 GiB total capacity; 7.00 GiB already allocated)\n"},
	} {
		c.check(t)
	}
	if r := reported(t, warned+began+inMain+"RuntimeError: CUDA driver error: device not "+
		"ready\n"); r.Confidence != Likely || unit.Value(r.Requested) != 1000341504 || len(r.Evidence) != 2 {
		t.Errorf("what a refusal tells: %+v", r)
	}
	if r := reported(t, "Main process received SIGINT, exiting\n"); r.NotMemory != "interrupted" {
		t.Errorf("interrupted: %+v", r)
	}
	if r := reported(t, "Received 1 death signal, shutting down workers\n"); r.NotMemory != "terminated" ||
		!strings.Contains(r.Cause, "SIGHUP") {
		t.Errorf("hung up: %+v", r)
	}
}

// TestFullOfItself: nvidia-smi shows a full card, and only before a program has begun is it full of others.
func TestFullOfItself(t *testing.T) {
	smi := "| 58%   70C    P2    67W / 200W |   8108MiB /  8111MiB |     25%      Default |\n"
	for _, c := range []class{
		{name: "before it began", oom: true, fatal: true, kind: GPUContention, text: smi + "RuntimeError: CUDA error: " +
			"out of memory\n"},
		{name: "while it runs", oom: true, fatal: true, kind: GPUUnspecified,
			text: smi + "Epoch 1:   9%|#  | 1/11 [00:01<00:13,  1.33s/it]\nRuntimeError: CUDA error: out of memory\n"},
	} {
		c.check(t)
	}
}

// TestToldPhases: what tells a phase, and what does not.
func TestToldPhases(t *testing.T) {
	oom := "RuntimeError: CUDA error: out of memory\n"
	frame := func(c ...string) string { return began + strings.Join(c, "") + oom }
	main := call("/home/u/prog.py", "<module>", "main()")
	for name, tt := range map[string]struct {
		text string
		want Phase
	}{
		"a setting of a resume":    {"Resuming from checkpoint: False\n" + oom, Unknown},
		"a resume":                 {"Resuming from checkpoint: out/last.pt\n" + oom, Checkpoint},
		"settings of a validation": {"val_batch_size: 8\nevaluation_strategy: steps\n" + oom, Unknown},
		"a quantization": {frame(main, call("/home/u/gptq.py", "quantize", "y = layer(x)"), forwarded),
			Unknown},
		"an embedding": {frame(main, call(library+"sentence_transformers/SentenceTransformer.py",
			"encode", "out = self.forward(x)"), forwarded), Unknown},
		"a simulation": {frame(main, call("/home/u/sim.py", "simulate", "f = model(x)"), forwarded),
			Unknown},
		"any program": {frame(main, forwarded), Unknown},
		"a training": {frame(main, call("/home/u/prog.py", "train_epoch", "y = net(x)"),
			forwarded), TrainForward},
		"a loss": {frame(main, call("/home/u/prog.py", "main", "loss = net(x, y)"), forwarded),
			TrainForward},
		"a trained program":     {"epoch 1 loss 0.5\n" + frame(main, forwarded), TrainForward},
		"a rest of a traceback": {frame(forwarded), Unknown},
		"under no_grad, no training": {frame(main, call(library+"torch/utils/_contextlib.py", "decorate_context",
			"return f()"), forwarded), Unknown},
		"under no_grad, in a training": {"epoch 1 loss 0.5\n" + frame(main,
			call(library+"torch/utils/_contextlib.py", "decorate_context", "return f()"), forwarded), Validation},
		"validate": {frame(main, call("/home/u/prog.py", "validate", "s = s.clone()")), Validation},
		"one epoch of validation": {frame(main, call("/home/u/prog.py", "train", "v()"), call("/home/u/prog.py",
			"val_one_epoch", "l = net(x)"), forwarded), Validation},
		"generation in a step": {frame(call(library+"trl/trainer.py", "training_step", "g()"),
			call(library+"transformers/generation/utils.py", "generate", "self.s()"), forwarded), TrainForward},
		"a test of code": {frame(call("/home/u/test_net.py", "test_net", "y = net(x)")), Unknown},
		"a bar of validation": {"Epoch (train): 100% 32/32 [00:41<00:00, 2.39s/it, loss=0.8]\nEpoch " +
			"(valid):   3% 1/32 [00:01<00:46, 1.50s/it, loss=1.6]\n" + oom, Validation},
		"a bar of Lightning": {"Validating:  15%|#  | 51/343 [00:33<00:51, 2.1it/s]\n" + oom, Validation},
		"lines of an epoch": {"Epoch: [3][120/500]  Time 0.3  Loss 1.2\nEpoch: [3][130/500]  Time 0.3  " +
			"Loss 1.1\n" + oom, TrainForward},
		"a state that was saved": {"iter 3 step 1: loss 2.0\nSaving weights to out\nstep 3: Saved checkpoint out\n" + oom,
			TrainForward},
		"a validation that ended": {"Validating ...\nstep 3: val loss 2.2\n" + oom, Unknown},
		"a model that was loaded": {"Loading weights from a.bin\nModel loading took 3 s\n" + oom, Unknown},
		"an epoch that ended":     {"Epoch 3: 100%|##| 500/500 [10:00<00:00, 1.2it/s, loss=0.1]\n" + oom, Unknown},
		"a backward pass":         {"it failed in the backward pass:\n" + oom, TrainBackward},
		"an operation of Paddle": {"C++ Traceback (most recent call last):\n0   conv2d_grad_ad_func(...)\nOut " +
			"of memory error on GPU 0. Cannot allocate 1.2GB memory on GPU 0\n  [operator < conv2d_grad > error]\n",
			TrainBackward},
		"TensorFlow's test": {"ResourceExhaustedError: OOM when allocating tensor with shape[8,8] and " +
			"type float on /device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node m/conv/Relu}}]] " +
			"[Op:__inference_test_function_9]\n", Validation},
		"TensorFlow's training": {"ResourceExhaustedError: OOM when allocating tensor with shape[8,8] and " +
			"type float on /device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node m/conv/Relu}}]] " +
			"[Op:__inference_train_function_9]\n", TrainForward},
		"its gradients": {"ResourceExhaustedError: OOM when allocating tensor with shape[8,8] and " +
			"type float on /device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node gradient_tape/m/Conv2DBackpropFilter}}]] " +
			"[Op:__inference_train_function_9]\n", TrainBackward},
		"its variables": {"ResourceExhaustedError: OOM when allocating tensor with shape[8,8] and " +
			"type float on /device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node " +
			"dense/kernel/Initializer/random_uniform}}]]\n", Build},
		"a compiled step": {began + call("/home/u/prog.py", "main", "state = p_train_step(state, "+
			"batch)") + call(library+"jax/_src/api.py", "cache_miss", "f()") + "jaxlib.xla_extension.XlaRuntimeError: " +
			"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 740616652 bytes.\n", Unknown},
		"an optimizer of another maker": {frame(main, call("/home/u/prog.py", "train", "optimizer.step()"),
			call(library+"other/opt.py", "step", "torch.zeros_like(p)")), Optimizer},
		"a model onto the card": {frame(call("/home/u/prog.py", "<module>", "model.to(device)")), Build},
		"an engine's first look": {frame(call(library+"vllm/v1/worker/gpu_worker.py", "profile_run", "f()"),
			forwarded), Build},
		"a device's error": {began + call("/home/u/prog.py", "train_epoch", "loss.backward()") +
			"RuntimeError: CUDA error: an illegal memory access was encountered\n", Unknown},
		"an assertion on the device": {began + call("/home/u/prog.py", "train_epoch", "loss.backward()") +
			"RuntimeError: CUDA error: device-side assert triggered\n", Unknown},
		"an interrupt": {began + call("/home/u/prog.py", "train_epoch", "loss.backward()") +
			"KeyboardInterrupt\n", Unknown},
		"IPython's evaluation": {"OutOfMemoryError      Traceback (most recent call last)\nFile " +
			"/usr/lib/python3/dist-packages/transformers/trainer.py:2113, in Trainer.evaluate(self, x)\n-> 2113 output = " +
			"eval_loop(\nOutOfMemoryError: CUDA out of memory. Tried to allocate 8.08 GiB. GPU 0 has a total capacity " +
			"of 9.00 GiB of which 1.00 GiB is free.\n", Validation},
	} {
		t.Run(name, func(t *testing.T) {
			if r := reported(t, tt.text); r.Phase != tt.want || !r.Fatal {
				t.Errorf("%s, fatal %v: %s; want %s", r.Phase, r.Fatal, r.Cause, tt.want)
			}
		})
	}
}

// TestNamesLost: a page takes "<module>" for a tag, and a wrap takes any name; neither is guessed.
func TestNamesLost(t *testing.T) {
	oom := "RuntimeError: CUDA error: out of memory\n"
	page := began + "File \"/home/u/prog.py\", line 9, in\nwork()\n" + oom
	wrapped := began + inMain + "  File \"/home/u/net.py\", line 3, in\n" +
		call(library+"torch/nn/functional.py", "f", "y") + oom
	for text, want := range map[string]string{page: "prog.py:9 in <module>", wrapped: "prog.py:9 in main"} {
		if r := reported(t, text); r.Frame != want {
			t.Errorf("%q: %s, want %s", text, r.Frame, want)
		}
	}
}

// TestRetries: each line of an allocator that asks again is counted once, whatever prefix it has; not in a log file.
func TestRetries(t *testing.T) {
	d := newDetector(t, job.Signs{})
	var got []Retry
	d.OnRetry = func(r Retry) { got = append(got, r) }
	d.Stream(Stderr).Write([]byte(warned + "[rank1]:" + strings.Replace(warned, "allocation failed",
		"mapping failed", 1) + "memory allocation failed with OOM on device 0, somehow\n"))
	d.Stream(Log).Write([]byte(warned))
	if len(got) != 2 || got[0] != (Retry{1000341504, 916848640, 25243287552}) {
		t.Fatalf("%v", got)
	}
	var n Retries
	for _, r := range []Retry{{100 * unit.MiB, 60 * unit.MiB, unit.GiB}, {500 * unit.MiB, 120 * unit.MiB,
		unit.GiB}, {unit.MiB, 2 * unit.MiB, unit.GiB}} {
		n.Add(r)
	}
	if got := n.In("validation"); got != "3 times in validation, 380 MiB short" {
		t.Error(got)
	}
	n = Retries{}
	n.Add(Retry{1, 2, 3})
	if got := n.In(""); got != "once" {
		t.Error(got)
	}
}

// A card refuses a little less than it reports as free.
func TestLittleMoreWasFree(t *testing.T) {
	n := printed.Numbers{Requested: new(unit.Bytes(5 * unit.GiB)), Capacity: new(24 * unit.GiB),
		Free: new(unit.Bytes(5*unit.GiB + 100*unit.MiB)), Allocated: new(18 * unit.GiB), Reserved: new(18 * unit.GiB)}
	if kind, _ := gpuKind(&n); kind != GPUCapacity {
		t.Errorf("a little more than it asked for was free: %s", kind)
	}
}
