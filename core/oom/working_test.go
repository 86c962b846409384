package oom

import "testing"

const (
	refusedHere = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity " +
		"of 15.90 GiB of\n"
	refusedHost = "RuntimeError: [enforce fail at alloc_cpu.cpp:100] err == 0. DefaultCPUAllocator: can't allocate " +
		"memory: you tried " +
		"to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)\n"
	paging = "OSError: [WinError 1455] The paging file is too small for this operation to complete.\n"
)

// A phased text is one of which only the phase is looked at.
type phased struct {
	name, text string
	want       Phase
}

func (p phased) check(t *testing.T) {
	t.Helper()
	t.Run(p.name, func(t *testing.T) {
		if r := reported(t, p.text); !r.OOM || r.Phase != p.want {
			t.Errorf("phase %s, want %s (%v): %s", r.Phase, p.want, r.OOM, r.Cause)
		}
	})
}

// TestFalsePhases: what stands within a training is not all of it a step of training.
func TestFalsePhases(t *testing.T) {
	start := began + call("run.py", "<module>", "training(opt)")
	train := start + call("run.py", "training", "scene = Scene(opt)")
	spawned := began + call(`C:\py\lib\multiprocessing\spawn.py`, "spawn_main", "exitcode = _main(fd, parent_sentinel)") +
		call(`C:\w\go.py`, "<module>", "import torch") + call(`C:\py\Lib\site-packages\torch\__init__.py`, "<module>",
		"raise err")
	fit := began + call("run.py", "<module>", "main()") + call("run.py", "train", "net.fit(x, y)") +
		call(library+"keras/utils/traceback_utils.py", "error_handler", "raise e") +
		call(library+"tensorflow/python/eager/execute.py", "quick_execute", "tensors = run()") +
		"tensorflow.errors.ResourceExhaustedError: Graph execution error:\n\nOOM when allocating tensor with shape[8,8] " +
		"and type " +
		"float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
	shards := "Loading checkpoint shards: 100%|████████| 3/3 [00:09<00:00]\n"
	state := call(library+"transformers/modeling_utils.py", "load_state_dict", "with safe_open(path) as f:")
	for _, p := range []phased{
		{"a constructor", train + call("scene.py", "__init__", "self.grid = zeros()") + refusedHere, Build},
		{"a constructor without its underscores", train + call("scene.py", "_init_", "self.grid = zeros()") + refusedHere,
			Build},
		{"what a constructor calls", train + call("scene.py", "__init__", "self.points.create_from_file(p)") +
			call("points.py", "create_from_file", "near = knn(p.cuda())") + refusedHere, Build},
		{"without a constructor", train + call("scene.py", "make_encoder", "w = zeros()") + refusedHere, Build},
		{"an object of a forward", start + call("run.py", "training", "y = net(x)") + call("net.py", "forward",
			"m = Mask(x)") +
			call("net.py", "__init__", "self.m = ones(x)") + refusedHere, TrainForward},
		{"weights that Transformers reads", began + state + refusedHere, Build},
		{"a file of them that is mapped", began + state + "RuntimeError: unable to mmap 5123456789 bytes from file " +
			"</m/encoder/model-00002-of-00004.safetensors>: Cannot allocate memory (12)\n", Build},
		{"weights that a trainer reads to go on", began + call("run.py", "resume", "load_sharded(model)") + state +
			refusedHere,
			Checkpoint},
		{"an import in a process that begins", spawned + paging, Unknown},
		{"a graph", fit, Unknown},
		{"a graph with its function", fit + "\t [[{{node conv}}]] [Op:__inference_train_function_88]\n", TrainForward},
		{"weights that were loaded", shards + refusedHere, Unknown},
		{"weights that are being loaded", "Loading checkpoint shards: 33%|███     | 1/3 [00:03<00:06]\n" + refusedHere,
			Build},
		{"a plan is no counter", "Batch size = 4 | Gradient Accumulation steps = 2\n" + refusedHere, Unknown},
	} {
		p.check(t)
	}
	if r := reported(t, shards+refusedHere); r.Part != "" {
		t.Errorf("part %s after the weights were loaded", r.Part)
	}
}

// TestMissingPhases: a loss below a training, and lines that build a set of data.
func TestMissingPhases(t *testing.T) {
	start := began + call("run.py", "<module>", "main()")
	ofMain := func(source string) string { return start + call("run.py", "main", source) + refusedHost }
	loss := func(outer string) string {
		return start + call("run.py", "main", "go()") + call("algo.py", outer, "l = self.contrastive_loss(z)") +
			call("algo.py", "contrastive_loss", "same = a == b") + refusedHost
	}
	for _, p := range []phased{
		{"a loss in a training", loss("train_encoder"), TrainForward},
		{"a loss in a validation", loss("validate"), Validation},
		{"a loss in neither", loss("work"), Unknown},
		{"a set for the training", ofMain("train_set = Pixels(torch.FloatTensor(all))"), Data},
		{"two of them", ofMain("x_train, x_test = split(x)"), Data},
		{"a Dataset", ofMain("d = ImageDataset(root)"), Data},
		{"NumPy's load", ofMain("a = np.load(path)"), Data},
		{"pandas", ofMain("df = pd.read_csv(path)"), Data},
		{"scikit-learn", ofMain("x = PCA(9).fit_transform(x)"), Data},
		{"a map over a tokenizer", ofMain("d = raw.map(tokenize, batched=True)"), Data},
		{"a set's constructor", start + call("datasets/flowers.py", "__init__", "self.all = np.load(p)") + refusedHost, Data},
		{"weights that NumPy reads", start + call("run.py", "load_model", "w = np.load(path)") + refusedHost, Build},
		{"a validation set's target", ofMain("val_y = read(path)"), Data},
		{"a network's name that begins like a set's", ofMain("train_yolo = Net(9)"), Unknown},
		{"a result of a training", ofMain("result = train(net)"), Unknown},
	} {
		p.check(t)
	}
}

// TestCutPhases: a paste that begins inside a traceback still has the line that tells the phase.
func TestCutPhases(t *testing.T) {
	for _, p := range []phased{
		{"inside a frame", "/env/lib/python3.9/site-packages/torch/nn/modules/module.py\", line 700, in convert\n" +
			"    return t.to(device)\n" + refusedHere, Build},
		{"below the last frame", "    Variable._execution_engine.run_backward(\n" + refusedHere, TrainBackward},
		{"below a loss", "    loss.backward()\n" + refusedHere, TrainBackward},
		{"a step of one's own", began + call("run.py", "<module>", "train_step()") +
			call("run.py", "train_step", "grid.optim_color_step(lr)") +
			call("grid.py", "optim_color_step", "n = self.index()") + refusedHere, Optimizer},
		{"JAX's state", began + call("train.py", "main", "state = init_train_state(config)") +
			call("train.py", "init_train_state", "params = model.init(key)") + refusedHere, Build},
		{"no source line", "loss.backward() is next\n" + refusedHere, Unknown},
		{"a frame that is not the first line", "log\nmodule.py\", line 700, in convert\n" + refusedHere, Unknown},
	} {
		p.check(t)
	}
}

// TestSkippedBatch: a program that reports which batch it skips has gone on.
func TestSkippedBatch(t *testing.T) {
	r := reported(t, "Skipping training batch 7 due to OOM error...\nEpoch 3: 12/40 loss: 0.5\n")
	if !r.OOM || r.Fatal {
		t.Errorf("out of memory %v, fatal %v: %s", r.OOM, r.Fatal, r.Cause)
	}
	if r := reported(t, "Skipping batch 7 due to its length\nEpoch 3: 12/40 loss: 0.5\n"); r.OOM {
		t.Errorf("a short batch is called %s", r.Cause)
	}
}

// TestNearestTells: what is nearer to a failure than the name of a phase: another library's step, a
// backward pass of what
// was computed, a module that comes and goes, another model, the program's own words.
func TestNearestTells(t *testing.T) {
	notebook := func(after string) string {
		return "OutOfMemoryError                          Traceback (most recent call last)\nCell In[4], line 27\n" +
			"     25 patch = blend(photo, mask)\n---> 27 worst = predict_raw(patch).max()\n" + after + "\n" +
			"File ~/sight/tools.py:47, in predict_raw(image)\n     46 # the picture as the net reads it\n" +
			"---> 47 return model(image).softmax(-1)\n\n" + asked2
	}
	engine := began + call("/home/u/tune.py", "main", "accelerator.backward(loss)") +
		call(library+"accelerate/utils/deepspeed.py", "backward", "self.engine.step()") +
		call(library+"deepspeed/runtime/engine.py", "_take_model_step", "self.optimizer.step()") +
		call(library+"torch/optim/adamw.py", "_init_group", "state[\"exp_avg\"] = torch.zeros_like(")
	step := began + call("/home/u/train.py", "train", "trainer.train()") +
		call(library+"torch/optim/adamw.py", "_init_group", "state[\"exp_avg\"] = torch.zeros_like(") + asked2
	moves := func(name string) string {
		return began + call("/home/u/tuner.py", name, "words = self.encode(text)") +
			call("/home/u/tuner.py", "encode", "self.parts.words.to(self.device)") +
			call(library+"torch/nn/modules/module.py", "_apply", "module._apply(fn)") +
			call(library+"torch/nn/modules/module.py", "convert", "return t.to(") + asked2
	}
	policy := func(source string) string {
		return began + call(library+"trl/ppo_trainer.py", "train", source) + forwarded + asked2
	}
	loop := func(words string) string {
		return "the training of epoch 1 is over\n110th batch. Loss: " +
			"1.293\n" + words + "\n" + began + call("/home/u/ages.py", "<module>", "y = model.forward(x)") +
			forwarded + asked2
	}
	theano := began + call("/home/u/exper.py", "validate", "cost = self.net.train(rows)") +
		call("/home/u/net.py", "train", "cost = sum(self.update(x) for x in rows)") +
		call(library+"theano/compile/function_module.py", "__call__", "outputs = self.fn()") +
		"MemoryError: Error allocating 531025920 bytes of device memory (out of memory).\n"
	for _, c := range []class{
		{name: "an engine's step below a backward", oom: true, fatal: true, phase: Optimizer,
			text: engine + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.05 GiB. GPU\n"},
		{name: "a debugger's message before the traceback", oom: true, fatal: true, phase: Optimizer,
			text: asked2 + "> /home/u/train.py(41)train()\n-> trainer.train()\n" + asked2 + step},
		{name: "a backward pass of it follows", oom: true, fatal: true, phase: TrainForward,
			text: notebook("     29 worst.backward()")},
		{name: "a backward pass of something else follows", oom: true, fatal: true, phase: Unknown,
			text: notebook("     29 total.backward()")},
		{name: "a module that comes and goes within a step", oom: true, fatal: true, phase: Unknown,
			text: moves("compute_loss")},
		{name: "a module that comes before any step", oom: true, fatal: true, phase: Build, text: moves("prepare")},
		{name: "the reference of a reinforcement", oom: true, fatal: true, phase: Unknown,
			text: policy("ref_output = forward(ref_policy, rows)")},
		{name: "the policy itself", oom: true, fatal: true, phase: TrainForward, text: policy("output = " +
			"forward(policy, rows)")},
		{name: "the program begins to test", oom: true, fatal: true, phase: Validation, text: loop("Start Testing")},
		{name: "it begins no test", oom: true, fatal: true, phase: TrainForward, text: loop("Start of epoch 2")},
		{name: "Theano's function", oom: true, fatal: true, kind: GPUUnspecified, phase: Unknown, text: theano},
		{name: "training to compare settings", oom: true, fatal: true, phase: TrainForward,
			text: began + call("/home/u/folds.py", "cross_validate", "net.fit(rows)") + call("/home/u/net.py", "fit",
				"y = self.forward(x)") + forwarded + asked2},
		{name: "Ray's report of its workers", oom: true, fatal: true, phase: Unknown, text: "Running validation\n(raylet) " +
			"node_manager.cc:3313: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed\n"},
	} {
		c.check(t)
	}
}
